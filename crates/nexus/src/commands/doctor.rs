//! `nexus doctor`: every part of a workspace looked at, and mended where that needs no decision.

use clap::Args;
use nexus_maintenance::doctor::{Check, Condition, DoctorRequest, doctor};

use crate::context::{Context, trust_folder};
use crate::failure::{Failure, Outcome};
use crate::output::{self, Format};

/// Arguments of `nexus doctor`.
#[derive(Debug, Args)]
#[command(after_help = "\
Checks folders and their permissions, configuration, six databases, daemon, disk, sandbox, port, trust, skills and
every credential. Exit code 1 if something is broken.

Examples:
  nexus doctor
  nexus doctor --fix")]
pub(crate) struct Arguments {
    /// Repair what can be repaired without losing anything
    #[arg(long)]
    fix: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs `nexus doctor`.
pub(crate) fn run(context: &Context, arguments: &Arguments) -> Outcome {
    let layout = context.layout()?;
    if !layout.state().exists() {
        return context.existing().map(drop);
    }
    let (variables, home) = (super::environment(), crate::context::home());
    let trust_folder = trust_folder()?;
    let runtime = super::client_runtime()?;
    let daemon_saw = runtime.block_on(super::credential::daemon_saw(context));
    let request = DoctorRequest {
        daemon_saw: daemon_saw.as_deref(),
        layout: &layout,
        trust_folder: &trust_folder,
        environment: &variables,
        home: home.as_deref(),
        fix: arguments.fix,
    };
    let report = runtime.block_on(doctor(&request));
    if Format::from_flag(arguments.json) == Format::Json {
        output::json(&report)?;
    } else {
        for check in &report.checks {
            show(check)?;
        }
    }
    if report.healthy {
        return Ok(());
    }
    let broken = report.checks.iter().filter(|check| check.condition == Condition::Broken).count();
    Err(Failure::new(format!("{broken} of {} checks found something broken", report.checks.len())))
}

fn show(check: &Check) -> Outcome {
    let mark = match check.condition {
        Condition::Fine => "ok",
        Condition::Fixed => "fixed",
        Condition::Warning => "warning",
        Condition::Broken => "BROKEN",
    };
    output::line(&format!("{mark:<8} {:<12} {}", check.part, output::single_line(&check.message)))?;
    match &check.hint {
        Some(hint) if !hint.is_empty() => output::line(&format!("{:22}→ {}", "", output::single_line(hint))),
        _ => Ok(()),
    }
}
