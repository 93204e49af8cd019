//! `usage_ledger`: what each model call cost, so that daily budgets hold across restarts.

use nexus_base::clock::Timestamp;
use nexus_base::conversation::Spent;
use nexus_base::failpoint;
use nexus_base::id::{RequestId, SessionLabel, TurnId, new_ulid};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::Runtime;
use crate::error::StoreError;
use crate::words::{count, stored_count};
use crate::writer::Sync;

/// What one model call used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewUsage {
    /// The day it counts for, `YYYY-MM-DD` in the owner's time zone.
    pub day: String,
    pub provider: String,
    pub model: String,
    /// Request it served.
    pub request_id: Option<RequestId>,
    /// Turn it served.
    pub turn_id: Option<TurnId>,
    /// Session it served.
    pub session_label: Option<SessionLabel>,
    /// The request at the top of its tree: what one message led to counts as one run.
    pub root_request_id: Option<RequestId>,
    /// Tokens sent, neither read from nor written to the provider's cache.
    pub input_tokens: u64,
    /// Tokens produced.
    pub output_tokens: u64,
    /// Tokens the provider took from its cache.
    pub cached_input_tokens: u64,
    /// Tokens the provider put into its cache.
    pub cache_write_tokens: u64,
    /// Cost in millionths of a dollar.
    pub cost_micro_usd: u64,
}

/// What one session used in a span of days.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionUsage {
    pub session: Option<SessionLabel>,
    /// What it used; day, provider and model are empty.
    pub sum: UsageSum,
}

/// What was used in a span of days, by provider and model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageSum {
    pub day: String,
    pub provider: String,
    pub model: String,
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
    /// Adds one call and returns what its run and its day have come to.
    pub async fn spend(&self, usage: NewUsage) -> Result<Spent, StoreError> {
        let spent = self
            .database
            .write(Sync::Normal, move |connection| {
                add(connection, &usage)?;
                failpoint::hit("turn.usage.before_commit");
                Ok(spent(connection, &usage.day, usage.root_request_id.as_ref())?)
            })
            .await?;
        failpoint::hit("turn.usage.committed");
        Ok(spent)
    }

    /// Returns what a run and a day have come to.
    pub async fn spent(&self, day: &str, run: Option<&RequestId>) -> Result<Spent, StoreError> {
        let (day, run) = (day.to_owned(), run.cloned());
        self.database.look(move |connection| Ok(spent(connection, &day, run.as_ref())?)).await
    }

    /// Sums up the days from `first` to `last` by session, the dearest first.
    pub async fn usage_by_session(
        &self,
        first: &str,
        last: &str,
        limit: usize,
    ) -> Result<Vec<SessionUsage>, StoreError> {
        let (first, last) = (first.to_owned(), last.to_owned());
        self.database
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT session_label, count(*), sum(input_tokens + cache_write_tokens), sum(output_tokens),
                            sum(cached_input_tokens), sum(cost_micro_usd)
                     FROM usage_ledger WHERE day BETWEEN ?1 AND ?2
                     GROUP BY session_label ORDER BY sum(cost_micro_usd) DESC, sum(input_tokens) DESC LIMIT ?3",
                )?;
                let rows = statement.query_map(params![first, last, limit], |row| {
                    Ok(SessionUsage {
                        session: row.get::<_, Option<String>>(0)?.map(SessionLabel::new),
                        sum: UsageSum {
                            day: String::new(),
                            provider: String::new(),
                            model: String::new(),
                            calls: count(row, 1)?,
                            input_tokens: count(row, 2)?,
                            output_tokens: count(row, 3)?,
                            cached_input_tokens: count(row, 4)?,
                            cost_micro_usd: count(row, 5)?,
                        },
                    })
                })?;
                Ok(rows.collect::<rusqlite::Result<_>>()?)
            })
            .await
    }

    /// Sums up the days from `first` to `last`, both included, oldest first.
    pub async fn usage_by_day(&self, first: &str, last: &str) -> Result<Vec<UsageSum>, StoreError> {
        let (first, last) = (first.to_owned(), last.to_owned());
        self.database
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT day, provider, model, count(*), sum(input_tokens + cache_write_tokens), sum(output_tokens),
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
                input_tokens, output_tokens, cached_input_tokens, cost_micro_usd, root_request_id, cache_write_tokens)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
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
            usage.root_request_id.as_ref().map(RequestId::as_str),
            stored_count(usage.cache_write_tokens),
        ])?;
    Ok(())
}

fn spent(connection: &Connection, day: &str, run: Option<&RequestId>) -> rusqlite::Result<Spent> {
    let (day_tokens, day_micro_usd) = connection
        .prepare_cached("SELECT tokens, cost_micro_usd FROM usage_days WHERE day = ?1")?
        .query_row([day], |row| Ok((count(row, 0)?, count(row, 1)?)))
        .optional()?
        .unwrap_or_default();
    let run_tokens = match run {
        Some(run) => connection
            .prepare_cached(
                "SELECT coalesce(sum(input_tokens + output_tokens + cached_input_tokens + cache_write_tokens), 0) \
                 FROM usage_ledger WHERE root_request_id = ?1",
            )?
            .query_row([run.as_str()], |row| count(row, 0))?,
        None => 0,
    };
    Ok(Spent { run_tokens, day_tokens, day_micro_usd })
}
