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

/// A server of the person's that is called as ours is, in each harness's own file.
const THEIR_SERVERS: [(&str, &str, &str, Harness); 7] = [
    (".mcp.json", "mcpServers.nexus", THEIRS, Harness::ClaudeCode),
    (".cursor/mcp.json", "mcpServers.nexus", THEIRS, Harness::Cursor),
    (".gemini/settings.json", "mcpServers.nexus", THEIRS, Harness::Gemini),
    (".qwen/settings.json", "mcpServers.nexus", THEIRS, Harness::Qwen),
    ("opencode.json", "mcp.nexus", r#"{"mcp":{"nexus":{"command":["sonatype"]}}}"#, Harness::OpenCode),
    (".codex/config.toml", "mcp_servers.nexus", "[mcp_servers.nexus]\ncommand = \"mine\"\n", Harness::Codex),
    (".cursor/hooks.json", "version", r#"{"version":2,"hooks":{}}"#, Harness::Cursor),
];
const THEIRS: &str = r#"{"mcpServers":{"nexus":{"command":"my-sonatype-nexus"}}}"#;

#[test]
fn an_entry_of_the_same_name_is_never_written_over() {
    for (file, entry, text, harness) in THEIR_SERVERS {
        let (folder, plan) = try_with(file, text.as_bytes(), harness);
        match &plan {
            Err(error @ BindingError::TakenEntry { file: named, entry: found, .. }) => {
                assert_eq!((named.to_str(), found.as_str()), (Some(file), entry));
                assert!(error.hint().unwrap().contains("rename or remove"));
            }
            other => panic!("{file}: {other:?}"),
        }
        let root = folder.path().join("project");
        let ground = Ground::survey(&root, None).unwrap();
        let records = RecordFolder::at(folder.path().join("records"));
        assert!(Plan::bind(harness, &ground, &records, true).is_err(), "not by force either");
        // Never bound, so there is nothing to take away.
        Plan::remove(harness, &ground, &records, true).unwrap().apply(&records).unwrap();
        assert_eq!(fs::read_to_string(root.join(file)).unwrap(), text, "{file}");
    }
}

#[test]
fn an_entry_that_was_exchanged_or_added_to_since_stays_when_the_binding_goes() {
    for (file, _, text, harness) in THEIR_SERVERS {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("project");
        fs::create_dir_all(&root).unwrap();
        let ground = Ground::survey(&root, None).unwrap();
        let records = RecordFolder::at(folder.path().join("records"));
        Plan::bind(harness, &ground, &records, false).unwrap().apply(&records).unwrap();
        let ours = fs::read_to_string(root.join(file)).unwrap();
        let added =
            ours.replace("[\"mcp\"]", "[\"mcp\", \"--mine\"]").replace("\"mcp\"\n", "\"mcp\", \"--mine\"\n");
        for theirs in [text, &added].into_iter().filter(|theirs| **theirs != ours) {
            fs::write(root.join(file), theirs).unwrap();
            let again = Plan::bind(harness, &ground, &records, false);
            assert!(matches!(again, Err(BindingError::TakenEntry { .. })), "{file}: {again:?}");
            Plan::remove(harness, &ground, &records, false).unwrap().apply(&records).unwrap();
            let left = fs::read_to_string(root.join(file)).unwrap();
            assert!(left == text || left.contains("--mine"), "{file}: {left}");
            fs::remove_file(root.join(file)).unwrap();
            Plan::bind(harness, &ground, &records, false).unwrap().apply(&records).unwrap();
        }
    }
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

#[test]
fn a_link_out_of_the_folder_is_not_written_through() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("project");
    let outside = folder.path().join("outside");
    fs::create_dir_all(&root).unwrap();
    fs::create_dir_all(&outside).unwrap();
    let records = RecordFolder::at(folder.path().join("r"));
    fs::write(outside.join("settings.json"), "{}\n").unwrap();
    // The file itself, its folder, and a folder that is not there yet.
    let lay = |what: &str| match what {
        "file" => {
            fs::create_dir_all(root.join(".claude")).unwrap();
            symlink(outside.join("settings.json"), root.join(".claude/settings.json")).unwrap();
        }
        _ => symlink(&outside, root.join(".claude")).unwrap(),
    };
    for what in ["file", "folder"] {
        lay(what);
        let ground = Ground::survey(&root, None).unwrap();
        let plan = Plan::bind(Harness::ClaudeCode, &ground, &records, false);
        assert!(
            matches!(plan, Err(BindingError::LeadsOutside { .. } | BindingError::Dangling(_))),
            "{what}: {plan:?}"
        );
        assert_eq!(fs::read_to_string(outside.join("settings.json")).unwrap(), "{}\n", "{what}");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1, "{what}");
        if what == "file" {
            fs::remove_dir_all(root.join(".claude")).unwrap();
        }
    }
}
