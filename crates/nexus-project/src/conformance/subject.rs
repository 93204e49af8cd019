//! Who is asked: something that can be called like the eleven tools and told of lifecycle events.

use std::path::Path;

use serde_json::{Map, Value};

use crate::catalog::Catalog;
use crate::harness::{self, Completion, HarnessId, ToolLog};
use crate::lifecycle::{self, Moment, Place};
use crate::tools::{Tool, call};
use crate::{Project, ProjectError};

/// A moment in the life of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// An instance starts.
    AgentSpawn {
        /// Its role.
        agent_name: String,
        agent_id: String,
    },
    /// An instance ends.
    AgentComplete {
        agent_id: String,
        /// The last it said.
        last_message: Option<String>,
        /// Files it changed.
        files_touched: Vec<String>,
    },
    /// An instance goes on.
    AgentResume { agent_id: String },
    /// A memory file's content was read.
    MemoryRead {
        /// The file, relative to the project.
        path: String,
        reader: String,
    },
    /// The session ends.
    SessionEnd,
}

/// Why a call gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// The implementation was asked and refuses, which a fixture may want.
    #[error("{0}")]
    Refused(String),
    /// It was never asked or never answered, which no fixture can want.
    #[error("{0}")]
    Unreachable(String),
}

/// An implementation under test.
pub trait Subject {
    /// Calls a tool in the project at `root`.
    fn call(&mut self, root: &Path, tool: &str, parameters: &Map<String, Value>) -> Result<Value, NoAnswer>;

    /// Tells of an event in the project at `root`.
    ///
    /// # Errors
    /// What the implementation says when it cannot take it.
    fn event(&mut self, root: &Path, harness: &str, event: &Event) -> Result<(), String>;

    /// Returns whether it can be told of anything.
    fn takes_events(&self) -> bool {
        true
    }

    /// Tells of one of the eight moments in the project at `root` and returns what comes of it.
    ///
    /// # Errors
    /// What the implementation says when it cannot take it.
    fn moment(
        &mut self,
        root: &Path,
        harness: &str,
        moment: Moment,
        payload: &Map<String, Value>,
    ) -> Result<Value, String> {
        let _ = payload;
        if moment == Moment::SessionEnd {
            return self.event(root, harness, &Event::SessionEnd).map(|()| Value::Object(Map::new()));
        }
        Err(format!("it does not receive {}", moment.as_str()))
    }
}

/// This library.
#[derive(Debug, Clone, Copy, Default)]
pub struct Library;

impl Subject for Library {
    fn call(&mut self, root: &Path, tool: &str, parameters: &Map<String, Value>) -> Result<Value, NoAnswer> {
        let named = Tool::named(tool);
        let tool = named.ok_or_else(|| NoAnswer::Unreachable(format!("there is no tool {tool}")))?;
        let run = || call(&Project::open(root)?, tool, parameters);
        run().map_err(|error: ProjectError| NoAnswer::Refused(error.message()))
    }

    fn event(&mut self, root: &Path, harness: &str, event: &Event) -> Result<(), String> {
        let run = || {
            let project = Project::open(root)?;
            let harness = HarnessId::new(harness)?;
            match event {
                Event::AgentSpawn { agent_name, agent_id } => {
                    harness::spawned(&project, &harness, agent_name, agent_id)
                }
                Event::AgentComplete { agent_id, last_message, files_touched } => {
                    let completion = Completion {
                        last_message: last_message.clone(),
                        files_touched: files_touched.clone(),
                    };
                    harness::completed(&project, &harness, agent_id, &completion)
                }
                Event::AgentResume { agent_id } => harness::resumed(&project, &harness, agent_id),
                Event::MemoryRead { path, reader } => {
                    harness::record_read(&project, &harness, Path::new(path), reader)
                }
                Event::SessionEnd => harness::session_ended(&project, &harness),
            }
        };
        run().map_err(|error: ProjectError| error.message())
    }

    fn moment(
        &mut self,
        root: &Path,
        harness: &str,
        moment: Moment,
        payload: &Map<String, Value>,
    ) -> Result<Value, String> {
        let catalog = Catalog::embedded().map_err(|error| error.to_string())?;
        let run = || {
            let (project, harness) = (Project::open(root)?, HarnessId::new(harness)?);
            let place = Place {
                project: &project,
                harness: &harness,
                catalog: &catalog,
                tool_log: ToolLog::default(),
            };
            lifecycle::handle(&place, moment, payload)
        };
        run().map(|reply| reply.to_value()).map_err(|error: ProjectError| error.message())
    }
}
