//! `nexus status`: how the workspace and its daemon stand. Reads files; asks a running daemon briefly.

use std::time::Duration;

use clap::Args;
use nexus_operations::StatusReport;
use nexus_protocol::control::Nothing;
use nexus_protocol::methods::Method;
use nexus_protocol::status::HealthReport;
use serde_json::{Value, json};

use crate::context::Context;
use crate::control;
use crate::failure::Outcome;
use crate::output::{self, Format};
use crate::tool_call;

/// How long a running daemon may take to answer before the report goes without it.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// Arguments of `nexus status`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  nexus status\n  nexus status --json")]
pub(crate) struct Arguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs `nexus status`.
pub(crate) fn run(context: &Context, arguments: &Arguments) -> Outcome {
    let status: StatusReport = control::look(context, Method::Status, &Nothing {})?;
    let health = if status.runtime.running { ask(context) } else { None };
    if Format::from_flag(arguments.json) == Format::Json {
        let mut value = serde_json::to_value(&status)?;
        if let Some(Value::Object(runtime)) = value.get_mut("runtime") {
            runtime.insert("health".to_owned(), json!(health));
        }
        return output::json(&value);
    }
    output::text(&render(&status, health.as_ref()))?;
    if tool_call::is_inside() {
        return Ok(());
    }
    for warning in &context.loaded(&context.existing()?)?.warnings {
        output::remark(&format!("warning: {warning}; {}", warning.fix));
    }
    Ok(())
}

/// Asks the daemon how it is. No answer is an answer too: the report says so.
fn ask(context: &Context) -> Option<HealthReport> {
    if tool_call::is_inside() {
        return control::call(context, Method::Health, &Nothing {}).ok();
    }
    let client = context.client().ok()?;
    let runtime = super::client_runtime().ok()?;
    runtime.block_on(async { tokio::time::timeout(ANSWER_WITHIN, client.health()).await.ok()?.ok() })
}

fn render(status: &StatusReport, health: Option<&HealthReport>) -> String {
    let mut lines = Vec::new();
    let mut row = |name: &str, value: &str| lines.push(format!("{name:<12} {}", output::single_line(value)));
    let trusted = if status.trust.is_trusted() { "" } else { " (not trusted)" };
    row("workspace", &format!("{}{trusted}", status.workspace.display()));
    row("version", &status.version);
    let daemon = &status.runtime;
    row(
        "daemon",
        &match (daemon.pid, health) {
            (Some(pid), Some(health)) => format!(
                "running as process {pid} on port {}, {}, up {} s",
                daemon.port,
                format!("{:?}", health.status).to_lowercase(),
                health.uptime_ms / 1000
            ),
            (Some(pid), None) => {
                format!("process {pid} holds the workspace but is not answering on port {}", daemon.port)
            }
            (None, _) => "not running".to_owned(),
        },
    );
    if let Some(model) = &status.model {
        row("model", &format!("{model}, once the daemon is running"));
    }
    if let Some(health) = health {
        row("model", &health.model);
        let untried = "not tried yet; the first command of an agent does, and `nexus doctor`";
        row("sandbox", health.sandbox.as_deref().unwrap_or(untried));
        let pipeline = &health.pipeline;
        row(
            "requests",
            &format!(
                "{} active, {} done, {} ms on average",
                pipeline.active_requests, pipeline.total_processed, pipeline.avg_latency_ms
            ),
        );
        let failing: Vec<String> = health
            .ledgers
            .iter()
            .filter(|(_, state)| *state != "ok")
            .map(|(name, state)| format!("{name}: {state}"))
            .collect();
        row("databases", &if failing.is_empty() { "ok".to_owned() } else { failing.join("; ") });
    }
    row("assistant", status.identity.agent_name.as_deref().unwrap_or("has no name yet"));
    row("you", status.identity.user_name.as_deref().unwrap_or("has not introduced themselves yet"));
    let waiting = match status.skills_waiting {
        0 => String::new(),
        several => format!(" ({several} not accepted)"),
    };
    let skills = if status.skills.is_empty() { "none".to_owned() } else { status.skills.join(", ") };
    row("skills", &format!("{skills}{waiting}"));
    for item in &status.capabilities.items {
        let missing = match item.missing.is_empty() {
            true => String::new(),
            false => format!(", missing: {}", item.missing.join(", ")),
        };
        let state = item.state.as_str();
        row("capability", &format!("{}: {state} by {}{missing}", item.name, item.providers.join(", ")));
    }
    row("credentials", &status.credentials.total.to_string());
    if let Some(approvals) = status.approvals.as_ref().filter(|approvals| approvals.waiting > 0) {
        let held = match approvals.held_messages {
            0 => String::new(),
            1 => ", 1 of them a message held back after the restore".to_owned(),
            several => format!(", {several} of them messages held back after the restore"),
        };
        row("consent", &format!("{} waiting for you{held}", approvals.waiting));
    }
    if let Some(health) = health {
        for step in &health.boot {
            let micro = step.duration_us;
            let note = if step.note.is_empty() { String::new() } else { format!(": {}", step.note) };
            row("boot", &format!("{}.{} ms {}{note}", micro / 1000, micro % 1000 / 100, step.step));
        }
        for warning in &health.warnings {
            row("warning", warning);
        }
    }
    for suggestion in &status.suggestions {
        row("next", suggestion);
    }
    lines.push(String::new());
    lines.join("\n")
}
