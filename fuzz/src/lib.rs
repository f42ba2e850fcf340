#![forbid(unsafe_code)]
//! What each fuzz target does with its bytes: a property for whatever reads what others wrote.
//!
//! A module is a target of the same name, with one function `run`. It asserts; a panic is a finding. Nothing here knows of libFuzzer, so
//! that a finding can be repeated from a test or a debugger. `cargo xtask fuzz` builds and runs the targets; CONTRIBUTING.md says how.
//!
//! | target | what is fed | what must hold |
//! |---|---|---|
//! | [`token`] | a token, edits of a good one, claims | what was not sealed does not open; one spelling; what is sealed comes back |
//! | [`strict_json`] | a body | accepted exactly where a reader written here, by the book, accepts |
//! | [`digest`] | JSON | equal for other spellings of the same value, different for any other value |
//! | [`headers`] | header values, schemas, arguments | one encoding of each value; what is mirrored is recognised |
//! | [`envelope`] | messages | what is read can be written and reads the same; ids keep type and digits |
//! | [`sse`] | an event stream, for the client | no difference how it is cut; events as a second reader finds them |
//! | [`lines`] | lines, for the stdio server and client | no difference how they are cut; one answer at most for each line |
//! | [`form`] | a form's schema and its answer | client and server agree; what a client sends fits |
//! | [`modern`], [`earlier`] | requests to a server with a ledger | no effect without consent, none twice; every answer well-formed |

pub mod digest;
pub mod earlier;
pub mod envelope;
pub mod form;
pub mod headers;
mod json;
pub mod lines;
pub mod modern;
mod play;
mod script;
pub mod sse;
pub mod strict_json;
pub mod token;

/// A runtime for one input: one thread, and a clock that jumps to the next timer when nothing else is left to do.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O needs nothing of the system")
}

/// The input, cut into pieces at places that depend on the input alone.
fn cut(data: &[u8], seed: u8) -> Vec<&[u8]> {
    let mut rest = data;
    let mut pieces = Vec::new();
    let mut step = usize::from(seed);
    while !rest.is_empty() {
        step = (step * 5 + 3) % 23;
        let (piece, after) = rest.split_at((step + 1).min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces
}
