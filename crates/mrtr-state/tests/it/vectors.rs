//! Golden vectors, made by `tests/vectors/make.py` without a line of this code.

use std::time::Duration;

use mrtr_state::{
    Binding, DigestError, Draft, Envelope, Epoch, FlowId, JsonDigest, Key, KeyRing, Nonce,
    Principal, Purpose, RawValue, Reason, RequestDigest, StateCodec, Timestamp, VerifiedState,
    WireState, walk_json,
};
use mrtr_state_aead::AeadCodec;
use mrtr_state_hmac::HmacCodec;
use serde::Deserialize;

const LIFETIME: Duration = Duration::from_secs(600);

#[derive(Deserialize)]
struct TokenVector {
    variant: String,
    key: String,
    purpose: (String, String),
    audience: String,
    principal: Option<UserVector>,
    request: RequestVector,
    iat: Timestamp,
    exp: Timestamp,
    nonce: String,
    flow: String,
    flow_exp: Timestamp,
    round: u32,
    epoch: Option<String>,
    data: String,
    payload: String,
    token: String,
}

#[derive(Deserialize)]
struct UserVector {
    issuer: String,
    subject: String,
    client: Option<String>,
}

#[derive(Deserialize)]
struct RequestVector {
    method: String,
    target: String,
    parts: Vec<PartVector>,
    digest: Option<String>,
}

#[derive(Deserialize)]
struct PartVector {
    label: String,
    json: Option<String>,
    bytes: Option<String>,
}

#[derive(Deserialize)]
struct DigestVectors {
    json: Vec<JsonVector>,
    requests: Vec<RequestVector>,
}

#[derive(Deserialize)]
struct JsonVector {
    text: String,
    canonical: String,
    label: String,
    digest: String,
}

impl UserVector {
    fn principal(&self) -> Principal {
        let user = Principal::user(&*self.issuer, &*self.subject);
        match &self.client {
            Some(client) => user.with_client(&**client),
            None => user,
        }
    }
}

impl RequestVector {
    fn digest(&self) -> Result<RequestDigest, DigestError> {
        let mut builder = RequestDigest::builder(&self.method, &self.target);
        for part in &self.parts {
            builder = match (&part.json, &part.bytes) {
                (Some(json), _) => builder.json(&part.label, json)?,
                (None, Some(bytes)) => builder.bytes(&part.label, &unhex(bytes)),
                (None, None) => builder.absent(&part.label),
            };
        }
        Ok(builder.finish())
    }
}

impl TokenVector {
    fn purpose(&self) -> Purpose {
        match (&*self.purpose.0, &*self.purpose.1) {
            ("mrtr", "request state") => Purpose::REQUEST_STATE,
            ("application", "login cookie") => Purpose::application("login cookie"),
            other => panic!("{other:?}"),
        }
    }

    fn codec(&self) -> Box<dyn StateCodec> {
        let ring = KeyRing::new(Key::from_hex(&self.key).unwrap());
        match &*self.variant {
            "h" => Box::new(HmacCodec::new(ring).unwrap()),
            "x" => Box::new(AeadCodec::new(ring).unwrap()),
            other => panic!("{other}"),
        }
    }
}

impl TokenVector {
    fn binding(&self) -> Binding {
        let principal = self.principal.as_ref();
        Binding {
            principal: principal.map_or(Principal::Anonymous, UserVector::principal),
            request: self.request.digest().unwrap(),
        }
    }

    fn epoch(&self) -> Option<Epoch> {
        let epoch = self.epoch.as_ref()?;
        Some(Epoch::from_bytes(sixteen(epoch)))
    }

    fn envelope(&self) -> Envelope {
        Envelope::new(&*self.codec(), self.purpose(), &*self.audience)
    }

    /// What the vector's envelope makes of a token.
    fn open(&self, token: &str) -> Result<VerifiedState, Reason> {
        let opened = self
            .envelope()
            .open(token, &self.binding(), self.iat, LIFETIME, self.epoch());
        opened.map_err(|rejected| rejected.reason())
    }
}

fn tokens() -> Vec<TokenVector> {
    serde_json::from_str(include_str!("../vectors/tokens-1.json")).unwrap()
}

fn digests() -> DigestVectors {
    serde_json::from_str(include_str!("../vectors/digests-1.json")).unwrap()
}

fn unhex(text: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(byte).collect()
}

fn sixteen(text: &str) -> [u8; 16] {
    unhex(text).try_into().unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn case_052_tokens_of_version_1_open_and_are_made_again_byte_for_byte() {
    let mut counts = [0, 0];
    for vector in tokens() {
        let codec = vector.codec();
        let sealer = codec.sealer(&vector.purpose());
        let opened = sealer.open(WireState::new(&vector.token)).unwrap();
        assert_eq!(String::from_utf8(opened.payload).unwrap(), vector.payload);

        let (envelope, binding, epoch) = (vector.envelope(), vector.binding(), vector.epoch());
        let state = vector.open(&vector.token).unwrap();
        let data = RawValue::from_string(vector.data.clone()).unwrap();
        let draft = Draft {
            nonce: Nonce::from_bytes(sixteen(&vector.nonce)),
            flow: FlowId::from_bytes(sixteen(&vector.flow)),
            flow_exp: vector.flow_exp,
            round: vector.round,
            epoch,
            exp: vector.exp,
            iat: vector.iat,
            data: &data,
        };
        assert_eq!(state.nonce(), draft.nonce);
        assert_eq!(state.flow(), draft.flow);
        assert_eq!(state.flow_exp(), draft.flow_exp);
        assert_eq!(state.round(), draft.round);
        assert_eq!(state.iat(), draft.iat);
        assert_eq!(state.exp(), draft.exp);
        assert_eq!(state.data().get(), vector.data);

        // What this code seals has the same claims, and where no nonce is drawn the same bytes.
        // (The other variant's bytes are compared in its own crate, where a nonce can be given.)
        let token = envelope.seal(&binding, &draft).unwrap();
        let payload = sealer.open(WireState::new(&token)).unwrap().payload;
        assert_eq!(String::from_utf8(payload).unwrap(), vector.payload);
        if vector.variant == "h" {
            assert_eq!(token, vector.token);
            counts[0] += 1;
        } else {
            assert_ne!(token, vector.token);
            assert_eq!(token.len(), vector.token.len());
            counts[1] += 1;
        }
    }
    assert_eq!(counts, [6, 6]);
}

#[derive(Deserialize)]
struct RefusedVector {
    variant: String,
    why: String,
    reason: String,
    token: String,
}

/// Each is one step away from the first golden token of its variant.
#[test]
fn case_052_what_is_nearly_a_golden_token_is_refused() {
    let refused: Vec<RefusedVector> =
        serde_json::from_str(include_str!("../vectors/refused-1.json")).unwrap();
    assert_eq!(refused.len(), 56);
    let golden = tokens();
    for vector in refused {
        let good = golden.iter().find(|good| good.variant == vector.variant);
        let good = good.unwrap();
        good.open(&good.token).expect("the good path");
        let reason = good.open(&vector.token).expect_err(&vector.why);
        assert_eq!(
            reason.as_str(),
            vector.reason,
            "{}: {}",
            vector.variant,
            vector.why
        );
    }
}

/// There is no version but the first. A token or claims that call themselves another are never read as if they were of it.
#[test]
fn case_051_another_version_is_never_misread() {
    for vector in tokens() {
        vector.open(&vector.token).expect("the version that is");
        let rest = vector.token.strip_prefix("mrtr1").unwrap();
        for version in [
            "mrtr0", "mrtr2", "mrtr01", "mrtr10", "mrtr", "1", "MRTR1", "",
        ] {
            let reason = vector.open(&format!("{version}{rest}")).unwrap_err();
            assert_eq!(reason, Reason::Malformed, "{version:?}");
        }
        let sealer = vector.codec().sealer(&vector.purpose());
        for version in ["0", "2", "1.0", "\"1\"", "null", "257", "4294967297", "-1"] {
            let claims = format!("{{\"v\":{version},");
            let payload = vector.payload.replacen("{\"v\":1,", &claims, 1);
            assert_ne!(payload, vector.payload);
            let token = sealer.seal(payload.as_bytes()).unwrap();
            assert_eq!(
                vector.open(&token).unwrap_err(),
                Reason::Malformed,
                "{version}"
            );
        }
    }
}

#[test]
fn case_058_digests_of_version_1() {
    let vectors = digests();
    for vector in &vectors.json {
        let mut bytes = Vec::new();
        walk_json(&vector.text, &mut |piece| bytes.extend_from_slice(piece)).unwrap();
        assert_eq!(hex(&bytes), vector.canonical, "{}", vector.text);
        let digest = JsonDigest::of(&vector.label, &vector.text).unwrap();
        assert_eq!(hex(digest.as_bytes()), vector.digest, "{}", vector.text);
    }
    for vector in &vectors.requests {
        let digest = vector.digest().unwrap();
        assert_eq!(Some(hex(digest.as_bytes())), vector.digest);
    }
    assert_eq!((vectors.json.len(), vectors.requests.len()), (69, 10));
}

#[test]
fn different_requests_have_different_digests() {
    let vectors = digests();
    let mut all: Vec<_> = vectors.requests.iter().map(|v| &v.digest).collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), vectors.requests.len());
}
