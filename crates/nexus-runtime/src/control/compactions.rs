//! Compactions over the control plane: asked for, looked at and taken back.

use nexus_automation::HookPoint;
use nexus_base::id::CompactionId;
use nexus_pipeline::sessions::{CompactionRequest, Shortening};
use nexus_protocol::control::{CompactionsOf, Named, SessionOf, SessionShortened};
use nexus_protocol::status::Health;
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

    /// Sums a session up, or lets it begin anew; answers when that is on disk.
    pub(super) async fn session_shorten(
        &self,
        of: SessionOf,
        request: CompactionRequest,
    ) -> Result<Value, RuntimeError> {
        match self.health() {
            Health::Healthy | Health::Degraded | Health::Unhealthy => {}
            Health::Starting => return Err(RuntimeError::NotServing { state: "starting" }),
            Health::Stopping => return Err(RuntimeError::NotServing { state: "stopping" }),
        }
        let own = self.shared.pipeline.owner_session();
        let (session, is_own) = match of.session {
            Some(label) => {
                let label = nexus_pipeline::pipeline::check_label(&label)?;
                let is_own = label == own;
                (label, is_own)
            }
            None => (own, true),
        };
        let answer = |compaction, reason| {
            let changed = Option::is_some(&compaction);
            shown(&SessionShortened { session: session.clone(), changed, reason, compaction })
        };
        match self.shared.broker.shorten(&session, request).await? {
            Shortening::Done(compaction) => {
                if request == CompactionRequest::Reset {
                    self.shared.automations.commanded(HookPoint::CommandReset, &session);
                }
                answer(Some(compaction_view(*compaction)), None)
            }
            Shortening::Nothing { why } => answer(None, Some(why)),
            // The owner's conversation is there before its first word.
            Shortening::Unknown if is_own => {
                answer(None, Some("nothing has been said in that session yet".to_owned()))
            }
            Shortening::Unknown => Err(missing("session", session.as_str())),
            Shortening::Stopped => Err(invalid("it was stopped before it finished; nothing was changed")),
            Shortening::Refused { reason } => Err(invalid(reason)),
            Shortening::Stopping => Err(RuntimeError::NotServing { state: "stopping" }),
        }
    }

    pub(super) async fn undo_compaction(&self, named: Named) -> Result<Value, RuntimeError> {
        let id = CompactionId::new(named.id.as_str());
        match self.shared.broker.undo_compaction(&id).await? {
            Undone::Done(compaction) => shown(&compaction_view(*compaction)),
            Undone::Unknown => Err(missing("compaction", &named.id)),
            Undone::Already => Err(invalid("it has already been undone".to_owned())),
            Undone::BuiltUpon(later) => Err(invalid(format!("a later one builds on it; undo {later} first"))),
        }
    }
}
