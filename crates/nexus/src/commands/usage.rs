//! `nexus usage`: what models were used for how much, by day, model or session, and how much of today's
//! budget is left. The ledger of paid calls has every call, summaries too; turns are counted where they are
//! kept, and have the tokens of the model that costs nothing.

use std::collections::BTreeMap;

use clap::{Args, ValueEnum};
use nexus_base::clock::Timestamp;
use nexus_base::conversation::Spent;
use nexus_store::agents::TurnUsage;
use nexus_store::runtime::{SessionUsage, UsageSum};
use nexus_store::{OpenMode, Store, StoreError};
use serde_json::json;

use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::output::{self, Format};

/// Milliseconds of a day.
const DAY: i64 = 24 * 3600 * 1000;
/// Most sessions shown.
const MAX_SESSIONS: usize = 100;

/// Arguments of `nexus usage`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nexus usage\n  nexus usage --by session\n  nexus usage --days 30 --json"
)]
pub(crate) struct Arguments {
    /// Number of days to look back
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..=3660))]
    days: u16,
    /// What to group by; sessions show paid calls only
    #[arg(long, value_enum, default_value = "day")]
    by: By,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    Day,
    Model,
    Session,
}

/// One row, or the sum of them.
#[derive(Default, Clone)]
struct Line {
    day: String,
    provider: String,
    model: String,
    session: String,
    turns: u64,
    input: u64,
    cached: u64,
    output: u64,
    micro_usd: u64,
}

struct Figures {
    turns: Vec<TurnUsage>,
    costs: Vec<UsageSum>,
    sessions: Vec<SessionUsage>,
    today: Spent,
}

/// Runs `nexus usage`.
pub(crate) fn run(context: &Context, arguments: &Arguments) -> Outcome {
    let layout = context.existing()?;
    let budgets = context.loaded(&layout).ok().map(|loaded| loaded.settings.budgets);
    let figures = read(&layout.data(), arguments.days)?;
    let days = by_day(&figures.turns, &figures.costs);
    let lines = match arguments.by {
        By::Day => days,
        By::Model => by_model(&days),
        By::Session => figures.sessions.iter().map(of_session).collect(),
    };
    let total = total(&lines);
    if Format::from_flag(arguments.json) == Format::Json {
        let rows: Vec<_> = lines.iter().map(|line| row_json(line, arguments.by)).collect();
        let name = match arguments.by {
            By::Day => "days",
            By::Model => "models",
            By::Session => "sessions",
        };
        let today = json!({
            "tokens": figures.today.day_tokens, "costUsd": dollars(figures.today.day_micro_usd),
            "tokenLimit": budgets.as_ref().map(|budgets| budgets.tokens_per_day),
            "usdLimit": budgets.as_ref().map(|budgets| budgets.usd_per_day),
        });
        let total = figures_json(&total, arguments.by);
        return output::json(&json!({ name: rows, "total": total, "today": today }));
    }
    if lines.is_empty() {
        return output::line(&format!("no model has been used in the last {} days", arguments.days));
    }
    let rows = lines.iter().chain([&total]).map(|line| row(line, arguments.by)).collect();
    match arguments.by {
        By::Day => output::table(&["DAY", "MODEL", "TURNS", "INPUT", "CACHED", "OUTPUT", "USD"], rows)?,
        By::Model => output::table(&["MODEL", "TURNS", "INPUT", "CACHED", "OUTPUT", "USD"], rows)?,
        By::Session => output::table(&["SESSION", "CALLS", "INPUT", "CACHED", "OUTPUT", "USD"], rows)?,
    }
    match budgets {
        Some(budgets) => output::line(&format!(
            "paid today: {} of {} tokens, {:.2} of {:.2} USD",
            figures.today.day_tokens,
            budgets.tokens_per_day,
            dollars(figures.today.day_micro_usd),
            budgets.usd_per_day
        )),
        None => Ok(()),
    }
}

fn read(data: &std::path::Path, days: u16) -> Result<Figures, Failure> {
    let broken = |error: StoreError| Failure::caused(&error).maybe_hint(error.hint());
    let store = Store::open(data, OpenMode::ReadOnly).map_err(broken)?;
    let now = Timestamp::now();
    let since = Timestamp(now.0 - i64::from(days) * DAY);
    let day = |moment: Timestamp| moment.to_local_rfc3339().chars().take(10).collect::<String>();
    let first = day(since);
    super::client_runtime()?.block_on(async {
        let runtime = store.runtime();
        // Whole days, as the ledger counts them.
        let mut turns = store.agents().turn_usage(Timestamp(since.0 - DAY)).await.map_err(broken)?;
        turns.retain(|turn| turn.day >= first);
        Ok(Figures {
            turns,
            costs: runtime.usage_by_day(&first, "9999-12-31").await.map_err(broken)?,
            sessions: runtime.usage_by_session(&first, "9999-12-31", MAX_SESSIONS).await.map_err(broken)?,
            today: runtime.spent(&day(now), None).await.map_err(broken)?,
        })
    })
}

/// Puts turns and calls together; what the ledger knows of a model on a day is the whole of it.
fn by_day(turns: &[TurnUsage], costs: &[UsageSum]) -> Vec<Line> {
    let mut lines: BTreeMap<(&str, &str, &str), Line> = BTreeMap::new();
    for turn in turns {
        let line = Line {
            day: turn.day.clone(),
            provider: turn.provider.clone(),
            model: turn.model.clone(),
            turns: turn.turns,
            input: turn.input_tokens,
            cached: turn.cached_input_tokens,
            output: turn.output_tokens,
            ..Line::default()
        };
        lines.insert((&turn.day, &turn.provider, &turn.model), line);
    }
    for cost in costs {
        let line = lines.entry((&cost.day, &cost.provider, &cost.model)).or_insert_with(|| Line {
            day: cost.day.clone(),
            provider: cost.provider.clone(),
            model: cost.model.clone(),
            ..Line::default()
        });
        (line.input, line.cached) = (cost.input_tokens, cost.cached_input_tokens);
        (line.output, line.micro_usd) = (cost.output_tokens, cost.cost_micro_usd);
    }
    lines.into_values().collect()
}

fn by_model(days: &[Line]) -> Vec<Line> {
    let mut models: BTreeMap<(String, String), Line> = BTreeMap::new();
    for day in days {
        let sum = models.entry((day.provider.clone(), day.model.clone())).or_insert_with(|| Line {
            provider: day.provider.clone(),
            model: day.model.clone(),
            ..Line::default()
        });
        *sum = added(sum, day);
    }
    models.into_values().collect()
}

fn of_session(usage: &SessionUsage) -> Line {
    Line {
        session: usage.session.as_ref().map_or_else(|| "(none)".to_owned(), ToString::to_string),
        turns: usage.sum.calls,
        input: usage.sum.input_tokens,
        cached: usage.sum.cached_input_tokens,
        output: usage.sum.output_tokens,
        micro_usd: usage.sum.cost_micro_usd,
        ..Line::default()
    }
}

fn total(lines: &[Line]) -> Line {
    let first = Line { day: "total".to_owned(), session: "total".to_owned(), ..Line::default() };
    lines.iter().fold(first, |sum, line| added(&sum, line))
}

fn added(sum: &Line, line: &Line) -> Line {
    Line {
        turns: sum.turns + line.turns,
        input: sum.input + line.input,
        cached: sum.cached + line.cached,
        output: sum.output + line.output,
        micro_usd: sum.micro_usd + line.micro_usd,
        ..sum.clone()
    }
}

fn row(line: &Line, by: By) -> Vec<String> {
    let model = [line.provider.as_str(), line.model.as_str()];
    let model = model.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/");
    let mut row = match by {
        By::Day => vec![line.day.clone(), model],
        By::Model if model.is_empty() => vec!["total".to_owned()],
        By::Model => vec![model],
        By::Session => vec![line.session.clone()],
    };
    row.extend([line.turns, line.input, line.cached, line.output].map(|number| number.to_string()));
    row.push(format!("{:.4}", dollars(line.micro_usd)));
    row
}

fn row_json(line: &Line, by: By) -> serde_json::Value {
    let mut fields = figures_json(line, by);
    match by {
        By::Day | By::Model => {
            if by == By::Day {
                fields["day"] = line.day.clone().into();
            }
            fields["provider"] = line.provider.clone().into();
            fields["model"] = line.model.clone().into();
        }
        By::Session => {
            fields["session"] = line.session.clone().into();
        }
    }
    fields
}

fn figures_json(line: &Line, by: By) -> serde_json::Value {
    let counted = match by {
        By::Day | By::Model => "turns",
        By::Session => "calls",
    };
    json!({
        counted: line.turns, "inputTokens": line.input, "cachedInputTokens": line.cached,
        "outputTokens": line.output, "costUsd": dollars(line.micro_usd),
    })
}

#[expect(clippy::cast_precision_loss, reason = "for showing; the ledger keeps whole numbers")]
fn dollars(micro: u64) -> f64 {
    micro as f64 / 1_000_000.0
}
