//! `artifact_write`: a file for others to read, below `.nexus/state/artifacts/` whatever its name says.

use std::path::PathBuf;

use nexus_base::failpoint;
use nexus_base::file::{self, Durability};
use nexus_base::jail::Jail;
use serde_json::{Value, json};

use super::arguments::Arguments;
use crate::document::FILE_MODE;
use crate::{Project, ProjectError};

/// Longest artifact, in bytes.
const MAX_LEN: usize = 8 * 1024 * 1024;
/// Longest name, in bytes.
const MAX_NAME_LEN: usize = 1024;
const FOLDER_MODE: u32 = 0o755;

pub(super) fn write(project: &Project, arguments: &Arguments<'_>) -> Result<Value, ProjectError> {
    let missing = |name: &str| ProjectError::Parameter(format!("{name} is required"));
    let name = arguments.text_up_to("filename", MAX_NAME_LEN)?.ok_or_else(|| missing("filename"))?;
    let content = arguments.text_up_to("content", MAX_LEN)?.ok_or_else(|| missing("content"))?;
    let path: PathBuf =
        name.split(['/', '\\']).filter(|segment| !matches!(*segment, "" | "." | "..")).collect();
    if path.as_os_str().is_empty() {
        return Err(ProjectError::Parameter("filename does not name a file".to_owned()));
    }
    if name.contains('\0') {
        return Err(ProjectError::Parameter("filename must not contain a NUL".to_owned()));
    }
    // The folders of a first write, so that git never sees artifacts.
    if !project.check()? {
        drop(project.write_lock(&[])?);
    }
    file::create_folder(&project.state(), FOLDER_MODE)?;
    let state = Jail::open(&project.state())?;
    state.create_dir_all("artifacts", FOLDER_MODE)?;
    let jail = state.sub("artifacts")?;
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        jail.create_dir_all(parent, FOLDER_MODE)?;
    }
    failpoint::hit("project.artifact.write");
    jail.write_atomic(&path, content.as_bytes(), FILE_MODE, Durability::Crash)?;
    failpoint::hit("project.artifact.written");
    Ok(json!({ "success": true, "path": project.artifacts().join(&path).to_string_lossy() }))
}
