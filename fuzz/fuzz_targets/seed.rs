//! Writes the first corpus of each target from the recorded frames the kernel's tests replay.
//!
//! `cargo run --manifest-path fuzz/Cargo.toml --bin seed`, once, before fuzzing.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use nexus_kernel::frame::{ENVELOPE_BYTES, Envelope, command};
use serde_json::Value;

const VECTORS: &str = include_str!("../../crates/nexus-kernel/tests/it/vectors.json");

fn main() {
    let vectors: Value = serde_json::from_str(VECTORS).expect("the vectors are JSON");
    let (mut heads, mut handshakes, mut payloads) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for list in ["root", "kernel", "call", "cli", "derived"] {
        for entry in vectors[list].as_array().expect("a list of sessions") {
            for step in entry["steps"].as_array().expect("a list of steps") {
                let frame = unpack(step[0].as_str().expect("a request"));
                let envelope = Envelope::read(&frame).expect("a whole head");
                let payload = frame[ENVELOPE_BYTES..].to_vec();
                heads.insert(frame[..ENVELOPE_BYTES].to_vec());
                match envelope.command_id.get() {
                    command::HANDSHAKE => handshakes.insert(payload),
                    command::CONTROL | command::CONTROL_CALL => payloads.insert(payload),
                    _ => false,
                };
            }
        }
    }
    for (target, seeds) in [("envelope", heads), ("handshake", handshakes), ("control", payloads)] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
        fs::create_dir_all(&folder).expect("the corpus folder can be made");
        for (number, seed) in seeds.iter().enumerate() {
            fs::write(folder.join(format!("recorded-{number:03}")), seed).expect("a seed can be written");
        }
    }
}

/// Reads hexadecimal in which `z9.` stands for nine zero bytes and `s9.` for nine spaces.
fn unpack(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some(run) = rest.strip_prefix(['z', 's']) {
            let (count, after) = run.split_once('.').expect("a run ends with a point");
            let byte = if first == 'z' { 0 } else { b' ' };
            bytes.extend(std::iter::repeat_n(byte, count.parse().expect("a run has a length")));
            rest = after;
        } else {
            bytes.push(u8::from_str_radix(&rest[..2], 16).expect("two hexadecimal digits"));
            rest = &rest[2..];
        }
    }
    bytes
}
