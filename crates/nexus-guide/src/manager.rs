//! The manager side: one turn, from what came in to what is said and asked for.
//!
//! A turn takes at most two replies: the first answers and makes all its calls at once, the
//! second tells what the calls gave. Every turn says something.

use crate::answer;
use crate::draft::Draft;
use crate::intent::Intent;
use crate::onboarding;
use crate::project;
use crate::report;
use crate::scene::{Input, Scene};
use crate::story::{self, Hearing, ImportAnswer, Telling};
use crate::task;
use crate::text::{one_line, shorten};

/// Longest foreign message that is passed on.
const MAX_QUOTE_LEN: usize = 2_000;

/// Continues a manager's conversation.
pub(crate) fn reply(scene: &Scene) -> Draft {
    let mut draft = Draft::default();
    if project::reply(scene, &mut draft) {
        return draft;
    }
    report::tell_calls(scene, &mut draft);
    if scene.inputs().next().is_none() {
        if draft.is_empty() && !scene.has_spoken_in_turn {
            draft.say("That is done.");
        }
        return draft;
    }
    let telling = story::tell(scene);
    if scene.persona.is_onboarding {
        onboarding::open(scene, &telling, &mut draft);
    }
    tell_inputs(scene, &telling, &mut draft);
    onboarding::correct_written_files(scene, &telling, &mut draft);
    onboarding::repair(scene, &telling, &mut draft);
    answer_person(scene, &telling, &mut draft);
    if scene.persona.is_onboarding {
        onboarding::proceed(scene, &telling, &mut draft);
    }
    if draft.is_empty() {
        draft.say("I am here. Say “help” to see what I can do.");
    }
    draft
}

fn tell_inputs(scene: &Scene, telling: &Telling, draft: &mut Draft) {
    for input in scene.inputs() {
        match input {
            Input::Person { .. } => {}
            Input::Result { text, status, dispatch } => {
                report::tell_result(scene, telling, *dispatch, status, text, draft);
            }
            Input::Agent { text } | Input::Task { text } => {
                draft.say(format!("A worker says: {}", shorten(text.trim(), MAX_QUOTE_LEN)));
            }
            Input::System { text } if telling.hearings.is_empty() => {
                draft.say(format!("A note from the runtime: {}", shorten(text.trim(), MAX_QUOTE_LEN)));
            }
            Input::System { .. } => {}
        }
    }
}

fn answer_person(scene: &Scene, telling: &Telling, draft: &mut Draft) {
    let messages: Vec<&str> = scene
        .inputs()
        .filter_map(|input| match input {
            Input::Person { text } => Some(text.as_str()),
            Input::Task { .. } | Input::Result { .. } | Input::Agent { .. } | Input::System { .. } => None,
        })
        .collect();
    let last = telling.hearings.len().saturating_sub(1);
    for (place, (hearing, message)) in telling.hearings.iter().zip(messages).enumerate() {
        answer_import(scene, telling, hearing, draft);
        for request in &hearing.requests {
            let acts = matches!(
                request.intent,
                Intent::Run | Intent::Note | Intent::Cancel | Intent::ChangePersona | Intent::Retry
            );
            if place < last && acts {
                // It may have been taken back by what followed; acting late surprises more than asking.
                draft.say(format!(
                    "Before that, you wrote “{}”. Say it again if you still want it.",
                    one_line(&request.sentence, 120)
                ));
                continue;
            }
            answer::answer(scene, telling, hearing, request, message, draft);
        }
        let is_heard = hearing.facts || hearing.took_defaults || hearing.import.is_some();
        if hearing.requests.is_empty() && !is_heard && !scene.persona.is_onboarding {
            draft.say(answer::not_understood(scene));
        } else if !hearing.requests.is_empty() && !scene.persona.is_onboarding {
            let rest: Vec<&str> = hearing
                .unknown
                .iter()
                .map(String::as_str)
                .filter(|sentence| sentence.split(' ').count() > 2)
                .collect();
            if !rest.is_empty() {
                draft.say(format!("I did not understand “{}”.", one_line(&rest.join(" "), 160)));
            }
        } else if hearing.requests.is_empty()
            && !scene.persona.is_onboarding
            && hearing.import.is_none()
            && !(scene.persona.lacks_user() && hearing.named_user)
        {
            answer::changed_persona_or_unknown(scene, message, draft);
        }
    }
}

fn answer_import(scene: &Scene, telling: &Telling, hearing: &Hearing, draft: &mut Draft) {
    match hearing.import {
        None => {}
        Some(ImportAnswer::Yes) => {
            if scene.has_tool("agent_send") {
                draft.say(
                    "Good. A worker is importing them now, as pointers to the variables; no value is copied.",
                );
                draft.dispatch(&task::import());
            } else {
                draft.say("I cannot start a worker here. You can import them with `nexus credential scan --import`.");
            }
        }
        Some(ImportAnswer::No) => {
            draft.say(
                "All right, I will leave them where they are and not ask again. Say “import the credentials” \
                to import them later.",
            );
        }
        Some(ImportAnswer::Some) => {
            let names: Vec<String> = telling
                .after
                .findings
                .iter()
                .filter(|finding| !finding.imported)
                .map(crate::findings::Finding::shown)
                .collect();
            draft.say(format!(
                "I can import all of them ({}) or none; to choose, use `nexus credential scan --import` in a \
                 terminal. All of them, yes or no?",
                names.join(", ")
            ));
        }
    }
}
