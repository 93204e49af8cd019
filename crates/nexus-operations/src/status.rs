//! How the daemon is and where the workspace stands.

use nexus_protocol::control::Nothing;
use nexus_protocol::control::answers::WorkspaceStatus;
use nexus_protocol::status::{AdapterCounts, Health, HealthReport, PipelineCounts};

use crate::call::{Call, internal, typed};
use crate::{Operations, Phase, RuntimeError, report};

pub(crate) async fn health(call: &Call<'_>, _: Nothing) -> Result<HealthReport, RuntimeError> {
    Ok(call.running()?.health_report())
}

pub(crate) async fn workspace(call: &Call<'_>, _: Nothing) -> Result<WorkspaceStatus, RuntimeError> {
    let settings = call.settings()?;
    let trust = call.options.standing();
    let request = report::StatusRequest {
        layout: call.layout(),
        settings: &settings,
        trust,
        trust_folder: &call.options.trust_folder,
        programs: &call.options.programs(),
    };
    typed(&report::status(&request).map_err(|error| internal(&error))?)
}

impl Operations {
    /// Returns whether the daemon serves.
    pub fn health(&self) -> Health {
        let lifecycle = &self.daemon().lifecycle;
        match lifecycle.phase() {
            Phase::Starting => Health::Starting,
            Phase::Stopping => Health::Stopping,
            Phase::Serving if self.store().health().iter().any(|health| health.trouble.is_some()) => {
                Health::Unhealthy
            }
            Phase::Serving if lifecycle.notes().warnings.is_empty() => Health::Healthy,
            Phase::Serving => Health::Degraded,
        }
    }

    /// Returns the owner's full report.
    pub fn health_report(&self) -> HealthReport {
        let daemon = self.daemon();
        let (active_requests, total_processed, avg_latency_ms) = daemon.counters.read();
        let (boot, warnings) = {
            let notes = daemon.lifecycle.notes();
            (notes.steps.clone(), notes.warnings.clone())
        };
        let ledgers = self.store().health().into_iter().map(|health| {
            let state = health.trouble.map_or_else(|| "ok".to_owned(), |error| error.to_string());
            (format!("{}_db", health.name), state)
        });
        HealthReport {
            status: self.health(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_ms: u64::try_from(daemon.lifecycle.uptime().as_millis()).unwrap_or(u64::MAX),
            workspace: self.options().layout.root().display().to_string(),
            ledgers: ledgers.collect(),
            adapters: AdapterCounts::default(),
            pipeline: PipelineCounts { active_requests, total_processed, avg_latency_ms },
            boot,
            warnings,
            model: daemon.agent_factory.models.name().to_string(),
            sandbox: nexus_process::known_tier().map(|tier| tier.summary(nexus_process::support())),
        }
    }
}
