//! Skills of a workspace together with what they need from it: credentials, programs, consent.

use std::path::PathBuf;

use nexus_base::file::FileError;
use nexus_credentials::{CredentialFolder, Status};
use nexus_workspace::Layout;
use nexus_workspace::skills::{CredentialState, Manifest, Surroundings, manifest};
use nexus_workspace::trust::TrustFolder;

/// Looks at every skill. Nothing of any is run.
///
/// # Errors
/// The skills or the credentials cannot be listed.
pub fn look(layout: &Layout, trust: &TrustFolder, path: Vec<PathBuf>) -> Result<Manifest, FileError> {
    let accounts = CredentialFolder::new(layout.credentials()).list()?;
    let credential = |service: &str| {
        let mut of_service = accounts.iter().filter(|one| one.service.as_str() == service).peekable();
        if of_service.peek().is_none() {
            return CredentialState::Missing;
        }
        let usable =
            of_service.any(|one| matches!(one.status, Status::Ready | Status::Active | Status::Cooldown));
        if usable { CredentialState::Usable } else { CredentialState::Broken }
    };
    manifest(layout, &Surroundings { path, credential: &credential, trust })
}
