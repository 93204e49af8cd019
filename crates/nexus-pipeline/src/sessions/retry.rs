//! Steps that a file refused and that must not be left out: tried again until they work.

use std::time::Duration;

use nexus_store::StoreError;

use crate::sessions::broker::Shared;

/// First and longest pause before something that a file refused is tried again.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// Tries something until it works or the daemon stops; the next start does what is left then.
pub(crate) async fn until_ok<T, F>(shared: &Shared, what: &str, attempt: impl Fn() -> F) -> Option<T>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let mut pause = FIRST_PAUSE;
    loop {
        match attempt().await {
            Ok(done) => return Some(done),
            Err(error) => {
                tracing::error!(%error, hint = ?error.hint(), what, "step failed; repeating it");
            }
        }
        if !shared.pause(pause).await {
            return None;
        }
        pause = (pause * 2).min(MAX_PAUSE);
    }
}
