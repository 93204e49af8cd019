//! Who listens on a port of this machine, as far as this user may see.

use std::fs;
use std::path::Path;

/// State of a listening socket in the kernel's table.
const LISTENING: &str = "0A";
/// Where a table row keeps the local address, the state and the socket's number.
const ADDRESS_FIELD: usize = 1;
const STATE_FIELD: usize = 3;
const NUMBER_FIELD: usize = 9;

/// Returns the process that listens on `port`, if it can be seen. Only ever an aid for a message.
pub fn listener_of(port: u16) -> Option<u32> {
    let numbers: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .into_iter()
        .flat_map(|table| sockets(Path::new(table), port))
        .collect();
    if numbers.is_empty() {
        return None;
    }
    let links: Vec<String> = numbers.iter().map(|number| format!("socket:[{number}]")).collect();
    fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let process: u32 = entry.file_name().to_str()?.parse().ok()?;
        let open = fs::read_dir(entry.path().join("fd")).ok()?;
        let holds = open.flatten().any(|file| {
            fs::read_link(file.path())
                .is_ok_and(|target| links.iter().any(|link| target.as_os_str() == link.as_str()))
        });
        holds.then_some(process)
    })
}

fn sockets(table: &Path, port: u16) -> Vec<String> {
    let suffix = format!(":{port:04X}");
    let text = fs::read_to_string(table).unwrap_or_default();
    text.lines()
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let matches =
                fields.get(ADDRESS_FIELD)?.ends_with(&suffix) && *fields.get(STATE_FIELD)? == LISTENING;
            matches.then(|| fields.get(NUMBER_FIELD).map(|number| (*number).to_owned()))?
        })
        .collect()
}
