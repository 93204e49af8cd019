//! `nexus credential` inside a tool call: the daemon looks, with the worker's permissions and at its own environment.

use nexus_protocol::control::answers::{
    CredentialView, Credentials, FoundCredential, ScannedCredentials, VerifiedCredentials,
};
use nexus_protocol::control::{CredentialsOf, CredentialsScan, Nothing};
use nexus_protocol::methods::Method;

use super::{Command, verify};
use crate::context::Context;
use crate::control;
use crate::failure::Outcome;
use crate::output;
use crate::tool_call;

pub(super) fn run(context: &Context, command: &Command) -> Outcome {
    match command {
        Command::List { json } => {
            let listed: Credentials = control::call(context, Method::CredentialsList, &Nothing {})?;
            list(&listed, *json)
        }
        // `--yes` is the person's word at a terminal; here the owner is asked.
        Command::Scan { import, deep, yes: _, json } => {
            let scan = CredentialsScan { deep: *deep, import: *import };
            let found: ScannedCredentials = control::call(context, Method::CredentialsScan, &scan)?;
            scanned(&found, *json)
        }
        Command::Verify(arguments) => {
            let of = CredentialsOf { name: arguments.name.clone(), look_only: false };
            let found: VerifiedCredentials = control::call(context, Method::CredentialsVerify, &of)?;
            verify::conclude(&found.credentials, arguments.json)
        }
        Command::Get { .. }
        | Command::Add(_)
        | Command::Sync { .. }
        | Command::Flag { .. }
        | Command::Order { .. }
        | Command::Remove { .. } => Err(tool_call::unavailable()),
    }
}

fn list(listed: &Credentials, json: bool) -> Outcome {
    if json {
        return output::json(listed);
    }
    if listed.credentials.is_empty() {
        return output::line("no credentials yet");
    }
    let row = |one: &CredentialView| {
        let trouble = one.last_error.clone().unwrap_or_default();
        vec![one.service.clone(), one.account.clone(), one.kind.clone(), one.status.clone(), trouble]
    };
    let rows = listed.credentials.iter().map(row).collect();
    output::table(&["SERVICE", "ACCOUNT", "KIND", "STATUS", "TROUBLE"], rows)
}

fn scanned(found: &ScannedCredentials, json: bool) -> Outcome {
    if json {
        return output::json(found);
    }
    if found.findings.is_empty() {
        return output::line("no keys in the daemon's environment");
    }
    let row = |one: &FoundCredential| {
        let state = match (one.imported, one.known) {
            (true, _) => "imported",
            (false, true) => "new",
            (false, false) => "unsure",
        };
        let (kind, masked) = (one.kind.clone(), one.masked.clone());
        vec![one.variable.clone(), one.service.clone(), kind, masked, state.to_owned()]
    };
    let rows = found.findings.iter().map(row).collect();
    output::table(&["VARIABLE", "SERVICE", "KIND", "VALUE", "STATE"], rows)?;
    for reference in &found.imported {
        output::line(&format!("imported {reference}"))?;
    }
    Ok(())
}
