//! Any bytes as a payload, in both spellings: no panic, and no target that is illegal or reserved.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nexus_kernel::{Request, is_legal_ws_id};

fuzz_target!(|payload: &[u8]| {
    for request in [Request::from_control(payload), Request::from_call(payload, b"system")] {
        let Ok(request) = request else { continue };
        if let Some(target) = request.target() {
            assert!(is_legal_ws_id(target.as_str().as_bytes()));
            assert!(!target.is_reserved());
        }
    }
});
