//! What agents are allowed while they work: their tools, and the projects they work in.

use std::time::Duration;

use serde::Deserialize;

use super::milliseconds;

/// `tools.*`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ToolsSettings {
    /// Commands.
    pub bash: BashSettings,
    /// The web.
    pub web: WebSettings,
    /// How long a call waits for the owner's consent.
    #[serde(rename = "approval_timeout_ms", deserialize_with = "milliseconds")]
    pub approval_timeout: Duration,
}

/// `tools.bash.*`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct BashSettings {
    /// Whether commands have the network.
    pub network: BashNetwork,
}

/// Whether commands have the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BashNetwork {
    /// The owner is asked for each command that wants it.
    Ask,
    /// They have it, except in runs that read somebody else's words.
    Allow,
}

/// `tools.web.*`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct WebSettings {
    /// The owner's own hosts that `web_fetch` may reach beside public ones, as base URLs.
    pub allow: Vec<String>,
}

/// `project.*`
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ProjectSettings {
    /// Folder of a package with roles and skills, relative to the workspace; those built in when absent.
    pub catalog: Option<String>,
    /// Where tool calls in projects are written down.
    pub tool_log: ToolLogPlace,
}

/// Where a project's `tool-log.jsonl` lies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolLogPlace {
    /// In `.nexus/state/`, for all harnesses.
    #[default]
    Shared,
    /// In each harness's own folder there.
    Harness,
}
