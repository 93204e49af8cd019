//! What an automation that works for itself may use: its own folder, and notes for its peers.

use std::path::{Path, PathBuf};

use nexus_workspace::Layout;

use super::{AccessError, FileAccess, Rights};

impl FileAccess {
    /// Grants an automation's folder to read, the files in it that it may learn into to write, its peers'
    /// folders to read and the notes in them to write. What it is told to be stays as it is.
    ///
    /// # Errors
    /// The workspace is missing.
    pub fn automation_at(
        layout: &Layout,
        folder: &Path,
        learned: &[&str],
        notes: &[(PathBuf, String)],
    ) -> Result<Self, AccessError> {
        let mut access = Self::empty(layout)?;
        let (_, state) = access.jails()?;
        let real = |access: &Self, path: &Path| match path.strip_prefix(layout.state()) {
            Ok(inside) => access.state.join(inside),
            Err(_) => path.to_owned(),
        };
        access.base = real(&access, folder);
        access.add(&state, access.base.clone(), Rights::Read);
        for name in learned {
            access.add(&state, access.base.join(name), Rights::ReadWrite);
        }
        for (peer, file) in notes {
            let peer = real(&access, peer);
            access.add(&state, peer.clone(), Rights::Read);
            access.add(&state, peer.join(file), Rights::ReadWrite);
        }
        Ok(access)
    }
}
