use nexus_kernel::frame::{self, Envelope, command};
use nexus_kernel::{Role, code};

#[test]
fn the_envelope_lies_on_the_wire_as_documented() {
    let envelope =
        Envelope::request(command::CONTROL, b"ws", b"trace", 3).with_authority(Role::Operator, true);
    let bytes = frame::frame(&envelope, b"{}\n");
    assert_eq!(bytes.len(), 99);
    assert_eq!(&bytes[..8], b"\x50\x49\x41\x59\x01\0\0\0");
    assert_eq!(&bytes[8..12], b"ws\0\0");
    assert_eq!(&bytes[44..50], b"trace\0");
    assert_eq!(&bytes[80..96], b"\x04\x01\0\0\x02\0\x01\0\x03\0\0\0\0\0\0\0");
    assert_eq!(&bytes[96..], b"{}\n");
}

#[test]
fn numbers_and_reasons_are_stable() {
    let text: Vec<String> = code::ALL_REJECTS.iter().map(ToString::to_string).collect();
    assert_eq!(
        text.join("\n"),
        "100 bad_magic
101 bad_version
102 bad_ws_id
102 reserved_ws_id
103 payload_too_big
103 bad_handshake_payload_size
104 bad_checksum
200 need_handshake
201 arming_required
201 arming_flag_invalid
202 role_required
202 role_invalid
202 peer_not_owner
300 jail_violation
500 bad_request
500 unknown_method
500 unknown_command
500 unsupported_workspace_action
500 not_a_workspace
500 workspace_in_use
500 workspace_stop_failed
500 workspace_init_failed
500 workspace_init_unavailable
500 no_space
500 storage_failed
500 too_many_connections
500 kernel_connect_failed
500 kernel_handshake_write_failed
500 kernel_handshake_read_failed
500 kernel_write_failed
500 kernel_read_failed"
    );
}

#[test]
fn an_error_payload_has_its_keys_in_order_and_no_spaces() {
    assert_eq!(code::BAD_MAGIC.payload(), r#"{"status":"error","code":100,"reason":"bad_magic"}"#);
}
