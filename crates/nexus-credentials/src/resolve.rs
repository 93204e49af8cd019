//! Fetches the secret a pointer names, at the moment it is needed.

use std::path::PathBuf;

use nexus_base::file::{self, FileError};
use secrecy::SecretString;
use serde_json::Value;

use crate::storage::{FileFormat, Storage};

/// Largest file a secret is read from.
const LARGEST_FILE: u64 = 1024 * 1024;
/// Longest secret.
const LONGEST_SECRET: usize = 64 * 1024;

/// Why a pointer gives no secret. No message holds a part of one.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// The daemon's environment lacks the variable.
    #[error("variable {var} is not set")]
    VariableNotSet {
        /// Its name.
        var: String,
    },
    /// The other tool's file is gone: it was logged out or removed.
    #[error("{path} does not exist")]
    FileMissing {
        /// Where it was.
        path: PathBuf,
    },
    /// The file is there but holds no secret at the place named.
    #[error("{path} holds no secret{}", at(.json_path.as_deref()))]
    NothingThere {
        /// The file.
        path: PathBuf,
        /// Dotted path inside it.
        json_path: Option<String>,
    },
    /// This version cannot open that kind of place.
    #[error("storage {provider:?} is not supported")]
    Unsupported {
        /// The kind of place.
        provider: String,
    },
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
}

fn at(json_path: Option<&str>) -> String {
    json_path.map(|path| format!(" at {path}")).unwrap_or_default()
}

impl ResolveError {
    /// Returns advice for the person.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::VariableNotSet { .. } => {
                "start the daemon with that variable set, or remove the credential"
            }
            Self::FileMissing { .. } | Self::NothingThere { .. } => {
                "log in with the tool that owns the file, then run `nexus credential sync`"
            }
            Self::Unsupported { .. } => "add the credential again with another storage",
            Self::File(_) => "check the file's owner and permissions",
        }
    }
}

/// Fetches the secret at `storage`. `environment` is what the daemon was started with.
///
/// # Errors
/// See [`ResolveError`].
pub fn resolve(storage: &Storage, environment: &[(String, String)]) -> Result<SecretString, ResolveError> {
    match storage {
        Storage::Env { var } => environment
            .iter()
            .find(|(name, _)| name == var)
            .and_then(|(_, value)| secret(value))
            .ok_or_else(|| ResolveError::VariableNotSet { var: var.clone() }),
        Storage::File { path, format, json_path } => {
            let text = match file::read_text(path, LARGEST_FILE) {
                Ok(text) => text,
                Err(error) if error.source.kind() == std::io::ErrorKind::NotFound => {
                    return Err(ResolveError::FileMissing { path: path.clone() });
                }
                Err(error) => return Err(error.into()),
            };
            let found = match format {
                FileFormat::Text => secret(&text),
                FileFormat::Json => json_text(&text, json_path.as_deref()).and_then(|text| secret(&text)),
            };
            found.ok_or_else(|| ResolveError::NothingThere {
                path: path.clone(),
                json_path: json_path.clone(),
            })
        }
        Storage::Other(_) => Err(ResolveError::Unsupported { provider: storage.provider().to_owned() }),
    }
}

fn secret(text: &str) -> Option<SecretString> {
    let text = text.trim();
    (!text.is_empty() && text.len() <= LONGEST_SECRET).then(|| SecretString::from(text))
}

fn json_text(text: &str, json_path: Option<&str>) -> Option<String> {
    let whole: Value = serde_json::from_str(text).ok()?;
    let parts = json_path.unwrap_or_default().split('.').filter(|part| !part.is_empty());
    let found = parts.take(16).try_fold(&whole, |value, part| value.get(part))?;
    found.as_str().map(str::to_owned)
}
