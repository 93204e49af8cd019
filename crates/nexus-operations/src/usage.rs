//! What model calls used and cost, by day and by model.

use std::collections::BTreeMap;
use std::time::Duration;

use nexus_base::clock::Timestamp;
use nexus_protocol::control::answers::UsageCost;
use nexus_protocol::control::{UsageOf, UsageRow};
use serde_json::{Value, json};

use crate::RuntimeError;
use crate::call::{Call, invalid};

/// Days of usage given when the caller does not say, and at most.
const DEFAULT_DAYS: u32 = 7;
const MAX_DAYS: u32 = 366;

pub(crate) async fn status(call: &Call<'_>, of: UsageOf) -> Result<Value, RuntimeError> {
    let (_, _, days) = usage_rows(call, of).await?;
    Ok(json!({ "days": days }))
}

pub(crate) async fn cost(call: &Call<'_>, of: UsageOf) -> Result<UsageCost, RuntimeError> {
    let (from, to, days) = usage_rows(call, of).await?;
    let mut models: BTreeMap<String, UsageRow> = BTreeMap::new();
    for row in days {
        match models.get_mut(&row.model) {
            Some(sum) => {
                sum.calls = sum.calls.saturating_add(row.calls);
                sum.input_tokens = sum.input_tokens.saturating_add(row.input_tokens);
                sum.output_tokens = sum.output_tokens.saturating_add(row.output_tokens);
                sum.cost_micro_usd = sum.cost_micro_usd.saturating_add(row.cost_micro_usd);
            }
            None => {
                models.insert(row.model.clone(), UsageRow { day: from.clone(), ..row });
            }
        }
    }
    let models: Vec<UsageRow> = models.into_values().collect();
    let total_micro_usd = models.iter().map(|row| row.cost_micro_usd).fold(0, u64::saturating_add);
    Ok(UsageCost { from, to, models, total_micro_usd })
}

/// Returns the first and the last day looked at, and what was used on each by each model.
async fn usage_rows(call: &Call<'_>, of: UsageOf) -> Result<(String, String, Vec<UsageRow>), RuntimeError> {
    let days = of.days.unwrap_or(DEFAULT_DAYS);
    if !(1..=MAX_DAYS).contains(&days) {
        return Err(invalid(format!("days must be between 1 and {MAX_DAYS}")));
    }
    let now = Timestamp::now();
    let back = Duration::from_secs(u64::from(days - 1) * 24 * 3600);
    let first = Timestamp(now.as_millis().saturating_sub(i64::try_from(back.as_millis()).unwrap_or(0)));
    let day = |moment: Timestamp| moment.to_local_rfc3339().chars().take(10).collect::<String>();
    let (first, last) = (day(first), day(now));
    let sums = call.store.runtime().usage_by_day(&first, &last).await?;
    let days: Vec<UsageRow> = sums
        .into_iter()
        .map(|sum| UsageRow {
            day: sum.day,
            model: format!("{}/{}", sum.provider, sum.model),
            calls: sum.calls,
            input_tokens: sum.input_tokens,
            output_tokens: sum.output_tokens,
            cost_micro_usd: sum.cost_micro_usd,
        })
        .collect();
    Ok((first, last, days))
}
