//! Bytes as networks deliver them: in pieces, in heaps, or not at all.

use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use zerocopy::little_endian::U32;

use super::arena::{
    self, Arena, OPERATOR, Then, complain, control, create, ensure, head, is_closed, ping, pongs, refused,
    send_only,
};
use super::{Case, Check};
use crate::code;
use crate::frame::{self, command};

pub(super) const CASES: &[Case] = &[
    Case { name: "frames delivered one byte at a time", run: byte_at_a_time },
    Case { name: "frames split at every byte", run: split_anywhere },
    Case { name: "many frames in one write, answered in order", run: many_frames },
    Case { name: "EOF inside envelope and inside payload: close, no reply", run: cut_short },
    Case { name: "wrong magic with the payload withheld is answered at once", run: withheld_bad_magic },
    Case { name: "withheld payloads of many clients hold up nobody", run: withheld_payloads },
    Case { name: "clients that disconnect before reading do no harm", run: early_disconnect },
    Case { name: "one idle connection delays nobody", run: idle },
    Case { name: "one client that never reads delays nobody", run: never_reads },
    Case { name: "a trace id of 36 bytes comes back as 35", run: long_trace },
    Case { name: "more connections than allowed: 500, then room again", run: too_many },
    Case { name: "1,000 connections held at once", run: a_thousand },
];

fn byte_at_a_time(arena: &mut Arena) -> Check {
    let mut client = arena.raw()?;
    for (bytes, len) in [
        (arena::handshake("t-slow", 1, 1), 12),
        (control("t-slow", OPERATOR, r#"{"method":"ws_list","params":{}}"#), 41),
    ] {
        for byte in bytes {
            client.send(&[byte]).map_err(complain)?;
        }
        let reply = client.receive().map_err(complain)?;
        ensure(reply.payload.len() == len, || arena::text(&reply))?;
    }
    Ok(())
}

fn split_anywhere(arena: &mut Arena) -> Check {
    let mut client = arena.ready()?;
    let mut bytes = ping("t-one");
    bytes.extend(control("t-two", OPERATOR, r#"{"method":"ws_list"}"#));
    for at in 1..bytes.len() {
        client.send(&bytes[..at]).map_err(complain)?;
        client.send(&bytes[at..]).map_err(complain)?;
        for trace in ["t-one", "t-two"] {
            let reply = client.receive().map_err(|error| format!("split at {at}: {error}"))?;
            ensure(reply.envelope.trace_id_text() == trace.as_bytes(), || format!("split at {at}: order"))?;
        }
    }
    Ok(())
}

fn many_frames(arena: &mut Arena) -> Check {
    let mut client = arena.raw()?;
    let mut bytes = arena::handshake("m-hs", 1, 1);
    for number in 0..500 {
        bytes.extend(ping(&format!("m-{number}")));
        if number % 50 == 0 {
            bytes.extend(control(&format!("m-{number}-c"), OPERATOR, &create(&format!("m{number}"))));
        }
    }
    client.send(&bytes).map_err(complain)?;
    let mut expected = vec!["m-hs".to_owned()];
    for number in 0..500 {
        expected.push(format!("m-{number}"));
        if number % 50 == 0 {
            expected.push(format!("m-{number}-c"));
        }
    }
    for trace in expected {
        let reply = client.receive().map_err(complain)?;
        ensure(reply.envelope.trace_id_text() == trace.as_bytes(), || format!("{trace} is out of order"))?;
    }
    ensure(arena.leavings()?.len() == 10, || format!("made {:?}", arena.leavings()))
}

fn cut_short(arena: &mut Arena) -> Check {
    let whole = arena::handshake("t-cut", 1, 1);
    for at in 0..whole.len() {
        let mut client = arena.raw()?;
        client.send(&whole[..at]).map_err(complain)?;
        client.stream().shutdown(Shutdown::Write).map_err(complain)?;
        is_closed(&mut client).map_err(|error| format!("cut at {at}: {error}"))?;
    }
    // A create that was cut was never asked for.
    let mut client = arena.ready()?;
    let whole = control("t-half", OPERATOR, &create("half"));
    client.send(&whole[..whole.len() - 1]).map_err(complain)?;
    client.stream().shutdown(Shutdown::Write).map_err(complain)?;
    is_closed(&mut client)?;
    arena.nothing_made()?;
    arena.is_alive()
}

fn withheld_bad_magic(arena: &mut Arena) -> Check {
    let mut envelope = head(command::CONTROL, "t-withheld", 10);
    envelope.magic = U32::new(0xDEAD_BEEF);
    refused(&mut arena.raw()?, &frame::frame(&envelope, b""), code::BAD_MAGIC, Then::Closed)?;
    let mut envelope = head(command::CONTROL, "t-withheld", 65_536);
    envelope.version = U32::new(3);
    refused(&mut arena.raw()?, &frame::frame(&envelope, b""), code::BAD_VERSION, Then::Closed)
}

fn withheld_payloads(arena: &mut Arena) -> Check {
    let head = frame::frame(&head(command::CONTROL, "t-wait", 65_536), b"{");
    let mut waiting = Vec::new();
    for _ in 0..200 {
        let mut client = arena.ready()?;
        client.send(&head).map_err(complain)?;
        waiting.push(client);
    }
    pongs(&mut arena.ready()?)?;
    drop(waiting);
    arena.is_alive()
}

fn early_disconnect(arena: &mut Arena) -> Check {
    let mut bytes = arena::handshake("t-gone", 1, 1);
    for _ in 0..50 {
        bytes.extend(ping("t-gone"));
    }
    for _ in 0..100 {
        let mut client = arena.raw()?;
        client.send(&bytes).map_err(complain)?;
        drop(client);
    }
    arena.is_alive()
}

fn idle(arena: &mut Arena) -> Check {
    let silent = arena.raw()?;
    let greeted = arena.ready()?;
    for _ in 0..20 {
        arena.is_alive()?;
    }
    drop((silent, greeted));
    Ok(())
}

fn never_reads(arena: &mut Arena) -> Check {
    let greedy = arena.ready()?;
    greedy.stream().set_nonblocking(true).map_err(complain)?;
    let bytes = ping("t-greedy").repeat(512);
    // Until both directions are full, so that the server is stuck writing to this one.
    while rustix::net::send(greedy.stream(), &bytes, rustix::net::SendFlags::empty()).is_ok() {}
    for _ in 0..20 {
        arena.is_alive()?;
    }
    // Nor does it hold up the end of the server.
    let started = std::time::Instant::now();
    arena.stop();
    ensure(started.elapsed() < arena::MAX_WAIT / 2, || format!("stopping took {:?}", started.elapsed()))
}

fn long_trace(arena: &mut Arena) -> Check {
    let mut envelope = head(command::PING, "", 0);
    envelope.trace_id = [b't'; frame::ID_FIELD_BYTES];
    let reply = arena::shoot(&mut arena.ready()?, &frame::frame(&envelope, b""))?;
    let mut expected = [b't'; frame::ID_FIELD_BYTES];
    expected[frame::ID_FIELD_BYTES - 1] = 0;
    ensure(reply.envelope.trace_id == expected, || format!("{:?}", reply.envelope))
}

fn too_many(arena: &mut Arena) -> Check {
    arena.restart(|options| options.max_connections = 8)?;
    let held: Result<Vec<_>, String> = (0..8).map(|_| arena.ready()).collect();
    let mut held = held?;
    let mut extra = arena.raw()?;
    let reply = extra.receive().map_err(complain)?;
    ensure(reply.is(code::TOO_MANY_CONNECTIONS), || arena::text(&reply))?;
    is_closed(&mut extra)?;
    for client in &mut held {
        pongs(client)?;
    }
    drop(held);
    let server = arena.server.as_ref().ok_or("no server")?;
    arena::until("connections end", || server.connections() == 0)?;
    arena.is_alive()
}

fn a_thousand(arena: &mut Arena) -> Check {
    let mut held = Vec::new();
    for number in 0..1000 {
        held.push(arena.ready().map_err(|error| format!("connection {number}: {error}"))?);
    }
    for client in &mut held {
        pongs(client)?;
    }
    // The last to come is served like the first.
    let late = UnixStream::connect(arena.run_dir.root_socket()).map_err(complain)?;
    send_only(&late, &arena::handshake("t-late", 1, 1))?;
    let mut late = crate::client::Client::over(late);
    late.receive().map(drop).map_err(complain)
}
