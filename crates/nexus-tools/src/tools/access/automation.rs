//! What an automation that works for itself may use: its own folder, its peers' and notes for them.

use std::path::{Path, PathBuf};

use nexus_workspace::Layout;

use super::{AccessError, FileAccess, Rights};

impl FileAccess {
    /// Grants an automation's folder and its peers' to read, and of its own the files to write that it may learn into
    /// or leave notes in. What it is told to be stays as it is.
    ///
    /// # Errors
    /// The workspace is missing.
    pub fn automation_at(
        layout: &Layout,
        folder: &Path,
        written: &[&str],
        peers: &[PathBuf],
    ) -> Result<Self, AccessError> {
        let mut access = Self::empty(layout)?;
        let (_, state) = access.jails()?;
        let real = |access: &Self, path: &Path| match path.strip_prefix(layout.state()) {
            Ok(inside) => access.state.join(inside),
            Err(_) => path.to_owned(),
        };
        access.base = real(&access, folder);
        access.add(&state, access.base.clone(), Rights::Read);
        for name in written {
            access.add(&state, access.base.join(name), Rights::ReadWrite);
        }
        for peer in peers {
            access.add(&state, real(&access, peer), Rights::Read);
        }
        Ok(access)
    }
}
