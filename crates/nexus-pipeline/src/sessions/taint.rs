//! What a turn already has behind it when it begins: what its items carry and what its session read.

use std::sync::Arc;

use nexus_store::StoreError;
use nexus_store::agents::{Agents, ClaimedTurn, ItemKind, TaintedTurn};
use nexus_tools::{Role, Taint};

/// Finds out what a turn is tainted by, and writes that down before anything of it is told to a model.
pub(crate) async fn standing(
    agents: &Agents,
    claimed: &ClaimedTurn,
    role: Role,
) -> Result<Arc<Taint>, StoreError> {
    let carried = claimed.items.iter().filter_map(|item| item.new.facts.untrusted());
    let taint = Taint::new(claimed.turn.taint.as_deref().into_iter().chain(carried));
    // What an automation does for itself is one run each time, and has no past.
    if claimed.turn.parent.is_some()
        && !crate::sessions::history_cache::is_forgetful(&claimed.session.label)
        && let Some(earlier) = agents.newest_taint(&claimed.session.label).await?
        && earlier.id != claimed.turn.id
    {
        inherit(&taint, &earlier, claimed, role);
    }
    if let Some(sources) = taint.stored().filter(|sources| Some(sources) != claimed.turn.taint.as_ref()) {
        agents.taint_turn(&claimed.turn.id, sources).await?;
    }
    Ok(Arc::new(taint))
}

/// A worker's session is one run. A manager's goes on with the run unless a person speaks: then it is a new
/// one, in the shadow of the old.
fn inherit(taint: &Taint, earlier: &TaintedTurn, claimed: &ClaimedTurn, role: Role) {
    let follows = claimed.turn.parent.as_ref() == Some(&earlier.id);
    let somebody_spoke = claimed.items.iter().any(|item| item.new.kind == ItemKind::Message);
    let same_run = match role {
        Role::Worker => true,
        Role::Manager => follows && !somebody_spoke,
    };
    for source in earlier.sources.lines() {
        if same_run {
            taint.add(source);
        } else {
            taint.shadow(source);
        }
    }
}
