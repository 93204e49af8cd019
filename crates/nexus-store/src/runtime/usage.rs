//! `usage_ledger`: what each model call cost, so that daily budgets hold across restarts.

use nexus_base::clock::Timestamp;
use nexus_base::id::{RequestId, SessionLabel, TurnId, new_ulid};
use rusqlite::{Connection, params};

use super::Runtime;
use crate::error::StoreError;
use crate::words::{count, stored_count};
use crate::writer::Sync;

/// What one model call used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewUsage {
    /// The day it counts for, `YYYY-MM-DD` in the owner's time zone.
    pub day: String,
    /// Provider.
    pub provider: String,
    /// Model.
    pub model: String,
    /// Request it served.
    pub request_id: Option<RequestId>,
    /// Turn it served.
    pub turn_id: Option<TurnId>,
    /// Session it served.
    pub session_label: Option<SessionLabel>,
    /// Tokens sent.
    pub input_tokens: u64,
    /// Tokens produced.
    pub output_tokens: u64,
    /// Tokens the provider took from its cache.
    pub cached_input_tokens: u64,
    /// Cost in millionths of a dollar.
    pub cost_micro_usd: u64,
}

/// What was used in a span of days, by provider and model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageSum {
    /// The day.
    pub day: String,
    /// Provider.
    pub provider: String,
    /// Model.
    pub model: String,
    /// Calls.
    pub calls: u64,
    /// Tokens sent.
    pub input_tokens: u64,
    /// Tokens produced.
    pub output_tokens: u64,
    /// Tokens from the provider's cache.
    pub cached_input_tokens: u64,
    /// Cost in millionths of a dollar.
    pub cost_micro_usd: u64,
}

impl Runtime {
    /// Adds one call; not awaited.
    pub fn add_usage_later(&self, usage: NewUsage) {
        self.database.write_later(move |connection| add(connection, &usage));
    }

    /// Adds one call.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn add_usage(&self, usage: NewUsage) -> Result<(), StoreError> {
        self.database.write(Sync::Normal, move |connection| add(connection, &usage)).await
    }

    /// Sums up the days from `first` to `last`, both included, oldest first.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn usage_by_day(&self, first: &str, last: &str) -> Result<Vec<UsageSum>, StoreError> {
        let (first, last) = (first.to_owned(), last.to_owned());
        self.database
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT day, provider, model, count(*), sum(input_tokens), sum(output_tokens),
                            sum(cached_input_tokens), sum(cost_micro_usd)
                     FROM usage_ledger WHERE day BETWEEN ?1 AND ?2
                     GROUP BY day, provider, model ORDER BY day, provider, model",
                )?;
                let rows = statement.query_map([first, last], |row| {
                    Ok(UsageSum {
                        day: row.get(0)?,
                        provider: row.get(1)?,
                        model: row.get(2)?,
                        calls: count(row, 3)?,
                        input_tokens: count(row, 4)?,
                        output_tokens: count(row, 5)?,
                        cached_input_tokens: count(row, 6)?,
                        cost_micro_usd: count(row, 7)?,
                    })
                })?;
                Ok(rows.collect::<rusqlite::Result<_>>()?)
            })
            .await
    }
}

fn add(connection: &Connection, usage: &NewUsage) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "INSERT INTO usage_ledger (id, at, day, provider, model, request_id, turn_id, session_label,
                input_tokens, output_tokens, cached_input_tokens, cost_micro_usd)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        )?
        .execute(params![
            new_ulid(),
            Timestamp::now().as_millis(),
            usage.day,
            usage.provider,
            usage.model,
            usage.request_id.as_ref().map(RequestId::as_str),
            usage.turn_id.as_ref().map(TurnId::as_str),
            usage.session_label.as_ref().map(SessionLabel::as_str),
            stored_count(usage.input_tokens),
            stored_count(usage.output_tokens),
            stored_count(usage.cached_input_tokens),
            stored_count(usage.cost_micro_usd),
        ])?;
    Ok(())
}
