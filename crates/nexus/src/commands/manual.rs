//! `nexus manual`: the whole command tree as data, from which the manual pages are made. Hidden: people
//! read `--help`.

use clap::Args;
use serde_json::{Value, json};

use crate::failure::Outcome;
use crate::output;

/// Arguments of `nexus manual`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  nexus manual")]
pub(crate) struct Arguments {}

/// Runs `nexus manual`.
pub(crate) fn run(_arguments: &Arguments) -> Outcome {
    let mut tree = crate::cli::tree();
    tree.build();
    output::json(&describe(&tree))
}

fn describe(command: &clap::Command) -> Value {
    let text = |styled: Option<&clap::builder::StyledStr>| styled.map(ToString::to_string);
    let arguments: Vec<Value> = command
        .get_arguments()
        .filter(|argument| {
            !argument.is_hide_set() && !matches!(argument.get_id().as_str(), "help" | "version")
        })
        .map(|argument| {
            let values: Vec<String> =
                argument.get_value_names().unwrap_or_default().iter().map(ToString::to_string).collect();
            let choices: Vec<String> = argument
                .get_possible_values()
                .iter()
                .filter(|choice| !choice.is_hide_set())
                .map(|choice| choice.get_name().to_owned())
                .collect();
            json!({
                "id": argument.get_id().as_str(),
                "short": argument.get_short(),
                "long": argument.get_long(),
                "values": if argument.get_action().takes_values() { values } else { Vec::new() },
                "choices": if argument.get_action().takes_values() { choices } else { Vec::new() },
                "help": text(argument.get_help()),
                "required": argument.is_required_set(),
                "global": argument.is_global_set(),
            })
        })
        .collect();
    let below: Vec<Value> = command
        .get_subcommands()
        .filter(|below| !below.is_hide_set() && below.get_name() != "help")
        .map(describe)
        .collect();
    json!({
        "name": command.get_name(),
        "about": text(command.get_about()),
        "afterHelp": text(command.get_after_help()),
        "arguments": arguments,
        "commands": below,
    })
}
