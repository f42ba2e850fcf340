//! Integration tests, in one binary.
