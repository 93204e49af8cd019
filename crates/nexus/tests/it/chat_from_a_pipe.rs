//! Messages from a pipe and from the command line end with a code that says whether they were answered, and
//! say that the daemon has gone and come back.

use std::time::Duration;

use nexus_testkit::model::{Gate, ModelServer, Reply};
use nexus_testkit::{Daemon, DaemonOptions, Run};
use serde_json::json;

use crate::automations_of_the_owner::onboarded;

const WITHIN: Duration = Duration::from_secs(30);

#[test]
fn the_code_tells_whether_every_message_was_answered() {
    let server = ModelServer::start();
    server.answer(|asked| {
        asked.last_text().ends_with("break").then(|| Reply::status(400, "this cannot be answered"))
    });
    server.otherwise(Reply::text("answered"));
    let workspace = onboarded(&server);
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let piped = |arguments: &[&str], lines: &str| {
        workspace.run(&Run::new(arguments).input(lines.to_owned()).within(WITHIN))
    };
    assert_eq!(piped(&["chat"], "hello\n").code(), Some(0));
    for arguments in [&["chat"][..], &["chat", "--json"]] {
        for lines in ["hello\nbreak\n", "break\nhello\n"] {
            let finished = piped(arguments, lines);
            assert_eq!(finished.code(), Some(1), "{lines:?}: {finished:?}");
            assert!(finished.stdout.contains("answered"), "the other one was: {finished:?}");
        }
    }
    assert_eq!(piped(&["up"], "break\nhello\n").code(), Some(0), "`up` has done what it is for");
    for arguments in [&["chat", "-m", "break"][..], &["chat", "--json", "-m", "break"]] {
        assert_eq!(workspace.nexus(arguments).code(), Some(1));
    }

    // Another client's message ends the turn before it has said anything.
    for arguments in [&["chat", "-m", "slowly"][..], &["chat", "--json", "-m", "slowly"]] {
        let gate = Gate::new();
        server.script([Reply::text("too late").hold(&gate)]);
        let stopped = std::thread::scope(|scope| {
            let asked = scope.spawn(|| workspace.nexus(arguments));
            gate.wait_reached();
            let said = json!({"message": "hello", "queueMode": "interrupt"});
            let accepted = daemon.post("/api/chat", &said).json();
            let request = accepted["requestId"].as_str().unwrap();
            let waited = daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=30000")).json();
            assert_eq!(waited["quiescent"], true, "{waited}");
            asked.join().unwrap()
        });
        gate.open();
        assert!(stopped.stdout.contains("stopped before any text was written"), "{stopped:?}");
        assert_eq!(stopped.code(), Some(1), "{stopped:?}");
    }
}

#[test]
fn a_daemon_that_goes_and_comes_back_is_told_of() {
    let server = ModelServer::start();
    server.otherwise(Reply::text("answered in the second life"));
    let workspace = onboarded(&server);
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let gate = Gate::new();
    server.script([Reply::text("never heard").hold(&gate)]);
    let finished = std::thread::scope(|scope| {
        let asked = scope.spawn(|| workspace.nexus(&["chat", "-m", "hello"]));
        gate.wait_reached();
        daemon.kill9();
        gate.open();
        let _again = Daemon::start(&workspace, &DaemonOptions::default());
        asked.join().unwrap()
    });
    assert_eq!(finished.code(), Some(0), "{finished:?}");
    assert!(finished.stdout.contains("answered in the second life"), "{finished:?}");
    let said = "the daemon has stopped; waiting for it to come back";
    assert_eq!(finished.stderr.matches(said).count(), 1, "{finished:?}");
}
