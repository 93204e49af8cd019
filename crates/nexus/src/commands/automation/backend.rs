//! Access to the automations: through the daemon, or over the files while none is running.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nexus_automation::{Handler as _, HookPoint, Programs, Registration, Run, register};
use nexus_base::id::new_ulid;
use nexus_base::redact::Redactor;
use nexus_client::Client;
use nexus_protocol::automations::{AutomationMode, AutomationRegister, AutomationTest};
use nexus_protocol::control::{InvocationsOf, Named};
use nexus_protocol::methods::Method;
use nexus_runtime::{automation_view, invocation_view, sample};
use nexus_store::runtime::{Automation, AutomationStatus};
use nexus_store::{OpenMode, Store};
use nexus_workspace::Layout;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::super::{Reached, reach};
use crate::context::{Context, standing};
use crate::failure::{Exit, Failure};

/// How long a program that is tried out may take when its row does not say.
const LIMIT: Duration = Duration::from_secs(30);

/// Access to the automations.
pub(super) struct Backend(Reached);

impl Backend {
    /// Looks only.
    pub(super) fn to_read(context: &Context) -> Result<Self, Failure> {
        reach(context, OpenMode::ReadOnly).map(Self)
    }

    /// Changes something.
    pub(super) fn to_write(context: &Context) -> Result<Self, Failure> {
        reach(context, OpenMode::ReadWrite).map(Self)
    }

    pub(super) fn list(self) -> Result<Vec<Value>, Failure> {
        match &self.0 {
            Reached::Daemon(client) => {
                let answer: Value = call(client, Method::AutomationsList, &json!({}))?;
                Ok(answer["automations"].as_array().cloned().unwrap_or_default())
            }
            Reached::Files { store, .. } => {
                let rows = store.runtime().list_automations_blocking()?;
                Ok(rows.iter().map(automation_view).collect())
            }
        }
    }

    pub(super) fn get(self, name: &str) -> Result<Value, Failure> {
        match &self.0 {
            Reached::Daemon(client) => call(client, Method::AutomationsGet, &Named { id: name.to_owned() }),
            Reached::Files { store, .. } => found(store, name).map(|row| automation_view(&row)),
        }
    }

    pub(super) fn invocations(self, of: &InvocationsOf) -> Result<Vec<Value>, Failure> {
        match &self.0 {
            Reached::Daemon(client) => {
                let answer: Value = call(client, Method::AutomationsInvocations, of)?;
                Ok(answer["invocations"].as_array().cloned().unwrap_or_default())
            }
            Reached::Files { store, .. } => {
                let limit = of.limit.and_then(|limit| u32::try_from(limit).ok()).unwrap_or(u32::MAX);
                let rows = wait(store.runtime().list_invocations(of.name.as_deref(), limit))??;
                Ok(rows.iter().map(invocation_view).collect())
            }
        }
    }

    pub(super) fn switch(self, named: &Named, method: Method) -> Result<Value, Failure> {
        match &self.0 {
            Reached::Daemon(client) => call(client, method, named),
            Reached::Files { store, .. } => {
                let on = method == Method::AutomationsEnable;
                let status = if on { AutomationStatus::Active } else { AutomationStatus::Disabled };
                let reason = (!on).then_some("disabled by the owner");
                let known = store.runtime().set_automation_status_blocking(&named.id, status, reason)?;
                let row = if known { found(store, &named.id) } else { Err(missing(&named.id)) };
                let row = row.map(|row| automation_view(&row));
                self.close();
                row
            }
        }
    }

    pub(super) fn register(
        self,
        wanted: &AutomationRegister,
        registration: Registration,
    ) -> Result<Value, Failure> {
        match &self.0 {
            Reached::Daemon(client) => call(client, Method::AutomationsRegister, wanted),
            Reached::Files { layout, store, .. } => {
                let name = wanted.name.clone();
                let made = wait(register(store, layout, registration, &wanted.hash))?
                    .map_err(|error| Failure::caused(&error).maybe_hint(error.hint().as_deref()));
                let row = made.and_then(|_| found(store, &name)).map(|row| automation_view(&row));
                self.close();
                row
            }
        }
    }

    pub(super) fn remove(self, name: &str) -> Result<Value, Failure> {
        match &self.0 {
            Reached::Daemon(client) => {
                call(client, Method::AutomationsRemove, &Named { id: name.to_owned() })
            }
            Reached::Files { store, .. } => {
                let outcome = found(store, name).and_then(|row| {
                    if row.definition.bundled {
                        return Err(Failure::new(format!("{name} comes with Nexus and cannot be removed"))
                            .hint(format!("nexus automation disable {name} disables it permanently")));
                    }
                    wait(store.runtime().remove_automation(name))?.map_err(Failure::from)
                });
                self.close();
                outcome.map(|removed| json!({ "name": name, "removed": removed }))
            }
        }
    }

    pub(super) fn test(self, test: &AutomationTest) -> Result<Value, Failure> {
        match &self.0 {
            Reached::Daemon(client) => call(client, Method::AutomationsTest, test),
            Reached::Files { layout, store, .. } => {
                let tried = found(store, &test.id).and_then(|row| try_out(layout, row, test.data.clone()));
                self.close();
                tried
            }
        }
    }

    fn close(self) {
        if let Reached::Files { store, lock, .. } = self.0 {
            // What was written is on disk; a loop that cannot be made only skips the tidy end.
            drop(wait(store.close()));
            if let Some(lock) = lock {
                lock.release();
            }
        }
    }
}

/// Runs a program of the owner's once, with no daemon around it.
fn try_out(layout: &Layout, row: Automation, data: Option<Value>) -> Result<Value, Failure> {
    let name = row.definition.name.clone();
    if row.definition.script_path.starts_with("builtin:") {
        return Err(Failure::new(format!("{name} needs a running daemon"))
            .hint("nexus start starts one")
            .exit(Exit::Missing));
    }
    if !standing(layout).is_trusted() {
        return Err(Failure::new("this workspace is not trusted, so its programs are not run")
            .hint("review it, then run nexus trust"));
    }
    let home = crate::context::home().unwrap_or_else(|| PathBuf::from("/nonexistent"));
    let programs = Programs::new(layout.clone(), home, Arc::new(Redactor::new()));
    let run = Run {
        hook: HookPoint::of_row(&row.definition.hook_point).unwrap_or(HookPoint::RunAutomations),
        limit: row.definition.timeout_ms.map_or(LIMIT, Duration::from_millis),
        automation: Arc::new(row),
        occasion: Arc::new(sample(data)),
        invocation: new_ulid(),
    };
    let started = Instant::now();
    let tried = wait(programs.run(&run))?;
    let took = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(match tried {
        Ok(verdict) => {
            json!({"name": name, "outcome": "ok", "durationMs": took, "result": verdict.to_json(), "error": null})
        }
        Err(error) => {
            json!({"name": name, "outcome": "error", "durationMs": took, "result": null, "error": error.to_string()})
        }
    })
}

fn found(store: &Store, name: &str) -> Result<Automation, Failure> {
    let row = wait(store.runtime().automation(name))??;
    row.ok_or_else(|| missing(name))
}

fn missing(name: &str) -> Failure {
    Failure::new(format!("no automation {name:?}"))
        .hint("nexus automation list shows the existing ones")
        .exit(Exit::Missing)
}

fn wait<T>(work: impl Future<Output = T>) -> Result<T, Failure> {
    Ok(super::super::client_runtime()?.block_on(work))
}

fn call<T: DeserializeOwned>(client: &Client, method: Method, params: &impl Serialize) -> Result<T, Failure> {
    wait(client.call(method, params))?.map_err(Failure::from)
}

/// Returns the wire's word for how often an automation runs.
pub(super) const fn mode(once: bool) -> AutomationMode {
    if once { AutomationMode::OneShot } else { AutomationMode::Persistent }
}
