//! Any bytes as a handshake: forty of version one, or a refusal.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nexus_kernel::{code, handshake};

fuzz_target!(|payload: &[u8]| {
    match handshake::check(payload) {
        Ok(request) => {
            assert_eq!(payload.len(), handshake::REQUEST_BYTES);
            assert_eq!(request.client_version.get(), 1);
        }
        Err(reject) => assert!([code::BAD_HANDSHAKE_SIZE, code::BAD_VERSION].contains(&reject)),
    }
});
