//! Why a folder was not bound.

use std::path::PathBuf;

use nexus_base::file::FileError;
use nexus_project::ProjectError;
use nexus_project::catalog::CatalogError;

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum BindingError {
    /// A file of the person's does not parse, or has something else where our entry belongs.
    #[error("{} line {line}, column {column}: {reason}", file.display())]
    Unreadable {
        file: PathBuf,
        /// Line, from one.
        line: usize,
        /// Column, from one.
        column: usize,
        /// What is wrong there.
        reason: String,
    },
    /// A file we would write is there already and is somebody else's, or was changed.
    #[error("{} {}", file.display(), if *changed { "was generated here and changed since" } else { "is not ours" })]
    Taken {
        file: PathBuf,
        /// It was ours once.
        changed: bool,
    },
    /// An entry has the name of ours and is somebody else's, or ours with something added.
    #[error(
        "{} line {line}, column {column}: {entry} is there already and is not what Nexus writes",
        file.display()
    )]
    TakenEntry {
        file: PathBuf,
        /// The entry's keys, from the outermost.
        entry: String,
        /// Line, from one.
        line: usize,
        /// Column, from one.
        column: usize,
    },
    /// A link leads nowhere.
    #[error("{} is a link that leads nowhere", .0.display())]
    Dangling(PathBuf),
    /// A link leads out of the folder that is to be bound.
    #[error("{} leads out of this folder, to {}", file.display(), target.display())]
    LeadsOutside {
        /// The file, relative to the folder.
        file: PathBuf,
        /// Where it leads.
        target: PathBuf,
    },
    /// A file is not text.
    #[error("{} is not UTF-8 text", .0.display())]
    NotText(PathBuf),
    /// A hook before a tool call names no tool.
    #[error("what came in names no tool")]
    NoTool,
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The catalog is not sound.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The project layer refused.
    #[error(transparent)]
    Project(#[from] ProjectError),
}

impl BindingError {
    /// Returns what to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unreadable { .. } => Some("mend the file and bind again; nothing was changed".to_owned()),
            Self::Taken { .. } => {
                Some("--force writes ours and moves the other aside as FILE.before-nexus".to_owned())
            }
            Self::TakenEntry { .. } => Some(
                "give your entry another name, or take it out, and bind again; nothing was changed"
                    .to_owned(),
            ),
            Self::Dangling(_) => Some("mend or remove the link".to_owned()),
            Self::LeadsOutside { .. } => Some(
                "put a file of its own in the place of the link, and bind again; nothing was changed"
                    .to_owned(),
            ),
            Self::NotText(_) => Some("save the file as UTF-8 and bind again".to_owned()),
            Self::NoTool | Self::File(_) | Self::Catalog(_) | Self::Project(_) => None,
        }
    }
}
