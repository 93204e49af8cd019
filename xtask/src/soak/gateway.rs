//! Two hundred sockets with fifty messages each, through a reload, a rotation and a restore.

use std::path::Path;

use anyhow::{Result, ensure};
use nexus_testkit::load;

use crate::command::{self, Profile};

/// Most memory the daemon may have, in kilobytes.
const BAR: u64 = 200 * 1024;

/// Runs the load and prints what it found; whatever is lost, doubled or out of order ends it.
pub(crate) fn run(clients: usize, messages: usize, binary: Option<&Path>) -> Result<()> {
    let binary = command::nexus(binary, Profile::Release)?;
    println!("soak gateway: {clients} sockets, {messages} messages each, {}", binary.display());
    let report = load::run(&binary, clients, messages);
    println!(
        "answered    {} of {} in {:.1} s",
        report.messages,
        clients * messages,
        report.took.as_secs_f64()
    );
    println!(
        "time        p50 {:.0} ms, p95 {:.0} ms from sending to everything answered",
        report.p50.as_secs_f64() * 1e3,
        report.p95.as_secs_f64() * 1e3
    );
    println!("memory      {} MB at most, bar {} MB", report.peak_kilobytes / 1024, BAR / 1024);
    println!("sockets     {} had to connect again after the rotation", report.reconnects);
    println!(
        "the copy    {} messages held, {} pieces of work ended, talks",
        report.held_in_copy, report.ended_in_copy
    );
    ensure!(report.peak_kilobytes <= BAR, "more memory than the bar allows");
    Ok(())
}
