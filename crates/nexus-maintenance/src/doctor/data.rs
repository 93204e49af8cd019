//! The six databases, who holds the workspace, and what waits for its owner.

use nexus_base::clock::Timestamp;
use nexus_base::lock;
use nexus_store::{DatabaseName, OpenMode, Store, StoreError};

use super::{Check, Condition, DoctorRequest};

pub(super) fn look(request: &DoctorRequest<'_>, checks: &mut Vec<Check>) {
    let layout = request.layout;
    let holder = lock::inspect(&layout.lock());
    checks.push(match &holder {
        Some(holder) => {
            let port = holder.note.as_deref().map(|port| format!(" on port {port}")).unwrap_or_default();
            Check::fine("daemon", format!("running as process {}{port}", holder.pid))
        }
        None => Check::fine("daemon", "not running"),
    });
    let mut whole = 0;
    for name in DatabaseName::ALL {
        match Store::faults(&layout.data(), name) {
            Ok(faults) if faults.is_empty() => whole += 1,
            Ok(faults) => checks.push(
                Check::new("databases", Condition::Broken, format!("{name}: {}", faults.join("; ")))
                    .hint("stop the daemon and restore a backup with `nexus restore`"),
            ),
            Err(StoreError::Missing { .. }) if request.fix && holder.is_none() => {
                checks.push(match Store::create(&layout.data()) {
                    Ok(_) => Check::new(
                        "databases",
                        Condition::Fixed,
                        format!("{name} was missing and was created empty"),
                    ),
                    Err(error) => Check::new("databases", Condition::Broken, error.to_string()),
                });
            }
            Err(error) => {
                let hint = match &error {
                    StoreError::Missing { .. } => {
                        "`nexus restore` restores a backup; `nexus doctor --fix` creates an empty one"
                            .to_owned()
                    }
                    other => other.hint().unwrap_or_default(),
                };
                let message = format!("{name}: {}", nexus_base::error::chain(&error));
                checks.push(Check::new("databases", Condition::Broken, message).hint(hint));
            }
        }
    }
    if whole > 0 {
        checks.push(Check::fine("databases", format!("{whole} of {} intact", DatabaseName::ALL.len())));
    }
}

/// Counts what waits for the owner's consent: agents, clients and held messages wait with it.
pub(super) async fn questions(request: &DoctorRequest<'_>, checks: &mut Vec<Check>) {
    // A database that cannot be opened was reported above.
    let Ok(store) = Store::open(&request.layout.data(), OpenMode::ReadOnly) else { return };
    let now = Timestamp::now();
    let open = store.identity().list_permission_requests(false, u32::MAX).await;
    store.close().await;
    checks.push(match open.map(|open| open.iter().filter(|one| now < one.new.expires_at).count()) {
        Ok(0) => Check::fine("consent", "nothing is waiting for your consent"),
        Ok(count) => Check::new(
            "consent",
            Condition::Warning,
            format!("{count} requests are waiting for your consent"),
        )
        .hint("`nexus approvals list` shows them; answering needs a running daemon"),
        Err(error) => Check::new("consent", Condition::Broken, nexus_base::error::chain(&error)),
    });
}
