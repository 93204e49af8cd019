//! Changes kept and taken back on a real folder.

use nexus_base::file::{create_folder, replace};

use super::*;

struct Place {
    folder: tempfile::TempDir,
    layout: Layout,
    changes: Changes,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(folder.path().canonicalize().unwrap());
        for path in [layout.state(), layout.home()] {
            create_folder(path, 0o700).unwrap();
        }
        let changes = Changes::at(&layout).unwrap();
        Self { folder, layout, changes }
    }

    fn author(run: &str, request: &str) -> Author {
        Author {
            run: RequestId::new(run),
            request: RequestId::new(request),
            session: "worker:1".to_owned(),
            call: ToolCallId::generate(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("home").join(name)
    }

    fn put(&self, name: &str, text: &str) {
        create_folder(self.path(name).parent().unwrap(), 0o755).unwrap();
        replace(&self.path(name), text.as_bytes(), 0o640, Durability::Crash).unwrap();
    }

    fn get(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.path(name)).ok()
    }

    /// Writes as the tool does.
    fn write(&self, run: &str, name: &str, text: &str) {
        let jail = Jail::open(&self.layout.home().canonicalize().unwrap()).unwrap();
        let author = Self::author(run, &format!("{run}-worker"));
        self.changes
            .before_write(&author, "write", (&jail, Path::new(name)), text.as_bytes(), 0o640)
            .unwrap();
        self.put(name, text);
    }

    fn command(&self, run: &str, act: impl FnOnce()) {
        let folder = self.layout.home().canonicalize().unwrap();
        let snapshot = self.changes.before_command(Self::author(run, run), &folder).unwrap();
        act();
        snapshot.after_command().unwrap();
    }

    fn undo(&self, run: Option<&str>) -> Result<Restored, UndoError> {
        undo(&self.layout, run, Force::No)
    }
}

#[test]
fn a_run_is_taken_back_and_that_too() {
    let place = Place::new();
    place.put("old", "one\n");
    place.write("first", "old", "two\n");
    place.write("first", "old", "three\n");
    place.write("first", "a/new", "x");
    // Named by a worker's request.
    let restored = place.undo(Some("first-worker")).unwrap();
    assert_eq!((restored.restored, restored.removed), (vec![place.path("old")], vec![place.path("a/new")]));
    assert_eq!((place.get("old").as_deref(), place.get("a/new")), (Some("one\n"), None));
    let mode = std::os::unix::fs::PermissionsExt::mode(&place.path("old").metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o640);
    assert!(matches!(place.undo(Some("first")), Err(UndoError::AlreadyUndone(_))));
    place.undo(Some(&restored.undo)).unwrap();
    assert_eq!((place.get("old").as_deref(), place.get("a/new").as_deref()), (Some("three\n"), Some("x")));
}

#[test]
fn what_changed_since_stops_everything_unless_forced() {
    let place = Place::new();
    place.put("a", "1\n2\n3\n");
    place.put("b", "b");
    place.write("run", "a", "1\ntwo\n3\n");
    place.write("run", "b", "B");
    place.put("a", "1\nmine\n3\n");
    let Err(UndoError::Changed(conflicts)) = place.undo(None) else { panic!("it was taken back") };
    let conflict = Conflict { path: place.path("a"), diff: "@@ from line 2 @@\n-mine\n+2".to_owned() };
    assert_eq!((conflicts, place.get("b").as_deref()), (vec![conflict], Some("B")));
    let restored = undo(&place.layout, None, Force::Yes).unwrap();
    assert_eq!((place.get("a").as_deref(), place.get("b").as_deref()), (Some("1\n2\n3\n"), Some("b")));
    // Even the overwritten work is not lost.
    place.undo(Some(&restored.undo)).unwrap();
    assert_eq!(place.get("a").as_deref(), Some("1\nmine\n3\n"));
}

#[test]
fn a_command_is_taken_back_as_far_as_its_folder_is_small() {
    let place = Place::new();
    place.put("kept", "same");
    place.put("changed", "before");
    place.put("gone/below", "deleted");
    place.command("run", || {
        place.put("changed", "after");
        std::fs::remove_dir_all(place.path("gone")).unwrap();
        place.put("made", "new");
    });
    let runs = list_runs(&place.layout).unwrap();
    assert_eq!((runs.len(), runs[0].files, runs[0].tools.join(",")), (1, 3, "bash".to_owned()));
    // Only what is needed stays kept.
    let kept = std::fs::read_dir(place.layout.state().join("undo/run/files")).unwrap().count();
    assert_eq!(kept, 2);
    let restored = place.undo(None).unwrap();
    assert_eq!((restored.restored.len(), restored.removed.len()), (2, 1));
    assert_eq!(
        (place.get("changed").as_deref(), place.get("gone/below").as_deref()),
        (Some("before"), Some("deleted"))
    );
    assert_eq!(place.get("made"), None);
    // A command that changes nothing leaves nothing.
    place.command("idle", || {});
    assert!(list_runs(&place.layout).unwrap().iter().all(|run| run.request != "idle"));
    for number in 0..2_001 {
        place.put(&format!("many/{number}"), "");
    }
    place.command("large", || place.put("changed", "unseen"));
    let runs = list_runs(&place.layout).unwrap();
    let large = runs.iter().find(|run| run.request == "large").unwrap();
    assert!(large.files == 0 && large.uncovered[0].contains("more than 2000 files"), "{large:?}");
}

#[test]
fn a_command_that_was_cut_off_is_known_and_not_overwritten_unasked() {
    let place = Place::new();
    place.put("file", "before");
    let folder = place.layout.home().canonicalize().unwrap();
    let snapshot = place.changes.before_command(Place::author("run", "run"), &folder).unwrap();
    place.put("file", "half");
    drop(snapshot);
    assert!(matches!(place.undo(None), Err(UndoError::Changed(_))));
    undo(&place.layout, None, Force::Yes).unwrap();
    assert_eq!(place.get("file").as_deref(), Some("before"));
}

#[test]
fn a_link_put_in_the_way_is_not_followed() {
    let place = Place::new();
    let outside = place.folder.path().join("outside");
    create_folder(&outside, 0o700).unwrap();
    replace(&outside.join("f"), b"untouched", 0o600, Durability::Crash).unwrap();
    place.put("d/f", "before");
    place.write("run", "d/f", "after");
    std::fs::remove_dir_all(place.path("d")).unwrap();
    std::os::unix::fs::symlink(&outside, place.path("d")).unwrap();
    assert!(undo(&place.layout, None, Force::Yes).is_err());
    assert_eq!(std::fs::read_to_string(outside.join("f")).unwrap(), "untouched");
}

#[test]
fn a_copied_workspace_does_not_reach_back() {
    let place = Place::new();
    place.put("file", "before");
    place.write("run", "file", "after");
    let copy = tempfile::tempdir().unwrap();
    let layout = Layout::new(copy.path().canonicalize().unwrap());
    for folder in ["state/undo/run/files", "home"] {
        std::fs::create_dir_all(copy.path().join(folder)).unwrap();
    }
    for entry in std::fs::read_dir(place.layout.state().join("undo/run")).unwrap() {
        let entry = entry.unwrap();
        if entry.path().is_file() {
            std::fs::copy(entry.path(), copy.path().join("state/undo/run").join(entry.file_name())).unwrap();
        }
    }
    assert!(list_runs(&layout).unwrap().is_empty());
    assert!(matches!(undo(&layout, Some("run"), Force::Yes), Err(UndoError::UnknownRun(_))));
    assert_eq!(place.get("file").as_deref(), Some("after"));
}
