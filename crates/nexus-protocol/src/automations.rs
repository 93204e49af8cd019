//! Parameters of the methods that change automations.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How often an automation runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AutomationMode {
    /// Whenever its hook point is reached.
    #[default]
    Persistent,
    /// Until it did something once.
    OneShot,
}

/// Parameters of `automations.register`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AutomationRegister {
    /// Its name; an own automation of that name is replaced.
    pub name: String,
    /// The file, below the workspace's `automations` folder.
    pub script: String,
    /// The hash its owner was shown; any other content is refused.
    pub hash: String,
    /// Where it runs.
    pub hook_point: String,
    /// What it does, for people.
    #[serde(default)]
    pub description: String,
    /// Whether whatever reaches the hook point waits for it.
    #[serde(default)]
    pub blocking: bool,
    /// How often it runs.
    #[serde(default)]
    pub mode: AutomationMode,
    /// Longest it may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Whether it gets a folder of its own that stays.
    #[serde(default)]
    pub workspace: bool,
    /// Automations whose folders it is told about.
    #[serde(default)]
    pub peers: Vec<String>,
    /// Whether a model thinks about its work and keeps what it learns in its folder.
    #[serde(default)]
    pub self_improvement: bool,
    /// Whether it may use the network.
    #[serde(default)]
    pub network: bool,
    /// When it runs, beyond the hook point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub triggers: Option<Value>,
    /// Its own settings, handed to it each time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<Value>,
}

/// Parameters of `automations.test`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AutomationTest {
    /// Its name.
    #[serde(alias = "name")]
    pub id: String,
    /// What it is told as the data of its hook point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}
