//! Files that are somebody else's: refused by name, with the folder as it was.

use std::fs;
use std::os::unix::fs::symlink;

use nexus_bindings::{BindingError, Ground, Harness, Plan, RecordFolder};

fn try_with(file: &str, text: &[u8], harness: Harness) -> (tempfile::TempDir, Result<Plan, BindingError>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("project").join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    let ground = Ground::survey(&folder.path().join("project"), None).unwrap();
    let plan = Plan::bind(harness, &ground, &RecordFolder::at(folder.path().join("records")), false);
    (folder, plan)
}

#[test]
fn a_file_that_does_not_parse_is_named_with_its_place_and_left() {
    for (file, text, harness) in [
        (".claude/settings.json", "{\n  \"hooks\": {\n    oops\n", Harness::ClaudeCode),
        (".mcp.json", "{\"mcpServers\": [}", Harness::ClaudeCode),
        (".codex/config.toml", "a = = 1\n", Harness::Codex),
        (".codex/config.toml", "mcp_servers = {}\n", Harness::Codex),
        (".gemini/settings.json", "[]", Harness::Gemini),
        (".qwen/settings.json", "{\"hooks\": []}", Harness::Qwen),
        ("opencode.json", "{\"mcp\": 1}", Harness::OpenCode),
        (".cursor/hooks.json", "{\"hooks\": {\"sessionStart\": {}}}", Harness::Cursor),
    ] {
        let (folder, plan) = try_with(file, text.as_bytes(), harness);
        match plan {
            Err(BindingError::Unreadable { file: named, line, column, .. }) => {
                assert_eq!(named.to_str(), Some(file));
                assert!(line >= 1 && column >= 1);
            }
            other => panic!("{file}: {other:?}"),
        }
        assert_eq!(fs::read(folder.path().join("project").join(file)).unwrap(), text.as_bytes());
        assert_eq!(fs::read_dir(folder.path().join("project")).unwrap().count(), 1, "nothing else was made");
    }
    let (_folder, plan) = try_with("AGENTS.md", &[0xff, 0xfe, 0x00], Harness::Codex);
    assert!(matches!(plan, Err(BindingError::NotText(_) | BindingError::File(_))), "{plan:?}");
}

#[test]
fn a_file_of_the_same_name_makes_room_only_by_force_and_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("project");
    let agent = root.join(".claude/agents/nexus-engineer.md");
    fs::create_dir_all(agent.parent().unwrap()).unwrap();
    fs::write(&agent, "mine\n").unwrap();
    let records = RecordFolder::at(folder.path().join("records"));
    let ground = Ground::survey(&root, None).unwrap();
    let refused = Plan::bind(Harness::ClaudeCode, &ground, &records, false);
    assert!(matches!(&refused, Err(BindingError::Taken { changed: false, .. })), "{refused:?}");
    Plan::bind(Harness::ClaudeCode, &ground, &records, true).unwrap().apply(&records).unwrap();
    assert!(fs::read_to_string(&agent).unwrap().contains("nexus:generated"));

    fs::write(&agent, format!("{}changed", fs::read_to_string(&agent).unwrap())).unwrap();
    let refused = Plan::bind(Harness::ClaudeCode, &ground, &records, false);
    assert!(matches!(&refused, Err(BindingError::Taken { changed: true, .. })), "{refused:?}");
    assert!(Plan::remove(Harness::ClaudeCode, &ground, &records, false).is_err());
    Plan::remove(Harness::ClaudeCode, &ground, &records, true).unwrap().apply(&records).unwrap();
    assert_eq!(fs::read_to_string(&agent).unwrap(), "mine\n");
}

#[test]
fn a_link_that_leads_nowhere_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("project");
    fs::create_dir_all(root.join(".claude")).unwrap();
    symlink("/nowhere/at/all", root.join(".claude/settings.json")).unwrap();
    let ground = Ground::survey(&root, None).unwrap();
    let plan = Plan::bind(Harness::ClaudeCode, &ground, &RecordFolder::at(folder.path().join("r")), false);
    assert!(matches!(plan, Err(BindingError::Dangling(_))), "{plan:?}");
}
