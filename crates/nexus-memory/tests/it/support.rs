//! A store in a folder of its own, and memory over it.

use nexus_base::clock::Timestamp;
use nexus_base::id::{EntityId, EventId};
use nexus_memory::{Memory, RecallRequest, Recalled, Utterance, Voice};
use nexus_store::events::{Direction, NewEvent};
use nexus_store::{OpenMode, Store};

pub(crate) struct Place {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) store: Store,
    pub(crate) memory: Memory,
}

impl Place {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Store::create(folder.path()).unwrap();
        let store = Store::open(folder.path(), OpenMode::ReadWrite).unwrap();
        store.identity().seed_owner().await.unwrap();
        let memory = Memory::new(&store);
        Self { folder, store, memory }
    }

    /// Stores a message as the pipeline does.
    pub(crate) async fn said(&self, room: &str, sender: &str, text: &str, at: &str) -> EventId {
        let number = self.store.events().counts().await.unwrap().0;
        let (platform, direction) = match sender {
            "nexus" => ("nexus", Direction::Outbound),
            nexus_store::identity::OWNER_ID => ("control-plane", Direction::Inbound),
            _ => ("chat", Direction::Inbound),
        };
        let mut event = NewEvent::message(platform, &number.to_string(), sender, text);
        event.direction = direction;
        event.container_id = Some(room.to_owned());
        event.timestamp = Timestamp::parse(at).unwrap();
        let id = event.id();
        assert!(self.store.events().insert_outbound(event).await.unwrap());
        id
    }

    pub(crate) async fn recall(&self, request: RecallRequest) -> Vec<Recalled> {
        self.memory.recall(request).await.unwrap().items
    }

    pub(crate) async fn ask(&self, query: &str) -> Vec<String> {
        self.recall(RecallRequest::new(query).limit(5)).await.into_iter().map(|item| item.text).collect()
    }
}

pub(crate) fn owner_says(text: &str, event: Option<EventId>) -> Utterance {
    let at = Timestamp::parse("2026-03-18T10:00:00").unwrap();
    Utterance { text: text.to_owned(), voice: Voice::Owner, at, event }
}

pub(crate) fn bob_says(text: &str) -> Utterance {
    let voice = Voice::Person { entity: EntityId::new("bob"), name: "Bob".to_owned() };
    Utterance { voice, ..owner_says(text, None) }
}
