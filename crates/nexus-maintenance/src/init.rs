//! `nexus init`: the folder and its six databases.

use nexus_base::lock::{HeldLock, LockError};
use nexus_store::{Prepared, Store, StoreError};
use nexus_workspace::Layout;
use nexus_workspace::init::{self, InitError as TreeError, InitReport};
use nexus_workspace::trust::TrustFolder;

/// Why a workspace could not be made.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// Its folders and files.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// Its databases.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl InitError {
    /// Returns what a person can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Tree(error) => Some(error.hint().to_owned()),
            Self::Store(error) => error.hint(),
        }
    }
}

/// Makes what is missing of a workspace; what is there stays as it is, to the byte.
///
/// # Errors
/// See [`InitError`]; what was made before stays, and the next run goes on from there.
pub fn init(layout: &Layout, trusted: &TrustFolder) -> Result<InitReport, InitError> {
    let mut report = init::prepare_tree(layout, trusted)?;
    // A running daemon has the databases open and up to date; there is nothing to prepare beside it.
    let lock = match HeldLock::acquire(&layout.lock()) {
        Ok(lock) => Some(lock),
        Err(LockError::Held { .. }) => None,
        Err(LockError::File(error)) => return Err(TreeError::from(error).into()),
    };
    for (name, prepared) in Store::create(&layout.data())? {
        let created = match prepared {
            Prepared::Created => nexus_base::file::Created::New,
            Prepared::Migrated { .. } | Prepared::AlreadyThere => nexus_base::file::Created::AlreadyThere,
        };
        report.note(layout, &layout.data().join(format!("{name}.db")), created);
        nexus_base::failpoint::hit("init.database");
    }
    if let Some(lock) = lock {
        crate::stale_files::sweep(layout, trusted);
        lock.release();
    }
    Ok(report)
}
