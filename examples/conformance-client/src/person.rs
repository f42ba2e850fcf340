//! The person at the authorization server: a browser that shows nothing and follows one redirect.

use mrtr_auth::client::{AgentFuture, Redirection, UserAgent};
use url::Url;

/// Nobody listens there: the redirect is read, and not followed.
const REDIRECT_URI: &str = "http://localhost:3000/callback";

/// Agrees to everything.
#[derive(Debug)]
pub(crate) struct Agreeable;

impl UserAgent for Agreeable {
    fn begin<'a>(&'a self, _: Option<&'a str>) -> AgentFuture<'a, Box<dyn Redirection>> {
        Box::pin(async { Ok(Box::new(Visit) as Box<dyn Redirection>) })
    }
}

struct Visit;

impl Redirection for Visit {
    fn redirect_uri(&self) -> &str {
        REDIRECT_URI
    }

    fn visit(self: Box<Self>, url: Url) -> AgentFuture<'static, String> {
        Box::pin(async move {
            let browser = reqwest::Client::builder()
                .redirect(reqwest::redirect::Policy::none())
                .build()?;
            let response = browser.get(url).send().await?;
            let location = response.headers().get(reqwest::header::LOCATION);
            let location = location.ok_or("the authorization server redirected nobody")?;
            Ok(location.to_str()?.to_owned())
        })
    }
}
