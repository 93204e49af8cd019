//! `nexus kernel ws …`, also `nexus ws …`: make, list and destroy workspaces.

use clap::{Args, Subcommand, ValueEnum};
use nexus_kernel::{Authority, Role, RunDir};
use serde_json::{Value, json};

use super::{RunFolder, reach};
use crate::failure::Outcome;
use crate::output;

/// Arguments of `nexus ws`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nexus ws create testws
  nexus ws list
  nexus ws destroy testws --arming --role operator")]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: RunFolder,
    #[command(subcommand)]
    command: WsCommand,
}

/// What can be done with workspaces.
#[derive(Debug, Subcommand)]
pub(crate) enum WsCommand {
    /// Create a workspace; the user running the command acts as armed operator
    Create(CreateArguments),
    /// List all workspaces
    List(ListArguments),
    /// Remove a workspace and everything in it; needs --arming --role operator
    Destroy(DestroyArguments),
}

/// Arguments of `nexus kernel ws create`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  nexus ws create testws --init")]
pub(crate) struct CreateArguments {
    /// Workspace id: 1 to 35 letters, digits, _ and -
    id: String,
    /// Also create a Nexus workspace in it, for `nexus start --ws`
    #[arg(long)]
    init: bool,
    /// Accepted for symmetry; creating is always armed
    #[arg(long)]
    arming: bool,
    /// Act in this role
    #[arg(long, value_enum, default_value_t = RoleWord::Operator)]
    role: RoleWord,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `nexus kernel ws list`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  nexus ws list --json")]
pub(crate) struct ListArguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `nexus kernel ws destroy`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  nexus ws destroy testws --arming --role operator")]
pub(crate) struct DestroyArguments {
    /// Workspace id
    id: String,
    /// Enable this privileged operation
    #[arg(long)]
    arming: bool,
    /// Act in this role
    #[arg(long, value_enum, default_value_t = RoleWord::User)]
    role: RoleWord,
    /// First stop a daemon running in it
    #[arg(long)]
    stop: bool,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

/// The roles there are, as words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleWord {
    /// No role
    None,
    /// A user
    User,
    /// An operator of the machine's workspaces
    Operator,
    /// The system itself
    System,
}

impl From<RoleWord> for Role {
    fn from(word: RoleWord) -> Self {
        match word {
            RoleWord::None => Self::None,
            RoleWord::User => Self::User,
            RoleWord::Operator => Self::Operator,
            RoleWord::System => Self::System,
        }
    }
}

/// Runs `nexus ws`.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    perform(&arguments.place.resolve()?, &arguments.command)
}

/// Does one of them.
pub(super) fn perform(run_dir: &RunDir, command: &WsCommand) -> Outcome {
    match command {
        WsCommand::Create(arguments) => create(run_dir, arguments),
        WsCommand::List(arguments) => list(run_dir, arguments),
        WsCommand::Destroy(arguments) => destroy(run_dir, arguments),
    }
}

fn create(run_dir: &RunDir, arguments: &CreateArguments) -> Outcome {
    let mut params = json!({ "ws_id": arguments.id });
    if arguments.init {
        params["init"] = json!(true);
    }
    // Whoever asks to create means to create; only removing needs to be said twice.
    let authority = Authority { role: arguments.role.into(), armed: true };
    let answer = call(run_dir, "ws_create", &params, authority)?;
    if arguments.json {
        return output::json_line(&answer);
    }
    let id = &arguments.id;
    output::line(&if answer["created"] == true {
        format!("created {id}")
    } else {
        format!("{id} already exists; nothing changed")
    })
}

fn list(run_dir: &RunDir, arguments: &ListArguments) -> Outcome {
    let mut reached = reach::running_or_own(run_dir)?;
    let names = reached.client.list_all(Authority::USER).map_err(|error| reach::failure(&error))?;
    if arguments.json {
        return output::json(&json!({ "status": "ok", "count": names.len(), "workspaces": names }));
    }
    let mut text = names.join("\n");
    if !text.is_empty() {
        text.push('\n');
    }
    output::text(&text)
}

fn destroy(run_dir: &RunDir, arguments: &DestroyArguments) -> Outcome {
    let mut params = json!({ "ws_id": arguments.id });
    if arguments.stop {
        params["stop"] = json!(true);
    }
    let authority = Authority { role: arguments.role.into(), armed: arguments.arming };
    let answer = call(run_dir, "ws_destroy", &params, authority)?;
    if arguments.json {
        return output::json_line(&answer);
    }
    let id = &arguments.id;
    output::line(&if answer["destroyed"] == true {
        format!("destroyed {id}")
    } else {
        format!("{id} did not exist")
    })
}

fn call(
    run_dir: &RunDir,
    method: &str,
    params: &Value,
    authority: Authority,
) -> Result<Value, crate::failure::Failure> {
    let mut reached = reach::running_or_own(run_dir)?;
    reached.client.call(method, params, authority).map_err(|error| reach::failure(&error))
}
