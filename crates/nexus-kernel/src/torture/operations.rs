//! Create, list and destroy beyond the ordinary: again, missing, many, at once, with odd payloads.

use serde_json::Value;

use super::arena::{
    self, Arena, OPERATOR, Then, answered, complain, control, create, destroy, ensure, head, refused, shoot,
};
use super::{Case, Check};
use crate::client::{Authority, Client};
use crate::code;
use crate::frame::{self, MAX_REPLY_PAYLOAD, command};
use crate::hooks::Hooks;

pub(super) const CASES: &[Case] = &[
    Case { name: "create of an existing workspace: created false, manifest untouched", run: create_again },
    Case { name: "destroy of a missing workspace: destroyed false", run: destroy_missing },
    Case { name: "reserved names: 102, never listed", run: reserved },
    Case { name: "33 and more different ws_ids", run: many_ids },
    Case { name: "unknown method and command: 500, connection kept", run: unknown },
    Case { name: "bad JSON and duplicate keys: 500, connection kept", run: bad_json },
    Case { name: "list is sorted and filtered", run: list_filtered },
    Case { name: "10,000 workspaces: list pages within 8,191 bytes", run: ten_thousand },
    Case { name: "two clients create and destroy one id at once", run: contention },
    Case { name: "call form keeps its words and adds the number", run: call_form },
    Case { name: "call form needs the same authority", run: call_authority },
    Case { name: "create with init; a failed init leaves nothing", run: init_hook },
    Case { name: "destroy refuses while in use, unless asked to stop the daemon", run: in_use },
    Case { name: "status reports the state of the kernel", run: status },
];

fn create_again(arena: &mut Arena) -> Check {
    let mut client = arena.ready()?;
    answered(&mut client, "t", &create("twice"), r#"{"status":"ok","ws_id":"twice","created":true}"#)?;
    let path = arena.inside("twice/manifest.json");
    let before = std::fs::metadata(&path).and_then(|found| found.modified()).map_err(complain)?;
    let bytes = std::fs::read(&path).map_err(complain)?;
    answered(&mut client, "t", &create("twice"), r#"{"status":"ok","ws_id":"twice","created":false}"#)?;
    let after = std::fs::metadata(&path).and_then(|found| found.modified()).map_err(complain)?;
    let same = before == after && std::fs::read(&path).map_err(complain)? == bytes;
    ensure(same, || "the manifest was written again".to_owned())
}

fn destroy_missing(arena: &mut Arena) -> Check {
    let gone = r#"{"status":"ok","ws_id":"none","destroyed":false,"note":"already_absent"}"#;
    let mut client = arena.ready()?;
    answered(&mut client, "t-none", &destroy("none"), gone)?;
    answered(&mut client, "t-none", &destroy("none"), gone)?;
    arena.logged(
        &arena.run_dir.kernel_log(),
        "t-none",
        &[("ATTEMPT", 0), ("OK", 0), ("ATTEMPT", 0), ("OK", 0)],
    )
}

fn reserved(arena: &mut Arena) -> Check {
    std::fs::create_dir(arena.inside("engine")).map_err(complain)?;
    std::fs::create_dir(arena.inside("system")).map_err(complain)?;
    let mut client = arena.ready()?;
    for name in crate::ws_id::RESERVED {
        for payload in [create(name), destroy(name)] {
            let bytes = control("t-reserved", OPERATOR, &payload);
            refused(&mut client, &bytes, code::RESERVED_WS_ID, Then::Open)?;
        }
        ensure(arena.inside(name).is_dir(), || format!("{name} is gone"))?;
    }
    answered(&mut client, "t", r#"{"method":"ws_list"}"#, r#"{"status":"ok","count":0,"workspaces":[]}"#)?;
    let lines = arena.lines(&arena.run_dir.kernel_log(), "t-reserved")?;
    ensure(lines.len() == 8 && lines.iter().all(|line| line["code"] == 102), || format!("{lines:?}"))
}

fn many_ids(arena: &mut Arena) -> Check {
    let mut client = arena.ready()?;
    for number in 0..100 {
        let mut envelope = head(command::PING, "t-ids", 0);
        let name = format!("ws-{number}");
        envelope.ws_id = [0; frame::ID_FIELD_BYTES];
        envelope.ws_id[..name.len()].copy_from_slice(name.as_bytes());
        let reply = shoot(&mut client, &frame::frame(&envelope, b""))?;
        ensure(reply.payload == br#"{"status":"pong"}"#, || arena::text(&reply))?;
    }
    arena.nothing_made()
}

fn unknown(arena: &mut Arena) -> Check {
    let mut client = arena.ready()?;
    for method in ["ws_explode", "", "WS_CREATE", "ws_create "] {
        let payload = format!(r#"{{"method":"{method}","params":{{}}}}"#);
        refused(&mut client, &control("t-m", OPERATOR, &payload), code::UNKNOWN_METHOD, Then::Open)?;
    }
    for number in [0x7777, 0x0201, 0x0301, 0x0302, 0] {
        let reply = shoot(&mut client, &frame::frame(&head(number, "t-cmd", 0), b""))?;
        ensure(reply.is(code::UNKNOWN_COMMAND), || arena::text(&reply))?;
    }
    // The privileged class is guarded before it is unknown.
    let mut envelope = head(0xF103, "t-priv", 0);
    envelope.arming = 0;
    refused(&mut client, &frame::frame(&envelope, b""), code::ARMING_REQUIRED, Then::Open)
}

fn bad_json(arena: &mut Arena) -> Check {
    let mut client = arena.ready()?;
    let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    let deep = format!(r#"{{"method":"ws_list","params":{{"after":{deep}}}}}"#);
    for payload in [
        "",
        "{nope",
        "null",
        "[]",
        "{}",
        r#"{"method":7}"#,
        r#"{"method":"ws_create","params":[]}"#,
        r#"{"method":"ws_create","params":{}}"#,
        r#"{"method":"ws_create","params":{"ws_id":7}}"#,
        r#"{"method":"ws_create","params":{"ws_id":"a","ws_id":"b"}}"#,
        r#"{"method":"ws_list","method":"ws_create","params":{"ws_id":"dup"}}"#,
        r#"{"method":"ws_create","params":{"ws_id":"a","force":true}}"#,
        r#"{"method":"ws_create","params":{"ws_id":"a"},"role":"system"}"#,
        r#"{"method":"ws_create","params":{"ws_id":"a"}} trailing"#,
        r#"{"method":"ws_create","params":{"ws_id":"a","init":"yes"}}"#,
        r#"{"method":"ws_list","params":{"limit":0}}"#,
        r#"{"method":"ws_list","params":{"limit":-1}}"#,
        &deep,
    ] {
        let bytes = control("t-json", OPERATOR, payload);
        refused(&mut client, &bytes, code::BAD_REQUEST, Then::Open)
            .map_err(|error| format!("{}: {error}", &payload[..payload.len().min(80)]))?;
    }
    let mut bytes = control("t-utf8", OPERATOR, r#"{"method":"ws_create","params":{"ws_id":"aXb"}}"#);
    let at = bytes.iter().position(|&byte| byte == b'X').ok_or("no X")?;
    bytes[at] = 0xff;
    refused(&mut client, &bytes, code::BAD_REQUEST, Then::Open)?;
    arena.nothing_made()
}

fn list_filtered(arena: &mut Arena) -> Check {
    let mut client = arena.ready()?;
    for id in ["b", "a", "Z", "_x", "-y", "a-b"] {
        answered(
            &mut client,
            "t",
            &create(id),
            &format!(r#"{{"status":"ok","ws_id":"{id}","created":true}}"#),
        )?;
    }
    std::fs::create_dir(arena.inside("not.legal")).map_err(complain)?;
    std::fs::create_dir(arena.inside(&"x".repeat(36))).map_err(complain)?;
    std::fs::File::create(arena.inside("plain")).map_err(complain)?;
    std::os::unix::fs::symlink("a", arena.inside("link")).map_err(complain)?;
    std::fs::create_dir(arena.inside("made-by-hand")).map_err(complain)?;
    let expected = r#"{"status":"ok","count":7,"workspaces":["-y","Z","_x","a","a-b","b","made-by-hand"]}"#;
    answered(&mut client, "t", r#"{"method":"ws_list","params":{}}"#, expected)?;
    let page = r#"{"method":"ws_list","params":{"after":"Z","limit":2}}"#;
    answered(&mut client, "t", page, r#"{"status":"ok","count":2,"workspaces":["_x","a"],"truncated":true}"#)
}

fn ten_thousand(arena: &mut Arena) -> Check {
    let mut client = arena.ready()?;
    let id = |number: usize| format!("workspace-with-a-long-name-{number:08}");
    let mut bytes = Vec::new();
    for batch in 0..100 {
        bytes.clear();
        for number in batch * 100..(batch + 1) * 100 {
            bytes.extend(control("t-many", OPERATOR, &create(&id(number))));
        }
        client.send(&bytes).map_err(complain)?;
        for _ in 0..100 {
            let reply = client.receive().map_err(complain)?;
            ensure(reply.json()["created"] == true, || arena::text(&reply))?;
        }
    }
    let reply = shoot(&mut client, &control("t-page", OPERATOR, r#"{"method":"ws_list","params":{}}"#))?;
    let page = reply.json();
    ensure(reply.payload.len() <= MAX_REPLY_PAYLOAD, || format!("{} bytes", reply.payload.len()))?;
    ensure(page["truncated"] == true && page["count"].as_u64() >= Some(180), || page["count"].to_string())?;
    let call = r#"{"command_id":"yai.kernel.ws_list","argv":[]}"#;
    let reply = shoot(&mut client, &call_frame("t-call", OPERATOR, call))?;
    ensure(reply.payload.len() <= MAX_REPLY_PAYLOAD, || format!("{} bytes", reply.payload.len()))?;
    let names = client.list_all(Authority::USER).map_err(complain)?;
    let expected: Vec<String> = (0..10_000).map(id).collect();
    ensure(names == expected, || format!("{} names, or out of order", names.len()))?;
    for name in names {
        let reply = shoot(&mut client, &control("t-many", OPERATOR, &destroy(&name)))?;
        ensure(reply.json()["destroyed"] == true, || arena::text(&reply))?;
    }
    arena.nothing_made()
}

fn contention(arena: &mut Arena) -> Check {
    let outcomes: Vec<Result<(u64, u64), String>> = std::thread::scope(|scope| {
        let workers: Vec<_> =
            (0..4).map(|_| arena.ready()).map(|client| scope.spawn(|| contend(client?))).collect();
        workers.into_iter().map(|worker| worker.join().unwrap_or_else(|_| Err("panicked".into()))).collect()
    });
    let (mut created, mut destroyed) = (0, 0);
    for outcome in outcomes {
        let (more_created, more_destroyed) = outcome?;
        created += more_created;
        destroyed += more_destroyed;
    }
    let left = arena.leavings()?;
    // Each creation was answered once with true, each removal too: the difference is what stands.
    ensure(created - destroyed == left.len() as u64, || {
        format!("{created} made, {destroyed} gone, {left:?}")
    })?;
    ensure(left.iter().all(|name| name == "shared"), || format!("left behind: {left:?}"))
}

fn contend(mut client: Client) -> Result<(u64, u64), String> {
    let (mut created, mut destroyed) = (0, 0);
    for _ in 0..100 {
        let reply = shoot(&mut client, &control("t-race", OPERATOR, &create("shared")))?;
        ensure(reply.json()["status"] == "ok", || arena::text(&reply))?;
        created += u64::from(reply.json()["created"] == true);
        let reply = shoot(&mut client, &control("t-race", OPERATOR, &destroy("shared")))?;
        ensure(reply.json()["status"] == "ok", || arena::text(&reply))?;
        destroyed += u64::from(reply.json()["destroyed"] == true);
    }
    Ok((created, destroyed))
}

fn call_frame(trace: &str, authority: (u16, u8), payload: &str) -> Vec<u8> {
    let mut bytes = control(trace, authority, payload);
    bytes[80..84].copy_from_slice(&command::CONTROL_CALL.to_le_bytes());
    bytes
}

fn call_form(arena: &mut Arena) -> Check {
    let mut client = arena.ready()?;
    let mut call = |command_id: &str, argv: &[&str]| -> Result<Value, String> {
        let argv = Value::from(argv.to_vec());
        let body = format!(r#"{{"type":"yai.control.call.v1","command_id":"{command_id}","argv":{argv}}}"#);
        let reply = shoot(&mut client, &call_frame("t-call", OPERATOR, &body))?;
        Ok(reply.json())
    };
    for (command_id, argv, code, reason, number) in [
        ("yai.kernel.ws", &["create", "--ws-id", "called"][..], "OK", "workspace_created", 0),
        ("yai.kernel.ws_status", &["--ws", "called"], "OK", "workspace_status", 0),
        ("yai.kernel.ws_list", &[], "OK", "workspace_list", 0),
        ("yai.kernel.ws", &["reset", "--ws-id", "called"], "OK", "workspace_reset", 0),
        ("yai.kernel.ws", &["destroy", "--ws-id", "called"], "OK", "workspace_destroyed", 0),
        ("yai.kernel.ws", &["destroy", "--ws-id", "called"], "OK", "workspace_destroyed", 0),
        ("yai.kernel.ws", &["create", "--ws-id", "../x"], "BAD_ARGS", "bad_ws_id", 102),
        ("yai.kernel.ws", &["create", "--ws-id", "engine"], "BAD_ARGS", "reserved_ws_id", 102),
        ("yai.kernel.ws", &["frob"], "BAD_ARGS", "unsupported_workspace_action", 500),
        ("yai.kernel.ws", &[], "BAD_ARGS", "unsupported_workspace_action", 500),
        ("yai.kernel.ws", &["create", "--nope"], "BAD_ARGS", "bad_request", 500),
        // No target named: the envelope's, which is the control workspace here.
        ("yai.kernel.ws", &["create"], "BAD_ARGS", "reserved_ws_id", 102),
        ("yai.engine.start", &[], "NOT_IMPLEMENTED", "unknown_method", 500),
    ] {
        let answer = call(command_id, argv)?;
        let matches = answer["code"] == code
            && answer["reason"] == reason
            && answer["error_code"] == number
            && answer["type"] == "yai.exec.reply.v1"
            && answer["trace_id"] == "t-call"
            && answer["command_id"] == command_id;
        ensure(matches, || format!("{command_id} {argv:?}: {answer}"))?;
    }
    arena.nothing_made()
}

fn call_authority(arena: &mut Arena) -> Check {
    let mut client = arena.ready()?;
    let body = r#"{"command_id":"yai.kernel.ws","argv":["create","--ws-id","called"]}"#;
    for (authority, number) in [((1, 1), 202), ((0, 0), 202), ((2, 0), 201)] {
        let reply = shoot(&mut client, &call_frame("t-deny", authority, body))?;
        let answer = reply.json();
        ensure(answer["status"] == "error" && answer["error_code"] == number, || arena::text(&reply))?;
    }
    arena.nothing_made()?;
    let list = r#"{"command_id":"yai.kernel.ws_list","argv":[]}"#;
    let reply = shoot(&mut client, &call_frame("t-list", (0, 0), list))?;
    ensure(reply.json()["data"]["count"] == 0, || arena::text(&reply))
}

fn init_hook(arena: &mut Arena) -> Check {
    let payload = |id: &str| format!(r#"{{"method":"ws_create","params":{{"ws_id":"{id}","init":true}}}}"#);
    let bytes = control("t-init", OPERATOR, &payload("house"));
    refused(&mut arena.ready()?, &bytes, code::INIT_UNAVAILABLE, Then::Open)?;
    arena.nothing_made()?;
    arena.restart(|options| {
        options.hooks = Hooks {
            init: Some(Box::new(|path| {
                std::fs::create_dir(path.join("state")).map_err(complain)?;
                if path.ends_with("bad") { Err("no".to_owned()) } else { Ok(()) }
            })),
            ..Hooks::default()
        };
    })?;
    let mut client = arena.ready()?;
    let bytes = control("t-fail", OPERATOR, &payload("bad"));
    refused(&mut client, &bytes, code::INIT_FAILED, Then::Open)?;
    arena.nothing_made()?;
    let created = r#"{"status":"ok","ws_id":"house","created":true}"#;
    answered(&mut client, "t-ok", &payload("house"), created)?;
    // A workspace that stands already gets one too, and a failure takes nothing away from it.
    answered(&mut client, "t", &create("later"), r#"{"status":"ok","ws_id":"later","created":true}"#)?;
    let late = r#"{"status":"ok","ws_id":"later","created":false}"#;
    answered(&mut client, "t", &payload("later"), late)?;
    ensure(arena.inside("later/state").is_dir(), || "init did not run in an existing one".to_owned())?;
    refused(&mut client, &control("t", OPERATOR, &payload("later")), code::INIT_FAILED, Then::Open)?;
    ensure(arena.inside("later/manifest.json").is_file(), || "an existing one was taken away".to_owned())?;
    let made = arena.inside("house/state").is_dir() && arena.inside("house/manifest.json").is_file();
    ensure(made, || "init did not run inside".to_owned())
}

fn in_use(arena: &mut Arena) -> Check {
    arena.restart(|options| {
        options.hooks = Hooks {
            in_use: Some(Box::new(|path| path.join("busy").exists())),
            stop: Some(Box::new(|path| std::fs::remove_file(path.join("busy")).map_err(complain))),
            ..Hooks::default()
        };
    })?;
    let mut client = arena.ready()?;
    answered(&mut client, "t", &create("live"), r#"{"status":"ok","ws_id":"live","created":true}"#)?;
    std::fs::File::create(arena.inside("live/busy")).map_err(complain)?;
    let bytes = control("t-use", OPERATOR, &destroy("live"));
    refused(&mut client, &bytes, code::WORKSPACE_IN_USE, Then::Open)?;
    ensure(arena.inside("live/busy").exists(), || "it was touched".to_owned())?;
    let stop = r#"{"method":"ws_destroy","params":{"ws_id":"live","stop":true}}"#;
    answered(&mut client, "t", stop, r#"{"status":"ok","ws_id":"live","destroyed":true}"#)?;
    arena.nothing_made()
}

fn status(arena: &mut Arena) -> Check {
    let mut client = arena.ready()?;
    answered(&mut client, "t", &create("one"), r#"{"status":"ok","ws_id":"one","created":true}"#)?;
    let reply = shoot(&mut client, &control("t-s", (1, 0), r#"{"method":"status","params":{}}"#))?;
    let answer = reply.json();
    let tells = answer["status"] == "ok" && answer["workspaces"] == 1 && answer["log_failures"] == 0;
    ensure(tells && answer["pid"] == std::process::id(), || arena::text(&reply))
}
