//! What the logs must say, and what a client must not be able to make them say.

use super::arena::{Arena, OPERATOR, complain, control, create, destroy, ensure, head, ping, shoot};
use super::{Case, Check};
use crate::frame::{self, command};

pub(super) const CASES: &[Case] = &[
    Case { name: "bytes of clients are escaped in the logs", run: escaped },
    Case { name: "every decision is one JSON line with its ids and code", run: one_line_each },
    Case { name: "logs rotate by rename and lose no line", run: rotation },
    Case { name: "logs are appended to across restarts", run: appended },
];

fn escaped(arena: &mut Arena) -> Check {
    let mut client = arena.ready()?;
    let mut envelope = head(command::PING, "", 0);
    let hostile = b"\"}\n{\"decision\":\"OK\"}\x1b[2J\xff\\";
    envelope.trace_id[..hostile.len()].copy_from_slice(hostile);
    shoot(&mut client, &frame::frame(&envelope, b""))?;
    let evil = r#"{"method":"ws_create","params":{"ws_id":"a\"\n\u001b[31m{}"}}"#;
    shoot(&mut client, &control("t-evil", OPERATOR, evil))?;
    for log in [arena.run_dir.root_log(), arena.run_dir.kernel_log()] {
        let bytes = std::fs::read(&log).map_err(complain)?;
        let is_plain = bytes.iter().all(|byte| matches!(byte, b'\n' | b' '..=b'~'));
        ensure(is_plain, || format!("{} holds raw bytes", log.display()))?;
        let text = String::from_utf8(bytes).map_err(complain)?;
        for line in text.lines() {
            let value: serde_json::Value = serde_json::from_str(line).map_err(complain)?;
            ensure(value["ts"].is_string(), || format!("a line was forged: {line}"))?;
        }
    }
    let lines = arena.lines(&arena.run_dir.kernel_log(), "t-evil")?;
    ensure(lines.len() == 1 && lines[0]["target"] == "a\"\n\u{1b}[31m{}", || format!("{lines:?}"))
}

fn one_line_each(arena: &mut Arena) -> Check {
    let mut client = arena.ready()?;
    shoot(&mut client, &ping("t-each"))?;
    shoot(&mut client, &control("t-each", OPERATOR, &create("each")))?;
    shoot(&mut client, &control("t-each", (0, 0), &destroy("each")))?;
    shoot(&mut client, &control("t-each", OPERATOR, &destroy("each")))?;
    arena.logged(&arena.run_dir.root_log(), "t-each", &[("FORWARD", 0); 4])?;
    let kernel = arena.run_dir.kernel_log();
    let expected = [("OK", 0), ("ATTEMPT", 0), ("OK", 0), ("REJECT", 202), ("ATTEMPT", 0), ("OK", 0)];
    arena.logged(&kernel, "t-each", &expected)?;
    for line in arena.lines(&kernel, "t-each")? {
        let is_whole = line["ts"].as_str().is_some_and(|time| time.ends_with('Z'))
            && line["plane"] == "kernel"
            && line["ws_id"] == "system"
            && line["command_id"].is_string();
        ensure(is_whole, || format!("a line lacks something: {line}"))?;
        let names_path = line["decision"] != "ATTEMPT" || line["path"].is_string();
        ensure(names_path, || format!("no path in {line}"))?;
    }
    Ok(())
}

fn rotation(arena: &mut Arena) -> Check {
    arena.restart(|options| options.rotate_bytes = 4096)?;
    let mut client = arena.ready()?;
    for number in 0..60 {
        shoot(&mut client, &ping(&format!("t-rot-{number}")))?;
    }
    let log = arena.run_dir.root_log();
    let mut text = String::new();
    for name in ["root.log.3", "root.log.2", "root.log.1", "root.log"] {
        text.push_str(&std::fs::read_to_string(log.with_file_name(name)).unwrap_or_default());
    }
    ensure(log.with_file_name("root.log.1").exists(), || "nothing was rotated".to_owned())?;
    for number in 0..60 {
        let trace = format!(r#""trace_id":"t-rot-{number}""#);
        ensure(text.matches(&trace).count() == 1, || format!("line {number} is not there once"))?;
    }
    Ok(())
}

fn appended(arena: &mut Arena) -> Check {
    shoot(&mut arena.ready()?, &ping("t-before"))?;
    arena.restart(|_| {})?;
    shoot(&mut arena.ready()?, &ping("t-after"))?;
    for trace in ["t-before", "t-after"] {
        arena.logged(&arena.run_dir.root_log(), trace, &[("FORWARD", 0)])?;
        arena.logged(&arena.run_dir.kernel_log(), trace, &[("OK", 0)])?;
    }
    Ok(())
}
