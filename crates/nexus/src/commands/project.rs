//! `nexus project`: the plan, tasks and history that people and agents share in a repository, as
//! tables, and the fixtures that say what an implementation of them must do.
//! Text that has to fit into the columns of a terminal, whatever script it is written in.

mod catalog;
mod conformance;
mod gc;
mod graph;
mod views;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use nexus_project::harness::HarnessId;
use nexus_project::lifecycle::{self, Moment, Place};
use nexus_project::{Project, ProjectError, Tool, call};
use serde_json::{Map, Value, json};

use super::bindings;
use crate::context::Context;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{self, Format};

/// Arguments of `nexus project`.
#[derive(Debug, Args)]
#[command(after_help = "\
The project is the nearest folder with a .nexus/ in it, from the working folder or the one given with
--project upwards. init creates it in that folder itself.

Examples:
  nexus project init
  nexus project status
  nexus project tasks --graph
  nexus project conformance fixtures/ --json")]
pub(crate) struct Arguments {
    /// A folder of the project [default: the working folder]
    #[arg(long, global = true, value_name = "PATH")]
    project: Option<PathBuf>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create .nexus/ in the working folder, or add what is missing from it
    #[command(after_help = "Example:\n  nexus project init --project ~/code/shop")]
    Init {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the branch, plan, tasks and number of finished cycles
    #[command(after_help = "Example:\n  nexus project status --json")]
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the open plan and its decisions
    #[command(after_help = "Example:\n  nexus project plan")]
    Plan {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List tasks and show which are ready
    #[command(after_help = "Example:\n  nexus project tasks --graph")]
    Tasks {
        /// Draw the dependencies
        #[arg(long, conflicts_with = "json")]
        graph: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Search finished cycles, or show the latest
    #[command(
        after_help = "Examples:\n  nexus project history\n  nexus project history \"state layer\" -n 3 --json"
    )]
    History {
        /// Text to look for, anywhere in a cycle
        query: Option<String>,
        /// Number of entries to show
        #[arg(short = 'n', long = "last", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
        last: u32,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Archive the plan and tasks as one finished cycle, and end the session in the project
    #[command(after_help = "Example:\n  nexus project close")]
    Close {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show how memory files are used, or remove some in a commit
    #[command(
        after_help = "Nothing is removed automatically. All three limits must be given together.\n\nExamples:\n  nexus project gc\n  nexus project gc external-old-api.md\n  nexus project gc --unused-days 180 --unused-cycles 20 --most-reads 1"
    )]
    Gc(gc::Arguments),
    /// Run conformance fixtures; exit code 1 if one fails
    #[command(
        after_help = "Examples:\n  nexus project conformance\n  nexus project conformance fixtures/ --json\n  nexus project conformance fixtures/ --server 'nexus mcp'"
    )]
    Conformance(conformance::Arguments),
    /// Show the roles and skills, built in or from a package
    #[command(
        after_help = "Examples:\n  nexus project catalog\n  nexus project catalog --catalog ./nexus-core --json"
    )]
    Catalog(catalog::Arguments),
}

/// Runs `nexus project`.
pub(crate) fn run(context: &Context, arguments: &Arguments) -> Outcome {
    let folder = arguments.project.as_deref();
    match &arguments.command {
        Command::Init { json } => init(&here(folder)?, Format::from_flag(*json)),
        Command::Status { json } => views::status(&existing(folder)?, Format::from_flag(*json)),
        Command::Plan { json } => views::plan(&existing(folder)?, Format::from_flag(*json)),
        Command::Tasks { graph, json } => views::tasks(&existing(folder)?, *graph, Format::from_flag(*json)),
        Command::History { query, last, json } => {
            views::history(&existing(folder)?, query.as_deref(), *last, Format::from_flag(*json))
        }
        Command::Close { json } => close(context, &existing(folder)?, Format::from_flag(*json)),
        Command::Gc(arguments) => gc::run(&existing(folder)?, arguments),
        Command::Conformance(arguments) => conformance::run(arguments),
        Command::Catalog(arguments) => catalog::run(arguments),
    }
}

fn here(folder: Option<&std::path::Path>) -> Result<Project, Failure> {
    Project::open(folder.unwrap_or(std::path::Path::new("."))).map_err(|error| failure(&error))
}

fn existing(folder: Option<&std::path::Path>) -> Result<Project, Failure> {
    let start = folder.unwrap_or(std::path::Path::new("."));
    let found = Project::find(start);
    let project = found.map(|root| Project::open(&root)).transpose().map_err(|error| failure(&error))?;
    project.filter(Project::exists).ok_or_else(|| {
        if !start.is_dir() {
            return Failure::new(format!("there is no folder {}", start.display())).exit(Exit::Missing);
        }
        Failure::new(format!("no .nexus/ at or above {}", start.display()))
            .hint("nexus project init creates one in the working folder")
            .exit(Exit::Missing)
    })
}

fn failure(error: &ProjectError) -> Failure {
    let hint = match error {
        ProjectError::Damaged { .. } => Some("repair the file by hand, or restore it from git"),
        ProjectError::NotAFolder { .. } => Some("replace the link with a folder"),
        ProjectError::Busy { .. } => Some("if no other program is working here, remove the lock file"),
        ProjectError::TooLarge { .. } => Some("move the file away and start a new one"),
        ProjectError::File(_) | ProjectError::Jail(_) => {
            Some("check the folder's owner, permissions and free space")
        }
        ProjectError::Refused(_) | ProjectError::Parameter(_) => None,
    };
    Failure::new(error.message()).maybe_hint(hint)
}

fn ask(project: &Project, tool: Tool, parameters: Value) -> Result<Value, Failure> {
    let parameters = match parameters {
        Value::Object(parameters) => parameters,
        _ => Map::new(),
    };
    call(project, tool, &parameters).map_err(|error| failure(&error))
}

fn init(project: &Project, format: Format) -> Outcome {
    let started = project.start(&HarnessId::ours()).map_err(|error| failure(&error))?;
    for fault in &started.ignored_wrongly {
        output::remark(&format!("warning: {fault}"));
    }
    if format == Format::Json {
        return output::json(&json!({
            "project": project.root().to_string_lossy(), "created": started.created,
            "openPlan": started.leftovers.plan, "openTasks": started.leftovers.tasks,
        }));
    }
    for path in &started.created {
        output::line(&format!("made {}", path.display()))?;
    }
    if started.leftovers.plan || started.leftovers.tasks {
        output::remark("hint: an earlier session left work open; nexus project status shows it");
    }
    output::line(&format!("{} is a project", project.root().display()))
}

fn close(context: &Context, project: &Project, format: Format) -> Outcome {
    let plan = ask(project, Tool::PlanStatus, json!({}))?;
    let list = ask(project, Tool::TaskList, json!({}))?;
    // The tool archives a cycle in any case; one that holds nothing would stand in the history for good.
    if plan["active"] != true && list["exists"] == false {
        return match format {
            Format::Json => output::json(&json!({ "closed": false })),
            Format::Text => output::line("nothing is open"),
        };
    }
    let tasks = list["tasks"].as_array().into_iter().flatten();
    match tasks.filter(|task| task["status"] != "completed").count() {
        0 => {}
        1 => output::remark("warning: 1 task is not completed; it is archived as it is"),
        some => {
            output::remark(&format!("warning: {some} tasks are not completed; they are archived as they are"))
        }
    }
    let ground = bindings::survey(context, project.root())?;
    let closed = ask(project, Tool::TaskClose, json!({}))?;
    // A daemon that works here notices and begins a new session with its next turn.
    let (catalog, tool_log) = (ground.catalog(), ground.tool_log());
    let place = Place { project, harness: &HarnessId::ours(), catalog, tool_log };
    // What was kept beside plan and tasks goes with them, as after any other closing.
    let called = Map::from_iter([("tool".to_owned(), json!(Tool::TaskClose.as_str()))]);
    for (moment, payload) in [(Moment::PostToolUse, called), (Moment::SessionEnd, Map::new())] {
        lifecycle::handle(&place, moment, &payload).map_err(|error| failure(&error))?;
    }
    if format == Format::Json {
        return output::json(&closed);
    }
    let archived = &closed["archived"];
    output::line(&format!(
        "archived cycle {}: {}, {}",
        closed["total_cycles"],
        counted(&archived["decisions"], "decision"),
        counted(&archived["tasks"], "task")
    ))
}

/// A number of things in words.
fn counted(number: &Value, thing: &str) -> String {
    let end = if *number == 1 { "" } else { "s" };
    format!("{number} {thing}{end}")
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn owner(task: &Value) -> &str {
    nexus_project::resume::owner(task).unwrap_or_default()
}

/// Returns how much of a text a line has room for: what the terminal leaves beside the rest of it, at most `most`.
fn room(most: usize, beside: usize) -> usize {
    output::terminal_width().map_or(most, |width| usize::from(width).saturating_sub(beside).clamp(12, most))
}

/// Writes text behind its beginning, broken where the terminal ends; in a pipe it stays one line.
fn paragraph(first: &str, others: &str, content: &str) -> Outcome {
    let width = output::terminal_width().map_or(usize::MAX, usize::from);
    wrap(first, others, content, width).iter().try_for_each(|line| output::line(line))
}

/// Breaks text at words; a word that no line can hold, as in scripts without spaces, is broken itself.
fn wrap(first: &str, others: &str, content: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = first.to_owned();
    let mut begun = false;
    for word in output::single_line(content).split(' ') {
        let gap = usize::from(begun);
        if begun && output::columns(&line) + gap + output::columns(word) > width {
            lines.push(std::mem::replace(&mut line, others.to_owned()));
            begun = false;
        }
        if begun {
            line.push(' ');
        }
        for character in word.chars() {
            let mut characters = [0; 4];
            if begun
                && output::columns(&line) + output::columns(character.encode_utf8(&mut characters)) > width
            {
                lines.push(std::mem::replace(&mut line, others.to_owned()));
            }
            line.push(character);
            begun = true;
        }
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_where_the_terminal_does() {
        assert_eq!(wrap("- ", "  ", "one two three", 9), ["- one two", "  three"]);
        assert_eq!(wrap("- ", "  ", "", 9), ["- "]);
        assert_eq!(wrap("- ", "  ", "計画を立てる", 9), ["- 計画を", "  立てる"]);
        assert_eq!(wrap("- ", "  ", "a bcdefghijkl m", 9), ["- a", "  bcdefgh", "  ijkl m"]);
    }
}
