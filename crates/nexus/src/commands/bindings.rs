//! `nexus bindings`: this workspace and project inside another coding harness, and out of it again.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use nexus_bindings::{
    BindingError, Ground, Harness, Plan, RecordFolder, Standing, State, check, open_reviews,
};
use serde_json::json;

use crate::context::{Context, home, standing, trust_folder};
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{self, Format};
use nexus_base::error::chain;

/// Arguments of `nexus bindings`.
#[derive(Debug, Args)]
#[command(after_help = "\
Binding writes the harness's own files into the folder: an instruction block, hooks, the MCP server, roles and
skills. Your own settings stay byte for byte as they are, and `remove` removes exactly what was added.

Examples:
  nexus bindings claude-code
  nexus bindings codex --dry-run
  nexus bindings check
  nexus bindings remove cursor")]
pub(crate) struct Arguments {
    /// Folder to bind [default: the working folder]
    #[arg(long, global = true, value_name = "PATH")]
    project: Option<PathBuf>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Bind Claude Code
    #[command(after_help = "Example:\n  nexus bindings claude-code --dry-run")]
    ClaudeCode(Bind),
    /// Bind Codex
    #[command(after_help = "Example:\n  nexus bindings codex")]
    Codex(Bind),
    /// Bind Cursor
    #[command(after_help = "Example:\n  nexus bindings cursor")]
    Cursor(Bind),
    /// Bind OpenCode
    #[command(name = "opencode", after_help = "Example:\n  nexus bindings opencode")]
    OpenCode(Bind),
    /// Bind Gemini CLI
    #[command(after_help = "Example:\n  nexus bindings gemini")]
    Gemini(Bind),
    /// Bind Qwen Code
    #[command(after_help = "Example:\n  nexus bindings qwen")]
    Qwen(Bind),
    /// List the harnesses and whether each is bound here
    #[command(after_help = "Example:\n  nexus bindings list --json")]
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Report what is missing, out of date or waiting for you; exit code 1 if anything is
    #[command(after_help = "Example:\n  nexus bindings check")]
    Check {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a binding, and nothing else
    #[command(after_help = "Example:\n  nexus bindings remove claude-code --dry-run")]
    Remove {
        /// Name of the harness
        #[arg(value_parser = parse_harness)]
        harness: Harness,
        #[command(flatten)]
        how: Bind,
    },
}

/// How to bind or unbind.
#[derive(Debug, Args)]
struct Bind {
    /// Print the change as a diff and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Overwrite generated files that were changed; your versions are moved aside
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs `nexus bindings`.
pub(crate) fn run(context: &Context, arguments: &Arguments) -> Outcome {
    let folder = arguments.project.clone().unwrap_or_else(|| PathBuf::from("."));
    let ground = survey(context, &folder)?;
    let records = records()?;
    match &arguments.command {
        Command::ClaudeCode(how) => bind(Harness::ClaudeCode, &ground, &records, how),
        Command::Codex(how) => bind(Harness::Codex, &ground, &records, how),
        Command::Cursor(how) => bind(Harness::Cursor, &ground, &records, how),
        Command::OpenCode(how) => bind(Harness::OpenCode, &ground, &records, how),
        Command::Gemini(how) => bind(Harness::Gemini, &ground, &records, how),
        Command::Qwen(how) => bind(Harness::Qwen, &ground, &records, how),
        Command::List { json } => list(&ground, &records, *json).map(drop),
        Command::Check { json } => {
            let all = list(&ground, &records, *json)?;
            let waiting = all.iter().any(|one| matches!(one.state, State::Stale | State::AwaitingTrust));
            if waiting {
                return Err(Failure::new("something is out of date or waiting for you").exit(Exit::Failed));
            }
            Ok(())
        }
        Command::Remove { harness, how } => {
            let plan =
                Plan::remove(*harness, &ground, &records, how.force).map_err(|error| failure(&error))?;
            carry_out(plan, &records, how, *harness, "removed")
        }
    }
}

/// Looks at a folder and the workspace that goes with it.
pub(crate) fn survey(context: &Context, folder: &Path) -> Result<Ground, Failure> {
    let layout = context.layout()?;
    let settings = match layout.config().exists() {
        true if !standing(&layout).is_trusted() => {
            return Ground::survey_untrusted(folder).map_err(|error| failure(&error));
        }
        true => Some(context.loaded(&layout)?.settings),
        false => None,
    };
    let workspace = settings.as_ref().map(|settings| (&layout, settings));
    Ground::survey(folder, workspace).map_err(|error| failure(&error))
}

/// Returns where is kept what binding did.
pub(crate) fn records() -> Result<RecordFolder, Failure> {
    let trust = trust_folder()?;
    // Beside the trust records: neither may lie in the folder it speaks of.
    Ok(RecordFolder::at(trust.path().with_file_name("bindings")))
}

fn bind(harness: Harness, ground: &Ground, records: &RecordFolder, how: &Bind) -> Outcome {
    let plan = Plan::bind(harness, ground, records, how.force).map_err(|error| failure(&error))?;
    carry_out(plan, records, how, harness, "bound")?;
    if how.dry_run || how.json {
        return Ok(());
    }
    if ground.has_untrusted_workspace() {
        output::remark("warning: this workspace is not trusted, so only the project layer is bound");
        output::remark("hint: if it is yours, run nexus trust and bind again");
    } else if !ground.has_workspace() {
        output::line("No workspace was found, so only the project layer is bound; `nexus up` creates one.")?;
    }
    let todo = open_reviews(harness, ground, home().as_deref());
    if !todo.is_empty() {
        output::line("Left for you to do:")?;
        for one in todo {
            output::line(&format!("  {one}"))?;
        }
    }
    Ok(())
}

fn carry_out(plan: Plan, records: &RecordFolder, how: &Bind, harness: Harness, done: &str) -> Outcome {
    if how.dry_run {
        return if how.json {
            output::json(&json!({ "harness": harness.as_str(), "diff": plan.diff() }))
        } else if plan.is_empty() {
            output::line("Nothing would change.")
        } else {
            output::text(&plan.diff())
        };
    }
    let files = plan.apply(records).map_err(|error| failure(&error))?;
    if how.json {
        return output::json(&json!({ "harness": harness.as_str(), "files": files }));
    }
    if files.is_empty() {
        return output::line(&format!("{}: nothing to change.", harness.title()));
    }
    output::line(&format!("{} is {done}: {} files.", harness.title(), files.len()))?;
    for file in &files {
        output::line(&format!("  {}", file.display()))?;
    }
    Ok(())
}

fn list(ground: &Ground, records: &RecordFolder, json: bool) -> Result<Vec<Standing>, Failure> {
    let home = home();
    let mut all = Vec::new();
    for harness in Harness::ALL {
        all.push(check(harness, ground, records, home.as_deref()).map_err(|error| failure(&error))?);
    }
    match Format::from_flag(json) {
        Format::Json => output::json(&json!({ "folder": ground.root().to_string_lossy(), "bindings": all }))?,
        Format::Text => {
            let rows = all.iter().map(|one| {
                let stale = one.stale.iter().map(|file| file.display().to_string());
                let notes: Vec<String> = one.todo.iter().cloned().chain(stale).collect();
                vec![one.harness.clone(), word(one.state).to_owned(), notes.join("; ")]
            });
            output::table(&["harness", "state", "what to do"], rows.collect())?;
        }
    }
    Ok(all)
}

const fn word(state: State) -> &'static str {
    match state {
        State::NotBound => "-",
        State::Stale => "stale",
        State::AwaitingTrust => "awaiting trust",
        State::Bound => "bound",
        State::Active => "active",
    }
}

fn parse_harness(name: &str) -> Result<Harness, String> {
    let names = Harness::ALL.map(Harness::as_str).join(", ");
    Harness::parse(name).ok_or_else(|| format!("unknown harness; use one of {names}"))
}

fn failure(error: &BindingError) -> Failure {
    let failure = Failure::new(chain(error));
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
