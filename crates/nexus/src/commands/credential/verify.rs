//! `nexus credential verify`: fetches each secret and asks its provider a cheap question.

use clap::Args;
use nexus_credentials::Observer;
use nexus_models::credentials::verify_all;
use nexus_protocol::control::CredentialsOf;
use nexus_protocol::control::answers::{VerifiedCredentials, VerifiedView};
use nexus_protocol::methods::Method;
use nexus_workspace::Layout;
use serde_json::json;

use super::{ask_daemon, find_failure, resolver, word};
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::output;

/// Arguments of `nexus credential verify`.
#[derive(Debug, Args)]
#[command(after_help = "\
The test asks for a list of models, which costs nothing. It goes to providers.*.base_url where that is set.
A running daemon does the test, because it is the one that uses them. Without one, credentials that only the daemon can see are
reported as not_visible and nothing is recorded. Exit code 1 if a credential cannot be used.

Examples:
  nexus credential verify
  nexus credential verify anthropic/default --json")]
pub(super) struct Arguments {
    /// Names of the credentials [default: all]
    pub(super) name: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Runs `nexus credential verify`.
pub(super) fn run(context: &Context, layout: &Layout, arguments: &Arguments) -> Outcome {
    let runtime = super::super::client_runtime()?;
    let of = CredentialsOf { name: arguments.name.clone(), look_only: false };
    // Where it is used is where it is tested: this shell may have other variables, or none.
    let asked: Option<VerifiedCredentials> =
        runtime.block_on(ask_daemon(context, Method::CredentialsVerify, &of));
    let results = match asked {
        Some(answer) => answer.credentials,
        None => {
            let settings = context.loaded(layout)?.settings;
            let resolver = (&resolver(layout), Observer::Shell);
            let found = runtime.block_on(verify_all(resolver, &settings.providers, of.name.as_deref()));
            let found = found.map_err(|error| find_failure(&error))?;
            let views = found.iter().map(|one| VerifiedView {
                reference: one.reference.to_string(),
                outcome: word(&one.outcome),
                reason: one.reason.clone(),
                hint: one.hint.clone(),
            });
            views.collect()
        }
    };
    conclude(&results, arguments.json)
}

/// Shows what came of the tests; one that cannot be used makes the command fail.
pub(super) fn conclude(results: &[VerifiedView], json: bool) -> Outcome {
    show(results, json)?;
    let unusable = results.iter().filter(|one| !one.is_usable()).count();
    if unusable > 0 {
        return Err(Failure::new(format!("{unusable} of {} credentials cannot be used now", results.len())));
    }
    Ok(())
}

fn show(results: &[VerifiedView], json: bool) -> Outcome {
    if json {
        return output::json(&json!({ "credentials": results }));
    }
    if results.is_empty() {
        return output::line("no credentials yet");
    }
    let rows = results
        .iter()
        .map(|one| vec![one.reference.clone(), one.outcome.clone(), one.reason.clone().unwrap_or_default()])
        .collect();
    output::table(&["CREDENTIAL", "OUTCOME", "REASON"], rows)?;
    let mut hints: Vec<&str> = results.iter().filter_map(|one| one.hint.as_deref()).collect();
    hints.sort_unstable();
    hints.dedup();
    for hint in hints {
        output::remark(&format!("hint: {hint}"));
    }
    Ok(())
}
