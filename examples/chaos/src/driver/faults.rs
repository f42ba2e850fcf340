//! Carries a plan out.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::driver::Failure;
use crate::driver::fleet::Fleet;
use crate::driver::store::Store;
use crate::history::Recorder;
use crate::plan::{Fault, Plan};

/// What faults are done to.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) store: Arc<Store>,
    pub(crate) seen: Arc<Recorder>,
}

/// Does everything that is planned, each at its time, and returns at the end of the run when all of it is over.
pub(crate) async fn carry_out(plan: Plan, length: Duration, target: Target) -> Result<(), Failure> {
    let start = Instant::now();
    let mut under_way = JoinSet::new();
    for (at, fault) in plan.0 {
        sleep_until(start + at).await;
        let target = target.clone();
        // Several may be under way at once; those that concern one server wait for each other.
        under_way.spawn(async move { target.suffer(fault).await });
        while let Some(over) = under_way.try_join_next() {
            over??;
        }
    }
    sleep_until(start + length).await;
    while let Some(over) = under_way.join_next().await {
        over??;
    }
    Ok(())
}

impl Target {
    async fn suffer(&self, fault: Fault) -> Result<(), Failure> {
        let Self { fleet, store, seen } = self;
        match fault {
            Fault::Kill { slot, down } => fleet.kill(slot, down, seen).await,
            Fault::Stop { slot, down } => fleet.stop(slot, down, seen).await,
            Fault::Pause { slot, lasts } => fleet.pause(slot, lasts, seen).await,
            Fault::Jump {
                slot,
                offset,
                lasts,
            } => {
                if let Some(process) = fleet.set_clock(slot, offset, seen).await? {
                    sleep(lasts).await;
                    fleet.set_clock_right(process, seen).await?;
                }
                Ok(())
            }
            Fault::Silence { lasts } => store.silence(lasts, seen).await,
            Fault::Sever => store.sever(seen).await,
            Fault::Rotate => store.rotate(seen).await,
        }
    }
}
