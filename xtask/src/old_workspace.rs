//! A workspace of an older build, killed with everything under way, for the test that newer builds finish it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use nexus_base::clock::Timestamp;
use nexus_base::file::{Durability, replace};
use nexus_testkit::scenario;

/// What is made and where it goes.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Debug build that makes it: only those can be killed at a named place.
    #[arg(long)]
    binary: PathBuf,
    /// Folder for the fixture; must not exist.
    #[arg(long)]
    out: PathBuf,
}

/// Makes it and copies it to where it is kept.
pub(crate) fn write(options: &Options) -> Result<()> {
    ensure!(!options.out.exists(), "{} exists already", options.out.display());
    let binary = options.binary.canonicalize().context("looking for the binary")?;
    let workspace = scenario::interrupted(binary);
    let made_at = Timestamp::now();
    let (files, bytes) = copy(workspace.root(), &options.out.join("workspace"))?;
    replace(&options.out.join("made-at"), format!("{}\n", made_at.0).as_bytes(), 0o644, Durability::Crash)
        .context("writing the time")?;
    println!("{files} files, {bytes} bytes in {}", options.out.display());
    Ok(())
}

/// Tells whether a file decides nothing: the daemon's log, the index of a write-ahead log, which SQLite makes anew, and
/// what would hide the rest from the repository that keeps it.
fn is_left_out(name: &str) -> bool {
    name == "nex.log" || name == ".gitignore" || name.ends_with(".db-shm")
}

/// Copies a folder; returns how many files and bytes.
fn copy(from: &Path, to: &Path) -> Result<(u64, u64)> {
    fs::create_dir_all(to).with_context(|| format!("making {}", to.display()))?;
    let (mut files, mut bytes) = (0, 0);
    for entry in fs::read_dir(from).with_context(|| format!("listing {}", from.display()))? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            let (more_files, more_bytes) = copy(&source, &target)?;
            files += more_files;
            bytes += more_bytes;
        } else if !is_left_out(&entry.file_name().to_string_lossy()) {
            bytes += fs::copy(&source, &target).with_context(|| format!("copying {}", source.display()))?;
            files += 1;
        }
    }
    Ok((files, bytes))
}
