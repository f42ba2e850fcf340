//! Codec, ledger and guards, as the flags ask for them.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use mrtr_ledger::{Ledger, MemoryLedger};
use mrtr_ledger_sqlite::{OpenError, SqliteLedger};
use mrtr_server::{ServerBuilder, StoredCodec};
use mrtr_state::{Clock, Key, KeyError, KeyRing, RandomError, StateCodec, SystemClock};
use mrtr_state_aead::AeadCodec;
use mrtr_state_hmac::HmacCodec;
use mrtr_testkit::guards::{
    AlwaysFirst, AnyPrincipal, AnyRequest, Guard, StoppedClock, UncheckedCodec, UnsealedCodec,
};

use crate::Data;
use crate::arguments::{Arguments, UsageError, read};

/// The environment variable that holds the keys where `--keys` does not.
const KEYS: &str = "MRTR_KEYS";

/// The ledger that an example has without the flag `--ledger`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultLedger {
    /// SQLite, in the file `ledger.sqlite` of the data directory.
    Sqlite,
    /// None: a state can be answered again within its lifetime.
    None,
}

/// The ledger, where it is SQLite.
pub(crate) type Sqlite = Option<Arc<SqliteLedger>>;

/// What the flags say.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) data: Option<PathBuf>,
    pub(crate) audience: Option<String>,
    codec: Codec,
    store_above: Option<usize>,
    keys: Option<KeyRing>,
    ledger: Option<LedgerChoice>,
    lifetime: Option<Duration>,
    lease: Option<Duration>,
    without: BTreeSet<Guard>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Codec {
    Hmac,
    Aead,
    None,
    Unsealed,
    Unchecked,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum LedgerChoice {
    Sqlite(PathBuf),
    Memory,
    None,
}

/// Codec or ledger cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// A key was refused.
    #[error("a key was refused")]
    Key(#[from] KeyError),
    /// No randomness for a fresh key or epoch.
    #[error(transparent)]
    Random(#[from] RandomError),
    /// The ledger's file.
    #[error(transparent)]
    Ledger(#[from] OpenError),
}

impl Options {
    pub(crate) fn take(arguments: &mut Arguments) -> Result<Options, UsageError> {
        let keys = match arguments.text("--keys")? {
            Some(keys) => Some(keys),
            None => std::env::var(KEYS).ok().filter(|keys| !keys.is_empty()),
        };
        Ok(Options {
            data: arguments.value("--data")?,
            audience: arguments.text("--audience")?,
            codec: arguments.value("--codec")?.unwrap_or(Codec::Hmac),
            store_above: arguments.value("--store-above")?,
            keys: keys.as_deref().map(ring).transpose()?,
            ledger: arguments.value("--ledger")?,
            lifetime: arguments.value("--lifetime")?.map(Duration::from_millis),
            lease: arguments.value("--lease")?.map(Duration::from_millis),
            without: arguments
                .texts("--without")?
                .iter()
                .map(|guard| read("--without", guard))
                .collect::<Result<_, _>>()?,
        })
    }

    /// Gives the builder codec, clock, ledger and limits, each without the guards that are to be off. Beside it is the ledger where that is
    /// SQLite, for an example that keeps more in its file.
    pub(crate) fn equip(
        &self,
        builder: ServerBuilder,
        default: DefaultLedger,
        data: &Data,
    ) -> Result<(ServerBuilder, Sqlite), OptionsError> {
        let clock: Arc<dyn Clock> = match self.is_off(Guard::Lifetime) {
            true => Arc::new(StoppedClock::new(&SystemClock)),
            false => Arc::new(SystemClock),
        };
        let mut builder = builder.clock(Arc::clone(&clock));
        if let Some(codec) = self.codec()? {
            builder = match self.store_above {
                Some(bytes) => builder.codec(StoredCodec::above(bytes, codec)),
                None => builder.codec(codec),
            };
        }
        let (ledger, sqlite) = self.ledger(default, data, clock)?;
        if let Some(ledger) = ledger {
            builder = builder.ledger(ledger);
        }
        if let Some(lifetime) = self.lifetime {
            builder = builder.limits(|limits| limits.lifetime = lifetime);
        }
        if let Some(lease) = self.lease {
            builder = builder.limits(|limits| limits.lease = lease);
        }
        if self.is_off(Guard::Question) {
            builder = builder.dangerous().ignore_question_digest();
        }
        Ok((builder, sqlite))
    }

    fn is_off(&self, guard: Guard) -> bool {
        self.without.contains(&guard)
    }

    fn codec(&self) -> Result<Option<Arc<dyn StateCodec>>, OptionsError> {
        let ring = match &self.keys {
            Some(ring) => ring.clone(),
            None => KeyRing::generate()?,
        };
        let mut codec: Arc<dyn StateCodec> = match self.codec {
            Codec::None => return Ok(None),
            Codec::Hmac => Arc::new(HmacCodec::new(ring)?),
            Codec::Aead => Arc::new(AeadCodec::new(ring)?),
            Codec::Unsealed => Arc::new(UnsealedCodec::in_place_of(&HmacCodec::new(ring)?)),
            Codec::Unchecked => Arc::new(UncheckedCodec::new(HmacCodec::new(ring)?)),
        };
        if self.is_off(Guard::Sealing) {
            codec = Arc::new(UnsealedCodec::in_place_of(&codec));
        }
        if self.is_off(Guard::Principal) {
            codec = Arc::new(AnyPrincipal::new(codec));
        }
        if self.is_off(Guard::Request) {
            codec = Arc::new(AnyRequest::new(codec));
        }
        Ok(Some(codec))
    }

    fn ledger(
        &self,
        default: DefaultLedger,
        data: &Data,
        clock: Arc<dyn Clock>,
    ) -> Result<(Option<Arc<dyn Ledger>>, Sqlite), OptionsError> {
        let choice = self.ledger.clone().unwrap_or_else(|| match default {
            DefaultLedger::Sqlite => LedgerChoice::Sqlite(data.path("ledger.sqlite")),
            DefaultLedger::None => LedgerChoice::None,
        });
        let mut sqlite = None;
        let ledger: Arc<dyn Ledger> = match choice {
            LedgerChoice::None => return Ok((None, None)),
            LedgerChoice::Memory => Arc::new(MemoryLedger::new(clock)?),
            LedgerChoice::Sqlite(path) => {
                let ledger = Arc::new(SqliteLedger::builder(path).clock(clock).open()?);
                sqlite = Some(Arc::clone(&ledger));
                ledger
            }
        };
        let ledger = match self.is_off(Guard::Ledger) {
            true => Arc::new(AlwaysFirst::new(ledger)),
            false => ledger,
        };
        Ok((Some(ledger), sqlite))
    }
}

/// Keys in hexadecimal, parted by commas: the first seals, all open.
fn ring(keys: &str) -> Result<KeyRing, UsageError> {
    let refused = |error: KeyError| UsageError::Value {
        flag: "--keys",
        why: error.to_string(),
    };
    let mut keys = keys.split(',').map(|key| Key::from_hex(key.trim()));
    let first = keys.next().unwrap_or(Err(KeyError::NotHex));
    keys.try_fold(KeyRing::new(first.map_err(refused)?), |ring, key| {
        ring.and_opens(key.map_err(refused)?).map_err(refused)
    })
}

impl FromStr for Codec {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Codec, &'static str> {
        match name {
            "hmac" => Ok(Codec::Hmac),
            "aead" => Ok(Codec::Aead),
            "none" => Ok(Codec::None),
            "unsealed" => Ok(Codec::Unsealed),
            "unchecked" => Ok(Codec::Unchecked),
            _ => Err("take hmac, aead, none, unsealed or unchecked"),
        }
    }
}

impl FromStr for LedgerChoice {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<LedgerChoice, &'static str> {
        match text {
            "" => Err("take a path, memory or none"),
            "memory" => Ok(LedgerChoice::Memory),
            "none" => Ok(LedgerChoice::None),
            path => Ok(LedgerChoice::Sqlite(path.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    const B: &str = "202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f";

    #[test]
    fn keys_make_a_lasting_ring_in_their_order() {
        let ring = ring(&format!("{A},{B}")).unwrap();
        assert!(ring.is_lasting());
        let first = Key::from_hex(A).unwrap();
        assert_eq!(ring.keys().count(), 2);
        assert_eq!(
            ring.keys().next().unwrap().secret_bytes(),
            first.secret_bytes()
        );
    }

    #[test]
    fn a_refused_key_is_not_printed() {
        for bad in [
            "".to_owned(),
            A[..62].to_owned(),
            format!("{A},"),
            format!("{A},{A}"),
            format!("{A};{B}"),
        ] {
            let error = ring(&bad).unwrap_err().to_string();
            assert!(
                error.starts_with("the value of --keys cannot be read: "),
                "{error}"
            );
            assert!(!error.contains("0001020304"), "{error}");
        }
    }

    #[test]
    fn flags_are_read() {
        let mut arguments = Arguments::of([
            "--codec",
            "aead",
            "--ledger",
            "memory",
            "--without",
            "request",
            "--without",
            "ledger",
            "--lifetime",
            "5",
            "--lease",
            "7",
            "--store-above",
            "2048",
        ]);
        let options = Options::take(&mut arguments).unwrap();
        arguments.finish().unwrap();
        assert_eq!(options.codec, Codec::Aead);
        assert_eq!(options.store_above, Some(2048));
        assert_eq!(options.ledger, Some(LedgerChoice::Memory));
        assert_eq!(options.lifetime, Some(Duration::from_millis(5)));
        assert_eq!(options.lease, Some(Duration::from_millis(7)));
        assert!(options.is_off(Guard::Request) && options.is_off(Guard::Ledger));
        assert!(!options.is_off(Guard::Sealing));

        let unknown = Options::take(&mut Arguments::of(["--without", "luck"])).unwrap_err();
        assert!(unknown.to_string().contains("question"), "{unknown}");
    }
}
