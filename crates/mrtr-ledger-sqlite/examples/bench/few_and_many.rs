//! The same claims on a ledger with few live rows and on one with many.

use std::path::Path;
use std::time::Duration;

use tokio::runtime::Runtime;

use crate::Outcome;
use crate::fill::fill;
use crate::load::{self, CALLERS, LIFETIME, Until, in_millis};
use crate::options::Options;
use crate::report::{Bound, Report, median, micros, percentile};

const FEW: u64 = 10_000;

/// How often the two take turns in a round, so that what else the machine does meets both.
const TURNS: u32 = 4;

/// How many claims of each caller make a turn: few, so that a small ledger stays small.
const CLAIMS: usize = 20;

/// How many claims make a turn of one caller.
const CLAIMS_OF_ONE: usize = 200;

pub(crate) fn measure(
    options: &Options,
    folder: &Path,
    runtime: &Runtime,
    report: &mut Report,
) -> Outcome<()> {
    eprintln!("filling a ledger with {} live rows", options.rows);
    let many = folder.join("many.sqlite");
    let lifetime = i64::try_from(LIFETIME.as_millis())?;
    drop(load::open(&many)?);
    // They stay unexpired for the whole run, and claims come behind them.
    let (from, to) = (in_millis(lifetime / 2), in_millis(lifetime));
    fill(&many, options.rows, from, to)?;
    let many = load::open(&many)?;

    let mut costs = [Vec::new(), Vec::new(), Vec::new()];
    let mut latencies = [Vec::new(), Vec::new(), Vec::new()];
    for round in 0..options.rounds {
        eprintln!(
            "few rows and many, turn {} of {}",
            round + 1,
            options.rounds
        );
        let few = folder.join(format!("few-{round}.sqlite"));
        drop(load::open(&few)?);
        fill(&few, FEW, from, to)?;
        let few = load::open(&few)?;
        let mut took = [Took::default(), Took::default()];
        // The first turn only writes to both.
        for turn in 0..=TURNS {
            for (ledger, took) in [&few, &many].into_iter().zip(&mut took) {
                let together = load::run(runtime, ledger, CALLERS, &Until::Claims(CLAIMS))?;
                let alone = load::run(runtime, ledger, 1, &Until::Claims(CLAIMS_OF_ONE))?;
                if turn > 0 {
                    took.cost += 1e6 / together.per_second() / f64::from(TURNS);
                    took.alone.extend(alone.latencies);
                }
            }
        }
        let [(few_together, few_alone), (many_together, many_alone)] = took.map(Took::both);
        for ([ratio, own, other], many, few) in [
            (&mut costs, many_together, few_together),
            (&mut latencies, many_alone, few_alone),
        ] {
            ratio.push(many / few);
            own.push(many);
            other.push(few);
        }
    }
    let [ratios, own, other] = costs;
    report.add(
        "cost of a claim, many rows / few, 64 callers",
        Bound::AtMost(1.3),
        ratios,
        format!("{:.1} us", median(&own)),
        format!("{:.1} us", median(&other)),
    );
    let [ratios, own, other] = latencies;
    report.add(
        "latency of a claim, many rows / few, 1 caller",
        Bound::AtMost(1.3),
        ratios,
        format!("{:.0} us", median(&own)),
        format!("{:.0} us", median(&other)),
    );
    Ok(())
}

#[derive(Default)]
struct Took {
    /// Of a claim among many, in microseconds.
    cost: f64,
    alone: Vec<Duration>,
}

impl Took {
    fn both(mut self) -> (f64, f64) {
        self.alone.sort_unstable();
        (self.cost, micros(percentile(&self.alone, 0.5)))
    }
}
