//! What hardening the gate adds: ids, ranges, the handshake gate, who may speak at all.

use zerocopy::little_endian::{U16, U32};

use super::arena::{
    self, Arena, OPERATOR, Then, answered, control, create, destroy, ensure, head, ping, pongs, refused,
    shoot,
};
use super::{Case, Check};
use crate::client::Authority;
use crate::code::{self, Reject};
use crate::frame::{self, Envelope, command};

pub(super) const CASES: &[Case] = &[
    Case { name: "ping with a valid ws", run: ping_valid },
    Case { name: "ping with / ~ space and other bytes in ws_id: 102", run: ping_bad_ws },
    Case { name: "ws_id of 36 bytes or empty: 102; 35 is fine", run: ws_id_lengths },
    Case { name: "bytes after the NUL of ws_id are ignored in both planes", run: bytes_after_nul },
    Case { name: "low role though armed: 202", run: low_role },
    Case { name: "role none and unarmed: role is tested first", run: role_before_arming },
    Case { name: "role system may destroy", run: role_system },
    Case { name: "list and ping need the handshake only", run: no_authority_needed },
    Case { name: "authority is read from each frame", run: authority_per_frame },
    Case { name: "checksum not 0: 104", run: checksum },
    Case { name: "arming above 1: 201, role above 3: 202", run: ranges },
    Case { name: "order of checks of a doubly wrong frame", run: order },
    Case { name: "command before handshake: 200, on each new connection", run: need_handshake },
    Case { name: "handshake of the wrong size: 103; twice is fine", run: handshake_size },
    Case { name: "kernel repeats every check on its own socket", run: kernel_checks },
    Case { name: "peer with another uid: 202 on its first frame, logged", run: stranger },
];

fn with(trace: &str, change: impl FnOnce(&mut Envelope)) -> Vec<u8> {
    let mut envelope = head(command::PING, trace, 0);
    change(&mut envelope);
    frame::frame(&envelope, b"")
}

fn with_ws(trace: &str, ws_id: &[u8]) -> Vec<u8> {
    with(trace, |envelope| {
        envelope.ws_id = [0; frame::ID_FIELD_BYTES];
        envelope.ws_id[..ws_id.len()].copy_from_slice(ws_id);
    })
}

fn ping_valid(arena: &mut Arena) -> Check {
    let mut client = arena.ready()?;
    for ws_id in [&b"root"[..], b"system", b"-x", b"_", b"Z9", b"dev"] {
        let reply = shoot(&mut client, &with_ws("t-ping", ws_id))?;
        ensure(reply.payload == br#"{"status":"pong"}"#, || arena::text(&reply))?;
        ensure(reply.envelope.ws_id_text() == ws_id, || format!("{:?}", reply.envelope))?;
    }
    arena.nothing_made()?;
    let forwarded: Vec<_> = arena.lines(&arena.run_dir.root_log(), "t-ping")?;
    ensure(forwarded.len() == 6 && forwarded.iter().all(|line| line["decision"] == "FORWARD"), || {
        format!("logged {forwarded:?}")
    })
}

fn ping_bad_ws(arena: &mut Arena) -> Check {
    for ws_id in
        [&b"a/b"[..], b"~root", b"a b", b".", b"..", b"a.b", b"a\nb", b"ws\xc3\xa9", b"\x01", b"\xff"]
    {
        refused(&mut arena.ready()?, &with_ws("t-bad-ws", ws_id), code::BAD_WS_ID, Then::Closed)?;
        refused(&mut arena.kernel()?, &with_ws("t-bad-ws", ws_id), code::BAD_WS_ID, Then::Closed)?;
    }
    arena.nothing_made()
}

fn ws_id_lengths(arena: &mut Arena) -> Check {
    refused(&mut arena.ready()?, &with_ws("t-36", &[b'a'; 36]), code::BAD_WS_ID, Then::Closed)?;
    refused(&mut arena.ready()?, &with_ws("t-0", b""), code::BAD_WS_ID, Then::Closed)?;
    let reply = shoot(&mut arena.ready()?, &with_ws("t-35", &[b'a'; 35]))?;
    ensure(reply.payload == br#"{"status":"pong"}"#, || arena::text(&reply))?;
    arena.nothing_made()
}

fn bytes_after_nul(arena: &mut Arena) -> Check {
    for mut client in [arena.ready()?, arena.kernel()?] {
        let reply = shoot(&mut client, &with_ws("t-nul", b"ok\0/../\xff"))?;
        ensure(reply.payload == br#"{"status":"pong"}"#, || arena::text(&reply))?;
        ensure(reply.envelope.ws_id_text() == b"ok", || format!("{:?}", reply.envelope))?;
    }
    Ok(())
}

fn low_role(arena: &mut Arena) -> Check {
    let mut client = arena.ready()?;
    for role in [0, 1] {
        for payload in [create("lowly"), destroy("lowly")] {
            let bytes = control("t-low", (role, 1), &payload);
            refused(&mut client, &bytes, code::ROLE_REQUIRED, Then::Open)?;
        }
    }
    arena.nothing_made()?;
    arena.logged(&arena.run_dir.kernel_log(), "t-low", &[("REJECT", 202); 4])
}

fn role_before_arming(arena: &mut Arena) -> Check {
    let mut client = arena.ready()?;
    refused(&mut client, &control("t-both", (0, 0), &destroy("x")), code::ROLE_REQUIRED, Then::Open)?;
    refused(&mut client, &control("t-op", (2, 0), &create("x")), code::ARMING_REQUIRED, Then::Open)?;
    // Whoever may not do it does not learn whether the target is legal either.
    refused(&mut client, &control("t-probe", (0, 0), &destroy("../x")), code::ROLE_REQUIRED, Then::Open)?;
    arena.nothing_made()
}

fn role_system(arena: &mut Arena) -> Check {
    let mut client = arena.ready()?;
    let reply = shoot(&mut client, &control("t-sys", (3, 1), &create("sys")))?;
    ensure(reply.json()["created"] == true, || arena::text(&reply))?;
    let text = std::fs::read_to_string(arena.inside("sys/manifest.json")).map_err(arena::complain)?;
    ensure(text.contains(r#""owner_role": "system""#), || text.clone())?;
    let reply = shoot(&mut client, &control("t-sys", (3, 1), &destroy("sys")))?;
    ensure(reply.json()["destroyed"] == true, || arena::text(&reply))
}

fn no_authority_needed(arena: &mut Arena) -> Check {
    let mut client = arena.ready()?;
    for role in [0, 1] {
        let reply = shoot(&mut client, &control("t-l", (role, 0), r#"{"method":"ws_list","params":{}}"#))?;
        ensure(reply.payload == br#"{"status":"ok","count":0,"workspaces":[]}"#, || arena::text(&reply))?;
        let reply = shoot(
            &mut client,
            &with("t-p", |envelope| {
                (envelope.role, envelope.arming) = (U16::new(role), 0);
            }),
        )?;
        ensure(reply.payload == br#"{"status":"pong"}"#, || arena::text(&reply))?;
        // Replies mirror the authority of their request.
        ensure(reply.envelope.role.get() == role && reply.envelope.arming == 0, || {
            format!("{:?}", reply.envelope)
        })?;
    }
    Ok(())
}

fn authority_per_frame(arena: &mut Arena) -> Check {
    let mut client = arena.raw()?;
    client.handshake(Authority { role: frame::Role::None, armed: false }).map_err(arena::complain)?;
    let created = r#"{"status":"ok","ws_id":"per-frame","created":true}"#;
    answered(&mut client, "t-1", &create("per-frame"), created)?;
    refused(&mut client, &control("t-2", (1, 1), &destroy("per-frame")), code::ROLE_REQUIRED, Then::Open)
}

fn checksum(arena: &mut Arena) -> Check {
    let bytes = with("t-sum", |envelope| envelope.checksum = U32::new(1));
    refused(&mut arena.ready()?, &bytes, code::BAD_CHECKSUM, Then::Closed)?;
    arena.logged(&arena.run_dir.root_log(), "t-sum", &[("REJECT", 104)])
}

fn ranges(arena: &mut Arena) -> Check {
    for arming in [2, 255] {
        let bytes = with("t-arm", |envelope| envelope.arming = arming);
        refused(&mut arena.ready()?, &bytes, code::ARMING_FLAG_INVALID, Then::Closed)?;
    }
    for role in [4, u16::MAX] {
        let bytes = with("t-role", |envelope| envelope.role = U16::new(role));
        refused(&mut arena.ready()?, &bytes, code::ROLE_INVALID, Then::Closed)?;
    }
    Ok(())
}

type Repair = fn(&mut Envelope);

fn order(arena: &mut Arena) -> Check {
    // Everything is wrong; then one thing after the other is put right, in the order it is judged.
    let mut envelope = head(command::PING, "t-order", 0);
    envelope.payload_len = U32::new(65_537);
    envelope.magic = U32::new(0);
    envelope.version = U32::new(0);
    envelope.checksum = U32::new(1);
    envelope.arming = 2;
    envelope.role = U16::new(9);
    envelope.ws_id[0] = b'/';
    let steps: [(Reject, Repair); 8] = [
        (code::PAYLOAD_TOO_BIG, |envelope| envelope.payload_len = U32::new(0)),
        (code::BAD_MAGIC, |envelope| envelope.magic = U32::new(frame::MAGIC)),
        (code::BAD_VERSION, |envelope| envelope.version = U32::new(frame::VERSION)),
        (code::BAD_CHECKSUM, |envelope| envelope.checksum = U32::new(0)),
        (code::ARMING_FLAG_INVALID, |envelope| envelope.arming = 0),
        (code::ROLE_INVALID, |envelope| envelope.role = U16::new(0)),
        (code::BAD_WS_ID, |envelope| envelope.ws_id[0] = b's'),
        (code::NEED_HANDSHAKE, |_| {}),
    ];
    for (reject, repair) in steps {
        for socket in [arena.run_dir.root_socket(), arena.run_dir.kernel_socket()] {
            refused(&mut arena::raw(&socket)?, &frame::frame(&envelope, b""), reject, Then::Closed)?;
        }
        repair(&mut envelope);
    }
    Ok(())
}

fn need_handshake(arena: &mut Arena) -> Check {
    pongs(&mut arena.ready()?)?;
    refused(&mut arena.raw()?, &ping("t-early"), code::NEED_HANDSHAKE, Then::Closed)?;
    let bytes = control("t-early-c", OPERATOR, &create("early"));
    refused(&mut arena.raw()?, &bytes, code::NEED_HANDSHAKE, Then::Closed)?;
    arena.nothing_made()?;
    arena.logged(&arena.run_dir.root_log(), "t-early-c", &[("REJECT", 200)])
}

fn handshake_size(arena: &mut Arena) -> Check {
    for len in [0_usize, 39, 41, 4096] {
        let bytes = frame::frame(&head(command::HANDSHAKE, "t-size", len), &vec![0; len]);
        refused(&mut arena.raw()?, &bytes, code::BAD_HANDSHAKE_SIZE, Then::Closed)?;
    }
    let mut client = arena.ready()?;
    client.handshake(Authority::USER).map_err(arena::complain)?;
    pongs(&mut client)
}

fn kernel_checks(arena: &mut Arena) -> Check {
    let socket = arena.run_dir.kernel_socket();
    refused(&mut arena::raw(&socket)?, &ping("k-early"), code::NEED_HANDSHAKE, Then::Closed)?;
    refused(&mut arena::raw(&socket)?, &arena::handshake("k-cv", 1, 2), code::BAD_VERSION, Then::Closed)?;
    let bytes = with("k-sum", |envelope| envelope.checksum = U32::new(1));
    refused(&mut arena.kernel()?, &bytes, code::BAD_CHECKSUM, Then::Closed)?;
    let bytes = control("k-none", (0, 0), &destroy("testws"));
    refused(&mut arena.kernel()?, &bytes, code::ROLE_REQUIRED, Then::Open)?;
    let log = arena.run_dir.kernel_log();
    arena.logged(&log, "k-early", &[("REJECT", 200)])?;
    arena.logged(&log, "k-none", &[("REJECT", 202)])
}

fn stranger(arena: &mut Arena) -> Check {
    // To the server every process of ours is a stranger when somebody else is the owner.
    arena.restart(|options| options.owner_uid = options.owner_uid.wrapping_add(1))?;
    for (socket, log) in [
        (arena.run_dir.root_socket(), arena.run_dir.root_log()),
        (arena.run_dir.kernel_socket(), arena.run_dir.kernel_log()),
    ] {
        let bytes = arena::handshake("t-uid", 1, 1);
        refused(&mut arena::raw(&socket)?, &bytes, code::PEER_NOT_OWNER, Then::Closed)?;
        arena.logged(&log, "t-uid", &[("REJECT", 202)])?;
    }
    Ok(())
}
