//! The committed configuration reference is what the schema says now.

use nexus_testkit::Workspace;

#[path = "../../../../xtask/src/configuration/page.rs"]
mod page;

#[test]
fn every_key_is_in_the_reference_with_its_default_and_effect() {
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    let schema = workspace.nexus(&["config", "schema"]).json();
    let page = page::page(&schema);
    let committed = include_str!("../../../../docs/configuration.md");
    assert!(page == committed, "run `cargo xtask configuration`");
    // Every key that `nexus config list` knows has a row of its own.
    let listed = workspace.nexus(&["config", "list", "--json"]).json();
    let set = listed["values"].as_array().unwrap().iter().filter_map(|row| row["key"].as_str());
    let unset = listed["unset"].as_array().unwrap().iter().filter_map(|key| key.as_str());
    let keys: Vec<&str> = set.chain(unset).collect();
    assert!(keys.len() > 50, "{listed}");
    for key in keys {
        assert!(page.contains(&format!("| `{key}` |")), "{key} has no row");
    }
}
