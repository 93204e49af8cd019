//! The eight moments of a session, for any harness: what is written down at each, what an agent is told, and what
//! may not happen.
//!
//! Input is a project, the harness, the moment's name and a JSON object; output is a [`Reply`]. Nothing here knows how
//! a harness delivers it. State is read fresh from disk each time, so a reply holds for whoever asks.

mod facts;
mod message;
mod session;
mod subagent;
mod toolcall;

use std::path::PathBuf;

use nexus_base::words;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::catalog::Catalog;
use crate::harness::{HarnessId, ToolLog};
use crate::{Project, ProjectError};

words! {
    /// A moment.
    pub enum Moment {
        /// A session begins.
        SessionStart = "session_start",
        /// The person said something.
        UserMessage = "user_message",
        /// An instance is about to start.
        SubagentSpawn = "subagent_spawn",
        /// An instance ended.
        SubagentComplete = "subagent_complete",
        /// A tool is about to be called.
        PreToolUse = "pre_tool_use",
        /// A tool was called.
        PostToolUse = "post_tool_use",
        /// The session ends.
        SessionEnd = "session_end",
        /// The conversation was shortened.
        ContextCompact = "context_compact",
    }
}

/// Whether what is about to happen may.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// It may.
    #[default]
    Allow,
    /// It may not; the reason says what to do instead.
    Block,
}

/// What an inline action came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Done {
    /// Who did it.
    pub handler: String,
    /// It was done.
    pub ok: bool,
    /// What came of it, for the person.
    pub message: String,
}

/// What a moment gives.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Reply {
    /// Whether it may go on.
    pub decision: Decision,
    /// Why not, and what to do instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What the agent is to be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// What the person should know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Inline actions of the message.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<Done>,
    /// The skill the conversation follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_skill: Option<String>,
    /// Whether an instance goes on, and which.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume: Option<Value>,
    /// Tools of this layer the instance must not have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub denied_tools: Vec<String>,
    /// Files the instance changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files_touched: Vec<String>,
}

impl Reply {
    /// Returns the reply as JSON.
    pub fn to_value(&self) -> Value {
        // A struct of texts always becomes a value.
        serde_json::to_value(self).unwrap_or(Value::Null)
    }

    fn block(reason: String) -> Self {
        Self { decision: Decision::Block, reason: Some(reason), ..Self::default() }
    }

    fn telling(context: String) -> Self {
        Self { context: (!context.trim().is_empty()).then_some(context), ..Self::default() }
    }
}

/// Where a moment happens.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    pub project: &'a Project,
    pub harness: &'a HarnessId,
    /// The catalog in force.
    pub catalog: &'a Catalog,
    /// Where tool calls are written down.
    pub tool_log: ToolLog,
}

impl Place<'_> {
    fn log(&self) -> PathBuf {
        self.tool_log.path(self.project, self.harness)
    }
}

/// Deals with a moment. May wait for another writer or for git, so it belongs on a thread that may.
///
/// # Errors
/// A needed field is missing, or a file is damaged or cannot be written.
pub fn handle(
    place: &Place<'_>,
    moment: Moment,
    payload: &Map<String, Value>,
) -> Result<Reply, ProjectError> {
    let payload = Payload(payload);
    match moment {
        Moment::SessionStart => session::start(place),
        Moment::UserMessage => message::user_message(place, &payload),
        Moment::SubagentSpawn => subagent::spawn(place, &payload),
        Moment::SubagentComplete => subagent::complete(place, &payload),
        Moment::PreToolUse => toolcall::before(place, &payload),
        Moment::PostToolUse => toolcall::after(place, &payload),
        Moment::SessionEnd => session::end(place),
        Moment::ContextCompact => session::compact(place, &payload),
    }
}

/// Says that a part of a project cannot be used, why, and what to do about it.
pub fn trouble(error: &ProjectError) -> String {
    let help = match error {
        ProjectError::Damaged { .. } => {
            " Until someone repairs the file or moves it away, nothing that needs it works."
        }
        ProjectError::Refused(_)
        | ProjectError::Parameter(_)
        | ProjectError::TooLarge { .. }
        | ProjectError::Busy { .. }
        | ProjectError::NotAFolder { .. }
        | ProjectError::File(_)
        | ProjectError::Jail(_) => "",
    };
    format!("A part of the project cannot be used: {}.{help} Tell the person.", error.message())
}

/// Who speaks when a payload names nobody.
const LEAD: &str = "lead";

/// The fields that came with a moment.
#[derive(Debug, Clone, Copy)]
struct Payload<'a>(&'a Map<String, Value>);

impl<'a> Payload<'a> {
    fn text(&self, name: &str) -> Option<&'a str> {
        self.0.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    fn needed(&self, name: &str) -> Result<&'a str, ProjectError> {
        self.text(name).ok_or_else(|| ProjectError::Parameter(format!("{name} is missing")))
    }

    fn texts(&self, name: &str) -> Vec<String> {
        let list = self.0.get(name).and_then(Value::as_array).into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.0.get(name).and_then(Value::as_u64)
    }

    fn value(&self, name: &str) -> &'a Value {
        self.0.get(name).unwrap_or(&Value::Null)
    }

    /// Which conversation of the session this is about.
    fn conversation(&self) -> &'a str {
        self.text("conversation").unwrap_or(LEAD)
    }
}
