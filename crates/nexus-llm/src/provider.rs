//! The providers we know: where they are, how they are asked, what they are asked for by default.

use nexus_net::BaseUrl;

/// A provider's format for conversations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Chat Completions, and everybody who speaks like it.
    OpenAi,
}

/// How a credential is shown to a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speech {
    Anthropic,
    Bearer,
    Google,
}

/// One provider.
#[derive(Debug)]
pub struct Provider {
    /// Its name, which is also its service among credentials.
    pub service: &'static str,
    /// Where it is when nobody configured anything else.
    pub base: &'static str,
    /// The page only a working credential opens.
    pub(crate) probe: &'static str,
    pub(crate) speech: Speech,
    /// How it converses; none when it does not.
    pub chat: Option<Chat>,
}

/// How a provider converses.
#[derive(Debug, Clone, Copy)]
pub struct Chat {
    /// The format.
    pub wire: Wire,
    /// The path below the base.
    pub(crate) path: &'static str,
    /// The model asked for when nobody named one.
    pub default_model: &'static str,
}

const ANTHROPIC_PATH: &str = "v1/messages";
const OPENAI_PATH: &str = "v1/chat/completions";

const fn bearer(
    service: &'static str,
    base: &'static str,
    probe: &'static str,
    default_model: &'static str,
) -> Provider {
    let chat = Some(Chat { wire: Wire::OpenAi, path: OPENAI_PATH, default_model });
    Provider { service, base, probe, speech: Speech::Bearer, chat }
}

const fn silent(service: &'static str, base: &'static str, probe: &'static str) -> Provider {
    Provider { service, base, probe, speech: Speech::Bearer, chat: None }
}

/// In the order they are looked for.
pub const PROVIDERS: &[Provider] = &[
    Provider {
        service: "anthropic",
        base: "https://api.anthropic.com",
        probe: "v1/models",
        speech: Speech::Anthropic,
        chat: Some(Chat { wire: Wire::Anthropic, path: ANTHROPIC_PATH, default_model: "claude-sonnet-4-5" }),
    },
    bearer("openai", "https://api.openai.com", "v1/models", "gpt-5-mini"),
    Provider {
        service: "gemini",
        base: "https://generativelanguage.googleapis.com",
        probe: "v1beta/models",
        speech: Speech::Google,
        chat: Some(Chat {
            wire: Wire::OpenAi,
            path: "v1beta/openai/chat/completions",
            default_model: "gemini-2.5-flash",
        }),
    },
    // Its list of models is open to everybody; its page about the key is not.
    bearer("openrouter", "https://openrouter.ai/api", "v1/key", "anthropic/claude-sonnet-4.5"),
    bearer("groq", "https://api.groq.com/openai", "v1/models", "llama-3.3-70b-versatile"),
    bearer("mistral", "https://api.mistral.ai", "v1/models", "mistral-large-latest"),
    bearer("deepseek", "https://api.deepseek.com", "v1/models", "deepseek-chat"),
    bearer("xai", "https://api.x.ai", "v1/models", "grok-4"),
    bearer("qwen", "https://dashscope-intl.aliyuncs.com/compatible-mode", "v1/models", "qwen-plus"),
    silent("github", "https://api.github.com", "user"),
    silent("huggingface", "https://huggingface.co", "api/whoami-v2"),
];

/// Finds a provider by its name.
pub fn provider(service: &str) -> Option<&'static Provider> {
    PROVIDERS.iter().find(|provider| provider.service == service)
}

/// Returns the path of a conversation for a provider, known or not.
pub(crate) fn chat_path(service: &str, wire: Wire) -> &'static str {
    match (provider(service).and_then(|provider| provider.chat), wire) {
        (Some(chat), wire) if chat.wire == wire => chat.path,
        (_, Wire::Anthropic) => ANTHROPIC_PATH,
        (_, Wire::OpenAi) => OPENAI_PATH,
    }
}

/// Puts a path below a base. Some people configure `…/v1`, as other tools want it, some do not.
pub(crate) fn address(base: &BaseUrl, path: &str) -> String {
    match path.strip_prefix("v1/") {
        Some(rest) if base.as_str().ends_with("/v1") => base.join(rest),
        _ => base.join(path),
    }
}
