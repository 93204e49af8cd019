//! What `init` says when it cannot work.

use std::os::unix::fs::PermissionsExt;

use nexus_workspace::Layout;
use nexus_workspace::init::{InitError, prepare_tree};
use nexus_workspace::trust::TrustFolder;

use crate::support::{Place, init_without_privileges, picture, put};

fn refusal(place: &Place) -> String {
    let error = prepare_tree(&place.layout, &place.trust).unwrap_err();
    let folder = place.folder.path().display().to_string();
    format!("error: {error}\nhint: {}", error.hint()).replace(&folder, "T")
}

#[test]
fn the_path_is_a_file() {
    let place = Place::empty();
    put(place.layout.root(), "a letter");
    insta::assert_snapshot!(refusal(&place), @"
    error: T/workspace is a file, not a folder
    hint: give another --workspace, or move the file away
    ");
    assert_eq!(std::fs::read_to_string(place.layout.root()).unwrap(), "a letter");
}

#[test]
fn a_parent_is_a_file() {
    let place = Place::empty();
    put(place.layout.root(), "a letter");
    let inside = Layout::new(place.layout.root().join("deep/workspace"));
    let error = prepare_tree(&inside, &place.trust).unwrap_err();
    assert!(matches!(error, InitError::NotAFolder { path } if path == place.layout.root()));
}

#[test]
fn state_is_a_file() {
    let place = Place::empty();
    place.write("state", "in the way");
    insta::assert_snapshot!(refusal(&place), @"
    error: T/workspace/state is a file, not a folder
    hint: give another --workspace, or move the file away
    ");
}

#[test]
fn the_config_is_a_folder() {
    let place = Place::initialised();
    std::fs::remove_file(place.layout.config()).unwrap();
    std::fs::create_dir(place.layout.config()).unwrap();
    insta::assert_snapshot!(refusal(&place), @"
    error: T/workspace/state/config.json is not a regular file
    hint: move it away and run `nexus init` again
    ");
}

#[cfg(target_os = "linux")]
#[test]
fn the_place_is_not_writable() {
    let place = Place::empty();
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(place.folder.path(), open).unwrap();
    let locked = place.folder.path().join("locked");
    std::fs::create_dir(&locked).unwrap();
    std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o555)).unwrap();
    let place = Place { layout: Layout::new(locked.join("workspace")), ..place };
    let printed = init_without_privileges(&place);
    let expected = format!(
        "error: {} is not writable\nhint: choose a folder you own, or fix its permissions\n",
        place.layout.root().display()
    );
    assert!(printed.contains(&expected), "{printed}");
    assert!(picture(&locked).len() == 1);
}

#[test]
fn trust_records_inside_the_workspace_are_refused() {
    let place = Place::empty();
    let place = Place { trust: TrustFolder::at(place.layout.root().join("state/trust")), ..place };
    insta::assert_snapshot!(refusal(&place), @"
    error: recording trust
    hint: set XDG_STATE_HOME to a folder outside the workspace
    ");
}
