//! command-logger: one line for every command an agent ran, in files that never grow for ever.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use nexus_base::clock::Timestamp;
use nexus_base::failpoint;
use nexus_base::file::{self, FileError};
use nexus_base::redact::Redactor;
use serde_json::{Value, json};

use crate::ports::{Handler, Run, RunError};
use crate::verdict::Verdict;

/// Bytes after which a new file is begun.
const MAX_SIZE: u64 = 4 * 1024 * 1024;
/// Older files that are kept.
const KEPT: u32 = 4;
/// How much of a command is written down.
const KEPT_COMMAND: usize = 4 * 1024;

/// Writes the audit trail of commands.
#[derive(Debug)]
pub struct CommandLogger {
    path: PathBuf,
    redactor: Arc<Redactor>,
    largest: u64,
    /// One line at a time; the file may be exchanged between two.
    writing: Arc<Mutex<()>>,
}

impl CommandLogger {
    /// Writes to `path`, everything through the redactor.
    pub fn new(path: PathBuf, redactor: Arc<Redactor>) -> Self {
        Self { path, redactor, largest: MAX_SIZE, writing: Arc::default() }
    }

    fn line(&self, run: &Run) -> String {
        let data = &run.occasion.data;
        let command = data.get("command").and_then(Value::as_str).unwrap_or_default();
        let cut = &command[..command.floor_char_boundary(KEPT_COMMAND)];
        let line = json!({
            "ts": Timestamp::now().to_local_rfc3339(),
            "who": run.occasion.principal.as_ref().map(|who| who.kind.as_str()),
            "session": run.occasion.session,
            "request": run.occasion.request_id,
            "tool": data.get("tool"),
            "folder": data.get("folder"),
            "command": cut,
            "commandBytes": command.len(),
            "exitCode": data.get("exit_code"),
            "outcome": data.get("outcome"),
            "durationMs": data.get("duration_ms"),
            "outputSha256": data.get("output_sha256"),
            "outputBytes": data.get("output_bytes"),
        });
        self.redactor.redact(&line.to_string())
    }
}

#[async_trait]
impl Handler for CommandLogger {
    async fn run(&self, run: &Run) -> Result<Verdict, RunError> {
        let (path, line, largest) = (self.path.clone(), self.line(run), self.largest);
        let writing = Arc::clone(&self.writing);
        let written = tokio::task::spawn_blocking(move || {
            let _alone = writing.lock().unwrap_or_else(PoisonError::into_inner);
            append(&path, &line, largest)
        });
        match written.await {
            Ok(Ok(())) => Ok(Verdict { fired: true, ..Verdict::default() }),
            Ok(Err(error)) => Err(RunError(format!("writing {}: {error}", self.path.display()))),
            Err(error) => Err(RunError(error.to_string())),
        }
    }
}

fn append(path: &Path, line: &str, largest: u64) -> Result<(), FileError> {
    if let Some(folder) = path.parent() {
        file::create_folder(folder, 0o700)?;
    }
    let length = std::fs::symlink_metadata(path).map(|file| file.len()).unwrap_or(0);
    if length > 0 && length + line.len() as u64 > largest {
        rotate(path)?;
    }
    let mut file = file::open_append(path, 0o600)?;
    file.write_all(format!("{line}\n").as_bytes())
        .map_err(|error| FileError::new("appending to", path, error))?;
    failpoint::hit("automation.command_logged");
    Ok(())
}

/// Moves each file one place back; the oldest goes.
fn rotate(path: &Path) -> Result<(), FileError> {
    let place = |number: u32| match number {
        0 => path.to_owned(),
        number => PathBuf::from(format!("{}.{number}", path.display())),
    };
    for number in (0..KEPT).rev() {
        match file::rename(&place(number), &place(number + 1)) {
            Err(error) if !error.is_not_found() => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_exchanged_and_the_oldest_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("logs/commands.jsonl");
        for number in 0..40 {
            append(&path, &format!("{{\"number\":{number:02}}}"), 64).unwrap();
        }
        let mut names: Vec<String> = std::fs::read_dir(path.parent().unwrap())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(
            names,
            [
                "commands.jsonl",
                "commands.jsonl.1",
                "commands.jsonl.2",
                "commands.jsonl.3",
                "commands.jsonl.4"
            ]
        );
        let newest = std::fs::read_to_string(&path).unwrap();
        assert!(newest.ends_with("{\"number\":39}\n"), "{newest}");
        let before = std::fs::read_to_string(path.with_extension("jsonl.1")).unwrap();
        let last = before.lines().last().unwrap().to_owned();
        let first = newest.lines().next().unwrap().to_owned();
        let number = |line: &str| line[10..12].parse::<u32>().unwrap();
        assert_eq!(number(&first), number(&last) + 1, "no line is lost between two files");
    }
}
