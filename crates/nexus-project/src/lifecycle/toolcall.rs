//! Around a tool call: the gates before it, and what is written down after it.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{LEAD, Payload, Place, Reply, facts};
use crate::catalog::Agent;
use crate::gates::{self, Ask, Caller, Class};
use crate::harness::edits::{self, Line, Went};
use crate::harness::session;
use crate::tools::Tool;
use crate::{ProjectError, harness};

/// How often something finished may be opened again in one cycle before the person is asked.
const MAX_REOPENS: u64 = 3;

/// Decides whether a call may happen.
pub(super) fn before(place: &Place<'_>, payload: &Payload<'_>) -> Result<Reply, ProjectError> {
    let tool = payload.needed("tool")?;
    let input = payload.value("input");
    match gates::classify(tool, input) {
        Class::Edit | Class::Command | Class::Project(_) => {}
        Class::Read | Class::Other => return Ok(Reply::default()),
    }
    let Some(reason) = refusal(place, payload, tool, input) else { return Ok(Reply::default()) };
    let paths = gates::paths(input);
    let line = Line {
        agent_id: payload.text("agent_id").unwrap_or(LEAD),
        tool,
        file: paths.first().map(String::as_str),
        went: Went::Blocked,
        error: Some(&reason),
    };
    let logged =
        place.project.start(place.harness).and_then(|_| edits::log(place.project, &place.log(), &line));
    let mut reply = Reply::block(reason.clone());
    // A log that cannot be written must not open the gate.
    reply.warnings.extend(logged.err().map(|error| error.message()));
    Ok(reply)
}

/// Returns why a call may not happen. A gate that cannot read what it decides by is shut.
fn refusal(place: &Place<'_>, payload: &Payload<'_>, tool: &str, input: &Value) -> Option<String> {
    let exempt: Vec<PathBuf> =
        payload.texts("exempt").iter().map(|path| gates::place(Path::new("/"), path)).collect();
    let folder = payload.text("folder").map(Path::new);
    let role = match role(place, payload) {
        Ok(role) => role,
        Err(error) => return Some(gates::unreadable(&error)),
    };
    let caller = caller(payload, role);
    let ask =
        Ask { project: place.project, catalog: place.catalog, caller, tool, input, folder, exempt: &exempt };
    gates::refusal(&ask).or_else(|| {
        reopen_refusal(place, tool, input).unwrap_or_else(|error| Some(gates::unreadable(&error)))
    })
}

/// Writes down what a call did.
pub(super) fn after(place: &Place<'_>, payload: &Payload<'_>) -> Result<Reply, ProjectError> {
    let tool = payload.needed("tool")?;
    let input = payload.value("input");
    let agent = payload.text("agent_id").unwrap_or(LEAD);
    let error = payload.text("error");
    let failed = payload.text("status") == Some("error") || error.is_some();
    let class = gates::classify(tool, input);
    let folder = payload.text("folder").map_or_else(|| place.project.root().to_owned(), PathBuf::from);
    let mut files: Vec<PathBuf> = match class {
        Class::Edit | Class::Read => {
            gates::paths(input).iter().map(|path| gates::place(&folder, path)).collect()
        }
        Class::Command | Class::Project(_) | Class::Other => Vec::new(),
    };
    files.extend(payload.texts("files").iter().map(|path| gates::place(&folder, path)));
    let inside: Vec<String> = files
        .iter()
        .filter_map(|path| path.strip_prefix(place.project.root()).ok())
        .map(|path| path.to_string_lossy().into_owned())
        .collect();
    place.project.start(place.harness)?;
    let went = if failed { Went::Error } else { Went::Ok };
    edits::log(
        place.project,
        &place.log(),
        &Line { agent_id: agent, tool, file: inside.first().map(String::as_str), went, error },
    )?;
    let mut reply = Reply::default();
    if failed {
        return Ok(reply);
    }
    match class {
        Class::Edit | Class::Command if !inside.is_empty() => {
            edits::edited(place.project, place.harness, agent, &inside)?
        }
        Class::Read => {
            for file in &files {
                if file.parent() == Some(&place.project.folder().join("memory")) {
                    harness::record_read(place.project, place.harness, file, agent)?;
                }
            }
        }
        Class::Project(tool) => reply.warnings.extend(follow_up(place, payload, tool, input)?),
        // Lead took up a skill by itself.
        Class::Other if input["op"] == "skill" => {
            let mode = input["args"]["mode"].as_str();
            if let Some(skill) =
                input["args"]["skill"].as_str().filter(|skill| place.catalog.skill(skill).is_some())
            {
                session::follow(place.project, place.harness, payload.conversation(), Some((skill, mode)))?;
            }
        }
        Class::Edit | Class::Command | Class::Other => {}
    }
    Ok(reply)
}

/// What follows from a call of one of the eleven.
fn follow_up(
    place: &Place<'_>,
    payload: &Payload<'_>,
    tool: Tool,
    input: &Value,
) -> Result<Option<String>, ProjectError> {
    if tool == Tool::TaskClose {
        edits::cycle_ended(place.project, place.harness)?;
        session::follow(place.project, place.harness, payload.conversation(), None)?;
        return Ok(None);
    }
    if tool == Tool::PlanStart {
        edits::plan_replaced(place.project, place.harness)?;
        return Ok(None);
    }
    let Some((kind, id)) = reopening(tool, input) else { return Ok(None) };
    let count = edits::reopened(place.project, place.harness, kind, id)?;
    Ok((count >= MAX_REOPENS).then(|| {
        format!("{kind} {id} was reopened {count} times in this cycle; ask the person before continuing")
    }))
}

fn reopen_refusal(place: &Place<'_>, tool: &str, input: &Value) -> Result<Option<String>, ProjectError> {
    let Class::Project(tool) = gates::classify(tool, input) else { return Ok(None) };
    let Some((kind, id)) = reopening(tool, input) else { return Ok(None) };
    if edits::reopens_of(place.project, place.harness, kind, id)? < MAX_REOPENS {
        return Ok(None);
    }
    let finished = facts::tasks(place)?
        .iter()
        .any(|task| task["id"].as_u64() == Some(id) && task["status"] == "completed");
    let blocked = kind == "issue" || finished;
    Ok(blocked.then(|| {
        format!(
            "The {kind} {id} was reopened {MAX_REOPENS} times in this cycle. Ask the person how \
        to proceed instead of reopening it again."
        )
    }))
}

/// Returns what a call opens again.
fn reopening(tool: Tool, input: &Value) -> Option<(&'static str, u64)> {
    let arguments = if input["args"].is_object() { &input["args"] } else { input };
    match tool {
        Tool::TaskUpdate if arguments["status"] == "pending" => Some(("task", arguments["id"].as_u64()?)),
        Tool::PlanUpdate if arguments["action"] == "reopen" => {
            Some(("issue", arguments["issue_id"].as_u64()?))
        }
        _ => None,
    }
}

/// Finds the role of whoever calls: named, or known from the tracker.
fn role<'a>(place: &Place<'a>, payload: &Payload<'_>) -> Result<Option<&'a Agent>, ProjectError> {
    if let Some(name) = payload.text("agent_name") {
        return Ok(place.catalog.agent(name));
    }
    let Some(id) = payload.text("agent_id").filter(|id| *id != LEAD) else { return Ok(None) };
    let entries = harness::entries(place.project, place.harness)?;
    let entry = entries.iter().rev().find(|entry| entry["agent_id"] == id);
    Ok(entry.and_then(|entry| entry["agent_name"].as_str()).and_then(|name| place.catalog.agent(name)))
}

fn caller<'a>(payload: &Payload<'_>, role: Option<&'a Agent>) -> Caller<'a> {
    let is_subagent = role.is_some() || payload.text("agent_id").is_some_and(|id| id != LEAD);
    if is_subagent { Caller::Subagent { role } } else { Caller::Lead }
}
