//! `nexus project conformance`: fixtures run against this implementation or against a server, one
//! line for each.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use nexus_project::conformance::{
    Fixture, Library, Server, Subject, ToolNames, Verdict, load, own, run as run_fixture,
};
use serde_json::json;

use super::paragraph;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{self, Format};
use nexus_base::error::chain;

/// Arguments of `nexus project conformance`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Fixture files or folders [default: the built-in ones]
    paths: Vec<PathBuf>,
    /// Test this MCP server over its standard streams instead; {PROJECT} stands for the project's folder
    #[arg(long, value_name = "COMMAND")]
    server: Option<String>,
    /// The server's names for the tools: a JSON object, or @FILE with one
    #[arg(long, value_name = "JSON", requires = "server")]
    map: Option<String>,
    /// How long the server may take to answer
    #[arg(long, value_name = "SECONDS", requires = "server", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=600))]
    patience: u64,
    /// Fail if fewer fixtures than this were run
    #[arg(long, value_name = "N", default_value_t = 1)]
    at_least: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let fixtures = if arguments.paths.is_empty() { own() } else { load(&arguments.paths) };
    let fixtures = fixtures.map_err(|error| Failure::new(chain(&error)).exit(Exit::Failed))?;
    if fixtures.is_empty() {
        return Err(Failure::new("no fixtures found")
            .hint("a fixture is a JSON file whose objects have a test_id")
            .exit(Exit::Missing));
    }
    let verdicts = match &arguments.server {
        None => judge(&fixtures, &mut Library),
        Some(command) => judge(&fixtures, &mut server(command, arguments)?),
    };
    let skipped = verdicts.iter().filter(|verdict| verdict.skipped.is_some()).count();
    let failed = verdicts.iter().filter(|verdict| !verdict.passed).count();
    let (total, passed) = (verdicts.len(), verdicts.len() - failed - skipped);
    if Format::from_flag(arguments.json) == Format::Json {
        output::json(&json!({
            "total": total, "passed": passed, "failed": failed, "skipped": skipped, "fixtures": verdicts,
        }))?;
    } else {
        show(&verdicts)?;
        let note = if skipped > 0 { format!(", {skipped} skipped") } else { String::new() };
        output::line(&format!("{passed} of {total} passed{note}"))?;
    }
    if failed > 0 {
        return Err(Failure::new(format!("{failed} of {total} fixtures failed")));
    }
    if total - skipped < arguments.at_least {
        let ran = total - skipped;
        return Err(Failure::new(format!(
            "only {ran} fixtures were run; {} are required",
            arguments.at_least
        )));
    }
    Ok(())
}

fn judge(fixtures: &[Fixture], subject: &mut dyn Subject) -> Vec<Verdict> {
    let scratch = std::env::temp_dir();
    fixtures.iter().map(|fixture| run_fixture(fixture, subject, &scratch)).collect()
}

/// One line for each test, then what did not hold: mixed, the lines of one would tear the others apart.
fn show(verdicts: &[Verdict]) -> Outcome {
    let common = common_folder(verdicts);
    let longest = verdicts.iter().map(|verdict| verdict.test_id.len()).max().unwrap_or(0);
    // RESULT and the gaps beside columns take twelve.
    let room =
        output::terminal_width().map_or(usize::MAX, |width| usize::from(width).saturating_sub(12 + longest));
    let row = |verdict: &Verdict| {
        let word = match (verdict.skipped, verdict.passed) {
            (Some(_), _) => "skip",
            (None, true) => "pass",
            (None, false) => "FAIL",
        };
        let file = verdict.file.strip_prefix(&common).unwrap_or(&verdict.file).display().to_string();
        vec![word.to_owned(), verdict.test_id.clone(), output::shorten_left(&file, room)]
    };
    output::table(&["RESULT", "TEST", "FILE"], verdicts.iter().map(row).collect())?;
    let mut reasons: Vec<&str> = verdicts.iter().filter_map(|verdict| verdict.skipped).collect();
    reasons.dedup();
    for reason in reasons {
        paragraph("skip: ", "      ", reason)?;
    }
    for verdict in verdicts {
        for problem in &verdict.problems {
            paragraph(&format!("{}: ", verdict.test_id), "      ", problem)?;
        }
    }
    Ok(())
}

/// Returns the folder that holds all files.
fn common_folder(verdicts: &[Verdict]) -> PathBuf {
    let folder = |verdict: &Verdict| verdict.file.parent().map(Path::to_owned).unwrap_or_default();
    let holds_all = |folder: &Path| verdicts.iter().all(|verdict| verdict.file.starts_with(folder));
    let first = verdicts.first().map(folder).unwrap_or_default();
    first.ancestors().find(|folder| holds_all(folder)).map(Path::to_owned).unwrap_or_default()
}

fn server(command: &str, arguments: &Arguments) -> Result<Server, Failure> {
    let usage = |message: String| Failure::new(message).exit(Exit::Usage);
    let words = words(command).ok_or_else(|| usage(format!("unclosed quote in {command:?}")))?;
    let names = match &arguments.map {
        None => ToolNames::default(),
        Some(text) => {
            let text = match text.strip_prefix('@') {
                None => text.to_owned(),
                Some(path) => std::fs::read_to_string(path)
                    .map_err(|error| usage(format!("reading {path}: {error}")))?,
            };
            ToolNames::parse(&text)
                .map_err(|error| usage(format!("the tool map is not valid JSON: {error}")))?
        }
    };
    Server::new(words, names, Duration::from_secs(arguments.patience)).map_err(usage)
}

/// Cuts a command into words; quotes keep spaces together. `None` when a quote does not end.
fn words(command: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for character in command.chars() {
        match (quote, character) {
            (Some(open), character) if open == character => quote = None,
            (Some(_), character) => word.get_or_insert_default().push(character),
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, character) if character.is_whitespace() => words.extend(word.take()),
            (None, character) => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_cut_into_words() {
        let cut = |text: &str| words(text);
        assert_eq!(cut("nexus mcp"), Some(vec!["nexus".to_owned(), "mcp".to_owned()]));
        assert_eq!(cut("  a 'b c'\"d\" '' "), Some(vec!["a".to_owned(), "b cd".to_owned(), String::new()]));
        assert_eq!(cut("a 'b"), None);
        assert_eq!(cut(""), Some(Vec::new()));
    }
}
