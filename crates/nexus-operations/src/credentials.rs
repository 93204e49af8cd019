//! Credential pointers, tested and looked for where they are used: in the daemon's own environment while one runs.

use std::time::Duration;

use nexus_credentials::{
    CredentialFolder, Depth, FindError, Finding, Observer, Reference, SyncRequest, boot_sync, keychain_sync,
};
use nexus_identity::{Ask, Kind, Names};
use nexus_models::credentials::{of_daemon, verify_all};
use nexus_pipeline::tool_sockets::Worker;
use nexus_protocol::control::answers::{
    Credentials, CredentialsSynced, ScannedCredentials, VerifiedCredentials, VerifiedView,
};
use nexus_protocol::control::{CredentialsOf, CredentialsScan, Nothing};
use nexus_tools::ports::Approval;
use serde_json::json;

use crate::RuntimeError;
use crate::call::{Call, internal, missing, typed};

pub(crate) async fn list(call: &Call<'_>, _: Nothing) -> Result<Credentials, RuntimeError> {
    let mut listed = folder(call).list().map_err(|error| internal(&error))?;
    listed.retain(|one| call.caller.may_use_credential(&format!("{}/{}", one.service, one.account)));
    typed(&json!({ "credentials": listed }))
}

pub(crate) async fn verify(call: &Call<'_>, of: CredentialsOf) -> Result<VerifiedCredentials, RuntimeError> {
    check_use(call, of.name.as_deref())?;
    let resolver = of_daemon(call.options);
    if of.look_only {
        let checked = folder(call).check(&resolver, observer(call)).await;
        let views = checked.map_err(|error| internal(&error))?.into_iter().map(|one| VerifiedView {
            reference: one.reference.to_string(),
            outcome: if one.problem.is_some() { "no_secret" } else { "present" }.to_owned(),
            reason: one.problem,
            hint: one.hint.map(str::to_owned),
        });
        return Ok(VerifiedCredentials { credentials: views.collect() });
    }
    let settings = call.settings()?;
    let results = verify_all((&resolver, observer(call)), &settings.providers, of.name.as_deref()).await;
    let results = results.map_err(|error| match error {
        FindError::File(error) => internal(&error),
        FindError::Nothing { given } => missing("credential", given),
        FindError::Name(_) => missing("credential", of.name.unwrap_or_default()),
    })?;
    typed(&json!({ "credentials": results }))
}

pub(crate) async fn sync(call: &Call<'_>, _: Nothing) -> Result<CredentialsSynced, RuntimeError> {
    if call.caller.as_worker().is_some() {
        return Err(call.refuse("credentials.sync is not available inside a tool call".to_owned()));
    }
    let request = SyncRequest {
        observer: observer(call),
        environment: &call.options.environment,
        home: Some(&call.options.home),
        ttl: Duration::ZERO,
    };
    let folder = folder(call);
    let mut report = boot_sync(&folder, &request).map_err(|error| internal(&error))?;
    let more = keychain_sync(&folder, &of_daemon(call.options), &request).await;
    let more = more.map_err(|error| internal(&error))?;
    report.total += more.added.len();
    report.added.extend(more.added);
    typed(&report)
}

/// Looks at the daemon's environment. A worker's command takes nothing in without the owner's yes.
pub(crate) async fn scan(call: &Call<'_>, of: CredentialsScan) -> Result<ScannedCredentials, RuntimeError> {
    let depth = if of.deep { Depth::Deep } else { Depth::Known };
    let mut findings = nexus_credentials::scan(&call.options.environment, depth);
    let folder = folder(call);
    folder.mark_imported(&mut findings).map_err(|error| internal(&error))?;
    let new: Vec<&Finding> = findings.findings.iter().filter(|one| one.known && !one.imported).collect();
    if of.import && !new.is_empty() {
        if let Some(worker) = call.caller.as_worker() {
            ask_owner(call, worker, &new).await?;
        }
        folder.import(&mut findings).map_err(|error| internal(&error))?;
    }
    typed(&findings)
}

async fn ask_owner(call: &Call<'_>, worker: &Worker, new: &[&Finding]) -> Result<(), RuntimeError> {
    let named: Vec<String> = new.iter().map(|one| format!("{} ({})", one.variable, one.service)).collect();
    let question = Ask {
        requester: call.caller.name(),
        platform: "agent".to_owned(),
        kind: Kind::Tool,
        tool: Some("nexus credential scan --import".to_owned()),
        tool_call_id: None,
        session: Some(worker.session.clone()),
        request_id: Some(worker.root.clone()),
        summary: format!(
            "Remember where these credentials are, so that agents can use them: {}",
            named.join(", ")
        ),
        resources: new.iter().map(|one| format!("credential:{}", one.variable)).collect(),
        reason: Some("found in the daemon's environment".to_owned()),
    };
    let patience = call.settings()?.tools.approval_timeout;
    match call.daemon()?.agent_factory.consent.ask(question, patience).await {
        Approval::Granted => Ok(()),
        Approval::Refused { reason } => Err(call.refuse(reason)),
    }
}

/// Checks that a caller may use every credential that a name means.
fn check_use(call: &Call<'_>, name: Option<&str>) -> Result<(), RuntimeError> {
    if call.caller.as_worker().is_none_or(|worker| worker.permissions.credentials == Names::All) {
        return Ok(());
    }
    let name = name.ok_or_else(|| call.refuse("name one of the credentials that you may use".to_owned()))?;
    let found = folder(call).find(name).map_err(|_| missing("credential", name))?;
    let is_allowed =
        |one: &Reference| call.caller.may_use_credential(&format!("{}/{}", one.service, one.account));
    match found.iter().all(|(reference, ..)| is_allowed(reference)) {
        true => Ok(()),
        false => Err(missing("credential", name)),
    }
}

fn folder(call: &Call<'_>) -> CredentialFolder {
    CredentialFolder::new(call.layout().credentials())
}

/// What a shell does not see may still be there for the daemon.
fn observer(call: &Call<'_>) -> Observer {
    if call.running.is_some() { Observer::Daemon } else { Observer::Shell }
}
