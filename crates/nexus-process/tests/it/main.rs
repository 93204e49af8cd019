//! What a launch promises, tried on real processes. This binary is its own sandbox helper.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops here")]

mod denied;
mod environment_is_an_allow_list;
mod left_over_groups;
mod lifetime;
mod listener_is_found;
mod machine;
mod network;
mod real_work;
mod run_socket;

/// Not a test: the other tests start this binary again, with arguments that select only this.
#[test]
fn sandbox_helper() {
    if std::env::var_os(machine::HELPER_VARIABLE).is_some() {
        nexus_process::sandbox_entry();
    }
}

#[test]
fn every_file_is_declared() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let text = std::fs::read_to_string(folder.join("main.rs")).unwrap();
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let module = name.strip_suffix(".rs").unwrap();
        assert!(module == "main" || text.contains(&format!("mod {module};")), "{name} is not declared");
    }
}
