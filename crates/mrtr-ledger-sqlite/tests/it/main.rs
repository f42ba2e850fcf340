//! The suite on a file, and what only a file can get wrong.

mod suite;
