//! The one entry point of every harness's hooks: what came in is read the same way whoever sent it,
//! the project layer decides, and the answer goes back in the sender's own shape.
//!
//! Nothing here may stop a session: what goes wrong is told beside everything that works, and before a tool call ends
//! as silence, unless the person chose that doubt refuses. What the gate decides by is not doubt: where the project's
//! files cannot be read, the gate itself is shut.

mod answer;
mod bootstrap;
mod patch;
mod payload;

use std::path::{Path, PathBuf};

use nexus_project::Project;
use nexus_project::catalog::Catalog;
use nexus_project::harness::{HarnessId, is_tracked};
use nexus_project::lifecycle::{Decision, Moment, Place, Reply, handle, trouble};
use serde_json::{Map, Value, json};

pub use bootstrap::Clock;

use self::payload::Incoming;
use crate::ground::Ground;
use crate::record::RecordFolder;
use crate::{BindingError, Harness};

/// What a harness tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookEvent {
    /// One of the eight moments.
    Moment(Moment),
    /// The end of a turn, which some harnesses call Stop.
    TurnEnd,
}

impl HookEvent {
    /// Reads a name.
    pub fn parse(name: &str) -> Option<Self> {
        if name == "turn_end" {
            return Some(Self::TurnEnd);
        }
        Moment::parse(name).map(Self::Moment)
    }

    pub fn names() -> Vec<&'static str> {
        Moment::ALL.iter().map(|moment| moment.as_str()).chain(["turn_end"]).collect()
    }
}

/// A hook that was called.
#[derive(Debug)]
pub struct HookCall {
    harness: Harness,
    event: HookEvent,
    incoming: Incoming,
}

/// What surrounds a hook.
#[derive(Debug)]
pub struct Surroundings<'a> {
    /// The folder and the workspace that goes with it.
    pub ground: &'a Ground,
    /// Where it is noted that a hook ran.
    pub records: Option<&'a RecordFolder>,
    /// Time and machine.
    pub clock: Clock,
    /// `CURSOR_VERSION` is set: Cursor runs somebody else's hooks.
    pub inside_cursor: bool,
}

/// What is printed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HookAnswer {
    /// For standard output; empty is silence.
    pub stdout: String,
}

impl HookCall {
    /// Reads what a harness sent. `folder` is where the process runs.
    pub fn read(harness: Harness, event: HookEvent, stdin: &str, folder: &Path) -> Option<Self> {
        let fields = match stdin.trim() {
            "" => Map::new(),
            text => serde_json::from_str(text).ok()?,
        };
        Some(Self { harness, event, incoming: Incoming::new(fields, folder) })
    }

    /// Returns the folder the session works in.
    pub fn folder(&self) -> &Path {
        self.incoming.folder()
    }

    /// Returns the folder that is bound: the nearest one, from the session's upwards, that holds our
    /// hooks for this harness; else the session's.
    pub fn bound_folder(&self) -> PathBuf {
        let file = self.harness.hooks_file();
        let bound = self.folder().ancestors().find(|folder| {
            nexus_base::file::read_text(&folder.join(file), 4 * 1024 * 1024)
                .is_ok_and(|text| text.contains("nexus hook ") || text.contains("nexus:generated"))
        });
        bound.unwrap_or(self.folder()).to_owned()
    }

    /// Answers.
    ///
    /// # Errors
    /// The project's files could not be read or written; the caller decides what doubt means.
    pub fn answer(&self, around: &Surroundings<'_>) -> Result<HookAnswer, BindingError> {
        if self.comes_twice(around) {
            return Ok(HookAnswer::default());
        }
        let reply = match self.event {
            HookEvent::TurnEnd => self.turn_end(around)?,
            HookEvent::Moment(moment) => self.moment(moment, around)?,
        };
        let stdout = answer::render(self.harness, self.event, &reply).unwrap_or_default();
        Ok(HookAnswer { stdout })
    }

    /// Returns what is printed before a tool call about which nothing could be decided, where the person chose that doubt
    /// refuses.
    pub fn refusal(harness: Harness, reason: &str) -> HookAnswer {
        let reply = Reply { decision: Decision::Block, reason: Some(reason.to_owned()), ..Reply::default() };
        let event = HookEvent::Moment(Moment::PreToolUse);
        HookAnswer { stdout: answer::render(harness, event, &reply).unwrap_or_default() }
    }

    fn moment(&self, moment: Moment, around: &Surroundings<'_>) -> Result<Reply, BindingError> {
        let mut reply = match self.in_project(moment, around) {
            Ok(reply) => reply,
            Err(error) if moment == Moment::PreToolUse => return Err(error),
            // It stands where the project would.
            Err(error) if moment == Moment::SessionStart => {
                Reply { context: Some(told(&error)), ..Reply::default() }
            }
            Err(error) => Reply { warnings: vec![told(&error)], ..Reply::default() },
        };
        match moment {
            Moment::SessionStart => {
                let project_text = reply.context.take().unwrap_or_default();
                let session = bootstrap::Session { harness: self.harness, model: self.incoming.model() };
                reply.context = Some(bootstrap::text(around.ground, &around.clock, &session, &project_text));
                if let Some(records) = around.records {
                    // Only `check` looks at the note; a session does not wait for it to work.
                    let _ = records.note_run(around.ground.root(), self.harness);
                }
            }
            Moment::UserMessage
            | Moment::SubagentSpawn
            | Moment::SubagentComplete
            | Moment::PreToolUse
            | Moment::PostToolUse
            | Moment::SessionEnd
            | Moment::ContextCompact => {}
        }
        Ok(reply)
    }

    /// Asks the project layer.
    fn in_project(&self, moment: Moment, around: &Surroundings<'_>) -> Result<Reply, BindingError> {
        if moment == Moment::PreToolUse && self.incoming.text("tool_name").is_none() {
            return Err(BindingError::NoTool);
        }
        let project = self.project()?;
        let (Some(project), Some(payload)) = (&project, self.payload(moment, project.as_ref())?) else {
            return Ok(Reply::default());
        };
        let harness = self.id()?;
        let catalog: &Catalog = around.ground.catalog();
        let place = Place { project, harness: &harness, catalog, tool_log: around.ground.tool_log() };
        // A folder bound in the middle of a session has no beginning to have made its files.
        if matches!(moment, Moment::UserMessage | Moment::SubagentSpawn) {
            project.start(&harness)?;
        }
        Ok(handle(&place, moment, &payload)?)
    }

    /// Puts together what the project layer wants to know; none when this call is none of its business.
    fn payload(
        &self,
        moment: Moment,
        project: Option<&Project>,
    ) -> Result<Option<Map<String, Value>>, BindingError> {
        let incoming = &self.incoming;
        let mut payload = Map::new();
        incoming.name_the_caller(&mut payload);
        payload.insert("folder".to_owned(), json!(incoming.folder()));
        match moment {
            Moment::SessionStart | Moment::SessionEnd | Moment::ContextCompact => {}
            Moment::UserMessage => match incoming.prompt() {
                Some(prompt) => {
                    payload.insert("message".to_owned(), json!(prompt));
                }
                None => return Ok(None),
            },
            Moment::SubagentSpawn => {}
            Moment::SubagentComplete => {
                let Some(id) = payload.get("agent_id").and_then(Value::as_str) else { return Ok(None) };
                // Some harnesses tell of ends without a beginning.
                let known = match project {
                    Some(project) => is_tracked(project, &self.id()?, id)?,
                    None => false,
                };
                if !known {
                    return Ok(None);
                }
                if let Some(words) = incoming.text("last_assistant_message") {
                    payload.insert("last_message".to_owned(), json!(words));
                }
            }
            Moment::PreToolUse | Moment::PostToolUse => {
                let Some(tool) = incoming.text("tool_name") else { return Ok(None) };
                let input = incoming.value("tool_input");
                // A patch that goes through the shell is an edit all the same.
                let tool = if patch::runs_patch(&input) { patch::TOOL } else { tool };
                payload.insert("tool".to_owned(), json!(tool));
                payload.insert("input".to_owned(), input);
            }
        }
        Ok(Some(payload))
    }

    /// Says once in a session, to the person, that everything is done but nothing is archived. It
    /// never asks for another turn, so it cannot go round.
    fn turn_end(&self, around: &Surroundings<'_>) -> Result<Reply, BindingError> {
        if self.incoming.flag("stop_hook_active") || self.incoming.is_subagent() {
            return Ok(Reply::default());
        }
        let Some(project) = self.project()? else { return Ok(Reply::default()) };
        let list = nexus_project::call(&project, nexus_project::Tool::TaskList, &Map::new())?;
        let tasks = list["tasks"].as_array().map(Vec::as_slice).unwrap_or_default();
        let all_done = !tasks.is_empty() && tasks.iter().all(|task| task["status"] == "completed");
        let first = around.records.is_some_and(|records| {
            all_done && records.remind_once(around.ground.root(), self.harness, self.incoming.session())
        });
        let warnings = if first {
            vec![
                "All tasks are completed but not archived: suggest task_close if nothing is missing."
                    .to_owned(),
            ]
        } else {
            Vec::new()
        };
        Ok(Reply { warnings, ..Reply::default() })
    }

    /// Cursor also runs the hooks of Claude Code; a folder bound to both would be told everything twice.
    fn comes_twice(&self, around: &Surroundings<'_>) -> bool {
        let own = around.ground.root().join(".cursor/hooks.json");
        self.harness == Harness::ClaudeCode
            && around.inside_cursor
            && nexus_base::file::read_text(&own, 1024 * 1024)
                .is_ok_and(|text| crate::edit::count_ours(&text) > 0)
    }

    fn project(&self) -> Result<Option<Project>, BindingError> {
        let root: Option<PathBuf> = Project::find(self.folder());
        Ok(match root {
            Some(root) => Some(Project::open(&root)?),
            None => None,
        })
    }

    fn id(&self) -> Result<HarnessId, BindingError> {
        Ok(HarnessId::new(self.harness.as_str())?)
    }
}

fn told(error: &BindingError) -> String {
    match error {
        BindingError::Project(error) => trouble(error),
        other => format!("A part of the project cannot be used: {other}. Tell the person."),
    }
}
