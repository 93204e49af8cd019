//! Every kind of tool a capability denies has a tool that is refused because of it.

use nexus_project::catalog::{Catalog, effective};
use nexus_project::gates::{Ask, Caller, refusal};
use nexus_project::{Project, Tool};
use serde_json::json;

use crate::child::ask;

/// What each kind of tool is called here.
const TOOLS: [(&str, &str); 11] = [
    ("file_creation", "write"),
    ("file_modification", "write"),
    ("file_deletion", "delete"),
    ("partial_file_edit", "edit"),
    ("structured_document_edit", "notebookedit"),
    ("nexus_task_creation", "task_add"),
    ("nexus_task_state_transition", "task_update"),
    ("nexus_task_metadata_modification", "task_update"),
    ("shell_command_exec", "bash"),
    ("subprocess_spawn", "bash"),
    ("interactive_shell_session", "bash"),
];

struct Ground {
    _folder: tempfile::TempDir,
    project: Project,
    catalog: Catalog,
}

fn ground() -> Ground {
    let folder = tempfile::tempdir().unwrap();
    let project = Project::open(folder.path()).unwrap();
    // With a task, so that only the role can be why something is refused.
    ask(&project, Tool::TaskAdd, json!({ "title": "t", "context": "c" }));
    Ground { _folder: folder, project, catalog: Catalog::embedded().unwrap() }
}

fn refused(ground: &Ground, caller: Caller<'_>, tool: &str) -> bool {
    let input = json!({ "path": "src/x.rs", "command": "true" });
    let Ground { project, catalog, .. } = ground;
    refusal(&Ask { project, catalog, caller, tool, input: &input, folder: None, exempt: &[] }).is_some()
}

#[test]
fn each_kind_alone_is_enough_to_refuse_its_tool() {
    let mut ground = ground();
    let mut classes: Vec<String> = ground
        .catalog
        .vocabulary
        .capabilities
        .iter()
        .flat_map(|capability| capability.blocks_semantic_classes.clone())
        .collect();
    classes.sort();
    let mut mapped: Vec<&str> = TOOLS.iter().map(|(class, _)| *class).collect();
    mapped.sort_unstable();
    assert_eq!(classes, mapped, "every kind in the catalog has a tool here, and nothing else");
    for (class, tool) in TOOLS {
        let engineer = ground.catalog.agents.iter_mut().find(|agent| agent.id == "engineer").unwrap();
        engineer.capabilities = vec!["only".to_owned()];
        let mut capability = ground.catalog.vocabulary.capabilities[0].clone();
        capability.id = "only".to_owned();
        capability.blocks_semantic_classes = vec![class.to_owned()];
        ground.catalog.vocabulary.capabilities.push(capability);
        let role = ground.catalog.agent("engineer");
        assert!(refused(&ground, Caller::Subagent { role }, tool), "{class} does not refuse {tool}");
        assert!(!refused(&ground, Caller::Lead, tool), "{tool} is refused to Lead");
        for free in ["read", "plan_status", "task_list", "history_search", "context", "artifact_write"] {
            assert!(!refused(&ground, Caller::Subagent { role }, free), "{class} refuses {free}");
        }
        ground.catalog.vocabulary.capabilities.pop();
    }
}

#[test]
fn plans_and_closing_are_lead_s_whatever_a_role_may_do() {
    let ground = ground();
    for agent in &ground.catalog.agents {
        for tool in ["plan_start", "plan_update", "plan_decide", "task_close"] {
            assert!(
                refused(&ground, Caller::Subagent { role: Some(agent) }, tool),
                "{} may {tool}",
                agent.id
            );
            assert!(refused(&ground, Caller::Subagent { role: None }, tool));
            assert!(!refused(&ground, Caller::Lead, tool));
        }
    }
}

#[test]
fn nothing_added_takes_a_denial_away() {
    let ground = ground();
    for agent in &ground.catalog.agents {
        for additions in [vec![], vec!["no_shell_exec".to_owned()], vec!["no_task_create".to_owned(); 2]] {
            let all = effective(agent, &additions);
            assert!(agent.capabilities.iter().chain(&additions).all(|denial| all.contains(denial)));
            assert_eq!(effective(agent, &all), all, "adding the same again changes nothing");
        }
    }
}
