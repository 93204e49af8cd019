//! Manual pages from the command tree that `nexus manual` prints. Pure: a tree in, pages out, so that a
//! test of the binary compares them with what is committed.

use clap_mangen::Man;
use serde_json::Value;

/// Renders one page for each command of the tree, with its file name.
pub(crate) fn pages(tree: &Value, name: &str) -> std::io::Result<Vec<(String, Vec<u8>)>> {
    let mut page = Vec::new();
    Man::new(command(tree, name)).source("nexus").manual("Nexus").date("").render(&mut page)?;
    let mut all = vec![(format!("{}.1", name.replace(' ', "-")), page)];
    for below in list(tree, "commands") {
        all.extend(pages(below, &format!("{name} {}", text(below, "name")))?);
    }
    Ok(all)
}

/// Rebuilds as much of a command as its page shows.
fn command(tree: &Value, name: &str) -> clap::Command {
    let mut built = clap::Command::new(kept(&name.replace(' ', "-")))
        .bin_name(name.to_owned())
        .about(text(tree, "about"))
        .disable_help_subcommand(true);
    if let Some(after) = tree["afterHelp"].as_str() {
        built = built.after_help(kept(after));
    }
    for (position, argument) in list(tree, "arguments").iter().enumerate() {
        built = built.arg(rebuilt(argument, position + 1));
    }
    for below in list(tree, "commands") {
        built = built.subcommand(clap::Command::new(text(below, "name")).about(text(below, "about")));
    }
    built
}

fn rebuilt(argument: &Value, position: usize) -> clap::Arg {
    let mut built = clap::Arg::new(text(argument, "id")).help(text(argument, "help"));
    let words = |key: &str| -> Vec<&'static str> {
        list(argument, key).iter().filter_map(Value::as_str).map(kept).collect()
    };
    let (values, choices) = (words("values"), words("choices"));
    let short = argument["short"].as_str().and_then(|text| text.chars().next());
    let long = argument["long"].as_str().map(kept);
    let is_option = short.is_some() || long.is_some();
    built = built.required(argument["required"].as_bool().unwrap_or_default());
    if let Some(short) = short {
        built = built.short(short);
    }
    if let Some(long) = long {
        built = built.long(long);
    }
    if !is_option {
        built = built.index(position);
    }
    if values.is_empty() {
        return built.action(clap::ArgAction::SetTrue);
    }
    built = built.action(clap::ArgAction::Set).value_names(values);
    if choices.is_empty() { built } else { built.value_parser(choices) }
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value, key: &str) -> &'static str {
    kept(value[key].as_str().unwrap_or_default())
}

/// Gives a text that lives as long as the program; clap wants that, and this program ends at once.
fn kept(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}
