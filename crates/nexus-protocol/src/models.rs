//! Which model answers and why, as the control plane shows it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why the model in use was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModelSource {
    /// The configuration names it.
    Config,
    /// A credential was found and agreed to, or leads to this machine.
    Credential,
    /// A server on this machine was found.
    Local,
    /// Nothing else can be used: the offline guide.
    Guide,
}

/// The answer of `models.list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelsView {
    /// The model in use, as `provider/model`.
    pub model: String,
    /// Why.
    pub source: ModelSource,
    /// Why, in words.
    pub reason: String,
    /// Tokens it takes in, reply included.
    pub context_window: u64,
    /// Models that are tried in this order.
    pub chain: Vec<String>,
    /// What waits for the owner's yes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub question: Option<ModelQuestion>,
    /// Everything that was looked at.
    pub considered: Vec<ModelCandidate>,
}

/// A credential that was found and is not used before the owner agrees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelQuestion {
    /// The provider.
    pub provider: String,
    /// The account there.
    pub account: String,
    /// The model that would answer.
    pub model: String,
    /// The question in words.
    pub text: String,
}

/// Something that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelCandidate {
    /// What, as `provider/model`.
    pub model: String,
    /// Where it came from.
    pub source: ModelSource,
    /// What was decided about it.
    pub outcome: String,
}

/// Parameters of `models.allow` and `models.refuse`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelAnswer {
    /// The provider whose credential is meant.
    pub provider: String,
    /// The account; every one that was found when absent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub account: Option<String>,
}
