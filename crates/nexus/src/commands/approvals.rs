//! `nexus approvals`: what waits for the owner's consent, and the owner's answers.

use clap::{Args, Subcommand, ValueEnum};
use nexus_base::text::visible;
use nexus_protocol::control::{ApprovalAnswer, ApprovalScope, ApprovalView, Approvals, ApprovalsOf, Named};
use nexus_protocol::methods::Method;

use crate::context::Context;
use crate::failure::Outcome;
use crate::output::{self, Format};
use crate::untrusted;

use super::call;

/// Arguments of `nexus approvals`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  nexus approvals list\n  nexus approvals approve 01J… --for day")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List requests waiting for an answer
    #[command(after_help = "Example:\n  nexus approvals list --all --json")]
    List {
        /// Include requests that were answered or expired
        #[arg(long)]
        all: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show one request and everything it would allow
    #[command(after_help = "Example:\n  nexus approvals show 01J…")]
    Show {
        /// Request id
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Approve a request, once unless --for says otherwise; commands can only be approved once
    #[command(
        after_help = "Examples:\n  nexus approvals approve 01J…\n  nexus approvals approve 01J… --for day"
    )]
    Approve {
        /// Request id
        id: String,
        /// How long the approval lasts
        #[arg(long = "for", value_enum, default_value_t = Lasting::Once)]
        lasting: Lasting,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Deny a request
    #[command(after_help = "Example:\n  nexus approvals deny 01J… --reason \"not today\"")]
    Deny {
        /// Request id
        id: String,
        /// Reason to give
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Lasting {
    /// This one time only
    Once,
    /// For 24 hours
    Day,
    /// Until it is revoked
    Always,
}

/// Runs `nexus approvals`.
pub(crate) fn run(context: &Context, arguments: &Arguments) -> Outcome {
    match &arguments.command {
        Command::List { all, json } => list(context, *all, Format::from_flag(*json)),
        Command::Show { id, json } => {
            let view = call(context, Method::ApprovalsShow, &Named { id: id.clone() })?;
            show(&view, Format::from_flag(*json))
        }
        Command::Approve { id, lasting, json } => {
            let scope = match lasting {
                Lasting::Once => ApprovalScope::Once,
                Lasting::Day => ApprovalScope::Day,
                Lasting::Always => ApprovalScope::Always,
            };
            let answer = ApprovalAnswer { id: id.clone(), scope, reason: None };
            if !*json {
                // Whatever the list had room for: nobody says yes without the whole of it before them.
                let view: ApprovalView = call(context, Method::ApprovalsShow, &Named { id: id.clone() })?;
                output::remark(&in_full(&view).join("\n"));
            }
            told(&call(context, Method::ApprovalsApprove, &answer)?, Format::from_flag(*json))
        }
        Command::Deny { id, reason, json } => {
            let answer =
                ApprovalAnswer { id: id.clone(), scope: ApprovalScope::Once, reason: reason.clone() };
            told(&call(context, Method::ApprovalsDeny, &answer)?, Format::from_flag(*json))
        }
    }
}

/// Most columns of a question in the list.
const WHAT: usize = 400;

fn list(context: &Context, all: bool, format: Format) -> Outcome {
    let listed: Approvals = call(context, Method::ApprovalsList, &ApprovalsOf { all, limit: None })?;
    if format == Format::Json {
        return output::json(&listed);
    }
    if listed.approvals.is_empty() {
        return output::line("nothing is waiting for your consent");
    }
    let row = |one: &ApprovalView| {
        vec![
            one.id.clone(),
            one.status.as_str().to_owned(),
            one.kind.clone(),
            visible::line(&one.requester),
            one.expires_at.to_local_rfc3339(),
            untrusted::beginning(&one.summary, WHAT, &format!("nexus approvals show {}", one.id)),
        ]
    };
    output::table(
        &["ID", "STATUS", "KIND", "FROM", "UNTIL", "WHAT"],
        listed.approvals.iter().map(row).collect(),
    )
}

fn show(view: &ApprovalView, format: Format) -> Outcome {
    if format == Format::Json {
        return output::json(view);
    }
    output::line(&in_full(view).join("\n"))
}

/// Everything about a question, with all that is somebody else's made visible.
fn in_full(view: &ApprovalView) -> Vec<String> {
    let columns = output::terminal_width().map(usize::from);
    let mut lines = vec![
        format!("{}  {}  {}", view.id, view.status.as_str(), view.kind),
        format!("from      {}", visible::line(&view.requester)),
    ];
    let mut what = untrusted::rows(&view.summary, columns).into_iter();
    lines.extend(what.next().map(|size| format!("what      {size}")));
    lines.extend(what);
    lines.extend(view.reason.iter().map(|reason| format!("why       {}", visible::line(reason))));
    lines.extend(view.resources.iter().map(|resource| format!("opens     {}", visible::line(resource))));
    lines.push(format!("until     {}", view.expires_at.to_local_rfc3339()));
    lines.extend(view.responder.iter().map(|responder| format!("answered  {}", visible::line(responder))));
    lines
}

fn told(view: &ApprovalView, format: Format) -> Outcome {
    match format {
        Format::Json => output::json(view),
        Format::Text => output::line(&format!("{} {}", view.id, view.status.as_str())),
    }
}
