//! `nexus automation`: what runs around every message, switched, registered and looked at. Through the
//! daemon while one runs, so that a change holds at once; over the files otherwise.

mod register;

use std::path::Path;

use clap::{Args, Subcommand};
use nexus_base::clock::Timestamp;
use nexus_protocol::automations::AutomationTest;
use nexus_protocol::control::{InvocationsOf, Named, Nothing};
use nexus_protocol::methods::Method;
use serde_json::{Value, json};

use crate::context::Context;
use crate::control;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{self, Format, shorten, single_line};

/// Arguments of `nexus automation`.
#[derive(Debug, Args)]
#[command(after_help = "\
An automation is a program in the workspace's automations folder. It receives JSON about what happens at its hook point
and answers with JSON. It runs in a sandbox; docs/automations.md has a template. Four come with Nexus.

Examples:
  nexus automation list
  nexus automation register greet automations/greet --hook-point runAutomations --blocking
  nexus automation test greet
  nexus automation disable memory-writer")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List automations and how they are doing
    #[command(after_help = "Example:\n  nexus automation list --json")]
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show one automation
    #[command(after_help = "Example:\n  nexus automation info memory-reader")]
    Info {
        /// Name of the automation
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Enable an automation
    #[command(after_help = "Example:\n  nexus automation enable memory-writer")]
    Enable {
        /// Name of the automation
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Disable an automation; it stays disabled across restarts and new versions
    #[command(after_help = "Example:\n  nexus automation disable memory-writer")]
    Disable {
        /// Name of the automation
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Register a program of your own, after showing it to you
    Register(register::Arguments),
    /// Remove an automation of your own
    #[command(after_help = "Example:\n  nexus automation remove greet")]
    Remove {
        /// Name of the automation
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Run an automation once as a test; exit code 1 if it fails
    #[command(
        after_help = "Example:\n  nexus automation test greet --data '{\"task\": \"water the plants\"}'"
    )]
    Test {
        /// Name of the automation
        name: String,
        /// Data of the hook point to pass to it, as JSON
        #[arg(long, value_name = "JSON")]
        data: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List past runs of automations and their results, newest first
    #[command(after_help = "Example:\n  nexus automation invocations memory-reader -n 5")]
    Invocations {
        /// Only runs of this automation
        name: Option<String>,
        /// Number of entries
        #[arg(short = 'n', long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Runs `nexus automation`.
pub(crate) fn run(context: &Context, arguments: &Arguments) -> Outcome {
    match &arguments.command {
        Command::List { json } => list(context, Format::from_flag(*json)),
        Command::Info { name, json } => {
            let mut found = control::call(context, Method::AutomationsGet, &Named { id: name.clone() })
                .map_err(listed)?;
            look_at_program(context, &mut found)?;
            if *json { output::json(&found) } else { show(&found) }
        }
        Command::Enable { name, json } => switch(context, name, Method::AutomationsEnable, *json),
        Command::Disable { name, json } => switch(context, name, Method::AutomationsDisable, *json),
        Command::Register(arguments) => register::run(context, arguments),
        Command::Remove { name, json } => {
            let named = Named { id: name.clone() };
            let answer: Value = control::call(context, Method::AutomationsRemove, &named).map_err(listed)?;
            if *json { output::json(&answer) } else { output::line(&format!("removed {name}")) }
        }
        Command::Test { name, data, json } => test(context, name, data.as_deref(), *json),
        Command::Invocations { name, limit, json } => {
            invocations(context, name.as_deref(), *limit, Format::from_flag(*json))
        }
    }
}

fn switch(context: &Context, name: &str, method: Method, json: bool) -> Outcome {
    let found: Value = control::call(context, method, &Named { id: name.to_owned() }).map_err(listed)?;
    if json {
        return output::json(&found);
    }
    output::line(&format!("{name} is {}", word(&found, "status")))
}

fn list(context: &Context, format: Format) -> Outcome {
    let mut answer: Value = control::call(context, Method::AutomationsList, &Nothing {})?;
    let mut found = rows(&mut answer, "automations");
    found.iter_mut().try_for_each(|one| look_at_program(context, one))?;
    if format == Format::Json {
        return output::json(&json!({ "automations": found }));
    }
    let row = |one: &Value| {
        let trouble = match (word(one, "program").as_str(), word(one, "circuit").as_str()) {
            ("", "closed") => String::new(),
            ("", circuit) => format!(" ({circuit})"),
            (program, _) => format!(" ({program})"),
        };
        vec![
            word(one, "name"),
            format!("{}{trouble}", word(one, "status")),
            word(one, "hookPoint"),
            one["triggerCount"].to_string(),
            shorten(&word(one, "description"), 60),
        ]
    };
    output::table(
        &["AUTOMATION", "STATUS", "HOOK POINT", "RUNS", "DESCRIPTION"],
        found.iter().map(row).collect(),
    )
}

/// Notes on an automation whose program is no longer the one its owner agreed to: it would not run, and nothing else
/// says so before it is due.
fn look_at_program(context: &Context, one: &mut Value) -> Result<(), Failure> {
    let Some(agreed) = one["hash"].as_str() else { return Ok(()) };
    let program = match nexus_automation::inspect(&context.existing()?, Path::new(&word(one, "script"))) {
        Ok(found) if found.hash == agreed => return Ok(()),
        Ok(_) => "changed",
        Err(_) => "cannot be read",
    };
    one["program"] = program.into();
    Ok(())
}

fn show(one: &Value) -> Outcome {
    output::line(&format!("{}: {}", word(one, "name"), single_line(&word(one, "description"))))?;
    let waits = if one["blocking"] == true { "waited for" } else { "on its own" };
    output::line(&format!("runs         {} at {}, {waits}", word(one, "mode"), word(one, "hookPoint")))?;
    let reason = word(one, "disabledReason");
    let reason = if reason.is_empty() { String::new() } else { format!(": {}", single_line(&reason)) };
    output::line(&format!("status       {}{reason}", word(one, "status")))?;
    output::line(&format!("circuit      {}", word(one, "circuit")))?;
    let program = match word(one, "program").as_str() {
        "" => String::new(),
        program => format!(" ({program}; it will not run until it is registered again)"),
    };
    output::line(&format!("code         {}{program}", single_line(&word(one, "script"))))?;
    for (name, key) in [
        ("hash", "hash"),
        ("folder", "workspace"),
        ("peers", "peers"),
        ("triggers", "triggers"),
        ("settings", "config"),
        ("limit ms", "timeoutMs"),
        ("last error", "lastError"),
    ] {
        if !one[key].is_null() {
            output::line(&format!("{name:<12} {}", single_line(&word(one, key))))?;
        }
    }
    let last = moment(one, "lastTriggered");
    let last = if last.is_empty() { String::new() } else { format!(", most recently at {last}") };
    output::line(&format!("runs so far  {}{last}", one["triggerCount"]))
}

fn test(context: &Context, name: &str, data: Option<&str>, json: bool) -> Outcome {
    let data = data
        .map(serde_json::from_str)
        .transpose()
        .map_err(|error| Failure::new(format!("--data is not valid JSON: {error}")).exit(Exit::Usage))?;
    let test = AutomationTest { id: name.to_owned(), data };
    let tried: Value = control::call(context, Method::AutomationsTest, &test).map_err(listed)?;
    if json {
        output::json(&tried)?;
    } else {
        output::line(&format!("{name}: {} after {} ms", word(&tried, "outcome"), tried["durationMs"]))?;
        if tried["outcome"] == "ok" {
            output::line(&output::harmless(
                &serde_json::to_string_pretty(&tried["result"]).unwrap_or_default(),
            ))?;
        }
    }
    if tried["outcome"] == "ok" {
        return Ok(());
    }
    Err(Failure::new(format!("{name} failed: {}", single_line(&word(&tried, "error")))))
}

fn invocations(context: &Context, name: Option<&str>, limit: u32, format: Format) -> Outcome {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let of = InvocationsOf { name: name.map(str::to_owned), limit: Some(limit) };
    let mut answer: Value = control::call(context, Method::AutomationsInvocations, &of)?;
    let found = rows(&mut answer, "invocations");
    if format == Format::Json {
        return output::json(&json!({ "invocations": found }));
    }
    if found.is_empty() {
        return output::line("no automation has run yet");
    }
    let row = |one: &Value| {
        let outcome = word(one, "outcome");
        vec![
            moment(one, "startedAt"),
            word(one, "automation"),
            word(one, "hookPoint"),
            if outcome.is_empty() { "running".to_owned() } else { outcome },
            one["latencyMs"].to_string(),
            shorten(&word(one, "error"), 60),
        ]
    };
    output::table(
        &["STARTED", "AUTOMATION", "HOOK POINT", "OUTCOME", "MS", "ERROR"],
        found.iter().map(row).collect(),
    )
}

fn listed(failure: Failure) -> Failure {
    failure.hint_if_missing("nexus automation list shows those there are")
}

fn rows(answer: &mut Value, name: &str) -> Vec<Value> {
    match answer[name].take() {
        Value::Array(rows) => rows,
        _ => Vec::new(),
    }
}

/// Returns a moment as a person reads it.
fn moment(row: &Value, key: &str) -> String {
    row[key].as_i64().map(|at| Timestamp(at).to_local_rfc3339()).unwrap_or_default()
}

/// Returns a value as a person reads it; nothing for what is not there.
fn word(row: &Value, key: &str) -> String {
    match &row[key] {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
