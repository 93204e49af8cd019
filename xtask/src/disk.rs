//! What one sync costs on the disk the bench runs on; every durable number is read beside it.

use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::measure::Samples;

/// Times appending a page and syncing its data, as a commit to a write-ahead log does.
pub(crate) fn sync_cost(folder: &Path, rounds: usize) -> Result<Samples> {
    let mut file = tempfile::tempfile_in(folder).context("making a file to sync")?;
    let page = [7_u8; 4096];
    let mut samples = Samples::default();
    for _ in 0..rounds {
        file.write_all(&page).context("writing a page")?;
        let started = Instant::now();
        file.sync_data().context("syncing a page")?;
        samples.push(started.elapsed());
    }
    Ok(samples)
}
