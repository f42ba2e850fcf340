//! Secrets by principal, in a file that nobody else can read.
//!
//! **For demonstration only**: a real vault encrypts what it holds, or is a service of its own.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use mrtr_server::Principal;
use serde::{Deserialize, Serialize};

/// A secret, which `Debug` does not print.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Secret(String);

impl Secret {
    /// Longest API key taken, in bytes.
    pub(crate) const LONGEST: usize = 512;

    /// What was pasted, without the white space that came along; nothing where that cannot be an API key.
    pub(crate) fn pasted(text: &str) -> Option<Secret> {
        let text = text.trim();
        let fits = !text.is_empty()
            && text.len() <= Self::LONGEST
            && text.bytes().all(|byte| byte.is_ascii_graphic());
        fits.then(|| Secret(text.to_owned()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Whose secret it is: the person, by whatever client they call.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Owner {
    issuer: String,
    subject: String,
}

impl Owner {
    fn of(principal: &Principal) -> Option<Owner> {
        match principal {
            Principal::User(user) => Some(Owner {
                issuer: user.issuer().to_owned(),
                subject: user.subject().to_owned(),
            }),
            _ => None,
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Line {
    owner: Owner,
    secret: Secret,
}

/// The vault. Cheap to clone. One process alone may write its file.
#[derive(Debug, Clone)]
pub(crate) struct Vault {
    path: Arc<Path>,
    secrets: Arc<Mutex<BTreeMap<Owner, Secret>>>,
}

impl Vault {
    /// The file's name within a data directory.
    pub(crate) const FILE: &str = "vault.json";

    /// Opens a vault; one without a file is empty.
    pub(crate) fn open(path: PathBuf) -> io::Result<Vault> {
        let lines: Vec<Line> = match std::fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let secrets = lines.into_iter().map(|line| (line.owner, line.secret));
        Ok(Vault {
            path: path.into(),
            secrets: Arc::new(Mutex::new(secrets.collect())),
        })
    }

    /// Whether there is a secret of this principal.
    pub(crate) fn holds(&self, principal: &Principal) -> bool {
        let secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        Owner::of(principal).is_some_and(|owner| secrets.contains_key(&owner))
    }

    /// Keeps a secret, in place of an earlier one of the same principal. It is on the disk when this returns.
    pub(crate) async fn keep(&self, principal: &Principal, secret: Secret) -> io::Result<()> {
        let owner = Owner::of(principal)
            .ok_or_else(|| io::Error::other("a secret of nobody cannot be kept"))?;
        let vault = self.clone();
        tokio::task::spawn_blocking(move || vault.keep_now(owner, secret))
            .await
            .map_err(io::Error::other)?
    }

    fn keep_now(&self, owner: Owner, secret: Secret) -> io::Result<()> {
        let mut secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = secrets.clone();
        changed.insert(owner, secret);
        write(&self.path, &changed)?;
        *secrets = changed;
        Ok(())
    }
}

/// Puts a whole new file in the old one's place: whoever reads it, or is left with it after a power cut, has one or the other.
fn write(path: &Path, secrets: &BTreeMap<Owner, Secret>) -> io::Result<()> {
    let lines: Vec<Line> = secrets
        .iter()
        .map(|(owner, secret)| Line {
            owner: owner.clone(),
            secret: secret.clone(),
        })
        .collect();
    let dir = path.parent().unwrap_or(Path::new("."));
    // Such a file is made with mode 0600 on Unix, before anything is in it.
    let mut file = tempfile::NamedTempFile::new_in(dir)?;
    file.write_all(&serde_json::to_vec_pretty(&lines)?)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    match cfg!(unix) {
        true => File::open(dir)?.sync_all(),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pasted_text_is_trimmed_and_checked() {
        assert_eq!(Secret::pasted(" k-1\r\n"), Some(Secret("k-1".into())));
        assert!(Secret::pasted(&"k".repeat(Secret::LONGEST)).is_some());
        for bad in ["", "  ", "two words", "k\u{0}", "schlüssel"] {
            assert_eq!(Secret::pasted(bad), None, "{bad:?}");
        }
        assert_eq!(Secret::pasted(&"k".repeat(Secret::LONGEST + 1)), None);
    }

    #[test]
    fn debug_does_not_leak() {
        let secret = Secret::pasted("k-8f2a").unwrap();
        assert!(!format!("{secret:?}").contains("8f2a"));
    }

    #[tokio::test]
    async fn a_secret_is_its_principals_alone_and_outlives_the_process() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(Vault::FILE);
        let user = |subject| Principal::user("https://login.example", subject);
        let vault = Vault::open(path.clone()).unwrap();
        assert!(!vault.holds(&user("alice")));
        let secret = Secret::pasted("k-1").unwrap();
        vault.keep(&user("alice"), secret.clone()).await.unwrap();
        vault.keep(&Principal::Anonymous, secret).await.unwrap_err();

        for vault in [vault, Vault::open(path.clone()).unwrap()] {
            assert!(vault.holds(&user("alice")));
            assert!(vault.holds(&user("alice").with_client("another")));
            assert!(!vault.holds(&user("bob")));
            assert!(!vault.holds(&Principal::user("https://other.example", "alice")));
            assert!(!vault.holds(&Principal::Anonymous));
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::metadata(path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }
}
