//! Documents of a harness that skills refer to, and how the eleven tools are called there. Ours lie in
//! `harness-content/` at the top of the repository, where others look for them.

use crate::harness::HarnessId;

const OURS: [(&str, &str); 4] = [
    ("nexus_hook_mapping", include_str!("../../../../harness-content/nexus-hook-mapping.md")),
    ("resume_invocation", include_str!("../../../../harness-content/resume_invocation.md")),
    ("instruction_file", include_str!("../../../../harness-content/instruction_file.md")),
    ("slash_command_display", include_str!("../../../../harness-content/slash_command_display.md")),
];

/// Returns the document a key stands for, in a harness that has it.
pub fn document(harness: &HarnessId, key: &str) -> Option<&'static str> {
    if !is_ours(harness) {
        return None;
    }
    OURS.iter().find(|(name, _)| *name == key).map(|(_, text)| *text)
}

/// Returns how the tools that skills and roles name are called.
pub fn tool_names(harness: &HarnessId) -> &'static str {
    if is_ours(harness) {
        "Tools: plan_start, plan_status, plan_update, plan_decide, task_add, task_list, task_update, task_close, \
         history_search, context and artifact_write are ops of the tool `project`: {\"op\": \"task_list\", \"args\": {}}."
    } else {
        "Tools: plan_start, plan_status, plan_update, plan_decide, task_add, task_list, task_update, task_close, \
         history_search, context and artifact_write are tools of the MCP server `nexus`."
    }
}

pub(super) fn is_ours(harness: &HarnessId) -> bool {
    harness.as_str() == HarnessId::OURS
}
