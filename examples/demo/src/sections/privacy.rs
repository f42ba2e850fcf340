//! Privacy: what somebody reads who looks into the state.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mrtr_testkit::guards::Guard;
use serde_json::json;

use crate::board::{Case, Governed};

const SECRET: &str = "the vault opens with 4711";

pub(crate) fn cases() -> Vec<Case> {
    let look = |name: &str, codec: &'static str, expected: &str, governed: Governed| {
        let case = format!("a secret in the state, looked for in the token: {name}");
        Case::new(
            "privacy",
            case,
            expected,
            governed,
            move |stage| async move {
                let server = stage
                    .start(&stage.plan("voucher")?.flag("--codec", codec))
                    .await?;
                let asked = server
                    .wire()
                    .call("reveal", &json!({ "secret": SECRET }))
                    .await?;
                let token = asked.state()?;
                let in_plain = token.contains(SECRET);
                let decoded = token.split('.').any(|segment| {
                    let bytes = URL_SAFE_NO_PAD.decode(segment).unwrap_or_default();
                    String::from_utf8_lossy(&bytes).contains(SECRET)
                });
                Ok(match (in_plain, decoded) {
                    (true, _) => "found in plain",
                    (false, true) => "found after base64",
                    (false, false) => "not found",
                }
                .into())
            },
        )
    };
    vec![
        look(
            "HMAC",
            "hmac",
            "found after base64",
            Governed::Not("the HMAC variant is readable, and says so first"),
        ),
        look("AEAD", "aead", "not found", Governed::By(Guard::Sealing)),
    ]
}
