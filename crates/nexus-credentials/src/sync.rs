//! What a start looks for: logins of other command-line tools, and variables of model providers.
//!
//! Only pointers are made. The other tool owns its login and refreshes it; we read it when we use it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nexus_base::clock::Timestamp;
use nexus_base::file::FileError;
use nexus_base::id::to_hex;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::account::{Account, Kind, Observer};
use crate::folder::CredentialFolder;
use crate::name::{AccountName, ServiceName};
use crate::resolve::{Resolver, resolve};
use crate::scan::{Depth, scan};
use crate::storage::{FileFormat, Storage};

/// How long a look at other tools' logins stays fresh.
pub const DEFAULT_SYNC_TTL: Duration = Duration::from_mins(15);

/// Variable naming the folder of the Codex login.
const CODEX_HOME: &str = "CODEX_HOME";

/// What to look at.
#[derive(Debug, Clone, Copy)]
pub struct SyncRequest<'a> {
    /// The daemon's environment.
    pub environment: &'a [(String, String)],
    /// The user's home folder.
    pub home: Option<&'a Path>,
    /// Who looks. A shell with another home takes nothing away that the daemon may see.
    pub observer: Observer,
    /// How long the last look at other tools' logins stays fresh; zero looks again.
    pub ttl: Duration,
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SyncReport {
    /// `service/account` of pointers added just now.
    pub added: Vec<String>,
    /// Whether other tools' logins were looked for, or the last look was fresh enough.
    pub looked_for_logins: bool,
    /// Accounts in all, afterwards.
    pub total: usize,
    /// What could not be looked at, one line each.
    pub problems: Vec<String>,
}

/// Another tool's login: the tool, whose secret it is, and where in its file it lies.
struct Login {
    tool: &'static str,
    service: &'static str,
    file: PathBuf,
    places: &'static [(&'static str, Kind)],
}

/// Makes the pointers a start can make without asking.
///
/// # Errors
/// The folder cannot be read or written. Unreadable logins are only reported.
pub fn boot_sync(folder: &CredentialFolder, request: &SyncRequest<'_>) -> Result<SyncReport, FileError> {
    let mut findings = scan(request.environment, Depth::Known).of_model_providers();
    folder.import(&mut findings)?;
    let mut report = SyncReport { added: findings.imported, ..SyncReport::default() };

    let now = Timestamp::now();
    let last = folder.read_index().last_external_sync;
    // A clock that went back must not keep the last look fresh for ever.
    let is_fresh = last.is_some_and(|last| last <= now && now.since(last) < request.ttl);
    if !is_fresh {
        report.looked_for_logins = true;
        let mut added_any = false;
        for login in logins(request) {
            match point_to(folder, &login, request.observer, now)? {
                Pointed::Added(reference) => {
                    added_any = true;
                    report.added.push(reference);
                }
                Pointed::Problem(problem) => report.problems.push(problem),
                Pointed::AlreadyThere | Pointed::NoLogin => {}
            }
        }
        // An empty workspace stays empty: there is nothing to index and little to look for next time.
        if added_any || !folder.is_empty()? {
            folder.update_index(|index| index.last_external_sync = Some(now))?;
        }
    }
    let listing = folder.read_all()?;
    report.total = listing.accounts.len();
    report.problems.extend(listing.problems);
    Ok(report)
}

/// Looks for logins that other tools keep in the platform's keychain. Apart from `boot_sync`, since a
/// keychain may ask its owner something, which no start should.
///
/// # Errors
/// The folder cannot be read or written. A keychain that does not answer is only reported.
pub async fn keychain_sync(
    folder: &CredentialFolder,
    resolver: &Resolver,
    request: &SyncRequest<'_>,
) -> Result<SyncReport, FileError> {
    let mut report = SyncReport { looked_for_logins: true, ..SyncReport::default() };
    // The Secret Service knows the account under a name of each tool's own, so there the entry alone is asked for.
    let codex_account = codex_home(request).filter(|_| cfg!(target_os = "macos")).map(|home| {
        let digest = Sha256::digest(home.as_os_str().as_encoded_bytes());
        format!("cli|{}", &to_hex(&digest)[..16])
    });
    let places = [
        ("claude-cli", "anthropic", "Claude Code-credentials", None, "claudeAiOauth.accessToken"),
        ("codex-cli", "openai", "Codex Auth", codex_account, "tokens.access_token"),
    ];
    for (tool, service, entry, account, json_path) in places {
        let (Ok(service), Ok(name)) = (ServiceName::new(service), AccountName::new(tool)) else { continue };
        if folder.read(&service, &name)?.is_some() {
            continue;
        }
        let storage =
            Storage::Keychain { service: entry.to_owned(), account, json_path: Some(json_path.to_owned()) };
        match resolver.resolve("", &storage).await {
            Ok(_) => {
                let account =
                    Account::with_pointer(service, name, tool, Kind::Oauth, storage, Timestamp::now());
                folder.write(&account)?;
                report.added.push(account.reference());
            }
            Err(error) => tracing::debug!(%error, tool, "no login in the keychain"),
        }
    }
    if !report.added.is_empty() {
        folder.update_index(|index| index.last_external_sync = Some(Timestamp::now()))?;
    }
    Ok(report)
}

fn codex_home(request: &SyncRequest<'_>) -> Option<PathBuf> {
    let set = request.environment.iter().find(|(name, value)| name == CODEX_HOME && !value.is_empty());
    match set {
        Some((_, value)) => Some(PathBuf::from(value)),
        None => request.home.map(|home| home.join(".codex")),
    }
}

enum Pointed {
    Added(String),
    AlreadyThere,
    NoLogin,
    Problem(String),
}

fn logins(request: &SyncRequest<'_>) -> Vec<Login> {
    let codex = codex_home(request);
    let in_home = |path: &str| request.home.map(|home| home.join(path));
    let login = |tool, service, file: Option<PathBuf>, places| {
        file.filter(|path| path.is_absolute()).map(|file| Login { tool, service, file, places })
    };
    [
        login(
            "claude-cli",
            "anthropic",
            in_home(".claude/.credentials.json"),
            &[("claudeAiOauth.accessToken", Kind::Oauth)],
        ),
        login(
            "codex-cli",
            "openai",
            codex.map(|folder| folder.join("auth.json")),
            &[("OPENAI_API_KEY", Kind::ApiKey), ("tokens.access_token", Kind::Oauth)],
        ),
        login("qwen-cli", "qwen", in_home(".qwen/oauth_creds.json"), &[("access_token", Kind::Oauth)]),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn point_to(
    folder: &CredentialFolder,
    login: &Login,
    observer: Observer,
    now: Timestamp,
) -> Result<Pointed, FileError> {
    if !login.file.is_file() {
        return Ok(Pointed::NoLogin);
    }
    // The secret is fetched only to know that it is there, and dropped at once.
    let found = login.places.iter().find_map(|(json_path, kind)| {
        let storage = Storage::File {
            path: login.file.clone(),
            format: FileFormat::Json,
            json_path: Some((*json_path).to_owned()),
        };
        resolve(&storage, &[]).is_ok().then_some((storage, kind.clone()))
    });
    let Some((storage, kind)) = found else {
        return Ok(Pointed::Problem(format!("{} contains no login of {}", login.file.display(), login.tool)));
    };
    let (Ok(service), Ok(account)) = (ServiceName::new(login.service), AccountName::new(login.tool)) else {
        return Ok(Pointed::NoLogin);
    };
    match folder.read(&service, &account) {
        Ok(Some(present)) => {
            let is_same = present.credentials.iter().any(|one| one.storage == storage);
            if is_same || (observer == Observer::Shell && !present.credentials.is_empty()) {
                return Ok(Pointed::AlreadyThere);
            }
        }
        Ok(None) => {}
        Err(error) => return Ok(Pointed::Problem(format!("{}: {}", error.path.display(), error.source))),
    }
    let account = Account::with_pointer(service, account, login.tool, kind, storage, now);
    folder.write_account(&account)?;
    Ok(Pointed::Added(account.reference()))
}
