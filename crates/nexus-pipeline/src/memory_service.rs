//! What of memory a turn may see, and which files beside the databases may quote what was said.

use crate::sessions::AgentRequest;
use nexus_base::id::EntityId;
use nexus_identity::{DataLevel, Permissions};
use nexus_memory::{Beside, Viewer};
use nexus_store::events::conversation_key;
use nexus_store::identity::OWNER_ID;
use nexus_workspace::Layout;

/// Returns the files beside the databases that may quote what was said.
pub fn beside(layout: &Layout) -> Beside {
    Beside {
        folder: layout.state().to_owned(),
        except: vec![layout.data(), layout.config().to_owned(), layout.credentials()],
    }
}

/// Returns how much of memory a turn's tools may see: what was decided when its message was let in.
pub(crate) fn viewer(request: &AgentRequest<'_>) -> Viewer {
    match Permissions::of(&request.item.new.permissions).data {
        DataLevel::Full => Viewer::Owner,
        DataLevel::None => Viewer::Nobody,
        DataLevel::Minimal | DataLevel::Contextual => {
            let label = request.session.label.as_str();
            let entity = label.strip_prefix("dm:").map(EntityId::new);
            Viewer::Shared {
                entities: entity.filter(|entity| entity.as_str() != OWNER_ID).into_iter().collect(),
                conversations: [conversation_key("nexus", label)].into(),
            }
        }
    }
}
