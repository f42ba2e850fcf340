//! What the measured servers share: where they listen, how they say so, and what they are told.

use std::io::Write as _;

use tokio::net::TcpListener;

/// The key of every server that seals.
pub const KEY: [u8; 32] = *b"0123456789abcdefghijklmnopqrstuv";

/// The bearer token of the one principal.
pub const TOKEN: &str = "bench-token";

/// Listens on a free port of loopback.
///
/// # Errors
/// There is none.
pub async fn listen() -> std::io::Result<TcpListener> {
    TcpListener::bind("127.0.0.1:0").await
}

/// Says where, on stdout, for the program that started this one.
///
/// # Errors
/// Nobody reads.
pub fn say_address(listener: &TcpListener) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{}", listener.local_addr()?)?;
    stdout.flush()
}

/// The options of our own server.
#[derive(Debug, Default)]
pub struct Options {
    /// `hmac` or `aead`.
    pub codec: String,
    /// Where a ledger's file is.
    pub ledger: Option<String>,
    /// How many tools there are beside the two.
    pub tools: usize,
    /// Nobody is told apart.
    pub anonymous: bool,
}

impl Options {
    /// Reads the command line. It is written by the harness alone, so what is not understood is passed over.
    #[must_use]
    pub fn parse() -> Self {
        let mut options = Self {
            codec: "hmac".to_owned(),
            ..Self::default()
        };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--codec" => options.codec = args.next().unwrap_or_default(),
                "--ledger" => options.ledger = args.next(),
                "--tools" => {
                    options.tools = args.next().and_then(|n| n.parse().ok()).unwrap_or_default()
                }
                "--anonymous" => options.anonymous = true,
                _ => {}
            }
        }
        options
    }
}
