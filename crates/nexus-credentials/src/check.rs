//! Looking whether every pointer still gives a secret. A bad one is marked with its reason; nothing
//! else stops because of it.

use nexus_base::file::FileError;
use serde::Serialize;
use tokio::task::JoinSet;

use crate::failure::Breakage;
use crate::folder::CredentialFolder;
use crate::reference::Reference;
use crate::resolve::Resolver;

/// Pointers looked at at once: enough that one hanging command does not hold the others up.
const AT_ONCE: usize = 16;

/// What came of looking at one pointer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Checked {
    /// Which one.
    pub reference: Reference,
    /// Why it gives no secret; none when it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<&'static str>,
}

impl CredentialFolder {
    /// Fetches every secret once, drops it, and notes which pointers give none. Those that had given
    /// none before and do now are mended. Each takes at most ten seconds, sixteen at a time.
    ///
    /// # Errors
    /// The folder cannot be listed or an account not written.
    pub async fn check(&self, resolver: &Resolver) -> Result<Vec<Checked>, FileError> {
        let mut waiting = Vec::new();
        for account in self.read_all()?.accounts {
            for credential in &account.credentials {
                waiting.push((Reference::of(&account, credential), credential.clone()));
            }
        }
        let mut running = JoinSet::new();
        let mut checked = Vec::new();
        waiting.reverse();
        loop {
            while running.len() < AT_ONCE
                && let Some((reference, credential)) = waiting.pop()
            {
                let resolver = resolver.clone();
                running.spawn(async move {
                    let name = reference.to_string();
                    let outcome = resolver.resolve(&name, &credential.storage).await;
                    (reference, credential, outcome)
                });
            }
            let Some(ended) = running.join_next().await else { break };
            let Ok((reference, credential, outcome)) = ended else { continue };
            let was_broken = credential.breakage == Some(Breakage::Pointer);
            let (problem, hint) = match outcome {
                Ok(_) => {
                    if was_broken {
                        self.note_mended(&reference)?;
                    }
                    (None, None)
                }
                Err(error) => {
                    let reason = explain(&error);
                    if !was_broken || credential.last_error.as_ref() != Some(&reason) {
                        self.note_broken(&reference, Breakage::Pointer, &reason)?;
                    }
                    (Some(reason), Some(error.hint()))
                }
            };
            checked.push(Checked { reference, problem, hint });
        }
        checked.sort_by(|one, other| one.reference.cmp(&other.reference));
        Ok(checked)
    }
}

/// Renders an error with its causes on one line.
pub(crate) fn explain(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !line.contains(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
        cause = error.source();
    }
    line
}
