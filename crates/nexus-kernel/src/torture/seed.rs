//! The eight cases the lifecycle demands at least.

use serde_json::Value;
use zerocopy::little_endian::U32;

use super::arena::{
    self, Arena, OPERATOR, Then, answered, complain, control, create, destroy, ensure, head, refused, shoot,
};
use super::{Case, Check};
use crate::code;
use crate::frame::{self, MAX_PAYLOAD, command};

pub(super) const CASES: &[Case] = &[
    Case { name: "handshake ok: 12-byte ack, status 2", run: handshake_ok },
    Case { name: "handshake wrong version: 101", run: handshake_wrong_version },
    Case { name: "create valid: directory, manifest, logs", run: create_valid },
    Case { name: "create invalid id: 102, nothing made", run: create_invalid },
    Case { name: "destroy without arming: 201", run: destroy_unarmed },
    Case { name: "destroy with arming and role: directory gone", run: destroy_armed },
    Case { name: "payload_len above max: 103", run: payload_too_big },
    Case { name: "wrong magic or version: 100, 101", run: wrong_magic_or_version },
];

fn handshake_ok(arena: &mut Arena) -> Check {
    let mut client = arena.raw()?;
    let reply = shoot(&mut client, &arena::handshake("t-hs", 1, 1))?;
    let expected = [1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2, 0];
    ensure(reply.payload == expected, || format!("the ack is {:?}", reply.payload))?;
    arena.logged(&arena.run_dir.root_log(), "t-hs", &[("ACCEPT", 0)])
}

fn handshake_wrong_version(arena: &mut Arena) -> Check {
    for (trace, version, client_version) in [("t-v2", 2, 1), ("t-cv99", 1, 99), ("t-cv0", 1, 0)] {
        let bytes = arena::handshake(trace, version, client_version);
        refused(&mut arena.raw()?, &bytes, code::BAD_VERSION, Then::Closed)?;
        arena.logged(&arena.run_dir.root_log(), trace, &[("REJECT", 101)])?;
    }
    Ok(())
}

fn create_valid(arena: &mut Arena) -> Check {
    let mut client = arena.ready()?;
    let created = r#"{"status":"ok","ws_id":"testws","created":true}"#;
    answered(&mut client, "t-create", &create("testws"), created)?;
    let text = std::fs::read_to_string(arena.inside("testws/manifest.json")).map_err(complain)?;
    let manifest: Value = serde_json::from_str(&text).map_err(complain)?;
    let keys: Vec<&String> = manifest.as_object().map(|map| map.keys().collect()).unwrap_or_default();
    ensure(keys == ["ws_id", "created_at", "owner_role"], || format!("the manifest has keys {keys:?}"))?;
    ensure(manifest["ws_id"] == "testws" && manifest["owner_role"] == "operator", || text.clone())?;
    let time = manifest["created_at"].as_str().unwrap_or_default();
    ensure(time.len() == 20 && time.ends_with('Z') && !time.contains('.'), || format!("created at {time}"))?;
    ensure(arena.inside("testws/logs").is_dir(), || "there is no logs/".to_owned())?;
    ensure(arena.leavings()? == ["testws"], || format!("made more than asked: {:?}", arena.leavings()))?;
    arena.logged(&arena.run_dir.root_log(), "t-create", &[("FORWARD", 0)])?;
    let log = arena.run_dir.kernel_log();
    arena.logged(&log, "t-create", &[("ATTEMPT", 0), ("OK", 0)])?;
    let path = arena.inside("testws");
    for line in arena.lines(&log, "t-create")? {
        ensure(line["path"] == path.to_string_lossy().as_ref(), || format!("another path in {line}"))?;
        ensure(line["target"] == "testws" && line["ws_id"] == "system", || format!("other ids in {line}"))?;
    }
    Ok(())
}

fn create_invalid(arena: &mut Arena) -> Check {
    let mut client = arena.ready()?;
    let long = "a".repeat(36);
    for id in ["../x", "", ".", "..", "a/b", "~", "a b", "a.b", "\u{e9}", "a\\u0000b", "-\\n", &long] {
        let bytes = control("t-bad", OPERATOR, &create(id));
        refused(&mut client, &bytes, code::BAD_WS_ID, Then::Open)
            .map_err(|error| format!("{id:?}: {error}"))?;
    }
    arena.nothing_made()?;
    let lines = arena.lines(&arena.run_dir.kernel_log(), "t-bad")?;
    ensure(lines.len() == 12 && lines.iter().all(|line| line["code"] == 102), || format!("logged {lines:?}"))
}

fn destroy_unarmed(arena: &mut Arena) -> Check {
    let mut client = arena.ready()?;
    answered(&mut client, "t-c", &create("testws"), r#"{"status":"ok","ws_id":"testws","created":true}"#)?;
    let bytes = control("t-unarmed", (2, 0), &destroy("testws"));
    refused(&mut client, &bytes, code::ARMING_REQUIRED, Then::Open)?;
    ensure(arena.inside("testws/manifest.json").is_file(), || "it was destroyed".to_owned())?;
    arena.logged(&arena.run_dir.kernel_log(), "t-unarmed", &[("REJECT", 201)])
}

fn destroy_armed(arena: &mut Arena) -> Check {
    let mut client = arena.ready()?;
    answered(&mut client, "t-c", &create("ws-1"), r#"{"status":"ok","ws_id":"ws-1","created":true}"#)?;
    std::fs::create_dir_all(arena.inside("ws-1/deep/er")).map_err(complain)?;
    answered(&mut client, "t-d", &destroy("ws-1"), r#"{"status":"ok","ws_id":"ws-1","destroyed":true}"#)?;
    arena.nothing_made()?;
    arena.logged(&arena.run_dir.kernel_log(), "t-d", &[("ATTEMPT", 0), ("OK", 0)])
}

fn payload_too_big(arena: &mut Arena) -> Check {
    for announced in [65_537, u32::MAX] {
        let mut envelope = head(command::CONTROL, "t-big", 0);
        envelope.payload_len = U32::new(announced);
        refused(&mut arena.raw()?, &frame::frame(&envelope, b""), code::PAYLOAD_TOO_BIG, Then::Closed)?;
    }
    // Size goes before magic, magic before version.
    let mut envelope = head(command::CONTROL, "t-both", 0);
    envelope.payload_len = U32::new(65_537);
    envelope.magic = U32::new(7);
    refused(&mut arena.raw()?, &frame::frame(&envelope, b""), code::PAYLOAD_TOO_BIG, Then::Closed)?;
    // The limit itself is fine.
    let full = " ".repeat(MAX_PAYLOAD);
    let bytes = control("t-full", OPERATOR, &full);
    refused(&mut arena.ready()?, &bytes, code::BAD_REQUEST, Then::Open)?;
    arena.logged(&arena.run_dir.root_log(), "t-both", &[("REJECT", 103)])
}

fn wrong_magic_or_version(arena: &mut Arena) -> Check {
    for magic in [0xDEAD_BEEF, 0x5049_4159, 0] {
        let mut envelope = head(command::PING, "t-magic", 0);
        envelope.magic = U32::new(magic);
        envelope.version = U32::new(9);
        refused(&mut arena.raw()?, &frame::frame(&envelope, b""), code::BAD_MAGIC, Then::Closed)?;
    }
    for version in [0, 2, u32::MAX] {
        let mut envelope = head(command::PING, "t-version", 0);
        envelope.version = U32::new(version);
        refused(&mut arena.raw()?, &frame::frame(&envelope, b""), code::BAD_VERSION, Then::Closed)?;
    }
    // A command of 0 is answered as control.
    let mut envelope = head(0, "t-zero", 0);
    envelope.magic = U32::new(1);
    let reply = shoot(&mut arena.raw()?, &frame::frame(&envelope, b""))?;
    ensure(reply.envelope.command_id.get() == command::CONTROL, || format!("{:?}", reply.envelope))?;
    arena.is_alive()
}
