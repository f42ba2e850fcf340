//! What a retry that is sent again gets of a call that has ended.

/// What the same retry, sent again, gets of a call that has ended: chosen for each handler with
/// [`Tool::repeat`](crate::Tool::repeat), [`Prompt::repeat`](crate::Prompt::repeat) or
/// [`Resource::repeat`](crate::Resource::repeat).
///
/// It is about what the **handler** returned at the end, an error included. A question is repeated as ever, and so is what the
/// framework said in the handler's place: that the call was cancelled and which steps it had taken, that it asked too often. Nothing
/// runs again with any of them, and another answer to the same state is `already_used` with all of them.
///
/// | | a lost response | in the ledger |
/// |---|---|---|
/// | [`Result`](Self::Result) | is got again, by the same retry | what was returned, up to [`Limits::stored_result`](crate::Limits::stored_result) |
/// | [`Receipt`](Self::Receipt) | is lost; the caller learns that the call was carried out | that it ended, and whether it failed |
/// | [`Reject`](Self::Reject) | is lost; the caller learns that the state was used | the same |
///
/// **Not guaranteed** by either of the last two: that the ledger holds nothing of the call. Outcomes of
/// [`once`](crate::DurableFlow::once) are kept, or the steps could not be told as done; return from a step what may be kept. With the AEAD
/// codec all of it is sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Repeat {
    /// The result again, with `_meta["mrtr/replayed"]: true`. The default: a lost response costs nothing.
    #[default]
    Result,
    /// That the call was carried out, or failed, and nothing of what it returned; `_meta["mrtr/replayed"]: true`. For results that
    /// are to be shown once: a password that was drawn, a link that opens something.
    ///
    /// For tools without an output schema. The builder refuses it elsewhere: a client holds each result of such a tool against the
    /// schema, and takes a prompt's messages and a resource's contents for what they are.
    Receipt,
    /// `already_used` (-32602), as if the state had been answered differently.
    Reject,
}
