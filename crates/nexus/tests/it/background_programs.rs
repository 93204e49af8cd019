//! `bash {background: true}`: a program goes on after its call, belongs to the conversation, is looked at and stopped
//! from it, and ends with the daemon.

use std::time::Duration;

use nexus_testkit::until;
use serde_json::json;

use crate::scripted::Scripted;

#[test]
fn it_goes_on_is_listed_read_and_stopped() {
    let scripted = Scripted::start(|_| {});
    let command = "echo serving; while :; do date +%s%N > beat; sleep 0.05; done";
    let done = scripted.work(&json!([
        ["bash", { "command": command, "background": true }],
        ["bash", { "command": "echo other" }],
    ]));
    assert!(
        done.results[0].contains("program 1: running") && done.results[0].contains("serving"),
        "{done:?}"
    );
    let beat = || std::fs::read_to_string(scripted.workspace.path("home/beat")).unwrap_or_default();
    let first = beat();
    until("it goes on after its call", Duration::from_secs(20), || (beat() != first).then_some(()));

    // Another worker of the same conversation sees it, one of another conversation does not.
    let done = scripted.work(&json!([
        ["bash", { "background": true }],
        ["bash", { "program": 1 }],
    ]));
    assert!(
        done.results[0].contains("program 1: running") && done.results[0].contains("echo serving"),
        "{done:?}"
    );
    assert!(done.results[1].contains("serving\n"), "{done:?}");
    let elsewhere = scripted.work_in(
        "chat:other",
        &json!([
            ["bash", { "background": true }],
            ["bash", { "program": 1, "stop": true }],
        ]),
    );
    assert!(elsewhere.results[0].contains("no programs in the background"), "{elsewhere:?}");
    assert!(elsewhere.results[1].contains("there is no program 1"), "{elsewhere:?}");

    let done = scripted.work(&json!([["bash", { "program": 1, "stop": true }]]));
    assert!(done.results[0].contains("program 1: cancelled"), "{done:?}");
    let last = beat();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(beat(), last, "it is gone");
}

#[test]
fn there_are_only_so_many_and_output_is_cut() {
    let scripted = Scripted::start(|_| {});
    let mut calls: Vec<_> = (0..5)
        .map(|number| json!(["bash", { "command": format!("sleep 60{number}"), "background": true }]))
        .collect();
    calls.push(json!(["bash", { "program": 1, "stop": true }]));
    calls.push(json!(["bash", { "command": "yes | head -c 5M; echo the end", "background": true }]));
    let done = scripted.work(&json!(calls));
    assert!(done.results[3].contains("program 4: running"), "{done:?}");
    assert!(done.results[4].contains("not started: 4 programs run"), "{done:?}");
    let done = scripted.work(&json!([["bash", { "program": 5 }]]));
    assert!(
        done.results[0].contains("the end") && done.results[0].len() < 40_000,
        "{}",
        done.results[0].len()
    );
}

#[test]
fn it_ends_with_the_daemon_however_that_ends() {
    for killed in [false, true] {
        let scripted = Scripted::start(|_| {});
        let command = "setsid -f bash -c 'while :; do date +%s%N > beat; sleep 0.05; done'; sleep 600";
        scripted.work(&json!([["bash", { "command": command, "background": true }]]));
        let Scripted { workspace, daemon, .. } = scripted;
        let beat = || std::fs::read_to_string(workspace.path("home/beat")).unwrap_or_default();
        until("it runs", Duration::from_secs(20), || (!beat().is_empty()).then_some(()));
        if killed {
            daemon.kill9();
        } else {
            daemon.stop();
        }
        until("it is gone", Duration::from_secs(20), || {
            let before = beat();
            std::thread::sleep(Duration::from_millis(300));
            (beat() == before).then_some(())
        });
    }
}
