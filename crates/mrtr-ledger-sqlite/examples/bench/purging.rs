//! Claims' latencies while a purge removes expired rows, beside those without one.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mrtr_ledger::{Ledger as _, RETENTION};
use tokio::runtime::Runtime;

use crate::Outcome;
use crate::fill::fill;
use crate::load::{self, LIFETIME, Until, in_millis};
use crate::options::Options;
use crate::report::{Bound, Report, median, micros, percentile};

/// As many as case 100 has.
const CALLERS: u64 = 16;

const LIVE: u64 = 100_000;

/// How long the purge's absence is measured.
const TURN: Duration = Duration::from_secs(3);

pub(crate) fn measure(
    options: &Options,
    folder: &Path,
    runtime: &Runtime,
    report: &mut Report,
) -> Outcome<()> {
    let (lifetime, retention) = (
        i64::try_from(LIFETIME.as_millis())?,
        i64::try_from(RETENTION.as_millis())?,
    );
    let mut values = [Vec::new(), Vec::new(), Vec::new()];
    for round in 0..options.rounds.div_ceil(3) {
        eprintln!(
            "purging, turn {} of {}",
            round + 1,
            options.rounds.div_ceil(3)
        );
        let path = folder.join(format!("purge-{round}.sqlite"));
        drop(load::open(&path)?);
        fill(&path, LIVE, in_millis(lifetime / 2), in_millis(lifetime))?;
        let ledger = load::open(&path)?;
        load::run(runtime, &ledger, CALLERS, &Until::Elapsed(TURN / 4))?;
        let without = load::run(runtime, &ledger, CALLERS, &Until::Elapsed(TURN))?;

        let expired = in_millis(-retention - lifetime);
        fill(&path, options.expired, expired, expired + lifetime / 2)?;
        let over = Arc::new(AtomicBool::new(false));
        let purge = runtime.spawn({
            let (ledger, over) = (Arc::clone(&ledger), Arc::clone(&over));
            async move {
                let purged = ledger.purge().await;
                over.store(true, Ordering::Relaxed);
                purged
            }
        });
        let during = load::run(runtime, &ledger, CALLERS, &Until::Told(over))?;
        let purged = runtime.block_on(purge)??;
        eprintln!(
            "  {} rows purged in {:.1} s, while {} claims were made",
            purged.rounds,
            during.elapsed.as_secs_f64(),
            during.latencies.len()
        );
        // Claims remove some in passing, and are there afterwards; what has expired is not.
        let stats = runtime.block_on(ledger.stats())?;
        if stats.rounds.removable > 0 {
            return Err(format!("{} rows are left to purge", stats.rounds.removable).into());
        }
        let [ratio, own, other] = &mut values;
        let (during, without) = (
            micros(percentile(&during.latencies, 0.99)),
            micros(percentile(&without.latencies, 0.99)),
        );
        ratio.push(during / without);
        own.push(during);
        other.push(without);
    }
    let [ratios, own, other] = values;
    report.add(
        "claims' 99th percentile, purging / not",
        Bound::AtMost(5.0),
        ratios,
        format!("{:.0} us", median(&own)),
        format!("{:.0} us", median(&other)),
    );
    Ok(())
}
