//! What the writer is given and what it makes of it.

use nexus_base::clock::Timestamp;
use nexus_base::id::{EntityId, EventId, FactId};

use crate::fact::Provenance;

/// Longest utterance that is read, in bytes; the rest is left to whoever reads the raw turn.
pub const MAX_UTTERANCE_LEN: usize = 16 * 1024;

/// Who said something. Decided from where it came from, never from what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Voice {
    /// The owner. Only this voice can change what is known about the owner.
    Owner,
    /// Somebody else with an entity; "I" in their words is they.
    Person { entity: EntityId, name: String },
    /// An agent of this workspace, telling what it did or understood.
    Agent,
    /// A web page, a tool server, a stranger.
    Untrusted,
}

impl Voice {
    /// Returns the provenance of what this voice says.
    pub const fn provenance(&self) -> Provenance {
        match self {
            Self::Owner => Provenance::Owner,
            Self::Agent => Provenance::Agent,
            Self::Person { .. } | Self::Untrusted => Provenance::Untrusted,
        }
    }
}

/// Something that was said and may hold facts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Utterance {
    /// The words.
    pub text: String,
    /// Who said them.
    pub voice: Voice,
    /// When; "yesterday" counts from here.
    pub at: Timestamp,
    /// The event they came with.
    pub event: Option<EventId>,
}

/// What a found fact is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FactKind {
    /// What somebody is called.
    Name,
    /// Where somebody lives, works or comes from.
    Place,
    /// What somebody likes or wants.
    Preference,
    /// What happens, or happened, on a day.
    Date,
    /// What somebody is to somebody else.
    Relation,
    /// What the owner calls the assistant.
    Persona,
    /// Anything else that the owner asked to be remembered, or says of themselves.
    Note,
}

/// Somebody or something that a found fact names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mention {
    /// The name as it was written.
    pub name: String,
    /// person, place, org, persona.
    pub kind: &'static str,
    /// What they are to the speaker: sister, colleague, dog.
    pub relation: Option<String>,
}

/// A fact that was found in an utterance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extracted {
    /// One sentence in the third person, dates written out.
    pub text: String,
    /// What it is about.
    pub kind: FactKind,
    pub as_of: Timestamp,
    /// Whether it is about the speaker.
    pub about_speaker: bool,
    /// The speaker's own name, where this fact tells it.
    pub speaker_name: Option<String>,
    /// Whom else it names.
    pub mentions: Vec<Mention>,
}

/// What learning from an utterance did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Learnt {
    /// Facts that are new.
    pub added: Vec<FactId>,
    /// Facts that were known before.
    pub known: Vec<FactId>,
    /// Entities that were made.
    pub entities: Vec<EntityId>,
    /// The owner's name, if it was learnt now.
    pub owner_name: Option<String>,
}
