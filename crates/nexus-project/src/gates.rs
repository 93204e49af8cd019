//! What may not happen: edits that no task covers, and calls that a role must not make. A refusal says what
//! to do instead.
//!
//! The gate covers paths under the project's root. Commands are not read here: where a harness runs them in a
//! sandbox, [`shell`] says what the project is for that process, which is the only answer that holds.

use std::path::{Component, Path, PathBuf};

use serde_json::{Map, Value};

use crate::catalog::{Agent, Catalog, FILE_CLASSES, LEAD_ONLY, SHELL_CLASSES, denied_tools};
use crate::tools::{Tool, call};
use crate::{Project, ProjectError, knowledge};

/// Names of tools that change files, in any harness.
const EDITING: &[&str] = &[
    "write",
    "edit",
    "multiedit",
    "notebookedit",
    "apply_patch",
    "patch",
    "write_file",
    "replace",
    "delete",
    "edit_file",
    "create_file",
    "delete_file",
    "search_replace",
    "str_replace_based_edit_tool",
];
/// Names of tools that run commands.
const COMMANDS: &[&str] = &["bash", "shell", "run_shell_command", "exec_command", "local_shell", "execute"];
/// Names of tools that give a file's content.
const READING: &[&str] = &["read", "read_file", "view"];
/// Parameters that name a file.
const PATH_KEYS: &[&str] =
    &["path", "file_path", "filePath", "absolute_path", "notebook_path", "target_file", "filename"];
/// Parameters that may hold a patch.
const PATCH_KEYS: &[&str] = &["command", "input", "patch", "patchText"];
/// What stands before a file's name in a patch.
const PATCH_MARKS: [&str; 4] = ["*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "];
/// What other harnesses put before the names of our tools.
const PREFIXES: &[&str] = &["mcp__nexus__", "mcp_nexus_", "MCP:", "nexus_", "nexus."];

/// What kind of tool a name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Changes files.
    Edit,
    /// Runs commands.
    Command,
    /// Gives a file's content.
    Read,
    /// One of the eleven.
    Project(Tool),
    /// Anything else.
    Other,
}

/// Tells what kind of tool a name is; `input` says which op when it is our one tool for all eleven.
pub fn classify(tool: &str, input: &Value) -> Class {
    let bare = PREFIXES.iter().find_map(|prefix| tool.strip_prefix(prefix)).unwrap_or(tool);
    let named = if bare == "project" { input["op"].as_str().unwrap_or_default() } else { bare };
    if let Some(tool) = Tool::named(named) {
        return Class::Project(tool);
    }
    let name = bare.to_ascii_lowercase();
    let known = |names: &[&str]| names.contains(&name.as_str());
    match () {
        () if known(EDITING) => Class::Edit,
        () if known(COMMANDS) => Class::Command,
        () if known(READING) => Class::Read,
        () => Class::Other,
    }
}

/// Who calls.
#[derive(Debug, Clone, Copy)]
pub enum Caller<'a> {
    /// The one who talks to the person.
    Lead,
    /// Somebody Lead sent, perhaps in a role.
    Subagent { role: Option<&'a Agent> },
}

impl Caller<'_> {
    /// Returns the role that may not use a tool of any of these kinds.
    fn denies(self, catalog: &Catalog, classes: &[&str]) -> Option<String> {
        let Self::Subagent { role: Some(role) } = self else { return None };
        let blocks = |id: &String| {
            let capability = catalog.vocabulary.capabilities.iter().find(|one| one.id == *id);
            capability.is_some_and(|one| {
                one.blocks_semantic_classes.iter().any(|known| classes.contains(&known.as_str()))
            })
        };
        role.capabilities.iter().any(blocks).then(|| role.id.clone())
    }
}

/// Returns whether a role may not use tools of a kind at all, whatever they are called with.
pub fn denies(catalog: &Catalog, role: &Agent, class: Class) -> bool {
    let classes: &[&str] = match class {
        Class::Edit => &FILE_CLASSES,
        Class::Command => &SHELL_CLASSES,
        Class::Read | Class::Project(_) | Class::Other => return false,
    };
    Caller::Subagent { role: Some(role) }.denies(catalog, classes).is_some()
}

/// One call that is about to happen.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    pub project: &'a Project,
    /// The catalog in force.
    pub catalog: &'a Catalog,
    pub caller: Caller<'a>,
    pub tool: &'a str,
    /// Its parameters.
    pub input: &'a Value,
    /// Where relative paths begin; the project's root when absent.
    pub folder: Option<&'a Path>,
    /// Folders that are never the project's, even below its root.
    pub exempt: &'a [PathBuf],
}

/// Returns why a call may not happen and what to do instead, or nothing.
pub fn refusal(ask: &Ask<'_>) -> Option<String> {
    match classify(ask.tool, ask.input) {
        Class::Project(tool) => project_refusal(ask, tool),
        Class::Edit => edit_refusal(ask),
        Class::Command => ask.caller.denies(ask.catalog, &SHELL_CLASSES).map(|role| {
            format!(
                "The role {role} may not run commands. Say in your report which command should be run and why."
            )
        }),
        Class::Read | Class::Other => None,
    }
}

/// What the project is for a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShellView {
    /// It may be changed.
    Writable,
    /// It may be read only.
    ReadOnly {
        /// Why, and what to do about it.
        reason: String,
    },
}

/// Tells what the project is for the commands of a caller right now.
pub fn shell(project: &Project, catalog: &Catalog, caller: Caller<'_>) -> ShellView {
    if let Some(role) = caller.denies(catalog, &FILE_CLASSES) {
        return ShellView::ReadOnly { reason: no_edits(&role) };
    }
    match uncovered(project, caller) {
        Some(reason) => ShellView::ReadOnly { reason },
        None => ShellView::Writable,
    }
}

/// Says that a call is refused because what decides about it cannot be read.
pub(crate) fn unreadable(error: &ProjectError) -> String {
    format!(
        "{}. Without it there is no telling whether this call is allowed, so it is refused. Do not try again: report \
         this, so that the person repairs the file or moves it away.",
        error.message()
    )
}

/// Returns why the project's files may not be changed now: there are no tasks, or nobody can tell.
fn uncovered(project: &Project, caller: Caller<'_>) -> Option<String> {
    match call(project, Tool::TaskList, &Map::new()) {
        Ok(tasks) => (tasks["exists"] == false).then(|| unplanned(project.root(), caller)),
        Err(error) => Some(unreadable(&error)),
    }
}

fn project_refusal(ask: &Ask<'_>, tool: Tool) -> Option<String> {
    let Caller::Subagent { role } = ask.caller else { return None };
    let denied = match role {
        Some(role) => denied_tools(&role.capabilities, &ask.catalog.vocabulary.capabilities),
        None => LEAD_ONLY.to_vec(),
    };
    if !denied.contains(&tool) {
        return None;
    }
    let who = role.map_or_else(|| "A worker".to_owned(), |role| format!("The role {}", role.id));
    let instead = match tool {
        Tool::TaskAdd => "Describe the task in your report with title, context and acceptance; Lead adds it.",
        Tool::TaskUpdate | Tool::TaskClose => {
            "Say in your report what is done and how you checked it; Lead records it."
        }
        Tool::PlanStart | Tool::PlanUpdate | Tool::PlanDecide => {
            "Give your view in your report; Lead decides and records it."
        }
        Tool::PlanStatus | Tool::TaskList | Tool::HistorySearch | Tool::Context | Tool::ArtifactWrite => {
            "Report to Lead."
        }
    };
    Some(format!("{who} may not call {}. {instead}", tool.as_str()))
}

fn edit_refusal(ask: &Ask<'_>) -> Option<String> {
    if let Some(role) = ask.caller.denies(ask.catalog, &FILE_CLASSES) {
        return Some(no_edits(&role));
    }
    let root = ask.project.root();
    let paths = paths(ask.input);
    let places: Vec<PathBuf> = paths.iter().map(|path| place(ask.folder.unwrap_or(root), path)).collect();
    // An edit whose file cannot be told counts as one in the project.
    let covered: Vec<&PathBuf> = places
        .iter()
        .filter(|path| path.starts_with(root) && !ask.exempt.iter().any(|own| path.starts_with(own)))
        .collect();
    if covered.is_empty() && !places.is_empty() {
        return None;
    }
    let layer = ask.project.folder();
    if let Some(path) = covered
        .iter()
        .find(|path| path.starts_with(layer.join("state")) || **path == &layer.join("history.json"))
    {
        let shown = path.strip_prefix(root).unwrap_or(path).display();
        return Some(format!(
            "{shown} is managed by the project tools. Change plan and tasks with plan_*, task_* and artifact_write \
             instead."
        ));
    }
    let is_note =
        |path: &&PathBuf| knowledge::FOLDERS.iter().any(|folder| path.starts_with(layer.join(folder)));
    if !covered.is_empty() && covered.iter().all(is_note) {
        return None;
    }
    uncovered(ask.project, ask.caller)
}

fn no_edits(role: &str) -> String {
    format!(
        "The role {role} may not change files. Say in your report exactly what should change and where; an engineer \
         or writer does it."
    )
}

fn unplanned(root: &Path, caller: Caller<'_>) -> String {
    let what = match caller {
        Caller::Lead => {
            "First add the task with task_add (title, context, acceptance) or plan with the person ([plan]), then edit."
        }
        Caller::Subagent { .. } => {
            "Report what you want to change to Lead; it adds the task with task_add and sends you again."
        }
    };
    format!("No task covers changes in {}, so it is read-only. {what}", root.display())
}

/// Returns the files a call names.
pub(crate) fn paths(input: &Value) -> Vec<String> {
    let mut found: Vec<String> =
        PATH_KEYS.iter().filter_map(|key| input[*key].as_str()).map(str::to_owned).collect();
    for text in PATCH_KEYS.iter().filter_map(|key| input[*key].as_str()) {
        let named =
            text.lines().filter_map(|line| PATCH_MARKS.iter().find_map(|mark| line.strip_prefix(mark)));
        found.extend(named.map(|path| path.trim().to_owned()));
    }
    found
}

/// Returns where a path leads, links included as far as it exists: a link must not carry an edit past the gate.
pub(crate) fn place(folder: &Path, path: &str) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in folder.join(path).components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            Component::Normal(_) | Component::RootDir | Component::Prefix(_) => plain.push(part),
        }
    }
    let found = plain.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    match found {
        Some((above, real)) => match plain.strip_prefix(above) {
            Ok(rest) if rest.as_os_str().is_empty() => real,
            Ok(rest) => real.join(rest),
            Err(_) => plain,
        },
        None => plain,
    }
}

#[cfg(test)]
mod tests {
    use nexus_base::file::Durability;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_link_does_not_carry_an_edit_past_the_gate() {
        let folder = tempfile::tempdir().unwrap();
        let (root, outside) = (folder.path().join("project"), folder.path().join("outside"));
        for path in [root.join("src"), outside.clone()] {
            std::fs::create_dir_all(path).unwrap();
        }
        std::os::unix::fs::symlink(root.join("src"), outside.join("in")).unwrap();
        std::os::unix::fs::symlink(&outside, root.join("out")).unwrap();
        let (project, catalog) = (Project::open(&root).unwrap(), Catalog::embedded().unwrap());
        let exempt = [place(Path::new("/"), root.join("own").to_str().unwrap())];
        let refused = |path: &Path| {
            let input = json!({ "path": path });
            let ask = Ask {
                project: &project,
                catalog: &catalog,
                caller: Caller::Lead,
                tool: "write",
                input: &input,
                folder: None,
                exempt: &exempt,
            };
            refusal(&ask).is_some()
        };
        assert!(refused(&outside.join("in/new.rs")));
        assert!(refused(&root.join("new/er/x")));
        assert!(!refused(&root.join("out/x")));
        assert!(!refused(&root.join("own/notes.md")));
        assert!(refused(&root.join("own/../x")));
    }

    #[test]
    fn commands_see_what_the_caller_may_change() {
        let folder = tempfile::tempdir().unwrap();
        let (project, catalog) = (Project::open(folder.path()).unwrap(), Catalog::embedded().unwrap());
        let view = |role: Option<&str>| {
            let role = role.map(|name| catalog.agent(name).unwrap());
            shell(&project, &catalog, Caller::Subagent { role })
        };
        assert!(matches!(view(None), ShellView::ReadOnly { .. }));
        let task = json!({ "title": "t", "context": "c" });
        crate::call(&project, Tool::TaskAdd, task.as_object().unwrap()).unwrap();
        assert_eq!(view(None), ShellView::Writable);
        assert_eq!(view(Some("engineer")), ShellView::Writable);
        assert!(matches!(view(Some("tester")), ShellView::ReadOnly { reason } if reason.contains("tester")));
        crate::document::write_text(&project.tasks(), "{oops", Durability::Crash).unwrap();
        assert!(
            matches!(view(None), ShellView::ReadOnly { reason } if reason.contains("tasks.json is damaged"))
        );
    }
}
