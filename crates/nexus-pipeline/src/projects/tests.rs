use std::path::Path;

use nexus_store::{OpenMode, Store};

use super::*;

struct House {
    folder: tempfile::TempDir,
    projects: Arc<Projects>,
    _store: Store,
}

fn house(idle: Duration) -> House {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    for path in ["workspace/state/data", "workspace/home", "owner", "shop/src"] {
        std::fs::create_dir_all(root.join(path)).unwrap();
    }
    let layout = Layout::new(root.join("workspace"));
    Store::create(&layout.data()).unwrap();
    let store = Store::open(&layout.data(), OpenMode::ReadWrite).unwrap();
    let memory = Memory::new(&store);
    let projects = Projects { idle, ..Projects::new(layout, root.join("owner"), memory) };
    House { folder, projects: Arc::new(projects), _store: store }
}

impl House {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }
}

#[tokio::test]
async fn a_session_ends_when_nothing_happens_and_begins_again() {
    let house = house(Duration::from_millis(50));
    let open = house.projects.open(&house.path("shop")).unwrap();
    let session = house.path("shop/.nexus/state/nexus/session.json");
    assert!(open.enter(&house.projects).await.unwrap().is_some());
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    while session.exists() {
        assert!(std::time::Instant::now() < deadline, "the session stays open");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(!house.path("shop/.nexus/state/nexus/agent-tracker.json").exists());
    assert!(open.enter(&house.projects).await.unwrap().is_some(), "a new one begins");
    assert!(session.exists());
    house.projects.close_all().await;
    assert!(!session.exists());
}

#[tokio::test]
async fn a_session_goes_on_until_it_is_closed_from_outside() {
    let house = house(IDLE);
    let open = house.projects.open(&house.path("shop")).unwrap();
    assert!(open.enter(&house.projects).await.unwrap().is_some());
    assert!(open.enter(&house.projects).await.unwrap().is_none());
    std::fs::remove_file(house.path("shop/.nexus/state/nexus/session.json")).unwrap();
    assert!(open.enter(&house.projects).await.unwrap().is_some());
}

#[test]
fn a_project_is_the_nearest_layer_below_the_owners_home() {
    let house = house(IDLE);
    let name = |path: &Path| house.projects.named(path.to_str().unwrap());
    assert_eq!(name(&house.path("shop/src")), Ok(house.path("shop/src")));
    std::fs::create_dir_all(house.path("shop/.nexus")).unwrap();
    assert_eq!(name(&house.path("shop/src")), Ok(house.path("shop")));
    // A layer around the owner's home, the workspace or its state is none.
    for path in
        [house.path("workspace"), house.path(""), house.path("workspace/state"), PathBuf::from("shop")]
    {
        assert!(name(&path).is_err(), "{path:?}");
    }
    assert_eq!(house.projects.around_home(), None);
    std::fs::create_dir_all(house.path("workspace/home/.nexus")).unwrap();
    assert_eq!(house.projects.around_home(), Some(house.path("workspace/home")));
}
