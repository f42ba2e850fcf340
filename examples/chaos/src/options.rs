//! What the driver is told on its command line.

use std::time::Duration;

use stage::arguments::{Arguments, UsageError};

use crate::driver::On;

/// What `--help` prints.
pub(crate) const HELP: &str = include_str!("help.txt");

/// What a run is about.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Options {
    pub(crate) length: Duration,
    pub(crate) seed: u64,
    pub(crate) sabotage: bool,
    pub(crate) json: bool,
    /// What the servers share, one run after the other.
    pub(crate) on: Vec<On>,
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
            on: ledgers(&mut arguments)?,
        };
        arguments.finish()?;
        Ok(options)
    }
}

/// Without a database there is nothing to be said of one: whoever starts this says so.
fn ledgers(arguments: &mut Arguments) -> Result<Vec<On>, UsageError> {
    let postgres = arguments.text("--postgres")?.map(On::Postgres);
    let which = arguments.text("--ledger")?;
    match which.as_deref() {
        None | Some("both") => Ok([On::Sqlite].into_iter().chain(postgres).collect()),
        Some("sqlite") => Ok(vec![On::Sqlite]),
        Some("postgres") => match postgres {
            Some(postgres) => Ok(vec![postgres]),
            None => Err(UsageError::NoValue("--postgres")),
        },
        Some(_) => Err(UsageError::Value {
            flag: "--ledger",
            why: "take sqlite, postgres or both".to_owned(),
        }),
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
    fn a_ledger_is_chosen_and_a_database_is_named() {
        let on = |line: &str| take(line).map(|options| options.on);
        let postgres = || On::Postgres("host=h".into());
        assert_eq!(on(""), Ok(vec![On::Sqlite]));
        assert_eq!(on("--postgres host=h"), Ok(vec![On::Sqlite, postgres()]));
        assert_eq!(
            on("--postgres host=h --ledger sqlite"),
            Ok(vec![On::Sqlite])
        );
        assert_eq!(
            on("--postgres host=h --ledger postgres"),
            Ok(vec![postgres()])
        );
        assert!(on("--ledger postgres").is_err() && on("--ledger paper").is_err());
    }

    #[test]
    fn what_is_no_time_and_no_flag_is_refused() {
        for line in ["--minutes -1", "--minutes x", "--minutes NaN", "--forever"] {
            assert!(take(line).is_err(), "{line}");
        }
    }
}
