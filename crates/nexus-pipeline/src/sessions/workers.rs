//! Workers: sent off, spoken to, looked at and ended, over `agents.db`.

use std::sync::Arc;

use async_trait::async_trait;
use nexus_agent::ports::{Coordinated, Dispatch};
use nexus_base::conversation::Role;
use nexus_base::id::{QueueItemId, RequestId, SessionLabel, ToolCallId, new_ulid};
use nexus_base::text::shorten;
use nexus_protocol::bus::BusBody;
use nexus_protocol::framing::key;
use nexus_protocol::tool::ToolOutput;
use nexus_store::agents::{
    ClaimedTurn, Item, ItemFacts, ItemKind, ItemMode, NewDispatch, NewItem, NewPost, Redispatch,
    SessionRecord, SessionSettings, TaskStatus,
};
use nexus_tools::Taint;
use nexus_tools::coordination::Coordinate;
use nexus_tools::ports::LedgerError;
use serde_json::{Value, json};

use crate::sessions::broker::Shared;
use crate::sessions::engine::{AssignRequest, Assigned};
use crate::sessions::ledger::ledger_error;

/// Most unfinished workers one session may have; the others of a larger fan-out must wait their turn.
const MAX_OUTSTANDING: u32 = 32;
/// How much of a task is shown in listings and progress.
const SHOWN_TASK: usize = 160;
/// How much of a worker's last words a status shows.
const SHOWN_TAIL: usize = 400;

/// One turn's hands to reach other sessions.
pub(crate) struct TurnDispatch<'a> {
    shared: &'a Arc<Shared>,
    claimed: &'a ClaimedTurn,
    last: &'a Item,
    taint: Arc<Taint>,
}

impl<'a> TurnDispatch<'a> {
    pub(crate) fn new(
        shared: &'a Arc<Shared>,
        claimed: &'a ClaimedTurn,
        last: &'a Item,
        taint: Arc<Taint>,
    ) -> Self {
        Self { shared, claimed, last, taint }
    }
}

#[async_trait]
impl Dispatch for TurnDispatch<'_> {
    async fn coordinate(&self, call: &ToolCallId, what: Coordinate) -> Result<Coordinated, LedgerError> {
        match what {
            Coordinate::Dispatch { text, agent, model, task } => {
                self.dispatch(call, text, agent, model, task).await
            }
            Coordinate::Message { target, text, interrupt } => {
                self.message(call, &target, text, interrupt).await
            }
            Coordinate::Cancel { session } => self.cancel(&session).await,
            Coordinate::List => self.status(None).await,
            Coordinate::Status { session } => self.status(session).await,
        }
    }

    async fn outstanding(&self) -> Result<u32, LedgerError> {
        let outstanding = self.shared.parts.agents.outstanding_workers(&self.claimed.session.label).await;
        outstanding.map_err(|error| ledger_error(&error))
    }
}

impl TurnDispatch<'_> {
    async fn dispatch(
        &self,
        call: &ToolCallId,
        text: String,
        agent: Option<String>,
        model: Option<String>,
        task: Option<u64>,
    ) -> Result<Coordinated, LedgerError> {
        let session = &self.claimed.session;
        let depth = session.depth + 1;
        if depth > self.shared.parts.limits.worker_depth {
            return Ok(told(ToolOutput::error(format!(
                "not dispatched: workers may be nested {} deep and you are at {}; do it yourself or report back",
                self.shared.parts.limits.worker_depth, session.depth
            ))));
        }
        let agents = &self.shared.parts.agents;
        let root = &self.last.new.root_request_id;
        let most = self.shared.parts.limits.workers_per_request;
        if agents.tasks_given(root).await.map_err(|error| ledger_error(&error))? >= most {
            return Ok(told(ToolOutput::error(format!(
                "not dispatched: this request has used its {most} workers (budgets.workers_per_request); do the rest \
                 yourself, or say what is left"
            ))));
        }
        let workers = agents.workers_of(&session.label).await.map_err(|error| ledger_error(&error))?;
        let (agent, model) = (agent.as_deref(), model.as_deref());
        let own = match &session.settings {
            Ok(own) => own,
            Err(damage) => return Ok(told(ToolOutput::error(format!("not dispatched: {damage}")))),
        };
        let wanted =
            AssignRequest { session, settings: own, workers: &workers, text: &text, agent, model, task };
        let Assigned { text, settings, resume } = match self.shared.parts.engine.assign(&wanted).await {
            Ok(assigned) => assigned,
            Err(reason) => return Ok(told(ToolOutput::error(format!("not dispatched: {reason}")))),
        };
        if let Some(label) = resume
            && let Some(done) = self.dispatch_again(call, label, &text, &settings).await?
        {
            return Ok(done);
        }
        let label = SessionLabel::new(format!("worker:{}", new_ulid()));
        let request_id = RequestId::generate();
        let result =
            json!({"dispatch_id": call.as_str(), "spawned_session_label": label.as_str()}).to_string();
        let task = self.item(
            format!("task:{call}"),
            &label,
            request_id.clone(),
            ItemKind::Task,
            vec![(key::DISPATCH, call.to_string()), (key::SENDER, session.label.to_string())],
            text.clone(),
        );
        let new = NewDispatch {
            call: call.clone(),
            result: result.clone(),
            parent: session.label.clone(),
            parent_turn: self.claimed.turn.id.clone(),
            label: label.clone(),
            persona: session.persona.clone(),
            depth,
            settings,
            task,
            most_outstanding: MAX_OUTSTANDING,
        };
        if !agents.dispatch(new).await.map_err(|error| ledger_error(&error))? {
            return Ok(told(ToolOutput::error(format!(
                "not dispatched: you have {MAX_OUTSTANDING} unfinished workers; wait for some of them first"
            ))));
        }
        self.sent_off(&label, request_id, &text);
        Ok(Coordinated { output: ToolOutput::ok(result), recorded: true })
    }

    /// Gives a worker that has reported its next task. Nothing when it cannot take one: then a new one begins, and
    /// nobody is told.
    async fn dispatch_again(
        &self,
        call: &ToolCallId,
        label: SessionLabel,
        text: &str,
        settings: &SessionSettings,
    ) -> Result<Option<Coordinated>, LedgerError> {
        let session = &self.claimed.session;
        let request_id = RequestId::generate();
        let result =
            json!({"dispatch_id": call.as_str(), "spawned_session_label": label.as_str(), "resumed": true});
        let again = Redispatch {
            call: call.clone(),
            result: result.to_string(),
            parent: session.label.clone(),
            parent_turn: self.claimed.turn.id.clone(),
            label: label.clone(),
            settings: settings.clone(),
            task: self.item(
                format!("task:{call}"),
                &label,
                request_id.clone(),
                ItemKind::Task,
                vec![(key::DISPATCH, call.to_string()), (key::SENDER, session.label.to_string())],
                text.to_owned(),
            ),
            most_outstanding: MAX_OUTSTANDING,
        };
        if !self.shared.parts.agents.redispatch(again).await.map_err(|error| ledger_error(&error))? {
            return Ok(None);
        }
        self.sent_off(&label, request_id, text);
        Ok(Some(Coordinated { output: ToolOutput::ok(result.to_string()), recorded: true }))
    }

    fn sent_off(&self, label: &SessionLabel, request_id: RequestId, text: &str) {
        self.shared.parts.observer.publish(
            &self.last.new.root_request_id,
            BusBody::WorkerDispatched {
                parent: self.claimed.session.label.clone(),
                session: label.clone(),
                request_id,
                task: shorten(text, SHOWN_TASK),
            },
        );
        self.shared.wake(label);
    }

    async fn message(
        &self,
        call: &ToolCallId,
        target: &str,
        text: String,
        interrupt: bool,
    ) -> Result<Coordinated, LedgerError> {
        let session = &self.claimed.session;
        let label = match (target, &session.parent) {
            ("parent", Some(parent)) => parent.clone(),
            ("parent", None) => {
                return Ok(told(ToolOutput::error(
                    "you have no parent; what you say reaches the person directly",
                )));
            }
            (label, Some(parent)) if parent.as_str() == label => parent.clone(),
            (label, _) => SessionLabel::new(label),
        };
        if session.parent.as_ref() != Some(&label) && !self.is_own_worker(&label).await? {
            return Ok(told(ToolOutput::error(format!(
                "{label} is neither your parent nor one of your workers; agent_send op=list shows them"
            ))));
        }
        // Only from above: a worker that could cut its parent off would end the person's conversation.
        let interrupts = interrupt && session.parent.as_ref() != Some(&label);
        let mut item = self.item(
            format!("message:{call}"),
            &label,
            RequestId::generate(),
            ItemKind::AgentMessage,
            vec![(key::SENDER, session.label.to_string())],
            text,
        );
        if interrupts {
            item.mode = ItemMode::Interrupt;
        }
        let (id, result) = (item.id.clone(), format!("delivered to {label}"));
        let post = NewPost { call: call.clone(), result: result.clone(), item };
        self.shared.parts.agents.post(post).await.map_err(|error| ledger_error(&error))?;
        self.shared.wake(&label);
        if interrupts {
            self.shared.live.interrupt(&label, &id);
        }
        Ok(Coordinated { output: ToolOutput::ok(result), recorded: true })
    }

    async fn cancel(&self, label: &SessionLabel) -> Result<Coordinated, LedgerError> {
        if !self.is_own_worker(label).await? {
            return Ok(told(ToolOutput::error(format!(
                "{label} is not one of your workers; agent_send op=list shows them"
            ))));
        }
        let count = self
            .shared
            .cancel(label, "cancelled by the agent that started it")
            .await
            .map_err(|error| ledger_error(&error))?;
        Ok(told(ToolOutput::ok(if count == 0 {
            format!("{label} had already ended")
        } else {
            format!("{label} is being cancelled; its result will say so")
        })))
    }

    async fn status(&self, session: Option<SessionLabel>) -> Result<Coordinated, LedgerError> {
        let agents = &self.shared.parts.agents;
        let workers =
            agents.workers_of(&self.claimed.session.label).await.map_err(|error| ledger_error(&error))?;
        let chosen: Vec<&SessionRecord> = workers
            .iter()
            .filter(|worker| session.as_ref().is_none_or(|label| &worker.label == label))
            .collect();
        if let (Some(label), true) = (&session, chosen.is_empty()) {
            return Ok(told(ToolOutput::error(format!("{label} is not one of your workers"))));
        }
        let mut rows = Vec::new();
        for worker in chosen {
            rows.push(self.status_row(worker, session.is_some()).await?);
        }
        Ok(told(ToolOutput::ok(json!({"workers": rows}).to_string())))
    }

    async fn status_row(&self, worker: &SessionRecord, with_tail: bool) -> Result<Value, LedgerError> {
        let mut row = json!({
            "session": worker.label.as_str(),
            "task": shorten(worker.task.as_deref().unwrap_or_default(), SHOWN_TASK),
            "status": worker.task_status.map(TaskStatus::as_str),
            "running": self.shared.live.is_running(&worker.label),
            "depth": worker.depth,
            "updated": worker.updated_at.to_string(),
        });
        if with_tail && let Some(head) = &worker.head_turn_id {
            let turn = self.shared.parts.agents.turn(head).await.map_err(|error| ledger_error(&error))?;
            let words =
                turn.map(|turn| crate::sessions::convert::past_turn(&turn).said()).unwrap_or_default();
            row["last_words"] = Value::String(shorten(&words, SHOWN_TAIL));
            self.read_words_of(&worker.label).await?;
        }
        Ok(row)
    }

    /// Notes that this turn reads what a worker says; whatever that one has read is in its words.
    async fn read_words_of(&self, worker: &SessionLabel) -> Result<(), LedgerError> {
        let agents = &self.shared.parts.agents;
        let read = agents.newest_taint(worker).await.map_err(|error| ledger_error(&error))?;
        let Some(read) = read else { return Ok(()) };
        for source in read.sources.lines() {
            self.taint.add(source);
        }
        let sources = self.taint.stored().unwrap_or(read.sources);
        let written = agents.taint_turn(&self.claimed.turn.id, sources).await;
        written.map_err(|error| ledger_error(&error))
    }

    /// Says whether `label` is below this session, at any depth.
    async fn is_own_worker(&self, label: &SessionLabel) -> Result<bool, LedgerError> {
        let mut next = Some(label.clone());
        for _ in 0..=self.shared.parts.limits.worker_depth {
            let Some(current) = next else { return Ok(false) };
            let found =
                self.shared.parts.agents.session(&current).await.map_err(|error| ledger_error(&error))?;
            let Some(found) = found else { return Ok(false) };
            if found.parent.as_ref() == Some(&self.claimed.session.label) {
                return Ok(found.role == Role::Worker);
            }
            next = found.parent;
        }
        Ok(false)
    }

    fn item(
        &self,
        id: String,
        session: &SessionLabel,
        request_id: RequestId,
        kind: ItemKind,
        mut facts: Vec<(&str, String)>,
        content: String,
    ) -> NewItem {
        // Whatever a run hands on may hold what it read.
        facts.extend(self.taint.fact().map(|sources| (key::UNTRUSTED, sources)));
        NewItem {
            id: QueueItemId::new(id),
            session: session.clone(),
            request_id,
            parent_request_id: Some(self.last.new.request_id.clone()),
            root_request_id: self.last.new.root_request_id.clone(),
            source_event_id: None,
            kind,
            mode: ItemMode::Followup,
            facts: ItemFacts::new(facts),
            content,
            // A worker never gets more than the one who sent it.
            permissions: self.last.new.permissions.clone(),
        }
    }
}

/// Says whether a worker has not reported yet.
pub(crate) const fn is_unfinished(worker: &SessionRecord) -> bool {
    match worker.task_status {
        Some(TaskStatus::Pending | TaskStatus::Running) => true,
        Some(TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Cancelled) | None => false,
    }
}

fn told(output: ToolOutput) -> Coordinated {
    Coordinated { output, recorded: false }
}
