//! What may be asked of memory: the words, how hard to look, where, and on whose behalf.

use std::collections::BTreeSet;

use nexus_base::clock::Timestamp;
use nexus_base::id::{EntityId, EventId};
use nexus_identity::{DataLevel, Principal};

/// Longest query that is looked at, in bytes; the rest of a longer one is left out.
pub const MAX_QUERY_LEN: usize = 1_000;
/// Most items one recall returns.
pub const MAX_LIMIT: usize = 200;
/// Items that a request asks for unless it says otherwise.
const DEFAULT_LIMIT: usize = 20;

/// How hard to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Budget {
    /// By meaning alone; by words where there are no vectors yet.
    Low,
    /// By meaning, words, time and speaker. What everybody wants unless they say otherwise.
    Mid,
    /// The same with more candidates, however far, and what caused or followed the best facts.
    High,
}

/// Where to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scope {
    /// Facts that somebody wrote down.
    pub facts: bool,
    /// What was said, word for word, whether or not a fact was made of it.
    pub turns: bool,
}

impl Scope {
    /// Facts and turns.
    pub const ALL: Self = Self { facts: true, turns: true };
    /// Facts alone.
    pub const FACTS: Self = Self { facts: true, turns: false };
    /// Turns alone.
    pub const TURNS: Self = Self { facts: false, turns: true };
}

/// On whose behalf memory is asked. What they may not see is left out before anything is ranked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Viewer {
    /// Sees everything: the owner, and what acts for the owner alone.
    Owner,
    /// Sees what is shared with them: facts that are about these entities and nobody else, and what
    /// was said in these conversations.
    Shared {
        /// Entities whose facts are shared: the person's own, and those that carry a tag of theirs.
        entities: BTreeSet<EntityId>,
        /// Conversations they take part in, as [`nexus_store::events::conversation_key`] names them.
        conversations: BTreeSet<String>,
    },
    /// Sees nothing.
    Nobody,
}

impl Viewer {
    /// Returns who a principal is to memory. `conversation` is the one the request belongs to.
    /// Entities that share a tag with the principal are added by `Memory::viewer_of`.
    pub fn of(principal: &Principal, data: DataLevel, conversation: Option<&str>) -> Self {
        if data == DataLevel::None {
            return Self::Nobody;
        }
        match principal {
            Principal::Owner { .. } | Principal::System { .. } if data == DataLevel::Full => Self::Owner,
            Principal::Agent { inherited, .. }
                if data == DataLevel::Full && inherited.data == DataLevel::Full =>
            {
                Self::Owner
            }
            Principal::Owner { .. }
            | Principal::System { .. }
            | Principal::Agent { .. }
            | Principal::Known { .. }
            | Principal::Webhook { .. }
            | Principal::Unknown => Self::Shared {
                entities: principal.entity_id().cloned().into_iter().collect(),
                conversations: conversation.map(str::to_owned).into_iter().collect(),
            },
        }
    }
}

/// One question to memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecallRequest {
    /// What to look for, in plain words.
    pub query: String,
    /// Most items wanted; between 1 and [`MAX_LIMIT`].
    pub limit: usize,
    /// How hard to look.
    pub budget: Budget,
    /// Where to look.
    pub scope: Scope,
    /// On whose behalf.
    pub viewer: Viewer,
    /// Only facts about this entity.
    pub about: Option<EntityId>,
    /// Only what was so, or was said, at this time or later.
    pub after: Option<Timestamp>,
    /// Only what was so, or was said, before this time.
    pub before: Option<Timestamp>,
    /// Only turns of this platform.
    pub platform: Option<String>,
    /// Only turns of this conversation, as [`nexus_store::events::conversation_key`] names it.
    pub conversation: Option<String>,
    /// Turns that are left out: the question itself, and what the model sees anyway.
    pub except: Vec<EventId>,
    /// What "last week" counts from.
    pub now: Timestamp,
}

impl RecallRequest {
    /// Asks on the owner's behalf, everywhere, with the usual effort.
    pub fn new(query: impl Into<String>) -> Self {
        Self {
            query: query.into(),
            limit: DEFAULT_LIMIT,
            budget: Budget::Mid,
            scope: Scope::ALL,
            viewer: Viewer::Owner,
            about: None,
            after: None,
            before: None,
            platform: None,
            conversation: None,
            except: Vec::new(),
            now: Timestamp::now(),
        }
    }

    /// Asks for this many items.
    #[must_use]
    pub fn limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }

    /// Looks only there.
    #[must_use]
    pub fn scope(self, scope: Scope) -> Self {
        Self { scope, ..self }
    }

    /// Asks on somebody's behalf.
    #[must_use]
    pub fn viewer(self, viewer: Viewer) -> Self {
        Self { viewer, ..self }
    }
}
