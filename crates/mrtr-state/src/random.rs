//! Randomness from the operating system.

/// The operating system gave no random bytes.
///
/// There is no second source: whoever gets this error must not go on with a guessable value.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the operating system gave no random bytes: {source}")]
pub struct RandomError {
    #[from]
    source: getrandom::Error,
}

/// `N` bytes from the operating system's generator.
///
/// # Errors
///
/// [`RandomError`] where the generator fails. The call never falls back to anything else.
///
/// ```
/// let key: [u8; 32] = mrtr_state::random()?;
/// # Ok::<(), mrtr_state::RandomError>(())
/// ```
pub fn random<const N: usize>() -> Result<[u8; N], RandomError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}
