//! `nexus usage`: what models were used for how much, by day. Tokens come from the turns themselves,
//! costs from the ledger.

use clap::Args;
use nexus_base::clock::Timestamp;
use nexus_store::agents::TurnUsage;
use nexus_store::runtime::UsageSum;
use nexus_store::{OpenMode, Store, StoreError};
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

/// One day of one model, or all of them.
#[derive(Default)]
struct Line {
    day: String,
    provider: String,
    model: String,
    turns: u64,
    input: u64,
    cached: u64,
    output: u64,
    micro_usd: u64,
}

/// Runs `nexus usage`.
pub(crate) fn run(context: &Context, arguments: &Arguments) -> Outcome {
    let layout = context.existing()?;
    let (turns, costs) = read(&layout.data(), arguments.days)?;
    let lines: Vec<Line> = turns.into_iter().map(|turn| with_cost(turn, &costs)).collect();
    let total = lines.iter().fold(Line { day: "total".to_owned(), ..Line::default() }, |sum, line| Line {
        turns: sum.turns + line.turns,
        input: sum.input + line.input,
        cached: sum.cached + line.cached,
        output: sum.output + line.output,
        micro_usd: sum.micro_usd + line.micro_usd,
        ..sum
    });
    if Format::from_flag(arguments.json) == Format::Json {
        let days: Vec<_> = lines
            .iter()
            .map(|line| {
                let mut fields = figures(line);
                fields["day"] = line.day.clone().into();
                fields["provider"] = line.provider.clone().into();
                fields["model"] = line.model.clone().into();
                fields
            })
            .collect();
        return output::json(&json!({ "days": days, "total": figures(&total) }));
    }
    if lines.is_empty() {
        return output::line(&format!("no model was used in the last {} days", arguments.days));
    }
    let rows = lines
        .iter()
        .chain([&total])
        .map(|line| {
            let model = [line.provider.as_str(), line.model.as_str()];
            let model = model.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/");
            let numbers = [line.turns, line.input, line.cached, line.output].map(|number| number.to_string());
            let mut row = vec![line.day.clone(), model];
            row.extend(numbers);
            row.push(format!("{:.4}", dollars(line.micro_usd)));
            row
        })
        .collect();
    output::table(&["DAY", "MODEL", "TURNS", "INPUT", "CACHED", "OUTPUT", "USD"], rows)
}

fn read(data: &std::path::Path, days: u16) -> Result<(Vec<TurnUsage>, Vec<UsageSum>), Failure> {
    let broken = |error: StoreError| Failure::caused(&error).maybe_hint(error.hint());
    let store = Store::open(data, OpenMode::ReadOnly).map_err(broken)?;
    let since = Timestamp(Timestamp::now().0 - i64::from(days) * DAY);
    super::client_runtime()?.block_on(async {
        let turns = store.agents().turn_usage(since).await.map_err(broken)?;
        let costs = store.runtime().usage_by_day("", "9999-12-31").await.map_err(broken)?;
        Ok((turns, costs))
    })
}

fn with_cost(turn: TurnUsage, costs: &[UsageSum]) -> Line {
    let same =
        |cost: &&UsageSum| cost.day == turn.day && cost.provider == turn.provider && cost.model == turn.model;
    let micro_usd = costs.iter().find(same).map_or(0, |cost| cost.cost_micro_usd);
    Line {
        day: turn.day,
        provider: turn.provider,
        model: turn.model,
        turns: turn.turns,
        input: turn.input_tokens,
        cached: turn.cached_input_tokens,
        output: turn.output_tokens,
        micro_usd,
    }
}

fn figures(line: &Line) -> serde_json::Value {
    json!({
        "turns": line.turns, "inputTokens": line.input, "cachedInputTokens": line.cached,
        "outputTokens": line.output, "costUsd": dollars(line.micro_usd),
    })
}

#[expect(clippy::cast_precision_loss, reason = "for showing; the ledger keeps whole numbers")]
fn dollars(micro: u64) -> f64 {
    micro as f64 / 1_000_000.0
}
