//! What the driver is told on its command line.

use std::time::Duration;

use stage::arguments::{Arguments, UsageError};

/// What `--help` prints.
pub(crate) const HELP: &str = include_str!("help.txt");

/// What a run is about.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Options {
    pub(crate) length: Duration,
    pub(crate) seed: u64,
    pub(crate) sabotage: bool,
    pub(crate) json: bool,
}

impl Options {
    pub(crate) fn take(mut arguments: Arguments) -> Result<Self, UsageError> {
        let minutes: Option<f64> = arguments.value("--minutes")?;
        let length = Duration::try_from_secs_f64(minutes.unwrap_or(2.0) * 60.0);
        let options = Self {
            length: length.map_err(|error| UsageError::Value {
                flag: "--minutes",
                why: error.to_string(),
            })?,
            seed: arguments
                .value("--seed")?
                .unwrap_or_else(|| fastrand::u64(..)),
            sabotage: arguments.flag("--sabotage"),
            json: arguments.flag("--json"),
        };
        arguments.finish()?;
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(line: &str) -> Result<Options, UsageError> {
        Options::take(Arguments::of(line.split_whitespace()))
    }

    #[test]
    fn a_run_takes_two_minutes_unless_told_otherwise() {
        assert_eq!(take("").unwrap().length, Duration::from_secs(120));
        let told = take("--minutes 0.5 --seed 7 --json").unwrap();
        assert_eq!((told.length, told.seed), (Duration::from_secs(30), 7));
        assert!(told.json && !told.sabotage);
    }

    #[test]
    fn what_is_no_time_and_no_flag_is_refused() {
        for line in ["--minutes -1", "--minutes x", "--minutes NaN", "--forever"] {
            assert!(take(line).is_err(), "{line}");
        }
    }
}
