//! A child sees what it was given and nothing of this process.

use nexus_process::{Confinement, Environment, Launch};

use crate::machine::Machine;

#[tokio::test]
async fn the_daemons_variables_do_not_arrive() {
    let machine = Machine::new();
    // Cargo sets these for the test process; they stand for anything a daemon may have been started with.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let ran = machine.run("env").await.must_work();
    let names: Vec<&str> =
        ran.stdout.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    assert!(names.contains(&"HOME") && names.contains(&"PATH"));
    assert!(!names.iter().any(|name| name.starts_with("CARGO_") && *name != "CARGO_HOME"), "{names:?}");
    assert!(ran.stdout.contains(&format!("HOME={}", machine.private.display())));
    assert!(ran.stdout.contains(&format!("TMPDIR={}", machine.temp.display())));
}

#[tokio::test]
async fn an_unsandboxed_program_gets_the_same_clean_environment() {
    let machine = Machine::new();
    let environment = Environment::clean().set("GIVEN", "yes").unwrap();
    let outcome = Launch::new("/usr/bin/env", machine.task(), Confinement::Unsandboxed)
        .environment(environment)
        .run()
        .await
        .unwrap();
    let text = outcome.stdout.text();
    assert!(text.contains("GIVEN=yes") && text.contains("PATH=/usr/local/sbin:"));
    assert!(!text.contains("CARGO_") && !text.contains("\nHOME="));
}

#[test]
fn loader_variables_are_refused_by_name() {
    let error = Environment::clean().set("LD_PRELOAD", "/tmp/evil.so").unwrap_err();
    assert_eq!(
        error.to_string(),
        "environment variable LD_PRELOAD is refused: it can change which code a program runs"
    );
}
