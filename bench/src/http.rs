//! Servers beside each other over HTTP: plain calls, and both rounds of a tool that asks.

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::load::{self, Work};
use crate::process::Server;
use crate::report::{Bound, Report, median};
use crate::{Options, Outcome};

/// A server to start, and what its figures are called.
struct Contender {
    called: &'static str,
    program: &'static str,
    args: Vec<String>,
}

impl Contender {
    fn new(called: &'static str, program: &'static str, args: &[&str]) -> Self {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        Self {
            called,
            program,
            args,
        }
    }
}

/// A ratio that is wanted: of which contender to which, and its bound.
type Wanted = (usize, usize, Option<Bound>);

pub(crate) fn plain(options: &Options, report: &mut Report) -> Outcome {
    let contenders = [
        Contender::new("mrtr", "ours", &["--anonymous"]),
        Contender::new("axum, Json<Value>", "floor", &["json"]),
        Contender::new("axum, bytes", "floor", &["bytes"]),
        Contender::new("rmcp 3.11.0", "rmcp", &[]),
        Contender::new("tower-mcp 0.25.0", "tower_mcp", &[]),
        Contender::new(
            "mrtr, 1000 tools",
            "ours",
            &["--anonymous", "--tools", "998"],
        ),
    ];
    let wanted = [
        (0, 1, Some(Bound::AtLeast(1.0))),
        (0, 2, Some(Bound::AtLeast(0.65))),
        (0, 3, Some(Bound::AtLeast(3.0))),
        (0, 4, None),
        (3, 1, None),
        (4, 1, None),
        (0, 5, Some(Bound::AtMost(1.05))),
    ];
    group(
        options,
        report,
        "plain tools/call, 16 connections",
        Work::Plain,
        16,
        &contenders,
        &wanted,
    )
}

pub(crate) fn rounds(options: &Options, report: &mut Report) -> Outcome {
    let contenders = [
        Contender::new("mrtr, HMAC", "ours", &[]),
        Contender::new("mrtr, AEAD", "ours", &["--codec", "aead"]),
        Contender::new("axum, Json<Value>, twice", "floor", &["json"]),
        Contender::new("rmcp 3.11.0, HMAC, bound", "rmcp", &[]),
        Contender::new("tower-mcp 0.25.0, HMAC, bound", "tower_mcp", &[]),
    ];
    let wanted = [
        (0, 2, Some(Bound::AtLeast(0.8))),
        (1, 2, Some(Bound::AtLeast(0.8))),
        (0, 3, Some(Bound::AtLeast(2.5))),
        (0, 4, None),
        (3, 2, None),
        (4, 2, None),
    ];
    group(
        options,
        report,
        "both rounds, sealed and bound, 16 connections",
        Work::BothRounds,
        16,
        &contenders,
        &wanted,
    )
}

pub(crate) fn durable(options: &Options, report: &mut Report) -> Outcome {
    let folder = tempfile::Builder::new()
        .prefix("bench-")
        .tempdir_in(&options.folder)?;
    let path = |name: &str| folder.path().join(name).display().to_string();
    let contenders = [
        Contender::new(
            "mrtr, HMAC, SQLite",
            "ours",
            &["--ledger", &path("hmac.sqlite")],
        ),
        Contender::new(
            "mrtr, AEAD, SQLite",
            "ours",
            &["--codec", "aead", "--ledger", &path("aead.sqlite")],
        ),
        Contender::new("axum, Json<Value>, twice", "floor", &["json"]),
    ];
    let wanted = [
        (0, 2, Some(Bound::AtLeast(0.25))),
        (1, 2, Some(Bound::AtLeast(0.25))),
    ];
    group(
        options,
        report,
        "both rounds with a durable ledger, 64 connections",
        Work::BothRounds,
        64,
        &contenders,
        &wanted,
    )
}

fn group(
    options: &Options,
    report: &mut Report,
    name: &'static str,
    work: Work,
    connections: usize,
    contenders: &[Contender],
    wanted: &[Wanted],
) -> Outcome {
    eprintln!("{name}");
    let programs = programs()?;
    let servers: Vec<Server> = contenders
        .iter()
        .map(|contender| Server::start(&programs, contender.program, &contender.args))
        .collect::<io::Result<_>>()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut rates = vec![Vec::new(); servers.len()];
    let mut costs = vec![Vec::new(); servers.len()];
    for turn in 0..options.turns {
        // Who is first changes, so that nobody always follows the same one.
        for index in (0..servers.len()).map(|offset| (turn + offset) % servers.len()) {
            let (Some(server), Some(contender)) = (servers.get(index), contenders.get(index))
            else {
                continue;
            };
            let in_context =
                |error: io::Error| io::Error::other(format!("{}: {error}", contender.called));
            runtime
                .block_on(load::run(
                    server.address,
                    work,
                    connections,
                    options.turn / 8,
                ))
                .map_err(in_context)?;
            let before = server.processor_time()?;
            let measured = runtime
                .block_on(load::run(server.address, work, connections, options.turn))
                .map_err(in_context)?;
            let used = server.processor_time()?.saturating_sub(before);
            rates[index].push(measured.per_second());
            costs[index].push(micros_each(used, measured.calls));
        }
        eprintln!("  turn {} of {}", turn + 1, options.turns);
    }
    for &(of, to, bound) in wanted {
        let ratios = rates[of]
            .iter()
            .zip(&rates[to])
            .map(|(of, to)| of / to)
            .collect();
        let figures = format!(
            "{:.0} / {:.0} calls a second; {:.1} / {:.1} us of processor each",
            median(&rates[of]),
            median(&rates[to]),
            median(&costs[of]),
            median(&costs[to]),
        );
        report.add(
            name,
            (contenders[of].called, contenders[to].called),
            ratios,
            figures,
            bound,
        );
    }
    Ok(())
}

#[allow(clippy::cast_precision_loss, reason = "counts of calls")]
fn micros_each(time: Duration, calls: u64) -> f64 {
    time.as_secs_f64() * 1e6 / calls.max(1) as f64
}

/// How often a plain call allocates, counted in a process of its own.
pub(crate) fn allocations(_: &Options, report: &mut Report) -> Outcome {
    let output = std::process::Command::new(programs()?.join("allocations")).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let counts: Vec<f64> = String::from_utf8(output.stdout)?
        .lines()
        .filter_map(|line| line.parse().ok())
        .collect();
    // The first calls make what is made once.
    let later = counts.get(2..).unwrap_or_default().to_vec();
    let figures = format!(
        "first call {:?}, later {:.0}",
        counts.first(),
        median(&later)
    );
    report.add(
        "allocations of a plain call, in process",
        ("allocations", "1"),
        later,
        figures,
        Some(Bound::AtMost(16.0)),
    );
    Ok(())
}

/// What a server holds for each person who thinks: nothing. What its allocator keeps of the calls is some bytes for each, and a
/// question alone would be hundreds.
pub(crate) fn memory(options: &Options, report: &mut Report) -> Outcome {
    let programs = programs()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut grown = Vec::new();
    let mut asked = 0;
    for _ in 0..options.turns {
        let server = Server::start(&programs, "ours", &[])?;
        let ask = || {
            runtime.block_on(load::run(
                server.address,
                Work::FirstRound,
                16,
                options.turn / 2,
            ))
        };
        // What the first calls make once for all is nobody's.
        ask()?;
        let before = server.memory()?;
        let people = ask()?.calls;
        asked += people;
        grown.push(bytes_each(server.memory()?.saturating_sub(before), people));
    }
    let figures = format!("{asked} questions asked and never answered");
    report.add(
        "memory for a person who thinks, modern era",
        ("bytes", "1"),
        grown,
        figures,
        Some(Bound::AtMost(32.0)),
    );
    Ok(())
}

#[allow(clippy::cast_precision_loss, reason = "bytes and counts of calls")]
fn bytes_each(bytes: u64, calls: u64) -> f64 {
    bytes as f64 / calls.max(1) as f64
}

/// Where this program lies, and the servers beside it.
pub(crate) fn programs() -> io::Result<std::path::PathBuf> {
    let this = std::env::current_exe()?;
    this.parent()
        .map(Path::to_owned)
        .ok_or_else(|| io::Error::other("this program lies nowhere"))
}
