//! What models are told of our tools, as it stands in `specs.json`.

use std::sync::LazyLock;

use nexus_protocol::tool::ToolSpec;

static SPECS: LazyLock<Vec<ToolSpec>> = LazyLock::new(|| {
    // A test reads the same file strictly; a damaged build would lack the tools, not panic.
    serde_json::from_str(include_str!("specs.json")).unwrap_or_default()
});

/// Returns what a model is told of a tool.
pub(crate) fn spec(name: &str) -> Option<ToolSpec> {
    SPECS.iter().find(|spec| spec.name == name).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{coordination, memory_tools, web};

    #[test]
    fn every_tool_has_one_and_what_may_act_is_never_run_again() {
        let all: Vec<ToolSpec> = serde_json::from_str(include_str!("specs.json")).unwrap();
        let names: Vec<&str> = all.iter().map(|spec| spec.name.as_str()).collect();
        for name in [
            "read",
            "write",
            "edit",
            "list",
            "glob",
            "grep",
            "bash",
            web::FETCH,
            web::SEARCH,
            memory_tools::RECALL,
            memory_tools::REMEMBER,
            coordination::AGENT_SEND,
            coordination::GET_AGENT_STATUS,
            coordination::WAIT,
        ] {
            assert_eq!(names.iter().filter(|known| **known == name).count(), 1, "{name}");
        }
        let unsafe_ones: Vec<&str> = all
            .iter()
            .filter(|spec| spec.replay == nexus_protocol::tool::Replay::Unsafe)
            .map(|spec| spec.name.as_str())
            .collect();
        assert_eq!(unsafe_ones, ["write", "edit", "bash"]);
    }
}
