//! Taking a secret in and letting one go: into the keychain where there is one, else into a sealed file.

use nexus_base::clock::Timestamp;
use nexus_base::file::FileError;
use secrecy::SecretString;

use crate::account::{Account, Credential, Kind};
use crate::folder::CredentialFolder;
use crate::keychain::{Entry, Tool};
use crate::name::{AccountName, ServiceName};
use crate::program::ProgramError;
use crate::reference::Reference;
use crate::resolve::{MAX_SECRET_LEN, Resolver};
use crate::seal::{self, SealError};
use crate::storage::Storage;

/// Where a new secret should go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// The keychain where one works, else a sealed file.
    Anywhere,
    /// The platform's keychain.
    Keychain,
    /// A sealed file.
    Sealed,
}

/// Why a secret was not taken in or let go.
#[derive(Debug, thiserror::Error)]
pub enum AddError {
    /// There is nothing to keep.
    #[error("the secret is empty")]
    Empty,
    /// It is longer than any secret.
    #[error("the secret is longer than {MAX_SECRET_LEN} bytes")]
    TooLong,
    /// No home folder is known, so there is no place for a key.
    #[error("there is no known location for the key that seals secrets")]
    NoKeyPlace,
    /// The keychain's tool did not take it.
    #[error(transparent)]
    Keychain(#[from] ProgramError),
    /// It could not be sealed.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// The account could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

impl AddError {
    /// Returns advice for the person.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Empty | Self::TooLong => "pipe the secret in, or type it when asked",
            Self::NoKeyPlace => "set HOME, XDG_STATE_HOME or NEXUS_KEY_FILE",
            Self::Keychain(_) => "unlock the keychain, or store the secret with --storage sealed",
            Self::Seal(error) => error.hint(),
            Self::File(_) => "check the folder's owner and permissions",
        }
    }
}

/// A new credential, without its secret.
#[derive(Debug, Clone)]
pub struct NewCredential {
    pub service: ServiceName,
    pub account: AccountName,
    /// Its name within the account.
    pub id: String,
    /// What kind of secret.
    pub kind: Kind,
}

impl NewCredential {
    fn reference(&self) -> Reference {
        Reference {
            service: self.service.clone(),
            account: self.account.clone(),
            credential: self.id.clone(),
        }
    }
}

impl CredentialFolder {
    /// Takes a secret in and returns where it went. One of the same name is replaced.
    ///
    /// # Errors
    /// See [`AddError`]; the account is then as it was.
    pub async fn add_secret(
        &self,
        resolver: &Resolver,
        new: &NewCredential,
        secret: &SecretString,
        keep: Keep,
    ) -> Result<Storage, AddError> {
        use secrecy::ExposeSecret;
        let length = secret.expose_secret().trim().len();
        if length == 0 {
            return Err(AddError::Empty);
        }
        if length > MAX_SECRET_LEN {
            return Err(AddError::TooLong);
        }
        let storage = match keep {
            Keep::Keychain => keychain_secret(resolver, new, secret).await?,
            Keep::Sealed => self.seal_secret(resolver, new, secret)?,
            Keep::Anywhere => match keychain_secret(resolver, new, secret).await {
                Ok(storage) => storage,
                // A server without a desktop has the tool at times, but no keychain behind it.
                Err(error) => {
                    tracing::debug!(%error, "no keychain; sealing the secret in a file");
                    self.seal_secret(resolver, new, secret)?
                }
            },
        };
        self.add_pointer(new, storage.clone())?;
        Ok(storage)
    }

    /// Adds a pointer to a secret that lies elsewhere. One of the same name is replaced.
    ///
    /// # Errors
    /// The account cannot be read or written.
    pub fn add_pointer(&self, new: &NewCredential, storage: Storage) -> Result<(), FileError> {
        let _held = self.lock()?;
        let now = Timestamp::now();
        let fresh = Account::with_pointer(
            new.service.clone(),
            new.account.clone(),
            &new.id,
            new.kind.clone(),
            storage,
            now,
        );
        let account = match self.read(&new.service, &new.account)? {
            None => fresh,
            Some(mut present) => {
                present.credentials.retain(|one| one.id != new.id);
                present.credentials.extend(fresh.credentials);
                present
            }
        };
        self.write(&account)
    }

    /// Takes one credential away, and the secret with it where we put it there. Secrets of other
    /// tools stay with them.
    ///
    /// # Errors
    /// See [`AddError`]; a keychain that does not answer is only reported in the log.
    pub async fn remove_credential(
        &self,
        resolver: &Resolver,
        reference: &Reference,
    ) -> Result<bool, AddError> {
        let Some(credential) = self.take_out(reference)? else { return Ok(false) };
        match &credential.storage {
            Storage::Sealed { file } => {
                let path = self.path().join(file);
                if let Err(error) = std::fs::remove_file(&path)
                    && error.kind() != std::io::ErrorKind::NotFound
                {
                    return Err(FileError::new("removing", path, error).into());
                }
            }
            Storage::Keychain { service, account, .. } if service.starts_with(KEYCHAIN_PREFIX) => {
                let entry = Entry { service, account: account.as_deref() };
                if let Err(error) = Tool::of_platform().remove(&resolver.programs(), entry).await {
                    tracing::warn!(%error, %reference, "keychain entry not removed");
                }
            }
            Storage::Keychain { .. }
            | Storage::Env { .. }
            | Storage::File { .. }
            | Storage::External { .. }
            | Storage::OnePassword { .. }
            | Storage::Other(_) => {}
        }
        Ok(true)
    }

    fn take_out(&self, reference: &Reference) -> Result<Option<Credential>, FileError> {
        let _held = self.lock()?;
        let Some(mut account) = self.read(&reference.service, &reference.account)? else { return Ok(None) };
        let at = account.credentials.iter().position(|one| one.id == reference.credential);
        let Some(at) = at else { return Ok(None) };
        let credential = account.credentials.remove(at);
        if account.credentials.is_empty() {
            self.remove(&reference.service, &reference.account)?;
        } else {
            self.write(&account)?;
        }
        Ok(Some(credential))
    }

    fn seal_secret(
        &self,
        resolver: &Resolver,
        new: &NewCredential,
        secret: &SecretString,
    ) -> Result<Storage, AddError> {
        let key = resolver.key().ok_or(AddError::NoKeyPlace)?;
        let stem = new.account.file_name();
        let stem = stem.strip_suffix(".json").unwrap_or(&stem);
        let id: String = new
            .id
            .chars()
            .map(|character| if character.is_ascii_alphanumeric() { character } else { '_' })
            .collect();
        let file = format!("{}/{stem}.{id}.sealed", new.service);
        seal::seal(key, &self.path().join(&file), &new.reference().to_string(), secret)?;
        Ok(Storage::Sealed { file })
    }
}

/// How keychain entries of ours begin.
const KEYCHAIN_PREFIX: &str = "nexus:";

async fn keychain_secret(
    resolver: &Resolver,
    new: &NewCredential,
    secret: &SecretString,
) -> Result<Storage, ProgramError> {
    let service = format!("{KEYCHAIN_PREFIX}{}/{}", new.service, new.id);
    let entry = Entry { service: &service, account: Some(new.account.as_str()) };
    Tool::of_platform().store(&resolver.programs(), entry, secret).await?;
    Ok(Storage::Keychain { service, account: Some(new.account.to_string()), json_path: None })
}
