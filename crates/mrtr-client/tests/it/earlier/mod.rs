//! Servers of the earlier era, over HTTP.

mod pages_first;
mod questions;
mod resuming;
mod sessions;
mod subscriptions;
mod unasked;
