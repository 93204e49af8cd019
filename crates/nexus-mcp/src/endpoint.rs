//! The HTTP form: one request, one answer, no sessions. Every dated version allows that, nothing has
//! to be remembered between requests, and each answer is one JSON text that whoever serves it can
//! still look at. Tokens, `Host` and `Origin` are checked by the server in front.

use std::sync::Arc;

use nexus_protocol::tool::ToolSource;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};

use crate::handler::Handler;

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
