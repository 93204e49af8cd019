//! `nexus usage`: what models were used for how much, by day.

use clap::Args;
use nexus_base::clock::Timestamp;
use nexus_store::{OpenMode, Store};
use serde_json::json;

use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::output::{self, Format};

/// Milliseconds of a day.
const DAY: i64 = 24 * 3600 * 1000;

/// Arguments of `nexus usage`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  nexus usage\n  nexus usage --days 30 --json")]
pub(crate) struct Arguments {
    /// How many days back
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..=3660))]
    days: u16,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs `nexus usage`.
pub(crate) fn run(context: &Context, arguments: &Arguments) -> Outcome {
    let layout = context.existing()?;
    let broken = |error: &nexus_store::StoreError| Failure::caused(error).maybe_hint(error.hint());
    let store = Store::open(&layout.data(), OpenMode::ReadOnly).map_err(|error| broken(&error))?;
    // A day more at either end: the ledger counts days of the owner's time zone.
    let now = Timestamp::now();
    let first = day(Timestamp(now.0 - i64::from(arguments.days) * DAY));
    let last = day(Timestamp(now.0 + DAY));
    let sums = super::client_runtime()?
        .block_on(store.runtime().usage_by_day(&first, &last))
        .map_err(|error| broken(&error))?;
    let total = |field: fn(&nexus_store::runtime::UsageSum) -> u64| sums.iter().map(field).sum::<u64>();
    let (calls, input, output_tokens, cost) = (
        total(|sum| sum.calls),
        total(|sum| sum.input_tokens),
        total(|sum| sum.output_tokens),
        total(|sum| sum.cost_micro_usd),
    );
    if Format::from_flag(arguments.json) == Format::Json {
        let days: Vec<_> = sums
            .iter()
            .map(|sum| {
                json!({
                    "day": sum.day, "provider": sum.provider, "model": sum.model, "calls": sum.calls,
                    "inputTokens": sum.input_tokens, "outputTokens": sum.output_tokens,
                    "cachedInputTokens": sum.cached_input_tokens, "costUsd": dollars(sum.cost_micro_usd),
                })
            })
            .collect();
        let total = json!({
            "calls": calls, "inputTokens": input, "outputTokens": output_tokens, "costUsd": dollars(cost),
        });
        return output::json(&json!({ "days": days, "total": total }));
    }
    if sums.is_empty() {
        return output::line(&format!("no model was used in the last {} days", arguments.days));
    }
    let row = |day: &str, model: String, calls: u64, input: u64, cached: u64, output: u64, cost: u64| {
        let cost = format!("{:.4}", dollars(cost));
        vec![
            day.to_owned(),
            model,
            calls.to_string(),
            input.to_string(),
            cached.to_string(),
            output.to_string(),
            cost,
        ]
    };
    let mut rows: Vec<Vec<String>> = sums
        .iter()
        .map(|sum| {
            let model = format!("{}/{}", sum.provider, sum.model);
            row(
                &sum.day,
                model,
                sum.calls,
                sum.input_tokens,
                sum.cached_input_tokens,
                sum.output_tokens,
                sum.cost_micro_usd,
            )
        })
        .collect();
    let cached = total(|sum| sum.cached_input_tokens);
    rows.push(row("total", String::new(), calls, input, cached, output_tokens, cost));
    output::table(&["DAY", "MODEL", "CALLS", "INPUT", "CACHED", "OUTPUT", "USD"], rows)
}

fn day(at: Timestamp) -> String {
    at.to_string().chars().take(10).collect()
}

#[expect(clippy::cast_precision_loss, reason = "for showing; the ledger keeps whole numbers")]
fn dollars(micro: u64) -> f64 {
    micro as f64 / 1_000_000.0
}
