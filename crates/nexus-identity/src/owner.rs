//! The owner's entity, made at the first start and enriched by conversation later.

use nexus_base::failpoint;
use nexus_base::id::EntityId;
use nexus_store::identity::OWNER_ID;
use nexus_store::{Identity, StoreError};

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
