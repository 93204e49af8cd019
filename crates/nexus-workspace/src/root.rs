//! Which folder is the workspace: one function, one order, and the reason for the answer.
//!
//! Order: `--workspace`, `NEXUS_ROOT`, `NEXUS_PROFILE`, the nearest workspace above the working
//! folder, `~/nexus`. A profile was named by a person, so it goes before what is merely found.

use std::path::{Path, PathBuf};

use serde::Serialize;

/// How far up a search for a workspace goes; deeper working folders do not exist in practice.
const MAX_LEVELS: usize = 64;
/// Longest profile name.
const MAX_PROFILE_LEN: usize = 64;

/// Everything that can name a workspace.
#[derive(Debug, Clone, Default)]
pub struct RootRequest<'a> {
    /// Value of `--workspace`.
    pub flag: Option<&'a Path>,
    /// Value of `NEXUS_ROOT`.
    pub env_root: Option<&'a Path>,
    /// Value of `NEXUS_PROFILE`.
    pub profile: Option<&'a str>,
    /// The working folder; absolute.
    pub cwd: Option<&'a Path>,
    /// The user's home folder.
    pub home: Option<&'a Path>,
}

/// Why a folder is the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RootSource {
    /// `--workspace` said so.
    Flag,
    /// `NEXUS_ROOT` said so.
    Environment,
    /// `NEXUS_PROFILE` said so.
    Profile,
    /// The working folder lies in it.
    Found,
    /// Nothing else was said: `~/nexus`.
    Default,
}

/// The workspace's root and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ResolvedRoot {
    /// Absolute path.
    pub path: PathBuf,
    /// Why this one.
    pub source: RootSource,
}

/// Why no root could be named.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RootError {
    /// A path was given but holds nothing.
    #[error("{given} is an empty path")]
    EmptyPath {
        /// Where it came from.
        given: &'static str,
    },
    /// A relative path was given and there is no working folder to start from.
    #[error("{path} is relative and the working folder is unknown")]
    NoWorkingFolder {
        /// The relative path.
        path: PathBuf,
    },
    /// The default root lies in the home folder, and there is none.
    #[error("the home folder is unknown")]
    NoHome,
    /// The profile's name cannot be part of a folder name.
    #[error("profile {name:?} is not a valid name: use letters, digits, - and _")]
    BadProfile {
        /// What was given, shortened.
        name: String,
    },
}

impl RootError {
    /// Returns advice for the person.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::EmptyPath { .. } => "give a folder, such as --workspace ~/nexus",
            Self::NoWorkingFolder { .. } => "give an absolute path",
            Self::NoHome => "set HOME, or name the workspace with --workspace",
            Self::BadProfile { .. } => "use a short name such as NEXUS_PROFILE=work",
        }
    }
}

/// Returns the workspace's root and why it is that one. Only looks; nothing has to exist yet.
pub fn resolve_root(request: &RootRequest<'_>) -> Result<ResolvedRoot, RootError> {
    if let Some(flag) = request.flag {
        return given("--workspace", flag, request, RootSource::Flag);
    }
    if let Some(root) = request.env_root {
        return given(crate::environment::ROOT, root, request, RootSource::Environment);
    }
    if let Some(profile) = request.profile.filter(|name| !name.is_empty()) {
        let home = request.home.ok_or(RootError::NoHome)?;
        if !is_profile_name(profile) {
            return Err(RootError::BadProfile { name: profile.chars().take(MAX_PROFILE_LEN).collect() });
        }
        let path = home.join(format!("nexus-{profile}"));
        return Ok(ResolvedRoot { path, source: RootSource::Profile });
    }
    if let Some(path) = request.cwd.and_then(find_above) {
        return Ok(ResolvedRoot { path, source: RootSource::Found });
    }
    let home = request.home.ok_or(RootError::NoHome)?;
    Ok(ResolvedRoot { path: home.join("nexus"), source: RootSource::Default })
}

fn given(
    name: &'static str,
    path: &Path,
    request: &RootRequest<'_>,
    source: RootSource,
) -> Result<ResolvedRoot, RootError> {
    if path.as_os_str().is_empty() {
        return Err(RootError::EmptyPath { given: name });
    }
    // A shell expands `~` in a flag, but nobody does in a variable set by a service manager.
    let expanded = match (path.strip_prefix("~"), request.home) {
        (Ok(rest), Some(home)) => home.join(rest),
        (Ok(_), None) => return Err(RootError::NoHome),
        (Err(_), _) => path.to_owned(),
    };
    let absolute = if expanded.is_absolute() {
        expanded
    } else {
        let cwd = request.cwd.ok_or_else(|| RootError::NoWorkingFolder { path: expanded.clone() })?;
        cwd.join(expanded)
    };
    // `components` drops `.` and doubled slashes; `..` stays, since only the file system knows
    // where it leads once a symlink is involved.
    Ok(ResolvedRoot { path: absolute.components().collect(), source })
}

fn is_profile_name(name: &str) -> bool {
    name.len() <= MAX_PROFILE_LEN
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

fn find_above(cwd: &Path) -> Option<PathBuf> {
    cwd.ancestors()
        .take(MAX_LEVELS)
        .find(|folder| folder.join("AGENTS.md").is_file() && folder.join("state/agents").is_dir())
        .map(Path::to_owned)
}
