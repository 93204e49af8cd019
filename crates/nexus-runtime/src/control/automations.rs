//! Automations over the control plane: registered, tried out, switched and removed. What is changed here
//! holds from the next passage of a hook point on.

use std::time::{Duration, Instant};

use nexus_automation::{
    EventFacts, HookPoint, Occasion, PrincipalFacts, RegisterError, Registration, Tried, register,
};
use nexus_protocol::automations::{AutomationMode as WireMode, AutomationRegister, AutomationTest};
use nexus_protocol::control::Named;
use nexus_protocol::control::answers::{AutomationRemoved, AutomationTried};
use nexus_store::runtime::{AutomationMode, AutomationStatus};
use serde_json::{Value, json};

use super::{invalid, missing, shown};
use crate::{Runtime, RuntimeError};

impl Runtime {
    pub(super) async fn automation_switch(&self, named: Named, on: bool) -> Result<Value, RuntimeError> {
        let status = if on { AutomationStatus::Active } else { AutomationStatus::Disabled };
        let reason = (!on).then_some("disabled by the owner");
        if !self.shared.store.runtime().set_automation_status(&named.id, status, reason).await? {
            return Err(missing("automation", named.id));
        }
        self.shared.automations.load().await?;
        self.automation_get(named).await
    }

    pub(super) async fn automation_register(
        &self,
        wanted: AutomationRegister,
    ) -> Result<Value, RuntimeError> {
        let hash = wanted.hash.clone();
        let registration = read(wanted)?;
        let name = registration.name.clone();
        let layout = &self.shared.control.options.layout;
        register(&self.shared.store, layout, registration, &hash).await.map_err(refused)?;
        self.shared.automations.load().await?;
        self.automation_get(Named { id: name }).await
    }

    pub(super) async fn automation_remove(&self, named: Named) -> Result<Value, RuntimeError> {
        let Some(found) = self.shared.store.runtime().automation(&named.id).await? else {
            return Err(missing("automation", named.id));
        };
        if found.definition.bundled {
            return Err(RuntimeError::Invalid {
                message: format!("{} comes with Nexus and cannot be removed", named.id),
                hint: Some("automations.disable disables it permanently".to_owned()),
            });
        }
        let removed = self.shared.store.runtime().remove_automation(&named.id).await?;
        self.shared.automations.load().await?;
        shown(&AutomationRemoved { name: named.id, removed })
    }

    pub(super) async fn automation_test(&self, test: AutomationTest) -> Result<Value, RuntimeError> {
        let Some(found) = self.shared.store.runtime().automation(&test.id).await? else {
            return Err(missing("automation", test.id));
        };
        let is_ours = found.definition.script_path.starts_with("builtin:");
        if !is_ours && !self.shared.control.options.standing().is_trusted() {
            return Err(RuntimeError::Forbidden {
                reason: "this workspace is not trusted, so its programs are not run".to_owned(),
            });
        }
        let started = Instant::now();
        let occasion = sample(test.data);
        let tried = self.shared.automations.runner.try_out(found, occasion).await;
        let (outcome, result, error) = match tried {
            Tried::Done(verdict) => ("ok", verdict.to_json(), None),
            Tried::Failed { error } => ("error", Value::Null, Some(error)),
            Tried::Skipped => ("skipped", Value::Null, None),
        };
        let took = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let outcome = outcome.to_owned();
        shown(&AutomationTried { name: test.id, outcome, duration_ms: took, result, error })
    }
}

/// Returns an occasion to try an automation out with.
pub fn sample(data: Option<Value>) -> Occasion {
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

fn read(wanted: AutomationRegister) -> Result<Registration, RuntimeError> {
    let hook_point = HookPoint::of_row(&wanted.hook_point).ok_or_else(|| {
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
