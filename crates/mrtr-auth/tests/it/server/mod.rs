//! The server's side, with real keys that a small authorization server publishes on loopback.

mod desk;
mod introspection;
mod jwt;
mod keys;
mod resource;
