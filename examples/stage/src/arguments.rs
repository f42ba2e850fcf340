//! Reading flags, by hand: a dozen of them do not pay for a parser's dependencies.

use std::str::FromStr;

/// What is left of a command line. Each call takes what it knows; [`finish`](Arguments::finish) refuses the rest.
///
/// A value stands behind its flag or behind an equals sign: `--data DIR`, `--data=DIR`.
#[derive(Debug)]
pub struct Arguments(Vec<String>);

/// A command line that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UsageError {
    /// `--help` was given.
    #[error("help was asked for")]
    Help,
    /// A flag that does not exist.
    #[error("`{0}` is not an argument here; --help lists them")]
    Unknown(String),
    /// A flag without its value.
    #[error("{0} needs a value; --help says which")]
    NoValue(&'static str),
    /// A flag that may be given once.
    #[error("{0} was given more than once")]
    Twice(&'static str),
    /// A value that does not fit. It is not printed: it may be a key.
    #[error("the value of {flag} cannot be read: {why}")]
    Value {
        /// The flag.
        flag: &'static str,
        /// What is wrong with it.
        why: String,
    },
}

impl Arguments {
    /// This process's own.
    #[must_use]
    pub fn of_this_process() -> Arguments {
        Arguments::of(std::env::args().skip(1))
    }

    /// These, without the program's name.
    pub fn of(arguments: impl IntoIterator<Item = impl Into<String>>) -> Arguments {
        Arguments(arguments.into_iter().map(Into::into).collect())
    }

    /// Whether a flag without a value is there.
    pub fn flag(&mut self, flag: &'static str) -> bool {
        let before = self.0.len();
        self.0.retain(|argument| argument != flag);
        self.0.len() < before
    }

    /// The values of a flag that may be repeated.
    ///
    /// # Errors
    ///
    /// [`UsageError::NoValue`].
    pub fn texts(&mut self, flag: &'static str) -> Result<Vec<String>, UsageError> {
        let mut values = Vec::new();
        let mut rest = Vec::new();
        let mut arguments = std::mem::take(&mut self.0).into_iter();
        while let Some(argument) = arguments.next() {
            let behind = argument.strip_prefix(flag);
            if behind == Some("") {
                match arguments.next() {
                    Some(value) if !value.starts_with("--") => values.push(value),
                    _ => return Err(UsageError::NoValue(flag)),
                }
            } else if let Some(value) = behind.and_then(|rest| rest.strip_prefix('=')) {
                values.push(value.to_owned());
            } else {
                rest.push(argument);
            }
        }
        self.0 = rest;
        Ok(values)
    }

    /// The value of a flag that may be given once.
    ///
    /// # Errors
    ///
    /// [`UsageError::NoValue`], [`UsageError::Twice`].
    pub fn text(&mut self, flag: &'static str) -> Result<Option<String>, UsageError> {
        let mut values = self.texts(flag)?;
        let last = values.pop();
        match values.is_empty() {
            true => Ok(last),
            false => Err(UsageError::Twice(flag)),
        }
    }

    /// The same, read as a `T`.
    ///
    /// # Errors
    ///
    /// Those of [`text`](Self::text), and [`UsageError::Value`].
    pub fn value<T>(&mut self, flag: &'static str) -> Result<Option<T>, UsageError>
    where
        T: FromStr<Err: std::fmt::Display>,
    {
        self.text(flag)?.map(|text| read(flag, &text)).transpose()
    }

    /// Ends the reading.
    ///
    /// # Errors
    ///
    /// [`UsageError::Unknown`] for what nobody took; [`UsageError::Help`] where that is `--help`.
    pub fn finish(mut self) -> Result<(), UsageError> {
        if self.flag("--help") || self.flag("-h") {
            return Err(UsageError::Help);
        }
        match self.0.into_iter().next() {
            None => Ok(()),
            Some(argument) => Err(UsageError::Unknown(argument)),
        }
    }
}

/// Reads a flag's value as a `T`.
pub(crate) fn read<T>(flag: &'static str, text: &str) -> Result<T, UsageError>
where
    T: FromStr<Err: std::fmt::Display>,
{
    text.parse().map_err(|error: T::Err| UsageError::Value {
        flag,
        why: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_behind_a_space_or_an_equals_sign() {
        let mut arguments = Arguments::of([
            "--data",
            "a b",
            "--lifetime=10",
            "--without=x",
            "--on",
            "--without",
            "y",
        ]);
        assert_eq!(arguments.text("--data").unwrap().as_deref(), Some("a b"));
        assert_eq!(arguments.value("--lifetime"), Ok(Some(10_u64)));
        assert_eq!(arguments.texts("--without").unwrap(), ["x", "y"]);
        assert!(arguments.flag("--on"));
        assert!(!arguments.flag("--off"));
        assert_eq!(arguments.finish(), Ok(()));
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let text = |arguments: &[&str]| Arguments::of(arguments.iter().copied()).text("--data");
        assert_eq!(text(&[]), Ok(None));
        assert_eq!(text(&["--data"]), Err(UsageError::NoValue("--data")));
        assert_eq!(
            text(&["--data", "--on"]),
            Err(UsageError::NoValue("--data"))
        );
        assert_eq!(
            text(&["--data=a", "--data=b"]),
            Err(UsageError::Twice("--data"))
        );
        // A longer flag is not this one.
        assert_eq!(text(&["--database=a"]), Ok(None));

        let finish = |argument: &str| Arguments::of([argument]).finish().unwrap_err();
        assert_eq!(finish("--dta"), UsageError::Unknown("--dta".into()));
        assert_eq!(finish("--help"), UsageError::Help);
    }

    #[test]
    fn a_value_that_does_not_fit_is_not_printed() {
        let error = Arguments::of(["--lifetime=c0ffee"])
            .value::<u64>("--lifetime")
            .unwrap_err();
        assert!(error.to_string().contains("--lifetime"));
        assert!(!error.to_string().contains("c0ffee"));
    }
}
