//! A page that a server asks a person to open (*Elicitation, URL Mode*).

use std::fmt;
use std::net::IpAddr;

use mrtr_protocol::InputRequest;
use reqwest::Url;

use crate::error::QuestionProblem;
use crate::handler::{HandlerFuture, Refusal, ServerLabel, plain};
use crate::target::Target;

/// Puts pages to a person.
///
/// Any `async` closure over a [`UrlQuestion`] is a handler. Registering one declares `elicitation.url` with every request.
///
/// # Contract
///
/// * Show which server is asking and the **whole** URL, with its host set apart ([`PageUrl::parts`]) and its [warnings](PageUrl::warnings)
///   beside it, *before* anything is opened or fetched: neither page, icon nor preview. Nothing in this crate opens or fetches it.
/// * Answer [`UrlAnswer::Accept`] only when the person consented to this URL. It is consent and no more: the server learns from the page
///   itself whether it was used.
/// * Open it where neither this program nor a model can read along: the person's own browser. Start that with the URL as one argument of
///   its own, never through a shell.
/// * When [`UrlQuestion::repeated`] is not 0 the page was opened before: do not open it again unasked. Let the person say *done*, *open
///   again* or *give up*, and answer accept for the first.
/// * Questions of one round are asked at the same time. When one of them ends the call, the futures of the others are dropped.
pub trait UrlHandler: Send + Sync + 'static {
    /// Answers one question. It may take as long as a person takes; no timeout of the client runs meanwhile.
    fn answer(&self, question: UrlQuestion) -> HandlerFuture<'_, UrlAnswer>;
}

impl<F, Fut> UrlHandler for F
where
    F: Fn(UrlQuestion) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<UrlAnswer, Refusal>> + Send + 'static,
{
    fn answer(&self, question: UrlQuestion) -> HandlerFuture<'_, UrlAnswer> {
        Box::pin(self(question))
    }
}

/// What the person did with a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UrlAnswer {
    /// Consented to opening this URL, or said that it was used. No content goes with it: what is typed there goes to the page alone.
    Accept,
    /// Said no.
    Decline,
    /// Dismissed without a choice, or the browser did not open.
    Cancel,
}

/// One page to be put to a person.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct UrlQuestion {
    /// Who is asking. Show it.
    pub server: ServerLabel,
    /// The call that waits for the answer. `None` when nothing says which one: a server of the earlier era may ask outside of a call's
    /// stream, and over stdio there is one stream for all.
    pub target: Option<Target>,
    /// The question's key in its round; in the earlier era the id of the server's request.
    pub key: String,
    /// The message as the server wrote it. Untrusted: it may hold markup or control characters, and links that must not be clickable.
    pub message: String,
    /// The page. Show all of it.
    pub url: PageUrl,
    /// How often the person has accepted this very URL in this call. Not 0: the server does not know yet that the page was used.
    pub repeated: u32,
}

impl UrlQuestion {
    /// The message without control characters and without characters that change the direction of text, for a terminal or a plain label.
    /// Line breaks stay.
    #[must_use]
    pub fn plain_message(&self) -> String {
        plain(&self.message)
    }
}

/// A URL that may be shown, and opened once the person consents.
///
/// Guaranteed: http or https with a host, no more than [`PageUrl::LIMIT`] bytes, and text that a browser does not read otherwise: no white
/// space, control characters, quotes or backslashes. [`PageUrl::as_str`] is ASCII: a host in other letters is in its `xn--` form.
/// Not guaranteed: that the page is harmless, or the server's own.
///
/// ```
/// use mrtr_client::{PageUrl, UrlWarning};
/// let url = PageUrl::parse("https://bank.example@xn--pple-43d.com/login")?;
/// assert_eq!(url.parts(), ("https://bank.example@", "xn--pple-43d.com", "/login"));
/// assert_eq!(url.warnings(), [UrlWarning::UserInfo, UrlWarning::InternationalHost]);
/// # Ok::<(), mrtr_client::UrlProblem>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageUrl {
    sent: String,
    /// As a browser would show it after reading it.
    url: String,
    /// Where the host lies in `url`.
    host: std::ops::Range<usize>,
    warnings: Vec<UrlWarning>,
}

/// What a person should be told about a URL before they consent to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UrlWarning {
    /// `http`: anyone on the way can read and change the page.
    NotEncrypted,
    /// A user name or password before the host, which is how one host is dressed up as another.
    UserInfo,
    /// Letters beyond ASCII, or their `xn--` form (Punycode): the host may look like another.
    InternationalHost,
    /// A number in place of a name.
    IpAddress,
    /// This machine or the local network.
    LocalHost,
}

impl fmt::Display for UrlWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotEncrypted => "the connection is not encrypted",
            Self::UserInfo => "what stands before the @ is not the host",
            Self::InternationalHost => "the host's letters may look like those of another host",
            Self::IpAddress => "the host is a number, not a name",
            Self::LocalHost => "the host is this machine or in the local network",
        })
    }
}

/// Why a URL is not put to anyone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlProblem {
    /// Neither http nor https.
    #[error("only http and https URLs are put to a person")]
    Scheme,
    /// White space, control characters, quotes, backslashes: what two programs may read differently.
    #[error("the URL holds characters that no URL has")]
    Characters,
    /// No host, or one that is none.
    #[error("the URL is not valid")]
    Invalid,
    /// Longer than anyone can look at.
    #[error("the URL is longer than {limit} bytes", limit = PageUrl::LIMIT)]
    TooLong,
}

impl PageUrl {
    /// How long a URL may be, in bytes: what browsers and servers commonly take.
    pub const LIMIT: usize = 8 * 1024;

    /// Reads a URL as a browser would, and refuses what browsers repair.
    ///
    /// # Errors
    ///
    /// [`UrlProblem`].
    pub fn parse(text: &str) -> Result<Self, UrlProblem> {
        if text.len() > Self::LIMIT {
            return Err(UrlProblem::TooLong);
        }
        let rest = ["https://", "http://"]
            .into_iter()
            .find_map(|scheme| {
                let head = text.get(..scheme.len())?;
                head.eq_ignore_ascii_case(scheme)
                    .then(|| text.get(scheme.len()..))?
            })
            .ok_or(UrlProblem::Scheme)?;
        if !text.chars().all(is_of_a_url) {
            return Err(UrlProblem::Characters);
        }
        if rest.starts_with('/') {
            return Err(UrlProblem::Invalid);
        }
        let url = Url::parse(text).map_err(|_| UrlProblem::Invalid)?;
        let host_text = url.host_str().filter(|host| !host.is_empty());
        let host_text = host_text.ok_or(UrlProblem::Invalid)?;
        let host = host_range(&url, host_text).ok_or(UrlProblem::Invalid)?;
        if url.as_str().len() > Self::LIMIT {
            return Err(UrlProblem::TooLong);
        }
        Ok(Self {
            warnings: warnings(&url, host_text),
            sent: text.to_owned(),
            host,
            url: url.into(),
        })
    }

    /// The whole URL, to be shown, and to be opened after consent.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.url
    }

    /// The text as the server sent it. It may hold letters that look like others: show [`PageUrl::as_str`].
    #[must_use]
    pub fn as_sent(&self) -> &str {
        &self.sent
    }

    /// The host, without the port.
    #[must_use]
    pub fn host(&self) -> &str {
        self.parts().1
    }

    /// What stands before the host, the host, and what stands after it, so that the host can be set apart.
    #[must_use]
    pub fn parts(&self) -> (&str, &str, &str) {
        let (before, rest) = self.url.split_at(self.host.start);
        let (host, after) = rest.split_at(self.host.len());
        (before, host, after)
    }

    /// What the person should be told, in the order of [`UrlWarning`].
    #[must_use]
    pub fn warnings(&self) -> &[UrlWarning] {
        &self.warnings
    }
}

/// The whole URL.
impl fmt::Display for PageUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

/// The characters of RFC 3986, and letters beyond ASCII, which a browser encodes.
fn is_of_a_url(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphanumeric() || "-._~:/?#[]@!$&'()*+,;=%".contains(c);
    }
    !(c.is_whitespace() || c.is_control() || crate::handler::is_bidi(c))
}

/// Where the host lies: behind the scheme and, if there is one, the last `@` of the authority.
fn host_range(url: &Url, host: &str) -> Option<std::ops::Range<usize>> {
    let text = url.as_str();
    let begin = url.scheme().len() + "://".len();
    let authority = text.get(begin..)?.split(['/', '?', '#']).next()?;
    let start = begin + authority.rfind('@').map_or(0, |at| at + 1);
    let range = start..start + host.len();
    (text.get(range.clone()) == Some(host)).then_some(range)
}

fn warnings(url: &Url, host: &str) -> Vec<UrlWarning> {
    let address: Option<IpAddr> = host.trim_matches(['[', ']']).parse().ok();
    let name = host.trim_end_matches('.');
    let local_name = ["localhost", "local", "internal"]
        .into_iter()
        .any(|suffix| name == suffix || name.ends_with(&format!(".{suffix}")));
    let international = host.split('.').any(|label| {
        label
            .get(..4)
            .is_some_and(|head| head.eq_ignore_ascii_case("xn--"))
    });
    [
        (url.scheme() == "http", UrlWarning::NotEncrypted),
        (
            !url.username().is_empty() || url.password().is_some(),
            UrlWarning::UserInfo,
        ),
        (international, UrlWarning::InternationalHost),
        (address.is_some(), UrlWarning::IpAddress),
        (
            local_name || address.is_some_and(is_local),
            UrlWarning::LocalHost,
        ),
    ]
    .into_iter()
    .filter_map(|(holds, warning)| holds.then_some(warning))
    .collect()
}

fn is_local(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            v4.is_loopback() || v4.is_private() || v4.is_link_local() || v4.is_unspecified()
        }
        IpAddr::V6(v6) => {
            v6.is_loopback()
                || v6.is_unspecified()
                || v6.is_unique_local()
                || v6.is_unicast_link_local()
        }
    }
}

/// A URL question, read and checked.
#[derive(Debug)]
pub(crate) struct CheckedPage {
    pub(crate) message: String,
    pub(crate) url: PageUrl,
}

impl CheckedPage {
    pub(crate) fn read(request: &InputRequest) -> Result<Self, QuestionProblem> {
        let page = request.as_url()?;
        Ok(Self {
            url: PageUrl::parse(&page.url)?,
            message: page.message,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> (String, String, String) {
        let url = PageUrl::parse(text).unwrap();
        let (before, host, after) = url.parts();
        assert_eq!(format!("{before}{host}{after}"), url.as_str());
        (before.to_owned(), host.to_owned(), after.to_owned())
    }

    #[test]
    fn the_host_is_set_apart() {
        for (text, before, host, after) in [
            (
                "https://a.example/go?x=1#y",
                "https://",
                "a.example",
                "/go?x=1#y",
            ),
            ("HTTPS://A.Example", "https://", "a.example", "/"),
            ("https://a.example:8443/", "https://", "a.example", ":8443/"),
            (
                "https://bank.example:443@evil.example/@bank.example",
                "https://bank.example:443@",
                "evil.example",
                "/@bank.example",
            ),
            (
                "https://evil.example?@bank.example",
                "https://",
                "evil.example",
                "/?@bank.example",
            ),
            (
                "https://evil.example#@bank.example",
                "https://",
                "evil.example",
                "/#@bank.example",
            ),
            ("http://[::1]:80/", "http://", "[::1]", "/"),
            (
                "https://a.example/&calc.exe",
                "https://",
                "a.example",
                "/&calc.exe",
            ),
        ] {
            assert_eq!(
                parts(text),
                (before.to_owned(), host.to_owned(), after.to_owned())
            );
        }
    }

    #[test]
    fn case_168_what_may_mislead_is_flagged() {
        use UrlWarning::*;
        for (text, expected) in [
            ("https://a.example/go", vec![]),
            ("https://a.example:8443/", vec![]),
            ("http://a.example/", vec![NotEncrypted]),
            ("https://user:pw@evil.example/", vec![UserInfo]),
            ("https://:pw@evil.example/", vec![UserInfo]),
            ("https://xn--pple-43d.com/", vec![InternationalHost]),
            ("https://а.example/", vec![InternationalHost]),
            ("https://login.XN--pple-43d.com/", vec![InternationalHost]),
            ("https://203.0.113.7/", vec![IpAddress]),
            (
                "http://127.0.0.1:1/",
                vec![NotEncrypted, IpAddress, LocalHost],
            ),
            ("https://2130706433/", vec![IpAddress, LocalHost]),
            ("https://0x7f.1/", vec![IpAddress, LocalHost]),
            ("https://[::1]/", vec![IpAddress, LocalHost]),
            ("https://[::ffff:10.0.0.1]/", vec![IpAddress, LocalHost]),
            ("https://localhost/", vec![LocalHost]),
            ("https://printer.local./", vec![LocalHost]),
        ] {
            assert_eq!(PageUrl::parse(text).unwrap().warnings(), expected, "{text}");
        }
    }

    #[test]
    fn letters_that_look_alike_are_shown_as_what_they_are() {
        let url = PageUrl::parse("https://аpple.com/ü").unwrap();
        assert!(url.as_str().is_ascii(), "{url}");
        assert_eq!(url.host(), "xn--pple-43d.com");
        assert_eq!(url.as_sent(), "https://аpple.com/ü");
        assert_eq!(url.warnings(), [UrlWarning::InternationalHost]);
    }

    #[test]
    fn case_168_everything_else_is_refused() {
        use UrlProblem::*;
        assert!(PageUrl::parse("https://a.example/x").is_ok());
        let long = format!("https://a.example/{}", "x".repeat(100 * 1024));
        let grows = format!("https://a.example/{}", "ü".repeat(3 * 1024));
        for (text, problem) in [
            ("javascript:alert(1)", Scheme),
            ("javascript://a.example/%0aalert(1)", Scheme),
            ("file:///etc/passwd", Scheme),
            ("data:text/html,x", Scheme),
            ("ms-settings:", Scheme),
            ("ftp://a.example/", Scheme),
            ("//a.example/", Scheme),
            ("a.example", Scheme),
            ("", Scheme),
            (" https://a.example", Scheme),
            ("https:a.example", Scheme),
            ("https:/a.example", Scheme),
            ("https:\\\\a.example", Scheme),
            ("view-source:https://a.example", Scheme),
            ("https://a.example/\r\nX", Characters),
            ("https://a.example/\tX", Characters),
            ("https://a.example/\"; rm -rf ~", Characters),
            ("https://a.example/`id`", Characters),
            ("https://a.example\\@evil.example/", Characters),
            ("https://a.example/ x", Characters),
            ("https://a.example/\u{202e}moc", Characters),
            ("https://a.example/\u{a0}", Characters),
            ("https:///a.example", Invalid),
            ("https://", Invalid),
            ("https://:443", Invalid),
            ("https://user@", Invalid),
            ("https://a.example:99999/", Invalid),
            ("https://a%00.example/", Invalid),
            ("https://a example/", Characters),
            ("https://256.1.1.1/", Invalid),
            (&long, TooLong),
            (&grows, TooLong),
        ] {
            assert_eq!(PageUrl::parse(text), Err(problem), "{text:.60}");
        }
    }
}
