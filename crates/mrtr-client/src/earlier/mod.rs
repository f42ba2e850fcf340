//! The earlier era: revisions 2025-11-25, 2025-06-18 and 2025-03-26, with `initialize`, sessions, and servers that send requests.
//!
//! `session` opens and closes one, `serve` takes what the server sends in it, `stream` reads responses and resumes them, `unasked` is the
//! stream for what belongs to no request.

mod listen;
mod serve;
mod session;
mod stream;
mod tries;
mod unasked;
mod visits;

pub(crate) use self::serve::Channel;
pub(crate) use self::session::{
    AbortOnDrop, Carrier, Core, Session, TOLD_WITHIN, initialize_request, initialized,
    notification, own_name,
};
pub(crate) use self::visits::Visits;
