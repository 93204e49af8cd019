//! Finds credentials among environment variables. Values are masked at once and never kept.

use std::sync::LazyLock;

use nexus_base::clock::Timestamp;
use nexus_base::file::FileError;
use nexus_base::redact::mask;
use serde::{Deserialize, Serialize};

use crate::account::{Account, Kind};
use crate::folder::CredentialFolder;
use crate::name::{AccountName, ServiceName};
use crate::storage::Storage;

/// Shortest value that can be a secret when only its looks speak for it.
const MIN_VALUE_LEN: usize = 8;
/// Shortest run of letters and digits that looks like a key of an unknown service.
const MIN_UNKNOWN_LEN: usize = 40;
/// Most variables looked at.
const MAX_VARIABLES: usize = 4_096;
/// Longest value looked at.
const MAX_VALUE_LEN: usize = 64 * 1024;

/// What gives secrets away, as it stands in `scan.json`.
#[derive(Debug, Default, Deserialize)]
#[serde(bound(deserialize = "'de: 'static"))]
struct Signs {
    known: Vec<Known>,
    /// How values give their service away: their beginning, the service, the kind.
    value_prefixes: Vec<(&'static str, &'static str, Kind)>,
    /// Words in a variable's name that give its service away.
    name_hints: Vec<(&'static str, &'static str)>,
}

/// A variable whose meaning is known.
#[derive(Debug, Deserialize)]
struct Known {
    variable: &'static str,
    service: &'static str,
    kind: Kind,
    is_model_provider: bool,
}

// Tests know its rows; a damaged build would find nothing, not panic.
static SIGNS: LazyLock<Signs> =
    LazyLock::new(|| serde_json::from_str(include_str!("scan.json")).unwrap_or_default());

/// How hard to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Only variables whose names are known.
    Known,
    /// Also names and values that look like secrets.
    Deep,
}

/// One variable that holds, or seems to hold, a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its name.
    pub variable: String,
    /// Whose secret it is; `unknown` when nothing says so.
    pub service: String,
    /// What kind of secret.
    pub kind: Kind,
    /// Head and tail of the value.
    pub masked: String,
    /// Whether service and kind are certain enough to import.
    pub known: bool,
    /// Whether a pointer to it exists.
    pub imported: bool,
}

/// What a scan found and, after an import, what it added.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Findings {
    /// By variable.
    pub findings: Vec<Finding>,
    /// `service/account` of pointers added just now.
    pub imported: Vec<String>,
}

/// Looks through an environment. Nothing is stored and no value is returned whole.
pub fn scan(environment: &[(String, String)], depth: Depth) -> Findings {
    let mut findings: Vec<Finding> = environment
        .iter()
        .take(MAX_VARIABLES)
        .filter(|(_, value)| !value.trim().is_empty() && value.len() <= MAX_VALUE_LEN)
        .filter_map(|(variable, value)| classify(variable, value.trim(), depth))
        .collect();
    findings.sort_by(|one, other| one.variable.cmp(&other.variable));
    findings.dedup_by(|one, other| one.variable == other.variable);
    Findings { findings, imported: Vec::new() }
}

impl Findings {
    /// Keeps only variables of model providers.
    pub(crate) fn of_model_providers(mut self) -> Self {
        let is_model = |finding: &Finding| {
            SIGNS.known.iter().any(|known| known.is_model_provider && known.variable == finding.variable)
        };
        self.findings.retain(is_model);
        self
    }
}

impl CredentialFolder {
    /// Marks which findings have a pointer already.
    ///
    /// # Errors
    /// An account file exists but cannot be read.
    pub fn mark_imported(&self, findings: &mut Findings) -> Result<(), FileError> {
        let pointed: Vec<String> = self
            .read_all()?
            .accounts
            .into_iter()
            .flat_map(|account| account.credentials)
            .filter_map(|credential| match credential.storage {
                Storage::Env { var } => Some(var),
                Storage::File { .. }
                | Storage::Keychain { .. }
                | Storage::External { .. }
                | Storage::OnePassword { .. }
                | Storage::Sealed { .. }
                | Storage::Other(_) => None,
            })
            .collect();
        for finding in &mut findings.findings {
            finding.imported = pointed.contains(&finding.variable);
        }
        Ok(())
    }

    /// Adds a pointer for every known finding that has none, and notes which.
    ///
    /// # Errors
    /// The folder cannot be read or written.
    pub fn import(&self, findings: &mut Findings) -> Result<(), FileError> {
        self.mark_imported(findings)?;
        let now = Timestamp::now();
        for finding in findings.findings.iter_mut().filter(|finding| finding.known && !finding.imported) {
            let (Ok(service), Ok(account)) =
                (ServiceName::new(&finding.service), AccountName::of_variable(&finding.variable))
            else {
                continue;
            };
            let id = match finding.kind {
                Kind::ApiKey => "api_key",
                Kind::Token | Kind::Oauth | Kind::Other(_) => "token",
            };
            let storage = Storage::Env { var: finding.variable.clone() };
            let account = Account::with_pointer(service, account, id, finding.kind.clone(), storage, now);
            self.write_account(&account)?;
            finding.imported = true;
            findings.imported.push(account.reference());
        }
        if !findings.imported.is_empty() {
            self.rebuild_index()?;
        }
        Ok(())
    }
}

fn classify(variable: &str, value: &str, depth: Depth) -> Option<Finding> {
    let finding = |service: &str, kind: Kind, known: bool| Finding {
        variable: variable.to_owned(),
        service: service.to_owned(),
        kind,
        masked: mask(value),
        known,
        imported: false,
    };
    if let Some(known) = SIGNS.known.iter().find(|known| known.variable == variable) {
        return Some(finding(known.service, known.kind.clone(), true));
    }
    if depth == Depth::Known || value.len() < MIN_VALUE_LEN || is_path_like(value) || is_ours(variable) {
        return None;
    }
    let by_value = SIGNS.value_prefixes.iter().find(|(prefix, ..)| is_key_with(prefix, value));
    if let Some((_, service, kind)) = by_value {
        return Some(finding(service, kind.clone(), true));
    }
    let kind = kind_of_name(variable)?;
    if let Some((_, service)) =
        SIGNS.name_hints.iter().find(|(hint, _)| words(variable).any(|word| word == *hint))
    {
        return Some(finding(service, kind, true));
    }
    let looks_random =
        value.len() >= MIN_UNKNOWN_LEN && value.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let kind = if looks_random { Kind::Other("unknown".to_owned()) } else { kind };
    Some(finding("unknown", kind, false))
}

fn is_key_with(prefix: &str, value: &str) -> bool {
    value.strip_prefix(prefix).is_some_and(|tail| {
        tail.len() >= 16 && tail.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    })
}

// Whole words, so that GIT_AUTHOR_NAME is not taken for something about AUTH.
fn kind_of_name(variable: &str) -> Option<Kind> {
    let words: Vec<String> = words(variable).collect();
    let has = |wanted: &str| words.iter().any(|word| word == wanted);
    if has("APIKEY") || words.windows(2).any(|pair| pair[0] == "API" && pair[1] == "KEY") {
        return Some(Kind::ApiKey);
    }
    let is_secret = ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "AUTH", "CREDENTIAL", "CREDENTIALS"];
    is_secret.iter().any(|word| has(word)).then_some(Kind::Token)
}

fn words(variable: &str) -> impl Iterator<Item = String> {
    variable.split(|character: char| !character.is_ascii_alphanumeric()).map(str::to_ascii_uppercase)
}

fn is_path_like(value: &str) -> bool {
    value.starts_with(['/', '~', '.']) || value.contains("://") || value.contains(":/")
}

fn is_ours(variable: &str) -> bool {
    variable.starts_with("NEXUS_")
}
