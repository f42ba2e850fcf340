//! Every check is shown a workspace that keeps its rule and one that breaks it.

use super::graph::{Package, RustVersion};
use super::*;

const MANIFEST: &str = "\
[package]
name = \"NAME\"
license.workspace = true
rust-version.workspace = true

[dependencies]
DEPENDENCIES
[lints]
workspace = true
";

/// The crates of the good workspace with their normal dependencies.
const CRATES: &[(&str, &[&str])] = &[
    ("crates/mrtr-protocol", &[]),
    ("crates/mrtr-state", &["sha2"]),
    ("crates/mrtr-state-hmac", &["mrtr-state", "hmac"]),
    ("crates/mrtr-state-aead", &["mrtr-state"]),
    ("crates/mrtr-ledger", &["mrtr-state"]),
    ("crates/mrtr-client", &["mrtr-protocol"]),
    ("crates/mrtr-server", &["mrtr-protocol", "mrtr-state"]),
    ("crates/mrtr-probe", &["mrtr-protocol"]),
];

const README: &str = "\
<!-- readme:start -->
```rust
fn f() {}
```
<!-- readme:end -->
[a](docs/a.md#one) [e](docs/errors.md) [t](docs/threat-model.md) [s](docs/specification.md) [l](docs/ledger.md) [c](docs/cases.md)

| Rule | Type | Test |
|---|---|---|
| State is verified | `VerifiedState` | `it_opens` |
";

const SPECIFICATION: &str = "\
# Specification

| Page | Rows | MUST | SHOULD |
|---|---|---|---|
| basic/a | A | 3 | 1 |
| basic/b | B | 1 | 0 |

| Id | Section | Level | Rule | Side | Kept by | Test |
|---|---|---|---|---|---|---|
| A-01 | One | MUST ×2 | it is verified | server | `VerifiedState` | `mrtr-state seal::it_opens` |
| A-02 | Two | MUST NOT, SHOULD | it is not shown | host | | it binds whoever shows it |

| Id | Section | Level | Rule | Side | Kept by | Test |
|---|---|---|---|---|---|---|
| B-01 | One | REQUIRED | it is asked | client | `asked::it_opens` | `mrtr-client asks::tests::it_asks`, `mrtr-state seal::it_opens` |
";

const CASES: &str = "\
# Cases

| case | fault | | shown by |
|---|---|---|---|
| 1 | It opens | P0 | mrtr-server: `case_001_a`, `case_001_b`; mrtr-state: `case_001_a` |
| 3 | It lasts | P1 | `cargo xtask chaos`, briefly |

| case | fault | | shown by |
|---|---|---|---|
| 4 | It is told | P2 | refused: there is nobody to tell |
";

const MODEL: &str = "\
rules! {
    OneTokenOwns \"one-token-owns\" in FORK for OneRun:
        \"A token owns it.\"
    MarkRefuses \"mark-refuses\" in FORK for AtMostOnce:
        \"A mark refuses.\"
}
";

const LEDGER: &str = "\
# Ledger

| Rule | Switch | Falls | Test |
|---|---|---|---|
| A token owns it. | `one-token-owns` | `one-run` | `it_opens` |
| A mark refuses. | `mark-refuses` | `at-most-once` | `it_opens`, `it_asks` |

| Said | Why it is no switch | Test |
|---|---|---|
| It is private | nothing depends on it | `it_opens` |
";

const REASONS: &str = "\
const fn as_str(self) -> &'static str {
    match self {
        Reason::Expired => \"expired\",
    }
}
const fn in_words(self) -> &'static str {
    match self {
        Reason::Expired => \"it is over\",
    }
}
";

const SAMPLING: &str = "\
//! Sampling. Deprecated since 2026-07-28: call a model's provider instead.

/// What a model said. Deprecated: call a provider.
#[derive(Debug)]
pub struct CreateMessageResult {
    /// Which model.
    pub model: String,
}
";

impl Workspace {
    /// A small workspace that keeps every rule.
    fn good() -> Self {
        let mut workspace = Self::default();
        workspace.write(
            "Cargo.toml",
            "[workspace.package]\nrust-version = \"1.89\"\n[workspace.lints.rust]\nunsafe_code = \"forbid\"\n",
        );
        workspace.write(
            "Cargo.lock",
            "[[package]]\nname = \"serde\"\nsource = \"registry+https://github.com/rust-lang/cra\u{74}es.io-index\"\n",
        );
        workspace.write("README.md", README);
        workspace.write(
            "docs/a.md",
            "# One\n\n[b](../README.md) [c](https://example.org/x)\n",
        );
        workspace.write(
            "CHANGELOG.md",
            "# Changes\n\n## [Unreleased]\n\n- **added:** everything\n",
        );
        for (folder, dependencies) in CRATES {
            workspace.add(folder, dependencies);
        }
        let names: String = CRATES
            .iter()
            .map(|(folder, _)| format!("`{}` ", folder.replace("crates/", "")))
            .collect();
        workspace.write("ARCHITECTURE.md", &names);
        workspace.write(
            "crates/mrtr-state/src/time.rs",
            "fn now() { SystemTime::now() }\n",
        );
        workspace.write(
            "crates/mrtr-state/src/seal.rs",
            "pub struct VerifiedState;\n#[test]\nfn it_opens() {}\n",
        );
        workspace.write(
            "crates/mrtr-protocol/src/error.rs",
            "pub const PARSE_ERROR: i64 = -32700;\n",
        );
        workspace.write("crates/mrtr-state/src/reason.rs", REASONS);
        workspace.write(
            "docs/errors.md",
            "| -32700 | 400 |\n| `expired` | expired |\n",
        );
        workspace.write(
            "docs/threat-model.md",
            "# Threats\n\n| Promise | How | Test |\n|---|---|---|\n| it is verified | by a seal | `it_opens` |\n",
        );
        workspace.write("docs/specification.md", SPECIFICATION);
        workspace.write("docs/ledger.md", LEDGER);
        workspace.write("docs/cases.md", CASES);
        workspace.write(
            "crates/mrtr-server/tests/it/cases.rs",
            "#[test]\nfn case_001_a() {}\n#[tokio::test]\nasync fn case_001_b() {}\n",
        );
        workspace.write(
            "crates/mrtr-state/src/suite/cases.rs",
            "pub fn case_001_a() {}\n",
        );
        workspace.write("xtask/src/main.rs", "\"chaos\" => Chaos,\n");
        workspace.write("model/src/turn.rs", MODEL);
        workspace.write(
            "crates/mrtr-client/tests/it/asks.rs",
            "mod tests {\n    #[tokio::test]\n    async fn it_asks() {}\n}\n",
        );
        workspace.write("crates/mrtr-protocol/src/sampling.rs", SAMPLING);
        workspace.add("examples/readme", &["mrtr-server"]);
        workspace.write(
            "examples/readme/src/main.rs",
            "//! Asks. Run it: `cargo run -p readme`.\n\n// readme:start\nfn f() {}\n// readme:end\n",
        );
        for foreign in ["sha2", "hmac"] {
            workspace.package(foreign, &[]);
        }
        workspace
    }

    fn add(&mut self, folder: &str, dependencies: &[&str]) {
        let name = folder.rsplit('/').next().unwrap();
        let lines: String = dependencies
            .iter()
            .map(|name| format!("{name}.workspace = true\n"))
            .collect();
        self.write(
            &format!("{folder}/Cargo.toml"),
            &MANIFEST
                .replace("NAME", name)
                .replace("DEPENDENCIES\n", &lines),
        );
        self.write(&format!("{folder}/README.md"), &"A line.\n".repeat(30));
        self.members.push(Member {
            name: name.to_owned(),
            folder: folder.to_owned(),
            declared: dependencies.iter().map(|&name| name.to_owned()).collect(),
        });
        self.package(name, dependencies);
    }

    fn package(&mut self, name: &str, dependencies: &[&str]) {
        let package = Package {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            rust_version: RustVersion::parse("1.89"),
            normal: dependencies.iter().map(|&name| name.to_owned()).collect(),
        };
        self.graph.packages.insert(name.to_owned(), package);
    }

    fn write(&mut self, path: &str, text: &str) {
        self.files.retain(|file| file.path != path);
        self.files.push(File {
            path: path.to_owned(),
            text: text.to_owned(),
            committed: true,
        });
    }

    fn replace(&mut self, path: &str, from: &str, to: &str) {
        let text = self.file(path).unwrap().text.clone();
        assert!(text.contains(from), "{path} does not hold {from}");
        self.write(path, &text.replace(from, to));
    }

    /// A workspace that was good until `change`.
    fn with(change: impl FnOnce(&mut Self)) -> Self {
        let mut workspace = Self::good();
        change(&mut workspace);
        workspace
    }

    fn with_file(path: &str, text: &str) -> Self {
        Self::with(|workspace| workspace.write(path, text))
    }

    fn with_replaced(path: &str, from: &str, to: &str) -> Self {
        Self::with(|workspace| workspace.replace(path, from, to))
    }
}

const SPEC: &str = "docs/specification.md";

/// For each check, by a part of its rule: workspaces that break it, and the place that it must name.
fn broken() -> Vec<(&'static str, &'static str, usize, Workspace)> {
    let client = "crates/mrtr-client/Cargo.toml";
    let server = "crates/mrtr-server/Cargo.toml";
    let lib = "crates/mrtr-client/src/lib.rs";
    let example = "examples/readme/src/main.rs";
    let page = "docs/ledger.md";
    let cases = "docs/cases.md";
    vec![
        (
            "arrows",
            client,
            9,
            Workspace::with(|w| {
                w.members.retain(|member| member.name != "mrtr-client");
                w.add(
                    "crates/mrtr-client",
                    &["mrtr-protocol", "serde", "mrtr-state"],
                );
            }),
        ),
        (
            "arrows",
            "crates/mrtr-new/Cargo.toml",
            1,
            Workspace::with(|w| w.add("crates/mrtr-new", &[])),
        ),
        (
            "arrows",
            server,
            9,
            Workspace::with(|w| {
                w.members.retain(|member| member.name != "mrtr-server");
                w.add(
                    "crates/mrtr-server",
                    &["mrtr-protocol", "mrtr-state", "readme"],
                );
            }),
        ),
        // Indirectly, through a package from outside.
        (
            "closure",
            client,
            7,
            Workspace::with(|w| w.package("mrtr-protocol", &["mrtr-state"])),
        ),
        (
            "closure",
            server,
            8,
            Workspace::with(|w| w.package("mrtr-state", &["sha2", "mrtr-state-hmac"])),
        ),
        (
            "closure",
            "crates/mrtr-protocol/Cargo.toml",
            1,
            Workspace::with(|w| {
                w.package("mrtr-protocol", &["url"]);
                w.package("url", &["getrandom"]);
                w.package("getrandom", &[]);
            }),
        ),
        (
            "newer Rust",
            "Cargo.lock",
            2,
            Workspace::with(|w| {
                w.package("serde", &[]);
                w.graph.packages.get_mut("serde").unwrap().rust_version =
                    RustVersion::parse("1.90");
            }),
        ),
        (
            "closure",
            "Cargo.toml",
            1,
            Workspace::with(|w| w.members.retain(|member| member.name != "mrtr-client")),
        ),
        (
            "newer Rust",
            "Cargo.toml",
            1,
            Workspace::with_replaced("Cargo.toml", "rust-version", "rust-versions"),
        ),
        (
            "folder is named",
            "crates/mrtr-courier/Cargo.toml",
            1,
            Workspace::with(|w| {
                w.add("crates/mrtr-courier", &[]);
                w.members.last_mut().unwrap().name = "mrtr-client".to_owned();
            }),
        ),
        (
            "forbids unsafe",
            "Cargo.toml",
            3,
            Workspace::with_replaced("Cargo.toml", "forbid", "deny"),
        ),
        (
            "forbids unsafe",
            client,
            8,
            Workspace::with_replaced(client, "[lints]\nworkspace = true", "[lints]"),
        ),
        (
            "are the workspace's",
            client,
            3,
            Workspace::with_replaced(client, "license.workspace = true", "license = \"MIT\""),
        ),
        (
            "are the workspace's",
            client,
            4,
            Workspace::with_replaced(
                client,
                "rust-version.workspace = true",
                "rust-version = \"1.90\"",
            ),
        ),
        (
            "README of 15",
            "crates/mrtr-client/README.md",
            14,
            Workspace::with_file("crates/mrtr-client/README.md", &"x\n".repeat(14)),
        ),
        (
            "README of 15",
            "crates/mrtr-client/README.md",
            61,
            Workspace::with_file("crates/mrtr-client/README.md", &"x\n".repeat(61)),
        ),
        (
            "README of 15",
            "crates/mrtr-client/README.md",
            1,
            Workspace::with(|w| {
                w.files
                    .retain(|file| file.path != "crates/mrtr-client/README.md")
            }),
        ),
        (
            "one integration",
            "crates/mrtr-client/tests/more.rs",
            1,
            Workspace::with_file("crates/mrtr-client/tests/more.rs", ""),
        ),
        (
            "one integration",
            "crates/mrtr-client/tests/at/main.rs",
            1,
            Workspace::with_file("crates/mrtr-client/tests/at/main.rs", ""),
        ),
        (
            "command that runs",
            example,
            1,
            Workspace::with_replaced(example, "-p readme", "-p readme-two"),
        ),
        (
            "command that runs",
            example,
            1,
            Workspace::with_replaced(example, "//! Asks.", "// Asks."),
        ),
        (
            "Cargo.lock",
            "Cargo.lock",
            1,
            Workspace::with(|w| w.files.retain(|file| file.path != "Cargo.lock")),
        ),
        (
            "Cargo.lock",
            "Cargo.lock",
            1,
            Workspace::with(|w| {
                w.files
                    .iter_mut()
                    .find(|file| file.path == "Cargo.lock")
                    .unwrap()
                    .committed = false;
            }),
        ),
        (
            "wall clock",
            lib,
            2,
            Workspace::with_file(
                lib,
                "fn f() {\n    let now = std::time::SystemTime::now();\n}\n",
            ),
        ),
        (
            "wall clock",
            lib,
            1,
            Workspace::with_file(
                lib,
                "#[allow(clippy::disallowed_methods, reason = \"x\")]\n",
            ),
        ),
        (
            "wall clock",
            "crates/mrtr-state/src/seal.rs",
            1,
            Workspace::with_file(
                "crates/mrtr-state/src/seal.rs",
                "let start = Instant::now();\n",
            ),
        ),
        (
            "wall clock",
            "crates/mrtr-state/src/time.rs",
            1,
            Workspace::with(|w| {
                w.files
                    .retain(|file| file.path != "crates/mrtr-state/src/time.rs")
            }),
        ),
        (
            "MAC",
            lib,
            1,
            Workspace::with_file(
                lib,
                &format!("mac.{}_left(&tag)\n", concat!("verify_", "truncated")),
            ),
        ),
        (
            "placeholders",
            lib,
            2,
            Workspace::with_file(
                lib,
                &format!("fn f() {{\n    {}\n}}\n", concat!("to", "do!()")),
            ),
        ),
        (
            "placeholders",
            "docs/a.md",
            1,
            Workspace::with_file("docs/a.md", concat!("# One\u{20}", "TO", "DO: more")),
        ),
        (
            "registry's host",
            "docs/a.md",
            2,
            Workspace::with_file("docs/a.md", concat!("# One\nhttps://cra", "tes.io/x")),
        ),
        (
            "registry's host",
            "Cargo.lock",
            1,
            Workspace::with_file("Cargo.lock", concat!("checksum = \"pypi", ".org\"")),
        ),
        (
            "somewhere",
            "docs/a.md",
            3,
            Workspace::with_replaced("docs/a.md", "../README.md", "../READYOU.md"),
        ),
        (
            "somewhere",
            "README.md",
            6,
            Workspace::with_replaced("README.md", "#one", "#two"),
        ),
        (
            "somewhere",
            "docs/a.md",
            3,
            Workspace::with_replaced("docs/a.md", "../README.md", "../../README.md"),
        ),
        (
            "README's code",
            "README.md",
            3,
            Workspace::with_replaced("README.md", "fn f() {}", "fn g() {}"),
        ),
        (
            "README's code",
            "README.md",
            4,
            Workspace::with_replaced(example, "fn f() {}\n", "fn f() {}\nfn g() {}\n"),
        ),
        (
            "README's code",
            "README.md",
            1,
            Workspace::with_replaced("README.md", "```rust", "```"),
        ),
        (
            "README's code",
            example,
            1,
            Workspace::with(|w| {
                w.files
                    .retain(|file| file.path != "examples/readme/src/main.rs")
            }),
        ),
        (
            "README's code",
            example,
            3,
            Workspace::with(|w| {
                w.replace(example, "fn f() {}\n", "");
                w.replace("README.md", "fn f() {}\n", "");
            }),
        ),
        (
            "every code",
            "crates/mrtr-protocol/src/error.rs",
            1,
            Workspace::with_replaced("docs/errors.md", "-32700", "-32600"),
        ),
        (
            "every code",
            "crates/mrtr-state/src/reason.rs",
            3,
            Workspace::with_replaced("docs/errors.md", "`expired`", "expired"),
        ),
        (
            "every code",
            "crates/mrtr-state/src/reason.rs",
            1,
            Workspace::with_replaced("crates/mrtr-state/src/reason.rs", "as_str", "as_word"),
        ),
        (
            "README's table",
            "README.md",
            10,
            Workspace::with_replaced("crates/mrtr-state/src/seal.rs", "#[test]", ""),
        ),
        (
            "README's table",
            "README.md",
            10,
            Workspace::with_replaced("README.md", "VerifiedState", "TrustedState"),
        ),
        (
            "README's table",
            "README.md",
            10,
            Workspace::with_replaced("README.md", "it_opens", "it_closes"),
        ),
        (
            "README's table",
            "README.md",
            10,
            Workspace::with_replaced("README.md", "`it_opens`", "some test"),
        ),
        (
            "README's table",
            "README.md",
            1,
            Workspace::with_replaced("README.md", "| Rule |", "| What |"),
        ),
        (
            "docs/threat-model.md",
            "docs/threat-model.md",
            5,
            Workspace::with_replaced("docs/threat-model.md", "it_opens", "it_closes"),
        ),
        (
            "docs/threat-model.md",
            "docs/threat-model.md",
            5,
            Workspace::with_replaced("docs/threat-model.md", "`it_opens`", "we are careful"),
        ),
        (
            "docs/threat-model.md",
            "docs/threat-model.md",
            3,
            Workspace::with_replaced("docs/threat-model.md", "| Test |", "| Hope |"),
        ),
        (
            "docs/threat-model.md",
            "docs/threat-model.md",
            1,
            Workspace::with_replaced("docs/threat-model.md", "| Promise |", "| Hope |"),
        ),
        (
            "docs/threat-model.md",
            "docs/threat-model.md",
            1,
            Workspace::with(|w| w.files.retain(|file| file.path != "docs/threat-model.md")),
        ),
        (
            "each row of docs/specification.md",
            SPEC,
            1,
            Workspace::with(|w| w.files.retain(|file| file.path != SPEC)),
        ),
        (
            "each row of docs/specification.md",
            SPEC,
            8,
            Workspace::with_replaced(SPEC, "| Side | Kept by |", "| Kept by | Side |"),
        ),
        (
            "each row of docs/specification.md",
            SPEC,
            11,
            Workspace::with_replaced(SPEC, "A-02", "A-01"),
        ),
        (
            "each row of docs/specification.md",
            SPEC,
            11,
            Workspace::with_replaced(SPEC, "A-02", "A-03"),
        ),
        (
            "each row of docs/specification.md",
            SPEC,
            15,
            Workspace::with_replaced(SPEC, "B-01", "A-01"),
        ),
        (
            "each row of docs/specification.md",
            SPEC,
            10,
            Workspace::with_replaced(SPEC, "it is verified", "a or `a|b`"),
        ),
        (
            "each row of docs/specification.md",
            SPEC,
            10,
            Workspace::with_replaced(SPEC, "it is verified", " "),
        ),
        (
            "each row of docs/specification.md",
            SPEC,
            10,
            Workspace::with_replaced(SPEC, "MUST ×2", "MAY"),
        ),
        (
            "each row of docs/specification.md",
            SPEC,
            11,
            Workspace::with_replaced(SPEC, " host ", " somebody "),
        ),
        (
            "each row of docs/specification.md",
            SPEC,
            10,
            Workspace::with_replaced(SPEC, "`VerifiedState`", "`TrustedState`"),
        ),
        (
            "each row of docs/specification.md",
            SPEC,
            10,
            Workspace::with_replaced(SPEC, "`VerifiedState`", "what is there"),
        ),
        (
            "each row of docs/specification.md",
            SPEC,
            10,
            Workspace::with_replaced(
                SPEC,
                "mrtr-state seal::it_opens` |\n| A",
                "mrtr-state it_opens` |\n| A",
            ),
        ),
        (
            "each row of docs/specification.md",
            SPEC,
            10,
            Workspace::with_replaced(
                SPEC,
                "mrtr-state seal::it_opens` |\n| A",
                "mrtr-client seal::it_opens` |\n| A",
            ),
        ),
        (
            "each row of docs/specification.md",
            SPEC,
            15,
            Workspace::with_replaced(SPEC, "asks::tests::it_asks", "asks::it_asks"),
        ),
        (
            "each row of docs/specification.md",
            SPEC,
            15,
            Workspace::with_replaced("crates/mrtr-client/tests/it/asks.rs", "#[tokio::test]", ""),
        ),
        (
            "each row of docs/specification.md",
            SPEC,
            15,
            Workspace::with_replaced(
                "crates/mrtr-client/tests/it/asks.rs",
                "#[tokio::test]",
                "#[tokio::test]\n    #[ignore]",
            ),
        ),
        (
            "each row of docs/specification.md",
            SPEC,
            11,
            Workspace::with_replaced(SPEC, "it binds whoever shows it", "not ours"),
        ),
        (
            "covers as many rules",
            SPEC,
            5,
            Workspace::with_replaced(SPEC, "| A | 3 |", "| A | 4 |"),
        ),
        (
            "covers as many rules",
            SPEC,
            5,
            Workspace::with_replaced(SPEC, "| 3 | 1 |", "| 3 | 0 |"),
        ),
        (
            "covers as many rules",
            SPEC,
            5,
            Workspace::with_replaced(SPEC, "MUST ×2", "MUST"),
        ),
        (
            "covers as many rules",
            SPEC,
            3,
            Workspace::with_replaced(SPEC, "| basic/b | B | 1 | 0 |\n", ""),
        ),
        (
            "covers as many rules",
            SPEC,
            6,
            Workspace::with_replaced(SPEC, "| B | 1 |", "| C | 1 |"),
        ),
        (
            "covers as many rules",
            SPEC,
            1,
            Workspace::with_replaced(SPEC, "| Page |", "| Leaf |"),
        ),
        (
            "covers as many rules",
            SPEC,
            3,
            Workspace::with_replaced(SPEC, "| MUST | SHOULD |\n", "| SHOULD | MUST |\n"),
        ),
        (
            "waits for what is not built",
            SPEC,
            11,
            Workspace::with_replaced(
                SPEC,
                "it binds whoever shows it",
                "open: this is not built yet",
            ),
        ),
        (
            "has each rule of the model",
            "model/src/turn.rs",
            1,
            Workspace::with_file("model/src/turn.rs", "enum Turn {}\n"),
        ),
        (
            "has each rule of the model",
            "model/src/turn.rs",
            4,
            Workspace::with_replaced(
                page,
                "| A mark refuses. | `mark-refuses` | `at-most-once` | `it_opens`, `it_asks` |\n",
                "",
            ),
        ),
        (
            "has each rule of the model",
            page,
            6,
            Workspace::with_replaced(page, "`mark-refuses`", "`mark-forgives`"),
        ),
        (
            "has each rule of the model",
            page,
            6,
            Workspace::with_replaced(page, "`mark-refuses`", "`one-token-owns`"),
        ),
        (
            "has each rule of the model",
            page,
            5,
            Workspace::with_replaced(page, "`one-run`", "`one-answer`"),
        ),
        (
            "has each rule of the model",
            page,
            5,
            Workspace::with_replaced(page, "A token owns it.", "Nobody owns it."),
        ),
        (
            "has each rule of the model",
            page,
            6,
            Workspace::with_replaced(page, "`it_opens`, `it_asks`", "`it_sings`"),
        ),
        (
            "has each rule of the model",
            page,
            3,
            Workspace::with_replaced(page, "| Falls |", "| Breaks |"),
        ),
        (
            "beside the model's rules",
            page,
            10,
            Workspace::with_replaced(page, "nothing depends on it", "no"),
        ),
        (
            "beside the model's rules",
            page,
            10,
            Workspace::with_replaced(
                page,
                "nothing depends on it | `it_opens`",
                "nothing depends on it | none",
            ),
        ),
        (
            "beside the model's rules",
            page,
            8,
            Workspace::with_replaced(page, "| Why it is no switch |", "| Why |"),
        ),
        (
            "leads to every guide",
            "README.md",
            1,
            Workspace::with_file("docs/hosts.md", "# Hosts\n"),
        ),
        (
            "leads to every guide",
            "README.md",
            1,
            Workspace::with_replaced("README.md", "(docs/errors.md)", "(docs/a.md)"),
        ),
        // The type, its file, a field and a variant elsewhere, a function by its name.
        (
            "sampling and roots",
            "crates/mrtr-protocol/src/sampling.rs",
            5,
            Workspace::with_replaced(
                "crates/mrtr-protocol/src/sampling.rs",
                "said. Deprecated: call a provider.",
                "said.",
            ),
        ),
        (
            "sampling and roots",
            "crates/mrtr-protocol/src/sampling.rs",
            1,
            Workspace::with_replaced(
                "crates/mrtr-protocol/src/sampling.rs",
                ": call a model's provider instead",
                "",
            ),
        ),
        (
            "sampling and roots",
            "crates/mrtr-protocol/src/roots/list.rs",
            4,
            Workspace::with_file(
                "crates/mrtr-protocol/src/roots/list.rs",
                "//! Folders.\n\n/// A folder.\npub struct Root;\n",
            ),
        ),
        (
            "sampling and roots",
            "crates/mrtr-protocol/src/sampling.rs",
            5,
            Workspace::with_replaced(
                "crates/mrtr-protocol/src/sampling.rs",
                "Deprecated: call a provider.",
                "Deprecated.",
            ),
        ),
        (
            "sampling and roots",
            lib,
            2,
            Workspace::with_file(
                lib,
                "pub struct Capabilities {\n    pub sampling: bool,\n}\n",
            ),
        ),
        (
            "sampling and roots",
            lib,
            4,
            Workspace::with_file(
                lib,
                "pub enum Kind {\n    /// A form.\n    Form,\n    Roots,\n}\n",
            ),
        ),
        (
            "sampling and roots",
            lib,
            3,
            Workspace::with_file(
                lib,
                "impl C {\n    /// Answers.\n    pub fn on_sampling() {}\n}\n",
            ),
        ),
        (
            "closure",
            "crates/mrtr-state/Cargo.toml",
            7,
            Workspace::with(|w| {
                w.package("sha2", &["rand"]);
                w.package("rand", &[]);
            }),
        ),
        (
            "in every build",
            lib,
            2,
            Workspace::with_file(
                lib,
                "fn f() {\n    if cfg!(debug_assertions) { return; }\n}\n",
            ),
        ),
        (
            "in every build",
            "crates/mrtr-state-hmac/src/codec.rs",
            1,
            Workspace::with_file(
                "crates/mrtr-state-hmac/src/codec.rs",
                "#[cfg(feature = \"dev-mode\")]\nfn verify() {}\n",
            ),
        ),
        (
            "docs/cases.md",
            cases,
            5,
            Workspace::with_replaced(cases, "`case_001_b`", "`case_002_b`"),
        ),
        (
            "docs/cases.md",
            cases,
            5,
            Workspace::with_replaced(
                cases,
                "mrtr-state: `case_001_a`",
                "mrtr-ledger: `case_001_a`",
            ),
        ),
        (
            "docs/cases.md",
            cases,
            5,
            Workspace::with_replaced(cases, "mrtr-state:", "mrtr-steak:"),
        ),
        (
            "docs/cases.md",
            cases,
            5,
            Workspace::with_replaced(cases, "mrtr-state: `case_001_a`", "it is obvious"),
        ),
        (
            "docs/cases.md",
            cases,
            5,
            Workspace::with_replaced(cases, "| 1 |", "| 3 |"),
        ),
        (
            "docs/cases.md",
            cases,
            6,
            Workspace::with_replaced(cases, "| 3 |", "| 1 |"),
        ),
        (
            "docs/cases.md",
            cases,
            6,
            Workspace::with_replaced(cases, "P1", "P3"),
        ),
        (
            "docs/cases.md",
            cases,
            6,
            Workspace::with_replaced(cases, "chaos", "chase"),
        ),
        (
            "docs/cases.md",
            cases,
            6,
            Workspace::with_replaced(cases, "`cargo xtask chaos`, briefly", ""),
        ),
        (
            "docs/cases.md",
            cases,
            10,
            Workspace::with_replaced(cases, "there is nobody to tell", "no"),
        ),
        (
            "docs/cases.md",
            "crates/mrtr-server/tests/it/cases.rs",
            4,
            Workspace::with_replaced(cases, "`case_001_a`, `case_001_b`", "`case_001_a`"),
        ),
        (
            "docs/cases.md",
            "crates/mrtr-client/tests/it/asks.rs",
            2,
            Workspace::with_file(
                "crates/mrtr-client/tests/it/asks.rs",
                "#[test]\nfn case_001_a() {}\n",
            ),
        ),
        // It is no test.
        (
            "docs/cases.md",
            cases,
            5,
            Workspace::with_file(
                "crates/mrtr-server/tests/it/cases.rs",
                "fn case_001_a() {}\n\n\n\n\n#[test]\nfn case_001_b() {}\n",
            ),
        ),
        (
            "docs/cases.md",
            cases,
            20,
            Workspace::with(|w| {
                let refused: String = (5..15)
                    .map(|n| {
                        format!("| {n} | It is told | P2 | refused: there is nobody to tell |\n")
                    })
                    .collect();
                let text = format!("{CASES}{refused}");
                w.write(cases, &text);
            }),
        ),
        (
            "docs/cases.md",
            cases,
            1,
            Workspace::with_file(cases, "# Cases\n"),
        ),
        (
            "names each crate",
            "ARCHITECTURE.md",
            1,
            Workspace::with_replaced("ARCHITECTURE.md", "`mrtr-state` ", ""),
        ),
        (
            "CHANGELOG",
            "CHANGELOG.md",
            1,
            Workspace::with_replaced("CHANGELOG.md", "[Unreleased]", "[0.1.0]"),
        ),
        (
            "CHANGELOG",
            "CHANGELOG.md",
            5,
            Workspace::with_replaced("CHANGELOG.md", "**added:** ", ""),
        ),
        (
            "700 lines",
            lib,
            700,
            Workspace::with_file(lib, &"\n".repeat(701)),
        ),
    ]
}

fn check(part: &str) -> &'static Check {
    let mut found = CHECKS.iter().filter(|check| check.rule.contains(part));
    let check = found
        .next()
        .unwrap_or_else(|| panic!("no rule holds `{part}`"));
    assert!(found.next().is_none(), "two rules hold `{part}`");
    check
}

#[test]
fn a_good_workspace_keeps_every_rule() {
    let workspace = Workspace::good();
    for check in CHECKS {
        assert_eq!((check.find)(&workspace), [], "{}", check.rule);
    }
}

#[test]
fn what_breaks_a_rule_is_found_at_its_place() {
    for (index, (part, file, line, workspace)) in broken().iter().enumerate() {
        let check = check(part);
        let findings = (check.find)(workspace);
        assert!(
            findings
                .iter()
                .any(|finding| finding.file == *file && finding.line == *line),
            "case {index}, {}: expected {file}:{line}, found {findings:#?}",
            check.rule
        );
    }
}

#[test]
fn no_check_is_without_a_case_that_breaks_it() {
    let cases = broken();
    for rule in CHECKS.iter().map(|check| check.rule) {
        assert!(cases.iter().any(|(part, ..)| rule.contains(part)), "{rule}");
    }
}

#[test]
fn what_only_looks_like_a_violation_is_none() {
    let cases = [
        (
            "wall clock",
            "crates/mrtr-client/src/lib.rs",
            "// SystemTime::now()\n#[cfg(test)]\nmod t { fn f() { SystemTime::now() } }\n",
        ),
        (
            "wall clock",
            "crates/mrtr-client/tests/it/main.rs",
            "SystemTime::now();\n",
        ),
        // A monotonic clock measures how long something took.
        (
            "wall clock",
            "crates/mrtr-client/src/lib.rs",
            "let start = Instant::now();\n",
        ),
        (
            "in every build",
            "crates/mrtr-client/src/lib.rs",
            "// cfg!(x)\n#[cfg(unix)]\nfn f() {}\n#[cfg(test)]\nmod t { fn f() { debug_assert!(true) } }\n",
        ),
        ("placeholders", "docs/a.md", "# One\n\nMASTODON, todo\n"),
        // While the page says that it is unfinished.
        (
            "docs/cases.md",
            "docs/cases.md",
            "# Cases\n\nAn empty cell: not shown yet.\n\n| case | fault | | shown by |\n|---|---|---|---|\n| 1 | It opens | P0 | mrtr-server: `case_001_a`, `case_001_b`; mrtr-state: `case_001_a` |\n| 2 | It lasts | P1 | |\n",
        ),
        ("one integration", "crates/mrtr-client/tests/it/seal.rs", ""),
        (
            "somewhere",
            "docs/a.md",
            "# One\n\n`[x](y.md)` [z](#one) [m](mailto:a@example.org)\n",
        ),
        // Private, of the crate alone, exported again, or of a longer word; a module whose file says it.
        (
            "sampling and roots",
            "crates/mrtr-client/src/lib.rs",
            "enum Kind { Roots }\npub(crate) struct Sampling;\npub use p::CreateMessageResult;\npub fn resampling() {}\npub mod sampling;\n",
        ),
        (
            "sampling and roots",
            "examples/kitchen/src/sampling.rs",
            "pub struct Sampling;\n",
        ),
        (
            "sampling and roots",
            "crates/mrtr-protocol/src/roots.rs",
            "//! Deprecated: a new server takes folders as parameters.\n\n/// Deprecated, as above: take parameters.\npub struct ListRootsResult {\n    pub roots: u8,\n}\n",
        ),
    ];
    for (part, path, text) in cases {
        let findings = (check(part).find)(&Workspace::with_file(path, text));
        assert_eq!(findings, [], "{part}: {text}");
    }
}
