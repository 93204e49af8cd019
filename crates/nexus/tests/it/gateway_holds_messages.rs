//! Messages that a policy asks about: held on disk until the owner answers, whatever happens meanwhile.
//! And where policies send the ones they let in.

use std::time::{Duration, Instant};

use nexus_testkit::http::{self, Answer};
use nexus_testkit::{Daemon, DaemonOptions, Workspace, until};
use serde_json::{Value, json};

const WITHIN: Duration = Duration::from_secs(30);

fn call_as(daemon: &Daemon, token: &str, method: &str, params: &Value) -> Answer {
    let body = json!({ "method": method, "params": params }).to_string();
    http::post(daemon.port(), "/api/call", Some(token), &body).unwrap()
}

fn call(daemon: &Daemon, method: &str, params: &Value) -> Value {
    let answer = call_as(daemon, daemon.token(), method, params);
    assert_eq!(answer.status, 200, "{method}: {}", answer.body);
    answer.json()
}

/// A workspace whose owner is asked about everything that comes in.
fn asking() -> Workspace {
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    let policies = json!([{
        "name": "owner-full-access", "effect": "ask", "match": { "principal": { "is_user": true } },
        "permissions": { "tools": { "allow": "*" }, "credentials": "*", "data": "full" }
    }]);
    workspace.nexus(&["config", "set", "acl.policies", &policies.to_string()]).ok();
    workspace
}

fn send(daemon: &Daemon, message: &str) -> String {
    let accepted = daemon.post("/api/chat", &json!({ "message": message })).json();
    accepted["requestId"].as_str().unwrap_or_else(|| panic!("{accepted}")).to_owned()
}

fn trace(daemon: &Daemon, request: &str) -> Value {
    daemon.get(&format!("/api/requests/{request}")).json()
}

fn wait(daemon: &Daemon, request: &str, patience: Duration) -> Value {
    let timeout = patience.as_millis();
    daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs={timeout}")).json()
}

/// Waits for the question about a message, which has the request's own id.
fn question(daemon: &Daemon, request: &str) -> Value {
    until("the question to be put", WITHIN, || {
        let shown = call_as(daemon, daemon.token(), "approvals.show", &json!({ "id": request }));
        (shown.status == 200).then(|| shown.json())
    })
}

fn ended(daemon: &Daemon, request: &str) -> Value {
    until("the request to end", WITHIN, || {
        let view = trace(daemon, request);
        (view["status"] != "processing").then_some(view)
    })
}

fn answered_once(daemon: &Daemon, request: &str) {
    let waited = wait(daemon, request, WITHIN);
    assert_eq!(waited["quiescent"], true, "{waited}\n{}", daemon.log());
    assert_ne!(waited["replies"], json!([]), "{waited}\n{}", daemon.log());
    let session = trace(daemon, request)["session"].as_str().unwrap_or_default().to_owned();
    let history = daemon.get(&format!("/api/chat/history?session={session}&limit=1000")).json();
    let said = |line: &&Value| line["requestId"] == json!(request) && line["speaker"] == "user";
    let times = history["lines"].as_array().unwrap().iter().filter(said).count();
    assert_eq!(times, 1, "{history}");
}

#[test]
fn a_message_waits_for_the_owner_and_runs_or_ends_as_they_say() {
    let workspace = asking();
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let (first, second) = (send(&daemon, "Hello"), send(&daemon, "Hello again"));
    let asked = question(&daemon, &first);
    assert_eq!((&asked["status"], &asked["kind"]), (&json!("pending"), &json!("access")), "{asked}");
    assert!(asked["summary"].as_str().unwrap().contains("Hello"), "{asked}");
    let stands = asked["expiresAt"].as_i64().unwrap() - asked["createdAt"].as_i64().unwrap();
    // Two looks at the clock.
    assert!((86_400_000..86_401_000).contains(&stands), "{asked}");
    question(&daemon, &second);
    assert_eq!(wait(&daemon, &first, Duration::from_millis(50))["quiescent"], false, "it still waits");
    let held = trace(&daemon, &first);
    assert_eq!(
        (&held["status"], &held["access"]["decision"]),
        (&json!("processing"), &json!("ask")),
        "{held}"
    );

    // The second is answered first: nobody waits behind a question about somebody else's words.
    workspace.nexus(&["approvals", "approve", &second]).ok();
    answered_once(&daemon, &second);
    workspace.nexus(&["approvals", "deny", &first, "--reason", "not today"]).ok();
    let denied = ended(&daemon, &first);
    assert_eq!(denied["status"], "denied", "{denied}");
    assert!(denied.to_string().contains("the owner refused"), "{denied}");
    assert_eq!(wait(&daemon, &first, WITHIN)["replies"], json!([]));

    // A yes that stands answers the next one at once, until it is taken back.
    let third = send(&daemon, "and again");
    question(&daemon, &third);
    workspace.nexus(&["approvals", "approve", &third, "--for", "day"]).ok();
    answered_once(&daemon, &third);
    answered_once(&daemon, &send(&daemon, "covered"));
    let grant = call(&daemon, "grants.list", &json!({}))["grants"][0]["id"].clone();
    call(&daemon, "grants.revoke", &json!({ "id": grant }));

    // Whoever sent it does not answer for the owner, whatever their token may do.
    let scopes = json!({ "scopes": ["control.chat.*", "control.approvals.*"] });
    let token = call(&daemon, "tokens.create", &scopes)["token"].as_str().unwrap().to_owned();
    let mine = call_as(&daemon, &token, "chat.send", &json!({ "message": "let me in" })).json();
    let mine = mine["requestId"].as_str().unwrap();
    question(&daemon, mine);
    assert_eq!(call_as(&daemon, &token, "approvals.approve", &json!({ "id": mine })).status, 403);

    // A refusal that comes into force wins over a yes that was given before.
    let last = send(&daemon, "too late");
    question(&daemon, &last);
    let none = json!([{ "name": "nobody", "effect": "deny" }]);
    call(&daemon, "config.set", &json!({ "key": "acl.policies", "value": none }));
    workspace.nexus(&["approvals", "approve", &last]).ok();
    assert_eq!(ended(&daemon, &last)["status"], "denied");
}

#[test]
fn a_held_message_outlives_every_death() {
    let workspace = asking();
    // While it waits; right after the question was stored; right after the answer was.
    for place in ["", "s2.asked", "approval.answered"] {
        let daemon = Daemon::start(&workspace, &DaemonOptions::dying_at(place));
        let request = send(&daemon, &format!("hello {place}"));
        match place {
            "s2.asked" => {
                daemon.wait_for_end(WITHIN);
            }
            "approval.answered" => {
                question(&daemon, &request);
                assert_ne!(workspace.nexus(&["approvals", "approve", &request]).code(), Some(0));
                daemon.wait_for_end(WITHIN);
            }
            _ => {
                question(&daemon, &request);
                daemon.kill9();
            }
        }
        let daemon = Daemon::start(&workspace, &DaemonOptions::default());
        let status = question(&daemon, &request)["status"].clone();
        if place == "approval.answered" {
            assert_eq!(status, "approved", "the answer was on disk");
        } else {
            assert_eq!(status, "pending", "{place}");
            assert_eq!(wait(&daemon, &request, Duration::from_millis(50))["quiescent"], false, "{place}");
            workspace.nexus(&["approvals", "approve", &request]).ok();
        }
        answered_once(&daemon, &request);
        let listed = call(&daemon, "approvals.list", &json!({ "all": true }));
        let about = |one: &&Value| one["id"] == json!(request);
        assert_eq!(listed["approvals"].as_array().unwrap().iter().filter(about).count(), 1, "asked once");
        daemon.stop();
    }

    // A death between the refusal and its trace, and one that sleeps past the question's end.
    let daemon = Daemon::start(&workspace, &DaemonOptions::dying_at("s2.closed"));
    let (refused, forgotten) = (send(&daemon, "refused"), send(&daemon, "forgotten"));
    question(&daemon, &forgotten);
    question(&daemon, &refused);
    call_as(&daemon, daemon.token(), "approvals.deny", &json!({ "id": refused }));
    daemon.wait_for_end(WITHIN);
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio.block_on(async {
        let data = workspace.path("state/data");
        let store = nexus_store::Store::open(&data, nexus_store::OpenMode::ReadWrite).unwrap();
        let tomorrow = nexus_base::clock::Timestamp::now().plus(Duration::from_secs(25 * 3600));
        assert_eq!(store.identity().expire_permissions(tomorrow).await.unwrap().len(), 1);
        store.close().await;
    });
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    assert_eq!(ended(&daemon, &refused)["status"], "denied");
    let late = ended(&daemon, &forgotten);
    assert!(late["status"] == "denied" && late.to_string().contains("nobody agreed in time"), "{late}");
}

#[test]
fn policies_say_where_and_when_a_message_is_answered() {
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let delay = Duration::from_millis(300);
    let policies = json!([
        { "name": "to-the-desk", "effect": "allow", "match": { "principal": { "is_user": true } },
          "session": { "key": "chat:desk" },
          "modifiers": { "queue_mode": "followup", "delay_response": delay.as_millis() } }
    ]);
    call(&daemon, "config.set", &json!({ "key": "acl.policies", "value": policies }));
    let watch = Instant::now();
    let request = send(&daemon, "Hello");
    answered_once(&daemon, &request);
    assert!(watch.elapsed() >= delay, "answered after {:?}", watch.elapsed());
    assert_eq!(trace(&daemon, &request)["session"], "chat:desk", "{}", trace(&daemon, &request));
    // It took nothing away: the owner's own policy gives the permissions.
    assert!(trace(&daemon, &request).to_string().contains("owner-full-access"));

    // A persona that exists answers there; one that does not is no reason to stay silent.
    workspace.write("state/agents/ada/IDENTITY.md", "---\nname: Ada\n---\n# Ada\n");
    // Told apart by their length: the trace says how long each part of a prompt was.
    let long = format!("---\nname: Bo\n---\n{}\n", "Bo likes long walks. ".repeat(50));
    workspace.write("state/agents/bo/IDENTITY.md", &long);
    workspace.nexus(&["config", "set", "agent.id", "ada"]).ok();
    for (persona, key, is_bo) in [("bo", "chat:with-bo", true), ("nobody", "chat:with-nobody", false)] {
        let policies = json!([{ "name": "who", "effect": "allow", "match": { "principal": { "is_user": true } },
            "session": { "persona": persona, "key": key } }]);
        call(&daemon, "config.set", &json!({ "key": "acl.policies", "value": policies }));
        let request = send(&daemon, "Hello");
        answered_once(&daemon, &request);
        let prompt = workspace.nexus(&["trace", &request, "--prompt", "--json"]).json();
        let parts = prompt["parts"].as_array().unwrap();
        let identity = parts.iter().find(|part| part["name"] == "Agent Identity").unwrap();
        assert_eq!(identity["bytes"].as_u64().unwrap() > 1000, is_bo, "{key}: {prompt}");
    }

    // A delay counts from the arrival, also across a death.
    let long = json!([{ "name": "slow", "effect": "allow", "match": { "principal": { "is_user": true } },
        "modifiers": { "delay_response": 1500 } }]);
    call(&daemon, "config.set", &json!({ "key": "acl.policies", "value": long }));
    let watch = Instant::now();
    let request = send(&daemon, "Hello again");
    daemon.kill9();
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    answered_once(&daemon, &request);
    assert!(watch.elapsed() >= Duration::from_millis(1500), "{:?}", watch.elapsed());

    // What cannot be a session or a persona is refused before it is in force.
    for wrong in [json!({ "key": "worker:x" }), json!({ "key": "no label" }), json!({})] {
        let policies = json!([{ "name": "x", "effect": "allow", "session": wrong }]);
        let set = call_as(
            &daemon,
            daemon.token(),
            "config.set",
            &json!({ "key": "acl.policies", "value": policies }),
        );
        assert_eq!(set.status, 400, "{}", set.body);
    }
}
