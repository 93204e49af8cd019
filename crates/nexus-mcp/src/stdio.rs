//! Serving one client on two streams until it goes away.
//! The HTTP form: one request, one answer, no sessions. Every dated version allows that, nothing has
//! to be remembered between requests, and each answer is one JSON text that whoever serves it can
//! still look at. Tokens, `Host` and `Origin` are checked by the server in front.

use std::io::{BufRead, Write};
use std::sync::Arc;

use nexus_protocol::tool::ToolSource;
use rmcp::ServiceExt as _;
use rmcp::service::ServerInitializeError;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};

use crate::handler::Handler;
use crate::lines::Lines;

/// Why serving ended otherwise than by the client going away.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The client and this server have no version in common, or the client cannot be written to.
    #[error("the MCP session did not start: {0}")]
    Handshake(String),
    /// A defect ended it.
    #[error("the MCP server ended with an internal error: {0}")]
    Defect(String),
}

/// Serves the tools of `source` until the input ends, one request after the other. Lines are read and
/// answers written by blocking, so this wants a runtime that has nothing else to do.
///
/// # Errors
/// See [`ServeError`]; a client that leaves is no error.
pub async fn serve_lines(
    source: Arc<dyn ToolSource>,
    input: impl BufRead + Send + 'static,
    output: impl Write + Send + 'static,
) -> Result<(), ServeError> {
    let running = match Handler::new(source).serve(Lines::new(input, output)).await {
        Ok(running) => running,
        // Gone before it asked for anything.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(ServeError::Handshake(error.to_string())),
    };
    match running.waiting().await {
        Ok(reason) => {
            tracing::debug!(?reason, "the client has disconnected");
            Ok(())
        }
        Err(error) => Err(ServeError::Defect(error.to_string())),
    }
}

/// Longest body of a request, in bytes: somewhat more than the largest parameters a tool takes, so
/// that it is the tool that says what was too long.
const MAX_BODY_LEN: usize = 12 * 1024 * 1024;

/// An endpoint: a service that takes HTTP requests.
pub type Endpoint = StreamableHttpService<Handler, NeverSessionManager>;

/// Makes an endpoint for the tools of `source`.
pub fn endpoint(source: Arc<dyn ToolSource>) -> Endpoint {
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(MAX_BODY_LEN)
        // The server in front knows its own names and port and has refused all others already.
        .disable_allowed_hosts();
    StreamableHttpService::new(move || Ok(Handler::new(Arc::clone(&source))), Arc::default(), config)
}
