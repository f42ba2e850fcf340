//! Building a server: what it is given, and what it refuses to start without.

use std::fmt;
use std::sync::Arc;

use mrtr_ledger::Ledger;
use mrtr_protocol::{Icon, Implementation};
use mrtr_state::{Clock, Envelope, Purpose, StateCodec, SystemClock};
use thiserror::Error;
use tokio_util::task::TaskTracker;

use crate::auth::{Anonymous, Authenticator};
use crate::caching::ListCaching;
use crate::catalogue::{Catalogue, Provisions, SHORTEST, check_icons};
use crate::changes::Changes;
use crate::extract::States;
use crate::flow::outcome::Outcomes;
use crate::http::gate::Gate;
use crate::hub::Hub;
use crate::limits::Limits;
use crate::prompt::Prompt;
use crate::resource::Resource;
use crate::server::{Durability, Inner, Server};
use crate::stored_codec::{ServerCodec, StoredSizes, parts};
use crate::tool::Tool;

/// Builds a [`Server`]; made by [`Server::builder`].
#[must_use = "a builder does nothing until `build` is called"]
pub struct ServerBuilder {
    info: Implementation,
    instructions: Option<String>,
    audience: Option<Arc<str>>,
    codec: Option<Arc<dyn StateCodec>>,
    stored: Option<StoredSizes>,
    ledger: Option<Arc<dyn Ledger>>,
    authenticator: Option<Arc<dyn Authenticator>>,
    clock: Arc<dyn Clock>,
    limits: Limits,
    gate: Gate,
    caching: ListCaching,
    page_size: usize,
    opaque_rejections: bool,
    modern_only: bool,
    announces: bool,
    states: States,
    tools: Vec<Tool>,
    prompts: Vec<Prompt>,
    resources: Vec<Resource>,
    opt_outs: OptOuts,
}

#[derive(Debug, Clone, Copy, Default)]
struct OptOuts {
    question_digest_ignored: bool,
    forgetful_ledger: bool,
}

/// Why a server does not start. The message names the handler and the builder call that is missing.
#[derive(Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A handler takes a `Flow`, and there is no codec to seal its state.
    #[error(
        "{handler} takes a `Flow` or `DurableFlow`, which seals state: give the builder a codec with `.codec(..)`"
    )]
    NoCodec {
        /// The handler: tool, prompt or resource, and its name.
        handler: String,
    },
    /// A handler takes a `DurableFlow`, and there is no ledger.
    #[error(
        "{handler} takes a `DurableFlow`, which records each step: give the builder a ledger with `.ledger(..)`"
    )]
    NoLedger {
        /// The handler: tool, prompt or resource, and its name.
        handler: String,
    },
    /// A handler takes a `FlowIn<L>`, whose effects are in the database of a ledger of type `L`, and the ledger is another.
    #[error(
        "{handler} takes a `FlowIn<{wanted}>`, whose effects are in that ledger's database, and the builder was given a `{given}`: give it the one that the handler acts in with `.ledger(..)`, or take a `DurableFlow`"
    )]
    OtherLedger {
        /// The handler: tool, prompt or resource, and its name.
        handler: String,
        /// The type of ledger that it acts in.
        wanted: &'static str,
        /// What the builder's ledger calls itself.
        given: String,
    },
    /// A handler takes `Changes`, and clients were not told that any are announced.
    #[error(
        "{handler} takes `Changes`, of which clients must know: tell them with `.announces_changes()`"
    )]
    NoChanges {
        /// The handler: tool, prompt or resource, and its name.
        handler: String,
    },
    /// A handler takes a `State<T>` that the builder was not given.
    #[error("{handler} takes `State<{state}>`: give the builder one with `.state(..)`")]
    NoState {
        /// The handler: tool, prompt or resource, and its name.
        handler: String,
        /// The type that is looked up.
        state: &'static str,
    },
    /// The keys outlive the process and the ledger does not.
    #[error(
        "the codec's keys are configured and outlast a restart, but the ledger forgets: a state that was used before a restart could be used again after it. Give the builder a ledger that lasts with `.ledger(..)`, or say `.dangerous().allow_forgetful_ledger()`"
    )]
    ForgetfulLedger,
    /// Nobody says who is calling.
    #[error(
        "nobody says who is calling: give the builder an authenticator with `.authenticator(..)`, or let everybody in with `.allow_anonymous()` (a state is then good for whoever holds it)"
    )]
    NoAuthenticator,
    /// State is bound to a server, and this one has no identity.
    #[error(
        "the server seals state but has no identity to bind it to: name it with `.audience(\"https://..\")`; all instances of one service use the same"
    )]
    NoAudience,
    /// Outcomes are kept under keys of the codec, and states are what is recorded.
    #[error(
        "the builder was given a ledger but no codec, so that there is nothing to record: give it one with `.codec(..)`, or leave the ledger out"
    )]
    LedgerWithoutCodec,
    /// Journals are to be stored, and there is nowhere to store them.
    #[error(
        "the codec is a `StoredCodec`, which keeps large journals in the ledger: give the builder a ledger with `.ledger(..)`, or give it the inner codec alone"
    )]
    StoredCodecWithoutLedger,
    /// Sizes of a `StoredCodec` that cannot be kept to.
    #[error("the `StoredCodec` {0}")]
    StoredCodecSizes(String),
    /// Two tools, prompts or resources of one name or URI.
    #[error("there are two of {0}: names must be unique within a server")]
    Duplicate(String),
    /// A name that clients and headers may not carry.
    #[error(
        "`{0}` is not a name for a tool or prompt: use 1 to 128 characters of A-Z, a-z, 0-9, `_`, `-` and `.`"
    )]
    Name(String),
    /// A handler that cannot be served as it is written.
    #[error("{handler}: {fault}")]
    Handler {
        /// The handler: tool, prompt or resource, and its name.
        handler: String,
        /// What is wrong with it.
        fault: String,
    },
    /// What the server says of itself is not what clients take.
    #[error("the server's description of itself: {0}")]
    Description(String),
    /// A limit that makes no sense.
    #[error("limit `{0}` must be more than zero, and a time at least one millisecond")]
    ZeroLimit(&'static str),
}

/// The message: a `main` that returns the error prints this, and an operator needs more of it than a variant's name.
impl fmt::Debug for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl ServerBuilder {
    pub(crate) fn new(info: Implementation) -> Self {
        Self {
            info,
            instructions: None,
            audience: None,
            codec: None,
            stored: None,
            ledger: None,
            authenticator: None,
            clock: Arc::new(SystemClock),
            limits: Limits::default(),
            gate: Gate::default(),
            caching: ListCaching::default(),
            page_size: usize::MAX,
            opaque_rejections: false,
            modern_only: false,
            announces: false,
            states: States::default(),
            tools: Vec::new(),
            prompts: Vec::new(),
            resources: Vec::new(),
            opt_outs: OptOuts::default(),
        }
    }

    /// Adds a tool; they are listed in this order.
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Adds a prompt; they are listed in this order.
    pub fn prompt(mut self, prompt: Prompt) -> Self {
        self.prompts.push(prompt);
        self
    }

    /// Adds a resource or a template; they are listed in this order.
    pub fn resource(mut self, resource: Resource) -> Self {
        self.resources.push(resource);
        self
    }

    /// Shared state, looked up by type with [`State`](crate::State). Cloned for each call, so usually an `Arc` or a handle.
    pub fn state<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.states.insert(value);
        self
    }

    /// Seals state with this codec. All instances of one service need the same keys.
    ///
    /// With a [`StoredCodec`](crate::StoredCodec) around it, what a flow remembers goes into the ledger where it is large.
    pub fn codec(mut self, codec: impl ServerCodec) -> Self {
        let (codec, stored) = parts(codec);
        self.codec = Some(codec);
        self.stored = stored;
        self
    }

    /// Makes each sealed state good for one answer, and `once` possible. All instances of one service need the same
    /// ledger. Without one, a state can be used again within its lifetime.
    pub fn ledger(mut self, ledger: impl Ledger) -> Self {
        self.ledger = Some(Arc::new(ledger));
        self
    }

    /// The server's identity, to which state is bound: usually its public URL. All instances of one service use the same.
    pub fn audience(mut self, audience: impl Into<Arc<str>>) -> Self {
        self.audience = Some(audience.into());
        self
    }

    /// Says who is calling.
    pub fn authenticator(mut self, authenticator: impl Authenticator) -> Self {
        self.authenticator = Some(Arc::new(authenticator));
        self
    }

    /// Everybody may call, and nobody is told apart: a sealed state is then good for whoever holds it, like a bearer token.
    ///
    /// Limits of anonymous callers count per address, which is that of the proxy where there is one, and one for all where
    /// the server is mounted without connection info ([`Server::router`]).
    pub fn allow_anonymous(mut self) -> Self {
        self.authenticator = Some(Arc::new(Anonymous));
        self
    }

    /// The server's name for people; [`Server::builder`] takes the programmatic one.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.info.title = Some(title.into());
        self
    }

    /// What the server is for, for people. What the model should know is [`instructions`](Self::instructions).
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.info.description = Some(description.into());
        self
    }

    /// Where people read more.
    pub fn website_url(mut self, url: impl Into<String>) -> Self {
        self.info.website_url = Some(url.into());
        self
    }

    /// Adds a picture of the server: an `https:` URL of its own origin, or a `data:` URI. It is sent with every result, so that
    /// a short one is the better one.
    ///
    /// Specification: `basic/index`, "`icons`".
    pub fn icon(mut self, icon: Icon) -> Self {
        self.info.icons.push(icon);
        self
    }

    /// For the model: how to use this server.
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.instructions = Some(instructions.into());
        self
    }

    /// Changes the limits.
    ///
    /// ```
    /// # use mrtr_server::Server;
    /// # use std::time::Duration;
    /// let builder = Server::builder("shop", "1.0.0")
    ///     .limits(|limits| limits.lifetime = Duration::from_secs(60));
    /// # let _ = builder;
    /// ```
    pub fn limits(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        change(&mut self.limits);
        self.limits = self.limits.within_reason();
        self
    }

    /// Lists come in pages of so many entries; without this each is one page. Cursors need nothing on the server: they are good
    /// on every instance, and after a restart for as long as the entry that they stand behind is there.
    ///
    /// Some clients read the first page alone: do not page what they should see.
    ///
    /// Specification: `server/utilities/pagination`.
    pub fn page_size(mut self, entries: usize) -> Self {
        self.page_size = entries;
        self
    }

    /// Changes the hints for caches of lists and discovery. Those of what a resource holds are
    /// [`Resource::caching`](crate::Resource::caching).
    ///
    /// ```
    /// # use mrtr_server::{Caching, Server};
    /// # use std::time::Duration;
    /// let builder = Server::builder("shop", "1.0.0")
    ///     .caching(|lists| lists.tools = Caching::private(Duration::from_secs(5)));
    /// # let _ = builder;
    /// ```
    ///
    /// Specification: `server/utilities/caching`.
    pub fn caching(mut self, change: impl FnOnce(&mut ListCaching)) -> Self {
        change(&mut self.caching);
        self
    }

    /// The clock; the system's by default.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Serves requests whose `Host` is this name, with any port. `localhost`, `127.0.0.1` and `[::1]` are served without
    /// being named, until the first name is given: a public service does not answer to loopback names.
    ///
    /// Specification: `basic/transports/streamable-http`, "Security & Endpoint".
    pub fn allow_host(mut self, host: impl Into<String>) -> Self {
        self.gate.allow_host(host.into());
        self
    }

    /// Lets requests in that carry this `Origin`, such as `https://app.example`. Pages of the server's own origin are let in
    /// without being named; all others get 403.
    ///
    /// A browser asks before it sends such a page's request, by CORS: it is told yes, before authentication, for every header that
    /// it asks for, and the page may read the answers. Credentials that a browser sends by itself (cookies) are not asked for: a
    /// page brings its token in `Authorization`.
    ///
    /// Specification: `basic/transports/streamable-http`, "Security & Endpoint".
    pub fn allow_origin(mut self, origin: impl Into<String>) -> Self {
        self.gate.allow_origin(origin.into());
        self
    }

    /// The same for every `Origin` of which this returns true, beside those that were named: for origins that come and go while the
    /// server runs. It is given the header in lower case, `null` and nonsense included, and is asked for each request, so
    /// it must be quick.
    ///
    /// ```
    /// # use mrtr_server::Server;
    /// let builder = Server::builder("clock", "1.0.0")
    ///     .allow_origins(|origin| origin.strip_prefix("https://").is_some_and(|host| host.ends_with(".app.example")));
    /// # let _ = builder;
    /// ```
    pub fn allow_origins(mut self, allowed: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.gate.allow_origins(Box::new(allowed));
        self
    }

    /// Makes every rejection of a state read the same, byte for byte; the reason goes to the log alone.
    pub fn opaque_rejections(mut self) -> Self {
        self.opaque_rejections = true;
        self
    }

    /// Serves revision 2026-07-28 alone. Otherwise clients of 2025-11-25, 2025-06-18 and 2025-03-26 are served by the same handlers, at
    /// the same URL: they open sessions, which this process holds, and their calls stay open while a person thinks.
    pub fn modern_only(mut self) -> Self {
        self.modern_only = true;
        self
    }

    /// Tells clients that changes of lists and resources are announced, and lets them subscribe: `listChanged` and `subscribe` among
    /// the capabilities, `subscriptions/listen`, and in the earlier era `resources/subscribe`. Announce them with
    /// [`Changes`](crate::Changes).
    ///
    /// Not on by itself: a client that may subscribe does, and each subscription over HTTP holds a connection. A server that never
    /// announces anything should not ask for that.
    ///
    /// Specification: `basic/patterns/subscriptions`.
    pub fn announces_changes(mut self) -> Self {
        self.announces = true;
        self
    }

    /// Switches protections off, by name.
    pub fn dangerous(self) -> Dangerous {
        Dangerous { builder: self }
    }

    /// Checks that every handler has what it needs.
    ///
    /// # Errors
    ///
    /// [`BuildError`] names what is missing and the call that gives it.
    pub fn build(mut self) -> Result<Server, BuildError> {
        check_limits(&self.limits)?;
        check_info(&self.info)?;
        if self.page_size == 0 {
            return Err(BuildError::ZeroLimit("page_size"));
        }
        let hub = Hub::default();
        if self.announces {
            self.states.insert(Changes::new(hub.clone()));
        }
        let authenticator = self.authenticator.ok_or(BuildError::NoAuthenticator)?;
        let provisions = Provisions {
            codec: self.codec.is_some(),
            ledger: self.ledger.as_deref(),
            announces: self.announces,
            states: &self.states,
            limits: &self.limits,
        };
        let mut catalogue = Catalogue::default();
        for tool in self.tools {
            catalogue.add_tool(tool, &provisions)?;
        }
        for prompt in self.prompts {
            catalogue.add_prompt(prompt, &provisions)?;
        }
        for resource in self.resources {
            catalogue.add_resource(resource, &provisions)?;
        }
        if let (Some(codec), Some(ledger)) = (&self.codec, &self.ledger)
            && codec.keys_are_lasting()
            && !ledger.survives_restart()
            && !self.opt_outs.forgetful_ledger
        {
            return Err(BuildError::ForgetfulLedger);
        }
        let audience = match (&self.codec, self.audience) {
            (Some(_), None) => return Err(BuildError::NoAudience),
            (_, audience) => audience.unwrap_or_default(),
        };
        let envelope = self.codec.as_ref().map(|codec| {
            let limits = mrtr_state::Limits {
                max_len: self.limits.state,
                skew: self.limits.skew,
            };
            let audience = Arc::clone(&audience);
            Envelope::new(codec.as_ref(), Purpose::REQUEST_STATE, audience).with_limits(limits)
        });
        if let Some(sizes) = self.stored {
            sizes.check(&self.limits, self.ledger.is_some())?;
        }
        let durability = match (&self.codec, self.ledger) {
            (None, Some(_)) => return Err(BuildError::LedgerWithoutCodec),
            (Some(codec), Some(ledger)) => {
                let codec = codec.as_ref();
                let outcomes = Outcomes::new(codec, &Purpose::STORED_OUTCOME);
                let journals = Outcomes::new(codec, &Purpose::STORED_JOURNAL);
                let audience = Arc::clone(&audience);
                Some(Durability::new(ledger, outcomes, journals, audience))
            }
            (_, None) => None,
        };
        let catalogue_sends = catalogue.sends;
        Ok(Server::new(Inner {
            info: self.info,
            instructions: self.instructions,
            capabilities: catalogue.capabilities(self.announces),
            envelope,
            durability,
            stored: self.stored,
            authenticator,
            clock: self.clock,
            limits: self.limits,
            gate: self.gate,
            caching: self.caching,
            page_size: self.page_size,
            opaque_rejections: self.opaque_rejections,
            bind_questions: !self.opt_outs.question_digest_ignored,
            states: self.states,
            catalogue,
            tasks: closed_tracker(),
            running: Default::default(),
            earlier_era: !self.modern_only,
            sessions: Default::default(),
            sends: catalogue_sends,
            pace: Default::default(),
            announces: self.announces,
            hub,
        }))
    }
}

impl fmt::Debug for ServerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerBuilder")
            .field("info", &self.info)
            .field("codec", &self.codec)
            .field("ledger", &self.ledger)
            .field("tools", &self.tools)
            .finish_non_exhaustive()
    }
}

/// Protections that can be switched off, each by its name. For tests and for those who know what replaces them.
#[derive(Debug)]
#[must_use = "nothing is switched off until one of its methods is called"]
pub struct Dangerous {
    builder: ServerBuilder,
}

impl Dangerous {
    /// An accepted answer counts for its key, whatever was asked when it was given: the price may have changed since.
    pub fn ignore_question_digest(mut self) -> ServerBuilder {
        self.builder.opt_outs.question_digest_ignored = true;
        self.builder
    }

    /// Lasting keys beside a ledger that forgets at a restart: states that were used before it can be used again after it.
    pub fn allow_forgetful_ledger(mut self) -> ServerBuilder {
        self.builder.opt_outs.forgetful_ledger = true;
        self.builder
    }
}

fn check_info(info: &Implementation) -> Result<(), BuildError> {
    check_icons(&info.icons).map_err(BuildError::Description)?;
    match &info.website_url {
        Some(url)
            if !["https://", "http://"]
                .iter()
                .any(|scheme| url.starts_with(scheme)) =>
        {
            let fault = format!("the website `{url}` is no `https:` URL");
            Err(BuildError::Description(fault))
        }
        _ => Ok(()),
    }
}

/// A tracker that can be waited for at any time: closed, it still takes tasks.
fn closed_tracker() -> TaskTracker {
    let tasks = TaskTracker::new();
    tasks.close();
    tasks
}

fn check_limits(limits: &Limits) -> Result<(), BuildError> {
    let zero = [
        ("body", limits.body == 0),
        ("body_timeout", limits.body_timeout < SHORTEST),
        ("depth", limits.depth == 0),
        ("state", limits.state == 0),
        ("lifetime", limits.lifetime < SHORTEST),
        ("flow_lifetime", limits.flow_lifetime < SHORTEST),
        ("rounds", limits.rounds == 0),
        ("lease", limits.lease < SHORTEST),
        ("connections", limits.connections == 0),
        ("head_timeout", limits.head_timeout < SHORTEST),
        ("write_timeout", limits.write_timeout < SHORTEST),
        ("shutdown", limits.shutdown < SHORTEST),
        ("keep_alive", limits.keep_alive < SHORTEST),
        ("sessions", limits.sessions == 0),
        ("sessions_per_principal", limits.sessions_per_principal == 0),
        ("session_idle", limits.session_idle < SHORTEST),
        ("subscriptions", limits.subscriptions == 0),
        (
            "subscriptions_per_principal",
            limits.subscriptions_per_principal == 0,
        ),
        ("subscribed_resources", limits.subscribed_resources == 0),
        ("running_per_principal", limits.running_per_principal == 0),
        ("completions_per_second", limits.completions_per_second == 0),
    ];
    match zero.into_iter().find(|(_, zero)| *zero) {
        Some((name, _)) => Err(BuildError::ZeroLimit(name)),
        None => Ok(()),
    }
}
