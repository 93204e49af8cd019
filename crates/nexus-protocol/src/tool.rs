//! The tool contract: what a model is told about a tool and what a call gives back.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Whether a call that was cut off by a crash may simply run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Replay {
    /// It only looks: run it again.
    Safe,
    /// Its effect commits in the same transaction as its result, so no result means no effect: run it again.
    Transactional,
    /// It may have acted: never run it again, tell the model that the outcome is unknown.
    Unsafe,
}

/// A tool as a model sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Name the model calls it by.
    pub name: String,
    /// What it does and when to use it, in as few words as work.
    pub description: String,
    /// JSON Schema of its arguments.
    pub input_schema: Value,
    /// What a crash in the middle of a call allows.
    pub replay: Replay,
}

/// What a tool call gave back to the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolOutput {
    /// Text for the model.
    pub text: String,
    /// The call did not do what was asked.
    pub is_error: bool,
}

impl ToolOutput {
    /// A call that worked.
    pub fn ok(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: false }
    }

    /// A call that did not; the text says what, where and what to do.
    pub fn error(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: true }
    }
}

/// What a client that asks its person before a call may know about a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolHints {
    /// It changes nothing.
    pub read_only: bool,
    /// It may overwrite or remove something.
    pub destructive: bool,
    /// A second call with the same arguments changes nothing more.
    pub idempotent: bool,
    /// It reaches beyond this machine.
    pub open_world: bool,
}

impl ToolHints {
    /// Hints of a tool that only looks.
    pub const LOOKS: Self = Self { read_only: true, destructive: false, idempotent: true, open_world: false };
    /// Hints of a tool that only adds.
    pub const ADDS: Self =
        Self { read_only: false, destructive: false, idempotent: false, open_world: false };
    /// Hints of a tool nothing else is known about.
    pub const UNKNOWN: Self =
        Self { read_only: false, destructive: true, idempotent: false, open_world: true };
}

/// A call under way.
pub type ToolFuture<'source> = Pin<Box<dyn Future<Output = ToolOutput> + Send + 'source>>;

/// A set of tools somebody can call by name.
pub trait ToolSource: Send + Sync {
    /// Returns what a model is told about each tool.
    fn tools(&self) -> Vec<ToolSpec>;

    /// Returns hints about one of its tools.
    fn hints(&self, spec: &ToolSpec) -> ToolHints {
        match spec.replay {
            Replay::Safe => ToolHints::LOOKS,
            Replay::Transactional | Replay::Unsafe => ToolHints::UNKNOWN,
        }
    }

    /// Returns how the tools are meant to be used together, in a few sentences.
    fn instructions(&self) -> Option<String> {
        None
    }

    /// Returns whether a call by this name would be answered; other spellings may be.
    fn knows(&self, name: &str) -> bool {
        self.tools().iter().any(|tool| tool.name == name)
    }

    /// Calls a tool. A failure is an output, too.
    fn call<'source>(&'source self, name: &'source str, arguments: Map<String, Value>)
    -> ToolFuture<'source>;
}

/// Several sources as one. Where two have a tool of the same name, the first has it.
#[derive(Default)]
pub struct MergedTools(Vec<Arc<dyn ToolSource>>);

impl MergedTools {
    /// Puts sources together.
    pub fn new(sources: Vec<Arc<dyn ToolSource>>) -> Self {
        Self(sources)
    }

    fn of(&self, name: &str) -> Option<&Arc<dyn ToolSource>> {
        self.0.iter().find(|source| source.knows(name))
    }
}

impl fmt::Debug for MergedTools {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("MergedTools").field("sources", &self.0.len()).finish()
    }
}

impl ToolSource for MergedTools {
    fn tools(&self) -> Vec<ToolSpec> {
        let mut all: Vec<ToolSpec> = Vec::new();
        for spec in self.0.iter().flat_map(|source| source.tools()) {
            if all.iter().all(|known| known.name != spec.name) {
                all.push(spec);
            }
        }
        all
    }

    fn hints(&self, spec: &ToolSpec) -> ToolHints {
        self.of(&spec.name).map_or(ToolHints::UNKNOWN, |source| source.hints(spec))
    }

    fn instructions(&self) -> Option<String> {
        let parts: Vec<String> = self.0.iter().filter_map(|source| source.instructions()).collect();
        (!parts.is_empty()).then(|| parts.join("\n"))
    }

    fn knows(&self, name: &str) -> bool {
        self.of(name).is_some()
    }

    fn call<'source>(
        &'source self,
        name: &'source str,
        arguments: Map<String, Value>,
    ) -> ToolFuture<'source> {
        match self.of(name) {
            Some(source) => source.call(name, arguments),
            None => Box::pin(std::future::ready(ToolOutput::error(format!("there is no tool {name}")))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct One(&'static str);

    impl ToolSource for One {
        fn tools(&self) -> Vec<ToolSpec> {
            let spec = |name: &str| ToolSpec {
                name: name.to_owned(),
                description: self.0.to_owned(),
                input_schema: Value::Null,
                replay: Replay::Safe,
            };
            vec![spec("shared"), spec(self.0)]
        }

        fn instructions(&self) -> Option<String> {
            Some(format!("{}.", self.0))
        }

        fn call<'source>(&'source self, name: &'source str, _: Map<String, Value>) -> ToolFuture<'source> {
            Box::pin(std::future::ready(ToolOutput::ok(format!("{name} of {}", self.0))))
        }
    }

    fn answer(source: &MergedTools, name: &str) -> ToolOutput {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match source.call(name, Map::new()).as_mut().poll(&mut context) {
            std::task::Poll::Ready(output) => output,
            std::task::Poll::Pending => panic!("nothing here waits"),
        }
    }

    #[test]
    fn the_first_source_that_has_a_name_answers_to_it() {
        let merged = MergedTools::new(vec![Arc::new(One("a")), Arc::new(One("b"))]);
        let names: Vec<String> = merged.tools().into_iter().map(|tool| tool.name).collect();
        assert_eq!(names, ["shared", "a", "b"]);
        assert_eq!(merged.instructions().as_deref(), Some("a.\nb."));
        assert_eq!(answer(&merged, "shared").text, "shared of a");
        assert_eq!(answer(&merged, "b").text, "b of b");
        assert!(answer(&merged, "c").is_error && !merged.knows("c"));
    }
}
