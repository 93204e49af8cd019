//! `nexus credential scan`: keys in this shell's environment, masked, and on demand remembered.

use std::io::{BufRead, Write};

use nexus_credentials::{CredentialFolder, Depth, Findings, scan};

use super::{file_failure, word};
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{self, Format};

/// What may be done with what is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Consent {
    LookOnly,
    Ask,
    Given,
}

/// Looks at the environment and shows what is there.
pub(super) fn look(folder: &CredentialFolder, depth: Depth, consent: Consent, format: Format) -> Outcome {
    let mut findings = scan(&super::super::environment(), depth);
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
                output::remark("hint: --import records where they are");
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
        return Err(Failure::new("an import asks first, and there is no terminal to ask at")
            .hint("--yes imports without asking")
            .exit(Exit::Usage));
    }
    output::text(&format!("Record where these {candidates} are? [y/N] "))?;
    // The question ends without a line break.
    let _ = std::io::stdout().flush();
    let mut answer = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(|error| Failure::new(format!("reading the answer: {error}")))?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
