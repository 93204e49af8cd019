//! How a binding stands: there or not, out of date, waiting for the person to accept it in the
//! harness, or seen at work. A harness's own records are only read, never written: accepting hooks is
//! the person's review, not configuration.

use std::path::{Path, PathBuf};

use nexus_base::id::to_hex;
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::ground::Ground;
use crate::plan::{complete, read};
use crate::record::RecordFolder;
use crate::wanted::wanted;
use crate::{BindingError, Harness};

/// Largest record of a harness that is read.
const LIMIT: u64 = 16 * 1024 * 1024;

/// How a binding stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Nothing of ours is there.
    NotBound,
    /// Something is missing or no longer says what it should.
    Stale,
    /// Everything is there; the harness holds it back until the person accepts it.
    AwaitingTrust,
    /// Everything is there.
    Bound,
    /// Everything is there, and a hook ran since.
    Active,
}

/// How one harness's binding stands.
#[derive(Debug, Clone, Serialize)]
pub struct Standing {
    pub harness: String,
    /// How it stands.
    pub state: State,
    /// Files that are missing or out of date.
    pub stale: Vec<PathBuf>,
    /// What the person still has to do.
    pub todo: Vec<String>,
}

/// Looks how a harness's binding stands. `home` is the person's, for the harness's own records.
pub fn check(
    harness: Harness,
    ground: &Ground,
    records: &RecordFolder,
    home: Option<&Path>,
) -> Result<Standing, BindingError> {
    let record = records.load(ground.root())?;
    let recorded = record.files.values().any(|file| file.users.contains(harness.as_str()));
    let mut stale = Vec::new();
    let mut found = 0_usize;
    for wanted in wanted(harness, ground)? {
        // What does not parse holds nothing of ours that a harness could see.
        let text = read(ground.root(), &wanted.file).ok().and_then(|(_, text)| text);
        match text {
            Some(text) if complete(&wanted.content, &text) => {
                // Shared files say nothing about which harness they are there for.
                found += usize::from(own(harness, &wanted.file));
            }
            Some(_) | None => stale.push(wanted.file),
        }
    }
    let standing = |state, stale, todo| Standing { harness: harness.as_str().to_owned(), state, stale, todo };
    if found == 0 && !recorded {
        return Ok(standing(State::NotBound, Vec::new(), Vec::new()));
    }
    if !stale.is_empty() {
        return Ok(standing(State::Stale, stale, vec![format!("run `nexus bindings {harness}` again")]));
    }
    if records.has_run(ground.root(), harness) {
        return Ok(standing(State::Active, stale, Vec::new()));
    }
    let todo = open_reviews(harness, ground, home);
    let state = if todo.is_empty() { State::Bound } else { State::AwaitingTrust };
    Ok(standing(state, stale, todo))
}

/// Returns what the person still has to accept in the harness itself.
pub fn open_reviews(harness: Harness, ground: &Ground, home: Option<&Path>) -> Vec<String> {
    let root = ground.root();
    let here = root.display();
    match harness {
        Harness::ClaudeCode => {
            let projects = home.and_then(|home| json_file(&home.join(".claude.json")));
            let entry = projects.as_ref().map(|all| &all["projects"][root.to_string_lossy().as_ref()]);
            if entry.is_some_and(|entry| entry["hasTrustDialogAccepted"] == true) {
                return Vec::new();
            }
            vec![format!("open `claude` in {here} and accept the folder, its hooks and the MCP server nexus")]
        }
        Harness::Codex => codex_reviews(root, home),
        Harness::Gemini => {
            let trusted = home.and_then(|home| json_file(&home.join(".gemini/trustedFolders.json")));
            let is_trusted = trusted.as_ref().and_then(Value::as_object).is_some_and(|folders| {
                folders.iter().any(|(folder, how)| match how.as_str() {
                    Some("TRUST_FOLDER") => root.starts_with(folder),
                    Some("TRUST_PARENT") => {
                        Path::new(folder).parent().is_some_and(|parent| root.starts_with(parent))
                    }
                    Some(_) | None => false,
                })
            });
            if is_trusted {
                Vec::new()
            } else {
                vec![format!("open `gemini` in {here} and trust the folder")]
            }
        }
        Harness::Qwen => {
            vec![format!(
                "open `qwen` in {here}, trust the folder if asked, and approve the MCP server nexus"
            )]
        }
        Harness::Cursor => {
            vec!["restart Cursor here and enable the MCP server nexus in its settings".to_owned()]
        }
        Harness::OpenCode => Vec::new(),
    }
}

fn codex_reviews(root: &Path, home: Option<&Path>) -> Vec<String> {
    let config = home
        .and_then(|home| nexus_base::file::read_text(&home.join(".codex/config.toml"), LIMIT).ok())
        .and_then(|text| text.parse::<toml_edit::DocumentMut>().ok());
    let mut todo = Vec::new();
    let trusted = config.as_ref().is_some_and(|config| {
        let level = config.get("projects").and_then(|all| all.get(root.to_string_lossy().as_ref()));
        level.and_then(|project| project.get("trust_level")).and_then(toml_edit::Item::as_str)
            == Some("trusted")
    });
    if !trusted {
        todo.push(format!("open `codex` in {} and trust the folder", root.display()));
    }
    let file = root.join(".codex/hooks.json");
    let untrusted = hook_hashes(&file).iter().any(|(key, hash)| {
        let known = config.as_ref().and_then(|config| {
            let entry = config.get("hooks")?.get("state")?.get(key)?;
            entry.get("trusted_hash")?.as_str().map(|found| found == hash)
        });
        known != Some(true)
    });
    if untrusted {
        todo.push(
            "review the hooks there with `/hooks` in codex; until then it silently skips them".to_owned(),
        );
    }
    todo
}

/// Returns the key and hash under which Codex records that a hook of ours was reviewed.
fn hook_hashes(file: &Path) -> Vec<(String, String)> {
    let Some(value) = json_file(file) else { return Vec::new() };
    let mut all = Vec::new();
    for (event, groups) in value["hooks"].as_object().into_iter().flatten() {
        let name = snake(event);
        for (group_index, group) in groups.as_array().into_iter().flatten().enumerate() {
            for (hook_index, hook) in group["hooks"].as_array().into_iter().flatten().enumerate() {
                let ours = hook["command"].as_str().is_some_and(|command| command.starts_with("nexus hook "));
                if !ours {
                    continue;
                }
                let default = if name == "session_end" { 1 } else { 600 };
                let timeout = hook["timeout"].as_u64().unwrap_or(default);
                // Written with sorted keys, as it is hashed.
                let mut about = serde_json::Map::new();
                about.insert("event_name".to_owned(), json!(name));
                about.insert(
                    "hooks".to_owned(),
                    json!([{"async": false, "command": hook["command"], "timeout": timeout, "type": "command"}]),
                );
                if let Some(matcher) = group["matcher"].as_str() {
                    about.insert("matcher".to_owned(), json!(matcher));
                }
                let hash = to_hex(&Sha256::digest(Value::Object(about).to_string().as_bytes()));
                all.push((
                    format!("{}:{name}:{group_index}:{hook_index}", file.display()),
                    format!("sha256:{hash}"),
                ));
            }
        }
    }
    all
}

fn snake(event: &str) -> String {
    let mut name = String::new();
    for character in event.chars() {
        if character.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(character.to_ascii_lowercase());
    }
    name
}

/// Returns whether a file is read by this harness alone.
fn own(harness: Harness, file: &Path) -> bool {
    let of_several = file.starts_with("AGENTS.md") || file.starts_with(".agents");
    let of_claude = harness != Harness::ClaudeCode && file.starts_with(".claude");
    !of_several && !of_claude
}

fn json_file(path: &Path) -> Option<Value> {
    serde_json::from_str(&nexus_base::file::read_text(path, LIMIT).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both hashes are what Codex 0.166.0 reports for these hooks through its `hooks/list`.
    #[test]
    fn a_reviewed_hook_is_known_by_the_hash_codex_gives_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hooks.json");
        let hook = |event: &str| {
            format!(r#"{{"type":"command","command":"nexus hook {event} --harness codex","timeout":10}}"#)
        };
        let text = format!(
            r#"{{"hooks":{{"PreToolUse":[{{"matcher":"Edit|Write|apply_patch|Bash|mcp__nexus__.*","hooks":[{}]}}],
                "PreCompact":[{{"hooks":[{{"type":"command","command":"./mine"}}]}},{{"hooks":[{}]}}]}}}}"#,
            hook("pre_tool_use"),
            hook("context_compact")
        );
        nexus_base::file::replace(&file, text.as_bytes(), 0o600, nexus_base::file::Durability::Crash)
            .unwrap();
        let found = hook_hashes(&file);
        let expected = [
            (":pre_tool_use:0:0", "sha256:c238c6aae854a29a912b4682aed7e3ee474dd4252c9f748200fb01859794c422"),
            (":pre_compact:1:0", "sha256:87c5f7fbd49d2266813f4589b43530be9168653241eaceccff3f4c73b04865a9"),
        ];
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for ((key, hash), (end, wanted)) in found.iter().zip(expected) {
            assert!(key.ends_with(end), "{key}");
            assert_eq!(hash, wanted);
        }
    }
}
