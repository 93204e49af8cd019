//! Identity files of personas and of the person, and nothing else: names from a closed list, folders
//! through the path jail.

use nexus_base::file::Durability;
use nexus_base::jail::{EntryKind, Jail, JailError};
use nexus_protocol::control::answers::{AgentView, Agents};
use nexus_protocol::control::{FileOf, FileSet, FileView, FilesOf};
use nexus_workspace::persona::Slug;
use serde_json::{Value, json};

use super::{broken, invalid, missing, shown};
use crate::{Runtime, RuntimeError};

/// Files a persona has.
const PERSONA_FILES: &[&str] = &["IDENTITY.md", "SOUL.md"];
/// Files the person has.
const USER_FILES: &[&str] = &["IDENTITY.md"];
/// The name that means the person.
const USER: &str = "user";
/// Longest file read or written, in bytes.
const LONGEST: u64 = 64 * 1024;

impl Runtime {
    pub(super) fn agents_list(&self) -> Result<Value, RuntimeError> {
        let layout = &self.shared.control.options.layout;
        let active = self.shared.workshop.persona_name();
        let names = match Jail::open(&layout.agents()) {
            Ok(jail) => jail.names(".").map_err(|error| broken(&error))?,
            Err(error) if error.is_not_found() => Vec::new(),
            Err(error) => return Err(broken(&error)),
        };
        let agents: Vec<AgentView> = names
            .into_iter()
            .filter(|(_, kind)| *kind == EntryKind::Folder)
            .filter_map(|(name, _)| Slug::parse(name.to_str()?))
            .map(|slug| AgentView { agent: slug.as_str().to_owned(), active: slug.as_str() == active })
            .collect();
        shown(&Agents { agents })
    }

    pub(super) fn agent_files(&self, of: &FilesOf) -> Result<Value, RuntimeError> {
        let (jail, names) = self.folder(&of.agent)?;
        let mut files = Vec::new();
        for name in names {
            match jail.metadata(name) {
                Ok(found) => {
                    files.push(FileView { file: (*name).to_owned(), size: found.len, content: None })
                }
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(broken(&error)),
            }
        }
        shown(&json!({ "files": files }))
    }

    pub(super) fn agent_file(&self, of: &FileOf) -> Result<Value, RuntimeError> {
        let (jail, names) = self.folder(&of.agent)?;
        let name = known(names, &of.file)?;
        let bytes = jail.read(name, LONGEST).map_err(|error| problem(&error, &of.file))?;
        let content = String::from_utf8(bytes).map_err(|_| invalid(format!("{name} is not text")))?;
        let size = u64::try_from(content.len()).unwrap_or(u64::MAX);
        shown(&FileView { file: name.to_owned(), size, content: Some(content) })
    }

    pub(super) fn set_agent_file(&self, set: &FileSet) -> Result<Value, RuntimeError> {
        let (jail, names) = self.folder(&set.agent)?;
        let name = known(names, &set.file)?;
        let size = u64::try_from(set.content.len()).unwrap_or(u64::MAX);
        if size > LONGEST {
            return Err(invalid(format!("a file has at most {LONGEST} bytes")));
        }
        if self.redact(&set.content) != set.content {
            return Err(RuntimeError::Invalid {
                message: "the text holds something that looks like a secret".to_owned(),
                hint: Some(
                    "identity files reach every prompt; `nexus credential add` keeps secrets".to_owned(),
                ),
            });
        }
        jail.write_atomic(name, set.content.as_bytes(), 0o600, Durability::Crash)
            .map_err(|error| problem(&error, &set.file))?;
        shown(&FileView { file: name.to_owned(), size, content: None })
    }

    fn folder(&self, agent: &str) -> Result<(Jail, &'static [&'static str]), RuntimeError> {
        let layout = &self.shared.control.options.layout;
        let (folder, files) = if agent == USER {
            (layout.user(), USER_FILES)
        } else {
            let slug = Slug::parse(agent).ok_or_else(|| missing("agent", agent))?;
            (layout.persona(&slug), PERSONA_FILES)
        };
        match Jail::open(&folder) {
            Ok(jail) => Ok((jail, files)),
            Err(error) if error.is_not_found() => Err(missing("agent", agent)),
            Err(error) => Err(broken(&error)),
        }
    }
}

fn known(names: &'static [&'static str], asked: &str) -> Result<&'static str, RuntimeError> {
    names.iter().find(|name| **name == asked).copied().ok_or_else(|| RuntimeError::Forbidden {
        reason: format!("only identity files can be reached here: {}", names.join(", ")),
    })
}

fn problem(error: &JailError, name: &str) -> RuntimeError {
    if error.is_not_found() { missing("file", name) } else { broken(error) }
}
