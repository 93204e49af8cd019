//! Root and Kernel as two processes would be: byte-perfect between them, and Root whole whatever
//! happens to the Kernel.

use std::time::Duration;

use zerocopy::IntoBytes as _;
use zerocopy::little_endian::U32;

use super::arena::{
    self, Arena, OPERATOR, Then, complain, control, create, ensure, head, ping, pongs, refused, shoot,
};
use super::stand_in::{Script, StandIn};
use super::{Case, Check};
use crate::code::{self, Reject};
use crate::frame::{self, Envelope, command};
use crate::server::{Planes, ServeOptions, Server};

pub(super) const CASES: &[Case] = &[
    Case { name: "forward and relay are byte-perfect", run: byte_perfect },
    Case { name: "root never looks into a payload", run: opaque_payload },
    Case { name: "root's own rejects reach no kernel", run: rejects_stay },
    Case { name: "kernel down: 500, root alive", run: kernel_down },
    Case { name: "kernel killed between forward and reply: 500, root alive", run: kernel_killed },
    Case { name: "kernel slow: 500 in time, others served", run: kernel_slow },
    Case { name: "kernel restart needs no client change", run: kernel_restart },
    Case { name: "two servers as two processes do what one does", run: two_servers },
    Case { name: "a second server in one run folder is refused", run: second_server },
    Case { name: "a stale socket is replaced", run: stale_socket },
    Case { name: "a run folder others can write to is refused", run: open_run_dir },
    Case { name: "a socket path that is too long is refused with its length", run: long_path },
];

fn root_only(arena: &mut Arena) -> Check {
    arena.restart(|options| options.planes = Planes::RootOnly)
}

fn byte_perfect(arena: &mut Arena) -> Check {
    root_only(arena)?;
    // A reply no Kernel of ours would send, down to its pad byte.
    let mut odd = Envelope::request(0x4242, b"elsewhere", b"other-trace", 5);
    (odd.pad, odd.arming, odd.checksum) = (9, 77, U32::new(3));
    let answer = frame::frame(&odd, b"\x00\xff{}\n");
    let kernel = StandIn::listen(&arena.run_dir.kernel_socket(), &Script::Answer(answer.clone()))?;
    let mut client = arena.ready()?;
    let mut sent = Vec::new();
    for number in 0..3_u8 {
        let mut envelope = head(command::CONTROL, "t-bytes", 7);
        envelope.pad = 7 + number;
        envelope.ws_id[10..14].copy_from_slice(b"\xff/..");
        envelope.trace_id = [0xC0 + number; frame::ID_FIELD_BYTES];
        let bytes = frame::frame(&envelope, b"\0{\"bad\xff");
        let reply = shoot(&mut client, &bytes)?;
        let mut relayed = reply.envelope.as_bytes().to_vec();
        relayed.extend(reply.payload);
        ensure(relayed == answer, || "the reply was changed".to_owned())?;
        sent.push(bytes);
    }
    ensure(kernel.received() == sent, || "a frame was changed".to_owned())
}

fn opaque_payload(arena: &mut Arena) -> Check {
    root_only(arena)?;
    let answer = frame::frame(&Envelope::request(command::CONTROL, b"system", b"x", 0), b"");
    let kernel = StandIn::listen(&arena.run_dir.kernel_socket(), &Script::Answer(answer))?;
    let mut client = arena.ready()?;
    // Neither the authority nor the payload of a control frame is Root's business.
    for payload in [&b"{nope"[..], b"\xff\xfe", br#"{"method":"ws_destroy","params":{"ws_id":"../../etc"}}"#]
    {
        let mut envelope = head(command::CONTROL, "t-opaque", payload.len());
        (envelope.arming, envelope.role) = (0, zerocopy::little_endian::U16::new(0));
        shoot(&mut client, &frame::frame(&envelope, payload))?;
    }
    ensure(kernel.received().len() == 3, || format!("{} frames came through", kernel.received().len()))
}

fn rejects_stay(arena: &mut Arena) -> Check {
    root_only(arena)?;
    let kernel = StandIn::listen(&arena.run_dir.kernel_socket(), &Script::Die)?;
    let mut envelope = head(command::PING, "t-stay", 0);
    envelope.checksum = U32::new(1);
    refused(&mut arena.ready()?, &frame::frame(&envelope, b""), code::BAD_CHECKSUM, Then::Closed)?;
    refused(&mut arena.raw()?, &ping("t-stay"), code::NEED_HANDSHAKE, Then::Closed)?;
    ensure(kernel.received().is_empty(), || "the kernel was asked".to_owned())
}

fn kernel_down(arena: &mut Arena) -> Check {
    root_only(arena)?;
    for _ in 0..3 {
        refused(&mut arena.ready()?, &ping("t-down"), code::KERNEL_CONNECT_FAILED, Then::Closed)?;
    }
    arena.logged(&arena.run_dir.root_log(), "t-down", &[("FORWARD", 0), ("REJECT", 500)].repeat(3))
}

fn kernel_killed(arena: &mut Arena) -> Check {
    root_only(arena)?;
    let cases: [(Script, Reject); 3] = [
        (Script::Die, code::KERNEL_READ_FAILED),
        (Script::DieHalfWay, code::KERNEL_READ_FAILED),
        (Script::DieAtHandshake, code::KERNEL_HANDSHAKE_READ_FAILED),
    ];
    for (script, reject) in cases {
        let _kernel = StandIn::listen(&arena.run_dir.kernel_socket(), &script)?;
        let bytes = control("t-killed", OPERATOR, &create("lost"));
        refused(&mut arena.ready()?, &bytes, reject, Then::Closed)?;
    }
    // Root itself is whole: with a real Kernel back everything works.
    let mut options = ServeOptions::new(arena.run_dir.clone());
    options.planes = Planes::KernelOnly;
    let _ = std::fs::remove_file(arena.run_dir.kernel_socket());
    let _kernel = Server::start(options).map_err(complain)?;
    arena.is_alive()
}

fn kernel_slow(arena: &mut Arena) -> Check {
    arena.restart(|options| {
        options.planes = Planes::RootOnly;
        // Long enough for a handshake on a busy machine, short enough to wait for.
        options.kernel_patience = Duration::from_millis(1500);
    })?;
    let _kernel = StandIn::listen(&arena.run_dir.kernel_socket(), &Script::Hang)?;
    let mut stuck = arena.ready()?;
    stuck.send(&ping("t-slow")).map_err(complain)?;
    // While that one waits, the gate still opens and refuses for others.
    refused(&mut arena.raw()?, &ping("t-other"), code::NEED_HANDSHAKE, Then::Closed)?;
    drop(arena.ready()?);
    let reply = stuck.receive().map_err(complain)?;
    ensure(reply.is(code::KERNEL_READ_FAILED), || arena::text(&reply))?;
    arena::is_closed(&mut stuck)
}

fn kernel_restart(arena: &mut Arena) -> Check {
    root_only(arena)?;
    let start = || {
        let mut options = ServeOptions::new(arena.run_dir.clone());
        options.planes = Planes::KernelOnly;
        Server::start(options).map_err(complain)
    };
    let kernel = start()?;
    let mut client = arena.ready()?;
    pongs(&mut client)?;
    drop(kernel);
    let kernel = start()?;
    // The same connection, no new handshake.
    pongs(&mut client)?;
    drop(kernel);
    refused(&mut client, &ping("t-gone"), code::KERNEL_CONNECT_FAILED, Then::Closed)
}

fn two_servers(arena: &mut Arena) -> Check {
    root_only(arena)?;
    let mut options = ServeOptions::new(arena.run_dir.clone());
    options.planes = Planes::KernelOnly;
    let kernel = Server::start(options).map_err(complain)?;
    let mut client = arena.ready()?;
    let bytes = control("t-two", OPERATOR, &create("two"));
    let reply = shoot(&mut client, &bytes)?;
    ensure(reply.payload == br#"{"status":"ok","ws_id":"two","created":true}"#, || arena::text(&reply))?;
    refused(&mut client, &control("t-deny", (2, 0), &create("x")), code::ARMING_REQUIRED, Then::Open)?;
    arena.logged(&arena.run_dir.root_log(), "t-two", &[("FORWARD", 0)])?;
    arena.logged(&arena.run_dir.kernel_log(), "t-two", &[("ATTEMPT", 0), ("OK", 0)])?;
    drop(kernel);
    Ok(())
}

fn second_server(arena: &mut Arena) -> Check {
    for planes in [Planes::Both, Planes::RootOnly, Planes::KernelOnly] {
        let mut options = ServeOptions::new(arena.run_dir.clone());
        options.planes = planes;
        ensure(Server::start(options).is_err(), || format!("{planes:?} started twice"))?;
    }
    arena.is_alive()
}

fn stale_socket(arena: &mut Arena) -> Check {
    arena.stop();
    let socket = arena.run_dir.root_socket();
    // A listener that ends without unlinking leaves what a killed server leaves.
    drop(std::os::unix::net::UnixListener::bind(&socket).map_err(complain)?);
    ensure(socket.exists(), || "nothing stale to replace".to_owned())?;
    arena.restart(|_| {})?;
    arena.is_alive()?;
    arena.stop();
    ensure(!socket.exists(), || "the socket outlived its server".to_owned())
}

fn open_run_dir(arena: &mut Arena) -> Check {
    use std::os::unix::fs::PermissionsExt as _;
    arena.stop();
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(arena.run_dir.path(), open).map_err(complain)?;
    ensure(arena.restart(|_| {}).is_err(), || "it was used".to_owned())
}

fn long_path(arena: &mut Arena) -> Check {
    arena.stop();
    let long = crate::run_dir::RunDir::new(arena.outside(&"x".repeat(100)));
    match Server::start(ServeOptions::new(long)) {
        Err(error) if error.to_string().contains("107") => Ok(()),
        Err(error) => Err(format!("refused with {error}")),
        Ok(_) => Err("it started".to_owned()),
    }
}
