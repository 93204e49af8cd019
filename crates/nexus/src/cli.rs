//! The command tree: names, help and dispatch. What a command does lies in `commands/`.

use std::path::PathBuf;

use clap::{CommandFactory, Parser, Subcommand};

use crate::commands;
use crate::context::Context;
use crate::failure::{Exit, Failure, Outcome};
use crate::kernel;
use crate::tool_call;

const EXAMPLES: &str = "\
Examples:
  nexus up                            create a workspace if needed, start it and talk
  nexus chat -m \"What is on my list?\"  one question to a running workspace
  nexus trace                         what happened to the last message

Exit codes:
  0    done  1    the command failed; the reason is on stderr
  2    the command line is wrong  3    no daemon is running, or the requested item does not exist
  130  interrupted with Ctrl-C

Environment:
  NEXUS_ROOT, NEXUS_PROFILE, NEXUS_STATE_DIR, NEXUS_HOME, NEXUS_CONFIG_PATH, NO_COLOR";

/// A personal AI workspace in one binary: an assistant that lives in a folder on your machine.
#[derive(Debug, Parser)]
#[command(name = "nexus", version, after_help = EXAMPLES, max_term_width = 100, subcommand_required = true)]
pub(crate) struct Cli {
    /// Workspace folder [default: NEXUS_ROOT, the workspace around the working folder, or ~/nexus]
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) workspace: Option<PathBuf>,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Everything `nexus` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a workspace if needed, start or attach to its daemon, and talk
    Up(commands::up::Arguments),
    /// Create a workspace, or add what is missing from an existing one
    Init(commands::init::Arguments),
    /// Run the daemon in the foreground
    Start(commands::start::Arguments),
    /// Stop the running daemon after letting turns in progress finish
    Stop(commands::stop::Arguments),
    /// Show the state of the workspace and its daemon; works with no daemon running
    Status(commands::status::Arguments),
    /// Talk to a running daemon
    Chat(commands::chat::Arguments),
    /// Show what happened to a message, stage by stage
    Trace(commands::trace::Arguments),
    /// Undo the file changes of a run
    Undo(commands::undo::Arguments),
    /// List conversations and workers
    Sessions(commands::sessions::Arguments),
    /// Show who the assistant and the user are
    Identity(commands::identity::Arguments),
    /// Answer requests from agents and clients for your consent
    Approvals(commands::approvals::Arguments),
    /// Give other programs tokens for the daemon, and revoke them
    Tokens(commands::tokens::Arguments),
    /// Read and change settings
    Config(commands::config::Arguments),
    /// Show which model answers and why, and agree to its use
    Models(commands::models::Arguments),
    /// Manage credentials; values stay hidden
    Credential(commands::credential::Arguments),
    /// List skills, inspect them and accept them
    Skills(commands::skills::Arguments),
    /// List, enable, disable and register automations, which run around every message
    Automation(commands::automation::Arguments),
    /// Search the memory, add to it or remove from it
    Memory(commands::memory::Arguments),
    /// Show and manage the plan, tasks and history of a repository
    Project(commands::project::Arguments),
    /// Serve a project's tools and the memory over MCP, on standard input and output
    Mcp(commands::mcp::Arguments),
    /// Connect the workspace and its project to another coding harness, or disconnect them
    Bindings(commands::bindings::Arguments),
    /// Handle a hook call from a bound harness
    Hook(commands::hook::Arguments),
    /// Show the daemon's log
    Logs(commands::logs::Arguments),
    /// Check every part of the workspace and suggest repairs
    Doctor(commands::doctor::Arguments),
    /// Back up the whole workspace as of one moment, without secrets
    Backup(commands::backup::Arguments),
    /// Create a workspace from a backup
    Restore(commands::restore::Arguments),
    /// Show which models were used, and what they cost
    Usage(commands::usage::Arguments),
    /// Accept a copied or cloned workspace as your own
    Trust(commands::trust::Arguments),
    /// Govern the workspaces of this machine: serve, create, list and destroy them
    Kernel(kernel::Arguments),
    /// Create, list and destroy workspaces; short for `nexus kernel ws`
    Ws(kernel::ws::Arguments),
    /// Print a completion script for a shell
    Completions(commands::completions::Arguments),
    /// Describe the command tree as JSON, for the manual pages
    #[command(hide = true)]
    Manual(commands::manual::Arguments),
}

impl Command {
    /// Tells whether some of it works inside a tool call; what does not is refused by [`Context::layout`].
    const fn is_for_agents(&self) -> bool {
        matches!(
            self,
            Self::Status(_)
                | Self::Trace(_)
                | Self::Identity(_)
                | Self::Skills(_)
                | Self::Credential(_)
                | Self::Memory(_)
        )
    }
}

/// Reads the command line and does what it says.
pub(crate) fn run() -> Outcome {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let arguments: Vec<String> =
                std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()).collect();
            return match parse_failure(&error) {
                Err(failure) if commands::hook::is_called(&arguments) => {
                    commands::hook::misused(&arguments, &failure)
                }
                outcome => outcome,
            };
        }
    };
    if tool_call::is_inside() && !cli.command.is_for_agents() {
        return Err(tool_call::unavailable());
    }
    let context = Context::new(cli.workspace);
    match cli.command {
        Command::Up(arguments) => commands::up::run(&context, &arguments),
        Command::Init(arguments) => commands::init::run(&context, &arguments),
        Command::Start(arguments) => commands::start::run(&context, &arguments),
        Command::Stop(arguments) => commands::stop::run(&context, &arguments),
        Command::Status(arguments) => commands::status::run(&context, &arguments),
        Command::Chat(arguments) => commands::chat::run(&context, &arguments),
        Command::Trace(arguments) => commands::trace::run(&context, &arguments),
        Command::Undo(arguments) => commands::undo::run(&context, &arguments),
        Command::Sessions(arguments) => commands::sessions::run(&context, &arguments),
        Command::Identity(arguments) => commands::identity::run(&context, &arguments),
        Command::Approvals(arguments) => commands::approvals::run(&context, &arguments),
        Command::Tokens(arguments) => commands::tokens::run(&context, &arguments),
        Command::Config(arguments) => commands::config::run(&context, &arguments),
        Command::Models(arguments) => commands::models::run(&context, &arguments),
        Command::Credential(arguments) => commands::credential::run(&context, &arguments),
        Command::Skills(arguments) => commands::skills::run(&context, &arguments),
        Command::Automation(arguments) => commands::automation::run(&context, &arguments),
        Command::Memory(arguments) => commands::memory::run(&context, &arguments),
        Command::Project(arguments) => commands::project::run(&context, &arguments),
        Command::Mcp(arguments) => commands::mcp::run(&context, &arguments),
        Command::Bindings(arguments) => commands::bindings::run(&context, &arguments),
        Command::Hook(arguments) => commands::hook::run(&context, &arguments),
        Command::Logs(arguments) => commands::logs::run(&context, &arguments),
        Command::Doctor(arguments) => commands::doctor::run(&context, &arguments),
        Command::Backup(arguments) => commands::backup::run(&context, &arguments),
        Command::Restore(arguments) => commands::restore::run(&context, &arguments),
        Command::Usage(arguments) => commands::usage::run(&context, &arguments),
        Command::Trust(arguments) => commands::trust::run(&context, &arguments),
        Command::Kernel(arguments) => kernel::run(&arguments),
        Command::Ws(arguments) => kernel::ws::run(&arguments),
        Command::Completions(arguments) => commands::completions::run(&arguments),
        Command::Manual(arguments) => commands::manual::run(&arguments),
    }
}

/// Returns the tree for generators.
pub(crate) fn tree() -> clap::Command {
    Cli::command()
}

fn parse_failure(error: &clap::Error) -> Outcome {
    // Help and version come this way too; those are no failures.
    if !error.use_stderr() {
        return crate::output::text(&error.render().to_string());
    }
    // A bare `nexus` or `nexus config` shows help, as every tool does, but counts as a wrong command line.
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        crate::output::remark(error.render().to_string().trim_end());
        return Err(Failure::new("").exit(Exit::Usage));
    }
    let rendered = error.render().to_string();
    let (tips, details): (Vec<&str>, Vec<&str>) = rendered
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:"))
        .filter(|line| !line.is_empty() && !line.starts_with("For more information"))
        .partition(|line| line.starts_with("tip: "));
    let message = details.join(" ").trim_start_matches("error: ").to_owned();
    let usage = rendered.lines().find_map(|line| line.trim().strip_prefix("Usage: "));
    let hint = match (tips.first(), usage) {
        (Some(tip), _) => tip.trim_start_matches("tip: ").to_owned(),
        (None, Some(usage)) => format!("usage: {usage}; --help says more"),
        (None, None) => "see nexus --help".to_owned(),
    };
    Err(Failure::new(message).hint(hint).exit(Exit::Usage))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_tree_is_sound() {
        super::tree().debug_assert();
    }
}
