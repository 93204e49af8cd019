//! What turns used, summed up: the truth about tokens, since every turn that ends is written here.

use nexus_base::clock::Timestamp;

use super::Agents;
use crate::error::StoreError;
use crate::words::count;

/// What turns of one day used, by provider and model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnUsage {
    /// The day, `YYYY-MM-DD` in this machine's time zone.
    pub day: String,
    pub provider: String,
    pub model: String,
    pub turns: u64,
    /// Tokens sent.
    pub input_tokens: u64,
    /// Tokens produced.
    pub output_tokens: u64,
    /// Tokens from the provider's cache.
    pub cached_input_tokens: u64,
}

impl Agents {
    /// Sums up turns that began at `since` or later, oldest day first.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn turn_usage(&self, since: Timestamp) -> Result<Vec<TurnUsage>, StoreError> {
        self.database
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT strftime('%Y-%m-%d', started_at / 1000, 'unixepoch', 'localtime') AS day,
                            coalesce(provider, '') AS provider, model, count(*), sum(input_tokens + cache_write_tokens),
                            sum(output_tokens), sum(cached_input_tokens)
                     FROM turns WHERE started_at >= ?1 AND model IS NOT NULL
                     GROUP BY day, provider, model ORDER BY day, provider, model",
                )?;
                let rows = statement.query_map([since.as_millis()], |row| {
                    Ok(TurnUsage {
                        day: row.get(0)?,
                        provider: row.get(1)?,
                        model: row.get(2)?,
                        turns: count(row, 3)?,
                        input_tokens: count(row, 4)?,
                        output_tokens: count(row, 5)?,
                        cached_input_tokens: count(row, 6)?,
                    })
                })?;
                Ok(rows.collect::<rusqlite::Result<_>>()?)
            })
            .await
    }
}
