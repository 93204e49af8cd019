//! One run of one automation: its row from the start, its time, its breaker, its end.
//! What the automations of one hook point came to, together.

use std::sync::Arc;
use std::time::Duration;

use nexus_base::clock::Timestamp;
use nexus_base::failpoint;
use nexus_base::id::new_ulid;
use nexus_base::text::shorten;
use nexus_store::runtime::{
    Automation, AutomationMode, AutomationStatus, CircuitState, InvocationEnd, InvocationOutcome,
    NewInvocation,
};

use super::{Ran, Shared};
use crate::hook_point::HookPoint;
use crate::occasion::Occasion;
use crate::ports::{Handler, Run};
use crate::registry::Entry;
use crate::verdict::Verdict;

/// How long an automation may take when its row does not say: one that is waited for, and one that is not.
const WAITED_FOR: Duration = Duration::from_secs(30);
const DETACHED: Duration = Duration::from_secs(5 * 60);
/// How much of an error is kept.
const KEPT_ERROR: usize = 2_000;

/// What came of trying to run an automation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tried {
    /// It ran.
    Done(Verdict),
    /// It failed or took too long.
    Failed {
        /// Why.
        error: String,
    },
    /// It was not run, because it failed too often, or had its one run.
    Skipped,
}

/// Returns the row a run begins with.
pub(super) fn start_row(entry: &Entry, occasion: &Occasion, id: String) -> NewInvocation {
    NewInvocation {
        id,
        automation_id: entry.automation.id.clone(),
        automation_name: entry.automation.definition.name.clone(),
        hook_point: entry.hook.as_str().to_owned(),
        request_id: occasion.request_id.clone(),
        event_id: occasion.event_id.clone(),
        session_label: occasion.session.clone(),
        started_at: Timestamp::now(),
    }
}

impl Shared {
    /// Runs an automation once and writes down how that went.
    pub(super) async fn run(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        occasion: Arc<Occasion>,
        invocation: String,
    ) -> Tried {
        let definition = &entry.automation.definition;
        if !entry.take() {
            // Only a trigger that was kept beforehand has a row to be closed.
            let why = Some("it has already run once".to_owned());
            self.finish(&invocation, end(InvocationOutcome::SkippedCircuit, None, why));
            return Tried::Skipped;
        }
        // Written before anything happens, so that a crash leaves a trace; a row that is there stays.
        self.runtime().invocation_started_later(start_row(entry, &occasion, invocation.clone()));
        if !entry.breaker.admit(Timestamp::now()) {
            entry.give_back();
            self.finish(&invocation, end(InvocationOutcome::SkippedCircuit, None, None));
            return Tried::Skipped;
        }
        let limit = definition
            .timeout_ms
            .map_or(if entry.blocks() { WAITED_FOR } else { DETACHED }, Duration::from_millis);
        let run = Run {
            automation: Arc::clone(&entry.automation),
            hook: entry.hook,
            occasion: Arc::clone(&occasion),
            invocation: invocation.clone(),
            limit,
        };
        let (outcome, tried) = match self.attempt(run).await {
            Attempt::Gave(verdict) => (InvocationOutcome::Ok, Tried::Done(verdict)),
            Attempt::Failed(error) => (InvocationOutcome::Error, self.failed(&error)),
            Attempt::TimedOut => {
                let error = format!("it took longer than {} ms and was stopped", limit.as_millis());
                (InvocationOutcome::Timeout, Tried::Failed { error })
            }
        };
        failpoint::hit("automation.ran");
        if let Some(change) = entry.breaker.ended(outcome == InvocationOutcome::Ok, Timestamp::now()) {
            if change.circuit == CircuitState::Open {
                tracing::warn!(automation = definition.name, "it failed too often and is paused for a while");
            }
            self.runtime().set_circuit_later(&entry.automation, change.circuit, change.opened);
        }
        let (verdict, error) = match &tried {
            Tried::Done(verdict) => (Some(verdict), None),
            Tried::Failed { error } => (None, Some(error.clone())),
            Tried::Skipped => (None, None),
        };
        self.finish(&invocation, end(outcome, verdict, error.clone()));
        let watched = Ran {
            automation: &definition.name,
            hook: entry.hook,
            occasion: &occasion,
            outcome,
            error: error.as_deref(),
        };
        (self.parts.watch)(&watched);
        let is_program = !definition.script_path.starts_with("builtin:");
        if let Some(verdict) =
            verdict.filter(|verdict| is_program && definition.self_improvement && verdict.fired)
        {
            (self.parts.reflect)(&entry.automation, &occasion, verdict);
        }
        self.settle(entry, verdict).await;
        tried
    }

    /// Runs an automation and only tells what came of it.
    pub(super) async fn try_out(&self, automation: Automation, hook: HookPoint, occasion: Occasion) -> Tried {
        let limit = automation.definition.timeout_ms.map_or(WAITED_FOR, Duration::from_millis);
        let run = Run {
            automation: Arc::new(automation),
            hook,
            occasion: Arc::new(occasion),
            invocation: new_ulid(),
            limit,
        };
        match self.attempt(run).await {
            Attempt::Gave(verdict) => Tried::Done(verdict),
            Attempt::Failed(error) => self.failed(&error),
            Attempt::TimedOut => Tried::Failed {
                error: format!("it took longer than {} ms and was stopped", limit.as_millis()),
            },
        }
    }

    /// Switches off what had its one run or asked for it; gives a one-shot its run back otherwise.
    async fn settle(self: &Arc<Self>, entry: &Entry, verdict: Option<&Verdict>) {
        let fired = verdict.is_some_and(|verdict| verdict.fired);
        let reason = match entry.automation.definition.mode {
            _ if verdict.is_some_and(|verdict| verdict.disable) => "it asked to be disabled",
            AutomationMode::OneShot if fired => "it has already run once",
            AutomationMode::OneShot => return entry.give_back(),
            AutomationMode::Persistent => return,
        };
        let name = &entry.automation.definition.name;
        let switched =
            self.runtime().set_automation_status(name, AutomationStatus::Disabled, Some(reason)).await;
        let outcome = match switched {
            Ok(_) => self.reload().await.map(drop),
            Err(error) => Err(error),
        };
        if let Err(error) = outcome {
            tracing::error!(automation = name, %error, "automation not disabled");
        }
    }

    async fn attempt(&self, run: Run) -> Attempt {
        let Some(handler) = self.handler(&run) else {
            let script = &run.automation.definition.script_path;
            return Attempt::Failed(format!("this version has no {script}"));
        };
        let limit = run.limit;
        // In a task of its own: a panic in an automation is that automation's failure.
        let mut task = nexus_base::task::spawn("automation-run", async move { handler.run(&run).await });
        let ended = tokio::time::timeout(limit, &mut task).await;
        match ended {
            Ok(Ok(Ok(verdict))) => Attempt::Gave(verdict),
            Ok(Ok(Err(error))) => Attempt::Failed(error.to_string()),
            Ok(Err(broken)) => Attempt::Failed(format!("it panicked: {broken}")),
            Err(_) => {
                task.abort();
                Attempt::TimedOut
            }
        }
    }

    fn handler(&self, run: &Run) -> Option<Arc<dyn Handler>> {
        match run.automation.definition.script_path.strip_prefix("builtin:") {
            Some(name) => self.parts.builtins.get(name).cloned(),
            None => Some(Arc::clone(&self.parts.programs)),
        }
    }

    fn failed(&self, error: &str) -> Tried {
        Tried::Failed { error: shorten(&self.parts.redactor.redact(error), KEPT_ERROR) }
    }

    fn finish(&self, invocation: &str, end: InvocationEnd) {
        self.runtime().invocation_finished_later(invocation.to_owned(), end);
    }
}

enum Attempt {
    Gave(Verdict),
    Failed(String),
    TimedOut,
}

fn end(outcome: InvocationOutcome, verdict: Option<&Verdict>, error: Option<String>) -> InvocationEnd {
    let cost = verdict.map(|verdict| verdict.cost).unwrap_or_default();
    InvocationEnd {
        outcome,
        fired: verdict.is_some_and(|verdict| verdict.fired),
        result: verdict.map(Verdict::to_row),
        error,
        llm_calls: cost.llm_calls,
        llm_tokens_in: cost.tokens_in,
        llm_tokens_out: cost.tokens_out,
        search_calls: cost.searches,
    }
}

/// The event was dealt with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handled {
    pub by: String,
    /// What the person is told.
    pub reply: Option<String>,
}

/// What the automations of one hook point came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Merged {
    /// Names of those whose triggers were met.
    pub matched: Vec<String>,
    /// Names of those that did something.
    pub fired: Vec<String>,
    /// Pieces of context by name; a later automation replaces an earlier one's piece.
    pub enrich: Vec<(String, String)>,
    /// Somebody dealt with the event.
    pub handled: Option<Handled>,
    /// Session the event should go to instead.
    pub session: Option<String>,
}

impl Merged {
    /// Adds one automation's result; those that failed add nothing.
    pub(super) fn add(&mut self, name: &str, tried: Tried) {
        let Tried::Done(verdict) = tried else { return };
        if !verdict.fired {
            return;
        }
        self.fired.push(name.to_owned());
        for (piece, text) in verdict.enrich {
            match self.enrich.iter_mut().find(|(known, _)| *known == piece) {
                Some((_, older)) => *older = text,
                None => self.enrich.push((piece, text)),
            }
        }
        if verdict.handled {
            self.handled = Some(Handled { by: name.to_owned(), reply: verdict.reply });
        }
        if verdict.session.is_some() {
            self.session = verdict.session;
        }
    }

    /// Adds what a later hook point came to.
    pub fn extend(&mut self, later: Self) {
        self.matched.extend(later.matched);
        self.fired.extend(later.fired);
        for (piece, text) in later.enrich {
            match self.enrich.iter_mut().find(|(known, _)| *known == piece) {
                Some((_, older)) => *older = text,
                None => self.enrich.push((piece, text)),
            }
        }
        self.handled = self.handled.take().or(later.handled);
        self.session = later.session.or(self.session.take());
    }
}
