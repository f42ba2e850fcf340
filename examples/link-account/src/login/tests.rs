use mrtr_state::SystemClock;

use super::*;

fn login() -> Login {
    Login::new(SystemClock, "127.0.0.1:1", false)
}

fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(*name, HeaderValue::from_str(value).unwrap());
    }
    headers
}

async fn post(login: &Login, lines: &[(&'static str, &str)], body: &'static str) -> Response<Body> {
    let body = Bytes::from_static(body.as_bytes());
    submit(State(login.clone()), headers(lines), body).await
}

fn header(response: &Response<Body>, name: HeaderName) -> Option<&str> {
    Some(response.headers().get(name)?.to_str().unwrap())
}

#[test]
fn one_cookie_of_the_name_is_read() {
    let id = |cookies: &[&str]| {
        let lines: Vec<_> = cookies.iter().map(|cookie| ("cookie", *cookie)).collect();
        session_id(&headers(&lines)).map(str::to_owned)
    };
    let some = Some("1f".to_owned());
    assert_eq!(id(&["link_account_session=1f"]), some);
    assert_eq!(id(&["a=b; link_account_session=1f;c=d"]), some);
    assert_eq!(id(&["a=b", "link_account_session=1f"]), some);
    for none in [
        &[][..],
        &["a=b"],
        &["link_account_session"],
        &["xlink_account_session=1f"],
        &["a=link_account_session=1f"],
        &["link_account_session=1f; link_account_session=2f"],
        &["link_account_session=1f", "link_account_session=1f"],
    ] {
        assert_eq!(id(none), None, "{none:?}");
    }
}

#[tokio::test]
async fn a_login_begins_a_session_of_its_own_and_leads_back() {
    let login = login();
    let alice = "user=alice&password=alice-password&back=%2Fconnect%2FaB-_9";
    let mut cookies = Vec::new();
    for _ in 0..2 {
        let response = post(&login, &[], alice).await;
        assert_eq!(response.status(), StatusCode::SEE_OTHER);
        assert_eq!(header(&response, LOCATION), Some("/connect/aB-_9"));
        let cookie = header(&response, SET_COOKIE).unwrap();
        let (cookie, attributes) = cookie.split_once(';').unwrap();
        assert_eq!(attributes, " Path=/; HttpOnly; SameSite=Lax");
        let visitor = login.visitor(&headers(&[("cookie", cookie)]));
        assert_eq!(visitor, Some(Principal::user(ISSUER, "alice")));
        cookies.push(cookie.to_owned());
    }
    assert_ne!(cookies[0], cookies[1]);
    let (mut other, last) = (cookies[0].clone(), cookies[0].chars().last());
    other.pop();
    other.push(if last == Some('0') { '1' } else { '0' });
    assert_eq!(login.visitor(&headers(&[("cookie", &other)])), None);
}

#[tokio::test]
async fn nobody_is_logged_in_otherwise() {
    let login = login();
    for body in [
        "user=alice&password=bob-password",
        "user=alice&password=",
        "user=carol&password=alice-password",
        "",
    ] {
        let response = post(&login, &[], body).await;
        assert_eq!(response.status(), StatusCode::FORBIDDEN, "{body}");
        assert_eq!(header(&response, SET_COOKIE), None);
    }
    // The same login, from other places.
    let alice = "user=alice&password=alice-password";
    for (from, status) in [
        (
            &[("host", "127.0.0.1:1"), ("origin", "http://127.0.0.1:1")][..],
            StatusCode::SEE_OTHER,
        ),
        (&[("sec-fetch-site", "same-origin")], StatusCode::SEE_OTHER),
        (
            &[("host", "127.0.0.1:1"), ("origin", "http://evil.example")],
            StatusCode::FORBIDDEN,
        ),
        (
            &[("host", "127.0.0.1:1"), ("origin", "null")],
            StatusCode::FORBIDDEN,
        ),
        (&[("sec-fetch-site", "cross-site")], StatusCode::FORBIDDEN),
        (&[("sec-fetch-site", "same-site")], StatusCode::FORBIDDEN),
    ] {
        let response = post(&login, from, alice).await;
        assert_eq!(response.status(), status, "{from:?}");
        assert_eq!(
            header(&response, SET_COOKIE).is_some(),
            status == StatusCode::SEE_OTHER
        );
    }
}

#[test]
fn the_way_back_stays_here() {
    assert!(is_own_path("/connect/aB-_9"));
    for elsewhere in [
        "",
        "connect",
        "//evil.example",
        "/\\evil.example",
        "https://evil.example",
        "/a?b",
        "/a\r\nb",
    ] {
        assert!(!is_own_path(elsewhere), "{elsewhere:?}");
    }
}

#[test]
fn a_session_ends_with_its_hour() {
    #[derive(Debug)]
    struct At(Mutex<Timestamp>);
    impl Clock for At {
        fn now(&self) -> Timestamp {
            *self.0.lock().unwrap()
        }
    }
    let clock = Arc::new(At(Mutex::new(Timestamp::from_millis(0))));
    let login = Login::new(Arc::clone(&clock), "h", true);
    let cookie = login.begin("bob").unwrap().unwrap();
    assert!(cookie.ends_with("; Secure"));
    let headers = headers(&[("cookie", cookie.split(';').next().unwrap())]);
    assert!(login.visitor(&headers).is_some());
    *clock.0.lock().unwrap() = Timestamp::from_millis(60 * 60 * 1000);
    assert_eq!(login.visitor(&headers), None);
}
