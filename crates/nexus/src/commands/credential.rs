//! `nexus credential`: which credentials there are and which could be taken in. Files hold pointers;
//! values are shown masked or not at all.

use std::io::{BufRead, Write};

use clap::{Args, Subcommand};
use nexus_base::file::FileError;
use nexus_credentials::{CredentialFolder, Depth, Findings, scan};
use serde_json::json;

use crate::context::Context;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{self, Format};

/// Arguments of `nexus credential`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  nexus credential list\n  nexus credential scan --deep")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List what the workspace knows of
    #[command(after_help = "Example:\n  nexus credential list --json")]
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Look for keys in this shell's environment; values are masked
    #[command(after_help = "\
Only names, services and masked values are shown. An import stores where a key is found (the variable's name),
never the key: the daemon has to run with the same variable set.

Examples:
  nexus credential scan
  nexus credential scan --deep --import --yes")]
    Scan {
        /// Remember what was found with certainty
        #[arg(long)]
        import: bool,
        /// Also judge unknown variables by their names and values
        #[arg(long)]
        deep: bool,
        /// Do not ask before importing
        #[arg(long)]
        yes: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Runs `nexus credential`.
pub(crate) fn run(context: &Context, arguments: &Arguments) -> Outcome {
    let folder = CredentialFolder::new(context.existing()?.credentials());
    match &arguments.command {
        Command::List { json } => list(&folder, Format::from_flag(*json)),
        Command::Scan { import, deep, yes, json } => {
            let depth = if *deep { Depth::Deep } else { Depth::Known };
            let consent = match (*import, *yes) {
                (false, _) => Consent::LookOnly,
                (true, true) => Consent::Given,
                (true, false) => Consent::Ask,
            };
            look(&folder, depth, consent, Format::from_flag(*json))
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Consent {
    LookOnly,
    Ask,
    Given,
}

fn list(folder: &CredentialFolder, format: Format) -> Outcome {
    let listed = folder.list().map_err(|error| file_failure(&error))?;
    if format == Format::Json {
        return output::json(&json!({ "credentials": listed }));
    }
    if listed.is_empty() {
        output::remark("hint: nexus credential scan looks for keys in this shell's environment");
        return output::line("no credentials yet");
    }
    let rows = listed
        .iter()
        .map(|one| {
            vec![
                one.service.to_string(),
                one.account.to_string(),
                word(&one.kind),
                word(&one.status),
                one.storage.clone(),
            ]
        })
        .collect();
    output::table(&["SERVICE", "ACCOUNT", "KIND", "STATUS", "FOUND IN"], rows)
}

fn look(folder: &CredentialFolder, depth: Depth, consent: Consent, format: Format) -> Outcome {
    let mut findings = scan(&super::environment(), depth);
    folder.mark_imported(&mut findings).map_err(|error| file_failure(&error))?;
    let candidates = findings.findings.iter().filter(|one| one.known && !one.imported).count();
    if matches!(consent, Consent::Ask) && candidates > 0 {
        show(&findings)?;
        if !agreed(candidates)? {
            return output::line("nothing imported");
        }
    }
    if !matches!(consent, Consent::LookOnly) {
        folder.import(&mut findings).map_err(|error| file_failure(&error))?;
    }
    match format {
        Format::Json => output::json(&findings),
        Format::Text => {
            if !matches!(consent, Consent::Ask) || candidates == 0 {
                show(&findings)?;
            }
            for reference in &findings.imported {
                output::line(&format!("imported {reference}"))?;
            }
            if matches!(consent, Consent::LookOnly) && candidates > 0 {
                output::remark("hint: --import remembers where they are");
            }
            Ok(())
        }
    }
}

fn show(findings: &Findings) -> Outcome {
    if findings.findings.is_empty() {
        return output::line("no keys in this shell's environment");
    }
    let rows = findings
        .findings
        .iter()
        .map(|one| {
            let state = match (one.imported, one.known) {
                (true, _) => "imported",
                (false, true) => "new",
                (false, false) => "unsure",
            };
            vec![
                one.variable.clone(),
                one.service.clone(),
                word(&one.kind),
                one.masked.clone(),
                state.to_owned(),
            ]
        })
        .collect();
    output::table(&["VARIABLE", "SERVICE", "KIND", "VALUE", "STATE"], rows)
}

fn agreed(candidates: usize) -> Result<bool, Failure> {
    if !output::stdin_is_terminal() {
        return Err(Failure::new("an import asks first, and there is nobody to ask")
            .hint("--yes imports without asking")
            .exit(Exit::Usage));
    }
    output::text(&format!("Remember where these {candidates} are? [y/N] "))?;
    // The question ends without a line break.
    let _ = std::io::stdout().flush();
    let mut answer = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(|error| Failure::new(format!("reading the answer: {error}")))?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Renders a value by the word it has on the wire.
fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(text)) => text,
        Ok(other) => other.to_string(),
        Err(_) => String::new(),
    }
}

fn file_failure(error: &FileError) -> Failure {
    Failure::caused(error).hint("check the folder's owner and permissions")
}
