//! Sealing and opening, beside the bare cipher and beside what others seal with; and the digest of arguments.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead as _, KeyInit as _};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use cookie::{Cookie, CookieJar};
use hmac::{Hmac, Mac as _};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use mrtr_bench::KEY;
use mrtr_state::{
    Binding, Draft, Envelope, Key, KeyRing, Principal, Purpose, RequestDigest, SystemClock,
};
use mrtr_state::{Clock as _, Limits};
use mrtr_state_aead::AeadCodec;
use mrtr_state_hmac::HmacCodec;
use rmcp::model::{RequestStateCodec, SealOptions};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use crate::report::{Bound, Report};
use crate::timing::compare;
use crate::{Options, Outcome};

const SIZES: [usize; 4] = [100, 1 << 10, 4 << 10, 16 << 10];
const LIFETIME: Duration = Duration::from_secs(600);
const SEALS: &str = "seal and open";
const DIGESTS: &str = "digest of arguments";

/// A journal of so many bytes: what the others seal too.
fn journal(size: usize) -> String {
    format!(r#"{{"journal":"{}"}}"#, "a".repeat(size.saturating_sub(14)))
}

pub(crate) fn seals(options: &Options, report: &mut Report) -> Outcome {
    for size in SIZES {
        let journal = journal(size);
        let bound = (size == 1 << 10).then_some(Bound::AtMost(1.5));
        let rival = (size == 1 << 10).then_some(Bound::AtMost(1.0));

        let hmac = HmacCodec::new(KeyRing::new(Key::from_bytes(&KEY)?))?;
        let mut ours = sealed_and_opened(
            &Envelope::new(&hmac, Purpose::REQUEST_STATE, "http://bench.example/mcp"),
            &journal,
        )?;
        let name = format!("mrtr, HMAC, {size} B");
        compare(
            options,
            report,
            SEALS,
            (&name, &mut ours),
            ("bare HMAC and base64", &mut bare_mac(&journal)),
            bound,
        );
        compare(
            options,
            report,
            SEALS,
            (&name, &mut ours),
            ("jsonwebtoken, HS256", &mut web_token(&journal)?),
            rival,
        );
        compare(
            options,
            report,
            SEALS,
            (&name, &mut ours),
            ("cookie, signed jar", &mut signed_cookie(&journal)),
            rival,
        );
        compare(
            options,
            report,
            SEALS,
            (&name, &mut ours),
            ("rmcp's codec, bound", &mut of_rmcp(&journal)?),
            rival,
        );

        let aead = AeadCodec::new(KeyRing::new(Key::from_bytes(&KEY)?))?;
        let mut ours = sealed_and_opened(
            &Envelope::new(&aead, Purpose::REQUEST_STATE, "http://bench.example/mcp"),
            &journal,
        )?;
        let name = format!("mrtr, AEAD, {size} B");
        compare(
            options,
            report,
            SEALS,
            (&name, &mut ours),
            ("bare cipher and base64", &mut bare_cipher(&journal)),
            bound,
        );
        compare(
            options,
            report,
            SEALS,
            (&name, &mut ours),
            ("cookie, private jar", &mut private_cookie(&journal)),
            rival,
        );
    }
    Ok(())
}

/// A state sealed and opened, with all of its claims and all checks.
fn sealed_and_opened(
    envelope: &Envelope,
    journal: &str,
) -> Result<impl FnMut() -> usize + use<>, Box<dyn std::error::Error + Send + Sync>> {
    let envelope = envelope.clone().with_limits(Limits {
        max_len: 64 << 10,
        ..envelope.limits()
    });
    let digest = RequestDigest::builder("tools/call", "pay")
        .json("arguments", r#"{"to":"acct-7","amount":100}"#)?
        .finish();
    let binding = Binding {
        principal: Principal::user("https://bench.example", "somebody"),
        request: digest,
    };
    let data: Box<RawValue> = RawValue::from_string(journal.to_owned())?;
    Ok(move || {
        let now = SystemClock.now();
        let sealed =
            Draft::single(now, LIFETIME, &data).map(|draft| envelope.seal(&binding, &draft));
        let Ok(Ok(token)) = sealed else { return 0 };
        envelope
            .open(&token, &binding, now, LIFETIME, None)
            .map_or(0, |opened| opened.data().get().len())
    })
}

/// Encode, MAC, MAC again, decode.
fn bare_mac(journal: &str) -> impl FnMut() -> usize + use<> {
    let Ok(key) = <Hmac<Sha256> as hmac::KeyInit>::new_from_slice(&KEY) else {
        unreachable!("a key of any length will do")
    };
    let journal = journal.to_owned();
    move || {
        let mut token = URL_SAFE_NO_PAD.encode(&journal);
        let tag = key
            .clone()
            .chain_update(token.as_bytes())
            .finalize()
            .into_bytes();
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(tag, &mut token);
        let Some((body, tag)) = token.split_once('.') else {
            return 0;
        };
        let Ok(tag) = URL_SAFE_NO_PAD.decode(tag) else {
            return 0;
        };
        if key
            .clone()
            .chain_update(body.as_bytes())
            .verify_slice(&tag)
            .is_err()
        {
            return 0;
        }
        URL_SAFE_NO_PAD.decode(body).map_or(0, |body| body.len())
    }
}

fn bare_cipher(journal: &str) -> impl FnMut() -> usize + use<> {
    let cipher = XChaCha20Poly1305::new(&KEY.into());
    let journal = journal.to_owned();
    let mut number = 0_u64;
    move || {
        number += 1;
        let mut nonce = [0; 24];
        nonce[..8].copy_from_slice(&number.to_le_bytes());
        let nonce = XNonce::from(nonce);
        let Ok(sealed) = cipher.encrypt(&nonce, journal.as_bytes()) else {
            return 0;
        };
        let token = URL_SAFE_NO_PAD.encode(sealed);
        let Ok(sealed) = URL_SAFE_NO_PAD.decode(token) else {
            return 0;
        };
        cipher
            .decrypt(&nonce, sealed.as_slice())
            .map_or(0, |opened| opened.len())
    }
}

#[derive(Serialize, Deserialize)]
struct WebClaims {
    iat: u64,
    exp: u64,
    aud: String,
    sub: String,
    journal: String,
}

fn web_token(journal: &str) -> Result<impl FnMut() -> usize + use<>, jsonwebtoken::errors::Error> {
    let (encoding, decoding) = (
        EncodingKey::from_secret(&KEY)?,
        DecodingKey::from_secret(&KEY)?,
    );
    let mut validation = Validation::new(Algorithm::HS256);
    validation.set_audience(&["http://bench.example/mcp"]);
    let header = Header::new(Algorithm::HS256);
    let journal = journal.to_owned();
    Ok(move || {
        let now = SystemClock.now().as_millis() / 1000;
        let claims = WebClaims {
            iat: now,
            exp: now + 600,
            aud: "http://bench.example/mcp".to_owned(),
            sub: "somebody".to_owned(),
            journal: journal.clone(),
        };
        let Ok(token) = jsonwebtoken::encode(&header, &claims, &encoding) else {
            return 0;
        };
        jsonwebtoken::decode::<WebClaims>(&token, &decoding, &validation)
            .map_or(0, |opened| opened.claims.journal.len())
    })
}

fn signed_cookie(journal: &str) -> impl FnMut() -> usize + use<> {
    let key = cookie::Key::from(&[KEY, KEY].concat());
    let journal = journal.to_owned();
    move || {
        let mut jar = CookieJar::new();
        jar.signed_mut(&key)
            .add(Cookie::new("state", journal.clone()));
        jar.signed(&key)
            .get("state")
            .map_or(0, |opened| opened.value().len())
    }
}

fn private_cookie(journal: &str) -> impl FnMut() -> usize + use<> {
    let key = cookie::Key::from(&[KEY, KEY].concat());
    let journal = journal.to_owned();
    move || {
        let mut jar = CookieJar::new();
        jar.private_mut(&key)
            .add(Cookie::new("state", journal.clone()));
        jar.private(&key)
            .get("state")
            .map_or(0, |opened| opened.value().len())
    }
}

fn of_rmcp(
    journal: &str,
) -> Result<impl FnMut() -> usize + use<>, Box<dyn std::error::Error + Send + Sync>> {
    let codec = RequestStateCodec::try_new(KEY)?;
    let journal = journal.to_owned();
    Ok(move || {
        let bound = br#"somebody|tools/call:pay|{"to":"acct-7","amount":100}"#;
        let options = SealOptions::new().associated_data(bound).ttl(LIFETIME);
        let token = codec.seal_with(journal.as_bytes(), &options);
        codec
            .open_with(&token, bound)
            .map_or(0, |opened| opened.len())
    })
}

pub(crate) fn digests(options: &Options, report: &mut Report) -> Outcome {
    for size in [100, 10 << 10, 100 << 10] {
        let arguments = arguments(size)?;
        let bound = (size == 10 << 10).then_some(Bound::AtMost(4.0));
        let mut ours = || {
            let builder = RequestDigest::builder("tools/call", "pay").json("arguments", &arguments);
            builder.map_or(0, |builder| usize::from(builder.finish().as_bytes()[0]))
        };
        let name = format!("mrtr, {size} B");
        let mut skipped =
            || serde_json::from_str::<&RawValue>(&arguments).map_or(0, |raw| raw.get().len());
        compare(
            options,
            report,
            DIGESTS,
            (&name, &mut ours),
            ("&RawValue skip", &mut skipped),
            bound,
        );
        let mut hashed = || usize::from(Sha256::digest(&arguments)[0]);
        compare(
            options,
            report,
            DIGESTS,
            (&name, &mut ours),
            ("SHA-256 of the bytes", &mut hashed),
            None,
        );
    }
    Ok(())
}

/// Arguments of about so many bytes: an order, with texts, numbers and lists, as tools have them.
fn arguments(size: usize) -> serde_json::Result<String> {
    let position = |number: usize| serde_json::json!({ "article": format!("article-{number}"), "count": number % 7 + 1, "price": 19.95, "note": "leave it at the door" });
    let mut positions = Vec::new();
    loop {
        let text = serde_json::to_string(
            &serde_json::json!({ "to": "acct-7", "amount": 100, "positions": positions }),
        )?;
        if text.len() >= size {
            return Ok(text);
        }
        positions.push(position(positions.len()));
    }
}
