//! The suite that every codec passes.

use mrtr_state_aead::AeadCodec;

mod suite {
    use super::AeadCodec;

    mrtr_state::codec_suite!(|ring| AeadCodec::new(ring).unwrap());
}
