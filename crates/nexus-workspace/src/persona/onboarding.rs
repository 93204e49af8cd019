//! How far the first conversation has come. It is over when three files say who the assistant is, what
//! it stands for and whom it works for; until then every restart finds here what is still missing.

use std::path::Path;
use std::time::SystemTime;

use nexus_base::file::{FileError, read_text};

use super::{MAX_FILE_SIZE, is_file_inside, is_template};
use crate::Layout;
use crate::folder::subfolders;

/// How far the first conversation has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Onboarding {
    /// No persona has an identity: owner and assistant have not met yet, or are just meeting.
    Needed {
        /// Identity files that are there all the same, as agents name them.
        written: Vec<String>,
    },
    /// A persona has its identity, and other files are missing.
    Unfinished {
        /// The persona's folder below `state/agents`.
        folder: String,
        /// The missing files, as agents name them.
        missing: Vec<String>,
    },
    /// All three files are there.
    Complete,
}

/// Looks how far the first conversation has come. A file that still waits to be filled in is missing.
///
/// # Errors
/// A folder or a file exists but cannot be read.
pub fn onboarding(layout: &Layout) -> Result<Onboarding, FileError> {
    let agents = layout.agents();
    let mut souls = Vec::new();
    let mut begun: Vec<(bool, SystemTime, String)> = Vec::new();
    for name in subfolders(&agents, layout.state())? {
        let has_soul = is_written(layout, &agents.join(&name).join("SOUL.md"))?;
        let identity = agents.join(&name).join("IDENTITY.md");
        if is_written(layout, &identity)? {
            let changed = std::fs::metadata(&identity).and_then(|file| file.modified());
            begun.push((has_soul, changed.unwrap_or(SystemTime::UNIX_EPOCH), name));
        } else if has_soul {
            souls.push(soul_of(&name));
        }
    }
    let has_user = is_written(layout, &layout.user_identity())?;
    // A whole persona comes first: a second one that was only begun takes nothing from it.
    let Some((has_soul, _, folder)) = begun.into_iter().max() else {
        let mut written = souls;
        written.extend(has_user.then(|| USER_IDENTITY.to_owned()));
        return Ok(Onboarding::Needed { written });
    };
    let mut missing = Vec::new();
    missing.extend((!has_soul).then(|| soul_of(&folder)));
    missing.extend((!has_user).then(|| USER_IDENTITY.to_owned()));
    Ok(if missing.is_empty() { Onboarding::Complete } else { Onboarding::Unfinished { folder, missing } })
}

/// The user's profile as agents name it.
const USER_IDENTITY: &str = "state/user/IDENTITY.md";

fn soul_of(folder: &str) -> String {
    format!("state/agents/{folder}/SOUL.md")
}

impl Onboarding {
    /// Tells whether owner and assistant have not met yet.
    pub const fn is_needed(&self) -> bool {
        matches!(self, Self::Needed { .. })
    }

    /// Tells whether nothing is missing any more.
    pub const fn is_complete(&self) -> bool {
        matches!(self, Self::Complete)
    }

    /// Returns the files that are missing though others are there, as agents name them.
    pub fn missing(&self) -> &[String] {
        match self {
            Self::Unfinished { missing, .. } => missing,
            Self::Needed { .. } | Self::Complete => &[],
        }
    }

    /// Returns what a manager is told besides or instead of BOOTSTRAP.md; none where that says it all.
    pub fn note(&self) -> Option<String> {
        match self {
            Self::Needed { written } if written.is_empty() => None,
            Self::Needed { written } => Some(format!(
                "Already written, so stay consistent with it: {}. The others are still missing.",
                list(written)
            )),
            Self::Unfinished { missing, .. } => {
                Some(crate::templates::UNFINISHED_MD.replace("MISSING", &list(missing)))
            }
            Self::Complete => None,
        }
    }
}

fn list(files: &[String]) -> String {
    files.iter().map(|file| format!("`{file}`")).collect::<Vec<_>>().join(", ")
}

pub(super) fn is_written(layout: &Layout, path: &Path) -> Result<bool, FileError> {
    Ok(is_file_inside(path, layout) && !is_template(&read_text(path, MAX_FILE_SIZE)?))
}
