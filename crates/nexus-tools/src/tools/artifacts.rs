//! Results that are too long for a model: beginning and end are told, the whole is kept as a file.
//!
//! The files lie in `state/artifacts`, readable by the owner alone, and are few: the oldest go first.
//! A model reads one under the name `artifact:ID`, a piece at a time.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use nexus_base::failpoint;
use nexus_base::file::Durability;
use nexus_base::id::new_ulid;
use nexus_base::jail::{Jail, JailError};
use nexus_workspace::Layout;

use super::arguments::cut;

/// What a model writes before an artifact's id.
pub(super) const SCHEME: &str = "artifact:";

/// The most bytes of a result a model is told.
const SHOWN: usize = 32 * 1024;
/// How many of them are the beginning.
const SHOWN_HEAD: usize = 20 * 1024;
/// The longest text kept; the rest of a longer one is gone, and the file says so.
const MAX_LEN: usize = 8 * 1024 * 1024;
/// The most files kept.
const MAX_FILES: usize = 200;
/// The most bytes kept in all.
const MAX_BYTES: u64 = 64 * 1024 * 1024;
const ID_LENGTH: usize = 26;
/// Ends of file names: words nobody vouches for stay marked.
const OWN: &str = "txt";
const OUTSIDE: &str = "untrusted.txt";

/// The kept results of a workspace.
#[derive(Debug)]
pub struct Artifacts {
    jail: Jail,
    /// Two results that end at once must not clear the folder at once.
    clearing: Mutex<()>,
}

/// A kept result.
#[derive(Debug)]
pub(super) struct Artifact {
    pub(super) file: std::fs::File,
    /// Nobody vouches for its words.
    pub(super) untrusted: bool,
}

impl Artifacts {
    /// What a model writes before an artifact's id.
    pub const SCHEME: &'static str = SCHEME;
    /// How long such an id is.
    pub const ID_LENGTH: usize = ID_LENGTH;

    /// Opens the folder of a workspace, making it if it is missing.
    ///
    /// # Errors
    /// It cannot be made or opened.
    pub fn at(layout: &Layout) -> Result<Self, JailError> {
        let state = Jail::open(layout.state())?;
        state.create_dir_all("artifacts", 0o700)?;
        Ok(Self { jail: state.sub("artifacts")?, clearing: Mutex::new(()) })
    }

    /// Shortens a text that is too long, keeping the whole; any other comes back as it is.
    pub async fn fit(self: &Arc<Self>, text: String, untrusted: bool) -> String {
        if text.len() <= SHOWN {
            return text;
        }
        let own = Arc::clone(self);
        let kept = tokio::task::spawn_blocking(move || {
            let id = own.keep(&text, untrusted);
            (text, id)
        });
        match kept.await {
            Ok((text, Ok(id))) => {
                shorten(&text, &format!("the full result is {SCHEME}{id}; read it with offset and limit"))
            }
            Ok((text, Err(error))) => {
                tracing::warn!(%error, "long tool result not stored");
                shorten(&text, "the rest could not be stored")
            }
            Err(error) => format!("[the result was lost: {error}]"),
        }
    }

    /// Keeps a text and returns its id.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn keep(&self, text: &str, untrusted: bool) -> Result<String, JailError> {
        let id = new_ulid();
        let (kept, was_cut) = cut(text, MAX_LEN);
        let mut content = kept.to_owned();
        if was_cut {
            content.push_str(&format!("\n[{} more bytes were not stored]\n", text.len() - kept.len()));
        }
        let end = if untrusted { OUTSIDE } else { OWN };
        self.jail.write_atomic(format!("{id}.{end}"), content.as_bytes(), 0o600, Durability::Crash)?;
        failpoint::hit("artifact.kept");
        self.clear();
        Ok(id)
    }

    /// Opens a kept text by what a model wrote; the error is for the model.
    pub(super) fn open(&self, name: &str) -> Result<Artifact, String> {
        let id = name.strip_prefix(SCHEME).unwrap_or(name);
        if id.len() != ID_LENGTH || !id.bytes().all(|character| character.is_ascii_alphanumeric()) {
            return Err(format!(
                "{name} is not the name of a stored result; such names look like {SCHEME}01J…"
            ));
        }
        for (end, untrusted) in [(OWN, false), (OUTSIDE, true)] {
            match self.jail.open_file(format!("{id}.{end}")) {
                Ok(file) => return Ok(Artifact { file, untrusted }),
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(format!("{name} cannot be read: {error}")),
            }
        }
        Err(format!("{name} is no longer stored; run the call again"))
    }

    /// Removes the oldest beyond what may be kept.
    fn clear(&self) {
        let _one = self.clearing.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(mut entries) = self.jail.list(Path::new(".")) else { return };
        // Ids sort by the moment they were made.
        entries.sort_unstable_by(|left, right| right.name.cmp(&left.name));
        let mut bytes = 0;
        for (number, entry) in entries.iter().enumerate() {
            bytes += entry.len;
            if number >= MAX_FILES || bytes > MAX_BYTES {
                // What cannot be removed now is tried again with the next one.
                let _ = self.jail.remove_file(PathBuf::from(&entry.name));
            }
        }
    }
}

fn shorten(text: &str, where_the_rest_is: &str) -> String {
    let (head, _) = cut(text, SHOWN_HEAD);
    let head = head.rfind('\n').filter(|end| *end > SHOWN_HEAD / 2).map_or(head, |end| &head[..=end]);
    let tail = &text[text.ceil_char_boundary(text.len() - (SHOWN - SHOWN_HEAD))..];
    let tail = tail.find('\n').filter(|end| *end < tail.len() / 2).map_or(tail, |end| &tail[end + 1..]);
    let cut = text.len() - head.len() - tail.len();
    let line = if head.ends_with('\n') { "" } else { "\n" };
    format!("{head}{line}[… {cut} bytes cut here; {where_the_rest_is} …]\n{tail}")
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn folder() -> (tempfile::TempDir, Arc<Artifacts>) {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(folder.path());
        nexus_base::file::create_folder(layout.state(), 0o700).unwrap();
        let artifacts = Artifacts::at(&layout).unwrap();
        (folder, Arc::new(artifacts))
    }

    #[tokio::test]
    async fn a_long_text_is_told_in_part_and_kept_whole() {
        let (folder, artifacts) = folder();
        assert_eq!(artifacts.fit("short".to_owned(), false).await, "short");
        let text: String = (0..20_000).map(|number| format!("line {number}\n")).collect();
        let told = artifacts.fit(text.clone(), true).await;
        assert!(told.len() < SHOWN + 200 && told.starts_with("line 0\n") && told.ends_with("line 19999\n"));
        let name = told.split("the full result is ").nth(1).unwrap().split(';').next().unwrap();
        let mut kept = artifacts.open(name).unwrap();
        let mut content = String::new();
        kept.file.read_to_string(&mut content).unwrap();
        assert!(kept.untrusted && content == text);
        let path = std::fs::read_dir(folder.path().join("state/artifacts")).unwrap().next().unwrap().unwrap();
        let mode = std::os::unix::fs::PermissionsExt::mode(&path.metadata().unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn only_ids_are_opened_and_the_oldest_go() {
        let (folder, artifacts) = folder();
        for name in ["artifact:../config.json", "artifact:", "artifact:x/y", "artifact:01J"] {
            assert!(artifacts.open(name).unwrap_err().contains("is not the name"), "{name}");
        }
        let first = artifacts.keep("first", false).unwrap();
        for number in 0..MAX_FILES {
            artifacts.keep(&number.to_string(), false).unwrap();
        }
        assert_eq!(std::fs::read_dir(folder.path().join("state/artifacts")).unwrap().count(), MAX_FILES);
        assert!(artifacts.open(&format!("{SCHEME}{first}")).unwrap_err().contains("no longer stored"));
    }
}
