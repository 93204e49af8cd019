//! The nine roles and the skills, as files of a harness.

use nexus_project::catalog::{Agent, denied_tools, effective};

use super::{Content, Wanted};
use crate::edit::Marker;
use crate::ground::Ground;
use crate::{BindingError, Harness};

/// A role on its way into a harness.
pub(super) struct RoleFile<'a>(&'a Agent);

impl RoleFile<'_> {
    /// Returns the name it has there: ours, so that a person's own agent of that name stays theirs.
    pub(super) fn file_name(&self) -> String {
        format!("nexus-{}", self.0.id)
    }

    pub(super) fn description(&self) -> &str {
        &self.0.description
    }

    pub(super) fn body(&self) -> &str {
        &self.0.body
    }
}

/// What a role may not do, as a harness can be told.
pub(super) struct Denied {
    pub(super) files: bool,
    pub(super) shell: bool,
    tools: Vec<String>,
}

impl Denied {
    /// Returns the tools of the project layer it may not call, as the harness names them.
    pub(super) fn tools(&self, prefix: &str) -> Vec<String> {
        self.tools.iter().map(|tool| format!("{prefix}{tool}")).collect()
    }
}

/// Returns every role with what it may not do.
pub(super) fn each(ground: &Ground) -> Vec<(RoleFile<'_>, Denied)> {
    let known = &ground.catalog().vocabulary.capabilities;
    ground
        .catalog()
        .agents
        .iter()
        .map(|agent| {
            let denials = effective(agent, &[]);
            let has = |id: &str| denials.iter().any(|denial| denial == id);
            let denied = Denied {
                files: has("no_file_edit"),
                shell: has("no_shell_exec"),
                tools: denied_tools(&denials, known).iter().map(|tool| tool.as_str().to_owned()).collect(),
            };
            (RoleFile(agent), denied)
        })
        .collect()
}

/// Returns every role as a Markdown file with front matter.
pub(super) fn markdown(
    ground: &Ground,
    folder: &str,
    front: impl Fn(&RoleFile<'_>, &Denied) -> Vec<(&'static str, String)>,
) -> Vec<Wanted> {
    each(ground)
        .into_iter()
        .map(|(agent, denied)| {
            let lines: Vec<String> = front(&agent, &denied)
                .into_iter()
                .filter(|(_, value)| !value.is_empty())
                .map(|(key, value)| {
                    if value.starts_with('\n') {
                        format!("{key}:{value}\n")
                    } else {
                        format!("{key}: {value}\n")
                    }
                })
                .collect();
            let text = format!("---\n{}---\n{}\n", lines.concat(), agent.body().trim_end());
            Wanted::whole(format!("{folder}/{}.md", agent.file_name()), text, Marker::Markdown)
        })
        .collect()
}

/// Returns the skills. Claude Code reads its own folder only; all others read the common one.
pub(super) fn skills(harness: Harness, ground: &Ground) -> Result<Vec<Wanted>, BindingError> {
    let folder = match harness {
        Harness::ClaudeCode => ".claude/skills",
        Harness::Codex | Harness::Cursor | Harness::OpenCode | Harness::Gemini | Harness::Qwen => {
            ".agents/skills"
        }
    };
    let mut all = Vec::new();
    for skill in &ground.catalog().skills {
        let body = ground.skill_body(skill)?;
        let text = format!(
            "---\nname: {}\ndescription: {}\n---\n{}\n",
            skill.id,
            skill.description,
            body.trim_end()
        );
        all.push(Wanted {
            file: format!("{folder}/{}/SKILL.md", skill.id).into(),
            content: Content::Whole { text, marker: Marker::Markdown },
        });
    }
    Ok(all)
}
