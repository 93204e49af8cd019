//! What is known of models: how much they take in and what they cost. Configuration overrides it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{ModelName, Usage};

/// Context of a model nobody described.
const DEFAULT_CONTEXT: u64 = 128_000;
/// Context of a model on this machine that nobody described: servers rarely give more by default.
const LOCAL_CONTEXT: u64 = 32_768;
/// Prices are per so many tokens.
const PER: u128 = 1_000_000;

/// Prices in micro-USD per million tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Prices {
    /// Input from no cache.
    pub input: u64,
    /// Output, reasoning included.
    pub output: u64,
    /// Input read from a cache.
    pub cache_read: u64,
    /// Input written to a cache.
    pub cache_write: u64,
}

/// What is known of one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelFacts {
    /// Tokens it takes in, reply included.
    pub context_window: u64,
    /// What it costs; unknown when none.
    pub prices: Option<Prices>,
}

/// One row of `models.json`: prices in thousandths of a dollar per million tokens, which is how providers quote.
#[derive(Debug, Deserialize)]
struct Row {
    /// The longest name that a model's name begins with counts.
    name: &'static str,
    context: u64,
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
}

// Tests know its rows; a damaged build would know no model, not panic.
static ROWS: LazyLock<Vec<Row>> =
    LazyLock::new(|| serde_json::from_str(include_str!("models.json")).unwrap_or_default());

/// What configuration says of one model, under `models.table.{model}`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Described {
    /// Tokens it takes in.
    context: Option<u64>,
    /// US dollars per million tokens.
    input: Option<f64>,
    output: Option<f64>,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
}

/// The table with what configuration and servers say on top.
#[derive(Debug, Clone, Default)]
pub struct ModelTable {
    described: BTreeMap<String, Described>,
    local_contexts: BTreeMap<String, u64>,
}

impl ModelTable {
    /// Reads `models.table`. Returns what could not be read, for the person; the rest counts.
    pub fn new(table: &Map<String, Value>) -> (Self, Vec<String>) {
        let mut described = BTreeMap::new();
        let mut problems = Vec::new();
        for (name, value) in table {
            match Described::deserialize(value) {
                Ok(one) if one.is_sound() => drop(described.insert(name.clone(), one)),
                Ok(_) => problems.push(format!("models.table.{name}: a number is negative or too large")),
                Err(error) => problems.push(format!("models.table.{name}: {error}")),
            }
        }
        (Self { described, local_contexts: BTreeMap::new() }, problems)
    }

    /// Takes over what a server on this machine says of its model.
    pub fn learn_context(&mut self, name: &ModelName, context: u64) {
        self.local_contexts.insert(name.to_string(), context);
    }

    /// Tells whether anything is known of a model: by our own list, the owner's, or a server on this machine.
    pub fn knows(&self, name: &ModelName) -> bool {
        is_local(&name.provider)
            || best_row(&name.model).is_some()
            || [name.to_string(), name.model.clone()].iter().any(|name| self.described.contains_key(name))
    }

    /// Returns what is known of a model.
    pub fn facts(&self, name: &ModelName) -> ModelFacts {
        let local = is_local(&name.provider);
        let row = if local { None } else { best_row(&name.model) };
        let mut facts = ModelFacts {
            context_window: row
                .map_or(if local { LOCAL_CONTEXT } else { DEFAULT_CONTEXT }, |row| row.context),
            prices: row.map(Row::prices).or(local.then(Prices::default)),
        };
        if let Some(context) = self.local_contexts.get(&name.to_string()) {
            facts.context_window = *context;
        }
        let described = [name.to_string(), name.model.clone(), undated(&name.model).to_owned()];
        if let Some(one) = described.iter().find_map(|name| self.described.get(name)) {
            one.apply(&mut facts);
        }
        facts
    }

    /// Returns how many tokens a model takes in, reply included.
    pub fn context_window(&self, name: &ModelName) -> u64 {
        self.facts(name).context_window
    }

    /// Returns what a call cost in micro-USD, rounded up; 0 where no price is known.
    pub fn cost(&self, name: &ModelName, usage: &Usage) -> u64 {
        let prices = self.facts(name).prices.unwrap_or_default();
        let parts = [
            (usage.input, prices.input),
            (usage.output, prices.output),
            (usage.cache_read, prices.cache_read),
            (usage.cache_write, prices.cache_write),
        ];
        let sum: u128 = parts.iter().map(|(tokens, price)| u128::from(*tokens) * u128::from(*price)).sum();
        u64::try_from(sum.div_ceil(PER)).unwrap_or(u64::MAX)
    }
}

impl Row {
    /// From thousandths of a dollar to millionths.
    fn prices(&self) -> Prices {
        Prices {
            input: self.input * 1_000,
            output: self.output * 1_000,
            cache_read: self.cache_read * 1_000,
            cache_write: self.cache_write * 1_000,
        }
    }
}

impl Described {
    fn is_sound(&self) -> bool {
        let prices = [self.input, self.output, self.cache_read, self.cache_write];
        self.context.is_none_or(|context| (256..=100_000_000).contains(&context))
            && prices.iter().flatten().all(|price| (0.0..=1e6).contains(price))
    }

    fn apply(&self, facts: &mut ModelFacts) {
        facts.context_window = self.context.unwrap_or(facts.context_window);
        let known = facts.prices.unwrap_or_default();
        if [self.input, self.output, self.cache_read, self.cache_write].iter().any(Option::is_some) {
            // Who names the price of input but not of caches means one price for all of it.
            let input = self.input.map_or(known.input, micro);
            let cached = |known: u64| if self.input.is_some() { input } else { known };
            facts.prices = Some(Prices {
                input,
                output: self.output.map_or(known.output, micro),
                cache_read: self.cache_read.map_or_else(|| cached(known.cache_read), micro),
                cache_write: self.cache_write.map_or_else(|| cached(known.cache_write), micro),
            });
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to lie in 0..=1e6")]
fn micro(dollars: f64) -> u64 {
    (dollars * 1e6).round() as u64
}

fn is_local(provider: &str) -> bool {
    provider == "nexus" || crate::local::is_local_name(provider)
}

fn best_row(model: &str) -> Option<&'static Row> {
    // Routers put a maker in front: `anthropic/claude-sonnet-4.5`.
    let model = model.rsplit('/').next().unwrap_or(model).replace("4.5", "4-5");
    let model = undated(&model).to_ascii_lowercase();
    ROWS.iter().filter(|row| model.starts_with(row.name)).max_by_key(|row| row.name.len())
}

/// Drops a trailing `-YYYYMMDD`.
fn undated(model: &str) -> &str {
    match model.rsplit_once('-') {
        Some((name, date)) if date.len() == 8 && date.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => model,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn name(text: &str) -> ModelName {
        let (provider, model) = text.split_once('/').unwrap();
        ModelName { provider: provider.into(), model: model.into() }
    }

    #[test]
    fn models_are_known_by_the_start_of_their_names() {
        let table = ModelTable::default();
        let check = |model: &str, context: u64, input: Option<u64>| {
            let facts = table.facts(&name(model));
            assert_eq!(
                (facts.context_window, facts.prices.map(|prices| prices.input)),
                (context, input),
                "{model}"
            );
        };
        check("anthropic/claude-sonnet-4-5-20250929", 200_000, Some(3_000_000));
        check("anthropic/claude-opus-4-1", 200_000, Some(15_000_000));
        check("openrouter/anthropic/claude-opus-4.5", 200_000, Some(5_000_000));
        check("openai/gpt-5-mini-2025-08-07", 400_000, Some(250_000));
        check("openai/unheard-of", 128_000, None);
        check("ollama/gpt-5", 32_768, Some(0));
        check("nexus/guide", 32_768, Some(0));
    }

    #[test]
    fn a_call_costs_its_parts() {
        let table = ModelTable::default();
        let usage =
            Usage { input: 1_000, output: 100, cache_read: 10_000, cache_write: 2_000, reasoning: 50 };
        // 3.00, 15.00, 0.30 and 3.75 dollars per million.
        assert_eq!(table.cost(&name("anthropic/claude-sonnet-4-5"), &usage), 3_000 + 1_500 + 3_000 + 7_500);
        let one = Usage { input: 1, ..Usage::default() };
        assert_eq!(table.cost(&name("openai/gpt-5-nano"), &one), 1, "rounded up");
        assert_eq!(table.cost(&name("openai/unheard-of"), &usage), 0);
    }

    #[test]
    fn configuration_has_the_last_word() {
        let described = json!({
            "openai/my-model": {"context": 9000, "input": 1.5, "output": 2},
            "claude-sonnet-4-5": {"cache_read": 0.5},
            "wrong": {"contxt": 1}, "negative": {"input": -1.0},
        });
        let (table, problems) = ModelTable::new(described.as_object().unwrap());
        assert_eq!(problems.len(), 2, "{problems:?}");
        let facts = table.facts(&name("openai/my-model"));
        let prices =
            Prices { input: 1_500_000, output: 2_000_000, cache_read: 1_500_000, cache_write: 1_500_000 };
        assert_eq!(facts, ModelFacts { context_window: 9_000, prices: Some(prices) });
        let facts = table.facts(&name("anthropic/claude-sonnet-4-5"));
        assert_eq!(facts.prices.map(|prices| (prices.input, prices.cache_read)), Some((3_000_000, 500_000)));
        assert_eq!(facts.context_window, 200_000);
    }
}
