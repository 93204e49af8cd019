//! What a role may not call: its own denials, what a harness adds, and what Lead keeps to itself.

use super::{Agent, Capability};
use crate::tools::Tool;

/// Tools that a role never gets. The contract's denials leave plans and closing open to everybody,
/// although starting and ending work is Lead's.
pub const LEAD_ONLY: [Tool; 4] = [Tool::PlanStart, Tool::PlanUpdate, Tool::PlanDecide, Tool::TaskClose];

/// Kinds of tools that change files; each of ours that edits is all of them at once.
pub(crate) const FILE_CLASSES: [&str; 5] =
    ["file_creation", "file_modification", "file_deletion", "partial_file_edit", "structured_document_edit"];
/// Kinds of tools that run commands.
pub(crate) const SHELL_CLASSES: [&str; 3] =
    ["shell_command_exec", "subprocess_spawn", "interactive_shell_session"];

/// Returns a role's denials with those added: never fewer than the role's own.
pub fn effective(agent: &Agent, additions: &[String]) -> Vec<String> {
    let mut all = agent.capabilities.clone();
    for added in additions {
        if !all.contains(added) {
            all.push(added.clone());
        }
    }
    all
}

/// Returns the tools of this layer that the denials take away from a role, Lead's own included.
pub fn denied_tools(denials: &[String], known: &[Capability]) -> Vec<Tool> {
    let classes: Vec<&str> = known
        .iter()
        .filter(|capability| denials.contains(&capability.id))
        .flat_map(|capability| capability.blocks_semantic_classes.iter().map(String::as_str))
        .collect();
    let denied = |tool: &Tool| {
        LEAD_ONLY.contains(tool) || classes_of(*tool).iter().any(|class| classes.contains(class))
    };
    Tool::ALL.into_iter().filter(denied).collect()
}

/// Returns which kinds of tools one of ours is. Reading is none of them.
fn classes_of(tool: Tool) -> &'static [&'static str] {
    match tool {
        Tool::TaskAdd => &["nexus_task_creation"],
        Tool::TaskUpdate => &["nexus_task_state_transition", "nexus_task_metadata_modification"],
        Tool::TaskClose => &["nexus_task_state_transition"],
        // An artifact is how a role hands its work over; it lies outside the person's files.
        Tool::ArtifactWrite
        | Tool::PlanStart
        | Tool::PlanStatus
        | Tool::PlanUpdate
        | Tool::PlanDecide
        | Tool::TaskList
        | Tool::HistorySearch
        | Tool::Context => &[],
    }
}
