//! What a confined command must still be able to do.

use nexus_process::{Environment, Outcome, SandboxProfile, Toolchains};

use crate::machine::{HELPER_VARIABLE, Machine, put};

/// The profile and environment of a worker whose owner has toolchains below the real home.
fn with_toolchains(machine: &Machine) -> (SandboxProfile, Environment) {
    let home = std::env::home_dir().unwrap();
    let toolchains = Toolchains::below(&home);
    let mut environment = Environment::clean().redirected(&machine.private, &machine.temp);
    for folder in toolchains.programs() {
        environment = environment.path_front(folder);
    }
    for (name, folder) in toolchains.variables() {
        environment = environment.set(name, folder).unwrap();
    }
    (machine.profile().toolchains(&toolchains), environment.set(HELPER_VARIABLE, "1").unwrap())
}

async fn work(machine: &Machine, command: &str) -> Outcome {
    let (profile, environment) = with_toolchains(machine);
    machine.bash_with(command, profile).environment(environment).run().await.unwrap()
}

#[track_caller]
fn assert_worked(outcome: &Outcome) {
    assert!(outcome.succeeded(), "{}\n{}\n{}", outcome.status, outcome.stdout.text(), outcome.stderr.text());
}

#[tokio::test]
async fn git_commit() {
    let machine = Machine::new();
    put(&machine.private.join(".gitconfig"), "[user]\n\tname = Test\n\temail = test@example.org\n");
    let outcome = work(
        &machine,
        "git init -q repository && cd repository && echo text > file && git add file && git commit -qm first && \
         git log --format=%an && git gc -q && git checkout -qb other && git status --short",
    )
    .await;
    assert_worked(&outcome);
    assert!(outcome.stdout.text().contains("Test\n"));
}

#[tokio::test]
async fn offline_cargo_build() {
    let machine = Machine::new();
    let (_, environment) = with_toolchains(&machine);
    if environment.find_program("cargo").is_none() {
        return;
    }
    let outcome = work(
        &machine,
        "cargo init -q --vcs none --name hello made && cd made && cargo build -q --offline && ./target/debug/hello",
    )
    .await;
    assert_worked(&outcome);
    assert!(outcome.stdout.text().contains("Hello, world!"));
}

#[tokio::test]
async fn python_venv() {
    let machine = Machine::new();
    let (_, environment) = with_toolchains(&machine);
    if environment.find_program("python3").is_none() {
        return;
    }
    let outcome =
        work(&machine, "python3 -m venv made && made/bin/python -c 'import json, ssl, sqlite3; print(6*7)'")
            .await;
    assert_worked(&outcome);
    assert!(outcome.stdout.text().contains("42"));
}

#[tokio::test]
async fn a_shell_with_pipes_substitution_and_temporary_files() {
    let machine = Machine::new();
    let ran = machine
        .run(
            "set -euo pipefail; t=$(mktemp); seq 1000 | sort -rn | head -3 > $t || true; diff <(echo a) <(echo a); \
             cat <<< here; wc -l < $t; chmod +x $t; mkdir -p a/b; mv a c; ln -s c d; rm -r c d; date >/dev/null",
        )
        .await
        .must_work();
    assert_eq!(ran.stdout, "here\n3\n");
}
