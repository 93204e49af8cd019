//! The daemon's figures in the text format scrapers read. Written by hand: a dozen lines need no
//! registry that lives as long as the process.

use std::fmt::Write as _;

use nexus_protocol::status::Health;

use crate::Operations;

impl Operations {
    /// Returns the figures of the daemon; the server adds its own.
    pub fn metrics(&self) -> String {
        let (active, ended, mean) = self.daemon().counters.read();
        let up = match self.health() {
            Health::Healthy | Health::Degraded => 1,
            Health::Starting | Health::Unhealthy | Health::Stopping => 0,
        };
        let mut text = String::with_capacity(2_048);
        let version = env!("CARGO_PKG_VERSION");
        family(&mut text, "nexus_build_info", "gauge", "Version of the program.");
        let _ = writeln!(text, "nexus_build_info{{version=\"{version}\"}} 1");
        one(&mut text, "nexus_up", "gauge", "Whether the daemon serves.", up);
        let seconds = self.daemon().lifecycle.uptime().as_secs();
        one(&mut text, "nexus_uptime_seconds", "gauge", "Seconds since start.", seconds);
        one(&mut text, "nexus_requests_active", "gauge", "Requests accepted and not ended.", active);
        one(&mut text, "nexus_requests_total", "counter", "Requests ended.", ended);
        one(
            &mut text,
            "nexus_request_latency_mean_milliseconds",
            "gauge",
            "Mean time of ended requests.",
            mean,
        );
        if let Some(bytes) = resident_bytes() {
            one(&mut text, "nexus_resident_memory_bytes", "gauge", "Memory in use.", bytes);
        }
        family(&mut text, "nexus_database_up", "gauge", "Whether a database works.");
        let databases = self.store().health();
        for database in &databases {
            let works = u8::from(database.trouble.is_none());
            let _ = writeln!(text, "nexus_database_up{{database=\"{}\"}} {works}", database.name);
        }
        family(&mut text, "nexus_database_writes_lost_total", "counter", "Trace writes that were lost.");
        for database in &databases {
            let lost = database.failed_later;
            let _ =
                writeln!(text, "nexus_database_writes_lost_total{{database=\"{}\"}} {lost}", database.name);
        }
        text
    }
}

fn one(text: &mut String, name: &str, kind: &str, help: &str, value: u64) {
    family(text, name, kind, help);
    let _ = writeln!(text, "{name} {value}");
}

fn family(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Where the system tells: Linux.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}
