#![forbid(unsafe_code)]
//! Sealed state without an algorithm: codec contract, claims, bindings, request digest, clock, rejections
