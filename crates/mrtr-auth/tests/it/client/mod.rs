//! The client's side against an MCP server and authorization servers on this machine.

mod flow;
mod grants;
mod loopback;
mod refresh;
mod refusals;
mod scopes;
mod site;
mod world;
