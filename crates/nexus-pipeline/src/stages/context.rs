//! Stage five: what a turn knows before it begins. Who answers, with which model and tools, what was said before,
//! and what already taints the conversation.

use std::sync::Arc;

use nexus_agent::history::Past;
use nexus_agent::ports::{Hooks, Spending};
use nexus_agent::{Agent, ContextRecord};
use nexus_base::clock::Timestamp;
use nexus_base::task;
use nexus_protocol::framing::key;
use nexus_protocol::trace::Stage;
use nexus_store::StoreError;
use nexus_store::agents::{ClaimedTurn, Item, ItemKind};
use nexus_tools::ports::Approve;
use nexus_tools::{Role, Taint};

use super::run::BegunTurn;
use crate::sessions::{AgentRequest, Shared, caught, progress, taint};

/// What a turn is taken with.
pub(super) struct Context {
    pub(super) agent: Agent,
    pub(super) hooks: Arc<dyn Hooks>,
    pub(super) approve: Arc<dyn Approve>,
    pub(super) spending: Arc<dyn Spending>,
    pub(super) taint: Arc<Taint>,
    pub(super) past: Past,
    /// What an earlier attempt at the turn was told besides its words.
    pub(super) told: Option<ContextRecord>,
}

/// Puts a turn's context together; the error is for the person.
pub(super) async fn assemble(shared: &Arc<Shared>, turn: &BegunTurn<'_>) -> Result<Context, String> {
    tracing::trace!("stage five: context");
    let (started, watch) = (Timestamp::now(), std::time::Instant::now());
    let context = match caught(gather(shared, turn)).await {
        Ok(context) => context?,
        Err(panic) => {
            tracing::error!(panic, "assembling the context of a turn panicked");
            return Err("an internal error occurred; the log has the details".to_owned());
        }
    };
    progress::passed(shared, &turn.claimed.items, Stage::AssembleContext, started, watch.elapsed());
    Ok(context)
}

async fn gather(shared: &Arc<Shared>, turn: &BegunTurn<'_>) -> Result<Context, String> {
    let (claimed, role) = (turn.claimed, turn.role);
    let broken = |error: StoreError| error.to_string();
    // Nobody knows what a damaged row took away, so what it belongs to is not run.
    for item in &claimed.items {
        item.new.facts.read().map_err(|damage| format!("the ledger is damaged: {damage}"))?;
    }
    let settings = claimed.session.settings.as_ref();
    let settings = settings.map_err(|damage| format!("the ledger is damaged: {damage}"))?;
    let past = shared.pasts.of(&shared.parts.agents, claimed).await.map_err(broken)?;
    let told = told(shared, claimed).await.map_err(broken)?;
    let model = wanted_model(shared, turn.last, role).await.map_err(broken)?;
    let taint = taint::standing(&shared.parts.agents, claimed, role).await.map_err(broken)?;
    let engine = Arc::clone(&shared.parts.engine);
    let (session, settings, item) = (claimed.session.clone(), settings.clone(), turn.last.clone());
    // Identity files, skills and credentials are read here: nothing for a thread that others wait for.
    let made = task::blocking(move || {
        let request = AgentRequest { role, session: &session, settings: &settings, item: &item, model };
        Ok(Context {
            agent: engine.agent(&request)?,
            hooks: engine.hooks(&request),
            approve: engine.approver(&request),
            spending: engine.spending(&request),
            taint,
            past,
            told,
        })
    });
    made.await.map_err(|error| {
        tracing::error!(%error, "context of a turn not assembled");
        "an internal error occurred; the log has the details".to_owned()
    })?
}

/// Returns the model that the message named which a manager's turn goes back to.
async fn wanted_model(shared: &Shared, last: &Item, role: Role) -> Result<Option<String>, StoreError> {
    match (role, last.new.kind) {
        (Role::Worker, _) => Ok(None),
        (Role::Manager, ItemKind::Message) => Ok(named_in(last)),
        (Role::Manager, _) => {
            let root = shared.parts.agents.item_of_request(&last.new.root_request_id).await?;
            Ok(root.as_ref().and_then(named_in))
        }
    }
}

fn named_in(item: &Item) -> Option<String> {
    item.new.facts.get(key::MODEL).map(str::to_owned)
}

async fn told(shared: &Shared, claimed: &ClaimedTurn) -> Result<Option<ContextRecord>, StoreError> {
    if claimed.turn.attempt < 2 {
        return Ok(None);
    }
    let kept = shared.parts.agents.turn_context(&claimed.turn.id).await?;
    // Written by us; one that does not parse was still told.
    Ok(kept.map(|text| serde_json::from_str(&text).unwrap_or_default()))
}
