//! Two pieces of work beside each other, in this process.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::Options;
use crate::report::{Bound, Report, median};

/// A piece of work. What it makes is handed out, so that it is made.
pub(crate) type Work<'a> = &'a mut dyn FnMut() -> usize;

/// Lets both take turns, and adds the ratio of their times.
pub(crate) fn compare(
    options: &Options,
    report: &mut Report,
    group: &'static str,
    (what, work): (&str, Work<'_>),
    (against, other): (&str, Work<'_>),
    bound: Option<Bound>,
) {
    let turn = options.turn / 8;
    let (mut ratios, mut ours, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.turns {
        let (one, two) = (nanos_each(work, turn), nanos_each(other, turn));
        ratios.push(one / two);
        ours.push(one);
        theirs.push(two);
    }
    let figures = format!("{} / {}", shown(median(&ours)), shown(median(&theirs)));
    report.add(group, (what, against), ratios, figures, bound);
}

/// How long one piece takes, by doing it for about so long.
#[allow(clippy::cast_precision_loss, reason = "counts of pieces")]
pub(crate) fn nanos_each(work: Work<'_>, time: Duration) -> f64 {
    black_box(work());
    let start = Instant::now();
    let mut done = 0_u64;
    // The clock is read once for several pieces: reading it takes as long as a small one.
    while start.elapsed() < time {
        for _ in 0..16 {
            black_box(work());
        }
        done += 16;
    }
    start.elapsed().as_secs_f64() * 1e9 / done as f64
}

pub(crate) fn shown(nanos: f64) -> String {
    if nanos < 10_000.0 {
        format!("{nanos:.0} ns")
    } else {
        format!("{:.1} us", nanos / 1e3)
    }
}
