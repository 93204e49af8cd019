//! A gate over a fresh store.

use nexus_identity::Access;
use nexus_store::{OpenMode, Store};

pub(crate) struct Place {
    _folder: tempfile::TempDir,
    pub(crate) store: Store,
    pub(crate) access: Access,
}

pub(crate) fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    Store::create(folder.path()).unwrap();
    let store = Store::open(folder.path(), OpenMode::ReadWrite).unwrap();
    let access = Access::new(store.identity().clone());
    Place { _folder: folder, store, access }
}
