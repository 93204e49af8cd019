//! The last lines of the daemon's own log.

use std::io::{Read, Seek, SeekFrom};

use nexus_protocol::control::LogsTail;
use nexus_protocol::control::answers::{LogLine, LogLines};
use serde_json::Map;

use crate::RuntimeError;
use crate::call::{Call, DEFAULT_ROWS, MAX_ROWS, internal, invalid};

/// How far back is looked, in bytes.
const MAX_LOOK_LEN: u64 = 256 * 1024;

pub(crate) async fn tail(call: &Call<'_>, tail: LogsTail) -> Result<LogLines, RuntimeError> {
    let lines = tail.lines.unwrap_or(DEFAULT_ROWS);
    if lines == 0 || lines > MAX_ROWS {
        return Err(invalid(format!("lines must be between 1 and {MAX_ROWS}")));
    }
    let path = call.layout().log_file();
    let read = tokio::task::spawn_blocking(move || last(&path)).await;
    let text = match read {
        Ok(Ok(text)) => text,
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Ok(Err(error)) => return Err(internal(&error)),
        Err(error) => return Err(internal(&error)),
    };
    let all: Vec<&str> = text.lines().collect();
    // Stored as JSON lines; one that is cut or foreign is given as text.
    let lines = all[all.len().saturating_sub(lines)..]
        .iter()
        .map(|line| {
            let foreign = || LogLine { ts: None, level: None, msg: (*line).to_owned(), fields: Map::new() };
            serde_json::from_str(line).unwrap_or_else(|_| foreign())
        })
        .collect();
    Ok(LogLines { lines })
}

fn last(path: &std::path::Path) -> std::io::Result<String> {
    let mut file = nexus_base::file::open_read(path).map_err(|error| error.source)?;
    let length = file.metadata()?.len();
    let start = length.saturating_sub(MAX_LOOK_LEN);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(MAX_LOOK_LEN).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    // A look that began in the middle begins in the middle of a line.
    let whole = if start == 0 { 0 } else { text.find('\n').map_or(text.len(), |end| end + 1) };
    Ok(text[whole..].to_owned())
}
