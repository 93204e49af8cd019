//! What a model is told about each tool: a description, a JSON Schema, and whether a call may be repeated. It
//! stands in `specs.json`.
//!
//! The list of actions of `plan_update` stands in the description of the field: a schema check in front of the
//! tool must not replace the tool's own answer to an unknown one.

use std::sync::LazyLock;

use nexus_protocol::tool::ToolSpec;

static SPECS: LazyLock<Vec<ToolSpec>> = LazyLock::new(|| {
    // A test reads the same file strictly; a damaged build would lack the tools, not panic.
    serde_json::from_str(include_str!("specs.json")).unwrap_or_default()
});

/// Returns what a model is told about the tools, in the order of the contract.
pub fn specs() -> &'static [ToolSpec] {
    &SPECS
}

#[cfg(test)]
mod tests {
    use nexus_protocol::tool::Replay;

    use super::*;
    use crate::tools::Tool;

    #[test]
    fn every_tool_has_one_and_only_those_that_look_are_run_again() {
        let all: Vec<ToolSpec> = serde_json::from_str(include_str!("specs.json")).unwrap();
        let names: Vec<Option<Tool>> = all.iter().map(|spec| Tool::parse(&spec.name)).collect();
        assert_eq!(names, Tool::ALL.map(Some));
        for (spec, tool) in all.iter().zip(Tool::ALL) {
            assert_eq!(spec.replay == Replay::Safe, tool.is_read_only(), "{}", spec.name);
        }
    }
}
