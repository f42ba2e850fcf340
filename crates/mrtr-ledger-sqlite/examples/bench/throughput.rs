//! Many callers and one, beside one insert a transaction.

use std::path::Path;
use std::time::Duration;

use mrtr_state::Epoch;
use tokio::runtime::Runtime;

use crate::Outcome;
use crate::load::{self, CALLERS, Draw, Until};
use crate::options::Options;
use crate::plain::Plain;
use crate::report::{Bound, Measure, Report, median, micros, percentile};

const TURN: Duration = Duration::from_millis(800);

pub(crate) fn measure(
    options: &Options,
    folder: &Path,
    runtime: &Runtime,
    report: &mut Report,
) -> Outcome<()> {
    let mut rates = [Vec::new(), Vec::new(), Vec::new()];
    let mut latencies = [Vec::new(), Vec::new(), Vec::new()];
    for round in 0..options.rounds {
        eprintln!(
            "throughput and latency, turn {} of {}",
            round + 1,
            options.rounds
        );
        let plain = Plain::create(&folder.join(format!("plain-{round}.sqlite")))?;
        let ledger = load::open(&folder.join(format!("ledger-{round}.sqlite")))?;
        let mut draw = Draw::new(Epoch::from_bytes([0; 16]), CALLERS);
        // Logs that still grow are slower, for both: each commit writes the file's new length too.
        plain.run(&mut draw, TURN / 2)?;
        load::run(runtime, &ledger, 1, &Until::Elapsed(TURN / 2))?;

        let mut theirs = plain.run(&mut draw, TURN)?;
        theirs.sort_unstable();
        if options.wants(Measure::Latency) {
            let ours = load::run(runtime, &ledger, 1, &Until::Elapsed(TURN))?.latencies;
            let [ratio, own, other] = &mut latencies;
            let (half, half_of_theirs) = (percentile(&ours, 0.5), percentile(&theirs, 0.5));
            ratio.push(micros(half) / micros(half_of_theirs));
            own.push(micros(half));
            other.push(micros(half_of_theirs));
        }
        if options.wants(Measure::Throughput) {
            let many = load::run(runtime, &ledger, CALLERS, &Until::Elapsed(TURN))?;
            let theirs = one_after_the_other(&theirs);
            let [ratio, own, other] = &mut rates;
            ratio.push(many.per_second() / theirs);
            own.push(many.per_second());
            other.push(theirs);
        }
    }
    let [ratios, own, other] = rates;
    if options.wants(Measure::Throughput) {
        report.add(
            "claims a second, 64 callers / one by one",
            Bound::AtLeast(8.0),
            ratios,
            format!("{:.0} a second", median(&own)),
            format!("{:.0} a second", median(&other)),
        );
    }
    let [ratios, own, other] = latencies;
    if options.wants(Measure::Latency) {
        report.add(
            "one caller's latency / one by one",
            Bound::AtMost(1.3),
            ratios,
            format!("{:.0} us", median(&own)),
            format!("{:.0} us", median(&other)),
        );
    }
    Ok(())
}

#[allow(clippy::cast_precision_loss, reason = "counts of inserts")]
fn one_after_the_other(latencies: &[Duration]) -> f64 {
    latencies.len() as f64 / latencies.iter().sum::<Duration>().as_secs_f64()
}
