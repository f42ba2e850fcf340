//! Which crate may depend on which, and what must stay out of reach.

use super::graph::RustVersion;
use super::{Finding, Member, Workspace, line_of};

/// What each crate may name in `[dependencies]` among the workspace's own crates. A crate that is not in this table
/// breaks the rule: it gets its line here and its place in ARCHITECTURE.md first.
const ARROWS: &[(&str, Allowed)] = &[
    ("mrtr-protocol", Allowed::These(&[])),
    ("mrtr-state", Allowed::These(&[])),
    ("mrtr-state-hmac", Allowed::These(&["mrtr-state"])),
    ("mrtr-state-aead", Allowed::These(&["mrtr-state"])),
    ("mrtr-ledger", Allowed::These(&["mrtr-state"])),
    (
        "mrtr-ledger-sqlite",
        Allowed::These(&["mrtr-state", "mrtr-ledger"]),
    ),
    (
        "mrtr-ledger-postgres",
        Allowed::These(&["mrtr-state", "mrtr-ledger"]),
    ),
    (
        "mrtr-server",
        Allowed::These(&["mrtr-protocol", "mrtr-state", "mrtr-ledger"]),
    ),
    ("mrtr-client", Allowed::These(&["mrtr-protocol"])),
    // Each behind the feature of its side.
    (
        "mrtr-auth",
        Allowed::These(&["mrtr-state", "mrtr-server", "mrtr-client"]),
    ),
    ("mrtr-testkit", Allowed::AnyCrate),
    // It attacks any server, and knows of ours what every peer knows: the wire.
    ("mrtr-probe", Allowed::These(&["mrtr-protocol"])),
    // The same bytes into builds that differ in features: all that reads JSON.
    (
        "matrix",
        Allowed::These(&[
            "mrtr-protocol",
            "mrtr-state",
            "mrtr-state-hmac",
            "mrtr-state-aead",
            "mrtr-server",
        ]),
    ),
    // It drives the rules of the contract, and nothing else of it.
    ("model", Allowed::These(&["mrtr-state", "mrtr-ledger"])),
    // It builds and starts the others; linking one would make each command wait for its compilation.
    ("xtask", Allowed::These(&[])),
];

#[derive(Debug, Clone, Copy)]
enum Allowed {
    These(&'static [&'static str]),
    /// Everything under crates/.
    AnyCrate,
    /// Everything under crates/ and examples/.
    CratesAndExamples,
}

/// A crate, what it must not reach over normal dependencies, and why.
struct OutOfReach {
    from: &'static str,
    what: &'static [&'static str],
    why: &'static str,
}

/// Generators that keep a state of their own in the process.
const GENERATORS: &[&str] = &["fastrand", "nanorand", "oorandom", "rand", "rand_chacha"];
const WHY_NO_GENERATOR: &str = "nonces, ids and keys are drawn from the operating system, each anew: a generator in the process is copied with it, by a fork or a snapshot";

const OUT_OF_REACH: &[OutOfReach] = &[
    OutOfReach {
        from: "mrtr-state",
        what: GENERATORS,
        why: WHY_NO_GENERATOR,
    },
    OutOfReach {
        from: "mrtr-state-aead",
        what: GENERATORS,
        why: WHY_NO_GENERATOR,
    },
    OutOfReach {
        from: "mrtr-server",
        what: GENERATORS,
        why: WHY_NO_GENERATOR,
    },
    OutOfReach {
        from: "mrtr-client",
        what: &[
            "mrtr-state",
            "mrtr-state-hmac",
            "mrtr-state-aead",
            "mrtr-ledger",
            "mrtr-ledger-sqlite",
            "mrtr-ledger-postgres",
            "mrtr-server",
            // Its other side reaches `mrtr-server`.
            "mrtr-auth",
        ],
        why: "a courier carries the sealed state and cannot open it",
    },
    OutOfReach {
        from: "mrtr-probe",
        what: &[
            "mrtr-state",
            "mrtr-state-hmac",
            "mrtr-state-aead",
            "mrtr-ledger",
            "mrtr-ledger-sqlite",
            "mrtr-ledger-postgres",
            "mrtr-server",
        ],
        why: "it judges servers by what crosses the wire, ours like all others",
    },
    OutOfReach {
        from: "mrtr-protocol",
        what: &[
            // cryptography and randomness
            "aead",
            "aws-lc-rs",
            "chacha20poly1305",
            "crypto-common",
            "digest",
            "getrandom",
            "hkdf",
            "hmac",
            "rand",
            "rand_core",
            "ring",
            "rustls",
            "sha2",
            "subtle",
            "zeroize",
            // clocks
            "chrono",
            "jiff",
            "time",
            "uuid",
            // async and I/O
            "async-trait",
            "axum",
            "futures-core",
            "futures-util",
            "hyper",
            "mio",
            "reqwest",
            "socket2",
            "tokio",
            "tower-service",
        ],
        why: "wire types know no cryptography, no clock, no I/O and no async",
    },
    OutOfReach {
        from: "mrtr-state",
        what: &["chacha20poly1305", "hkdf", "hmac", "tokio"],
        why: "algorithms and key derivation are crates of their own; SHA-256 is the one primitive here",
    },
    OutOfReach {
        from: "mrtr-ledger",
        what: &[
            "chacha20poly1305",
            "hkdf",
            "hmac",
            "rusqlite",
            "tokio-postgres",
        ],
        why: "the contract knows no database and no cipher",
    },
    OutOfReach {
        from: "mrtr-server",
        what: &[
            "chacha20poly1305",
            "hkdf",
            "hmac",
            "rusqlite",
            "tokio-postgres",
            "jsonwebtoken",
        ],
        why: "the framework holds no cipher and no database; users choose theirs",
    },
];

pub(super) fn arrows(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for member in &workspace.members {
        let Some(allowed) = allowed(member) else {
            findings.push(Finding::new(
                &member.manifest(),
                1,
                format!("nothing says what `{}` may depend on", member.name),
                "add it to the table in xtask/src/tidy/layers.rs and to ARCHITECTURE.md",
            ));
            continue;
        };
        for dependency in &member.declared {
            let Some(target) = workspace
                .members
                .iter()
                .find(|other| other.name == *dependency)
            else {
                continue;
            };
            if !permits(allowed, target) {
                findings.push(Finding::new(
                    &member.manifest(),
                    dependency_line(workspace, member, dependency),
                    format!(
                        "`{}` depends on `{dependency}`, which is no arrow of the drawing",
                        member.name
                    ),
                    "remove the dependency, or make it a dev-dependency if only tests need it",
                ));
            }
        }
    }
    findings
}

pub(super) fn closures(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for OutOfReach { from, what, why } in OUT_OF_REACH {
        let Some(member) = workspace.members.iter().find(|member| member.name == *from) else {
            findings.push(Finding::new(
                "Cargo.toml",
                1,
                format!("there is no `{from}`, whose reach is limited by a rule"),
                "if it was renamed, rename it in xtask/src/tidy/layers.rs too",
            ));
            continue;
        };
        for name in *what {
            let Some(way) = workspace.graph.way(from, name) else {
                continue;
            };
            let first = way.get(1).map_or(*name, String::as_str);
            findings.push(Finding::new(
                &member.manifest(),
                dependency_line(workspace, member, first),
                format!("`{from}` reaches `{name}`: {}", way.join(" -> ")),
                format!("remove it from the way ({why})"),
            ));
        }
    }
    findings
}

pub(super) fn rust_versions(workspace: &Workspace) -> Vec<Finding> {
    let root = workspace
        .file("Cargo.toml")
        .map_or("", |file| file.text.as_str());
    let promised = root
        .lines()
        .find_map(|line| line.strip_prefix("rust-version"))
        .and_then(|rest| RustVersion::parse(rest.trim_matches([' ', '=', '"'])));
    let Some(promised) = promised else {
        return vec![Finding::new(
            "Cargo.toml",
            1,
            "[workspace.package] has no rust-version",
            "add a line such as rust-version = \"1.89\"",
        )];
    };
    let lock = workspace
        .file("Cargo.lock")
        .map_or("", |file| file.text.as_str());
    workspace
        .graph
        .packages
        .values()
        .filter(|package| package.rust_version.is_some_and(|needed| needed > promised))
        .map(|package| {
            let [major, minor, patch] = package.rust_version.unwrap_or(promised).0;
            Finding::new(
                "Cargo.lock",
                line_of(lock, &format!("name = \"{}\"", package.name)),
                format!(
                    "`{} {}` needs Rust {major}.{minor}.{patch}",
                    package.name, package.version
                ),
                format!(
                    "take an older release: `cargo update -p {} --precise VERSION`; \
                     or raise the promise, which is a breaking change",
                    package.name
                ),
            )
        })
        .collect()
}

fn allowed(member: &Member) -> Option<Allowed> {
    if member.folder.starts_with("examples/") {
        return Some(Allowed::CratesAndExamples);
    }
    ARROWS
        .iter()
        .find(|(name, _)| *name == member.name)
        .map(|(_, allowed)| *allowed)
}

fn permits(allowed: Allowed, target: &Member) -> bool {
    let is_crate = target.folder.starts_with("crates/");
    match allowed {
        Allowed::These(names) => names.contains(&target.name.as_str()),
        Allowed::AnyCrate => is_crate,
        Allowed::CratesAndExamples => is_crate || target.folder.starts_with("examples/"),
    }
}

/// The line of a member's manifest that names a dependency.
fn dependency_line(workspace: &Workspace, member: &Member, dependency: &str) -> usize {
    let manifest = workspace
        .file(&member.manifest())
        .map_or("", |file| file.text.as_str());
    super::numbered(manifest)
        .find(|(_, line)| {
            line.strip_prefix(dependency)
                .is_some_and(|rest| rest.starts_with([' ', '.', '=']))
        })
        .map_or(1, |(number, _)| number)
}
