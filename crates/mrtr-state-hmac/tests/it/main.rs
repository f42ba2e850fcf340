//! The suite that every codec passes.

use mrtr_state_hmac::HmacCodec;

mod suite {
    use super::HmacCodec;

    mrtr_state::codec_suite!(|ring| HmacCodec::new(ring).unwrap());
}
