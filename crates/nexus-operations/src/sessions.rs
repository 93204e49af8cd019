//! Sessions: listed, looked up, previewed; their earlier turns summed up, and that taken back.

use nexus_automation::HookPoint;
use nexus_base::id::CompactionId;
use nexus_pipeline::sessions::{CompactionRequest, Shortening};
use nexus_protocol::control::{
    CompactionView, CompactionsOf, Listing, Named, Preview, PreviewOf, SessionNamed, SessionOf,
    SessionShortened,
};
use nexus_store::agents::Undone;
use serde_json::{Value, json};

use crate::call::{Call, MAX_ROWS, invalid, missing, rows, shown};
use crate::report::{self, compaction_view};
use crate::{RuntimeError, chat};

/// Most sessions one preview shows, and lines of each when the caller does not say.
const MAX_PREVIEWS: usize = 50;
const PREVIEW_LINES: usize = 3;
const MAX_PREVIEW_LINES: usize = 20;

pub(crate) async fn list(call: &Call<'_>, listing: Listing) -> Result<Value, RuntimeError> {
    let sessions = report::sessions(call.store, rows(listing.limit)?).await?;
    Ok(json!({ "sessions": sessions }))
}

pub(crate) async fn resolve(call: &Call<'_>, named: SessionNamed) -> Result<Value, RuntimeError> {
    // Follows aliases, so the label that comes back may be another one.
    let found = call.store.agents().session(&named.session).await?;
    let label = found.ok_or_else(|| missing("session", named.session.as_str()))?.label;
    let sessions = report::sessions(call.store, MAX_ROWS).await?;
    match sessions.into_iter().find(|session| session.session == label) {
        Some(session) => shown(&session),
        None => Ok(json!({ "session": label })),
    }
}

pub(crate) async fn preview(call: &Call<'_>, of: PreviewOf) -> Result<Value, RuntimeError> {
    if of.sessions.len() > MAX_PREVIEWS {
        return Err(invalid(format!("at most {MAX_PREVIEWS} sessions at once")));
    }
    let limit = of.limit.unwrap_or(PREVIEW_LINES).clamp(1, MAX_PREVIEW_LINES);
    let mut previews = Vec::with_capacity(of.sessions.len());
    for session in of.sessions {
        previews.push(match chat::lines(call, session.clone(), limit).await {
            Ok(history) => Preview { session, found: true, lines: history.lines },
            Err(RuntimeError::NotFound { .. }) => Preview { session, found: false, lines: Vec::new() },
            Err(error) => return Err(error),
        });
    }
    Ok(json!({ "previews": previews }))
}

pub(crate) async fn compactions(call: &Call<'_>, of: CompactionsOf) -> Result<Value, RuntimeError> {
    let listed = report::compactions(call.store, of.session.as_ref(), rows(of.limit)?).await?;
    Ok(json!({ "compactions": listed }))
}

pub(crate) async fn compact(call: &Call<'_>, of: SessionOf) -> Result<SessionShortened, RuntimeError> {
    shorten(call, of, CompactionRequest::Compact).await
}

pub(crate) async fn reset(call: &Call<'_>, of: SessionOf) -> Result<SessionShortened, RuntimeError> {
    shorten(call, of, CompactionRequest::Reset).await
}

/// Sums a session up, or lets it begin anew; answers when that is on disk.
async fn shorten(
    call: &Call<'_>,
    of: SessionOf,
    request: CompactionRequest,
) -> Result<SessionShortened, RuntimeError> {
    let daemon = call.daemon()?;
    daemon.check_serving()?;
    let own = daemon.pipeline.owner_session();
    let session = match of.session {
        Some(label) => nexus_pipeline::pipeline::check_label(&label)?,
        None => own.clone(),
    };
    let answer = |compaction, reason| {
        let changed = Option::is_some(&compaction);
        Ok(SessionShortened { session: session.clone(), changed, reason, compaction })
    };
    match daemon.broker.shorten(&session, request).await? {
        Shortening::Done(compaction) => {
            if request == CompactionRequest::Reset {
                daemon.automations.commanded(HookPoint::CommandReset, &session);
            }
            answer(Some(compaction_view(*compaction)), None)
        }
        Shortening::Nothing { why } => answer(None, Some(why)),
        // The owner's conversation is there before its first word.
        Shortening::Unknown if session == own => {
            answer(None, Some("nothing has been said in that session yet".to_owned()))
        }
        Shortening::Unknown => Err(missing("session", session.as_str())),
        Shortening::Stopped => Err(invalid("it was stopped before it finished; nothing was changed")),
        Shortening::Refused { reason } => Err(invalid(reason)),
        Shortening::Stopping => Err(RuntimeError::NotServing { state: "stopping" }),
    }
}

pub(crate) async fn undo(call: &Call<'_>, named: Named) -> Result<CompactionView, RuntimeError> {
    let id = CompactionId::new(named.id.as_str());
    let undone = match call.running {
        Some(operations) => operations.daemon().broker.undo_compaction(&id).await?,
        None => call.store.agents().undo_compaction(&id).await?,
    };
    match undone {
        Undone::Done(compaction) => Ok(compaction_view(*compaction)),
        Undone::Unknown => Err(missing("compaction", &named.id)),
        Undone::Already => Err(invalid("it has already been undone")),
        Undone::BuiltUpon(later) => Err(invalid(format!("a later one builds on it; undo {later} first"))),
    }
}
