//! `boots`: one row per life of the daemon, so that a start can see that the last ones did not last.

use nexus_base::clock::Timestamp;
use nexus_base::id::BootId;
use rusqlite::params;

use super::{LISTING_LIMIT, Runtime};
use crate::error::StoreError;
use crate::words::{moment, moment_or_none};
use crate::writer::Sync;

/// Boots kept; older ones say nothing about a crash loop.
const KEPT: u32 = 200;

/// One life of the daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Boot {
    pub id: BootId,
    /// When it began.
    pub started_at: Timestamp,
    /// Its process.
    pub pid: u32,
    /// When it ended; none while it runs or when it was killed.
    pub ended_at: Option<Timestamp>,
    /// Whether it ended on purpose.
    pub clean: bool,
}

/// How a life of the daemon ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BootEnd {
    /// On purpose.
    Clean,
    /// With an error it could still report.
    Failed,
}

impl Runtime {
    /// Records that the daemon started.
    pub async fn boot_started(&self, id: BootId, pid: u32) -> Result<(), StoreError> {
        self.database
            .write(Sync::Normal, move |connection| {
                connection
                    .prepare_cached("INSERT INTO boots (id, started_at, pid) VALUES (?1, ?2, ?3)")?
                    .execute(params![id.as_str(), Timestamp::now().as_millis(), pid])?;
                connection
                    .prepare_cached(
                        "DELETE FROM boots WHERE id NOT IN
                            (SELECT id FROM boots ORDER BY rowid DESC LIMIT ?1)",
                    )?
                    .execute([KEPT])?;
                Ok(())
            })
            .await
    }

    /// Records that the daemon ends.
    pub async fn boot_ended(&self, id: BootId, end: BootEnd) -> Result<(), StoreError> {
        self.database
            .write(Sync::Normal, move |connection| {
                connection
                    .prepare_cached("UPDATE boots SET ended_at = ?2, clean = ?3 WHERE id = ?1")?
                    .execute(params![id.as_str(), Timestamp::now().as_millis(), end == BootEnd::Clean])?;
                Ok(())
            })
            .await
    }

    /// Returns the latest boots, newest first.
    pub async fn recent_boots(&self, limit: u32) -> Result<Vec<Boot>, StoreError> {
        self.database
            .read(move |connection| {
                let mut statement =
                    connection.prepare_cached("SELECT * FROM boots ORDER BY rowid DESC LIMIT ?1")?;
                let rows = statement.query_map([limit.min(LISTING_LIMIT)], |row| {
                    Ok(Boot {
                        id: BootId::new(row.get::<_, String>("id")?),
                        started_at: moment(row, "started_at")?,
                        pid: row.get("pid")?,
                        ended_at: moment_or_none(row, "ended_at")?,
                        clean: row.get("clean")?,
                    })
                })?;
                Ok(rows.collect::<rusqlite::Result<_>>()?)
            })
            .await
    }
}
