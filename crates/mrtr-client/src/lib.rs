#![forbid(unsafe_code)]
//! Client for the Model Context Protocol: the courier that carries sealed state, asks its host, and retries
