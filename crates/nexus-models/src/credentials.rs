//! Credentials of a workspace at work: the resolver that fits it, and tests against real providers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nexus_base::file::FileError;
use nexus_credentials::{
    Breakage, Credential, CredentialFolder, FailureKind, FindError, KeyPlace, Observer, Reference, Resolver,
};
use nexus_llm::{ProbeRequest, Verdict, probe};
use nexus_net::Net;
use nexus_workspace::config::ProviderSettings;
use nexus_workspace::trust::{self, Trust};
use nexus_workspace::{Layout, StartOptions, environment};
use secrecy::SecretString;
use serde::Serialize;

use nexus_base::error::chain;

/// Makes the resolver of a workspace. Commands that its pointers name run only if it is trusted.
pub fn resolver(
    layout: &Layout,
    trust: Trust,
    variables: &[(String, String)],
    home: Option<&Path>,
) -> Resolver {
    Resolver::new(layout.credentials(), variables.to_vec())
        .with_key(key_place(layout, variables, home))
        .with_commands(trust.is_trusted())
}

/// Makes the daemon's resolver: whatever it fetches is known to the redactor before anybody has it.
pub fn of_daemon(options: &StartOptions) -> Resolver {
    let home = Some(options.home.as_path());
    resolver(&options.layout, options.standing(), &options.environment, home)
        .with_redactor(Arc::clone(&options.redactor))
}

/// Returns where the key of a workspace's sealed secrets lies or would lie.
pub fn key_place(layout: &Layout, variables: &[(String, String)], home: Option<&Path>) -> Option<KeyPlace> {
    let value = |name: &str| {
        let found = variables.iter().find(|(known, value)| known == name && !value.is_empty());
        found.map(|(_, value)| PathBuf::from(value))
    };
    let id = trust::read_id(layout).ok().flatten()?;
    KeyPlace::locate(
        value(environment::KEY_FILE).as_deref(),
        value(environment::XDG_STATE_HOME).as_deref(),
        home,
        layout.root(),
        id.as_str(),
    )
}

/// What a test of one credential gave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verified {
    pub reference: Reference,
    /// What came of it.
    pub outcome: VerifyOutcome,
    /// Why, where there is something to say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// What came of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VerifyOutcome {
    /// The provider accepts it.
    Works,
    /// The secret is there; no way to ask its service is known.
    Present,
    /// The pointer gives no secret.
    NoSecret,
    /// The pointer gives this shell no secret; what the daemon would find is not known.
    NotVisible,
    /// The provider does not accept it.
    Refused,
    /// The provider accepts it from its own tool only.
    ThirdParty,
    /// It works, but must rest.
    Resting,
    /// The provider could not be asked; nothing is known.
    Unreachable,
}

impl VerifyOutcome {
    /// Tells whether the credential can be used, as far as is known.
    pub const fn is_usable(self) -> bool {
        matches!(self, Self::Works | Self::Present)
    }
}

/// Tests one credential for real and writes down what came of it, as far as it is true for everybody: what a
/// variable, a keychain or a command gives to a shell says nothing about what it gives to the daemon.
///
/// # Errors
/// The account cannot be written. Everything about the credential itself is an outcome.
async fn verify(
    (resolver, observer): (&Resolver, Observer),
    net: &Net,
    providers: &BTreeMap<String, ProviderSettings>,
    reference: &Reference,
    credential: &Credential,
) -> Result<Verified, FileError> {
    let folder = CredentialFolder::new(resolver.folder());
    let verified = |outcome, reason: Option<String>, hint: Option<&str>| Verified {
        reference: reference.clone(),
        outcome,
        reason,
        hint: hint.map(str::to_owned),
    };
    let secret = match resolver.resolve(&reference.to_string(), &credential.storage).await {
        Ok(secret) => secret,
        Err(error) if observer == Observer::Shell => {
            let reason = format!("not visible from here: {}", chain(&error));
            let hint = "with a running daemon, `nexus credential verify` asks it; nothing was recorded";
            return Ok(verified(VerifyOutcome::NotVisible, Some(reason), Some(hint)));
        }
        Err(error) => {
            let reason = chain(&error);
            folder.note_broken(reference, Breakage::Pointer, &reason)?;
            folder.note_observed(reference, observer, None)?;
            return Ok(verified(VerifyOutcome::NoSecret, Some(reason), Some(error.hint())));
        }
    };
    let request = ProbeRequest {
        service: reference.service.as_str(),
        base_url: providers.get(reference.service.as_str()).and_then(|one| one.base_url.as_deref()),
        kind: &credential.kind,
        is_tool_login: credential.id.ends_with("-cli"),
    };
    let verdict = probe(net, &request, &secret).await;
    if observer == Observer::Daemon || credential.storage.is_same_for_everybody() {
        write_down(&folder, reference, (credential, &secret), observer, &verdict)?;
    }
    Ok(match verdict {
        Verdict::Works => verified(VerifyOutcome::Works, None, None),
        Verdict::NoProbe => {
            let reason = "the secret can be read; there is no test for this service".to_owned();
            verified(VerifyOutcome::Present, Some(reason), None)
        }
        Verdict::Refused { reason } => {
            verified(VerifyOutcome::Refused, Some(reason), Some("replace it with `nexus credential add`"))
        }
        Verdict::ThirdParty { reason } => {
            let hint = "use an API key of that provider, or open the tool itself in the workspace";
            verified(VerifyOutcome::ThirdParty, Some(own_tool_only(&reason)), Some(hint))
        }
        Verdict::RateLimited { .. } => {
            verified(VerifyOutcome::Resting, Some("the provider is rate limiting requests".to_owned()), None)
        }
        Verdict::NoCredit { reason } => {
            verified(VerifyOutcome::Resting, Some(reason), Some("add credit with the provider"))
        }
        Verdict::Unreachable { reason } => {
            let hint = "check the network and providers.*.base_url";
            verified(VerifyOutcome::Unreachable, Some(reason), Some(hint))
        }
    })
}

fn own_tool_only(reason: &str) -> String {
    format!("the provider accepts this login only from its own tool ({reason})")
}

fn write_down(
    folder: &CredentialFolder,
    reference: &Reference,
    (credential, secret): (&Credential, &SecretString),
    observer: Observer,
    verdict: &Verdict,
) -> Result<(), FileError> {
    match verdict {
        Verdict::Works => folder.note_verified(reference).map(drop),
        Verdict::NoProbe if credential.breakage == Some(Breakage::Pointer) => {
            folder.note_mended(reference).map(drop)
        }
        Verdict::Refused { reason } => {
            folder.note_broken(reference, Breakage::Refused, reason)?;
            folder.note_observed(reference, observer, Some(secret)).map(drop)
        }
        Verdict::ThirdParty { reason } => {
            folder.note_broken(reference, Breakage::ThirdParty, &own_tool_only(reason))?;
            folder.note_observed(reference, observer, None).map(drop)
        }
        Verdict::RateLimited { retry_after } => {
            folder.note_failure(reference, FailureKind::RateLimit, *retry_after)
        }
        Verdict::NoCredit { .. } => folder.note_failure(reference, FailureKind::Billing, None),
        Verdict::NoProbe | Verdict::Unreachable { .. } => Ok(()),
    }
}

/// Tests the credentials that a name means, or all of them, at once: one that hangs holds nobody up.
///
/// # Errors
/// Nothing has that name, or an account cannot be read or written.
pub async fn verify_all(
    (resolver, observer): (&Resolver, Observer),
    providers: &BTreeMap<String, ProviderSettings>,
    name: Option<&str>,
) -> Result<Vec<Verified>, FindError> {
    let folder = CredentialFolder::new(resolver.folder());
    let mut chosen = Vec::new();
    match name {
        Some(name) => {
            chosen.extend(folder.find(name)?.into_iter().map(|(one, _, credential)| (one, credential)))
        }
        None => {
            for account in folder.read_all()?.accounts {
                for credential in &account.credentials {
                    chosen.push((Reference::of(&account, credential), credential.clone()));
                }
            }
        }
    }
    let net = Net::new();
    let mut running = tokio::task::JoinSet::new();
    for (reference, credential) in chosen {
        let (resolver, net, providers) = (resolver.clone(), net.clone(), providers.clone());
        running.spawn(async move {
            verify((&resolver, observer), &net, &providers, &reference, &credential).await
        });
    }
    let mut results = Vec::new();
    while let Some(ended) = running.join_next().await {
        // One that broke off is left out; its status stays as it was.
        if let Ok(verified) = ended {
            results.push(verified?);
        }
    }
    results.sort_by(|one, other| one.reference.cmp(&other.reference));
    Ok(results)
}
