//! The first conversation: greets, looks around, learns two names, has the identity files written.

use crate::draft::Draft;
use crate::identity::Profile;
use crate::scene::{Dispatch, DispatchState, Input, Scene};
use crate::story::{Hearing, Telling};
use crate::task::{self, FileDraft, LOOK_SKILL, Purpose};

/// How often a lost or refused dispatch is tried again without being asked.
const MAX_ATTEMPTS: usize = 3;

/// Says hello once and sends out the workers that look around.
pub(crate) fn open(scene: &Scene, telling: &Telling, draft: &mut Draft) {
    let person_spoke = !telling.hearings.is_empty();
    if !telling.before.has_spoken && person_spoke {
        draft.say(
            "Hello! I am the Nexus guide. I work offline: I am not a language model, only a set of fixed rules, and \
             everything we say stays on this machine. I can set up your assistant with you.",
        );
    }
    if !person_spoke || !scene.has_tool("agent_send") {
        return;
    }
    let scans = needs_dispatch(scene, &Purpose::Scan);
    let looks = scene.has_skill(LOOK_SKILL) && needs_dispatch(scene, &Purpose::Look);
    if scans {
        draft.dispatch(&task::scan());
    }
    if looks {
        draft.dispatch(&task::look());
    }
    match (scans, looks) {
        (true, true) => draft.say(
            "While we talk, one worker is looking for credentials in your environment (names only, nothing is \
             imported) and another is looking around your home folder.",
        ),
        (true, false) => draft.say(
            "While we talk, a worker is looking for credentials in your environment: names only, nothing is imported.",
        ),
        (false, true) => draft.say("While we talk, a worker is looking around your home folder."),
        (false, false) => {}
    }
}

/// Moves towards the identity files, or asks for what is missing.
pub(crate) fn proceed(scene: &Scene, telling: &Telling, draft: &mut Draft) {
    if telling.hearings.is_empty() {
        return;
    }
    let profile = whole_profile(scene, telling);
    acknowledge(telling, draft);
    match profile.files(chosen_folder(scene).as_deref()) {
        None => ask_for_names(telling, draft),
        Some(files) => write_files(scene, telling, &profile, &files, draft),
    }
}

fn whole_profile(scene: &Scene, telling: &Telling) -> Profile {
    let mut profile = telling.after.profile.clone();
    if profile.timezone.is_none() {
        profile.timezone.clone_from(&scene.zone);
    }
    profile
}

fn acknowledge(telling: &Telling, draft: &mut Draft) {
    let before = &telling.before.profile;
    let after = &telling.after.profile;
    let hears = |check: fn(&Hearing) -> bool| telling.hearings.iter().any(check);
    let mut words = Vec::new();
    if hears(|hearing| hearing.named_user)
        && let Some(call) = after.call_name()
    {
        words.push(
            if hears(|hearing| hearing.took_defaults)
                && after.user_name.as_deref() == Some(crate::identity::DEFAULT_USER_NAME)
            {
                format!("No name is fine too; I will say “{call}”.")
            } else if before.user_name.is_some() {
                format!("{call}, then.")
            } else {
                format!("Nice to meet you, {call}.")
            },
        );
    }
    if hears(|hearing| hearing.named_agent)
        && let Some(agent) = &after.agent_name
    {
        words.push(
            if hears(|hearing| hearing.took_defaults) && agent == crate::identity::DEFAULT_AGENT_NAME {
                format!("Then I will be {agent}.")
            } else if before.agent_name.is_some() {
                format!("{agent} it is, then.")
            } else {
                format!("{agent} it is.")
            },
        );
    }
    if after.manners != before.manners {
        words.push(format!("Noted: {}.", after.manner()));
    } else if after.about_person.len() > before.about_person.len()
        || after.timezone != before.timezone
        || after.email != before.email
    {
        words.push("I will add that to your profile.".to_owned());
    }
    draft.say(words.join(" "));
}

fn ask_for_names(telling: &Telling, draft: &mut Draft) {
    let profile = &telling.after.profile;
    let is_first = !telling.before.has_spoken;
    let moved = telling.hearings.iter().any(|hearing| {
        hearing.facts || hearing.took_defaults || hearing.import.is_some() || !hearing.requests.is_empty()
    });
    let lead = if is_first || moved {
        ""
    } else {
        "I did not catch a name in that; I only understand simple sentences. "
    };
    let question = match (&profile.agent_name, &profile.user_name) {
        (None, None) if is_first => {
            "Two things to begin with: what would you like to call me, and what may I call you? Echo, Atlas or \
             Juniper would suit me, or say “you choose”. If you care what I should be like (calm, playful, brief …), \
             tell me that too."
        }
        (None, None) => {
            "What would you like to call me, and what may I call you? For example: “You are Atlas and I am Sam.”"
        }
        (None, Some(_)) => {
            "And what would you like to call me? Echo, Atlas or Juniper would suit me, or say “you choose”."
        }
        (Some(_), _) => "And what may I call you?",
    };
    draft.say(format!("{lead}{question}"));
}

fn write_files(scene: &Scene, telling: &Telling, profile: &Profile, files: &[FileDraft], draft: &mut Draft) {
    let attempts: Vec<&Dispatch> = identity_dispatches(scene).collect();
    let last = attempts.last().copied();
    let settled = match last.map(|dispatch| &dispatch.state) {
        None | Some(DispatchState::Unknown) => false,
        Some(DispatchState::Running) => {
            if draft.is_silent() {
                draft
                    .say("The worker is still writing your identity files; I will tell you when it is done.");
            }
            true
        }
        // Asked again, or told new facts, we try again; otherwise a failure waits for the person.
        Some(DispatchState::Refused(_)) => attempts.len() >= MAX_ATTEMPTS,
        Some(DispatchState::Ended { .. }) if last.is_some_and(|dispatch| dispatch.failure().is_some()) => {
            let asks_again = telling.hearings.iter().any(|hearing| {
                hearing.facts
                    || hearing.requests.iter().any(|request| {
                        matches!(request.intent, crate::intent::Intent::Retry | crate::intent::Intent::Yes)
                    })
            });
            if !asks_again {
                draft.say(
                    "Your identity files are not written yet. Say “try again” and I will send a worker once more.",
                );
            }
            !asks_again
        }
        // It said it wrote them, yet the workspace still asks for onboarding.
        Some(DispatchState::Ended { .. }) => attempts.len() >= MAX_ATTEMPTS,
    };
    if settled {
        if draft.is_silent() {
            draft.say("The identity files could not be written. Say “try again” to send a worker once more.");
        }
        return;
    }
    if !scene.has_tool("agent_send") {
        draft.say("I cannot start a worker here, so your identity files have to wait.");
        return;
    }
    draft.say(format!(
        "That is all I need. A worker is now writing who we are to three files: {}. My manner will be {}; you can \
         change any of it at any time.",
        files.iter().map(|file| format!("`{}`", file.path)).collect::<Vec<_>>().join(", "),
        profile.manner()
    ));
    draft.dispatch(&task::identity(files));
}

/// Writes what a worker that was cut off between two files left unwritten: the words are known, and sending
/// another worker would only take longer.
pub(crate) fn repair(scene: &Scene, telling: &Telling, draft: &mut Draft) {
    let persona = &scene.persona;
    let is_whole = persona.agent.is_some() && persona.soul.is_some() && persona.user.is_some();
    let Some(last) = identity_dispatches(scene).last() else { return finish(scene, telling, draft) };
    let is_over = matches!(last.state, DispatchState::Ended { .. } | DispatchState::Unknown);
    let Purpose::Identity(files) = &last.purpose else { return };
    let attempts = scene.calls.iter().filter(|call| call.name == "write").count();
    if persona.is_onboarding
        || is_whole
        || !is_over
        || attempts >= MAX_ATTEMPTS * files.len()
        || !scene.has_tool("write")
    {
        return;
    }
    let mut wrote = false;
    for file in files {
        let is_there = match file.path.as_str() {
            task::USER_IDENTITY_PATH => persona.user.is_some(),
            path if path.ends_with("/SOUL.md") => persona.soul.is_some(),
            _ => persona.agent.is_some(),
        };
        if !is_there {
            draft.call("write", serde_json::json!({ "path": file.path, "content": file.content }));
            wrote = true;
        }
    }
    if wrote {
        draft.say("Some of our identity files are missing; I am writing them myself.");
    }
}

/// Writes what a first conversation that is not before us left unwritten, as far as it is known now.
fn finish(scene: &Scene, telling: &Telling, draft: &mut Draft) {
    let persona = &scene.persona;
    let attempts = scene.calls.iter().filter(|call| call.name == "write").count();
    if telling.hearings.is_empty()
        || attempts >= MAX_ATTEMPTS * persona.missing.len()
        || !scene.has_tool("write")
    {
        return;
    }
    let mut profile = whole_profile(scene, telling);
    profile.agent_name = Some(persona.agent_name().unwrap_or("your assistant").to_owned());
    if let Some(vibe) = persona.agent.as_ref().and_then(|agent| agent.field("vibe")) {
        profile.manners = vec![vibe.to_owned()];
    }
    let known = persona.user.as_ref().and_then(|user| user.field("name"));
    let told = profile.user_name.is_some();
    profile.user_name = known.map(str::to_owned).or(profile.user_name);
    profile.call = persona.call_name().map(str::to_owned).or(profile.call);
    if profile.user_name.is_none() {
        // Enough for a soul, which needs no name.
        profile.user_name = Some("the owner".to_owned());
        profile.call.get_or_insert_with(|| "the owner".to_owned());
    }
    let mut wrote = false;
    for file in profile.files(None).unwrap_or_default() {
        let is_user = file.path == task::USER_IDENTITY_PATH;
        // The persona's folder is the one that is there, however its name is written.
        let path = persona.missing.iter().find(|missing| match is_user {
            true => told && **missing == file.path,
            false => missing.ends_with("/SOUL.md") && file.path.ends_with("/SOUL.md"),
        });
        if let Some(path) = path {
            draft.call("write", serde_json::json!({ "path": path, "content": file.content }));
            wrote = true;
        }
    }
    if wrote {
        draft.say("Some of our identity files are missing; I am writing them myself.");
    }
    if persona.lacks_user() && !told && !telling.before.has_spoken {
        draft.say("Your own file is missing too: what may I call you?");
    }
}

/// Writes a correction that came while the worker was still writing.
pub(crate) fn correct_written_files(scene: &Scene, telling: &Telling, draft: &mut Draft) {
    if !telling.hearings.is_empty() {
        return;
    }
    let profile = whole_profile(scene, telling);
    let results_came = scene.inputs().any(|input| match input {
        Input::Result { dispatch: Some(place), status, .. } => {
            status == "completed" && matches!(scene.dispatches[*place].purpose, Purpose::Identity(_))
        }
        Input::Result { .. }
        | Input::Person { .. }
        | Input::Task { .. }
        | Input::Agent { .. }
        | Input::System { .. } => false,
    });
    let attempts = identity_dispatches(scene).count();
    let Some(last) = identity_dispatches(scene).last() else { return };
    let Purpose::Identity(written) = &last.purpose else { return };
    if !results_came || last.failure().is_some() || attempts >= MAX_ATTEMPTS || !scene.has_tool("agent_send")
    {
        return;
    }
    let Some(files) = profile.files(chosen_folder(scene).as_deref()) else { return };
    let names = |files: &[FileDraft]| {
        files
            .iter()
            .map(|file| file.content.lines().take(7).collect::<Vec<_>>().join("\n"))
            .collect::<Vec<_>>()
    };
    if names(&files) != names(written) {
        draft.say("You have told me something new in the meantime; a worker is writing that down as well.");
        draft.dispatch(&task::identity(&files));
    }
}

fn identity_dispatches(scene: &Scene) -> impl Iterator<Item = &Dispatch> {
    scene.dispatches.iter().filter(|dispatch| matches!(dispatch.purpose, Purpose::Identity(_)))
}

/// Once files were on their way, a corrected name keeps their folder: one persona, not two.
fn chosen_folder(scene: &Scene) -> Option<String> {
    let started = identity_dispatches(scene)
        .filter(|dispatch| matches!(dispatch.state, DispatchState::Running | DispatchState::Ended { .. }))
        .last()?;
    let Purpose::Identity(files) = &started.purpose else { return None };
    files.iter().find_map(|file| {
        let folder = file.path.strip_prefix("state/agents/")?.strip_suffix("/IDENTITY.md")?;
        Some(folder.to_owned())
    })
}

/// Returns whether a worker of this kind was never really sent out.
fn needs_dispatch(scene: &Scene, purpose: &Purpose) -> bool {
    let mut attempts = 0;
    for dispatch in scene.dispatches.iter().filter(|dispatch| dispatch.purpose == *purpose) {
        match dispatch.state {
            DispatchState::Running | DispatchState::Ended { .. } => return false,
            DispatchState::Unknown | DispatchState::Refused(_) => attempts += 1,
        }
    }
    attempts < MAX_ATTEMPTS
}
