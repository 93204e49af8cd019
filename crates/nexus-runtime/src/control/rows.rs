//! Rows shown as they are: automations, their runs, credential pointers, usage.

use std::collections::BTreeMap;
use std::time::Duration;

use nexus_base::clock::Timestamp;
use nexus_credentials::CredentialFolder;
use nexus_protocol::control::answers::{AutomationView, Automations, Credentials, Invocations, UsageCost};
use nexus_protocol::control::{InvocationsOf, Named, UsageOf, UsageRow};
use nexus_store::runtime::{Automation, Invocation};
use serde_json::{Value, json};

use super::{broken, invalid, missing, rows, shown, shown_as};
use crate::{Runtime, RuntimeError};

/// Days of usage given when the caller does not say, and at most.
const DAYS: u32 = 7;
const MAX_DAYS: u32 = 366;

impl Runtime {
    pub(super) async fn automations_list(&self) -> Result<Value, RuntimeError> {
        let automations: Vec<Value> =
            self.shared.store.runtime().list_automations().await?.iter().map(automation).collect();
        shown_as::<Automations>(&json!({ "automations": automations }))
    }

    pub(super) async fn automation_get(&self, named: Named) -> Result<Value, RuntimeError> {
        let found = self.shared.store.runtime().automation(&named.id).await?;
        shown_as::<AutomationView>(&automation(&found.ok_or_else(|| missing("automation", named.id))?))
    }

    pub(super) async fn automation_invocations(&self, of: InvocationsOf) -> Result<Value, RuntimeError> {
        let limit = u32::try_from(rows(of.limit)?).unwrap_or(u32::MAX);
        let found = self.shared.store.runtime().list_invocations(of.name.as_deref(), limit).await?;
        shown_as::<Invocations>(&json!({ "invocations": found.iter().map(invocation).collect::<Vec<_>>() }))
    }

    pub(super) fn credentials_list(&self) -> Result<Value, RuntimeError> {
        let folder = CredentialFolder::new(self.shared.control.options.layout.credentials());
        shown_as::<Credentials>(&json!({ "credentials": folder.list().map_err(|error| broken(&error))? }))
    }

    pub(super) async fn usage_status(&self, of: UsageOf) -> Result<Value, RuntimeError> {
        let (_, _, days) = self.usage_rows(of).await?;
        shown(&json!({ "days": days }))
    }

    pub(super) async fn usage_cost(&self, of: UsageOf) -> Result<Value, RuntimeError> {
        let (from, to, days) = self.usage_rows(of).await?;
        let mut models: BTreeMap<String, UsageRow> = BTreeMap::new();
        for row in days {
            match models.get_mut(&row.model) {
                Some(sum) => {
                    sum.calls = sum.calls.saturating_add(row.calls);
                    sum.input_tokens = sum.input_tokens.saturating_add(row.input_tokens);
                    sum.output_tokens = sum.output_tokens.saturating_add(row.output_tokens);
                    sum.cost_micro_usd = sum.cost_micro_usd.saturating_add(row.cost_micro_usd);
                }
                None => {
                    models.insert(row.model.clone(), UsageRow { day: from.clone(), ..row });
                }
            }
        }
        let models: Vec<UsageRow> = models.into_values().collect();
        let total_micro_usd = models.iter().map(|row| row.cost_micro_usd).fold(0, u64::saturating_add);
        shown(&UsageCost { from, to, models, total_micro_usd })
    }

    /// Returns the first and the last day looked at, and what was used on each by each model.
    async fn usage_rows(&self, of: UsageOf) -> Result<(String, String, Vec<UsageRow>), RuntimeError> {
        let days = of.days.unwrap_or(DAYS);
        if !(1..=MAX_DAYS).contains(&days) {
            return Err(invalid(format!("days must be between 1 and {MAX_DAYS}")));
        }
        let now = Timestamp::now();
        let back = Duration::from_secs(u64::from(days - 1) * 24 * 3600);
        let first = Timestamp(now.as_millis().saturating_sub(i64::try_from(back.as_millis()).unwrap_or(0)));
        let day = |moment: Timestamp| moment.to_local_rfc3339().chars().take(10).collect::<String>();
        let (first, last) = (day(first), day(now));
        let sums = self.shared.store.runtime().usage_by_day(&first, &last).await?;
        let days: Vec<UsageRow> = sums
            .into_iter()
            .map(|sum| UsageRow {
                day: sum.day,
                model: format!("{}/{}", sum.provider, sum.model),
                calls: sum.calls,
                input_tokens: sum.input_tokens,
                output_tokens: sum.output_tokens,
                cost_micro_usd: sum.cost_micro_usd,
            })
            .collect();
        Ok((first, last, days))
    }
}

/// Returns an automation as listings show it.
pub fn automation(row: &Automation) -> Value {
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
pub fn invocation(row: &Invocation) -> Value {
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
