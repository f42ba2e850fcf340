//! An application's data on its way into a state.

use serde::Serialize;
use serde_json::value::RawValue;

mod finite;

/// Data cannot go into a state.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// A floating-point number that JSON has no spelling for.
    #[error("the data holds a number that is not finite, which JSON cannot carry")]
    NotFinite,
    /// The data's own `Serialize` failed, or JSON has no place for it.
    #[error("the data cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// Writes `data` as the JSON that goes into a [`Draft`](crate::Draft).
///
/// Other than `serde_json` by itself, it does not turn NaN and the infinities into `null`,
/// which would come back as something else than was sealed. What has been made a
/// [`serde_json::Value`] before is out of its reach: the `null` is in there already.
///
/// # Errors
///
/// [`DataError`] for a number that is not finite and for what JSON cannot hold, such as a map
/// whose keys are not strings.
///
/// ```
/// use mrtr_state::to_raw_value;
///
/// #[derive(serde::Serialize)]
/// struct Quote {
///     rate: f64,
/// }
///
/// assert_eq!(to_raw_value(&Quote { rate: 1.5 })?.get(), r#"{"rate":1.5}"#);
/// assert!(to_raw_value(&Quote { rate: f64::NAN }).is_err());
/// # Ok::<(), mrtr_state::DataError>(())
/// ```
pub fn to_raw_value<T: Serialize + ?Sized>(data: &T) -> Result<Box<RawValue>, DataError> {
    match data.serialize(finite::Check) {
        Ok(()) => Ok(serde_json::value::to_raw_value(data)?),
        Err(finite::Stop::NotFinite) => Err(DataError::NotFinite),
        // Anything else is told better by the writer, if it is anything at all.
        Err(finite::Stop::Other) => match serde_json::value::to_raw_value(data) {
            Ok(_) => Err(DataError::Json(serde::ser::Error::custom(
                "its `Serialize` failed once and succeeded once",
            ))),
            Err(error) => Err(error.into()),
        },
    }
}

#[cfg(test)]
mod tests;
