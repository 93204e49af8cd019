//! Automations over the control plane: registered, tried out, switched and removed. What is changed here
//! holds from the next passage of a hook point on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nexus_automation::{
    EventFacts, Handler as _, HookPoint, Occasion, PrincipalFacts, Programs, RegisterError, Registration,
    Run, Tried, register,
};
use nexus_base::id::new_ulid;
use nexus_protocol::automations::{AutomationMode as WireMode, AutomationRegister, AutomationTest};
use nexus_protocol::control::answers::{
    AutomationRemoved, AutomationTried, AutomationView, Automations, Invocations,
};
use nexus_protocol::control::{InvocationsOf, Named, Nothing};
use nexus_store::runtime::{Automation, AutomationMode, AutomationStatus, Invocation};
use serde_json::{Value, json};

use crate::RuntimeError;
use crate::call::{Call, invalid, missing, rows, typed};

/// How long a program that is tried out without a daemon may take when its row does not say.
const DEFAULT_LIMIT: Duration = Duration::from_secs(30);

pub(crate) async fn list(call: &Call<'_>, _: Nothing) -> Result<Automations, RuntimeError> {
    let rows = call.store.runtime().list_automations().await?;
    typed(&json!({ "automations": rows.iter().map(view).collect::<Vec<_>>() }))
}

pub(crate) async fn get(call: &Call<'_>, named: Named) -> Result<AutomationView, RuntimeError> {
    typed(&view(&found(call, &named.id).await?))
}

pub(crate) async fn invocations(call: &Call<'_>, of: InvocationsOf) -> Result<Invocations, RuntimeError> {
    let limit = u32::try_from(rows(of.limit)?).unwrap_or(u32::MAX);
    let found = call.store.runtime().list_invocations(of.name.as_deref(), limit).await?;
    typed(&json!({ "invocations": found.iter().map(invocation_view).collect::<Vec<_>>() }))
}

pub(crate) async fn enable(call: &Call<'_>, named: Named) -> Result<AutomationView, RuntimeError> {
    switch(call, named, AutomationStatus::Active, None).await
}

pub(crate) async fn disable(call: &Call<'_>, named: Named) -> Result<AutomationView, RuntimeError> {
    switch(call, named, AutomationStatus::Disabled, Some("disabled by the owner")).await
}

async fn switch(
    call: &Call<'_>,
    named: Named,
    status: AutomationStatus,
    reason: Option<&str>,
) -> Result<AutomationView, RuntimeError> {
    if !call.store.runtime().set_automation_status(&named.id, status, reason).await? {
        return Err(missing("automation", named.id));
    }
    put_in_force(call).await?;
    get(call, named).await
}

pub(crate) async fn add(call: &Call<'_>, wanted: AutomationRegister) -> Result<AutomationView, RuntimeError> {
    let hash = wanted.hash.clone();
    let registration = registration(wanted)?;
    let name = registration.name.clone();
    register(call.store, call.layout(), registration, &hash).await.map_err(refused)?;
    put_in_force(call).await?;
    get(call, Named { id: name }).await
}

pub(crate) async fn remove(call: &Call<'_>, named: Named) -> Result<AutomationRemoved, RuntimeError> {
    if found(call, &named.id).await?.definition.bundled {
        return Err(RuntimeError::Invalid {
            message: format!("{} comes with Nexus and cannot be removed", named.id),
            hint: Some("automations.disable disables it permanently".to_owned()),
        });
    }
    let removed = call.store.runtime().remove_automation(&named.id).await?;
    put_in_force(call).await?;
    Ok(AutomationRemoved { name: named.id, removed })
}

pub(crate) async fn test(call: &Call<'_>, test: AutomationTest) -> Result<AutomationTried, RuntimeError> {
    let found = found(call, &test.id).await?;
    let is_ours = found.definition.script_path.starts_with("builtin:");
    if is_ours {
        // Ours work inside a daemon.
        call.daemon()?;
    } else if !call.options.standing().is_trusted() {
        return Err(RuntimeError::Forbidden {
            reason: "this workspace is not trusted, so its programs are not run".to_owned(),
        });
    }
    let started = Instant::now();
    let occasion = sample(test.data);
    let tried = match call.running {
        Some(operations) => operations.daemon().automations.runner.try_out(found, occasion).await,
        None => run_alone(call, found, occasion).await,
    };
    let (outcome, result, error) = match tried {
        Tried::Done(verdict) => ("ok", verdict.to_json(), None),
        Tried::Failed { error } => ("error", Value::Null, Some(error)),
        Tried::Skipped => ("skipped", Value::Null, None),
    };
    let took = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let outcome = outcome.to_owned();
    Ok(AutomationTried { name: test.id, outcome, duration_ms: took, result, error })
}

/// Runs a program of the owner's once, with no daemon around it.
async fn run_alone(call: &Call<'_>, row: Automation, occasion: Occasion) -> Tried {
    let options = call.options;
    let programs = Programs::new(options.layout.clone(), options.home.clone(), Arc::clone(&options.redactor));
    let run = Run {
        hook: HookPoint::parse(&row.definition.hook_point).unwrap_or(HookPoint::RunAutomations),
        limit: row.definition.timeout_ms.map_or(DEFAULT_LIMIT, Duration::from_millis),
        automation: Arc::new(row),
        occasion: Arc::new(occasion),
        invocation: new_ulid(),
    };
    match programs.run(&run).await {
        Ok(verdict) => Tried::Done(verdict),
        Err(error) => Tried::Failed { error: error.to_string() },
    }
}

async fn found(call: &Call<'_>, name: &str) -> Result<Automation, RuntimeError> {
    call.store.runtime().automation(name).await?.ok_or_else(|| missing("automation", name))
}

/// What was changed holds from the next passage of a hook point on.
async fn put_in_force(call: &Call<'_>) -> Result<(), RuntimeError> {
    if let Some(operations) = call.running {
        operations.daemon().automations.load().await?;
    }
    Ok(())
}

/// Returns an occasion to try an automation out with.
fn sample(data: Option<Value>) -> Occasion {
    Occasion {
        request_id: None,
        event_id: None,
        session: None,
        principal: Some(PrincipalFacts { kind: "owner".to_owned(), ..PrincipalFacts::default() }),
        event: Some(EventFacts {
            platform: "test".to_owned(),
            kind: "message".to_owned(),
            direction: "inbound".to_owned(),
            content: "This is a trial run.".to_owned(),
        }),
        data: data
            .unwrap_or_else(|| json!({"task": "This is a trial run.", "words": "This is a trial run."})),
    }
}

fn registration(wanted: AutomationRegister) -> Result<Registration, RuntimeError> {
    let hook_point = HookPoint::parse(&wanted.hook_point).ok_or_else(|| {
        let names: Vec<&str> = HookPoint::ALL.iter().map(|hook| hook.as_str()).collect();
        invalid(format!("there is no hook point {:?}; use one of {}", wanted.hook_point, names.join(", ")))
    })?;
    Ok(Registration {
        name: wanted.name,
        script: wanted.script.into(),
        hook_point,
        description: wanted.description,
        blocking: wanted.blocking,
        mode: match wanted.mode {
            WireMode::Persistent => AutomationMode::Persistent,
            WireMode::OneShot => AutomationMode::OneShot,
        },
        timeout: wanted.timeout_ms.map(Duration::from_millis),
        workspace: wanted.workspace,
        peers: wanted.peers,
        self_improvement: wanted.self_improvement,
        network: wanted.network,
        triggers: wanted.triggers,
        config: wanted.config,
    })
}

fn refused(error: RegisterError) -> RuntimeError {
    match error {
        RegisterError::Store(error) => error.into(),
        RegisterError::Name(_)
        | RegisterError::NameTaken(_)
        | RegisterError::Program(_)
        | RegisterError::Changed { .. }
        | RegisterError::Invalid(_)
        | RegisterError::File(_) => {
            RuntimeError::Invalid { message: nexus_base::error::chain(&error), hint: error.hint() }
        }
    }
}

/// Returns an automation as listings show it.
fn view(row: &Automation) -> Value {
    json!({
        "name": row.definition.name,
        "description": row.definition.description,
        "hookPoint": row.definition.hook_point,
        "status": row.status.as_str(),
        "disabledReason": row.disabled_reason,
        "mode": row.definition.mode.as_str(),
        "script": row.definition.script_path,
        "hash": row.definition.script_hash,
        "workspace": row.definition.workspace_dir,
        "peers": row.definition.peer_workspaces,
        "triggers": row.definition.triggers,
        "config": row.definition.config,
        "bundled": row.definition.bundled,
        "blocking": row.definition.blocking,
        "timeoutMs": row.definition.timeout_ms,
        "triggerCount": row.trigger_count,
        "lastTriggered": row.last_triggered,
        "lastError": row.last_error,
        "consecutiveErrors": row.consecutive_errors,
        "circuit": row.circuit_state.as_str(),
    })
}

/// Returns a run as listings show it.
fn invocation_view(row: &Invocation) -> Value {
    json!({
        "id": row.start.id,
        "automation": row.start.automation_name,
        "hookPoint": row.start.hook_point,
        "requestId": row.start.request_id,
        "session": row.start.session_label,
        "startedAt": row.start.started_at,
        "finishedAt": row.finished_at,
        "latencyMs": row.latency_ms,
        "outcome": row.outcome.map(|outcome| outcome.as_str()),
        "fired": row.fired,
        "result": row.result,
        "error": row.error,
    })
}
