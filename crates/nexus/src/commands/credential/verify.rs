//! `nexus credential verify`: fetches each secret and asks its provider a cheap question.

use clap::Args;
use nexus_credentials::{CredentialFolder, Reference};
use nexus_net::Net;
use nexus_runtime::credentials::{Verified, verify};
use nexus_workspace::Layout;
use serde_json::json;

use super::{file_failure, find_failure, resolver, word};
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::output;

/// Arguments of `nexus credential verify`.
#[derive(Debug, Args)]
#[command(after_help = "\
The question is a list of models, which costs nothing. It goes to providers.*.base_url where that is set.
Exit code 1 when a credential cannot be used.

Examples:
  nexus credential verify
  nexus credential verify anthropic/default --json")]
pub(super) struct Arguments {
    /// Which ones; all when left out
    name: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs `nexus credential verify`.
pub(super) fn run(
    context: &Context,
    layout: &Layout,
    folder: &CredentialFolder,
    arguments: &Arguments,
) -> Outcome {
    let settings = context.loaded(layout)?.settings;
    let mut chosen = Vec::new();
    match &arguments.name {
        Some(name) => {
            for (reference, _, credential) in folder.find(name).map_err(|error| find_failure(&error))? {
                chosen.push((reference, credential));
            }
        }
        None => {
            for account in folder.read_all().map_err(|error| file_failure(&error))?.accounts {
                for credential in &account.credentials {
                    chosen.push((Reference::of(&account, credential), credential.clone()));
                }
            }
        }
    }
    let (resolver, net) = (resolver(layout), Net::new());
    let results: Result<Vec<Verified>, _> = super::super::client_runtime()?.block_on(async {
        // All at once: one that hangs holds nobody up.
        let mut running = tokio::task::JoinSet::new();
        for (reference, credential) in chosen {
            let (resolver, net, providers) = (resolver.clone(), net.clone(), settings.providers.clone());
            running.spawn(async move { verify(&resolver, &net, &providers, &reference, &credential).await });
        }
        let mut results = Vec::new();
        while let Some(ended) = running.join_next().await {
            results.push(ended.map_err(|error| Failure::new(format!("a test broke off: {error}")))?);
        }
        results.into_iter().collect::<Result<Vec<_>, _>>().map_err(|error| file_failure(&error))
    });
    let mut results = results?;
    results.sort_by(|one, other| one.reference.cmp(&other.reference));
    show(&results, arguments.json)?;
    let unusable = results.iter().filter(|one| !one.outcome.is_usable()).count();
    if unusable > 0 {
        return Err(Failure::new(format!("{unusable} of {} cannot be used now", results.len())));
    }
    Ok(())
}

fn show(results: &[Verified], json: bool) -> Outcome {
    if json {
        return output::json(&json!({ "credentials": results }));
    }
    if results.is_empty() {
        return output::line("no credentials yet");
    }
    let rows = results
        .iter()
        .map(|one| {
            vec![one.reference.to_string(), word(&one.outcome), one.reason.clone().unwrap_or_default()]
        })
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
