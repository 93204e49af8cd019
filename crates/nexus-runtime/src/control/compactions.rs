//! Compactions over the control plane: looked at and taken back.

use nexus_base::id::CompactionId;
use nexus_protocol::control::{CompactionsOf, Named};
use nexus_store::agents::Undone;
use serde_json::{Value, json};

use super::{invalid, missing, rows, shown};
use crate::report::{compaction_view, compactions};
use crate::{Runtime, RuntimeError};

impl Runtime {
    pub(super) async fn session_compactions(&self, of: CompactionsOf) -> Result<Value, RuntimeError> {
        let listed = compactions(&self.shared.store, of.session.as_ref(), rows(of.limit)?).await?;
        shown(&json!({ "compactions": listed }))
    }

    pub(super) async fn undo_compaction(&self, named: Named) -> Result<Value, RuntimeError> {
        let id = CompactionId::new(named.id.as_str());
        match self.shared.broker.undo_compaction(&id).await? {
            Undone::Done(compaction) => shown(&compaction_view(*compaction)),
            Undone::Unknown => Err(missing("compaction", &named.id)),
            Undone::Already => Err(invalid("it was taken back before".to_owned())),
            Undone::BuiltUpon(later) => {
                Err(invalid(format!("a later one builds on it; take back {later} first")))
            }
        }
    }
}
