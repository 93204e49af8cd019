//! Bytes of a WebSocket frame: reading them never panics, a refusal has a stable code and its answer
//! is valid JSON, and what was taken is read again to the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nexus_protocol::error::ErrorCode;
use nexus_protocol::methods::Method;
use nexus_protocol::ws::{LONGEST_FRAME, read_request};

fuzz_target!(|bytes: &[u8]| match read_request(bytes) {
    Ok(frame) => {
        let _ = Method::find(&frame.method);
        let again = serde_json::to_vec(&frame).expect("a frame is JSON");
        if again.len() <= LONGEST_FRAME {
            assert_eq!(read_request(&again).expect("written by us"), frame);
        }
    }
    Err(error) => {
        assert!(matches!(error.code(), ErrorCode::InvalidRequest | ErrorCode::TooLarge));
        serde_json::to_string(&error.to_response()).expect("an answer is JSON");
    }
});
