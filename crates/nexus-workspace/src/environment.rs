//! Names of every environment variable that the workspace's placing and configuration know.
//!
//! Only names: the binary reads them once and hands the values down.

/// Root folder of the workspace.
pub const ROOT: &str = "NEXUS_ROOT";
/// Replaces `{root}/state`.
pub const STATE_DIR: &str = "NEXUS_STATE_DIR";
/// Replaces `{root}/home`.
pub const HOME_DIR: &str = "NEXUS_HOME";
/// Replaces `{state}/config.json`.
pub const CONFIG_PATH: &str = "NEXUS_CONFIG_PATH";
/// Profile `work` means the root `~/nexus-work`.
pub const PROFILE: &str = "NEXUS_PROFILE";
/// Key that seals secrets on machines without a keychain.
pub const KEY_FILE: &str = "NEXUS_KEY_FILE";
/// Base folder of per-user state, where trust records lie.
pub const XDG_STATE_HOME: &str = "XDG_STATE_HOME";

/// Variables that set a configuration value, with the key they set. For scripts and tests.
pub const CONFIG_VARIABLES: &[(&str, &str)] = &[
    ("ANTHROPIC_BASE_URL", "providers.anthropic.base_url"),
    ("OPENAI_BASE_URL", "providers.openai.base_url"),
];
