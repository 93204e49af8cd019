//! `kill -9` at every failpoint of the store; the next start completes the work.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use nexus_base::id::{EventId, RequestId};
use nexus_store::events::{InboxOutcome, NewEvent, Received};
use nexus_store::{DatabaseName, OpenMode, Store};

use crate::support::{Made, child, told};

fn kill_at(task: &str, folder: &Path, place: &str) {
    let output = child(task, folder, &[], Some(place));
    assert_eq!(output.status.signal(), Some(9), "{place}: {}", told(&output));
}

fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())
        })
        .collect()
}

#[test]
fn a_killed_making_is_completed_by_the_next() {
    for name in DatabaseName::ALL {
        for place in [format!("store.migrate.{name}.1"), format!("store.create.{name}")] {
            for pass in [1, 2] {
                let folder = tempfile::tempdir().unwrap();
                kill_at("create", folder.path(), &format!("{place}@{pass}"));
                Store::create(folder.path()).unwrap();
                let made = contents(folder.path());
                assert_eq!(made.len(), 6, "{place}@{pass} left {:?}", made.keys());
                Store::create(folder.path()).unwrap();
                assert!(contents(folder.path()) == made, "{place}@{pass}: a second making changed a file");
                Store::open(folder.path(), OpenMode::ReadWrite).unwrap().close_blocking();
            }
        }
    }
}

#[tokio::test]
async fn an_event_is_stored_with_its_promise_or_not_at_all() {
    for (place, stored) in [("s1.before_commit", false), ("s1.committed", true)] {
        let made = Made::new();
        kill_at("receive", made.path(), place);
        // What another process sees before anybody has cleaned up.
        let reader = Store::open(made.path(), OpenMode::ReadOnly).unwrap();
        assert_eq!(reader.events().counts().await.unwrap(), if stored { (1, 1) } else { (0, 0) }, "{place}");
        reader.close().await;
        let store = made.open();
        let accepted = store.events().accepted(10).await.unwrap();
        let ids: Vec<&EventId> = accepted.iter().map(|accepted| &accepted.event.id).collect();
        let expected = EventId::new("cli:1");
        assert_eq!(ids, if stored { vec![&expected] } else { vec![] }, "{place}");
        // The sender saw no acknowledgement and sends again.
        let event = NewEvent::message("cli", "1", "me", "hello");
        let again = store.events().receive(event, RequestId::new("r2"), "hash".to_owned()).await.unwrap();
        let expected = if stored {
            Received::Duplicate {
                request_id: RequestId::new("r1"),
                same_body: true,
                outcome: InboxOutcome::Accepted,
            }
        } else {
            Received::New
        };
        assert_eq!(again, expected, "{place}");
        store.close().await;
    }
}
