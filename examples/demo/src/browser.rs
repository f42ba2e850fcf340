//! A person's browser, as far as the pages of `link-account` need one: it goes nowhere near the client.

use reqwest::header::{CONTENT_TYPE, COOKIE, LOCATION, ORIGIN, SET_COOKIE};
use reqwest::redirect::Policy;
use reqwest::{RequestBuilder, StatusCode};

use crate::Fault;

/// A browser, and the one cookie that it may have been given.
#[derive(Debug)]
pub(crate) struct Browser {
    http: reqwest::Client,
    cookie: Option<String>,
}

/// What a page answered.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) status: StatusCode,
    /// Where it sends the browser on to, in full.
    pub(crate) location: Option<String>,
    pub(crate) html: String,
}

impl Browser {
    pub(crate) fn new() -> Result<Self, Fault> {
        // Where a page leads is what some rows measure.
        let http = reqwest::Client::builder()
            .redirect(Policy::none())
            .build()?;
        Ok(Self { http, cookie: None })
    }

    /// A browser of somebody who has just logged in, on the way to this page.
    pub(crate) async fn of(person: &str, url: &str) -> Result<Self, Fault> {
        let mut browser = Self::new()?;
        let (origin, path) = parts(url)?;
        let form = format!("back={path}&user={person}&password={person}-password");
        let response = browser
            .form(&format!("{origin}/login"), form)?
            .send()
            .await?;
        let status = response.status();
        let cookie = response.headers().get(SET_COOKIE);
        let cookie = cookie.and_then(|cookie| cookie.to_str().ok()?.split(';').next());
        browser.cookie = cookie.map(str::to_owned);
        let shown = Shown::read(response, origin).await?;
        if browser.cookie.is_none() || shown.location.as_deref() != Some(url) {
            return Err(Fault(format!(
                "{person} could not log in: HTTP {status}, and then {:?}",
                shown.location
            )));
        }
        Ok(browser)
    }

    pub(crate) async fn open(&self, url: &str) -> Result<Shown, Fault> {
        let response = self.sent(self.http.get(url)).send().await?;
        Shown::read(response, parts(url)?.0).await
    }

    /// Pastes a key into the page, which is of letters, digits and hyphens, and submits it.
    pub(crate) async fn paste(&self, url: &str, key: &str) -> Result<Shown, Fault> {
        let form = self.form(url, format!("api_key={key}&do=link"))?;
        Shown::read(form.send().await?, parts(url)?.0).await
    }

    fn form(&self, url: &str, fields: String) -> Result<RequestBuilder, Fault> {
        let form = self
            .http
            .post(url)
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(ORIGIN, parts(url)?.0)
            .body(fields);
        Ok(self.sent(form))
    }

    fn sent(&self, request: RequestBuilder) -> RequestBuilder {
        match &self.cookie {
            Some(cookie) => request.header(COOKIE, cookie),
            None => request,
        }
    }
}

impl Shown {
    async fn read(response: reqwest::Response, origin: &str) -> Result<Self, Fault> {
        let status = response.status();
        let location = response.headers().get(LOCATION);
        let location = location.map(|path| path.to_str().map(|path| format!("{origin}{path}")));
        Ok(Self {
            status,
            location: location.transpose()?,
            html: String::from_utf8(response.bytes().await?.into())?,
        })
    }
}

/// Origin and path of a URL.
fn parts(url: &str) -> Result<(&str, &str), Fault> {
    let path = url
        .find("://")
        .and_then(|scheme| Some(scheme + 3 + url.get(scheme + 3..)?.find('/')?));
    path.and_then(|path| url.split_at_checked(path))
        .ok_or_else(|| Fault(format!("{url:?} is not the URL of a page")))
}
