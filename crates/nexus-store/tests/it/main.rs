//! The store through its public door: files made, refused, damaged, full, killed half-way.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "helpers of tests are tests, which the lint cannot see"
)]

mod child;
mod copies;
mod disk;
mod events;
mod facts;
mod killed;
mod opening;
mod people;
mod refusals;
mod support;
mod trace;

#[test]
fn every_test_file_is_declared() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let main = std::fs::read_to_string(folder.join("main.rs")).unwrap();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let stem = name.strip_suffix(".rs").unwrap_or(&name);
        assert!(stem == "main" || main.contains(&format!("mod {stem};")), "{name} is not declared");
    }
}
