//! `nexus trace`: what happened with a message, stage by stage, with its tool calls and workers.
//! Reads the databases directly, so it works while no daemon runs.

use clap::Args;
use nexus_base::id::RequestId;
use nexus_protocol::control::{Listing, Named};
use nexus_protocol::methods::Method;
use nexus_protocol::trace::{RequestSummary, RequestView, StageTiming, ToolCallView};
use serde::Deserialize;

use crate::context::Context;
use crate::control;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{self, Format, shorten};

/// Longest piece of what was asked, answered or passed to a tool.
const MAX_TEXT_LEN: usize = 160;
/// Deepest level drawn; deeper ones are counted.
const MAX_DEPTH: usize = 16;

/// Arguments of `nexus trace`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nexus trace                  the last message\n  nexus trace --list\n  nexus trace --prompt         what its model was sent, part by part\n  nexus trace --prompt --full  the same with every word\n  nexus trace 01KA2Q… --json"
)]
pub(crate) struct Arguments {
    /// Id of the request [default: the last message]
    request: Option<String>,
    /// List the latest requests instead
    #[arg(long, conflicts_with = "request")]
    list: bool,
    /// Show what the model was sent, part by part
    #[arg(long, conflicts_with = "list")]
    prompt: bool,
    /// With --prompt, also the text of every part, secrets hidden
    #[arg(long, requires = "prompt")]
    full: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs `nexus trace`.
pub(crate) fn run(context: &Context, arguments: &Arguments) -> Outcome {
    let format = Format::from_flag(arguments.json);
    if arguments.list {
        let requests = recent(context)?;
        return match format {
            Format::Json => output::json(&serde_json::json!({ "requests": requests })),
            Format::Text => {
                output::table(&["REQUEST", "WHEN", "KIND", "STATUS", "TOOK", "INPUT"], rows(&requests))
            }
        };
    }
    let id = match &arguments.request {
        Some(id) => RequestId::new(id.as_str()),
        None => latest(&recent(context)?)?,
    };
    if arguments.prompt {
        return prompt::run(context, &id, format, arguments.full);
    }
    let named = Named { id: id.to_string() };
    let view: RequestView = control::look(context, Method::RequestsGet, &named)
        .map_err(|failure| failure.hint_if_missing("nexus trace --list shows the latest ones"))?;
    match format {
        Format::Json => output::json(&view),
        Format::Text => output::text(&render(&view)),
    }
}

/// Requests shown by `--list`, and looked through for the last message.
const LISTED: usize = 50;

#[derive(Debug, Deserialize)]
struct Recent {
    requests: Vec<RequestSummary>,
}

fn recent(context: &Context) -> Result<Vec<RequestSummary>, Failure> {
    let listing = Listing { limit: Some(LISTED) };
    let recent: Recent = control::look(context, Method::RequestsList, &listing)?;
    Ok(recent.requests)
}

/// Picks the newest request that a person began; workers' requests hang below it anyway.
fn latest(requests: &[RequestSummary]) -> Result<RequestId, Failure> {
    requests
        .iter()
        .find(|request| request.event_type == "message")
        .or(requests.first())
        .map(|request| request.request_id.clone())
        .ok_or_else(|| {
            Failure::new("nothing has happened in this workspace yet")
                .hint("start a conversation with nexus up")
                .exit(Exit::Missing)
        })
}

fn rows(requests: &[RequestSummary]) -> Vec<Vec<String>> {
    requests
        .iter()
        .map(|request| {
            vec![
                request.request_id.to_string(),
                request.started_at.to_local_rfc3339(),
                request.event_type.clone(),
                request.status.clone(),
                request.duration_ms.map(|ms| format!("{ms} ms")).unwrap_or_default(),
                shorten(&request.input, 60),
            ]
        })
        .collect()
}

/// Renders a request and everything it led to as a readable tree.
pub(crate) fn render(view: &RequestView) -> String {
    let mut text = String::new();
    draw(view, "", "", 0, &mut text);
    text
}

/// Draws one request: its first line after `lead`, the rest after `margin`.
fn draw(view: &RequestView, lead: &str, margin: &str, depth: usize, text: &mut String) {
    let mut put = |prefix: &str, line: &str| {
        text.push_str(prefix);
        text.push_str(line);
        text.push('\n');
    };
    put(lead, &headline(view));
    let has_children = !view.children.is_empty();
    let inner = format!("{margin}{}", if has_children { "│ " } else { "  " });
    for line in details(view) {
        put(&inner, &line);
    }
    if depth >= MAX_DEPTH && has_children {
        put(margin, &format!("└─ {} more below", view.children.len()));
        return;
    }
    for (index, child) in view.children.iter().enumerate() {
        let last = index + 1 == view.children.len();
        let lead = format!("{margin}{}", if last { "└─ " } else { "├─ " });
        let margin = format!("{margin}{}", if last { "   " } else { "│  " });
        draw(child, &lead, &margin, depth + 1, text);
    }
}

fn headline(view: &RequestView) -> String {
    let took = match view.completed_at {
        Some(end) => format!(" in {} ms", end.since(view.started_at).as_millis()),
        None => format!(", at {}", view.stage),
    };
    let attempts = if view.attempts > 1 { format!(", attempt {}", view.attempts) } else { String::new() };
    format!(
        "{} {} · {}{took}{attempts} · {}",
        output::single_line(&view.event_type),
        view.request_id,
        output::single_line(&view.status),
        view.started_at.to_local_rfc3339()
    )
}

fn details(view: &RequestView) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(session) = &view.session {
        lines.push(format!("session   {}", shorten(session.as_str(), MAX_TEXT_LEN)));
    }
    if !view.input.is_empty() {
        lines.push(format!("asked     {}", shorten(&view.input, MAX_TEXT_LEN)));
    }
    if let Some(access) = view.access.as_ref().filter(|access| access.decision != "allow") {
        let policy = access.policy.as_deref().unwrap_or("no policy allows it");
        lines.push(format!(
            "access    {} · {}",
            output::single_line(&access.decision),
            shorten(policy, MAX_TEXT_LEN)
        ));
    }
    if !view.stages.is_empty() {
        lines.push(format!("stages    {}", stages(&view.stages)));
    }
    lines.extend(view.tool_calls.iter().map(tool_line));
    for source in &view.untrusted {
        lines.push(format!("tainted   by reading {}", shorten(source, MAX_TEXT_LEN)));
    }
    if let Some(model) = &view.model {
        let tokens = format!("{} tokens in, {} out", view.input_tokens, view.output_tokens);
        lines.push(format!("model     {} · {tokens}", output::single_line(model)));
    }
    if !view.output.is_empty() {
        lines.push(format!("answered  {}", shorten(&view.output, MAX_TEXT_LEN)));
    }
    if let Some(error) = &view.error {
        lines.push(format!("error     {}", shorten(error, MAX_TEXT_LEN * 2)));
    }
    lines
}

fn stages(stages: &[StageTiming]) -> String {
    stages
        .iter()
        .map(|stage| format!("{} {}", output::single_line(&stage.stage), duration(stage.duration_us)))
        .collect::<Vec<_>>()
        .join(" · ")
}

fn tool_line(call: &ToolCallView) -> String {
    let took = call.duration_ms.map(|ms| format!(" in {ms} ms")).unwrap_or_default();
    let worker = call
        .spawned_session
        .as_ref()
        .map(|session| format!(" → {}", shorten(session.as_str(), 60)))
        .unwrap_or_default();
    let result = if call.status == "failed" && !call.result.is_empty() {
        format!(": {}", shorten(&call.result, MAX_TEXT_LEN))
    } else {
        String::new()
    };
    format!(
        "tool      {} {} · {}{took}{worker}{result}",
        output::single_line(&call.tool),
        shorten(&call.arguments.to_string(), 80),
        output::single_line(&call.status)
    )
}

fn duration(microseconds: u64) -> String {
    match microseconds {
        0..1_000 => format!("{microseconds} µs"),
        1_000..10_000 => format!("{}.{} ms", microseconds / 1_000, microseconds % 1_000 / 100),
        10_000..10_000_000 => format!("{} ms", microseconds / 1_000),
        _ => format!("{} s", microseconds / 1_000_000),
    }
}

mod prompt;
#[cfg(test)]
mod tests;
