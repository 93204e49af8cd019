use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use proptest::prelude::*;

use super::*;
use crate::file::{Created, Durability};

/// A jail beside a folder that must never change.
struct Scene {
    folder: tempfile::TempDir,
    jail: Jail,
}

const RESOLVERS: [fn() -> Scene; 2] = [Scene::as_probed, Scene::walking];

impl Scene {
    fn as_probed() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("outside/deep")).unwrap();
        plant(&folder.path().join("outside/secret"), b"secret");
        let root = folder.path().join("jail");
        fs::create_dir_all(root.join("a/b")).unwrap();
        plant(&root.join("a/note"), b"note");
        symlink("../outside", root.join("link")).unwrap();
        symlink("../../outside", root.join("a/link")).unwrap();
        symlink("../outside/secret", root.join("secret")).unwrap();
        symlink(folder.path().join("outside"), root.join("absolute")).unwrap();
        symlink("a", root.join("inner")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        let jail = Jail::open(&root).unwrap();
        Self { folder, jail }
    }

    fn walking() -> Self {
        let mut scene = Self::as_probed();
        scene.jail.resolver = Resolver::Walk;
        scene
    }

    fn outside(&self) -> Vec<(std::path::PathBuf, Vec<u8>)> {
        let mut seen = Vec::new();
        let mut waiting = vec![self.folder.path().to_owned()];
        while let Some(folder) = waiting.pop() {
            for entry in fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                if path == self.jail.root() {
                    continue;
                }
                if path.is_dir() {
                    waiting.push(path.clone());
                    seen.push((path, Vec::new()));
                } else {
                    let content = fs::read(&path).unwrap();
                    seen.push((path, content));
                }
            }
        }
        seen.sort();
        seen
    }
}

fn plant(path: &Path, content: &[u8]) {
    use std::io::Write as _;
    fs::File::create(path).unwrap().write_all(content).unwrap();
}

#[test]
fn texts_that_are_no_paths_are_named() {
    let check = |text: &str, fault| match check_relative(text) {
        Err(JailError::Escape { fault: found, .. }) => assert_eq!(found, fault, "{text:?}"),
        other => panic!("{text:?}: {other:?}"),
    };
    check("", PathFault::Empty);
    check("/etc/passwd", PathFault::Absolute);
    check("..", PathFault::Parent);
    check("a/../b", PathFault::Parent);
    check("a//b", PathFault::EmptyComponent);
    check("a/", PathFault::EmptyComponent);
    check("a\0b", PathFault::Nul);
    check(&"x".repeat(256), PathFault::TooLong);
    check(&vec!["x"; 257].join("/"), PathFault::TooLong);
    check(&"x/".repeat(3000), PathFault::TooLong);
    assert_eq!(check_relative("./a/./b").unwrap().as_path(), Path::new("a/b"));
    assert!(check_relative(".").unwrap().is_root());
    assert_eq!(check_relative("..a").unwrap().as_path(), Path::new("..a"));
}

#[test]
fn links_are_refused_wherever_they_stand() {
    for scene in RESOLVERS {
        let scene = scene();
        let jail = &scene.jail;
        for path in ["link/secret", "a/link/secret", "secret", "absolute/secret", "inner/note", "loop"] {
            let error = jail.read(path, 100).unwrap_err();
            assert!(matches!(error, JailError::Symlink { .. }), "{path}: {error:?}");
        }
        for path in ["link", "inner", "a/link", "absolute", "loop"] {
            let error = jail.list(path).unwrap_err();
            assert!(matches!(error, JailError::Symlink { .. }), "{path}: {error:?}");
            let error = jail.create_dir_all(format!("{path}/x"), 0o700).unwrap_err();
            assert!(matches!(error, JailError::Symlink { .. }), "{path}: {error:?}");
            let error = jail.remove_dir_all(path).unwrap_err();
            assert!(matches!(error, JailError::Symlink { .. }), "{path}: {error:?}");
            assert_eq!(jail.metadata(path).unwrap().kind, EntryKind::Symlink);
        }
        let error = jail.write_atomic("secret", b"x", 0o600, Durability::Crash).unwrap_err();
        assert!(matches!(error, JailError::Symlink { .. }), "{error:?}");
        assert_eq!(
            jail.create_once("secret", b"x", 0o600, Durability::Crash).unwrap(),
            Created::AlreadyThere
        );
        jail.remove_file("secret").unwrap();
        assert_eq!(scene.outside().len(), 3);
    }
}

#[test]
fn files_are_written_whole_and_keep_their_mode() {
    for scene in RESOLVERS {
        let scene = scene();
        let jail = &scene.jail;
        jail.write_atomic("a/new", b"one", 0o640, Durability::PowerLoss).unwrap();
        assert_eq!(jail.metadata("a/new").unwrap().mode, 0o640);
        jail.write_atomic("a/new", b"two", 0o600, Durability::Crash).unwrap();
        assert_eq!(jail.metadata("a/new").unwrap().mode, 0o640);
        assert_eq!(jail.read("a/new", 3).unwrap(), b"two");
        assert!(matches!(jail.read("a/new", 2).unwrap_err(), JailError::TooLarge { limit: 2, .. }));
        assert!(matches!(jail.read("a", 2).unwrap_err(), JailError::NotAFile { .. }));
        assert!(jail.read("a/none", 2).unwrap_err().is_not_found());
        assert!(matches!(jail.read("a/note/x", 2).unwrap_err(), JailError::NotAFolder { .. }));
        assert!(matches!(
            jail.write_atomic("a/b", b"", 0o600, Durability::Crash).unwrap_err(),
            JailError::NotAFile { .. }
        ));
        assert!(jail.write_atomic("no/x", b"", 0o600, Durability::Crash).unwrap_err().is_not_found());
        assert_eq!(jail.create_once("a/new", b"", 0o600, Durability::Crash).unwrap(), Created::AlreadyThere);
        assert!(matches!(jail.create_new("a/new", b"", 0o600).unwrap_err(), JailError::AlreadyThere { .. }));
        assert!(matches!(jail.create_new("link/x", b"", 0o600).unwrap_err(), JailError::Symlink { .. }));
        jail.create_new("a/fresh", b"f", 0o622).unwrap();
        assert_eq!(jail.metadata("a/fresh").unwrap().mode, 0o622);
        jail.remove_file("a/fresh").unwrap();
        assert_eq!(jail.create_once("a/other", b"o", 0o600, Durability::PowerLoss).unwrap(), Created::New);
        let names: Vec<_> = jail.list("a").unwrap().into_iter().map(|entry| entry.name).collect();
        assert_eq!(names, ["b", "link", "new", "note", "other"]);
    }
}

#[test]
fn folders_are_made_with_the_mode_asked_for_and_moved_without_replacing() {
    for scene in RESOLVERS {
        let scene = scene();
        let jail = &scene.jail;
        assert_eq!(jail.create_dir_all("x/y/z", 0o777).unwrap(), Created::New);
        assert_eq!(jail.create_dir_all("x/y/z", 0o700).unwrap(), Created::AlreadyThere);
        let mode = fs::metadata(jail.root().join("x/y")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o777);
        assert!(matches!(jail.create_dir_all("a/note/x", 0o700).unwrap_err(), JailError::NotAFolder { .. }));
        assert!(matches!(jail.rename("x", "a").unwrap_err(), JailError::AlreadyThere { .. }));
        jail.rename("x", "a/x").unwrap();
        assert!(jail.rename("x", "y").unwrap_err().is_not_found());
        assert!(matches!(jail.remove_file("a/x").unwrap_err(), JailError::NotAFile { .. }));
        assert!(matches!(jail.remove_dir_all("a/note").unwrap_err(), JailError::NotAFolder { .. }));
        assert!(matches!(jail.remove_dir_all(".").unwrap_err(), JailError::Escape { .. }));
        jail.remove_dir_all("a").unwrap();
        assert!(jail.metadata("a").unwrap_err().is_not_found());
        assert_eq!(scene.outside().len(), 3);
    }
}

#[test]
fn a_tree_deeper_than_the_descriptor_limit_is_removed() {
    let scene = Scene::as_probed();
    let mut jail = scene.jail.sub("a").unwrap();
    jail.create_dir_all(vec!["d"; 200].join("/"), 0o700).unwrap();
    for _ in 0..10 {
        jail = jail.sub(vec!["d"; 200].join("/")).unwrap();
        jail.create_dir_all(vec!["d"; 200].join("/"), 0o700).unwrap();
        jail.write_atomic("d/leaf", b"x", 0o600, Durability::Crash).unwrap();
    }
    scene.jail.remove_dir_all("a").unwrap();
    assert!(scene.jail.metadata("a").unwrap_err().is_not_found());
}

#[cfg(target_os = "linux")]
#[test]
fn a_pipe_neither_hangs_nor_counts_as_a_file() {
    let scene = Scene::as_probed();
    let pipe = scene.jail.root().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    assert!(matches!(scene.jail.read("pipe", 10).unwrap_err(), JailError::NotAFile { .. }));
    assert_eq!(scene.jail.metadata("pipe").unwrap().kind, EntryKind::Other);
}

#[test]
fn a_swapped_folder_does_not_redirect_an_open_jail() {
    let scene = Scene::as_probed();
    let inner = scene.jail.sub("a").unwrap();
    fs::rename(scene.jail.root().join("a"), scene.jail.root().join("moved")).unwrap();
    symlink("../outside", scene.jail.root().join("a")).unwrap();
    inner.write_atomic("kept", b"here", 0o600, Durability::Crash).unwrap();
    assert_eq!(scene.jail.read("moved/kept", 10).unwrap(), b"here");
    assert_eq!(scene.outside().len(), 3);
}

/// Needs the right to mount, which a test run in a plain account lacks; `/proc` is a mount any
/// system has, and the root of the file system a folder that holds it.
#[cfg(target_os = "linux")]
#[test]
fn a_mount_is_a_wall_when_refused() {
    let root = Path::new("/");
    assert_ne!(fs::metadata("/proc").unwrap().dev(), fs::metadata("/").unwrap().dev());
    for resolver in [Resolver::Openat2, Resolver::Walk] {
        let mut jail = Jail::open_with(root, Mounts::Refuse).unwrap();
        jail.resolver = resolver;
        assert!(matches!(jail.read("proc/version", 4096).unwrap_err(), JailError::Mount { .. }));
        assert!(matches!(jail.list("proc").unwrap_err(), JailError::Mount { .. }));
        assert!(matches!(jail.remove_dir_all("proc").unwrap_err(), JailError::Mount { .. }));
        jail.mounts = Mounts::Follow;
        assert!(jail.read("proc/version", 4096).unwrap().starts_with(b"Linux"));
        assert!(matches!(jail.remove_dir_all("proc").unwrap_err(), JailError::Mount { .. }));
    }
}

fn any_component() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => prop::sample::select(vec![
            "a", "b", "note", "link", "secret", "absolute", "inner", "loop", "outside", "..", ".", "", "jail",
        ])
        .prop_map(str::to_owned),
        1 => "[a-c./~\\\\ \\x00-\\x1f]{0,6}",
        1 => any::<String>(),
    ]
}

fn any_path() -> impl Strategy<Value = String> {
    (any::<bool>(), prop::collection::vec(any_component(), 1..6)).prop_map(|(rooted, parts)| {
        let text = parts.join("/");
        if rooted { format!("/{text}") } else { text }
    })
}

#[derive(Debug, Clone)]
enum Operation {
    Read(String),
    List(String),
    MakeFolder(String),
    Write(String),
    Once(String),
    Rename(String, String),
    RemoveFile(String),
    RemoveFolder(String),
}

fn any_operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        any_path().prop_map(Operation::Read),
        any_path().prop_map(Operation::List),
        any_path().prop_map(Operation::MakeFolder),
        any_path().prop_map(Operation::Write),
        any_path().prop_map(Operation::Once),
        (any_path(), any_path()).prop_map(|(from, to)| Operation::Rename(from, to)),
        any_path().prop_map(Operation::RemoveFile),
        any_path().prop_map(Operation::RemoveFolder),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Whatever is asked in whatever order, nothing outside is read, made, changed or removed.
    #[test]
    fn no_sequence_of_operations_leaves_the_jail(
        operations in prop::collection::vec(any_operation(), 1..40),
        walking in any::<bool>(),
    ) {
        let scene = if walking { Scene::walking() } else { Scene::as_probed() };
        let (jail, before) = (&scene.jail, scene.outside());
        for operation in operations {
            match operation {
                Operation::Read(path) => {
                    if let Ok(content) = jail.read(&path, 1000) {
                        prop_assert_ne!(content.as_slice(), b"secret", "{}", path);
                    }
                }
                Operation::List(path) => {
                    if let Ok(entries) = jail.list(&path) {
                        prop_assert!(entries.iter().all(|entry| entry.name != "deep"), "{}", path);
                    }
                }
                Operation::MakeFolder(path) => drop(jail.create_dir_all(&path, 0o700)),
                Operation::Write(path) => drop(jail.write_atomic(&path, b"x", 0o600, Durability::Crash)),
                Operation::Once(path) => drop(jail.create_once(&path, b"x", 0o600, Durability::Crash)),
                Operation::Rename(from, to) => drop(jail.rename(&from, &to)),
                Operation::RemoveFile(path) => drop(jail.remove_file(&path)),
                Operation::RemoveFolder(path) => drop(jail.remove_dir_all(&path)),
            }
        }
        prop_assert_eq!(scene.outside(), before);
    }

    /// A path the check lets through has only plain names in it.
    #[test]
    fn checked_paths_hold_plain_names_only(path in any_path()) {
        if let Ok(checked) = check_relative(&path) {
            for name in checked.components() {
                prop_assert!(!name.is_empty() && name != "." && name != "..");
                prop_assert!(!name.as_bytes().contains(&b'/') && !name.as_bytes().contains(&0));
            }
        }
    }
}
