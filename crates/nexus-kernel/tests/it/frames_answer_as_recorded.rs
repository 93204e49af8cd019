//! Frames recorded from another implementation of the protocol, replayed against ours: the same
//! answer byte for byte, or a difference listed here with its reason.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use nexus_kernel::{Authority, Client, ClientError, RunDir, ServeOptions, Server};
use serde_json::Value;

/// How our answer differs, and why it should.
struct Difference {
    why: &'static str,
    /// The payload we answer with; `None` keeps the recorded one.
    payload: Option<&'static str>,
    /// Whether the connection stays open afterwards; `None` keeps what was recorded.
    open: Option<bool>,
}

const fn differs(why: &'static str, payload: &'static str, open: bool) -> Difference {
    Difference { why, payload: Some(payload), open: Some(open) }
}

const REAL: &str = "the recorded server answered without doing anything; ours does it and says so";
const METHOD: &str = "refusals about a method come from the Kernel and keep the connection";
const STRICT: &str = "what cannot be understood or done is refused, not answered with ok";
const KERNEL: &str = "our Kernel answers every refusal with a frame before it closes";
const OPEN_READS: &str = "ping and list need the handshake only";
const CALL: &str = "no path and no second clock in replies, and the number is added";

fn differences(list: &str) -> BTreeMap<&'static str, Difference> {
    let table: Vec<(&'static str, Difference)> = match list {
        "root" => vec![
            (
                "handshake_client_version_99",
                differs(
                    "a client of another version is refused, as the lifecycle's second case demands",
                    r#"{"status":"error","code":101,"reason":"bad_version"}"#,
                    false,
                ),
            ),
            ("ws_create", differs(REAL, r#"{"status":"ok","ws_id":"testws","created":true}"#, true)),
            ("ws_list", differs(REAL, r#"{"status":"ok","count":1,"workspaces":["testws"]}"#, true)),
            ("ws_destroy", differs(REAL, r#"{"status":"ok","ws_id":"testws","destroyed":true}"#, true)),
            ("ws_destroy_unarmed", Difference { why: METHOD, payload: None, open: Some(true) }),
            ("ws_destroy_role_user", Difference { why: METHOD, payload: None, open: Some(true) }),
            ("ws_destroy_role_none_unarmed", Difference { why: METHOD, payload: None, open: Some(true) }),
            (
                "ws_destroy_role_system",
                differs(
                    "system stands above operator",
                    r#"{"status":"ok","ws_id":"testws","destroyed":false,"note":"already_absent"}"#,
                    true,
                ),
            ),
            (
                "payload_len_65536_ok",
                differs(STRICT, r#"{"status":"error","code":500,"reason":"bad_request"}"#, true),
            ),
            (
                "unknown_command",
                differs(STRICT, r#"{"status":"error","code":500,"reason":"unknown_command"}"#, true),
            ),
            (
                "control_bad_json",
                differs(STRICT, r#"{"status":"error","code":500,"reason":"bad_request"}"#, true),
            ),
        ],
        "kernel" => vec![
            (
                "kernel_no_handshake",
                differs(KERNEL, r#"{"status":"error","code":200,"reason":"need_handshake"}"#, false),
            ),
            (
                "kernel_bad_magic",
                differs(KERNEL, r#"{"status":"error","code":100,"reason":"bad_magic"}"#, false),
            ),
            (
                "kernel_bad_version",
                differs(KERNEL, r#"{"status":"error","code":101,"reason":"bad_version"}"#, false),
            ),
            (
                "kernel_oversize",
                differs(KERNEL, r#"{"status":"error","code":103,"reason":"payload_too_big"}"#, false),
            ),
            (
                "kernel_bad_ws",
                differs(KERNEL, r#"{"status":"error","code":102,"reason":"bad_ws_id"}"#, false),
            ),
            (
                "kernel_no_authority",
                differs(
                    "the Kernel checks authority itself",
                    r#"{"status":"error","code":202,"reason":"role_required"}"#,
                    true,
                ),
            ),
        ],
        "call" => vec![
            (
                "call_ws_create",
                differs(
                    CALL,
                    r#"{"type":"yai.exec.reply.v1","status":"ok","code":"OK","reason":"workspace_created","command_id":"yai.kernel.ws","target_plane":"kernel","trace_id":"golden-bc","data":{"ws_id":"testws","exists":true,"state":"created","created":true,"created_at":"TIME"},"error_code":0}"#,
                    true,
                ),
            ),
            (
                "call_ws_create_again",
                differs(
                    CALL,
                    r#"{"type":"yai.exec.reply.v1","status":"ok","code":"OK","reason":"workspace_created","command_id":"yai.kernel.ws","target_plane":"kernel","trace_id":"golden-bc2","data":{"ws_id":"testws","exists":true,"state":"created","created":false,"created_at":"TIME"},"error_code":0}"#,
                    true,
                ),
            ),
            (
                "call_ws_list",
                differs(
                    CALL,
                    r#"{"type":"yai.exec.reply.v1","status":"ok","code":"OK","reason":"workspace_list","command_id":"yai.kernel.ws_list","target_plane":"kernel","trace_id":"golden-bl","data":{"count":1,"workspaces":[{"ws_id":"testws","state":"created"}]},"error_code":0}"#,
                    true,
                ),
            ),
            (
                "call_ws_destroy",
                differs(
                    CALL,
                    r#"{"type":"yai.exec.reply.v1","status":"ok","code":"OK","reason":"workspace_destroyed","command_id":"yai.kernel.ws","target_plane":"kernel","trace_id":"golden-bd","data":{"ws_id":"testws","exists":false,"state":"destroyed","destroyed":true},"error_code":0}"#,
                    true,
                ),
            ),
            (
                "call_ws_destroy_missing",
                differs(
                    CALL,
                    r#"{"type":"yai.exec.reply.v1","status":"ok","code":"OK","reason":"workspace_destroyed","command_id":"yai.kernel.ws","target_plane":"kernel","trace_id":"golden-bdm","data":{"ws_id":"nosuch","exists":false,"state":"destroyed","destroyed":false,"note":"already_absent"},"error_code":0}"#,
                    true,
                ),
            ),
            (
                "call_ws_create_bad_id",
                differs(
                    CALL,
                    r#"{"type":"yai.exec.reply.v1","status":"error","code":"BAD_ARGS","reason":"bad_ws_id","command_id":"yai.kernel.ws","target_plane":"kernel","trace_id":"golden-bbad","error_code":102}"#,
                    true,
                ),
            ),
            (
                "call_ws_bad_action",
                differs(
                    CALL,
                    r#"{"type":"yai.exec.reply.v1","status":"error","code":"BAD_ARGS","reason":"unsupported_workspace_action","command_id":"yai.kernel.ws","target_plane":"kernel","trace_id":"golden-bfrob","error_code":500}"#,
                    true,
                ),
            ),
            (
                "call_ws_create_by_envelope",
                differs(
                    CALL,
                    r#"{"type":"yai.exec.reply.v1","status":"ok","code":"OK","reason":"workspace_created","command_id":"yai.kernel.ws","target_plane":"kernel","trace_id":"golden-benv","data":{"ws_id":"envws","exists":true,"state":"created","created":true,"created_at":"TIME"},"error_code":0}"#,
                    true,
                ),
            ),
            (
                "call_ws_destroy_by_envelope",
                differs(
                    CALL,
                    r#"{"type":"yai.exec.reply.v1","status":"ok","code":"OK","reason":"workspace_destroyed","command_id":"yai.kernel.ws","target_plane":"kernel","trace_id":"golden-benvd","data":{"ws_id":"envws","exists":false,"state":"destroyed","destroyed":true},"error_code":0}"#,
                    true,
                ),
            ),
            (
                "call_ws_destroy_sym",
                differs(
                    "the recorded server emptied the folder a link pointed to and then failed; ours removes the link",
                    r#"{"type":"yai.exec.reply.v1","status":"ok","code":"OK","reason":"workspace_destroyed","command_id":"yai.kernel.ws","target_plane":"kernel","trace_id":"g-s2","data":{"ws_id":"symws","exists":false,"state":"destroyed","destroyed":true},"error_code":0}"#,
                    true,
                ),
            ),
            (
                "call_ws_destroy_engine",
                differs(
                    "the recorded server removed a plane's folder; ours reserves the name",
                    r#"{"type":"yai.exec.reply.v1","status":"error","code":"BAD_ARGS","reason":"reserved_ws_id","command_id":"yai.kernel.ws","target_plane":"kernel","trace_id":"g-r2","error_code":102}"#,
                    true,
                ),
            ),
        ],
        "cli" => vec![
            ("kernel ping", differs(OPEN_READS, r#"{"status":"pong"}"#, true)),
            ("kernel --arming --role operator status", differs("ours tells how it is", "STATUS", true)),
            (
                "kernel --arming --role operator ws create testws",
                differs(REAL, r#"{"status":"ok","ws_id":"testws","created":true}"#, true),
            ),
            (
                "kernel --arming --role operator ws list",
                differs(REAL, r#"{"status":"ok","count":1,"workspaces":["testws"]}"#, true),
            ),
            (
                "kernel --arming --role operator ws destroy testws",
                differs(REAL, r#"{"status":"ok","ws_id":"testws","destroyed":true}"#, true),
            ),
            (
                "kernel --arming --role operator ws create ../x",
                differs(STRICT, r#"{"status":"error","code":102,"reason":"bad_ws_id"}"#, true),
            ),
            (
                r#"engine --ws dev --arming --role operator storage put_node {"id":"n1"}"#,
                differs(
                    "there is no engine plane here",
                    r#"{"status":"error","code":500,"reason":"unknown_command"}"#,
                    true,
                ),
            ),
        ],
        "derived" => Vec::new(),
        other => panic!("no list {other}"),
    };
    table.into_iter().collect()
}

struct Recorded {
    name: String,
    open: bool,
    steps: Vec<(Vec<u8>, Vec<u8>)>,
}

fn vectors() -> Value {
    serde_json::from_str(include_str!("vectors.json")).unwrap()
}

fn recorded(list: &str) -> Vec<Recorded> {
    let read = |entry: &Value| Recorded {
        name: entry["name"].as_str().unwrap().to_owned(),
        open: entry["after"] == "open",
        steps: entry["steps"]
            .as_array()
            .unwrap()
            .iter()
            .map(|step| (unpack(step[0].as_str().unwrap()), unpack(step[1].as_str().unwrap())))
            .collect(),
    };
    vectors()[list].as_array().unwrap().iter().map(read).collect()
}

/// Reads hexadecimal in which `z9.` stands for nine zero bytes and `s9.` for nine spaces.
fn unpack(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(run) = rest.strip_prefix(['z', 's']) {
            let (count, after) = run.split_once('.').unwrap();
            let byte = if rest.starts_with('z') { 0 } else { b' ' };
            bytes.extend(std::iter::repeat_n(byte, count.parse().unwrap()));
            rest = after;
        } else {
            bytes.push(u8::from_str_radix(&rest[..2], 16).unwrap());
            rest = &rest[2..];
        }
    }
    bytes
}

/// The recorded reply with our two general differences: authority mirrored in both planes, and the
/// payload a listed difference names.
fn expected(request: &[u8], reply: &[u8], payload: Option<&str>) -> Vec<u8> {
    let mut expected = if reply.is_empty() { request[..96].to_vec() } else { reply.to_vec() };
    expected[84..88].copy_from_slice(&[request[84], request[85], request[86], 0]);
    if let Some(payload) = payload {
        expected.truncate(96);
        expected[..8].copy_from_slice(b"\x50\x49\x41\x59\x01\0\0\0");
        expected[88..92].copy_from_slice(&u32::try_from(payload.len()).unwrap().to_le_bytes());
        expected.extend_from_slice(payload.as_bytes());
    }
    expected
}

fn connect(socket: &Path) -> Client {
    Client::connect(socket, Duration::from_secs(10)).unwrap()
}

fn receive(client: &mut Client) -> Vec<u8> {
    let reply = client.receive().unwrap();
    let mut bytes = Vec::new();
    reply.envelope.write_into(&mut bytes);
    bytes.extend(hide_time(&reply.payload));
    let payload = u32::try_from(bytes.len() - 96).unwrap();
    bytes[88..92].copy_from_slice(&payload.to_le_bytes());
    bytes
}

/// Replaces what differs from run to run.
fn hide_time(payload: &[u8]) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(payload) else { return payload.to_vec() };
    if text.contains("uptime_seconds") {
        return b"STATUS".to_vec();
    }
    match text.split_once(r#""created_at":""#) {
        Some((before, after)) => {
            let (time, rest) = after.split_once('"').unwrap();
            assert!(time.len() == 20 && time.ends_with('Z'), "{time}");
            format!(r#"{before}"created_at":"TIME"{rest}"#).into_bytes()
        }
        None => payload.to_vec(),
    }
}

fn replay(list: &str, socket: fn(&RunDir) -> std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let run_dir = RunDir::new(folder.path().join("run"));
    let _server = Server::start(ServeOptions::new(run_dir.clone())).unwrap();
    let outside = folder.path().join("outside");
    std::fs::create_dir_all(outside.join("kept")).unwrap();
    let mut differences = differences(list);
    for entry in recorded(list) {
        if entry.name == "call_ws_destroy_sym" {
            std::fs::create_dir(run_dir.path().join("symws")).unwrap();
            std::os::unix::fs::symlink(&outside, run_dir.path().join("symws/link")).unwrap();
        }
        let difference = differences.remove(entry.name.as_str());
        let mut client = connect(&socket(&run_dir));
        let last = entry.steps.len() - 1;
        for (number, (request, reply)) in entry.steps.iter().enumerate() {
            client.send(request).unwrap();
            let payload = difference.as_ref().filter(|_| number == last).and_then(|found| found.payload);
            let expected = expected(request, reply, payload);
            let why = difference.as_ref().map_or("", |found| found.why);
            let found = receive(&mut client);
            assert_eq!(
                found.escape_ascii().to_string(),
                expected.escape_ascii().to_string(),
                "{list}: {} step {number} {why}",
                entry.name
            );
        }
        let open = difference.and_then(|found| found.open).unwrap_or(entry.open);
        if open {
            client.handshake(Authority::USER).unwrap();
        } else {
            assert!(matches!(client.receive(), Err(ClientError::Closed)), "{} is not closed", entry.name);
        }
    }
    assert!(differences.is_empty(), "differences of unknown entries: {:?}", differences.keys());
    assert!(outside.join("kept").is_dir());
}

#[test]
fn recorded_root_frames() {
    replay("root", RunDir::root_socket);
}

#[test]
fn recorded_kernel_frames() {
    replay("kernel", RunDir::kernel_socket);
}

#[test]
fn recorded_calls() {
    replay("call", RunDir::root_socket);
}

#[test]
fn recorded_command_line_sessions() {
    // The first frames of each session, a handshake, were answered as ours are; a session that ended
    // in a refusal by Root would have been closed there and is not here.
    replay("cli", RunDir::root_socket);
}

#[test]
fn derived_frames() {
    for entry in recorded("derived") {
        let folder = tempfile::tempdir().unwrap();
        let run_dir = RunDir::new(folder.path().join("run"));
        let _server = Server::start(ServeOptions::new(run_dir.clone())).unwrap();
        let socket =
            if entry.name.starts_with("kernel_") { run_dir.kernel_socket() } else { run_dir.root_socket() };
        let mut client = connect(&socket);
        if matches!(
            entry.name.as_str(),
            "kernel_bad_ws_id" | "kernel_destroy_role_none" | "ws_create_bad_target"
        ) {
            client.handshake(Authority::USER).unwrap();
        }
        let (request, reply) = &entry.steps[0];
        client.send(request).unwrap();
        assert_eq!(
            receive(&mut client).escape_ascii().to_string(),
            reply.escape_ascii().to_string(),
            "{}",
            entry.name
        );
    }
}

#[test]
fn every_recorded_probe_is_a_torture_case() {
    let cases = nexus_kernel::torture::case_names();
    let covered: BTreeMap<&str, &str> = [
        ("byte_at_a_time", "frames delivered one byte at a time"),
        ("pipelined", "many frames in one write, answered in order"),
        ("truncated_envelope_then_eof", "EOF inside envelope and inside payload: close, no reply"),
        ("truncated_payload_then_eof", "EOF inside envelope and inside payload: close, no reply"),
        ("bad_magic_payload_withheld", "wrong magic with the payload withheld is answered at once"),
        ("idle_client", "one idle connection delays nobody"),
        ("session_table", "33 and more different ws_ids"),
        ("ping_side_effect", "ping with a valid ws"),
        ("early_disconnect", "clients that disconnect before reading do no harm"),
        ("list_limit", "10,000 workspaces: list pages within 8,191 bytes"),
        ("symlink_in_workspace", "links inside a workspace are removed, not followed"),
        ("reserved_name", "reserved names: 102, never listed"),
    ]
    .into();
    for probe in vectors()["probes"].as_array().unwrap() {
        let case = covered[probe.as_str().unwrap()];
        assert!(cases.contains(&case), "{probe} is not covered: {case}");
    }
}
