use nexus_kernel::frame::{self, Envelope};
use nexus_kernel::{Request, Role, WsId, check, code, handshake, is_legal_ws_id, policy};
use proptest::prelude::*;

/// The grammar, said another way than the validator says it.
fn is_legal_by_grammar(bytes: &[u8]) -> bool {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    !bytes.is_empty() && bytes.len() < 36 && bytes.iter().all(|byte| ALPHABET.contains(byte))
}

fn any_id() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        "[A-Za-z0-9_-]{0,40}".prop_map(String::into_bytes),
        "[a-z./~ \\n-]{0,36}".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..64),
    ]
}

/// JSON-like text, often right, sometimes with a key twice.
fn any_payload() -> impl Strategy<Value = Vec<u8>> {
    let method = prop::sample::select(vec!["ws_create", "ws_list", "ws_destroy", "status", "nope"]);
    let id = prop_oneof![Just("ok".to_owned()), "[a-z./\"\\\\ ]{0,12}"];
    let key = prop::sample::select(vec!["ws_id", "after", "limit", "init", "stop", "x"]);
    prop_oneof![
        (method, prop::collection::vec((key, id), 0..4)).prop_map(|(method, params)| {
            let params: Vec<String> =
                params.iter().map(|(key, value)| format!("\"{key}\":\"{value}\"")).collect();
            format!("{{\"method\":\"{method}\",\"params\":{{{}}}}}", params.join(",")).into_bytes()
        }),
        prop::collection::vec(any::<u8>(), 0..200),
    ]
}

proptest! {
    /// Whatever the payload: no panic, and a target that comes out is legal and not reserved.
    #[test]
    fn no_payload_yields_an_illegal_target(payload in any_payload(), envelope in any_id()) {
        for request in [Request::from_control(&payload), Request::from_call(&payload, &envelope)] {
            if let Ok(Some(target)) = request.as_ref().map(Request::target) {
                prop_assert!(is_legal_by_grammar(target.as_str().as_bytes()) && !target.is_reserved());
            }
        }
        let twice = |key: &str| String::from_utf8_lossy(&payload).matches(&format!("\"{key}\":\"")).count() > 1;
        if ["ws_id", "after", "limit"].into_iter().any(twice) {
            prop_assert!(Request::from_control(&payload).is_err());
        }
    }

    #[test]
    fn only_forty_bytes_of_version_one_shake_hands(payload in prop::collection::vec(any::<u8>(), 0..64)) {
        let expected = match (payload.len(), payload.first_chunk::<4>()) {
            (40, Some([1, 0, 0, 0])) => None,
            (40, _) => Some(code::BAD_VERSION),
            _ => Some(code::BAD_HANDSHAKE_SIZE),
        };
        prop_assert_eq!(handshake::check(&payload).err(), expected);
    }

    #[test]
    fn the_validator_accepts_exactly_the_grammar(id in any_id()) {
        prop_assert_eq!(is_legal_ws_id(&id), is_legal_by_grammar(&id));
        prop_assert_eq!(WsId::parse(&id).is_ok(), is_legal_by_grammar(&id));
        if let Ok(target) = WsId::parse_target(&id) {
            prop_assert_eq!(target.as_str().as_bytes(), id.as_slice());
            prop_assert!(!target.is_reserved());
        }
    }

    /// Whatever 96 bytes are read as an envelope, they come out again, and judging them never panics.
    #[test]
    fn any_bytes_are_judged(bytes in prop::collection::vec(any::<u8>(), 96)) {
        let envelope = Envelope::read(&bytes).expect("96 bytes are an envelope");
        prop_assert_eq!(&frame::frame(&envelope, b""), &bytes);
        let whole = check::head(&envelope).and_then(|()| check::fields(&envelope));
        if let Ok(role) = whole {
            prop_assert_eq!(role.number(), envelope.role.get());
            prop_assert!(envelope.arming <= 1 && envelope.checksum.get() == 0);
            prop_assert!(is_legal_by_grammar(envelope.ws_id_text()));
        }
    }

    /// A reply to anything is itself a frame that passes the head checks and mirrors its request.
    #[test]
    fn replies_mirror_their_request(bytes in prop::collection::vec(any::<u8>(), 96), payload in prop::collection::vec(any::<u8>(), 0..100)) {
        let request = Envelope::read(&bytes).expect("96 bytes are an envelope");
        let mut out = Vec::new();
        request.reply_into(&payload, &mut out);
        let reply = Envelope::read(&out).expect("a reply has a head");
        prop_assert!(check::head(&reply).is_ok());
        prop_assert_eq!(reply.frame_len(), out.len());
        prop_assert_eq!(reply.command_id, request.command_id);
        prop_assert_eq!((reply.role, reply.arming, reply.pad), (request.role, request.arming, 0));
        let cut = |text: &[u8]| text[..text.len().min(35)].to_vec();
        prop_assert_eq!(reply.ws_id_text(), cut(request.ws_id_text()));
        prop_assert_eq!(reply.trace_id_text(), cut(request.trace_id_text()));
    }

    /// More authority never means less permission.
    #[test]
    fn authority_is_monotonic(role in 0_u16..3, armed in any::<bool>()) {
        let (lower, higher) = (Role::from_number(role).unwrap(), Role::from_number(role + 1).unwrap());
        let may = |role, armed| policy::check(policy::Needs::Authority, role, armed).is_ok();
        prop_assert!(!may(lower, armed) || may(higher, armed));
        prop_assert!(!may(lower, false));
        prop_assert!(policy::check(policy::Needs::Handshake, lower, armed).is_ok());
    }
}
