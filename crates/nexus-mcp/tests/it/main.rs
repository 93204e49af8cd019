//! Integration tests of the MCP server, one file per behaviour.

#![expect(clippy::unwrap_used, reason = "a test and its helpers fail by panicking")]

mod source;
mod streams_answer_every_line;
mod versions_are_all_spoken;
mod web_requests_are_answered_alone;
