//! Sealed files: secrets for machines without a keychain, encrypted under a key that lies outside the
//! workspace. Without the key a copy of the workspace gives nothing away.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use nexus_base::file::{self, Durability, FileError};
use nexus_base::id::{random_hex, to_hex};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;
/// Largest key file or sealed file that is read.
const MAX_FILE_SIZE: u64 = 512 * 1024;
/// Name of the cipher in the file.
const ALGORITHM: &str = "xchacha20poly1305";

/// Where the key that seals a workspace's secrets lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPlace {
    path: PathBuf,
    workspace: PathBuf,
}

/// Why a secret could not be sealed or opened.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// The key would lie in the workspace that it is meant to protect.
    #[error("the key file {} is inside the workspace", path.display())]
    KeyInside {
        /// The key file.
        path: PathBuf,
    },
    /// There is no key.
    #[error("the key file {} does not exist", path.display())]
    KeyMissing {
        /// Where it should be.
        path: PathBuf,
    },
    /// The file holds no key.
    #[error("{} does not contain a key of {KEY_BYTES} bytes", path.display())]
    KeyMalformed {
        /// The key file.
        path: PathBuf,
    },
    /// Others on the machine can read the key.
    #[error("the key file {} is readable by other users", path.display())]
    KeyOpen {
        /// The key file.
        path: PathBuf,
    },
    /// The key does not open this file, or the file was changed or moved.
    #[error("the key does not decrypt {}", path.display())]
    NotOurs {
        /// The sealed file.
        path: PathBuf,
    },
    /// The system gave no random bytes.
    #[error("getting random bytes")]
    Random(#[source] std::io::Error),
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

impl SealError {
    /// Returns advice for the person.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::KeyInside { .. } => "set NEXUS_KEY_FILE to a path outside the workspace",
            Self::KeyMissing { .. } => {
                "restore the key or set NEXUS_KEY_FILE to its path; if it is lost, add the credential again"
            }
            Self::KeyMalformed { .. } | Self::NotOurs { .. } => {
                "restore the right key, or add the credential again"
            }
            Self::KeyOpen { .. } => "run chmod 600 on the key file, and consider the secrets compromised",
            Self::Random(_) => "check that the system's random source works",
            Self::File(_) => "check the file's owner and permissions",
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct SealedFile {
    version: u32,
    algorithm: String,
    nonce: String,
    data: String,
}

impl KeyPlace {
    /// Takes the key file and the workspace it must not lie in.
    pub fn new(path: impl Into<PathBuf>, workspace: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), workspace: workspace.into() }
    }

    /// Places the key: `NEXUS_KEY_FILE` when set, else a file named after the workspace below the
    /// user's state folder.
    pub fn locate(
        key_file: Option<&Path>,
        xdg_state_home: Option<&Path>,
        home: Option<&Path>,
        workspace: &Path,
        workspace_id: &str,
    ) -> Option<Self> {
        if let Some(path) = key_file.filter(|path| !path.as_os_str().is_empty()) {
            return Some(Self::new(path, workspace));
        }
        let base = match xdg_state_home.filter(|path| path.is_absolute()) {
            Some(path) => path.to_owned(),
            None => home?.join(".local/state"),
        };
        Some(Self::new(base.join("nexus/keys").join(format!("{workspace_id}.key")), workspace))
    }

    /// Returns the key file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Tells whether the key is there.
    pub fn exists(&self) -> bool {
        self.path.exists()
    }

    fn read(&self) -> Result<Key, SealError> {
        self.refuse_inside()?;
        let text = match file::read_text(&self.path, MAX_FILE_SIZE) {
            Ok(text) => text,
            Err(error) if error.source.kind() == std::io::ErrorKind::NotFound => {
                return Err(SealError::KeyMissing { path: self.path.clone() });
            }
            Err(error) => return Err(error.into()),
        };
        let open = std::fs::metadata(&self.path).is_ok_and(|found| found.permissions().mode() & 0o077 != 0);
        if open {
            return Err(SealError::KeyOpen { path: self.path.clone() });
        }
        from_hex::<KEY_BYTES>(text.trim())
            .map(Key::from)
            .ok_or_else(|| SealError::KeyMalformed { path: self.path.clone() })
    }

    fn read_or_make(&self) -> Result<Key, SealError> {
        match self.read() {
            Err(SealError::KeyMissing { .. }) => {}
            other => return other,
        }
        if let Some(parent) = self.path.parent() {
            file::create_folder(parent, 0o700)?;
        }
        let fresh = random_hex(KEY_BYTES).map_err(SealError::Random)?;
        // Two that make a key at once agree on the one that came first.
        file::create_once(&self.path, format!("{fresh}\n").as_bytes(), 0o600, Durability::PowerLoss)?;
        self.read()
    }

    fn refuse_inside(&self) -> Result<(), SealError> {
        let root = self.workspace.canonicalize().unwrap_or_else(|_| self.workspace.clone());
        let resolved = self.path.ancestors().find_map(|path| path.canonicalize().ok());
        if self.path.starts_with(&root) || resolved.is_some_and(|path| path.starts_with(&root)) {
            return Err(SealError::KeyInside { path: self.path.clone() });
        }
        Ok(())
    }
}

/// Seals a secret into the file at `path`. `belongs_to` is bound to it: a sealed file renamed to
/// another account does not open.
pub(crate) fn seal(
    key: &KeyPlace,
    path: &Path,
    belongs_to: &str,
    secret: &SecretString,
) -> Result<(), SealError> {
    let cipher = XChaCha20Poly1305::new(&key.read_or_make()?);
    let nonce = random_hex(NONCE_BYTES).map_err(SealError::Random)?;
    let raw = from_hex::<NONCE_BYTES>(&nonce).unwrap_or([0; NONCE_BYTES]);
    let payload = Payload { msg: secret.expose_secret().as_bytes(), aad: belongs_to.as_bytes() };
    let data = cipher
        .encrypt(&XNonce::from(raw), payload)
        .map_err(|_| SealError::NotOurs { path: path.to_owned() })?;
    let sealed = SealedFile { version: 1, algorithm: ALGORITHM.to_owned(), nonce, data: to_hex(&data) };
    let mut text = serde_json::to_vec_pretty(&sealed)
        .map_err(|error| FileError::new("rendering", path, error.into()))?;
    text.push(b'\n');
    if let Some(parent) = path.parent() {
        file::create_folder(parent, 0o700)?;
    }
    file::replace(path, &text, 0o600, Durability::PowerLoss)?;
    Ok(())
}

/// Opens the sealed file at `path`.
pub(crate) fn open(key: &KeyPlace, path: &Path, belongs_to: &str) -> Result<SecretString, SealError> {
    let text = file::read_text(path, MAX_FILE_SIZE)?;
    let not_ours = || SealError::NotOurs { path: path.to_owned() };
    let sealed: SealedFile = serde_json::from_str(&text).map_err(|_| not_ours())?;
    if sealed.version != 1 || sealed.algorithm != ALGORITHM {
        return Err(not_ours());
    }
    let nonce = from_hex::<NONCE_BYTES>(&sealed.nonce).ok_or_else(not_ours)?;
    let data = bytes_from_hex(&sealed.data).ok_or_else(not_ours)?;
    let cipher = XChaCha20Poly1305::new(&key.read()?);
    let payload = Payload { msg: &data, aad: belongs_to.as_bytes() };
    let opened = cipher.decrypt(&XNonce::from(nonce), payload).map_err(|_| not_ours())?;
    String::from_utf8(opened).map(SecretString::from).map_err(|_| not_ours())
}

fn from_hex<const LENGTH: usize>(text: &str) -> Option<[u8; LENGTH]> {
    bytes_from_hex(text)?.try_into().ok()
}

fn bytes_from_hex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place {
        folder: tempfile::TempDir,
        key: KeyPlace,
    }

    fn place() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().join("workspace");
        std::fs::create_dir(&workspace).unwrap();
        let key = KeyPlace::new(folder.path().join("keys/one.key"), workspace);
        Place { folder, key }
    }

    #[test]
    fn what_is_sealed_opens_again_and_shows_nothing() {
        let place = place();
        let path = place.folder.path().join("workspace/x.sealed");
        seal(&place.key, &path, "openai/me/api_key", &SecretString::from("the canary")).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains("canary"));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::metadata(place.key.path()).unwrap().permissions().mode() & 0o777, 0o600);
        let opened = open(&place.key, &path, "openai/me/api_key").unwrap();
        assert_eq!(opened.expose_secret(), "the canary");
        assert!(matches!(open(&place.key, &path, "openai/you/api_key"), Err(SealError::NotOurs { .. })));
    }

    #[test]
    fn a_lost_open_or_misplaced_key_is_named() {
        let place = place();
        let path = place.folder.path().join("workspace/x.sealed");
        seal(&place.key, &path, "a", &SecretString::from("s3cret")).unwrap();
        std::fs::set_permissions(place.key.path(), std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(open(&place.key, &path, "a"), Err(SealError::KeyOpen { .. })));
        std::fs::remove_file(place.key.path()).unwrap();
        assert!(matches!(open(&place.key, &path, "a"), Err(SealError::KeyMissing { .. })));
        let inside = KeyPlace::new(
            place.folder.path().join("workspace/state/key"),
            place.folder.path().join("workspace"),
        );
        let refused = seal(&inside, &path, "a", &SecretString::from("s3cret"));
        assert!(matches!(refused, Err(SealError::KeyInside { .. })));
    }
}
