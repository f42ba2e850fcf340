#![forbid(unsafe_code)]
//! Sealed state with XChaCha20-Poly1305: whole and private
