//! Any bytes as the head of a frame: judged without a panic, and what passes is within its limits.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nexus_kernel::frame::{self, Envelope};
use nexus_kernel::{check, code, is_legal_ws_id};

fuzz_target!(|bytes: &[u8]| {
    let Some(envelope) = Envelope::read(bytes) else {
        assert!(bytes.len() < frame::ENVELOPE_BYTES);
        return;
    };
    assert_eq!(frame::frame(&envelope, b""), bytes[..frame::ENVELOPE_BYTES]);
    match check::head(&envelope).and_then(|()| check::fields(&envelope)) {
        Ok(role) => {
            assert!(is_legal_ws_id(envelope.ws_id_text()));
            assert!(envelope.frame_len() <= frame::ENVELOPE_BYTES + frame::MAX_PAYLOAD);
            assert_eq!(role.number(), envelope.role.get());
        }
        Err(reject) => assert!(code::ALL_REJECTS.contains(&reject)),
    }
    let mut reply = Vec::new();
    envelope.reject_into(code::BAD_MAGIC, &mut reply);
    let head = Envelope::read(&reply).expect("a reply has a head");
    assert!(check::head(&head).is_ok());
    assert_eq!(head.frame_len(), reply.len());
});
