//! Personas, and identity files of theirs and of the person: names from a closed list, folders through the path jail.

use nexus_base::file::Durability;
use nexus_base::jail::{EntryKind, Jail, JailError};
use nexus_protocol::control::answers::{AgentView, Agents, IdentityView};
use nexus_protocol::control::{FileOf, FileSet, FileView, FilesOf, Nothing};
use nexus_workspace::Layout;
use nexus_workspace::persona::{Slug, active_persona};
use serde_json::{Value, json};

use crate::call::{Call, internal, invalid, missing, typed};
use crate::{RuntimeError, report};

/// Files a persona has.
const PERSONA_FILES: &[&str] = &["IDENTITY.md", "SOUL.md"];
/// Files the person has.
const USER_FILES: &[&str] = &["IDENTITY.md"];
/// The name that means the person.
const USER: &str = "user";
/// Longest file read or written, in bytes.
const MAX_LEN: u64 = 64 * 1024;

pub(crate) async fn list(call: &Call<'_>, _: Nothing) -> Result<Agents, RuntimeError> {
    let settings = call.settings()?;
    let active = active_persona(call.layout(), &settings).ok().flatten().map(|persona| persona.slug);
    let names = match Jail::open(&call.layout().agents()) {
        Ok(jail) => jail.names(".").map_err(|error| internal(&error))?,
        Err(error) if error.is_not_found() => Vec::new(),
        Err(error) => return Err(internal(&error)),
    };
    let agents = names
        .into_iter()
        .filter(|(_, kind)| *kind == EntryKind::Folder)
        .filter_map(|(name, _)| Slug::parse(name.to_str()?))
        .map(|slug| AgentView { agent: slug.as_str().to_owned(), active: active.as_ref() == Some(&slug) })
        .collect();
    Ok(Agents { agents })
}

pub(crate) async fn identity(call: &Call<'_>, _: Nothing) -> Result<IdentityView, RuntimeError> {
    let settings = call.settings()?;
    typed(&report::identity(call.layout(), &settings).map_err(|error| internal(&error))?)
}

pub(crate) async fn files(call: &Call<'_>, of: FilesOf) -> Result<Value, RuntimeError> {
    let place = place(call.layout(), &of.agent)?;
    let mut files = Vec::new();
    for name in place.files {
        match place.jail.metadata(place.path(name)) {
            Ok(found) => files.push(FileView { file: (*name).to_owned(), size: found.len, content: None }),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(internal(&error)),
        }
    }
    Ok(json!({ "files": files }))
}

pub(crate) async fn file(call: &Call<'_>, of: FileOf) -> Result<FileView, RuntimeError> {
    let place = place(call.layout(), &of.agent)?;
    let name = known(place.files, &of.file)?;
    let bytes = place.jail.read(place.path(name), MAX_LEN).map_err(|error| problem(&error, &of.file))?;
    let content = String::from_utf8(bytes).map_err(|_| invalid(format!("{name} is not text")))?;
    let size = u64::try_from(content.len()).unwrap_or(u64::MAX);
    Ok(FileView { file: name.to_owned(), size, content: Some(content) })
}

pub(crate) async fn set_file(call: &Call<'_>, set: FileSet) -> Result<FileView, RuntimeError> {
    let place = place(call.layout(), &set.agent)?;
    let name = known(place.files, &set.file)?;
    let size = u64::try_from(set.content.len()).unwrap_or(u64::MAX);
    if size > MAX_LEN {
        return Err(invalid(format!("a file may have at most {MAX_LEN} bytes")));
    }
    if call.redact(&set.content) != set.content {
        return Err(RuntimeError::Invalid {
            message: "the text contains something that looks like a secret".to_owned(),
            hint: Some(
                "identity files are part of every prompt; store secrets with `nexus credential add`"
                    .to_owned(),
            ),
        });
    }
    place
        .jail
        .write_atomic(place.path(name), set.content.as_bytes(), 0o600, Durability::Crash)
        .map_err(|error| problem(&error, &set.file))?;
    Ok(FileView { file: name.to_owned(), size, content: None })
}

fn place(layout: &Layout, agent: &str) -> Result<Place, RuntimeError> {
    let (above, folder, files) = if agent == USER {
        (layout.state().to_owned(), USER.to_owned(), USER_FILES)
    } else {
        let slug = Slug::parse(agent).ok_or_else(|| missing("agent", agent))?;
        (layout.agents(), slug.as_str().to_owned(), PERSONA_FILES)
    };
    let found = Jail::open(&above).and_then(|jail| Ok((jail.metadata(&folder)?.kind, jail)));
    match found {
        // A link would lead somewhere else, and the jail would refuse every file behind it.
        Ok((EntryKind::Folder, jail)) => Ok(Place { jail, folder, files }),
        Ok((EntryKind::File | EntryKind::Symlink | EntryKind::Other, _)) => Err(missing("agent", agent)),
        Err(error) if error.is_not_found() => Err(missing("agent", agent)),
        Err(error) => Err(internal(&error)),
    }
}

/// A folder of identity files, seen from the one above it: the jail never follows a link below its root,
/// and a folder that is one must not become that root.
struct Place {
    jail: Jail,
    folder: String,
    files: &'static [&'static str],
}

impl Place {
    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }
}

fn known(names: &'static [&'static str], asked: &str) -> Result<&'static str, RuntimeError> {
    names.iter().find(|name| **name == asked).copied().ok_or_else(|| RuntimeError::Forbidden {
        reason: format!("only identity files are available here: {}", names.join(", ")),
    })
}

fn problem(error: &JailError, name: &str) -> RuntimeError {
    if error.is_not_found() { missing("file", name) } else { internal(error) }
}
