//! Skills as an agent reads them: the body with its requests put into the words of the harness, and the
//! documents of the harness that go with it.
//! Documents of a harness that skills refer to, and how the eleven tools are called there. Ours lie in
//! `harness-content/` at the top of the repository, where others look for them.

mod expand;

use crate::catalog::{Catalog, CatalogError};
use crate::harness::HarnessId;

/// A skill, ready to be followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instructions {
    pub text: String,
    /// Documents it asks for that this harness does not have.
    pub missing: Vec<String>,
}

/// Puts a skill into the words of a harness.
///
/// # Errors
/// There is no such skill, or its text asks for something unknown.
pub fn instructions(
    catalog: &Catalog,
    harness: &HarnessId,
    skill: &str,
    mode: Option<&str>,
) -> Result<Instructions, CatalogError> {
    let skill = catalog
        .skill(skill)
        .ok_or_else(|| CatalogError::Entry { entry: skill.to_owned(), what: "there is no such skill" })?;
    let mode = mode.map(|mode| format!(" in mode {mode}")).unwrap_or_default();
    let body = expand::expand(catalog, harness, &skill.body)?;
    let mut text = format!(
        "The person started the skill {}{mode}. Follow it until it ends.\n\n{}\n",
        skill.id,
        body.trim_end()
    );
    let mut missing = Vec::new();
    for key in &skill.harness_docs_refs {
        match document(harness, key) {
            Some(document) => text.push_str(&format!("\n{}\n", document.trim_end())),
            None => missing.push(key.clone()),
        }
    }
    text.push_str(&format!("\n{}\n", tool_names(harness)));
    Ok(Instructions { text, missing })
}

const OURS: [(&str, &str); 4] = [
    ("nexus_hook_mapping", include_str!("../../../harness-content/nexus-hook-mapping.md")),
    ("resume_invocation", include_str!("../../../harness-content/resume_invocation.md")),
    ("instruction_file", include_str!("../../../harness-content/instruction_file.md")),
    ("slash_command_display", include_str!("../../../harness-content/slash_command_display.md")),
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

fn is_ours(harness: &HarnessId) -> bool {
    harness.as_str() == HarnessId::OURS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(skill: &str, mode: Option<&str>) -> Instructions {
        instructions(&Catalog::embedded().unwrap(), &HarnessId::ours(), skill, mode).unwrap()
    }

    #[test]
    fn every_skill_is_free_of_requests_and_has_its_documents() {
        for skill in &Catalog::embedded().unwrap().skills {
            let ready = read(&skill.id, None);
            assert!(!ready.text.contains("{{") && !ready.text.contains("<<"), "{}", ready.text);
            assert_eq!(ready.missing, Vec::<String>::new(), "{}", skill.id);
            assert!(ready.text.contains("`project`"), "{}", ready.text);
        }
        assert!(
            read("nx-plan", Some("auto"))
                .text
                .starts_with("The person started the skill nx-plan in mode auto.")
        );
        assert!(
            read("nx-run", None).text.contains("# How lifecycle events map"),
            "{}",
            read("nx-run", None).text
        );
    }

    #[test]
    fn requests_become_words_of_this_harness() {
        let plan = read("nx-plan", None).text;
        assert!(plan.contains("`agent_send` with op=dispatch, agent=researcher"), "{plan}");
        assert!(plan.contains("Find out what exists about the topic."), "{plan}");
        let setup = read("nx-setup", None).text;
        assert!(setup.contains("1. Me: in all projects"), "{setup}");
        assert!(setup.contains("ask the person to type /nx-init"), "{setup}");
    }

    #[test]
    fn documents_another_harness_lacks_are_named_and_left_out() {
        let other = HarnessId::new("codex").unwrap();
        let ready = instructions(&Catalog::embedded().unwrap(), &other, "nx-run", None).unwrap();
        assert_eq!(ready.missing, ["resume_invocation", "nexus_hook_mapping"]);
        assert!(!ready.text.contains("agent_send"), "{}", ready.text);
        instructions(&Catalog::embedded().unwrap(), &other, "nx-none", None).unwrap_err();
    }

    #[test]
    fn an_unknown_request_is_an_error_and_never_passed_on() {
        let mut catalog = Catalog::embedded().unwrap();
        catalog.skills[0].body = "{{teleport to=here}}".to_owned();
        let id = catalog.skills[0].id.clone();
        instructions(&catalog, &HarnessId::ours(), &id, None).unwrap_err();
    }
}
