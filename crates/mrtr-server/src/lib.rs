#![forbid(unsafe_code)]
//! Server framework for the Model Context Protocol: handlers that ask, memoise and act once, over HTTP
