//! The reminder that no credentials are known: given to the assistant once, with a message of the owner's, and noted
//! when it was given. Credentials that came and went make it due again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nexus_credentials::CredentialFolder;
use nexus_store::StoreError;
use nexus_workspace::Layout;
use tokio::sync::Notify;

/// What the assistant is told.
pub(crate) const CREDENTIAL_NOTE: &str =
    "no credentials are known yet; consider offering `nexus credential scan` through a worker";
/// Where it is kept that the reminder was given.
const REMINDED: &str = "note.credentials";

/// Whether the reminder is still to be given.
#[derive(Debug)]
pub struct CredentialReminder {
    runtime: nexus_store::Runtime,
    folder: CredentialFolder,
    /// It was given in this life or an earlier one.
    given: AtomicBool,
    /// Wakes the task that notes it.
    was_given: Notify,
}

impl CredentialReminder {
    pub fn new(runtime: nexus_store::Runtime, layout: &Layout) -> Arc<Self> {
        Arc::new(Self {
            runtime,
            folder: CredentialFolder::new(layout.credentials()),
            // Until the start has looked what an earlier life did.
            given: AtomicBool::new(true),
            was_given: Notify::new(),
        })
    }

    /// Looks whether an earlier life gave it, and notes from now on when this one does.
    pub async fn start(self: &Arc<Self>) -> Result<(), StoreError> {
        let given = self.runtime.kv_get(REMINDED).await?.as_deref() == Some("given");
        let has_credentials = !self.folder.is_empty().unwrap_or(true);
        if given && has_credentials {
            self.runtime.kv_set(REMINDED, "").await?;
        }
        self.given.store(given && !has_credentials, Ordering::Release);
        let reminder = Arc::clone(self);
        nexus_base::task::spawn("credential reminder", async move {
            loop {
                reminder.was_given.notified().await;
                if let Err(error) = reminder.runtime.kv_set(REMINDED, "given").await {
                    tracing::warn!(%error, "it could not be kept that the credential reminder was given");
                }
            }
        });
        Ok(())
    }

    /// Tells whether the next message of the owner carries it. Asked at every turn of a workspace that was never
    /// reminded, so it only looks into one folder.
    pub(crate) fn is_due(&self) -> bool {
        !self.given.load(Ordering::Acquire) && self.folder.is_empty().unwrap_or(false)
    }

    /// Takes the reminder; true for the first caller only.
    pub(crate) fn take(&self) -> bool {
        let is_first = !self.given.swap(true, Ordering::AcqRel);
        if is_first {
            self.was_given.notify_one();
        }
        is_first
    }
}
