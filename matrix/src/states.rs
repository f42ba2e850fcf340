//! States: claims in odd spellings, and states of one build that another one opens.

use std::sync::Arc;
use std::time::Duration;

use mrtr_state::{
    Binding, Draft, Envelope, Key, KeyRing, Principal, Purpose, RawValue, RequestDigest, Sealer,
    StateCodec, Timestamp, WireState,
};
use mrtr_state_aead::AeadCodec;
use mrtr_state_hmac::HmacCodec;

use crate::{Problem, corpus, hex, line};

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);
const LIFETIME: Duration = Duration::from_secs(600);
const AUDIENCE: &str = "https://bank.example/mcp";

/// An envelope, and the sealer under it.
struct Codec {
    name: &'static str,
    envelope: Envelope,
    sealer: Arc<dyn Sealer>,
}

fn codecs() -> Result<[Codec; 2], Problem> {
    let key: Vec<u8> = (0..32).collect();
    let ring = || Key::from_bytes(&key).map(KeyRing::new);
    let codec = |name, codec: &dyn StateCodec| Codec {
        name,
        envelope: Envelope::new(codec, Purpose::REQUEST_STATE, AUDIENCE),
        sealer: codec.sealer(&Purpose::REQUEST_STATE),
    };
    Ok([
        codec("hmac", &HmacCodec::new(ring()?)?),
        codec("aead", &AeadCodec::new(ring()?)?),
    ])
}

/// Bound to these arguments; `None` where they have no digest.
fn binding(arguments: &str) -> Option<Binding> {
    let request = RequestDigest::builder("tools/call", "transfer").json("arguments", arguments);
    Some(Binding {
        principal: Principal::user("https://as.example", "user-a"),
        request: request.ok()?.finish(),
    })
}

/// Seals a state for each text of the corpus that can be arguments' text and data.
pub(crate) fn seal() -> Result<Vec<String>, Problem> {
    let mut lines = Vec::new();
    for codec in codecs()? {
        for (index, text) in corpus::all().iter().enumerate() {
            let Some(binding) = binding(text) else {
                continue;
            };
            let Ok(data) = serde_json::from_str::<&RawValue>(text) else {
                continue;
            };
            let draft = Draft::single(NOW, LIFETIME, data)?;
            let token = codec.envelope.seal(&binding, &draft)?;
            lines.push(format!("{} {index} {token}", codec.name));
        }
    }
    Ok(lines)
}

/// Opens what another build sealed, and says what was in it.
pub(crate) fn open(input: &str) -> Result<Vec<String>, Problem> {
    let codecs = codecs()?;
    let texts = corpus::all();
    let mut lines = Vec::new();
    for row in input.lines() {
        let mut words = row.split(' ');
        let (Some(name), Some(index), Some(token)) = (words.next(), words.next(), words.next())
        else {
            return Err(format!("not a line of `seal`: {row}").into());
        };
        let codec = codecs.iter().find(|codec| codec.name == name);
        let codec = codec.ok_or("an unknown codec")?;
        let text = texts
            .get(index.parse::<usize>()?)
            .ok_or("an unknown text")?;
        let binding = binding(text).ok_or("a text without a digest")?;
        let verdict = match codec.envelope.open(token, &binding, NOW, LIFETIME, None) {
            Ok(state) if state.data().get() == text.trim() => "opened".to_owned(),
            Ok(_) => "opened, with other data".to_owned(),
            Err(rejected) => format!("rejected: {}", rejected.reason().as_str()),
        };
        lines.push(line(name, text, &verdict));
    }
    Ok(lines)
}

/// Puts every text of the corpus in place of each claim of a good state, seals that, and opens it.
pub(crate) fn verdicts() -> Result<Vec<String>, Problem> {
    let mut lines = Vec::new();
    let binding = binding("{}").ok_or("`{}` has a digest")?;
    for codec in codecs()? {
        let draft = Draft::single(NOW, LIFETIME, RawValue::NULL)?;
        let token = codec.envelope.seal(&binding, &draft)?;
        let opened = codec.sealer.open(WireState::new(&token));
        let payload = opened.map_err(|reason| reason.as_str())?.payload;
        let good: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(&payload)?;
        for text in corpus::all() {
            for name in good.keys() {
                let members: Vec<String> = good
                    .iter()
                    .map(|(own, value)| match own == name {
                        true => format!("\"{own}\":{text}"),
                        false => format!("\"{own}\":{value}"),
                    })
                    .collect();
                let claims = format!("{{{}}}", members.join(","));
                let token = codec.sealer.seal(claims.as_bytes())?;
                let verdict = match codec.envelope.open(&token, &binding, NOW, LIFETIME, None) {
                    Ok(state) => {
                        format!("opened: {}", hex(state.data().get().as_bytes()))
                    }
                    Err(rejected) => format!("rejected: {}", rejected.reason().as_str()),
                };
                lines.push(line(
                    &format!("{} claim {name}", codec.name),
                    &text,
                    &verdict,
                ));
            }
        }
    }
    // The order in which a map gives its names is the build's.
    lines.sort_unstable();
    Ok(lines)
}
