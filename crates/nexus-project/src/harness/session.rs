//! `session.json`: that a session is under way, and which skill each of its conversations follows.

use std::path::PathBuf;

use nexus_base::clock::Timestamp;
use nexus_base::file::Durability;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

use super::HarnessId;
use crate::{Project, ProjectError, document};

/// Most conversations whose skill is kept; the oldest goes first.
const MAX_CONVERSATIONS: usize = 200;

/// A skill that a conversation follows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveSkill {
    /// Its id.
    pub skill: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    pub since: String,
}

/// A session of a harness in a project.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// When it began.
    pub started_at: String,
    /// Skills by conversation.
    #[serde(default)]
    pub skills: BTreeMap<String, ActiveSkill>,
}

/// Returns the session under way.
///
/// # Errors
/// The file is damaged or cannot be read.
pub fn current(project: &Project, harness: &HarnessId) -> Result<Option<Session>, ProjectError> {
    let path = path(project, harness);
    let Some(bytes) = document::read_bytes(&path)? else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| document::damaged_by(&path, &error))
}

/// Begins a session: nothing of an earlier one is kept.
pub(crate) fn begin(project: &Project, harness: &HarnessId) -> Result<(), ProjectError> {
    let session = Session { started_at: Timestamp::now().to_string(), ..Session::default() };
    save(project, harness, &session)
}

/// Notes what a conversation follows from now on; nothing ends what it followed.
pub(crate) fn follow(
    project: &Project,
    harness: &HarnessId,
    conversation: &str,
    skill: Option<(&str, Option<&str>)>,
) -> Result<(), ProjectError> {
    // A harness may have begun before its session was told of, or somebody threw the state away meanwhile.
    if skill.is_some() {
        project.start(harness)?;
    }
    let _lock = project.write_lock(&[])?;
    let mut session = current(project, harness)?.unwrap_or_default();
    if session.started_at.is_empty() {
        session.started_at = Timestamp::now().to_string();
    }
    match skill {
        Some((skill, mode)) => {
            let active = ActiveSkill {
                skill: skill.to_owned(),
                mode: mode.map(str::to_owned),
                since: Timestamp::now().to_string(),
            };
            session.skills.insert(conversation.to_owned(), active);
        }
        None => {
            if session.skills.remove(conversation).is_none() {
                return Ok(());
            }
        }
    }
    while session.skills.len() > MAX_CONVERSATIONS {
        let oldest = session.skills.iter().min_by(|one, other| one.1.since.cmp(&other.1.since));
        let Some(oldest) = oldest.map(|(name, _)| name.clone()) else { break };
        session.skills.remove(&oldest);
    }
    save(project, harness, &session)
}

pub(super) fn path(project: &Project, harness: &HarnessId) -> PathBuf {
    project.namespace(harness).join("session.json")
}

fn save(project: &Project, harness: &HarnessId, session: &Session) -> Result<(), ProjectError> {
    // A struct of texts always becomes a value.
    let value = serde_json::to_value(session).unwrap_or(Value::Null);
    document::write(&path(project, harness), &value, Durability::Crash)
}
