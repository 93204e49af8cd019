//! Fetches the secret a pointer names, at the moment it is needed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nexus_base::file::{self, FileError};
use nexus_base::redact::Redactor;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use crate::keychain::{Entry, Tool};
use crate::program::{DEADLINE, ProgramError, Programs, program_name};
use crate::seal::{self, KeyPlace, SealError};
use crate::storage::{FileFormat, Storage};

/// Largest file a secret is read from.
const MAX_FILE_SIZE: u64 = 1024 * 1024;
/// Longest secret.
pub(crate) const MAX_SECRET_LEN: usize = 64 * 1024;

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
    FileMissing { path: PathBuf },
    /// The file is there but is not the JSON it should be.
    #[error("{path} is not JSON")]
    NotJson {
        /// The file.
        path: PathBuf,
    },
    /// The file is there but holds no secret at the place named.
    #[error("{path} contains no secret{}", at(.json_path.as_deref()))]
    NothingThere {
        /// The file.
        path: PathBuf,
        /// Dotted path inside it.
        json_path: Option<String>,
    },
    /// The file did not open or read in time.
    #[error("{path} could not be read within {} seconds", DEADLINE.as_secs())]
    FileHangs {
        /// The file.
        path: PathBuf,
    },
    /// A command or the keychain's tool gave none.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The sealed file did not open.
    #[error(transparent)]
    Sealed(#[from] SealError),
    /// The workspace is a stranger's, whose commands are not run.
    #[error("the command is not run: the workspace is not trusted")]
    Untrusted,
    /// This version cannot open that kind of place, or only where programs can be started.
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
            Self::FileMissing { .. } | Self::NotJson { .. } | Self::NothingThere { .. } => {
                "log in with the tool that owns the file, then run `nexus credential sync`"
            }
            Self::FileHangs { .. } => "check the file system that holds the file",
            Self::Program(ProgramError::NotFound { .. } | ProgramError::NotStarted { .. }) => {
                "install the program or put it on the PATH the daemon starts with"
            }
            Self::Program(ProgramError::TimedOut { .. }) => {
                "unlock the keychain or vault; a command cannot prompt for input"
            }
            Self::Program(ProgramError::Failed { .. } | ProgramError::NoSecret { .. }) => {
                "run the same command in a terminal to see what it says"
            }
            Self::Sealed(error) => error.hint(),
            Self::Untrusted => "review the workspace, then run `nexus trust`",
            Self::Unsupported { .. } => "add the credential again with another storage",
            Self::File(_) => "check the file's owner and permissions",
        }
    }
}

/// Fetches secrets from wherever a pointer says.
#[derive(Debug, Clone)]
pub struct Resolver {
    folder: PathBuf,
    environment: Vec<(String, String)>,
    key: Option<KeyPlace>,
    runs_commands: bool,
    redactor: Option<Arc<Redactor>>,
}

impl Resolver {
    /// Makes a resolver for the folder `state/credentials`. `environment` is what the daemon was
    /// started with.
    pub fn new(folder: impl Into<PathBuf>, environment: Vec<(String, String)>) -> Self {
        Self { folder: folder.into(), environment, key: None, runs_commands: false, redactor: None }
    }

    /// Says where the key of sealed files lies.
    #[must_use]
    pub fn with_key(mut self, key: Option<KeyPlace>) -> Self {
        self.key = key;
        self
    }

    /// Lets commands run that pointers name. Only for a workspace that its owner trusts: a copied one
    /// could name any command.
    #[must_use]
    pub fn with_commands(mut self, trusted: bool) -> Self {
        self.runs_commands = trusted;
        self
    }

    /// Makes every secret that is fetched known to what keeps secrets out of texts, before anybody
    /// has it.
    #[must_use]
    pub fn with_redactor(mut self, redactor: Arc<Redactor>) -> Self {
        self.redactor = Some(redactor);
        self
    }

    /// Returns the folder of credentials.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn key(&self) -> Option<&KeyPlace> {
        self.key.as_ref()
    }

    pub(crate) fn programs(&self) -> Programs<'_> {
        Programs { environment: &self.environment }
    }

    /// Fetches the secret at `storage`, which belongs to `reference` (`service/account/credential`).
    /// Answers within ten seconds, whatever is at the other end.
    pub async fn resolve(&self, reference: &str, storage: &Storage) -> Result<SecretString, ResolveError> {
        let secret = self.fetch(reference, storage).await?;
        if let Some(redactor) = &self.redactor {
            redactor.register(secret.expose_secret());
        }
        Ok(secret)
    }

    async fn fetch(&self, reference: &str, storage: &Storage) -> Result<SecretString, ResolveError> {
        match storage {
            Storage::Env { .. } | Storage::Other(_) => resolve(storage, &self.environment),
            Storage::File { path, .. } => {
                let (inner, hangs) = (storage.clone(), path.clone());
                // A file on a dead network share blocks for ever; the thread does, we do not.
                let reading = tokio::task::spawn_blocking(move || resolve(&inner, &[]));
                match tokio::time::timeout(DEADLINE, reading).await {
                    Ok(Ok(result)) => result,
                    Ok(Err(_)) | Err(_) => Err(ResolveError::FileHangs { path: hangs }),
                }
            }
            Storage::Keychain { service, account, json_path } => {
                let entry = Entry { service, account: account.as_deref() };
                let tool = Tool::of_platform();
                let output = tool.read(&self.programs(), entry).await?;
                secret_of(&output, tool.name(), json_path.as_deref())
            }
            Storage::External { command, json_path } => {
                if !self.runs_commands {
                    return Err(ResolveError::Untrusted);
                }
                let output = self.programs().run(command, None).await?;
                let name = program_name(command.first().map(String::as_str).unwrap_or_default());
                secret_of(&output, &name, json_path.as_deref())
            }
            Storage::OnePassword { vault, item, field } => {
                let command = ["op", "read", "--no-newline", &format!("op://{vault}/{item}/{field}")];
                let output = self.programs().run(&command.map(str::to_owned), None).await?;
                secret_of(&output, "op", None)
            }
            Storage::Sealed { file } => {
                let key = self
                    .key
                    .as_ref()
                    .ok_or_else(|| ResolveError::Unsupported { provider: "sealed".to_owned() })?;
                Ok(seal::open(key, &self.folder.join(file), reference)?)
            }
        }
    }
}

/// Fetches a secret that needs no program and no key: from the environment or a file.
///
/// # Errors
/// See [`ResolveError`]; other places are unsupported here.
pub fn resolve(storage: &Storage, environment: &[(String, String)]) -> Result<SecretString, ResolveError> {
    match storage {
        Storage::Env { var } => environment
            .iter()
            .find(|(name, _)| name == var)
            .and_then(|(_, value)| secret(value))
            .ok_or_else(|| ResolveError::VariableNotSet { var: var.clone() }),
        Storage::File { path, format, json_path } => {
            let text = read(path)?;
            let found = match format {
                FileFormat::Text => secret(&text),
                FileFormat::Json => {
                    let whole = serde_json::from_str(&text)
                        .map_err(|_| ResolveError::NotJson { path: path.clone() })?;
                    inside(&whole, json_path.as_deref()).and_then(secret)
                }
            };
            found.ok_or_else(|| ResolveError::NothingThere {
                path: path.clone(),
                json_path: json_path.clone(),
            })
        }
        Storage::Keychain { .. }
        | Storage::External { .. }
        | Storage::OnePassword { .. }
        | Storage::Sealed { .. }
        | Storage::Other(_) => Err(ResolveError::Unsupported { provider: storage.provider().to_owned() }),
    }
}

fn read(path: &Path) -> Result<String, ResolveError> {
    let missing = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
    match std::fs::metadata(path) {
        // Opening a pipe or a device may wait for ever or do something.
        Ok(found) if !found.is_file() => {
            return Err(ResolveError::NothingThere { path: path.to_owned(), json_path: None });
        }
        Err(error) if missing(&error) => return Err(ResolveError::FileMissing { path: path.to_owned() }),
        Ok(_) | Err(_) => {}
    }
    match file::read_text(path, MAX_FILE_SIZE) {
        Ok(text) => Ok(text),
        Err(error) if missing(&error.source) => Err(ResolveError::FileMissing { path: path.to_owned() }),
        Err(error) => Err(error.into()),
    }
}

fn secret_of(output: &[u8], name: &str, json_path: Option<&str>) -> Result<SecretString, ResolveError> {
    let text = std::str::from_utf8(output).ok();
    let found = match json_path {
        None => text.and_then(secret),
        Some(_) => text
            .and_then(|text| serde_json::from_str::<Value>(text).ok())
            .and_then(|whole| inside(&whole, json_path).and_then(secret)),
    };
    found.ok_or_else(|| {
        ProgramError::NoSecret { name: name.to_owned(), json_path: json_path.map(str::to_owned) }.into()
    })
}

fn secret(text: &str) -> Option<SecretString> {
    let text = text.trim();
    (!text.is_empty() && text.len() <= MAX_SECRET_LEN).then(|| SecretString::from(text))
}

fn inside<'a>(whole: &'a Value, json_path: Option<&str>) -> Option<&'a str> {
    let parts = json_path.unwrap_or_default().split('.').filter(|part| !part.is_empty());
    parts.take(16).try_fold(whole, |value, part| value.get(part))?.as_str()
}
