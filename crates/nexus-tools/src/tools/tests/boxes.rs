//! What leaves its box only with the owner's consent, and what a gate narrows.

use nexus_process::{Network, SandboxSupport};
use serde_json::json;

use super::{Case, Owner, Place};
use nexus_workspace::persona::IdentityRights;

use crate::changes::{Force, undo};
use crate::ports::Approval;
use crate::tools::{Artifacts, FileAccess, FileTools, Unconfined};

fn refused() -> Approval {
    Approval::Refused { reason: "the owner said no".to_owned() }
}

fn with_shell(place: &Place, shell: crate::tools::Shell) -> FileTools {
    let access =
        FileAccess::worker(&place.root(), std::path::Path::new("home"), &IdentityRights::default()).unwrap();
    FileTools::worker(access, Some(shell))
}

/// A listener, and a command that connects to it.
fn connecting() -> (std::net::TcpListener, serde_json::Value) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, json!({"command": format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected")}))
}

#[tokio::test]
async fn the_network_is_one_commands_and_the_owners_to_give() {
    let place = Place::new();
    let tools = place.worker();
    let (_listener, mut command) = connecting();
    let done = place.call_in(&tools, "bash", command.clone(), &Case::default()).await;
    assert!(Place::failed(&done.output).contains("\"network\": true"), "{}", done.output.text);
    command["network"] = json!(true);
    let case = Case::default();
    let done = place.call_in(&tools, "bash", command.clone(), &case).await;
    assert!(Place::failed(&done.output).contains("the owner said no"), "{}", done.output.text);
    let case = Case { owner: Owner { answer: Approval::Granted, ..case.owner }, ..case };
    let done = place.call_in(&tools, "bash", command.clone(), &case).await;
    assert_eq!(Place::worked(&done.output), "connected\n");
    // What a command with network says may be anybody's words.
    assert!(done.untrusted.is_some());
    let asked = case.asked();
    assert!(asked.iter().all(|ask| ask.runs_command && ask.tool == "bash"));
    let text = command["command"].as_str().unwrap();
    let folder = place.root().join("home");
    assert_eq!(asked[0].summary, format!("run in {} with network access:\n{text}", folder.display()));
    // Another command, or the same elsewhere, is another question.
    assert_eq!(asked[0].resources, asked[1].resources);
    let other = json!({"command": format!("{text} "), "network": true});
    place.call_in(&tools, "bash", other, &case).await;
    assert_ne!(case.asked()[2].resources, asked[0].resources);
}

#[tokio::test]
async fn a_policy_that_opens_the_network_ends_with_taint() {
    let place = Place::new();
    let tools = with_shell(&place, place.shell(Vec::new(), Network::On));
    let (_listener, command) = connecting();
    let done = place.call_in(&tools, "bash", command.clone(), &Case::default()).await;
    assert_eq!(Place::worked(&done.output), "connected\n");
    // Under such a policy only what plainly fetches counts as reading somebody's words.
    assert_eq!(done.untrusted, None);
    let done = place.call_in(&tools, "bash", json!({"command": "echo curl"}), &Case::default()).await;
    assert!(done.untrusted.is_some());
    let done = place.call_in(&tools, "bash", command.clone(), &Case::tainted(refused())).await;
    assert!(Place::failed(&done.output).contains("[sandbox] The network is off"), "{}", done.output.text);
    let shadow = Case::default();
    shadow.run.taint.shadow("an earlier page");
    Place::failed(&place.call_in(&tools, "bash", command, &shadow).await.output);
}

#[tokio::test]
async fn a_tainted_run_changes_its_task_folder_and_nothing_else_unasked() {
    let place = Place::new();
    let write = |path: &str| json!({"path": path, "content": "new"});
    for (tools, folder) in [(place.manager(), "state/workspace/manager/x"), (place.onboarding(), "home/x")] {
        let case = Case::tainted(refused());
        Place::worked(&place.call_in(&tools, "write", write(folder), &case).await.output);
        let done = place.call_in(&tools, "write", write("state/user/USER.md"), &case).await;
        assert!(Place::failed(&done.output).contains("is not a trusted source"), "{}", done.output.text);
        assert_eq!(place.get("state/user/USER.md"), "the owner");
        assert_eq!(case.asked().len(), 1);
        // What is closed anyway is not asked about.
        Place::failed(&place.call_in(&tools, "write", write("AGENTS.md"), &case).await.output);
        assert_eq!(case.asked().len(), 1);
    }
    let case = Case::tainted(Approval::Granted);
    Place::worked(&place.call_in(&place.manager(), "write", write("state/user/USER.md"), &case).await.output);
    assert_eq!(place.get("state/user/USER.md"), "new");
    // What is asked is all that is written, and a question too long to be read is not put.
    assert_eq!(case.asked()[0].summary, "write state/user/USER.md:\nnew");
    let edit = json!({"path": "state/user/USER.md", "old": "new", "new": "a\nb", "replace_all": true});
    Place::worked(&place.call_in(&place.manager(), "edit", edit, &case).await.output);
    assert_eq!(case.asked()[1].summary, "edit state/user/USER.md, wherever it occurs:\n- new\n+ a\n+ b");
    let long = json!({"path": "state/user/USER.md", "content": "x".repeat(20_000)});
    let done = place.call_in(&place.manager(), "write", long, &case).await;
    assert!(Place::failed(&done.output).contains("too many to review"), "{}", done.output.text);
    assert_eq!(case.asked().len(), 2);
    place.put("state/user/USER.md", "the owner");
    let command = json!({"command": "echo bad > ../state/user/USER.md"});
    Place::failed(&place.call_in(&place.onboarding(), "bash", command, &case).await.output);
    assert_eq!(place.get("state/user/USER.md"), "the owner");
}

#[tokio::test]
async fn a_gate_makes_commands_look_only() {
    let place = Place::new();
    let tools = place.worker();
    place.put("home/file", "content\n");
    let case = Case { look_only: Some("the plan is not accepted yet".to_owned()), ..Case::default() };
    let done =
        place.call_in(&tools, "bash", json!({"command": "cat file; echo $TMPDIR > $TMPDIR/x"}), &case).await;
    assert_eq!(Place::worked(&done.output), "content\n");
    for command in ["echo x > file", "touch new", "rm file", "mkdir d"] {
        let done = place.call_in(&tools, "bash", json!({ "command": command }), &case).await;
        assert!(Place::failed(&done.output).contains("the plan is not accepted yet"), "{}", done.output.text);
    }
    assert_eq!(place.get("home/file"), "content\n");
    assert!(!place.root().join("home/new").exists());
}

#[tokio::test]
async fn without_a_sandbox_every_command_is_asked_for() {
    let place = Place::new();
    let none = SandboxSupport {
        landlock_abi: None,
        seccomp: true,
        gaps: vec!["the kernel has no Landlock".to_owned()],
    };
    let shell = || place.shell(Vec::new(), Network::Off).on_a_machine_with(none.clone());
    let tools = with_shell(&place, shell());
    let command = json!({"command": "touch made"});
    let case = Case::default();
    let done = place.call_in(&tools, "bash", command.clone(), &case).await;
    assert!(Place::failed(&done.output).contains("no Landlock"), "{}", done.output.text);
    assert!(!place.root().join("home/made").exists());
    assert!(case.asked()[0].summary.contains("WITHOUT a sandbox"));
    let case = Case { owner: Owner { answer: Approval::Granted, ..case.owner }, ..case };
    Place::worked(&place.call_in(&tools, "bash", command.clone(), &case).await.output);
    assert!(place.root().join("home/made").exists());
    let allowed = with_shell(&place, shell().unconfined(Unconfined::AllowedByOwner));
    // What a project's gate leaves to the sandbox is refused, whatever the owner would say.
    std::fs::remove_file(place.root().join("home/made")).unwrap();
    for tools in [&tools, &allowed] {
        let case =
            Case { look_only: Some("No task covers it.".to_owned()), ..Case::tainted(Approval::Granted) };
        let done = place.call_in(tools, "bash", command.clone(), &case).await;
        let told = Place::failed(&done.output);
        assert!(told.contains("No task covers it.") && told.contains("no Landlock"), "{told}");
        assert!(case.asked().is_empty() && !place.root().join("home/made").exists());
    }
    let case = Case::default();
    Place::worked(&place.call_in(&allowed, "bash", command, &case).await.output);
    assert!(case.asked().is_empty());
}

#[tokio::test]
async fn what_tools_change_can_be_taken_back() {
    let place = Place::new();
    let layout = nexus_workspace::Layout::new(place.root());
    let tools = place.worker().changes(crate::changes::Changes::at(&layout).unwrap());
    place.put("home/a", "one\n");
    place.put("home/b", "b\n");
    let case = Case::default();
    let edit = json!({"path": "a", "old": "one", "new": "two"});
    Place::worked(&place.call_in(&tools, "edit", edit, &case).await.output);
    Place::worked(
        &place.call_in(&tools, "write", json!({"path": "made/c", "content": "c"}), &case).await.output,
    );
    let command = json!({"command": "echo more >> a; rm b; echo d > d"});
    Place::worked(&place.call_in(&tools, "bash", command, &case).await.output);
    let restored = undo(&layout, Some("root"), Force::No).unwrap();
    assert_eq!((restored.restored.len(), restored.removed.len()), (2, 2), "{restored:?}");
    assert_eq!((place.get("home/a"), place.get("home/b")), ("one\n".to_owned(), "b\n".to_owned()));
    assert!(!place.root().join("home/made/c").exists() && !place.root().join("home/d").exists());
}

#[tokio::test]
async fn kept_results_are_read_by_name_and_stay_marked() {
    let place = Place::new();
    let layout = nexus_workspace::Layout::new(place.root());
    let artifacts = std::sync::Arc::new(Artifacts::at(&layout).unwrap());
    let tools = place.worker().artifacts(std::sync::Arc::clone(&artifacts));
    let text: String = (1..=5000).map(|number| format!("line {number}\n")).collect();
    for untrusted in [false, true] {
        let id = artifacts.keep(&text, untrusted).unwrap();
        let read = json!({"path": format!("artifact:{id}"), "offset": 4000, "limit": 1});
        let done = place.call_in(&tools, "read", read, &Case::default()).await;
        assert!(Place::worked(&done.output).starts_with("  4000\tline 4000\n"));
        assert_eq!(done.untrusted.is_some(), untrusted);
    }
    let done =
        place.call_in(&tools, "read", json!({"path": "artifact:../config.json"}), &Case::default()).await;
    assert!(Place::failed(&done.output).contains("is not the name of a stored result"));
    // The folder itself stays closed.
    Place::failed(
        &place.call_in(&tools, "list", json!({"path": "state/artifacts"}), &Case::default()).await.output,
    );
}
