//! The server from outside: whole HTTP requests in, whole HTTP responses out, no socket between.

mod bank;
mod cases;
mod durable;
mod flow;
mod wire;
