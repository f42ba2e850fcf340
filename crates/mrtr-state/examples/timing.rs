//! Case 44: whether refusing a token takes longer the more of its seal is right.
//!
//! Run it: `cargo run --release -p mrtr-state --example timing`.
//!
//! For both codecs it refuses tokens whose seal is wrong in its first byte, in its last one, and tokens of an unknown key, in random
//! turns, and compares the first two by Welch's t, as dudect does. Exit code 1: |t| is 10 or more. It is advice: on a machine that
//! is busy with other things a large t says little, and a small one on an idle machine says that nothing is to be seen at this
//! number of measurements, no more. The unknown key is looked up and not compared, and need not take as long.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a measurement that cannot go on ends"
)]

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use mrtr_state::{KeyRing, Purpose, Sealer, StateCodec, WireState, token};
use mrtr_state_aead::AeadCodec;
use mrtr_state_hmac::HmacCodec;

/// Measurements of each class.
const TIMES: usize = 100_000;
/// Of the slowest, what interrupts are to blame for: 5 of 100.
const KEPT: usize = TIMES / 100 * 95;
const BOUND: f64 = 10.0;

fn main() -> ExitCode {
    let ring = || KeyRing::generate().unwrap();
    let codecs: [(&str, Arc<dyn StateCodec>); 2] = [
        ("hmac", Arc::new(HmacCodec::new(ring()).unwrap())),
        ("aead", Arc::new(AeadCodec::new(ring()).unwrap())),
    ];
    let mut code = ExitCode::SUCCESS;
    for (name, codec) in codecs {
        let sealer = codec.sealer(&Purpose::REQUEST_STATE);
        let classes = classes(&*sealer);
        // The first run warms up.
        measure(&*sealer, &classes);
        let times = measure(&*sealer, &classes);
        let t = welch(&times[0], &times[1]);
        let [first, last, unknown] = times.each_ref().map(|times| mean(times));
        println!(
            "{name}: first byte {first:.1} ns, last byte {last:.1} ns, unknown key {unknown:.1} ns, t = {t:.2}"
        );
        if t.abs() >= BOUND {
            code = ExitCode::FAILURE;
        }
    }
    code
}

/// A seal that is wrong in its first byte, in its last one, and a token of an unknown key.
fn classes(sealer: &dyn Sealer) -> [String; 3] {
    let token = sealer.seal(&[b'x'; 512]).unwrap();
    sealer.open(WireState::new(&token)).unwrap();
    let mut parts: Vec<&str> = token.split('.').collect();
    let last = token::decode(parts.pop().unwrap()).unwrap();
    // Both codecs' seals end their last segment: 32 bytes of HMAC, 16 of Poly1305.
    let seal = if parts.len() == 4 { 32 } else { 16 };
    let with = |at: usize| {
        let mut bytes = last.clone();
        bytes[at] ^= 1;
        format!("{}.{}", parts.join("."), token::encode(&bytes))
    };
    let kid = token::encode(sealer.kid().as_bytes());
    let unknown = token.replacen(&kid, &token::encode(&[0; 8]), 1);
    [with(last.len() - seal), with(last.len() - 1), unknown]
}

/// Nanoseconds of each refusal, by class, without the slowest.
fn measure(sealer: &dyn Sealer, classes: &[String; 3]) -> [Vec<f64>; 3] {
    let mut times: [Vec<f64>; 3] = Default::default();
    let mut noise = 0x9e37_79b9_7f4a_7c15_u64;
    while times.iter().any(|times| times.len() < TIMES) {
        noise ^= noise << 13;
        noise ^= noise >> 7;
        noise ^= noise << 17;
        let class = usize::try_from((noise >> 16) % 3).unwrap();
        let start = Instant::now();
        let refused = black_box(sealer.open(WireState::new(black_box(&classes[class]))));
        let took = start.elapsed();
        assert!(refused.is_err());
        times[class].push(took.as_nanos() as f64);
    }
    times.map(|mut times| {
        times.truncate(TIMES);
        times.sort_by(f64::total_cmp);
        times.truncate(KEPT);
        times
    })
}

fn mean(times: &[f64]) -> f64 {
    times.iter().sum::<f64>() / times.len() as f64
}

/// Welch's t of two samples.
fn welch(a: &[f64], b: &[f64]) -> f64 {
    let part = |times: &[f64]| {
        let mean = mean(times);
        let squares: f64 = times.iter().map(|time| (time - mean).powi(2)).sum();
        let n = times.len() as f64;
        (mean, squares / (n - 1.0) / n)
    };
    let ((mean_a, error_a), (mean_b, error_b)) = (part(a), part(b));
    (mean_a - mean_b) / (error_a + error_b).sqrt()
}
