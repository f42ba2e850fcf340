#![forbid(unsafe_code)]
//! Wire types of the Model Context Protocol, revision 2026-07-28: JSON-RPC, requests, results, error codes
