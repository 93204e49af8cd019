//! Who is asking. A principal is made from where a message really came from, never from what it says.
//! The owner's entity, made at the first start and enriched by conversation later.

use nexus_base::failpoint;
use nexus_base::id::{EntityId, SessionLabel};
use nexus_store::identity::OWNER_ID;
use nexus_store::{Identity, StoreError};

use crate::permissions::Permissions;

/// Longest name or address that is looked at, in bytes.
pub(crate) const MAX_NAME_LEN: usize = 200;

/// Where a message really came from.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// A caller with the owner's token; the entity comes from the token, never from the message.
    Owner {
        /// The owner's entity.
        entity: EntityId,
    },
    /// Nexus itself: clock, boot, restart.
    System {
        /// Which part.
        name: String,
    },
    Webhook {
        name: String,
    },
    /// An agent acting for whoever started it.
    Agent {
        session: SessionLabel,
        /// What its caller may do.
        inherited: Permissions,
    },
    /// Somebody on a platform.
    Sender {
        platform: String,
        /// Server or team, where the platform has such.
        space: Option<String>,
        /// The sender in the platform's terms; nobody knows who it is when it is missing.
        sender: Option<String>,
        /// The name shown there.
        name: Option<String>,
    },
}

/// Who is asking.
#[derive(Debug, Clone, PartialEq)]
pub enum Principal {
    /// The person the workspace belongs to.
    Owner {
        entity: EntityId,
        name: String,
    },
    /// Somebody with an entity.
    Known {
        /// Their entity, merges followed.
        entity: EntityId,
        name: String,
        /// What they are to the owner: partner, family, friend, work.
        tags: Vec<String>,
    },
    /// Nobody can say who.
    Unknown,
    /// Nexus itself.
    System {
        /// Which part.
        name: String,
    },
    Webhook {
        name: String,
    },
    Agent {
        session: SessionLabel,
        /// What its caller may do, which it may never exceed.
        inherited: Permissions,
    },
}

impl Principal {
    /// Returns the word for this kind of principal.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Owner { .. } => "owner",
            Self::Known { .. } => "known",
            Self::Unknown => "unknown",
            Self::System { .. } => "system",
            Self::Webhook { .. } => "webhook",
            Self::Agent { .. } => "agent",
        }
    }

    /// Returns the entity, for people.
    pub const fn entity_id(&self) -> Option<&EntityId> {
        match self {
            Self::Owner { entity, .. } | Self::Known { entity, .. } => Some(entity),
            Self::Unknown | Self::System { .. } | Self::Webhook { .. } | Self::Agent { .. } => None,
        }
    }

    /// Returns what the owner calls them: partner, family, friend, work.
    pub fn tags(&self) -> &[String] {
        match self {
            Self::Known { tags, .. } => tags,
            Self::Owner { .. }
            | Self::Unknown
            | Self::System { .. }
            | Self::Webhook { .. }
            | Self::Agent { .. } => &[],
        }
    }

    /// Returns the name to show.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Owner { name, .. }
            | Self::Known { name, .. }
            | Self::System { name }
            | Self::Webhook { name } => Some(name),
            Self::Agent { session, .. } => Some(session.as_str()),
            Self::Unknown => None,
        }
    }
}

/// The owner, and whether this start made the row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeededOwner {
    /// The owner's entity.
    pub entity: EntityId,
    /// The owner's name; `Owner` until somebody tells.
    pub name: String,
    /// Whether it was made just now.
    pub created: bool,
}

/// Makes the owner's entity unless there is an owner, and returns who that is.
pub async fn seed_owner(identity: &Identity) -> Result<SeededOwner, StoreError> {
    let created = identity.seed_owner().await?;
    failpoint::hit("seed.owner");
    let owner = identity.owner().await?;
    let (entity, name) =
        owner.map_or_else(|| (EntityId::new(OWNER_ID), "Owner".to_owned()), |found| (found.id, found.name));
    Ok(SeededOwner { entity, name, created })
}
