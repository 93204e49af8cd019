//! `nexus project`: the plan, tasks and history that people and agents share in a repository, as
//! tables, and the fixtures that say what an implementation of them must do.

mod catalog;
mod conformance;
mod gc;
mod graph;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use nexus_project::catalog::Catalog;
use nexus_project::harness::HarnessId;
use nexus_project::lifecycle::{self, Moment, Place};
use nexus_project::{Project, ProjectError, Tool, call};
use serde_json::{Map, Value, json};

use crate::failure::{Exit, Failure, Outcome};
use crate::output::{self, Format};

/// Arguments of `nexus project`.
#[derive(Debug, Args)]
#[command(after_help = "\
The project is the nearest folder that holds .nexus/, from the working folder upwards.

Examples:
  nexus project init
  nexus project status
  nexus project tasks --graph
  nexus project conformance fixtures/ --json")]
pub(crate) struct Arguments {
    /// The project's folder, instead of the nearest one
    #[arg(long, global = true, value_name = "PATH")]
    project: Option<PathBuf>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make .nexus/ in the working folder, or add what is missing in it
    #[command(after_help = "Example:\n  nexus project init --project ~/code/shop")]
    Init {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show branch, plan, tasks and number of finished cycles
    #[command(after_help = "Example:\n  nexus project status --json")]
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the open plan and what was decided
    #[command(after_help = "Example:\n  nexus project plan")]
    Plan {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List tasks and which are ready
    #[command(after_help = "Example:\n  nexus project tasks --graph")]
    Tasks {
        /// Draw what waits for what
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
        /// How many to show
        #[arg(short = 'n', long = "last", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
        last: u32,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Archive plan and tasks as one finished cycle, and end the session in the project
    #[command(after_help = "Example:\n  nexus project close")]
    Close {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show how memory files stand, or remove some as a commit
    #[command(
        after_help = "Nothing is removed by itself. Limits work only all three at once.\n\nExamples:\n  nexus project gc\n  nexus project gc external-old-api.md\n  nexus project gc --unused-days 180 --unused-cycles 20 --most-reads 1"
    )]
    Gc(gc::Arguments),
    /// Run conformance fixtures; exit code 1 when one fails
    #[command(
        after_help = "Examples:\n  nexus project conformance\n  nexus project conformance fixtures/ --json\n  nexus project conformance fixtures/ --server 'nexus mcp'"
    )]
    Conformance(conformance::Arguments),
    /// Show roles and skills, built in or from a package
    #[command(
        after_help = "Examples:\n  nexus project catalog\n  nexus project catalog --catalog ./nexus-core --json"
    )]
    Catalog(catalog::Arguments),
}

/// Runs `nexus project`.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let folder = arguments.project.as_deref();
    match &arguments.command {
        Command::Init { json } => init(&here(folder)?, Format::from_flag(*json)),
        Command::Status { json } => status(&existing(folder)?, Format::from_flag(*json)),
        Command::Plan { json } => plan(&existing(folder)?, Format::from_flag(*json)),
        Command::Tasks { graph, json } => tasks(&existing(folder)?, *graph, Format::from_flag(*json)),
        Command::History { query, last, json } => {
            history(&existing(folder)?, query.as_deref(), *last, Format::from_flag(*json))
        }
        Command::Close { json } => close(&existing(folder)?, Format::from_flag(*json)),
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
    let found = match folder {
        Some(folder) => Some(folder.to_owned()),
        None => Project::find(start),
    };
    let project = found.map(|root| Project::open(&root)).transpose().map_err(|error| failure(&error))?;
    project.filter(Project::exists).ok_or_else(|| {
        Failure::new(format!("no .nexus/ at or above {}", start.display()))
            .hint("nexus project init makes one in the working folder")
            .exit(Exit::Missing)
    })
}

fn failure(error: &ProjectError) -> Failure {
    let hint = match error {
        ProjectError::Damaged { .. } => Some("repair the file by hand, or take it back from git"),
        ProjectError::NotAFolder { .. } => Some("replace the link by a folder"),
        ProjectError::Busy { .. } => Some("if no other program works here, the lock file may be removed"),
        ProjectError::TooLarge { .. } => Some("move the file away and begin a new one"),
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
    if started.hides_rules {
        output::remark("warning: .nexus/.gitignore hides .nexus/rules/ from git; add a line !rules/");
    }
    if format == Format::Json {
        return output::json(&json!({
            "project": project.root(), "created": started.created,
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

fn status(project: &Project, format: Format) -> Outcome {
    let plan = ask(project, Tool::PlanStatus, json!({}))?;
    let tasks = ask(project, Tool::TaskList, json!({}))?;
    let history = ask(project, Tool::HistorySearch, json!({ "last_n": 1 }))?;
    let branch = project.branch();
    if format == Format::Json {
        return output::json(&json!({
            "project": project.root(), "branch": branch,
            "plan": { "active": plan["active"], "id": plan["plan_id"], "topic": plan["topic"], "summary": plan["summary"] },
            "tasks": { "goal": tasks["goal"], "summary": tasks["summary"] },
            "cycles": history["total"],
        }));
    }
    output::line(&format!("project  {}", project.root().display()))?;
    output::line(&format!("branch   {}", output::single_line(&branch)))?;
    if plan["active"] == true {
        let summary = &plan["summary"];
        let topic = output::shorten(text(&plan["topic"]), 60);
        output::line(&format!("plan     {topic}: {} of {} decided", summary["decided"], summary["total"]))?;
    } else {
        output::line("plan     none open")?;
    }
    let summary = &tasks["summary"];
    if summary.is_object() {
        let ready = summary["ready"].as_array().map_or(0, Vec::len);
        output::line(&format!(
            "tasks    {} of {} completed, {} in progress, {ready} ready",
            summary["completed"], summary["total"], summary["blocked"]
        ))?;
    } else {
        output::line("tasks    none")?;
    }
    let latest = history["cycles"][0]["completed_at"].as_str();
    let latest = latest.map(|at| format!(", the last at {}", output::single_line(at))).unwrap_or_default();
    output::line(&format!("history  {} finished cycles{latest}", history["total"]))
}

fn plan(project: &Project, format: Format) -> Outcome {
    let plan = ask(project, Tool::PlanStatus, json!({}))?;
    if format == Format::Json {
        return output::json(&plan);
    }
    if plan["active"] != true {
        return output::line("no plan is open");
    }
    output::line(&format!("plan {}: {}", plan["plan_id"], output::single_line(text(&plan["topic"]))))?;
    let issues = plan["issues"].as_array().map(Vec::as_slice).unwrap_or_default();
    let rows = issues
        .iter()
        .map(|issue| {
            let cells = ["status", "title", "decision"].map(|name| output::shorten(text(&issue[name]), 70));
            std::iter::once(issue["id"].to_string()).chain(cells).collect()
        })
        .collect();
    output::table(&["ID", "STATUS", "ISSUE", "DECISION"], rows)
}

fn tasks(project: &Project, draw: bool, format: Format) -> Outcome {
    let list = ask(project, Tool::TaskList, json!({}))?;
    if format == Format::Json {
        return output::json(&list);
    }
    let Some(tasks) = list["tasks"].as_array().filter(|tasks| !tasks.is_empty()) else {
        return output::line("no tasks");
    };
    if draw {
        return output::text(&graph::draw(tasks, &list["summary"]["ready"]));
    }
    let ready = list["summary"]["ready"].as_array().map(Vec::as_slice).unwrap_or_default();
    let rows = tasks
        .iter()
        .map(|task| {
            let status = if ready.contains(&task["id"]) { "ready" } else { text(&task["status"]) };
            vec![
                task["id"].to_string(),
                status.to_owned(),
                owner(task).to_owned(),
                graph::numbers(&task["deps"]).join(", "),
                output::shorten(text(&task["title"]), 70),
            ]
        })
        .collect();
    output::table(&["ID", "STATUS", "OWNER", "WAITS FOR", "TASK"], rows)
}

fn history(project: &Project, query: Option<&str>, last: u32, format: Format) -> Outcome {
    let found = ask(project, Tool::HistorySearch, json!({ "query": query, "last_n": last }))?;
    if format == Format::Json {
        return output::json(&found);
    }
    let cycles = found["cycles"].as_array().map(Vec::as_slice).unwrap_or_default();
    if cycles.is_empty() {
        return output::line(if query.is_some() { "no cycle matches" } else { "no finished cycles yet" });
    }
    let rows = cycles
        .iter()
        .map(|cycle| {
            let decisions = cycle["decisions"].as_array().map_or(0, Vec::len);
            vec![
                text(&cycle["completed_at"]).to_owned(),
                text(&cycle["branch"]).to_owned(),
                decisions.to_string(),
                cycle["task_count"].to_string(),
                output::shorten(text(&cycle["topic"]), 60),
            ]
        })
        .collect();
    output::table(&["COMPLETED", "BRANCH", "DECISIONS", "TASKS", "TOPIC"], rows)?;
    if found["total"] != found["showing"] {
        output::remark(&format!("{} of {} shown", found["showing"], found["total"]));
    }
    Ok(())
}

fn close(project: &Project, format: Format) -> Outcome {
    let closed = ask(project, Tool::TaskClose, json!({}))?;
    // A daemon that works here notices and begins a new session with its next turn.
    let catalog = Catalog::embedded().map_err(|error| Failure::new(error.to_string()))?;
    let place = Place { project, harness: &HarnessId::ours(), catalog: &catalog };
    lifecycle::handle(&place, Moment::SessionEnd, &Map::new()).map_err(|error| failure(&error))?;
    if format == Format::Json {
        return output::json(&closed);
    }
    let archived = &closed["archived"];
    output::line(&format!(
        "archived cycle {}: {} decisions, {} tasks",
        closed["total_cycles"], archived["decisions"], archived["tasks"]
    ))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A task's owner: a name, or in files of newer versions an object with a role.
fn owner(task: &Value) -> &str {
    task["owner"].as_str().or_else(|| task["owner"]["role"].as_str()).unwrap_or_default()
}
