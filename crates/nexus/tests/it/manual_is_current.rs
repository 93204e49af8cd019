//! The committed manual pages are what the command tree says now.

use std::collections::BTreeMap;
use std::path::Path;

use nexus_testkit::Workspace;

#[path = "../../../../xtask/src/manual/page.rs"]
mod page;

#[test]
fn every_command_has_its_page_and_no_page_is_left_over() {
    let tree = Workspace::new(env!("CARGO_BIN_EXE_nexus")).nexus(&["manual"]).json();
    let wanted: BTreeMap<String, Vec<u8>> = page::pages(&tree, "nexus").unwrap().into_iter().collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/man");
    let mut wrong = Vec::new();
    for (name, page) in &wanted {
        if std::fs::read(folder.join(name)).ok().as_ref() != Some(page) {
            wrong.push(format!("{name} is not current"));
        }
    }
    for entry in std::fs::read_dir(&folder).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        if !wanted.contains_key(&name) {
            wrong.push(format!("{name} belongs to no command"));
        }
    }
    assert!(wrong.is_empty(), "run `cargo xtask manual`: {}", wrong.join(", "));
}
