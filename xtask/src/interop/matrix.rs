//! Peers, sides, eras and transports: what a cell is one of, beside its case.

use std::fmt;

use crate::failure::Failure;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum $name {
            $($(#[$variant_doc])* $variant),+
        }

        impl $name {
            pub(super) const ALL: &[Self] = &[$(Self::$variant),+];

            pub(super) fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),+
                }
            }

            pub(super) fn named(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.word() == word)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.word())
            }
        }
    };
}

words!(
    /// Whose SDK is at the other end.
    Peer { TypeScript = "typescript", Python = "python" }
);
words!(
    /// Which end is ours.
    Ours {
        /// Their client on our server.
        Server = "server",
        /// Our client on their server.
        Client = "client",
    }
);
words!(
    /// The revision that is spoken.
    Era { Modern = "2026-07-28", Earlier = "2025-11-25" }
);
words!(
    /// How messages travel.
    Transport { Http = "http", Stdio = "stdio" }
);

impl Ours {
    /// What stands above a part of the table.
    pub(super) fn title(self, peer: Peer) -> String {
        match self {
            Self::Server => format!("{peer} client on our server"),
            Self::Client => format!("our client on {peer} server"),
        }
    }
}

/// Everything that a cell is one of, but its case: one client plays these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) peer: Peer,
    pub(super) ours: Ours,
    pub(super) era: Era,
    pub(super) transport: Transport,
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            peer,
            ours,
            era,
            transport,
        } = self;
        write!(f, "{peer}, our {ours}, {era}, {transport}")
    }
}

/// Which part of the matrix was asked for. What is empty is not narrowed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Choice {
    peers: Vec<Peer>,
    ours: Vec<Ours>,
    eras: Vec<Era>,
    transports: Vec<Transport>,
}

impl Choice {
    /// Takes the value of an option.
    pub(super) fn add(&mut self, flag: &str, word: &str) -> Result<(), Failure> {
        let known = match flag {
            "--peer" => Peer::named(word).map(|one| self.peers.push(one)),
            "--ours" => Ours::named(word).map(|one| self.ours.push(one)),
            "--era" => Era::named(word).map(|one| self.eras.push(one)),
            _ => Transport::named(word).map(|one| self.transports.push(one)),
        };
        known.ok_or_else(|| {
            Failure::usage(format!(
                "`{flag}` cannot be `{word}`; `interop --help` says what it can be"
            ))
        })
    }

    /// The runs, those of one server after each other.
    pub(super) fn runs(&self) -> impl Iterator<Item = Run> {
        let all = Peer::ALL.iter().flat_map(|&peer| {
            Ours::ALL.iter().flat_map(move |&ours| {
                Transport::ALL.iter().flat_map(move |&transport| {
                    Era::ALL.iter().map(move |&era| Run {
                        peer,
                        ours,
                        era,
                        transport,
                    })
                })
            })
        });
        all.filter(|run| self.holds(run))
    }

    fn holds(&self, run: &Run) -> bool {
        fn wanted<T: PartialEq>(chosen: &[T], one: &T) -> bool {
            chosen.is_empty() || chosen.contains(one)
        }
        wanted(&self.peers, &run.peer)
            && wanted(&self.ours, &run.ours)
            && wanted(&self.eras, &run.era)
            && wanted(&self.transports, &run.transport)
    }
}
