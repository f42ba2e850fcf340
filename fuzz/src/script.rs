//! Requests as a text that a person can write and a fuzzer can change.
//!
//! ```text
//! @tools/call transfer          the headers of a good modern request, for this method and name
//! Mcp-Name: other               a header, behind or in place of those
//! !DELETE /mcp                  another HTTP method and path
//! +600                          that many seconds later
//!
//! {"jsonrpc":"2.0", ..}         the body, after an empty line
//! %%                            the next request
//! ```
//!
//! `@session` gives the headers of a request in the session that the server opened last, `@initialize` those of one that opens it. In a
//! body `$META` stands for a good `_meta`, `$S0` to `$S9` for the states that came back so far, and `$Q0` to `$Q9` for the ids of the
//! server's questions.

/// More requests than this say nothing new.
const MOST: usize = 8;

/// One request.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    pub(crate) seconds: u64,
    pub(crate) body: Vec<u8>,
}

/// What came back so far, to be put into what is sent next.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) states: Vec<String>,
    /// JSON texts.
    pub(crate) questions: Vec<String>,
    pub(crate) session: Option<String>,
}

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}"#;

/// The requests of a script, as texts that [`request`] reads.
pub(crate) fn requests(data: &[u8]) -> Vec<&[u8]> {
    let mut rest = data;
    let mut requests = Vec::new();
    while requests.len() < MOST {
        let end = rest.windows(4).position(|window| window == b"\n%%\n");
        match end {
            Some(at) => {
                requests.push(&rest[..at]);
                rest = &rest[at + 4..];
            }
            None => {
                requests.push(rest);
                break;
            }
        }
    }
    requests
}

/// One request of a script, with what is known put in.
pub(crate) fn request(text: &[u8], known: &Known) -> Request {
    let mut request = Request {
        method: "POST".to_owned(),
        path: "/mcp".to_owned(),
        headers: vec![
            ("host".to_owned(), b"localhost".to_vec()),
            ("authorization".to_owned(), b"Bearer user-a".to_vec()),
            ("content-type".to_owned(), b"application/json".to_vec()),
            (
                "accept".to_owned(),
                b"application/json, text/event-stream".to_vec(),
            ),
        ],
        seconds: 0,
        body: Vec::new(),
    };
    let mut rest = text;
    while let Some(at) = rest.iter().position(|&byte| byte == b'\n') {
        let line = &rest[..at];
        rest = &rest[at + 1..];
        if line.is_empty() {
            request.body = filled(rest, known);
            return request;
        }
        request.line(line, known);
    }
    request.line(rest, known);
    request
}

impl Request {
    fn line(&mut self, line: &[u8], known: &Known) {
        let text = String::from_utf8_lossy(line);
        match text.chars().next() {
            Some('@') => self.good(&text[1..], known),
            Some('+') => self.seconds = text[1..].parse().unwrap_or(0).min(1_000_000),
            Some('!') => {
                let (method, path) = text[1..].split_once(' ').unwrap_or((&text[1..], "/mcp"));
                (self.method, self.path) = (method.to_owned(), path.to_owned());
            }
            _ => {
                let colon = line
                    .iter()
                    .position(|&byte| byte == b':')
                    .unwrap_or(line.len());
                let name = String::from_utf8_lossy(&line[..colon]).to_ascii_lowercase();
                let value = line.get(colon + 1..).unwrap_or_default().trim_ascii();
                // A good header is replaced; what was written twice is sent twice.
                self.headers
                    .retain(|(own, _)| *own != name || !GOOD.contains(&&*name));
                self.headers.push((name, value.to_vec()));
            }
        }
    }

    fn good(&mut self, words: &str, known: &Known) {
        let mut words = words.splitn(2, ' ');
        let method = words.next().unwrap_or_default();
        let mut put = |name: &str, value: &str| {
            self.headers
                .push((name.to_owned(), value.as_bytes().to_vec()))
        };
        match method {
            "initialize" => {}
            "session" => {
                put("mcp-protocol-version", "2025-11-25");
                put("mcp-session-id", known.session.as_deref().unwrap_or("none"));
            }
            _ => {
                put("mcp-protocol-version", "2026-07-28");
                put("mcp-method", method);
                if let Some(name) = words.next() {
                    put("mcp-name", name);
                }
            }
        }
    }

    /// The one header of this name.
    pub(crate) fn header(&self, name: &str) -> Option<&[u8]> {
        let mut of_name = self.headers.iter().filter(|(own, _)| own == name);
        of_name.next().map(|(_, value)| &**value)
    }
}

/// Headers that are there already, and that a line replaces.
const GOOD: [&str; 4] = ["host", "authorization", "content-type", "accept"];

fn filled(body: &[u8], known: &Known) -> Vec<u8> {
    let mut filled = Vec::with_capacity(body.len());
    let mut rest = body;
    while let Some(at) = rest.iter().position(|&byte| byte == b'$') {
        filled.extend_from_slice(&rest[..at]);
        rest = &rest[at..];
        let number = |list: &'_ [String]| -> Option<String> {
            let digit = rest.get(2)?.checked_sub(b'0')?;
            list.get(usize::from(digit)).cloned()
        };
        let (taken, put) = match rest {
            [b'$', b'M', b'E', b'T', b'A', ..] => (5, Some(META.to_owned())),
            [b'$', b'S', b'0'..=b'9', ..] => (3, number(&known.states)),
            [b'$', b'Q', b'0'..=b'9', ..] => (3, number(&known.questions)),
            _ => (1, Some("$".to_owned())),
        };
        filled.extend_from_slice(put.unwrap_or_default().as_bytes());
        rest = &rest[taken..];
    }
    filled.extend_from_slice(rest);
    filled
}
