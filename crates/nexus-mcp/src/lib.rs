//! MCP: any [`ToolSource`](nexus_protocol::tool::ToolSource) served to whatever program speaks the
//! protocol, line by line on standard streams or as an HTTP endpoint. The only crate that names the
//! protocol library. What the tools do, and who may reach an endpoint, is for others.

mod handler;
mod lines;
mod stdio;

pub use handler::Handler;
pub use lines::MAX_LINE_LEN;
pub use stdio::{Endpoint, endpoint};
pub use stdio::{ServeError, serve_lines};
