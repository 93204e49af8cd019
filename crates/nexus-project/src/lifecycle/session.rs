//! The beginning of a session, its end, and the moment its conversation was shortened.

use std::path::Path;

use super::{Decision, Payload, Place, Reply, facts};
use crate::harness::{self, edits};
use crate::knowledge::Knowledge;
use crate::{Project, ProjectError, document};

/// Makes what a session needs, begins its tracker, and tells of what is there.
pub(super) fn start(place: &Place<'_>) -> Result<Reply, ProjectError> {
    let started = place.project.start(place.harness)?;
    // Where it lay before harnesses had folders of their own.
    document::remove(&place.project.state().join("agent-tracker.json"))?;
    harness::begin(place.project, place.harness)?;
    harness::session::begin(place.project, place.harness)?;
    let mut warnings = Vec::new();
    if started.leftovers.plan || started.leftovers.tasks {
        let what = match (started.leftovers.plan, started.leftovers.tasks) {
            (true, true) => "a plan and tasks",
            (true, false) => "a plan",
            (false, _) => "tasks",
        };
        warnings.push(format!(
            "An earlier session left {what} open: continue with it, or archive it with task_close."
        ));
    }
    warnings.extend(started.ignored_wrongly);
    let mut text = facts::status(place, &mut warnings);
    text.push_str(&Knowledge::of(place.project).render());
    Ok(Reply { warnings, ..Reply::telling(text) })
}

/// Ends the session: what was its own goes, what is the project's stays.
pub(super) fn end(place: &Place<'_>) -> Result<Reply, ProjectError> {
    let mut reply = Reply::default();
    let read = facts::noted(facts::tasks(place), &mut reply.warnings);
    let is_known = read.is_some();
    let tasks = read.unwrap_or_default();
    let open: Vec<String> =
        tasks.iter().filter(|task| task["status"] != "completed").map(facts::numbered).collect();
    if !tasks.is_empty() && open.is_empty() {
        // Finished work that is not archived would be lost to the history.
        reply.decision = Decision::Block;
        reply.reason = Some("All tasks are completed but not archived: call task_close.".to_owned());
    } else if !open.is_empty() {
        reply.warnings.push(format!(
            "{} of {} tasks are not completed ({}). Finish them, or archive them as they are with task_close.",
            open.len(),
            tasks.len(),
            open.iter().take(10).cloned().collect::<Vec<_>>().join("; ")
        ));
    }
    if is_known && tasks.is_empty() && is_there(&place.project.plan()) {
        reply
            .warnings
            .push("A plan is open. It stays for the next session; task_close archives it.".to_owned());
    }
    close(place.project, place)?;
    Ok(reply)
}

/// Tells everything again, read fresh from disk.
pub(super) fn compact(place: &Place<'_>, payload: &Payload<'_>) -> Result<Reply, ProjectError> {
    let conversation = payload.conversation();
    let mut warnings = Vec::new();
    let mut text = facts::whole(place, conversation, &mut warnings);
    let session = facts::noted(harness::current(place.project, place.harness), &mut warnings).flatten();
    let active = session.and_then(|session| session.skills.get(conversation).cloned());
    if let Some(active) = &active {
        let skill =
            crate::skills::instructions(place.catalog, place.harness, &active.skill, active.mode.as_deref());
        match skill {
            Ok(skill) => text.push_str(&format!("\n{}", skill.text)),
            Err(error) => text.push_str(&format!("\n(The skill cannot be shown: {error}.)\n")),
        }
    }
    Ok(Reply { active_skill: active.map(|active| active.skill), warnings, ..Reply::telling(text) })
}

fn close(project: &Project, place: &Place<'_>) -> Result<(), ProjectError> {
    harness::session_ended(project, place.harness)?;
    edits::session_ended(project, place.harness, &place.log())
}

fn is_there(path: &Path) -> bool {
    path.exists()
}
