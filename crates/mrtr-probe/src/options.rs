//! The command line.

use std::time::Duration;

use mrtr_probe::Target;
use serde_json::Value;

/// What `--help` prints.
pub(crate) const HELP: &str = include_str!("help.txt");

/// How the report is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Table,
    Json,
    Sarif,
}

/// What is to be done.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) target: Target,
    pub(crate) format: Format,
}

/// What the command line asks for.
#[derive(Debug)]
pub(crate) enum Parsed {
    Help,
    Run(Box<Options>),
}

/// Why a command line was not understood.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UsageError {
    #[error("`{0}` is no option")]
    Unknown(String),
    #[error("{0} needs a value")]
    NoValue(String),
    #[error("the value of {option} cannot be read: {why}")]
    Value { option: String, why: String },
    #[error("{0} is missing")]
    Missing(&'static str),
    #[error("--json and --sarif exclude each other")]
    TwoFormats,
    #[error("a second URL: `{0}`")]
    TwoUrls(String),
}

impl Options {
    /// Reads a command line. `variable` is the environment.
    pub(crate) fn parse(
        arguments: impl IntoIterator<Item = String>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Parsed, UsageError> {
        let mut arguments = arguments.into_iter();
        let mut target = Target::new("", "");
        let (mut json, mut sarif) = (false, false);
        while let Some(argument) = arguments.next() {
            let option = argument.as_str();
            let mut value = || {
                arguments
                    .next()
                    .ok_or_else(|| UsageError::NoValue(option.to_owned()))
            };
            match option {
                "-h" | "--help" => return Ok(Parsed::Help),
                "--tool" => target.tool = value()?,
                "--arguments" => target.arguments = object(option, &value()?)?,
                "--other-arguments" => target.other_arguments = Some(object(option, &value()?)?),
                "--answer" => target.answer = object(option, &value()?)?,
                "--answers" => {
                    if let Value::Object(answers) = object(option, &value()?)? {
                        target.answers = answers;
                    }
                }
                "--token" => target.token = Some(token(option, value()?)?),
                "--other-token" => target.other_token = Some(token(option, value()?)?),
                "--effect-tool" => target.effect_tool = Some(value()?),
                "--effect-arguments" => target.effect_arguments = object(option, &value()?)?,
                "--other-tool" => target.other_tool = Some(value()?),
                "--lifetime" => target.lifetime = Some(seconds(option, &value()?)?),
                "--max-seconds" => target.max_time = seconds(option, &value()?)?,
                "--max-positions" => target.max_positions = read(option, &value()?)?,
                "--max-requests" => target.max_requests = read(option, &value()?)?,
                "--allow-remote" => target.allow_remote = true,
                "--json" => json = true,
                "--sarif" => sarif = true,
                _ if option.starts_with('-') => return Err(UsageError::Unknown(argument)),
                _ if !target.url.is_empty() => return Err(UsageError::TwoUrls(argument)),
                _ => target.url = argument,
            }
        }
        if target.token.is_none() {
            let name = "MRTR_PROBE_TOKEN";
            target.token = variable(name).map(|value| token(name, value)).transpose()?;
        }
        if target.other_token.is_none() {
            let name = "MRTR_PROBE_OTHER_TOKEN";
            target.other_token = variable(name).map(|value| token(name, value)).transpose()?;
        }
        if target.url.is_empty() {
            return Err(UsageError::Missing("the URL"));
        }
        if target.tool.is_empty() {
            return Err(UsageError::Missing("--tool"));
        }
        let format = match (json, sarif) {
            (true, true) => return Err(UsageError::TwoFormats),
            (true, false) => Format::Json,
            (false, true) => Format::Sarif,
            (false, false) => Format::Table,
        };
        Ok(Parsed::Run(Box::new(Options { target, format })))
    }
}

fn bad(option: &str, why: impl ToString) -> UsageError {
    UsageError::Value {
        option: option.to_owned(),
        why: why.to_string(),
    }
}

fn object(option: &str, text: &str) -> Result<Value, UsageError> {
    let value: Value = serde_json::from_str(text).map_err(|error| bad(option, error))?;
    match value.is_object() {
        true => Ok(value),
        false => Err(bad(option, "it is not a JSON object")),
    }
}

/// A bearer token (RFC 6750, section 2.1). The error does not repeat it.
fn token(option: &str, text: String) -> Result<String, UsageError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    match !text.is_empty() && text.bytes().all(allowed) {
        true => Ok(text),
        false => Err(bad(
            option,
            "a bearer token has letters, digits and -._~+/= alone",
        )),
    }
}

fn read<T: std::str::FromStr<Err: std::fmt::Display>>(
    option: &str,
    text: &str,
) -> Result<T, UsageError> {
    text.parse().map_err(|error| bad(option, error))
}

fn seconds(option: &str, text: &str) -> Result<Duration, UsageError> {
    let seconds: f64 = read(option, text)?;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| bad(option, "it is no number of seconds above 0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &[&str]) -> Result<Parsed, UsageError> {
        Options::parse(line.iter().map(|word| (*word).to_owned()), |_| None)
    }

    #[test]
    fn a_whole_command_line_is_read() {
        let line = [
            "http://127.0.0.1:1/mcp",
            "--tool",
            "pay",
            "--arguments",
            r#"{"a":1}"#,
            "--answer",
            r#"{"ok":true}"#,
            "--token",
            "a",
            "--other-token",
            "b",
            "--effect-tool",
            "count",
            "--lifetime",
            "1.5",
            "--other-tool",
            "give",
            "--json",
            "--allow-remote",
            "--max-requests",
            "5",
            "--max-seconds",
            "6",
        ];
        let Ok(Parsed::Run(options)) = parse(&line) else {
            panic!()
        };
        let target = options.target;
        assert_eq!(
            (target.url.as_str(), target.tool.as_str()),
            ("http://127.0.0.1:1/mcp", "pay")
        );
        assert_eq!(target.arguments["a"], 1);
        assert_eq!(target.lifetime, Some(Duration::from_millis(1500)));
        assert_eq!(
            (target.max_requests, target.max_time),
            (5, Duration::from_secs(6))
        );
        assert!(target.allow_remote && options.format == Format::Json);
        assert!(!format!("{target:?}").contains("token"));
    }

    #[test]
    fn what_is_not_understood_is_refused_and_tokens_are_not_repeated() {
        for line in [
            &["--tool", "pay"][..],
            &["http://127.0.0.1/"],
            &["http://127.0.0.1/", "--tool"],
            &["http://127.0.0.1/", "--tool", "pay", "--arguments", "[]"],
            &["http://127.0.0.1/", "--tool", "pay", "--lifetime", "0"],
            &["http://127.0.0.1/", "--tool", "pay", "--lifetime", "NaN"],
            &["http://127.0.0.1/", "--tool", "pay", "--fast"],
            &["http://127.0.0.1/", "http://127.0.0.1/", "--tool", "pay"],
            &["http://127.0.0.1/", "--tool", "pay", "--json", "--sarif"],
        ] {
            assert!(parse(line).is_err(), "{line:?}");
        }
        let error = parse(&[
            "http://127.0.0.1/",
            "--tool",
            "pay",
            "--token",
            "sec ret\r\n",
        ])
        .unwrap_err();
        assert!(!error.to_string().contains("sec"), "{error}");
        assert!(matches!(parse(&["--help"]), Ok(Parsed::Help)));
    }

    #[test]
    fn tokens_come_from_the_environment_too() {
        let words = ["http://127.0.0.1/", "--tool", "pay"].map(str::to_owned);
        let parsed = Options::parse(words, |name| Some(format!("{}-value", name.len())));
        let Ok(Parsed::Run(options)) = parsed else {
            panic!()
        };
        assert_eq!(options.target.token.as_deref(), Some("16-value"));
        assert_eq!(options.target.other_token.as_deref(), Some("22-value"));
    }

    #[test]
    fn every_option_is_in_the_help() {
        let source = include_str!("options.rs");
        let source = source.split("#[cfg(test)]").next().unwrap();
        let words = source.split('"').filter_map(|word| word.strip_prefix("--"));
        let options: Vec<&str> = words.filter(|word| !word.contains(' ')).collect();
        assert!(options.contains(&"effect-tool"));
        for option in options {
            assert!(HELP.contains(&format!("--{option}")), "--{option}");
        }
    }
}
