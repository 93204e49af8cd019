//! Answers to the things a person may ask for at any time.

use nexus_base::redact::Redactor;
use nexus_protocol::framing::key;
use serde_json::json;

use crate::command::{self, CommandRequest};
use crate::draft::Draft;
use crate::facts::{self, Heard};
use crate::intent::{self, Intent, Request};
use crate::persona::Document;
use crate::scene::{DispatchState, Scene};
use crate::story::{Hearing, Telling};
use crate::task::{self, Purpose};
use crate::text::{clip, one_line, slug};

/// Longest text that is stored or searched for.
const MAX_MEMORY_LEN: usize = 4_000;
/// Most memories asked for at once.
const MEMORIES: u32 = 8;

const CONNECT: &str = "To connect a language model, start Nexus with a provider's key in the environment, such as \
    ANTHROPIC_API_KEY or OPENAI_API_KEY, or store one with `nexus credential add`; then agree with `nexus models \
    allow anthropic`. A server on this machine (Ollama, llama.cpp, LM Studio) is found automatically. `nexus models` \
    shows what is in use and why.";

/// How the list of abilities begins.
pub(crate) const ABILITIES_LEAD: &str = "I can:\n";

/// Answers one request.
pub(crate) fn answer(
    scene: &Scene,
    telling: &Telling,
    hearing: &Hearing,
    request: &Request,
    message: &str,
    draft: &mut Draft,
) {
    match request.intent {
        Intent::Run => run(scene, request, message, draft),
        Intent::Note => note(scene, request, draft),
        Intent::Forget => draft.say(
            "I cannot delete memories from here, so that nothing is lost by a misunderstanding. Use `nexus memory \
             forget` in a terminal.",
        ),
        Intent::Remember => remember(scene, request, draft),
        Intent::Recall => recall(scene, telling, request, draft),
        Intent::WhoAmI => draft.say(who_am_i(scene, telling)),
        Intent::WhoAreYou => draft.say(who_are_you(scene, telling)),
        Intent::ScanCredentials => {
            dispatch(scene, &task::scan(), "A worker is looking for credentials now: names only, nothing is \
                imported.", draft);
        }
        Intent::ImportCredentials => {
            dispatch(scene, &task::import(), "A worker is importing what the environment holds, as pointers; no \
                value is copied.", draft);
        }
        Intent::Status => {
            if scene.has_tool("get_agent_status") {
                draft.call("get_agent_status", json!({}));
            } else {
                draft.say("I cannot see the workers from here.");
            }
        }
        Intent::Cancel => cancel(scene, draft),
        Intent::Retry => retry(scene, draft),
        Intent::ListFiles => {
            let mentions_notes = request.sentence.to_lowercase().contains("notes");
            let default = if mentions_notes { "home/notes" } else { "home" };
            let path = command::wanted_path(request).unwrap_or_else(|| default.to_owned());
            dispatch(scene, &task::list(&path), &format!("A worker is listing `{path}`."), draft);
        }
        Intent::ShowFile => match command::wanted_path(request) {
            Some(path) => dispatch(scene, &task::read(&path), &format!("A worker is reading `{path}`."), draft),
            None => draft.say("Which file? Give me its path, for example: show file notes/todo.md"),
        },
        Intent::Time => draft.say(time(scene)),
        Intent::ConnectModel => draft.say(format!("I am the offline guide, not a language model. {CONNECT}")),
        Intent::ChangePersona => {
            // During onboarding the same words are facts for the files to come.
            if !scene.persona.is_onboarding {
                change_persona(scene, &request.sentence, draft);
            }
        }
        Intent::Help => draft.say(help()),
        Intent::Thanks => draft.say(with_name(scene, telling, "You are welcome")),
        Intent::Bye => draft.say(with_name(scene, telling, "Goodbye")),
        Intent::Greet => greet(scene, telling, draft),
        Intent::Yes | Intent::No => {
            if scene.persona.is_onboarding {
                // Whatever is open there is asked again at the end of the turn.
            } else if hearing.facts {
                changed_persona_or_unknown(scene, message, draft);
            } else {
                draft.say("I have not asked anything. Say “help” to see what I can do.");
            }
        }
    }
}

/// Says that nothing was understood, and what would be.
pub(crate) fn not_understood(scene: &Scene) -> String {
    let name = scene
        .persona
        .agent_name()
        .map(|name| format!("I am {name}, run by the offline guide: "))
        .unwrap_or_default();
    let lead = if name.is_empty() { "I am the offline guide, " } else { name.as_str() };
    if scene.explained_lately {
        return format!(
            "{lead}not a language model, and I did not understand that either. “help” lists what I can do."
        );
    }
    format!("{lead}not a language model, and I did not understand that. {}\n\n{CONNECT}", abilities())
}

/// A sentence that only told facts after onboarding: change the persona if it names one.
pub(crate) fn changed_persona_or_unknown(scene: &Scene, message: &str, draft: &mut Draft) {
    let heard = facts::listen(message);
    if heard.agent_name.is_some() || heard.call.is_some() || heard.user_name.is_some() {
        change_persona(scene, message, draft);
    } else {
        draft.say(format!(
            "I did not recognise that as a request. To have me remember it, say: remember that {}",
            one_line(message, 200)
        ));
    }
}

fn abilities() -> String {
    let lines: Vec<String> = intent::abilities()
        .iter()
        .map(|ability| format!("- {}: “{}”", ability.does, ability.example))
        .collect();
    format!("{ABILITIES_LEAD}{}", lines.join("\n"))
}

fn help() -> String {
    format!("I am the offline guide and understand a short list of requests. {}\n\n{CONNECT}", abilities())
}

fn with_name(scene: &Scene, telling: &Telling, words: &str) -> String {
    match call_name(scene, telling) {
        Some(call) => format!("{words}, {call}."),
        None => format!("{words}."),
    }
}

fn call_name(scene: &Scene, telling: &Telling) -> Option<String> {
    scene.persona.call_name().or_else(|| telling.after.profile.call_name()).map(str::to_owned)
}

fn greet(scene: &Scene, telling: &Telling, draft: &mut Draft) {
    // The opening of the onboarding has said hello already.
    if scene.persona.is_onboarding && !telling.before.has_spoken {
        return;
    }
    let hello = with_name(scene, telling, "Hello");
    let rest = scene.persona.agent_name().map_or_else(String::new, |name| format!(" {name} here."));
    let offer = if telling.before.has_spoken {
        " What can I do?"
    } else {
        " What can I do? “help” lists what I understand."
    };
    draft.say(format!("{hello}{rest}{}", if scene.persona.is_onboarding { "" } else { offer }));
}

fn dispatch(scene: &Scene, task: &str, words: &str, draft: &mut Draft) {
    if scene.has_tool("agent_send") {
        draft.say(words);
        draft.dispatch(task);
    } else {
        draft.say("I cannot start a worker here, so nothing was done.");
    }
}

fn run(scene: &Scene, request: &Request, message: &str, draft: &mut Draft) {
    match command::wanted_command(request, message) {
        CommandRequest::Command(command) => {
            dispatch(
                scene,
                &task::run(&command),
                &format!("A worker is running `{}`.", one_line(&command, 120)),
                draft,
            );
        }
        CommandRequest::Doubtful(words) => draft.say(format!(
            "I am not sure that “{}” is a command. Put it in backticks and I will run it: run `…`",
            one_line(&words, 120)
        )),
        CommandRequest::Nothing => draft.say("What should I run? For example: run `ls -la`"),
    }
}

fn note(scene: &Scene, request: &Request, draft: &mut Draft) {
    let words = request.about.trim();
    if words.is_empty() {
        draft.say("What should I write? For example: write a note: buy milk");
        return;
    }
    if words.len() > command::MAX_NOTE_LEN {
        draft.say("That is too long for a note, so I wrote nothing. Please put it in a file under `home/` yourself.");
        return;
    }
    let file = command::note_file(scene, words);
    dispatch(scene, &task::note(&file), &format!("A worker is writing that to `{}`.", file.path), draft);
}

fn remember(scene: &Scene, request: &Request, draft: &mut Draft) {
    let words = request.about.trim();
    if words.len() > MAX_MEMORY_LEN {
        draft
            .say("That is too long for one memory, so I stored nothing. A note can hold it: write a note: …");
    } else if words.is_empty() {
        draft.say("What should I remember? For example: remember that I like green tea");
    } else if Redactor::new().redact(words) != words {
        draft.say("That looks like a key or a password, and I keep no secrets in memory. Use `nexus credential add` \
            for it.");
    } else if scene.has_tool("remember") {
        draft.call("remember", json!({ "text": words }));
    } else {
        draft.say("I cannot store memories here.");
    }
}

fn recall(scene: &Scene, telling: &Telling, request: &Request, draft: &mut Draft) {
    if !scene.has_tool("recall") {
        draft.say("I cannot search my memory here.");
        return;
    }
    let about = clip(request.about.trim(), MAX_MEMORY_LEN);
    let lower = about.to_lowercase();
    let query = match lower.trim_end_matches(['?', '.', '!']) {
        "" | "me" | "myself" | "i" => call_name(scene, telling).unwrap_or_else(|| "me".to_owned()),
        _ => about.to_owned(),
    };
    draft.call("recall", json!({ "query": query, "limit": MEMORIES }));
}

fn who_am_i(scene: &Scene, telling: &Telling) -> String {
    let Some(user) = &scene.persona.user else {
        return match telling.after.profile.call_name() {
            Some(call) => format!("You told me to call you {call}."),
            None => "You have not told me yet.".to_owned(),
        };
    };
    let mut lines = Vec::new();
    match (user.field("name"), user.field("call")) {
        (Some(name), Some(call)) if name != call => {
            lines.push(format!("You are {name}, and I call you {call}."))
        }
        (Some(name), _) | (None, Some(name)) => lines.push(format!("You are {name}.")),
        (None, None) => lines.push("Your profile does not contain a name.".to_owned()),
    }
    for (field, label) in [("timezone", "Your time zone is"), ("email", "Your e-mail address is")] {
        if let Some(value) = user.field(field) {
            lines.push(format!("{label} {value}."));
        }
    }
    let said: Vec<&str> = user.body.lines().filter(|line| line.starts_with("- ")).take(5).collect();
    let mut result = lines.join(" ");
    if !said.is_empty() {
        result.push_str(&format!(" You told me:\n{}", said.join("\n")));
    }
    result
}

fn who_are_you(scene: &Scene, telling: &Telling) -> String {
    let agent = scene.persona.agent.as_ref();
    let name = scene.persona.agent_name().or(telling.after.profile.agent_name.as_deref());
    let lead = name.map_or_else(|| "I am the Nexus guide".to_owned(), |name| format!("I am {name}"));
    let creature =
        agent.and_then(|document| document.field("creature")).map(|kind| format!(", {}", with_article(kind)));
    let emoji = agent.and_then(|document| document.field("emoji")).map(|emoji| format!(" {emoji}"));
    format!(
        "{lead}{}{}. Right now I run on the offline guide: fixed rules on this machine, not a language model. “help” \
         lists what I can do.",
        creature.unwrap_or_default(),
        emoji.unwrap_or_default()
    )
}

fn with_article(noun: &str) -> String {
    let article = if noun.to_lowercase().starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {}", one_line(noun, 60))
}

fn time(scene: &Scene) -> String {
    let zone = scene.zone.as_ref().map(|zone| format!(" ({zone})")).unwrap_or_default();
    match scene.fact(key::TIME) {
        // RFC 3339: date, a letter, hours and minutes.
        Some(moment) if moment.is_ascii() && moment.len() >= 16 => {
            format!("It is {} on {}{zone}.", &moment[11..16], &moment[..10])
        }
        Some(moment) => format!("It is {}{zone}.", one_line(moment, 60)),
        None => "I was not told the time.".to_owned(),
    }
}

fn cancel(scene: &Scene, draft: &mut Draft) {
    let running: Vec<&str> = scene
        .dispatches
        .iter()
        .filter(|dispatch| dispatch.state == DispatchState::Running)
        .filter_map(|dispatch| dispatch.session.as_deref())
        .collect();
    if running.is_empty() || !scene.has_tool("agent_send") {
        draft.say("No worker of mine is running, so there is nothing to cancel.");
        return;
    }
    draft.say(if running.len() == 1 {
        "I am cancelling the worker.".to_owned()
    } else {
        format!("I am cancelling {} workers.", running.len())
    });
    for session in running {
        draft.call("agent_send", json!({ "op": "cancel", "target": scene.target(session) }));
    }
}

fn retry(scene: &Scene, draft: &mut Draft) {
    let is_whole =
        scene.persona.agent.is_some() && scene.persona.soul.is_some() && scene.persona.user.is_some();
    let last_failed = scene.dispatches.iter().rev().find(|dispatch| {
        let is_settled = is_whole && matches!(dispatch.purpose, Purpose::Identity(_));
        dispatch.failure().is_some() && !is_settled
    });
    match last_failed {
        // Onboarding composes the files anew and sends them itself; after it the manager writes them.
        Some(failed) if matches!(failed.purpose, Purpose::Identity(_)) => {}
        Some(failed) => dispatch(scene, &failed.task, "I am sending a worker once more.", draft),
        None => draft.say("There is no failed task to try again."),
    }
}

fn change_persona(scene: &Scene, words: &str, draft: &mut Draft) {
    let heard = facts::listen(words);
    let changes_agent = heard.agent_name.is_some()
        || !heard.manners.is_empty()
        || heard.emoji.is_some()
        || heard.creature.is_some();
    let changes_user = heard.user_name.is_some() || heard.call.is_some();
    if !changes_agent && !changes_user {
        draft.say("What should I change? For example: “call yourself Nova”, “call me Sam”, “be brief”.");
        return;
    }
    if !scene.has_tool("write") {
        draft.say("I cannot change the identity files here.");
        return;
    }
    if changes_agent {
        change_agent(scene, &heard, draft);
    }
    if changes_user {
        let mut user = scene.persona.user.clone().unwrap_or_default();
        if let Some(name) = &heard.user_name {
            user.set("name", name);
            user.set("call", name);
        }
        if let Some(call) = &heard.call {
            user.set("call", call);
        }
        if user.body.is_empty() {
            user.body =
                format!("# {}", user.field("name").or_else(|| user.field("call")).unwrap_or("The person"));
        }
        write(task::USER_IDENTITY_PATH, &user, draft);
    }
}

fn change_agent(scene: &Scene, heard: &Heard, draft: &mut Draft) {
    let Some(mut agent) = scene.persona.agent.clone() else {
        draft.say("There is no persona to change yet.");
        return;
    };
    let old = agent.field("name").unwrap_or_default().to_owned();
    let new = heard.agent_name.clone().unwrap_or_else(|| old.clone());
    let folder = slug(&new);
    agent.set("name", &new);
    if let Some(emoji) = &heard.emoji {
        agent.set("emoji", emoji);
    }
    if let Some(creature) = &heard.creature {
        agent.set("creature", creature);
    }
    if !heard.manners.is_empty() {
        agent.set("vibe", &heard.manners.join(", "));
    }
    let rename = |document: &mut Document| {
        if !old.is_empty() && old != new {
            document.body = document.body.replace(&old, &new);
        }
    };
    rename(&mut agent);
    write(&format!("state/agents/{folder}/IDENTITY.md"), &agent, draft);
    if old != new
        && let Some(mut soul) = scene.persona.soul.clone()
    {
        soul.set("name", &new);
        rename(&mut soul);
        write(&format!("state/agents/{folder}/SOUL.md"), &soul, draft);
    }
}

fn write(path: &str, document: &Document, draft: &mut Draft) {
    draft.call("write", json!({ "path": path, "content": document.render() }));
}
