//! Puts the requests of a skill's text into words: what to call where the harness has something for it, and
//! what to do instead where it has not.

use super::is_ours;
use crate::catalog::{Catalog, CatalogError, macros};
use crate::harness::HarnessId;

/// A role that skill texts of others start, and the one that stands for it here.
const EXPLORE: (&str, &str) = ("explore", "researcher");

/// Replaces every request of a text.
pub(super) fn expand(catalog: &Catalog, harness: &HarnessId, text: &str) -> Result<String, CatalogError> {
    macros::check(text, &catalog.vocabulary.invocations)?;
    let mut result = String::with_capacity(text.len());
    let mut done = 0;
    for request in macros::requests(text)? {
        result.push_str(text.get(done..request.place.start).unwrap_or_default());
        result.push_str(&words(catalog, harness, &request));
        done = request.place.end;
    }
    result.push_str(text.get(done..).unwrap_or_default());
    Ok(result)
}

fn words(catalog: &Catalog, harness: &HarnessId, request: &macros::Request) -> String {
    let value = |key: &str| request.value(key).unwrap_or_default();
    let ours = is_ours(harness);
    match request.name.as_str() {
        "skill_activation" => activation(catalog, ours, value("skill"), request.value("mode")),
        "subagent_spawn" => {
            let role = value("target_role");
            let role = if role == EXPLORE.0 { EXPLORE.1 } else { role };
            let how = if ours {
                format!("Call `agent_send` with op=dispatch, agent={role} and this text:")
            } else {
                format!("Start a subagent in the role {role} with this prompt:")
            };
            format!("   {how}\n{}", quoted(value("prompt")))
        }
        "task_register" => {
            format!("   (Progress is shown from task_update: {}, {}.)", value("label"), value("state"))
        }
        "user_question" => question(value("question"), value("options")),
        // Reads are noted where they happen.
        "memory_read_observation" => String::new(),
        // Checked above; a primitive that is added later must be worded here.
        other => format!("({other})"),
    }
}

fn activation(catalog: &Catalog, ours: bool, skill: &str, mode: Option<&str>) -> String {
    if catalog.skill(skill).is_some_and(|skill| skill.manual_only) {
        return format!("   (This one only the person can start: ask the person to type /{skill}.)");
    }
    if ours {
        let mode = mode.map(|mode| format!(", \"mode\": \"{mode}\"")).unwrap_or_default();
        return format!(
            "   Call `project` with op=skill, args={{\"skill\": \"{skill}\"{mode}}} and follow what it returns."
        );
    }
    let tag = catalog.vocabulary.tags.iter().find(|tag| tag.skill.as_deref() == Some(skill));
    let trigger = tag.map_or_else(String::new, |tag| match mode {
        Some(mode) => format!("[{}:{mode}]", tag.id),
        None => tag.trigger.clone(),
    });
    format!("   Continue as for {trigger}.")
}

fn quoted(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("   > {line}")).collect();
    lines.join("\n")
}

/// A question in prose, its options numbered; without options the answer is free.
fn question(question: &str, options: &str) -> String {
    let mut text = format!("   Ask the person: {question}");
    let inside = options.trim().trim_start_matches('[').trim_end_matches(']');
    let listed = inside.split('}').filter_map(|option| option.split_once('{')).map(|(_, fields)| fields);
    for (fields, number) in listed.zip(1..) {
        let label = field(fields, "label").unwrap_or_default();
        let more = field(fields, "description").map(|text| format!(": {text}")).unwrap_or_default();
        text.push_str(&format!("\n   {number}. {label}{more}"));
    }
    text
}

/// Returns a field of `label: "x", description: "y"`.
fn field<'a>(fields: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = fields.split_once(&format!("{name}:"))?;
    let rest = rest.trim_start();
    match rest.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"').map(|(value, _)| value),
        None => rest.split(',').next().map(str::trim),
    }
}
