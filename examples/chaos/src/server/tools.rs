//! What the tools do. Each puts its steps where a fault can hurt in another way.

use std::time::Duration;

use mrtr_server::{Answer, Args, DurableFlow, FlowIn, Form, ServerBuilder, State, ToolError, tool};
use tokio::time::{sleep, timeout};

use crate::catalogue::{Arguments, Choice, Said, Tool};
use crate::server::record::{Book, Order};
use crate::server::shelf::Shelf;

/// What is noted in place of a step where a body panics.
pub(crate) const PANIC: &str = "(panic)";

/// Puts the tools on a server.
pub(crate) fn all<L: Shelf>(server: ServerBuilder, book: Book) -> ServerBuilder {
    let server = server.state(book);
    Tool::ALL.into_iter().fold(server, |server, which| {
        let name = which.name();
        server.tool(match which {
            Tool::Pay => tool(name, pay),
            Tool::Pair => tool(name, pair),
            Tool::Stages => tool(name, stages),
            Tool::Quote => tool(name, quote),
            Tool::Eager => tool(name, eager),
            Tool::Hasty => tool(name, hasty),
            Tool::Again => tool(name, again).run_again(),
            Tool::Book => tool(name, booked::<L>).run_again(),
        })
    })
}

async fn pay(
    Args(call): Args<Arguments>,
    flow: DurableFlow,
    State(book): State<Book>,
) -> Result<String, ToolError> {
    let mut body = Body::new(call, &flow, &book);
    if body.asks("confirm").await {
        body.works().await;
        body.takes("pay").await?;
    }
    Ok(body.said.to_text())
}

async fn pair(
    Args(call): Args<Arguments>,
    flow: DurableFlow,
    State(book): State<Book>,
) -> Result<String, ToolError> {
    let mut body = Body::new(call, &flow, &book);
    if body.asks("confirm").await {
        body.works().await;
        body.takes("reserve").await?;
        body.takes_and_may_fail("charge").await?;
    }
    Ok(body.said.to_text())
}

async fn stages(
    Args(call): Args<Arguments>,
    flow: DurableFlow,
    State(book): State<Book>,
) -> Result<String, ToolError> {
    let mut body = Body::new(call, &flow, &book);
    if body.asks("first").await {
        body.works().await;
        body.takes("first").await?;
        if body.asks("second").await {
            body.takes_and_may_fail("second").await?;
        }
    }
    Ok(body.said.to_text())
}

async fn quote(
    Args(call): Args<Arguments>,
    flow: DurableFlow,
    State(book): State<Book>,
) -> Result<String, ToolError> {
    let mut body = Body::new(call, &flow, &book);
    // Another one whenever it is computed: what was shown is what is charged, or somebody notices.
    let price = flow.memo("price", async || fastrand::u32(..)).await;
    body.said.price = Some(price);
    let ballast = body.call.ballast;
    let kept = flow
        .memo("ballast", async || "x".repeat(ballast as usize))
        .await;
    if kept.len() != ballast as usize {
        return Err(ToolError::text("The ballast has shifted."));
    }
    if body.asks("confirm").await {
        body.works().await;
        body.takes("pay").await?;
    }
    Ok(body.said.to_text())
}

async fn eager(
    Args(call): Args<Arguments>,
    flow: DurableFlow,
    State(book): State<Book>,
) -> Result<String, ToolError> {
    let mut body = Body::new(call, &flow, &book);
    body.takes("hold").await?;
    if body.asks("confirm").await {
        body.works().await;
        body.takes("pay").await?;
    }
    Ok(body.said.to_text())
}

async fn hasty(
    Args(call): Args<Arguments>,
    flow: DurableFlow,
    State(book): State<Book>,
) -> Result<String, ToolError> {
    let patience = Duration::from_millis(call.patience.into());
    let mut body = Body::new(call, &flow, &book);
    if body.asks("first").await {
        match timeout(patience, body.takes("pay")).await {
            Ok(taken) => taken?,
            // Whether it was paid is not known any more, unless it was not even begun.
            Err(_) => book.cut(body.call.flow, "pay")?,
        }
        body.asks("second").await;
    }
    Ok(body.said.to_text())
}

async fn again(
    Args(call): Args<Arguments>,
    flow: DurableFlow,
    State(book): State<Book>,
) -> Result<String, ToolError> {
    let mut body = Body::new(call, &flow, &book);
    if body.asks("confirm").await {
        // Computed in the retry: a run that takes over has nothing but the ledger to know it from.
        let price = flow.memo("price", async || fastrand::u32(..)).await;
        body.said.price = Some(price);
        body.works().await;
        body.takes("reserve").await?;
        body.panics_or_not()?;
        body.takes("charge").await?;
    }
    Ok(body.said.to_text())
}

async fn booked<L: Shelf>(
    Args(call): Args<Arguments>,
    flow: FlowIn<L>,
    State(book): State<Book>,
) -> Result<String, ToolError> {
    let mut body = Body::new(call, &flow, &book);
    if body.asks("first").await {
        let price = flow.memo("price", async || fastrand::u32(..)).await;
        body.said.price = Some(price);
        body.works().await;
        body.takes_in(&flow, "reserve").await?;
        body.panics_or_not()?;
        if body.asks("second").await {
            body.works().await;
            body.takes_in(&flow, "charge").await?;
        }
    }
    Ok(body.said.to_text())
}

/// A body that runs: what it was called with, and what it can say so far.
struct Body<'a> {
    call: Arguments,
    flow: &'a DurableFlow,
    book: &'a Book,
    said: Said,
}

impl<'a> Body<'a> {
    fn new(call: Arguments, flow: &'a DurableFlow, book: &'a Book) -> Self {
        Self {
            call,
            flow,
            book,
            said: Said::default(),
        }
    }

    /// Asks with everything that was said so far in the message. False: the person does not want it.
    async fn asks(&mut self, key: &'static str) -> bool {
        let question = Form::<Choice>::new(self.said.to_text());
        match self.flow.ask(key, question).await {
            Answer::Accept(Choice { pick }) => {
                self.said.pick = Some(pick);
                true
            }
            Answer::Decline | Answer::Cancel => false,
        }
    }

    /// What a body does after a panic hangs on nothing that the one before it knew, so this may be drawn.
    fn panics_or_not(&self) -> Result<(), ToolError> {
        if fastrand::u8(..100) < self.call.panics {
            self.book.cut(self.call.flow, PANIC)?;
            panic!("as it was drawn");
        }
        Ok(())
    }

    async fn works(&self) {
        pause(self.call.before).await;
    }

    /// A step in the ledger's own database.
    async fn takes_in<L: Shelf>(
        &mut self,
        flow: &FlowIn<L>,
        step: &'static str,
    ) -> Result<(), ToolError> {
        let entry = self.book.entry(self.order(step));
        let entry = flow.once_in(step, move |tx| L::write(tx, entry)).await?;
        self.said.steps.insert(step.to_owned(), entry);
        Ok(())
    }

    fn order(&self, step: &'static str) -> Order {
        Order {
            flow: self.call.flow,
            step,
            pick: self.said.pick,
            price: self.said.price,
        }
    }

    async fn takes(&mut self, step: &'static str) -> Result<(), ToolError> {
        self.step(step, false).await
    }

    async fn takes_and_may_fail(&mut self, step: &'static str) -> Result<(), ToolError> {
        self.step(step, self.call.fails).await
    }

    async fn step(&mut self, step: &'static str, fails: bool) -> Result<(), ToolError> {
        let order = self.order(step);
        let Self {
            call, book, said, ..
        } = &*self;
        let entry = self
            .flow
            .once(step, async || {
                pause(call.inside).await;
                let entry = book.perform(order).await?;
                pause(call.after).await;
                if fails {
                    let mut said = said.clone();
                    said.steps.insert(step.to_owned(), entry);
                    return Err(ToolError::text(said.to_text()));
                }
                Ok(entry)
            })
            .await?;
        self.said.steps.insert(step.to_owned(), entry);
        Ok(())
    }
}

async fn pause(millis: u32) {
    sleep(Duration::from_millis(millis.into())).await;
}
