//! The six harnesses a folder can be bound to.

use nexus_base::words;

words! {
    /// A coding harness.
    #[derive(PartialOrd, Ord)]
    pub enum Harness {
        ClaudeCode = "claude-code",
        /// Codex CLI.
        Codex = "codex",
        Cursor = "cursor",
        OpenCode = "opencode",
        /// Gemini CLI.
        Gemini = "gemini",
        /// Qwen Code.
        Qwen = "qwen",
    }
}

impl Harness {
    /// Returns the name people know it by.
    pub const fn title(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::Codex => "Codex",
            Self::Cursor => "Cursor",
            Self::OpenCode => "OpenCode",
            Self::Gemini => "Gemini CLI",
            Self::Qwen => "Qwen Code",
        }
    }

    /// Returns the file of a folder that holds our hooks.
    pub(crate) const fn hooks_file(self) -> &'static str {
        match self {
            Self::ClaudeCode => ".claude/settings.json",
            Self::Codex => ".codex/hooks.json",
            Self::Cursor => ".cursor/hooks.json",
            Self::OpenCode => ".opencode/plugin/nexus.js",
            Self::Gemini => ".gemini/settings.json",
            Self::Qwen => ".qwen/settings.json",
        }
    }
}
