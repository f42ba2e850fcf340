#![forbid(unsafe_code)]
//! Sealed state with HMAC-SHA256: whole, but readable
