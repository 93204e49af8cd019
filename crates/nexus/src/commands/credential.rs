//! `nexus credential`: which credentials there are, taking them in, testing and ordering them. Files
//! hold pointers; a value is shown to its owner only when asked for.

mod add;
mod inside;
mod scan;
mod verify;

use clap::{Args, Subcommand};
use nexus_base::file::FileError;
use nexus_credentials::{
    AccountName, Breakage, CredentialFolder, Depth, FindError, Listed, Observer, Reference, Resolver,
    ServiceName, Storage, SyncRequest, boot_sync, keychain_sync,
};
use nexus_maintenance::doctor::SeenCredential;
use nexus_protocol::control::answers::{CredentialsSynced, VerifiedCredentials, VerifiedView};
use nexus_protocol::control::{CredentialsOf, Nothing};
use nexus_protocol::methods::Method;
use nexus_workspace::Layout;
use secrecy::ExposeSecret;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::context::{Context, standing};
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{self, Format};
use crate::tool_call;

use self::scan::{Consent, look};

/// Arguments of `nexus credential`.
#[derive(Debug, Args)]
#[command(after_help = "\
A credential is named service/account/credential; a shorter name such as service/account also works if it is unique.

Examples:
  nexus credential list
  nexus credential add anthropic < key.txt
  nexus credential verify anthropic")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the credentials the workspace knows
    #[command(after_help = "Example:\n  nexus credential list --json")]
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show one secret, on a terminal only
    #[command(after_help = "Example:\n  nexus credential get github/me --raw | wl-copy")]
    Get {
        /// Name of the credential
        name: String,
        /// Print it even if the output is not a terminal
        #[arg(long)]
        raw: bool,
    },
    /// Store a secret, or record where one is kept
    Add(add::Arguments),
    /// Look for the logins of Claude Code, Codex and Qwen now
    #[command(after_help = "Example:\n  nexus credential sync --json")]
    Sync {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Look for keys in this shell's environment; values are masked
    #[command(after_help = "\
Only names, services and masked values are shown. An import stores where to find a key (the variable's name),
never the key itself, so the daemon has to run with the same variable set.

Examples:
  nexus credential scan
  nexus credential scan --deep --import --yes")]
    Scan {
        /// Import the keys that were recognised with certainty
        #[arg(long)]
        import: bool,
        /// Also guess at unknown variables by their names and values
        #[arg(long)]
        deep: bool,
        /// Do not ask before importing
        #[arg(long)]
        yes: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Test whether secrets can be read and their providers accept them
    Verify(verify::Arguments),
    /// Mark a credential as broken, or clear its errors
    #[command(after_help = "\
Examples:
  nexus credential flag openai/me --error \"wrong organisation\"
  nexus credential flag openai/me")]
    Flag {
        /// Name of the credential
        name: String,
        /// Why it is broken; without this option, errors and pauses are cleared
        #[arg(long, value_name = "REASON")]
        error: Option<String>,
    },
    /// Show or set the order in which a service's accounts are tried
    #[command(after_help = "\
Examples:
  nexus credential order anthropic work home
  nexus credential order anthropic --clear")]
    Order {
        /// Name of the service
        service: String,
        /// Its accounts, first choice first; without any, the current order is shown
        accounts: Vec<String>,
        /// Remove the configured order
        #[arg(long, conflicts_with = "accounts")]
        clear: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Forget a credential; secrets that belong to other tools are left alone
    #[command(after_help = "Example:\n  nexus credential remove openai/me")]
    Remove {
        /// Name of the credential
        name: String,
    },
}

/// Runs `nexus credential`.
pub(crate) fn run(context: &Context, arguments: &Arguments) -> Outcome {
    if tool_call::is_inside() {
        return inside::run(context, &arguments.command);
    }
    let layout = context.existing()?;
    let folder = CredentialFolder::new(layout.credentials());
    match &arguments.command {
        Command::List { json } => list(&folder, Format::from_flag(*json)),
        Command::Get { name, raw } => get(&layout, &folder, name, *raw),
        Command::Add(arguments) => add::run(&layout, &folder, arguments),
        Command::Sync { json } => sync(context, &layout, &folder, Format::from_flag(*json)),
        Command::Scan { import, deep, yes, json } => {
            let depth = if *deep { Depth::Deep } else { Depth::Known };
            let consent = match (*import, *yes) {
                (false, _) => Consent::LookOnly,
                (true, true) => Consent::Given,
                (true, false) => Consent::Ask,
            };
            look(&folder, depth, consent, Format::from_flag(*json))
        }
        Command::Verify(arguments) => verify::run(context, &layout, arguments),
        Command::Flag { name, error } => flag(&folder, name, error.as_deref()),
        Command::Order { service, accounts, clear, json } => {
            order(&folder, service, accounts, *clear, Format::from_flag(*json))
        }
        Command::Remove { name } => remove(&layout, &folder, name),
    }
}

/// Says why a credential cannot be used now.
fn trouble(one: &Listed) -> String {
    if let Some(error) = &one.last_error {
        return error.clone();
    }
    let Some(until) = one.cooldown_until else { return String::new() };
    let until = until.to_local_rfc3339();
    let until = until.get(11..19).unwrap_or(&until);
    let failures: Vec<String> = one
        .failures
        .iter()
        .map(|(reason, count)| format!("{} × {count}", reason.replace('_', " ")))
        .collect();
    format!("paused until {until} after {}", failures.join(", "))
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
                trouble(one),
            ]
        })
        .collect();
    output::table(&["SERVICE", "ACCOUNT", "KIND", "STATUS", "FOUND IN", "TROUBLE"], rows)
}

fn get(layout: &Layout, folder: &CredentialFolder, name: &str, raw: bool) -> Outcome {
    if !raw && !output::stdout_is_terminal() {
        return Err(Failure::new("secrets are only shown on a terminal")
            .hint("--raw prints it anyway")
            .exit(Exit::Usage));
    }
    let (reference, credential) = one(folder, name)?;
    let resolver = resolver(layout);
    let found = super::client_runtime()?
        .block_on(resolver.resolve(&reference.to_string(), &credential.storage))
        .map_err(|error| Failure::caused(&error).hint(error.hint()))?;
    output::line(found.expose_secret())
}

fn sync(context: &Context, layout: &Layout, folder: &CredentialFolder, format: Format) -> Outcome {
    let asked = super::client_runtime()?.block_on(ask_daemon(context, Method::CredentialsSync, &Nothing {}));
    let report: CredentialsSynced = match asked {
        Some(report) => report,
        None => sync_here(layout, folder)?,
    };
    if format == Format::Json {
        return output::json(&report);
    }
    for reference in &report.added {
        output::line(&format!("added {reference}"))?;
    }
    for problem in &report.problems {
        output::remark(&format!("warning: {problem}"));
    }
    output::line(&format!("{} accounts, {} new", report.total, report.added.len()))
}

fn sync_here(layout: &Layout, folder: &CredentialFolder) -> Result<CredentialsSynced, Failure> {
    let variables = super::environment();
    let home = crate::context::home();
    let request = SyncRequest {
        observer: Observer::Shell,
        environment: &variables,
        home: home.as_deref(),
        ttl: std::time::Duration::ZERO,
    };
    let mut report = boot_sync(folder, &request).map_err(|error| file_failure(&error))?;
    let resolver = resolver(layout);
    let more = super::client_runtime()?
        .block_on(keychain_sync(folder, &resolver, &request))
        .map_err(|error| file_failure(&error))?;
    report.total += more.added.len();
    report.added.extend(more.added);
    Ok(CredentialsSynced {
        added: report.added,
        looked_for_logins: report.looked_for_logins,
        total: report.total,
        problems: report.problems,
    })
}

/// Has the running daemon do something with credentials; none when there is no daemon, or it could not.
async fn ask_daemon<T: DeserializeOwned>(
    context: &Context,
    method: Method,
    params: &impl serde::Serialize,
) -> Option<T> {
    let client = context.client().ok()?;
    let answer = client.call(method, params).await;
    answer.inspect_err(|error| tracing::debug!(%error, "the daemon could not do it")).ok()
}

/// Returns what the running daemon says of each credential, asking no provider.
pub(crate) async fn daemon_saw(context: &Context) -> Option<Vec<SeenCredential>> {
    let of = CredentialsOf { name: None, look_only: true };
    let answer: VerifiedCredentials = ask_daemon(context, Method::CredentialsVerify, &of).await?;
    let seen = |one: VerifiedView| SeenCredential {
        problem: one.reason.filter(|_| one.outcome != "present"),
        reference: one.reference,
        hint: one.hint,
    };
    Some(answer.credentials.into_iter().map(seen).collect())
}

fn flag(folder: &CredentialFolder, name: &str, error: Option<&str>) -> Outcome {
    let found = folder.find(name).map_err(|error| find_failure(&error))?;
    for (reference, ..) in found {
        let noted = match error {
            Some(reason) => folder.note_broken(&reference, Breakage::Flagged, reason),
            None => folder.note_mended(&reference),
        };
        noted.map_err(|error| file_failure(&error))?;
        let state = if error.is_some() { "is marked as broken" } else { "is cleared" };
        output::line(&format!("{reference} {state}"))?;
    }
    Ok(())
}

fn order(
    folder: &CredentialFolder,
    service: &str,
    accounts: &[String],
    clear: bool,
    format: Format,
) -> Outcome {
    let named = |error: &dyn std::error::Error| Failure::caused(error).exit(Exit::Usage);
    let service = ServiceName::new(service).map_err(|error| named(&error))?;
    if clear || !accounts.is_empty() {
        let mut order = Vec::new();
        for name in accounts {
            let account = AccountName::new(name).map_err(|error| named(&error))?;
            if folder.read(&service, &account).map_err(|error| file_failure(&error))?.is_none() {
                return Err(Failure::new(format!("no account {service}/{account}"))
                    .hint("nexus credential list shows the existing ones")
                    .exit(Exit::Missing));
            }
            order.push(account);
        }
        folder.set_order(&service, order).map_err(|error| file_failure(&error))?;
    }
    let tried = folder.candidates(&service).map_err(|error| file_failure(&error))?;
    let names: Vec<&str> = tried.iter().map(|account| account.account.as_str()).collect();
    if format == Format::Json {
        return output::json(&json!({ "service": service, "order": names }));
    }
    if names.is_empty() {
        return output::line(&format!("no usable account of {service}"));
    }
    output::line(&format!("{service}: {}", names.join(", ")))
}

fn remove(layout: &Layout, folder: &CredentialFolder, name: &str) -> Outcome {
    let found = folder.find(name).map_err(|error| find_failure(&error))?;
    // A service alone would take more away than anybody expects.
    let accounts: std::collections::BTreeSet<_> = found.iter().map(|(one, ..)| &one.account).collect();
    if accounts.len() > 1 {
        return Err(Failure::new(format!("{name} matches {} accounts", accounts.len()))
            .hint("name one as service/account")
            .exit(Exit::Usage));
    }
    let resolver = resolver(layout);
    let runtime = super::client_runtime()?;
    for (reference, _, credential) in &found {
        runtime
            .block_on(folder.remove_credential(&resolver, reference))
            .map_err(|error| Failure::caused(&error).hint(error.hint()))?;
        if let Storage::Env { var } = &credential.storage {
            output::remark(&format!(
                "hint: while {var} is set, the next start or `nexus credential sync` will find it again"
            ));
        }
        output::line(&format!("removed {reference}"))?;
    }
    Ok(())
}

/// Finds the one credential that a name means.
fn one(folder: &CredentialFolder, name: &str) -> Result<(Reference, nexus_credentials::Credential), Failure> {
    let mut found = folder.find(name).map_err(|error| find_failure(&error))?;
    match (found.pop(), found.is_empty()) {
        (Some((reference, _, credential)), true) => Ok((reference, credential)),
        (Some(_), false) | (None, _) => {
            Err(Failure::new(format!("{name} matches {} credentials", found.len() + 1))
                .hint("name one as service/account/credential; nexus credential list shows them")
                .exit(Exit::Usage))
        }
    }
}

/// Makes the resolver that fits a workspace and this shell.
fn resolver(layout: &Layout) -> Resolver {
    let home = crate::context::home();
    nexus_models::credentials::resolver(layout, standing(layout), &super::environment(), home.as_deref())
}

fn find_failure(error: &FindError) -> Failure {
    let failure = Failure::caused(error);
    match error {
        FindError::Nothing { .. } => {
            failure.hint("nexus credential list shows the existing ones").exit(Exit::Missing)
        }
        FindError::Name(_) => {
            failure.hint("a credential is named service/account/credential").exit(Exit::Usage)
        }
        FindError::File(_) => failure.hint("check the folder's owner and permissions"),
    }
}

/// Renders a value by the word it has on the wire.
pub(super) fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(text)) => text,
        Ok(other) => other.to_string(),
        Err(_) => String::new(),
    }
}

fn file_failure(error: &FileError) -> Failure {
    Failure::caused(error).hint("check the folder's owner and permissions")
}
