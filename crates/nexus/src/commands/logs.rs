//! `nexus logs`: the daemon's log, readable, and on demand as it grows.

use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use nexus_base::file;
use serde_json::{Map, Value};

use crate::context::Context;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{self, single_line};

/// How far back the search for the last lines goes, in bytes.
const MAX_LOOK_LEN: u64 = 4 * 1024 * 1024;
/// Pause between looks for new lines.
const PAUSE: Duration = Duration::from_millis(200);

/// Arguments of `nexus logs`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  nexus logs -n 100\n  nexus logs -f --json")]
pub(crate) struct Arguments {
    /// Keep printing new lines until Ctrl-C
    #[arg(short, long)]
    follow: bool,
    /// Number of lines
    #[arg(short = 'n', long, default_value_t = 50, value_name = "COUNT")]
    lines: usize,
    /// Print the stored JSON lines
    #[arg(long)]
    json: bool,
}

/// Runs `nexus logs`.
pub(crate) fn run(context: &Context, arguments: &Arguments) -> Outcome {
    let path = context.existing()?.log_file();
    let failed = |error: std::io::Error| Failure::new(format!("reading {}: {error}", path.display()));
    let file = file::open_read(&path).map_err(|error| match error.is_not_found() {
        true => Failure::new(format!("no log at {}", path.display()))
            .hint("the log appears once a daemon has run; nexus start starts one")
            .exit(Exit::Missing),
        false => failed(error.source),
    })?;
    let mut reader = BufReader::new(file);
    for line in last_lines(&mut reader, arguments.lines).map_err(failed)? {
        print(&line, arguments.json)?;
    }
    if arguments.follow { follow(&path, reader, arguments.json) } else { Ok(()) }
}

fn last_lines(reader: &mut BufReader<File>, count: usize) -> std::io::Result<Vec<String>> {
    let length = reader.get_ref().metadata()?.len();
    let start = length.saturating_sub(MAX_LOOK_LEN);
    reader.seek(SeekFrom::Start(start))?;
    let mut kept = std::collections::VecDeque::new();
    let mut first = start > 0;
    let mut bytes = Vec::new();
    while reader.read_until(b'\n', &mut bytes)? > 0 {
        // A look that began in the middle begins in the middle of a line.
        if !std::mem::take(&mut first) {
            kept.push_back(String::from_utf8_lossy(&bytes).trim_end().to_owned());
        }
        if kept.len() > count {
            kept.pop_front();
        }
        bytes.clear();
    }
    Ok(kept.into())
}

fn follow(path: &Path, mut reader: BufReader<File>, json: bool) -> Outcome {
    let failed = |error: std::io::Error| Failure::new(format!("reading {}: {error}", path.display()));
    let mut bytes = Vec::new();
    loop {
        if reader.read_until(b'\n', &mut bytes).map_err(failed)? > 0 {
            // A line that is still being written is finished by a later look.
            if bytes.ends_with(b"\n") {
                print(String::from_utf8_lossy(&bytes).trim_end(), json)?;
                bytes.clear();
            }
            continue;
        }
        // A fresh file in the same place means that the daemon began a new log.
        let here = reader.get_ref().metadata().map_err(failed)?.ino();
        if std::fs::metadata(path).is_ok_and(|now| now.ino() != here)
            && let Ok(file) = file::open_read(path)
        {
            reader = BufReader::new(file);
            bytes.clear();
            continue;
        }
        std::thread::sleep(PAUSE);
    }
}

fn print(line: &str, json: bool) -> Outcome {
    match serde_json::from_str::<Map<String, Value>>(line) {
        Ok(fields) if !json => output::line(&readable(&fields)),
        _ => output::line(&output::harmless(line)),
    }
}

/// Renders a stored line as `time LEVEL message key=value`.
fn readable(fields: &Map<String, Value>) -> String {
    let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
    let mut line = format!("{} {:<5} {}", text("ts"), text("level").to_uppercase(), text("msg"));
    for (name, value) in fields {
        if matches!(name.as_str(), "ts" | "level" | "msg" | "target") {
            continue;
        }
        match value {
            Value::String(text) => line.push_str(&format!(" {name}={text}")),
            other => line.push_str(&format!(" {name}={other}")),
        }
    }
    single_line(&line)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn the_last_lines_come_in_order() {
        let mut file = tempfile::tempfile().unwrap();
        for number in 0..10 {
            writeln!(file, "line {number}").unwrap();
        }
        let mut reader = BufReader::new(file);
        assert_eq!(last_lines(&mut reader, 2).unwrap(), vec!["line 8", "line 9"]);
        assert_eq!(last_lines(&mut reader, 0).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn stored_lines_become_readable() {
        let line =
            r#"{"ts":"2026-01-01T00:00:00Z","level":"warn","target":"x","msg":"slow","ms":12,"step":"open"}"#;
        let fields: Map<String, Value> = serde_json::from_str(line).unwrap();
        assert_eq!(readable(&fields), "2026-01-01T00:00:00Z WARN slow ms=12 step=open");
    }
}
