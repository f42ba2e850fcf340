//! An OAuth client for MCP: what turns a 401 into a token.
