//! An MCP server as a protected resource: who is calling, told from bearer tokens.
