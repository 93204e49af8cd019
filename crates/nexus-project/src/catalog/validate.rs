//! Whether a catalog is sound: ids and lengths as the schemas want them, and every word that is used
//! also defined.
//! What a role may not call: its own denials, what a harness adds, and what Lead keeps to itself.

use super::{Agent, Capability, Catalog, TagKind, macros};
use crate::tools::Tool;

/// The roles every harness must register.
const ROLES: [&str; 9] = [
    "architect",
    "designer",
    "postdoc",
    "strategist",
    "engineer",
    "writer",
    "researcher",
    "tester",
    "reviewer",
];
/// Least letters of an advice.
const MIN_GUIDANCE_LEN: usize = 40;

/// What is wrong with a catalog.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    /// A file is not of its form.
    #[error("a catalog file has an invalid format: {0}")]
    Unreadable(String),
    /// An entry breaks a rule.
    #[error("{entry}: {what}")]
    Entry {
        entry: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A request in a skill's text is not known or not complete.
    #[error("a macro in a skill's text: {0}")]
    Macro(String),
}

/// Checks a catalog.
///
/// # Errors
/// The first thing found wrong.
pub fn validate(catalog: &Catalog) -> Result<(), CatalogError> {
    let words = &catalog.vocabulary;
    let rule = |holds: bool, entry: &str, what: &'static str| {
        if holds { Ok(()) } else { Err(CatalogError::Entry { entry: entry.to_owned(), what }) }
    };
    for role in ROLES {
        rule(catalog.agent(role).is_some(), role, "the role is missing")?;
    }
    unique(catalog.agents.iter().map(|agent| agent.id.as_str()))?;
    unique(catalog.skills.iter().map(|skill| skill.id.as_str()))?;
    unique(words.capabilities.iter().map(|capability| capability.id.as_str()))?;
    unique(words.tags.iter().map(|tag| tag.trigger.as_str()))?;
    for agent in &catalog.agents {
        rule(is_id(&agent.id), &agent.id, "the id has an invalid format")?;
        rule(!agent.body.trim().is_empty(), &agent.id, "there are no instructions")?;
        let known = |id: &String| words.capabilities.iter().any(|capability| capability.id == *id);
        rule(agent.capabilities.iter().all(known), &agent.id, "a capability is not defined")?;
    }
    for capability in &words.capabilities {
        rule(
            is_id(&capability.id) && is_id(&capability.intent),
            &capability.id,
            "the id has an invalid format",
        )?;
        let classes = &capability.blocks_semantic_classes;
        rule(
            !classes.is_empty() && classes.iter().all(|class| is_id(class)),
            &capability.id,
            "it does not block anything",
        )?;
        let long = capability.prose_guidance.chars().count() >= MIN_GUIDANCE_LEN;
        rule(long, &capability.id, "the guidance is too short")?;
    }
    for skill in &catalog.skills {
        rule(is_id(&skill.id), &skill.id, "the id has an invalid format")?;
        rule(!skill.body.trim().is_empty(), &skill.id, "there are no instructions")?;
        rule(skill.manual_only || !skill.triggers.is_empty(), &skill.id, "it has no trigger")?;
        let known = |id: &String| words.tags.iter().any(|tag| tag.id == *id);
        rule(skill.triggers.iter().all(known), &skill.id, "a trigger is not defined")?;
        let characters = skill.summary.chars().count();
        rule(
            characters == 0 || (10..=120).contains(&characters),
            &skill.id,
            "the summary is too short or too long",
        )?;
        macros::check(&skill.body, &words.invocations)?;
    }
    for tag in &words.tags {
        let complete = match tag.kind {
            TagKind::Skill => tag.skill.as_deref().is_some_and(|skill| catalog.skill(skill).is_some()),
            TagKind::InlineAction => tag.handler.as_deref().is_some_and(|handler| !handler.is_empty()),
        };
        rule(complete, &tag.id, "the tag has no target")?;
        let bracketed = tag.trigger.starts_with('[') && tag.trigger.ends_with(']');
        rule(bracketed, &tag.id, "the trigger has no brackets")?;
        let guided = tag.prose_guidance.as_ref().is_none_or(|text| text.chars().count() >= MIN_GUIDANCE_LEN);
        rule(guided, &tag.id, "the guidance is too short")?;
    }
    let pattern = regex::Regex::new(&words.memory_policy.file_name_pattern);
    rule(pattern.is_ok(), "memory policy", "the name pattern is not a valid regular expression")
}

fn unique<'id>(ids: impl Iterator<Item = &'id str>) -> Result<(), CatalogError> {
    let mut seen = std::collections::HashSet::new();
    for id in ids {
        if !seen.insert(id) {
            return Err(CatalogError::Entry { entry: id.to_owned(), what: "it is defined twice" });
        }
    }
    Ok(())
}

/// Returns whether a text has the form of an id.
pub(super) fn is_id(text: &str) -> bool {
    text.starts_with(|character: char| character.is_ascii_lowercase())
        && text.chars().all(|character| {
            character.is_ascii_lowercase() || character.is_ascii_digit() || matches!(character, '_' | '-')
        })
}

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
