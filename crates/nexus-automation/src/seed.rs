//! What a start makes for the shipped automations: rows and folders that are missing, nothing twice.

use std::fmt;
use std::path::Path;

use nexus_base::failpoint;
use nexus_base::file::{self, Created, Durability, FileError};
use nexus_store::{Store, StoreError};
use nexus_workspace::Layout;

use crate::seed_files::{FOLDERS, Ownership, SeedFile, files};
use crate::shipped::SHIPPED;

/// Failpoints of seeding, with how often a first start passes each.
pub const SEED_STEPS: &[(&str, u32)] = &[("seed.folder", 6), ("seed.file", 18), ("seed.row", 4)];

/// Largest seed file that is compared.
const MAX_FILE_SIZE: u64 = 1024 * 1024;

/// What a start made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SeedReport {
    /// Names of automations that were registered.
    pub rows: Vec<String>,
    /// Folders that were made.
    pub folders: usize,
    /// Files that were made or renewed.
    pub files: usize,
    /// Definitions of an older version that were brought up to date.
    pub upgraded: usize,
}

impl fmt::Display for SeedReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::default() {
            return formatter.write_str("all there");
        }
        write!(
            formatter,
            "{} rows, {} folders, {} files created",
            self.rows.len(),
            self.folders,
            self.files
        )?;
        if self.upgraded > 0 {
            write!(formatter, ", {} updated", self.upgraded)?;
        }
        Ok(())
    }
}

/// Why seeding stopped; the next start goes on from there.
#[derive(Debug, thiserror::Error)]
pub enum SeedError {
    /// A row could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A folder or file could not be made.
    #[error(transparent)]
    File(#[from] FileError),
}

impl SeedError {
    /// Returns advice for the person.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Store(error) => error.hint(),
            Self::File(error) => {
                Some(format!("check owner, permissions and free space of {}", error.path.display()))
            }
        }
    }
}

/// Makes what is missing and brings definitions of an older version up to date. Whether one runs is never
/// touched, so somebody who switched a shipped automation off keeps that choice.
pub async fn seed(store: &Store, layout: &Layout) -> Result<SeedReport, SeedError> {
    let mut report = SeedReport::default();
    let present = store.runtime().list_automations().await?;
    for automation in SHIPPED {
        // The folder first: a row that is there promises it.
        if automation.has_workspace() {
            let folder = layout.automation_workspaces().join(automation.name);
            seed_folder(&folder, &files(&automation, layout), &mut report)?;
        }
        let row = automation.to_row(layout);
        if let Some(known) = present.iter().find(|known| known.definition.name == automation.name) {
            if known.definition.bundled && known.definition.seed_version < row.seed_version {
                report.upgraded += usize::from(store.runtime().upgrade_automation(row).await?);
                failpoint::hit("seed.upgraded");
            }
            continue;
        }
        if store.runtime().seed_automation(row).await? {
            report.rows.push(automation.name.to_owned());
        }
        failpoint::hit("seed.row");
    }
    Ok(report)
}

fn seed_folder(folder: &Path, files: &[SeedFile], report: &mut SeedReport) -> Result<(), SeedError> {
    for inner in FOLDERS {
        if file::create_folder(&folder.join(inner), 0o700)? == Created::New {
            report.folders += 1;
            failpoint::hit("seed.folder");
        }
    }
    for wanted in files {
        if seed_file(&folder.join(wanted.path), wanted)? {
            report.files += 1;
            failpoint::hit("seed.file");
        }
    }
    Ok(())
}

fn seed_file(path: &Path, wanted: &SeedFile) -> Result<bool, SeedError> {
    let content = wanted.content.as_bytes();
    // Seeds are not synced one by one, a first start would pay for thirty-six syncs. What a power
    // cut can leave instead is an empty file, and an empty one counts as missing.
    let is_fit = match (std::fs::symlink_metadata(path), wanted.ownership) {
        (Err(_), _) => {
            return Ok(file::create_once(path, content, wanted.mode, Durability::Crash)? == Created::New);
        }
        (Ok(metadata), _) if !metadata.is_file() => true,
        (Ok(metadata), Ownership::Automation) => metadata.len() > 0,
        (Ok(_), Ownership::Generated) => {
            file::read_text(path, MAX_FILE_SIZE).is_ok_and(|present| present == wanted.content)
        }
    };
    if !is_fit {
        file::replace(path, content, wanted.mode, Durability::Crash)?;
    }
    Ok(!is_fit)
}
