//! `nexus config`: read, change and re-read the settings of a workspace.

use clap::{Args, Subcommand};
use nexus_protocol::methods::Method;
use nexus_workspace::config;
use serde_json::{Value, json};

use crate::context::Context;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{self, Format};

/// Keys that a running daemon reads only when it starts.
const NEEDS_A_START: [&str; 2] = ["runtime.port", "runtime.bind"];

/// Arguments of `nexus config`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  nexus config list\n  nexus config set agent.model claude-sonnet-4-5")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print one value or section; the token is never printed
    #[command(after_help = "Example:\n  nexus config get runtime.port")]
    Get {
        /// Dotted path, such as queue.mode
        key: String,
        /// Print JSON, including where the value comes from
        #[arg(long)]
        json: bool,
    },
    /// Change one value: it is checked first, written atomically, and the old file is kept
    #[command(
        after_help = "Examples:\n  nexus config set runtime.port 18800\n  nexus config set agent.model null    back to the default"
    )]
    Set {
        /// Dotted path, such as queue.mode
        key: String,
        /// New value, as JSON or plain text; null removes the key
        value: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List every key, its value and where that comes from
    #[command(after_help = "Example:\n  nexus config list --json")]
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the JSON Schema of the configuration file
    #[command(after_help = "Example:\n  nexus config schema > nexus-config.schema.json")]
    Schema,
    /// Make the running daemon reload its configuration
    #[command(after_help = "Example:\n  nexus config reload")]
    Reload,
    /// Replace the owner's token; the old one stops working
    #[command(after_help = "Example:\n  nexus config rotate-token")]
    RotateToken,
}

/// Runs `nexus config`.
pub(crate) fn run(context: &Context, arguments: &Arguments) -> Outcome {
    match &arguments.command {
        Command::Get { key, json } => get(context, key, Format::from_flag(*json)),
        Command::Set { key, value, json } => set(context, key, value, Format::from_flag(*json)),
        Command::List { json } => list(context, Format::from_flag(*json)),
        Command::Schema => output::text(&config::schema()),
        Command::Reload => reload(context),
        Command::RotateToken => rotate_token(context),
    }
}

fn get(context: &Context, key: &str, format: Format) -> Outcome {
    let loaded = context.loaded(&context.existing()?)?;
    let value = loaded.get(key).ok_or_else(|| {
        let what = if config::is_known(key) { "is not set" } else { "is not a known key" };
        Failure::new(format!("{} {what}", output::shorten(key, 100)))
            .hint("nexus config list shows every key")
            .exit(Exit::Missing)
    })?;
    match format {
        Format::Json => output::json(&json!({ "key": key, "value": value, "source": loaded.source(key) })),
        Format::Text => output::line(&plain(&value)),
    }
}

fn set(context: &Context, key: &str, text: &str, format: Format) -> Outcome {
    let layout = context.existing()?;
    let value = config::parse_value(key, text)?;
    let lacked_token = config::lacks_token(&layout);
    let loaded = config::set(&layout, key, value)?;
    let value = loaded.get(key);
    let running = nexus_base::lock::holder(&layout.lock()).is_some();
    if lacked_token {
        output::remark(&format!("{} had no token; it has one now", layout.config().display()));
    }
    let restart_needed = running && NEEDS_A_START.contains(&key);
    if format == Format::Json {
        let reload_needed = running && !restart_needed;
        return output::json(&json!({
            "key": key, "value": value, "reloadNeeded": reload_needed, "restartNeeded": restart_needed,
        }));
    }
    output::line(&match value {
        Some(value) => format!("{key} = {}", plain(&value)),
        None => format!("{key} is no longer set"),
    })?;
    if restart_needed {
        output::remark(
            "hint: the running daemon keeps the old value; run nexus stop and nexus start to apply the new one",
        );
    } else if running {
        output::remark("hint: run nexus config reload to apply it to the running daemon");
    }
    Ok(())
}

fn list(context: &Context, format: Format) -> Outcome {
    let loaded = context.loaded(&context.existing()?)?;
    let unset: Vec<&str> = config::known_keys().filter(|key| !is_listed(&loaded, key)).collect();
    if format == Format::Json {
        let (values, warnings) = (&loaded.values, &loaded.warnings);
        return output::json(&json!({ "values": values, "unset": unset, "warnings": warnings }));
    }
    let mut rows: Vec<Vec<String>> = loaded
        .values
        .iter()
        .map(|listed| {
            vec![listed.key.clone(), plain(&listed.value), format!("{:?}", listed.source).to_lowercase()]
        })
        .collect();
    rows.extend(unset.into_iter().map(|key| vec![key.to_owned(), "-".to_owned(), "unset".to_owned()]));
    rows.sort_unstable();
    output::table(&["KEY", "VALUE", "FROM"], rows)?;
    for warning in &loaded.warnings {
        output::remark(&format!("warning: warning; {}", warning.fix));
    }
    Ok(())
}

/// Tells whether a key, or one with a name in place of its `*`, or one inside it, is among the values.
fn is_listed(loaded: &config::Loaded, key: &str) -> bool {
    let parts: Vec<&str> = key.split('.').collect();
    loaded.values.iter().any(|listed| {
        let given: Vec<&str> = listed.key.split('.').collect();
        given.len() >= parts.len()
            && parts.iter().zip(&given).all(|(part, given)| *part == "*" || part == given)
    })
}

fn reload(context: &Context) -> Outcome {
    let layout = context.existing()?;
    // The daemon keeps its old settings when the new ones are wrong; say it here, where it is read.
    context.loaded(&layout)?;
    signal_reload(context)?;
    output::line("the daemon is reloading its configuration")
}

fn rotate_token(context: &Context) -> Outcome {
    let layout = context.existing()?;
    if nexus_base::lock::holder(&layout.lock()).is_some() {
        // Through the daemon: when this returns, the old token has stopped working.
        let _: Value = super::call(context, Method::ConfigRotateToken, &json!({}))?;
    } else {
        config::rotate_token(&layout)?;
    }
    output::line(&format!("new token in {}; the old one no longer works", layout.config().display()))
}

fn signal_reload(context: &Context) -> Outcome {
    let layout = context.existing()?;
    let pid = super::stop::daemon(context, &layout)?;
    rustix::process::kill_process(pid, rustix::process::Signal::HUP)
        .map_err(|error| Failure::new(format!("telling process {} to reload: {error}", pid.as_raw_pid())))
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => output::single_line(text),
        other => other.to_string(),
    }
}
