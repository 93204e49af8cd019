//! The limits of one turn: on by default, each with a clear message when it is hit.

use std::collections::HashMap;

use nexus_llm::Usage;
use serde_json::Value;

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
}

impl Default for Limits {
    fn default() -> Self {
        Self { steps: 50, tokens: 400_000, calls: 200, identical_calls: 5 }
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
}

impl Meter {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, steps: 0, calls: 0, seen: HashMap::new(), usage: Usage::default() }
    }

    /// Counts a step; says why when the turn must end here.
    pub(crate) fn begin_step(&mut self) -> Result<(), String> {
        self.steps += 1;
        if self.steps > self.limits.steps {
            return Err(format!(
                "this turn used its {} model steps; say \"go on\" to continue, or raise budgets.model_steps_per_turn",
                self.limits.steps
            ));
        }
        if self.usage.total() > self.limits.tokens {
            return Err(format!(
                "this turn used its {} tokens; say \"go on\" to continue, or raise budgets.tokens_per_turn",
                self.limits.tokens
            ));
        }
        Ok(())
    }

    /// Counts a call; says why when it must not run.
    pub(crate) fn begin_call(&mut self, tool: &str, arguments: &Value) -> Result<(), String> {
        self.calls += 1;
        if self.calls > self.limits.calls {
            return Err(format!(
                "not run: this turn made its {} tool calls; answer with what you have",
                self.limits.calls
            ));
        }
        let times = self.seen.entry(format!("{tool}\n{arguments}")).or_insert(0);
        *times += 1;
        if *times >= self.limits.identical_calls {
            return Err(format!(
                "not run: {tool} was called {times} times with the same arguments in this turn; do something else"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fifth_identical_call_is_refused() {
        let mut meter = Meter::new(Limits::default());
        let arguments = serde_json::json!({"path": "home"});
        for _ in 0..4 {
            meter.begin_call("list", &arguments).unwrap();
        }
        assert!(meter.begin_call("list", &arguments).unwrap_err().contains("5 times"));
        meter.begin_call("list", &serde_json::json!({"path": "skills"})).unwrap();
    }

    #[test]
    fn steps_and_tokens_end_the_turn() {
        let mut meter = Meter::new(Limits { steps: 1, ..Limits::default() });
        meter.begin_step().unwrap();
        assert!(meter.begin_step().unwrap_err().contains("1 model steps"));
        let mut meter = Meter::new(Limits { tokens: 10, ..Limits::default() });
        meter.usage.output = 11;
        assert!(meter.begin_step().unwrap_err().contains("10 tokens"));
    }
}
