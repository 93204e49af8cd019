//! The system prompt: who the agent is, the workspace's rules, and how its role works.
//!
//! Nothing that changes from turn to turn stands here (time, sender, model go into the frame of
//! each message), so that the prompt stays byte-identical while the files it is made of do.

mod texts;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use nexus_base::file::{self, FileError};
use nexus_base::id::SessionLabel;
use nexus_base::text::shorten;
use nexus_workspace::Layout;
use nexus_workspace::config::Settings;
use nexus_workspace::persona::{self, Persona, PersonaText};
use nexus_workspace::templates::BOOTSTRAP_MD;
use nexus_workspace::watched::Watched;
use serde::{Deserialize, Serialize};

use nexus_tools::Role;

use crate::channel::Channel;

use self::texts::{CALL_STYLE, MANAGER_RULES, WORKER_RULES};

/// Longest AGENTS.md and BOOTSTRAP.md that are sent, in bytes.
const MAX_RULES_LEN: usize = 32 * 1024;
/// Largest of those files that is looked at.
const MAX_FILE_SIZE: u64 = 1024 * 1024;
/// Longest body of a catalog role, in bytes.
const MAX_ROLE_LEN: usize = 16 * 1024;
/// Most prompts kept: one for each kind of channel and persona.
const MAX_PROMPTS: usize = 16;
/// Ids of written prompts that are remembered; forgotten ones are written again, which changes nothing.
const MAX_WRITTEN: usize = 200;
/// How much of its task a worker's header names; the task itself is its first message.
const NAMED_TASK: usize = 160;

/// One part of a prompt, for `nexus trace --prompt`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptPart {
    /// Name of the part.
    pub name: String,
    /// Its size in bytes.
    pub bytes: usize,
    /// Size before it was cut, when it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut_from: Option<usize>,
}

/// A whole system prompt and what it is made of.
#[derive(Debug, Clone)]
pub struct SystemPrompt {
    pub text: Arc<str>,
    pub hash: String,
    /// Its parts in order.
    pub parts: Vec<PromptPart>,
    /// Whether the onboarding section is in it.
    pub onboarding: bool,
}

/// What an agent was made for, besides being a manager or a worker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Assignment {
    /// A worker's task.
    pub task: Option<String>,
    /// The catalog role it takes.
    pub role: Option<RoleSection>,
}

/// A catalog role as a worker is told about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleSection {
    pub name: String,
    /// What it says.
    pub body: String,
}

/// Where a turn is taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Location<'a> {
    pub(crate) session: &'a SessionLabel,
    pub(crate) channel: Option<&'a Channel>,
}

/// Prompts that were put together lately, until a file they are made of changes.
#[derive(Debug, Default)]
pub struct Prompts {
    kept: Mutex<HashMap<String, Arc<Watched<SystemPrompt>>>>,
    /// Ids of those whose words are written down.
    written: Mutex<HashSet<String>>,
}

impl Prompts {
    /// Tells whether the words of a prompt are known to be written down.
    pub(crate) fn is_kept(&self, id: &str) -> bool {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).contains(id)
    }

    /// Notes that they are.
    pub(crate) fn note_kept(&self, id: &str) {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if written.len() >= MAX_WRITTEN {
            written.clear();
        }
        written.insert(id.to_owned());
    }

    /// Returns the prompt of a role as the workspace is now.
    pub(crate) fn assemble(
        &self,
        layout: &Layout,
        settings: &Settings,
        role: Role,
        location: Location<'_>,
        assignment: &Assignment,
    ) -> Result<SystemPrompt, FileError> {
        tracing::trace!("its prompt is put together");
        let make = || {
            let mut sources = persona::sources(layout);
            sources.extend([layout.agents_md(), layout.bootstrap_md()]);
            Ok((assemble(layout, settings, role, location, assignment)?, sources))
        };
        // A worker has its prompt for itself and is gone soon.
        if role == Role::Worker || *assignment != Assignment::default() {
            return make().map(|(prompt, _)| prompt);
        }
        let key = format!("{:?} {}", location.channel, settings.agent.id.as_deref().unwrap_or_default());
        let watched = {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() >= MAX_PROMPTS {
                kept.clear();
            }
            Arc::clone(kept.entry(key).or_default())
        };
        watched.get(make)
    }
}

/// Puts the system prompt of a role together from the workspace as it is now.
///
/// # Errors
/// A file that exists cannot be read.
pub(crate) fn assemble(
    layout: &Layout,
    settings: &Settings,
    role: Role,
    location: Location<'_>,
    assignment: &Assignment,
) -> Result<SystemPrompt, FileError> {
    let Location { session, channel } = location;
    let persona = persona::active_persona(layout, settings)?;
    let user = match &persona {
        Some(persona) => persona.user.clone(),
        None => persona::read_user(layout)?,
    };
    let mut prompt = Builder::default();
    prompt.part("role", &role_line(role, persona.as_ref(), user.as_ref(), assignment));
    prompt.file("AGENTS.md", "", &layout.agents_md())?;
    if let Some(persona) = &persona {
        prompt.section("Agent Identity", Some(&persona.identity));
        prompt.section("Agent Soul", persona.soul.as_ref());
    }
    prompt.section("User Identity", user.as_ref());
    match role {
        Role::Manager => {
            prompt.part("rules", MANAGER_RULES);
            if let Some(channel) = channel {
                prompt.part("channel", &texts::channel_rules(channel));
            }
        }
        Role::Worker => {
            prompt.part("rules", WORKER_RULES);
            if let Some(role) = assignment.role.as_ref().filter(|_| !is_automation(session)) {
                prompt.capped(
                    "catalog role",
                    &format!("## Your role: {}\n", role.name),
                    role.body.trim(),
                    MAX_ROLE_LEN,
                );
            }
        }
    }
    prompt.part("host", &host_line(layout));
    prompt.part("tool style", CALL_STYLE);
    // What an automation has learnt changes often; everything before it stays as every worker has it.
    if let Some(role) = assignment.role.as_ref().filter(|_| is_automation(session)) {
        prompt.capped(&role.name, "", role.body.trim(), MAX_RULES_LEN);
    }
    let mut onboarding = false;
    // Last, so that the prefix before it survives the end of onboarding.
    if role == Role::Manager {
        let stage = persona::onboarding(layout)?;
        if stage.is_needed() {
            onboarding = true;
            if !prompt.file("onboarding", "## Onboarding\n", &layout.bootstrap_md())? {
                // Somebody removed it while the daemon runs; the next start puts it back.
                prompt.capped("onboarding", "## Onboarding\n", BOOTSTRAP_MD, MAX_RULES_LEN);
            }
        }
        if let Some(note) = stage.note() {
            prompt.part("unfinished onboarding", &format!("## Unfinished Onboarding\n{note}"));
            onboarding = true;
        }
    }
    let hash = nexus_tools::changes::hash_of(prompt.text.as_bytes());
    Ok(SystemPrompt { text: prompt.text.into(), hash, parts: prompt.parts, onboarding })
}

/// Tells whether an automation works for itself in a session.
fn is_automation(session: &SessionLabel) -> bool {
    session.as_str().starts_with("meeseeks:")
}

fn role_line(
    role: Role,
    persona: Option<&Persona>,
    user: Option<&PersonaText>,
    assignment: &Assignment,
) -> String {
    let owner = user
        .and_then(|user| {
            let facts = user.front_matter();
            facts.get("call").or_else(|| facts.get("name")).map(str::to_owned)
        })
        .unwrap_or_else(|| "this workspace's owner".to_owned());
    match (role, persona) {
        (Role::Manager, Some(persona)) => format!(
            "You are {}, the conversation-facing agent for {owner}. You work out what is wanted, delegate to workers \
             and report their results.\n",
            persona.name
        ),
        (Role::Manager, None) => format!(
            "You are the conversation-facing agent for {owner}. You have no name yet. You work out what is wanted, \
             delegate to workers and report their results.\n"
        ),
        (Role::Worker, persona) => {
            let parent = persona.map_or("the manager", |persona| persona.name.as_str());
            let task = assignment.task.as_deref().map(|task| shorten(&one_line(task), NAMED_TASK));
            let task = task.map_or_else(String::new, |task| format!(" to handle: {task}"));
            format!("You are a worker agent sent by {parent}, the assistant of {owner}{task}\n")
        }
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn host_line(layout: &Layout) -> String {
    format!("## Host\n{}; workspace {}\n", nexus_base::host::describe(), layout.root().display())
}

#[derive(Default)]
struct Builder {
    text: String,
    parts: Vec<PromptPart>,
}

impl Builder {
    fn part(&mut self, name: &str, text: &str) {
        self.sized_part(name, text, None);
    }

    fn sized_part(&mut self, name: &str, text: &str, cut_from: Option<usize>) {
        let before = self.text.len();
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(text);
        if !text.ends_with('\n') {
            self.text.push('\n');
        }
        self.parts.push(PromptPart { name: name.to_owned(), bytes: self.text.len() - before, cut_from });
    }

    /// Adds a persona's text, which says itself where it was cut.
    fn section(&mut self, heading: &str, content: Option<&PersonaText>) {
        let Some(content) = content else { return };
        self.sized_part(heading, &format!("## {heading}\n{}", content.text), content.cut_from);
    }

    /// Adds a file of the workspace if it exists; returns whether it does.
    fn file(&mut self, name: &str, heading: &str, path: &std::path::Path) -> Result<bool, FileError> {
        let text = match file::read_text(path, MAX_FILE_SIZE) {
            Ok(text) => text,
            Err(error) if error.source.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        self.capped(name, heading, &without_bindings(&text), MAX_RULES_LEN);
        Ok(true)
    }

    fn capped(&mut self, name: &str, heading: &str, text: &str, most: usize) {
        if text.len() <= most {
            return self.part(name, &format!("{heading}{text}"));
        }
        let kept = &text[..text.floor_char_boundary(most)];
        let cut = format!("{heading}{kept}\n[cut here: {} of {} bytes shown]", kept.len(), text.len());
        self.sized_part(name, &cut, Some(text.len()));
    }
}

/// Leaves out the block that bindings keep there for other harnesses: our own agents have its content
/// from elsewhere.
fn without_bindings(text: &str) -> std::borrow::Cow<'_, str> {
    let block = text.split_once("<!-- nexus:begin -->").and_then(|(before, rest)| {
        let (_, after) = rest.split_once("<!-- nexus:end -->")?;
        Some(format!("{}\n{}", before.trim_end(), after.trim_start()))
    });
    block.map_or(text.into(), Into::into)
}

#[cfg(test)]
mod tests;
