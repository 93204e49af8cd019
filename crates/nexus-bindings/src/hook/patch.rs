//! Edits that go through the shell: some models run `apply_patch` there because they were given no
//! tool of that name. Other ways of a shell to change files are not looked for; a gate that guessed
//! at them would promise what it cannot keep.

use serde_json::Value;

/// The tool a patch is, wherever it runs.
pub(super) const TOOL: &str = "apply_patch";

/// Names it goes by.
const NAMES: [&str; 2] = ["apply_patch", "applypatch"];

/// Returns whether a tool's input is a command that runs a patch.
pub(super) fn runs_patch(input: &Value) -> bool {
    match input.get("command") {
        Some(Value::String(command)) => in_command(command),
        Some(Value::Array(words)) => {
            let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
            words.first().is_some_and(|first| NAMES.contains(first))
                || words.last().is_some_and(|last| in_command(last))
        }
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => false,
    }
}

/// Looks for the name where a command begins.
fn in_command(command: &str) -> bool {
    NAMES.iter().any(|name| {
        command.match_indices(name).any(|(at, _)| {
            let before = command[..at].trim_end_matches([' ', '\t']);
            let begins = before.is_empty()
                || before.ends_with([';', '&', '|', '(', '\n', '{', '"', '\'', '`'])
                || before.ends_with("then")
                || before.ends_with("do");
            let after = command[at + name.len()..].chars().next();
            begins
                && after.is_none_or(|character| {
                    character.is_whitespace() || matches!(character, '<' | '"' | '\'' | ';')
                })
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_patch_is_found_where_a_command_begins_and_nowhere_else() {
        for command in [
            "apply_patch <<'EOF'\n*** Begin Patch\nEOF",
            "cd src && apply_patch <<EOF\nEOF",
            "bash -lc \"apply_patch <<EOF\"",
            "if true; then apply_patch < p; fi",
        ] {
            assert!(runs_patch(&json!({ "command": command })), "{command}");
        }
        assert!(runs_patch(&json!({"command": ["apply_patch", "*** Begin Patch"]})));
        assert!(runs_patch(&json!({"command": ["bash", "-lc", "apply_patch <<EOF"]})));
        for command in ["grep apply_patch src", "echo apply_patch_notes", "cat docs/apply_patch.md", ""] {
            assert!(!runs_patch(&json!({ "command": command })), "{command}");
        }
        assert!(!runs_patch(&json!({})) && !runs_patch(&Value::Null));
    }
}
