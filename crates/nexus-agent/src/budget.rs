//! The limits of one turn: on by default, each with a clear message when it is hit.

use std::collections::HashMap;

use nexus_llm::{ModelName, Usage};
use serde_json::Value;

use crate::history::{PastMessage, PastTurn};
use crate::ports::Spent;

/// How much one turn may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Model replies.
    pub steps: u32,
    /// Tokens of all replies together.
    pub tokens: u64,
    /// Tool calls.
    pub calls: u32,
    /// Calls of the same tool with the same arguments.
    pub identical_calls: u32,
    /// Tokens of everything one message leads to.
    pub run_tokens: u64,
    pub day_tokens: u64,
    /// Cost of one day, in millionths of a dollar.
    pub day_micro_usd: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            steps: 50,
            tokens: 400_000,
            calls: 200,
            identical_calls: 5,
            run_tokens: 2_000_000,
            day_tokens: 10_000_000,
            day_micro_usd: 10_000_000,
        }
    }
}

/// What a turn has used so far.
#[derive(Debug)]
pub(crate) struct Meter {
    limits: Limits,
    steps: u32,
    calls: u32,
    seen: HashMap<String, u32>,
    pub(crate) usage: Usage,
    /// The model that answered last, where it is another than the one asked first.
    pub(crate) model: Option<ModelName>,
    /// What the run and the day have come to, this turn included.
    pub(crate) spent: Spent,
}

impl Meter {
    /// Begins to count, with what an earlier attempt at this turn already did.
    pub(crate) fn new(limits: Limits, turn: &PastTurn) -> Self {
        let mut meter = Self {
            limits,
            steps: 0,
            calls: 0,
            seen: HashMap::new(),
            usage: Usage::default(),
            spent: Spent::default(),
            model: None,
        };
        for message in &turn.messages {
            if let PastMessage::Assistant { calls, .. } = message {
                meter.steps += 1;
                for call in calls {
                    meter.count(&call.tool, &call.arguments);
                }
            }
        }
        meter
    }

    /// Counts a step; says why when the turn must end here.
    pub(crate) fn begin_step(&mut self) -> Result<(), String> {
        self.steps += 1;
        if self.steps > self.limits.steps {
            return Err(format!(
                "this turn used up its {} model steps; say \"go on\" to continue, or raise \
                 budgets.model_steps_per_turn",
                self.limits.steps
            ));
        }
        if self.usage.total() > self.limits.tokens {
            return Err(format!(
                "this turn used up its {} tokens; say \"go on\" to continue, or raise budgets.tokens_per_turn",
                self.limits.tokens
            ));
        }
        if self.spent.run_tokens >= self.limits.run_tokens {
            return Err(format!(
                "this request and its workers used up their {} tokens; say \"go on\" to continue, or raise \
                 budgets.tokens_per_run",
                self.limits.run_tokens
            ));
        }
        if self.spent.day_tokens >= self.limits.day_tokens {
            return Err(format!(
                "today's {} tokens are used up; raise budgets.tokens_per_day to continue, or wait until tomorrow",
                self.limits.day_tokens
            ));
        }
        if self.spent.day_micro_usd >= self.limits.day_micro_usd {
            return Err(format!(
                "today's {} US dollars are spent; raise budgets.usd_per_day to continue, or wait until tomorrow",
                dollars(self.limits.day_micro_usd)
            ));
        }
        Ok(())
    }

    /// Counts a call; says why when the turn must end here.
    pub(crate) fn begin_call(&mut self, tool: &str, arguments: &Value) -> Result<(), String> {
        let times = self.count(tool, arguments);
        if times >= self.limits.identical_calls {
            return Err(format!(
                "{tool} was called {times} times with the same arguments in this turn; rephrase the request, or \
                 raise budgets.identical_calls"
            ));
        }
        if self.calls > self.limits.calls {
            return Err(format!(
                "this turn made its {} tool calls; say \"go on\" to continue",
                self.limits.calls
            ));
        }
        Ok(())
    }

    fn count(&mut self, tool: &str, arguments: &Value) -> u32 {
        self.calls += 1;
        let times = self.seen.entry(format!("{tool}\n{arguments}")).or_insert(0);
        *times += 1;
        *times
    }
}

/// Renders millionths of a dollar as dollars and cents.
fn dollars(micro: u64) -> String {
    format!("{}.{:02}", micro / 1_000_000, micro % 1_000_000 / 10_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::PastCall;

    fn meter(limits: Limits) -> Meter {
        Meter::new(limits, &PastTurn::default())
    }

    #[test]
    fn the_fifth_identical_call_ends_the_turn() {
        let mut meter = meter(Limits::default());
        let arguments = serde_json::json!({"path": "home"});
        for _ in 0..4 {
            meter.begin_call("list", &arguments).unwrap();
        }
        meter.begin_call("list", &serde_json::json!({"path": "skills"})).unwrap();
        assert!(meter.begin_call("list", &arguments).unwrap_err().contains("5 times"));
    }

    #[test]
    fn steps_tokens_and_calls_end_the_turn() {
        let mut few_steps = meter(Limits { steps: 1, ..Limits::default() });
        few_steps.begin_step().unwrap();
        assert!(few_steps.begin_step().unwrap_err().contains("1 model steps"));
        let mut few_tokens = meter(Limits { tokens: 10, ..Limits::default() });
        few_tokens.usage.output = 11;
        assert!(few_tokens.begin_step().unwrap_err().contains("10 tokens"));
        let spent = |spent: Spent| {
            let mut meter = meter(Limits {
                run_tokens: 5,
                day_tokens: 7,
                day_micro_usd: 12_340_000,
                ..Limits::default()
            });
            meter.spent = spent;
            meter.begin_step()
        };
        let nothing = Spent::default();
        spent(Spent { run_tokens: 4, day_tokens: 6, day_micro_usd: 12_339_999 }).unwrap();
        assert!(
            spent(Spent { run_tokens: 5, ..nothing })
                .unwrap_err()
                .contains("its workers used up their 5 tokens")
        );
        assert!(spent(Spent { day_tokens: 7, ..nothing }).unwrap_err().contains("today's 7 tokens"));
        assert!(
            spent(Spent { day_micro_usd: 12_340_000, ..nothing }).unwrap_err().contains("12.34 US dollars")
        );
        let mut few_calls = meter(Limits { calls: 1, ..Limits::default() });
        few_calls.begin_call("list", &Value::Null).unwrap();
        assert!(few_calls.begin_call("read", &Value::Null).unwrap_err().contains("1 tool calls"));
    }

    #[test]
    fn an_earlier_attempt_counts() {
        let call = PastCall {
            id: nexus_base::id::ToolCallId::new("c"),
            model_call_id: "c".into(),
            tool: "list".into(),
            arguments: Value::Null,
            result: None,
        };
        let reply = PastMessage::Assistant { text: String::new(), calls: vec![call; 4] };
        let mut meter = Meter::new(
            Limits { steps: 1, ..Limits::default() },
            &PastTurn { id: None, messages: vec![reply] },
        );
        assert!(meter.begin_step().is_err());
        assert!(meter.begin_call("list", &Value::Null).is_err());
    }
}
