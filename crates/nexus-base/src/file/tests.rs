//! What stands in the way of a write is left alone, and told.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;

#[test]
fn create_once_never_overwrites() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("note");
    assert_eq!(create_once(&path, b"first", 0o600, Durability::Crash).unwrap(), Created::New);
    assert_eq!(create_once(&path, b"second", 0o600, Durability::Crash).unwrap(), Created::AlreadyThere);
    assert_eq!(fs::read(&path).unwrap(), b"first");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn replace_keeps_the_old_file_when_the_folder_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("gone/note");
    let error = replace(&missing, b"x", 0o600, Durability::PowerLoss).unwrap_err();
    assert_eq!(error.path, missing);
}

/// Every way to write, on a path that leads through something planted; the victim keeps its words.
fn write_in_every_way(path: &Path, victim: &Path) {
    let before = (fs::read(victim).unwrap(), fs::metadata(victim).unwrap().permissions().mode());
    let _ = replace(path, b"new", 0o666, Durability::Crash);
    let _ = create_once(path, b"new", 0o666, Durability::Crash);
    let _ = rename(path, &path.with_file_name("moved"));
    for opened in
        [open_append(path, 0o600), open_update(path), create_new(path, 0o600), open_lock(path, 0o600)]
    {
        let _ = opened.map(|mut file| io::Write::write_all(&mut file, b"new"));
    }
    let _ = remove(path);
    let after = (fs::read(victim).unwrap(), fs::metadata(victim).unwrap().permissions().mode());
    assert_eq!(before, after, "{}", path.display());
}

#[test]
fn no_link_is_followed_on_any_part_of_the_way() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let victim = root.join("outside/victim");
    create_folder(&root.join("outside"), 0o700).unwrap();
    replace(&victim, b"old", 0o600, Durability::Crash).unwrap();
    create_folder(&root.join("inside"), 0o700).unwrap();

    let last = root.join("inside/last");
    symlink(&victim, &last).unwrap();
    for refused in [open_append(&last, 0o600), open_update(&last), open_read(&last)] {
        let error = refused.unwrap_err();
        assert!(error.source.to_string().contains("symbolic link"), "{}", error.source);
    }
    set_mode(&last, 0o777).unwrap_err();
    write_in_every_way(&last, &victim);

    symlink(root.join("outside"), root.join("inside/folder")).unwrap();
    let through = root.join("inside/folder/victim");
    replace(&through, b"new", 0o600, Durability::Crash).unwrap_err();
    remove(&through).unwrap_err();
    create_folder(&root.join("inside/folder/more"), 0o700).unwrap_err();
    write_in_every_way(&through, &victim);
    assert!(!root.join("outside/more").exists());
}

#[test]
fn a_second_name_is_not_written_through() {
    let folder = tempfile::tempdir().unwrap();
    let victim = folder.path().join("victim");
    replace(&victim, b"old", 0o600, Durability::Crash).unwrap();
    let second = folder.path().join("second");
    hard_link(&victim, &second).unwrap();
    for refused in [open_append(&second, 0o600), open_update(&second)] {
        assert!(refused.unwrap_err().source.to_string().contains("second name"));
    }
    replace(&second, b"new", 0o600, Durability::Crash).unwrap();
    assert_eq!(fs::read(&victim).unwrap(), b"old");
}

#[test]
fn pipes_and_devices_are_errors_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    for path in [pipe.as_path(), Path::new("/dev/null"), Path::new("/dev/zero")] {
        open_append(path, 0o600).unwrap_err();
        open_update(path).unwrap_err();
        open_lock(path, 0o600).unwrap_err();
        open_read(path).unwrap_err();
        read_text(path, 10).unwrap_err();
    }
}

#[test]
fn the_walk_agrees_with_the_kernel() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    create_folder(&root.join("a/b"), 0o700).unwrap();
    symlink("b", root.join("a/link")).unwrap();
    for (path, fine) in
        [("a/b", true), ("a/../a/b", true), ("a/link", false), ("a/link/..", false), ("no", false)]
    {
        assert_eq!(folder::walk(&root.join(path)).is_ok(), fine, "{path}");
        assert_eq!(folder::open(&root.join(path)).is_ok(), fine, "{path}");
    }
}

#[test]
fn a_place_is_resolved_as_far_as_it_exists() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    create_folder(&root.join("real"), 0o700).unwrap();
    symlink("real", root.join("link")).unwrap();
    assert_eq!(resolve(&root.join("link/new/file")), root.join("real/new/file"));
    assert_eq!(resolve(&root.join("none")), root.join("none"));
}
