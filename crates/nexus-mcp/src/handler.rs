//! The protocol's requests turned into questions to a source of tools.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use nexus_protocol::tool::{ToolHints, ToolOutput, ToolSource, ToolSpec};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest, CustomResult,
    ErrorCode, ErrorData, Implementation, JsonObject, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde_json::Value;

/// What this server calls itself.
const NAME: &str = "nexus";

/// Answers the protocol's requests from a source of tools.
#[derive(Clone)]
pub struct Handler {
    source: Arc<dyn ToolSource>,
}

impl Handler {
    pub(crate) fn new(source: Arc<dyn ToolSource>) -> Self {
        Self { source }
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Handler").finish_non_exhaustive()
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new(NAME, env!("CARGO_PKG_VERSION")));
        match self.source.instructions() {
            Some(instructions) => info.with_instructions(instructions),
            None => info,
        }
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.source.tools();
        Ok(ListToolsResult::with_all_items(
            tools.into_iter().map(|spec| described(self.source.hints(&spec), spec)).collect(),
        ))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if !self.source.knows(&request.name) {
            let name: String = request.name.chars().take(64).collect();
            return Err(ErrorData::invalid_params(format!("there is no tool {name:?}"), None));
        }
        let call = async { self.source.call(&request.name, request.arguments.unwrap_or_default()).await };
        // A defect in one call is that call's answer; who asked would wait for another one forever.
        let output = AssertUnwindSafe(call).catch_unwind().await.unwrap_or_else(|_| defect());
        let content = vec![ContentBlock::text(output.text)];
        let result =
            if output.is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
        Ok(result.into())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Err(not_understood(request))
    }
}

/// Answers a request that the library could not read: one it does not know, or one it knows in another form.
fn not_understood(request: CustomRequest) -> ErrorData {
    let params = request.params.unwrap_or_default();
    let problem = match request.method.as_str() {
        "tools/call" => serde_json::from_value::<CallToolRequestParams>(params).err(),
        "tools/list" => serde_json::from_value::<PaginatedRequestParams>(params).err(),
        _ => None,
    };
    let method: String = request.method.chars().take(64).collect();
    match problem {
        Some(problem) => {
            let message = format!("invalid parameters for {method}: {problem}");
            ErrorData::invalid_params(message, None)
        }
        None => ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("there is no method {method:?}"), None),
    }
}

fn defect() -> ToolOutput {
    ToolOutput::error("the call ended in an internal error; its effects up to then are unknown")
}

fn described(hints: ToolHints, spec: ToolSpec) -> Tool {
    let schema = match spec.input_schema {
        Value::Object(schema) => schema,
        // A schema is an object; anything else says nothing, as an empty one does.
        _ => JsonObject::new(),
    };
    let annotations = ToolAnnotations::from_raw(
        None,
        Some(hints.read_only),
        // Only meaningful for tools that change something.
        (!hints.read_only).then_some(hints.destructive),
        (!hints.read_only).then_some(hints.idempotent),
        Some(hints.open_world),
    );
    Tool::new(spec.name, spec.description, Arc::new(schema)).with_annotations(annotations)
}
