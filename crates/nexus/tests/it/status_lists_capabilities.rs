//! `nexus status` says what works and how it stands, and offers nothing that nobody accepted.

use nexus_testkit::Workspace;
use serde_json::json;

use crate::scripted::Scripted;

fn skill(workspace: &Workspace, name: &str, head: &str) {
    workspace.write(
        &format!("skills/{name}/SKILL.md"),
        &format!("---\nname: {name}\ndescription: A skill.\nmetadata:\n  nexus:\n{head}---\nDo it.\n"),
    );
}

#[test]
fn w16_capabilities_are_listed_with_their_state_and_unaccepted_skills_are_not_offered() {
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    let empty = workspace.nexus(&["status", "--json"]).json();
    assert_eq!(
        empty["capabilities"],
        json!({"active": 0, "ready": 0, "needsSetup": 0, "items": []}),
        "{empty}"
    );
    skill(&workspace, "weather", "    capabilities: [forecast]\n");
    skill(&workspace, "mail", "    capabilities: [post]\n    requires:\n      credentials: [nomail]\n");
    skill(&workspace, "stranger", "    capabilities: [burglary]\n");
    for name in ["weather", "mail"] {
        workspace.nexus(&["skills", "use", name, "--yes"]).ok();
    }
    let status = workspace.nexus(&["status", "--json"]).json();
    assert_eq!(status["skills"], json!(["mail", "weather"]), "{status}");
    assert_eq!(status["skillsWaiting"], 1, "{status}");
    let items = status["capabilities"]["items"].as_array().unwrap();
    assert_eq!((items[0]["name"].as_str(), items[1]["name"].as_str()), (Some("forecast"), Some("post")));
    assert_eq!(items[1]["state"], "needs-setup", "{status}");
    assert!(items[1]["missing"].to_string().contains("nomail"), "{status}");
    assert!(matches!(items[0]["state"].as_str(), Some("active" | "ready")), "{status}");
    assert_eq!(status["capabilities"]["needsSetup"], 1, "{status}");
    let shown = workspace.nexus(&["status"]).ok().stdout;
    assert!(shown.contains("forecast") && shown.contains("needs-setup"), "{shown}");
    for text in [status.to_string(), shown] {
        assert!(!text.contains("stranger") && !text.contains("burglary"), "{text}");
    }
    // One that changed since is nobody's any more.
    skill(&workspace, "weather", "    capabilities: [forecast, storm]\n");
    let status = workspace.nexus(&["status", "--json"]).json();
    assert_eq!((&status["skills"], &status["skillsWaiting"]), (&json!(["mail"]), &json!(2)), "{status}");
}

#[test]
fn w16_a_worker_is_offered_no_more_than_its_owner_accepted() {
    let scripted =
        Scripted::start(|workspace| skill(workspace, "stranger", "    capabilities: [burglary]\n"));
    let done = scripted.work(&json!([["bash", {"command": "nexus status --json"}]]));
    assert!(done.results[0].contains("\"skillsWaiting\": 1"), "{done:?}");
    assert!(!done.results[0].contains("stranger"), "{done:?}");
    scripted.daemon.stop();
}
