//! Many sockets at once: every accepted message is answered once, also while the configuration is read
//! again, the token is replaced, and a backup is taken, restored and started under them. `cargo xtask
//! soak gateway` does the same with two hundred.

use std::path::Path;

#[test]
fn reload_rotation_and_restore_under_load_lose_nothing() {
    let report = nexus_testkit::load::run(Path::new(env!("CARGO_BIN_EXE_nexus")), 20, 6);
    assert_eq!(report.messages, 120);
    assert!(report.peak_kilobytes < 200 * 1024, "{report:?}");
}
