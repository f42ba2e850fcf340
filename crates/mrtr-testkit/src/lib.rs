#![forbid(unsafe_code)]
//! Tools for testing MRTR servers and clients: in-process harness, manual clock, tampering, replay, the codec that seals nothing
