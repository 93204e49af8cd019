//! What sessions need from the runtime above them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nexus_agent::Agent;
use nexus_agent::ports::{Free, Hooks, NoHooks, Spending};
use nexus_base::clock::Timestamp;
use nexus_base::id::{RequestId, SessionLabel};
use nexus_protocol::bus::BusBody;
use nexus_protocol::trace::Stage;
use nexus_store::StoreError;
use nexus_store::agents::{Item, OutboxRecord, SessionRecord, SessionSettings, TurnRecord};
use nexus_tools::Role;
use nexus_tools::ports::{Approve, NobodyToAsk};

/// Which agent is wanted.
#[derive(Debug)]
pub struct AgentRequest<'a> {
    /// Manager or worker.
    pub role: Role,
    /// The session that takes the turn.
    pub session: &'a SessionRecord,
    /// What was fixed when it was made.
    pub settings: &'a SessionSettings,
    /// The newest item it answers.
    pub item: &'a Item,
    /// The model that the message asked for which this goes back to.
    pub model: Option<String>,
}

/// A worker that is wanted.
#[derive(Debug)]
pub struct AssignRequest<'a> {
    /// The session that sends it.
    pub session: &'a SessionRecord,
    /// What was fixed when that one was made.
    pub settings: &'a SessionSettings,
    /// The sender's workers so far, newest last.
    pub workers: &'a [SessionRecord],
    /// What it is to do.
    pub text: &'a str,
    /// Catalog role it should take.
    pub agent: Option<&'a str>,
    /// Model it should use.
    pub model: Option<&'a str>,
    /// Task of the project it should do.
    pub task: Option<u64>,
}

/// How a worker is sent off.
#[derive(Debug, Clone, PartialEq)]
pub struct Assigned {
    /// What it is told.
    pub text: String,
    /// Settings of its session.
    pub settings: SessionSettings,
    /// The worker that goes on instead of a new one.
    pub resume: Option<SessionLabel>,
}

/// Puts agents together and frames what they are told.
#[async_trait]
pub trait Engine: Send + Sync {
    /// Returns the agent for a session's next turn; the error is for the person.
    fn agent(&self, request: &AgentRequest<'_>) -> Result<Agent, String>;

    /// Returns those who stand around the turn.
    fn hooks(&self, request: &AgentRequest<'_>) -> Arc<dyn Hooks> {
        let _ = request;
        Arc::new(NoHooks)
    }

    /// Returns who is asked when a call needs consent.
    fn approver(&self, request: &AgentRequest<'_>) -> Arc<dyn Approve> {
        let _ = request;
        Arc::new(NobodyToAsk)
    }

    /// Returns where the turn's costs are counted.
    fn spending(&self, request: &AgentRequest<'_>) -> Arc<dyn Spending> {
        let _ = request;
        Arc::new(Free)
    }

    /// Settles how a worker is sent off: what it is told, what it is, and whether an earlier one goes on. The
    /// error is for the model.
    async fn assign(&self, request: &AssignRequest<'_>) -> Result<Assigned, String> {
        match (request.agent, request.task) {
            (Some(agent), _) => {
                Err(format!("no catalog role {agent:?} is installed here; leave `agent` out"))
            }
            (None, Some(_)) => {
                Err("this session has no project, so it has no tasks; leave `task` out".to_owned())
            }
            (None, None) => Ok(Assigned {
                text: request.text.to_owned(),
                settings: SessionSettings {
                    model: request.model.map(str::to_owned),
                    ..SessionSettings::default()
                },
                resume: None,
            }),
        }
    }

    /// Returns what renders the context block that stands before an item's words. It runs inside the
    /// claim, on the ledger's own thread: whatever has to be looked up is looked up before. `worker` is the session
    /// where it is a worker's.
    fn framer(&self, worker: Option<&SessionRecord>) -> Framer;

    /// Returns what the assistant is called now; empty before it has a name.
    fn speaker(&self) -> String;
}

/// Renders the context block of one item.
pub type Framer = Box<dyn Fn(&Item) -> String + Send>;

/// One request passing one stage.
#[derive(Debug)]
pub struct Passage<'a> {
    pub request: &'a RequestId,
    /// The tree it belongs to.
    pub root: &'a RequestId,
    pub stage: Stage,
    /// When it began.
    pub started: Timestamp,
    /// How long it took.
    pub took: Duration,
}

/// One request that ended.
#[derive(Debug)]
pub struct Ended<'a> {
    pub item: &'a Item,
    /// The turn that took it, if one did.
    pub turn: Option<&'a TurnRecord>,
    /// What was said for it.
    pub lines: &'a [OutboxRecord],
}

/// Is told what happens. Nothing waits for it and nothing depends on it, except that `project`
/// must be repeatable: it is called again after a crash for whatever was not marked.
#[async_trait]
pub trait Observer: Send + Sync {
    /// Something worth showing.
    fn publish(&self, root: &RequestId, body: BusBody);

    /// A request took a place in a turn.
    fn taken(&self, item: &Item, session: &SessionRecord);

    /// A request passed a stage.
    fn passed(&self, passage: &Passage<'_>);

    /// A request ended and its lines are delivered: tell the other files (S8). Only what returns
    /// `Ok` is marked as told.
    async fn project(&self, ended: &Ended<'_>) -> Result<(), StoreError>;
}
