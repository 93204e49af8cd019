//! What a person says: tags are carried out, a skill is put before the agent, and where plan and tasks stand is told.

use serde_json::{Map, Value, json};

use super::{Done, Payload, Place, Reply, facts};
use crate::harness::session;
use crate::knowledge::Knowledge;
use crate::memory_policy;
use crate::tags::{self, Action, Routing};
use crate::tools::{Tool, call};
use crate::{ProjectError, harness, skills};

/// How the message of an action begins that came to nothing.
const NOT_DONE: &str = "not done: ";

pub(super) fn user_message(place: &Place<'_>, payload: &Payload<'_>) -> Result<Reply, ProjectError> {
    let message = payload.needed("message")?;
    let conversation = payload.conversation();
    // Words of an agent are told like a person's, but never carried out.
    let routing = match payload.value("tags") {
        Value::Bool(false) => Routing::default(),
        _ => tags::route(place.catalog, message),
    };
    let mut reply = Reply::default();
    let mut text = String::new();
    for action in &routing.actions {
        let done = act(place, action);
        let (what, words) = match done.message.strip_prefix(NOT_DONE).filter(|_| !done.ok) {
            Some(why) => ("Could not be carried out for the person", why),
            None => ("Carried out for the person", done.message.as_str()),
        };
        text.push_str(&format!("{what}: {}. Tell them in a few words.\n", words.trim_end_matches('.')));
        reply.actions.push(done);
    }
    if let Some(activation) = &routing.skill {
        let mode = activation.mode.as_deref();
        match skills::instructions(place.catalog, place.harness, &activation.skill, mode) {
            Ok(skill) => {
                let chosen = Some((activation.skill.as_str(), mode));
                let followed = session::follow(place.project, place.harness, conversation, chosen);
                facts::noted(followed, &mut reply.warnings);
                reply
                    .warnings
                    .extend(skill.missing.iter().map(|key| format!("this harness has no document {key}")));
                text.push_str(&skill.text);
                text.push_str(&replaced(&routing, &activation.typed));
            }
            Err(error) => {
                reply.warnings.push(format!("the skill {} cannot be used: {error}", activation.skill))
            }
        }
    }
    let active = facts::noted(harness::current(place.project, place.harness), &mut reply.warnings)
        .flatten()
        .and_then(|session| session.skills.get(conversation).map(|active| active.skill.clone()));
    if routing.skill.is_none()
        && let Some(active) = &active
    {
        text.push_str(&format!("Active skill: {active}; continue with it.\n"));
    }
    let status = facts::status(place, &mut reply.warnings);
    text.push_str(&status);
    if !status.is_empty() || routing.skill.is_some() {
        let counts: Vec<String> = Knowledge::of(place.project)
            .counts()
            .iter()
            .map(|(folder, count)| format!("{count} in {folder}"))
            .collect();
        text.push_str(&format!("Notes: {}.\n", counts.join(", ")));
    }
    reply.context = (!text.is_empty()).then_some(text);
    reply.active_skill = active;
    Ok(reply)
}

/// Tells of skills that were started in the same message and replaced, so that nothing typed is lost without a word.
fn replaced(routing: &Routing, by: &str) -> String {
    let mut typed: Vec<&str> = routing.replaced.iter().map(|one| one.typed.as_str()).collect();
    typed.dedup();
    typed.retain(|one| *one != by);
    if typed.is_empty() {
        return String::new();
    }
    format!(
        "The message also contains {}, which {by} replaced: only one skill is followed at a time. Tell the person \
         so, and that they can type it again.\n",
        typed.join(", ")
    )
}

fn act(place: &Place<'_>, action: &Action) -> Done {
    let result = match action.handler.as_str() {
        "nx_plan_decide" => decide(place, &action.input),
        "memory_store" => remember(place, &action.input),
        "memory_gc" => collect(place, &action.input),
        "rule_store" => rule(place, action),
        other => Err(ProjectError::Refused(format!("{other} is not supported here"))),
    };
    let (ok, message) = match result {
        Ok(message) => (true, message),
        Err(error) => (false, format!("{NOT_DONE}{}", error.message())),
    };
    Done { handler: action.handler.clone(), ok, message }
}

/// Records a decision: about the issue that `#N` names, else the first pending one.
fn decide(place: &Place<'_>, input: &str) -> Result<String, ProjectError> {
    let plan = facts::look(place, Tool::PlanStatus)?;
    if plan["active"] != true {
        return Err(ProjectError::Refused(
            "[d] records a decision of an open plan, and none is open; start with [plan]".to_owned(),
        ));
    }
    let (named, words) = match input.strip_prefix('#') {
        Some(rest) => {
            let digits = rest.chars().take_while(char::is_ascii_digit).count();
            let (number, words) = rest.split_at_checked(digits).unwrap_or((rest, ""));
            (
                Some(number.parse::<u64>().map_err(|_| {
                    ProjectError::Parameter("# must be followed by an issue number".to_owned())
                })?),
                words.trim(),
            )
        }
        None => (None, input),
    };
    if words.is_empty() {
        return Err(ProjectError::Parameter("[d] must be followed by the decision".to_owned()));
    }
    let mut issues = plan["issues"].as_array().into_iter().flatten();
    let issue = match named {
        Some(id) => id,
        None => issues
            .find(|issue| issue["status"] != "decided")
            .and_then(|issue| issue["id"].as_u64())
            .ok_or_else(|| {
                ProjectError::Refused(
                    "every issue is already decided; name one with #N to decide it again".to_owned(),
                )
            })?,
    };
    let parameters =
        Map::from_iter([("issue_id".to_owned(), json!(issue)), ("decision".to_owned(), json!(words))]);
    let done = call(place.project, Tool::PlanDecide, &parameters)?;
    let left = done["remaining"].as_array().map_or(0, Vec::len);
    let after =
        if left == 0 { "every issue is decided".to_owned() } else { format!("{left} issues are left") };
    Ok(format!("decided issue {issue} ({}): {words}; {after}", done["issue"].as_str().unwrap_or_default()))
}

fn remember(place: &Place<'_>, input: &str) -> Result<String, ProjectError> {
    let kept = memory_policy::keep(place.project, &place.catalog.vocabulary.memory_policy, input)?;
    Ok(told(&kept, "kept"))
}

fn rule(place: &Place<'_>, action: &Action) -> Result<String, ProjectError> {
    let kept = memory_policy::keep_rule(place.project, action.variant.as_deref(), &action.input)?;
    Ok(told(&kept, "the rule is stored"))
}

fn told(kept: &memory_policy::Kept, what: &str) -> String {
    let path = kept.path.display();
    match (kept.known, kept.merged) {
        (true, _) => format!("{path} already says so"),
        (false, true) => format!("{what}: added to {path}"),
        (false, false) => format!("{what} in the new file {path}"),
    }
}

/// Without names tells how memory stands; with names removes those files.
fn collect(place: &Place<'_>, input: &str) -> Result<String, ProjectError> {
    let names: Vec<String> =
        input.split([' ', ',', '\n', '\t']).filter(|name| !name.is_empty()).map(str::to_owned).collect();
    if names.is_empty() {
        let standings = memory_policy::standings(place.project)?;
        if standings.is_empty() {
            return Ok("there are no memory files".to_owned());
        }
        let lines: Vec<String> = standings.iter().map(line).collect();
        return Ok(format!(
            "nothing is removed automatically; how memory files are used:\n{}\nTo remove some: [m:gc] NAME.md …, \
             which makes one commit",
            lines.join("\n")
        ));
    }
    let removed = memory_policy::remove(place.project, place.harness, &names)?;
    let files: Vec<String> = removed.files.iter().map(|file| file.display().to_string()).collect();
    Ok(format!("removed {}; to restore them: {}", files.join(", "), removed.recovery))
}

fn line(one: &memory_policy::Standing) -> String {
    let read = match (&one.last_read, one.days, one.cycles) {
        (Some(_), Some(days), Some(cycles)) => {
            format!("read {} times, last {days} days and {cycles} cycles ago", one.reads)
        }
        _ => "never read as far as is known".to_owned(),
    };
    format!("- {}: {read}", one.name)
}
