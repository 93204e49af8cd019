//! Bytes of a WebSocket frame: reading them never panics, a refusal has a stable code and its answer
//! is valid JSON, and what was taken is read again to the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nexus_protocol::error::ErrorCode;
use nexus_protocol::methods::Method;
use nexus_protocol::ws::{MAX_FRAME_LEN, read_request};
use serde_json::Value;

fuzz_target!(|bytes: &[u8]| match read_request(bytes) {
    Ok(frame) => {
        let _ = Method::find(&frame.method);
        let again = serde_json::to_vec(&frame).expect("a frame is JSON");
        if again.len() <= MAX_FRAME_LEN {
            let second = read_request(&again).expect("written by us");
            // The last digit of a number that is no integer may differ; everything else may not.
            if frame.params.as_ref().is_none_or(|params| !has_fractions(params)) {
                assert_eq!(second, frame);
            }
        }
    }
    Err(error) => {
        assert!(matches!(error.code(), ErrorCode::InvalidRequest | ErrorCode::TooLarge));
        serde_json::to_string(&error.to_response()).expect("an answer is JSON");
    }
});

fn has_fractions(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(list) => list.iter().any(has_fractions),
        Value::Object(members) => members.values().any(has_fractions),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}
