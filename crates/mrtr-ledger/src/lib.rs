#![forbid(unsafe_code)]
//! The replay ledger: the contract that makes a sealed state good for one answer, and a memory ledger
