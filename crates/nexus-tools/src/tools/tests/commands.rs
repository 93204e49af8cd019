//! `bash` in the real sandbox.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};

use nexus_process::Network;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::Place;
use nexus_workspace::persona::IdentityRights;

use crate::tools::{FileAccess, FileTools};

#[tokio::test]
async fn a_command_works_in_the_task_folder() {
    let place = Place::new();
    let tools = place.worker();
    let output =
        place.call(&tools, "bash", json!({"command": "pwd; echo text > made; cat ../AGENTS.md"})).await;
    assert_eq!(Place::worked(&output), format!("{}/home\nthe rules\n", place.root().display()));
    assert_eq!(place.get("home/made"), "text\n");
}

#[tokio::test]
async fn a_failure_tells_code_and_both_streams() {
    let place = Place::new();
    let output =
        place.call(&place.worker(), "bash", json!({"command": "echo out; echo problem >&2; exit 3"})).await;
    assert_eq!(Place::failed(&output), "out\n[stderr]\nproblem\n[exit code 3]");
}

#[tokio::test]
async fn denials_name_the_remedy() {
    let place = Place::new();
    let tools = place.worker();
    let output = place.call(&tools, "bash", json!({"command": "cat ../state/config.json"})).await;
    assert!(Place::failed(&output).contains("[sandbox] This command may write only in"), "{}", output.text);
    assert!(!output.text.contains("SECRET"));
    let command = format!("cat {}/.ssh/id", place.owner().display());
    let output = place.call(&tools, "bash", json!({"command": command})).await;
    assert!(Place::failed(&output).contains("[sandbox]") && !output.text.contains("SECRET"));
    let output = place.call(&tools, "bash", json!({"command": "exec 3<>/dev/tcp/127.0.0.1/9"})).await;
    assert!(Place::failed(&output).contains("[sandbox] The network is off"), "{}", output.text);
    let own = std::process::id();
    let output = place.call(&tools, "bash", json!({"command": format!("kill -9 {own}")})).await;
    assert!(Place::failed(&output).contains("nexus stop"), "{}", output.text);
}

#[tokio::test]
async fn permissions_of_the_token_stay_or_are_put_back() {
    let place = Place::new();
    let output =
        place.call(&place.worker(), "bash", json!({"command": "chmod 666 ../state/config.json"})).await;
    // Refused where the sandbox covers modes, repaired where it does not.
    let said = Place::failed(&output);
    assert!(said.contains("Read-only") || said.contains("config.json were restored"), "{said}");
    let mode = place.root().join("state/config.json").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn only_onboarding_writes_identity() {
    let place = Place::new();
    let command = json!({"command": "echo new > ../state/user/USER.md"});
    Place::failed(&place.call(&place.worker(), "bash", command.clone()).await);
    assert_eq!(place.get("state/user/USER.md"), "the owner");
    Place::worked(&place.call(&place.onboarding(), "bash", command).await);
    assert_eq!(place.get("state/user/USER.md"), "new\n");
}

#[tokio::test]
async fn git_commit_works_without_the_owners_settings() {
    let place = Place::new();
    let owners = "[user]\n\tname = Ada\n\temail = ada@example.org\n";
    nexus_base::file::replace(
        &place.owner().join(".gitconfig"),
        owners.as_bytes(),
        0o600,
        nexus_base::file::Durability::Crash,
    )
    .unwrap();
    let command = "git init -q r && cd r && echo a > a && git add a && git commit -qm one && git log --format='%an %ae'";
    let output = place.call(&place.worker(), "bash", json!({"command": command})).await;
    assert_eq!(Place::worked(&output), "Ada ada@example.org\n");
}

#[tokio::test]
async fn a_timeout_is_told_with_what_was_said() {
    let place = Place::new();
    let arguments = json!({"command": "echo begun; sleep 600", "timeout_ms": 3000});
    let output = place.call(&place.worker(), "bash", arguments).await;
    assert_eq!(
        Place::failed(&output),
        "begun\n[timed out after 3000 ms; raise timeout_ms (at most 600000) or do less at once]"
    );
}

#[tokio::test]
async fn cancelling_ends_the_command() {
    let place = Place::new();
    let tools = place.worker();
    let cancel = CancellationToken::new();
    let begun = place.root().join("home/begun");
    let call = place.call_until(&tools, "bash", json!({"command": "touch begun; sleep 600"}), &cancel);
    let watch = async {
        while !begun.exists() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        cancel.cancel();
    };
    let (output, ()) = tokio::join!(call, watch);
    assert!(Place::failed(&output).contains("[cancelled after"), "{}", output.text);
}

#[tokio::test]
async fn output_is_cut_in_the_middle_and_says_so() {
    let place = Place::new();
    let command = "echo first; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo last";
    let output = place.call(&place.worker(), "bash", json!({"command": command})).await;
    let text = Place::worked(&output);
    assert!(text.len() < 1_100_000 && text.contains("first\n") && text.ends_with("last\n"));
    assert!(text.contains("bytes cut here"));
}

/// Speaks on the socket of its call; run inside the sandbox by the test below.
#[test]
fn inside() {
    let Ok(number) = std::env::var(nexus_protocol::run::RUN_SOCKET_VARIABLE) else { return };
    let mut socket = nexus_process::inherited_socket(number.parse().unwrap()).unwrap();
    socket.write_all(b"hello").unwrap();
}

#[tokio::test]
async fn every_call_has_its_own_socket_to_the_daemon() {
    let place = Place::new();
    let ends: Arc<Mutex<Vec<UnixStream>>> = Arc::default();
    let kept = Arc::clone(&ends);
    let shell = place.shell(Vec::new(), Network::Off).tool_socket(Arc::new(move |_| {
        let (ours, theirs) = UnixStream::pair()?;
        kept.lock().unwrap().push(ours);
        Ok(theirs)
    }));
    let access =
        FileAccess::worker(&place.root(), std::path::Path::new("home"), &IdentityRights::default()).unwrap();
    let tools = FileTools::worker(access, Some(shell));
    let own = std::env::current_exe().unwrap();
    let command = format!("{} --exact tools::tests::commands::inside", own.display());
    for _ in 0..2 {
        Place::worked(&place.call(&tools, "bash", json!({"command": command})).await);
    }
    let mut ends = ends.lock().unwrap();
    assert_eq!(ends.len(), 2);
    for end in ends.iter_mut() {
        let mut said = String::new();
        // Ends by itself: with the call its other side is closed everywhere.
        end.read_to_string(&mut said).unwrap();
        assert_eq!(said, "hello");
    }
}
