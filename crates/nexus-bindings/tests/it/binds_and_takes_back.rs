//! Bound and unbound, a folder is what it was, to the byte, whatever was there before.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use nexus_bindings::{Ground, Harness, Plan, RecordFolder};

/// Everything a folder holds: bytes, modes, links, and that a folder is one.
fn tree(root: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let about = fs::symlink_metadata(&path).unwrap();
            let bytes = if about.is_dir() {
                open.push(path.clone());
                Vec::new()
            } else if about.is_symlink() {
                fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
            } else {
                fs::read(&path).unwrap()
            };
            found.insert(path.strip_prefix(root).unwrap().to_owned(), (about.permissions().mode(), bytes));
        }
    }
    found
}

fn put(root: &Path, file: &str, text: &str) {
    let path = root.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// JSON files a harness shares with its user.
fn settings(harness: Harness) -> &'static str {
    match harness {
        Harness::ClaudeCode => ".claude/settings.json",
        Harness::Codex => ".codex/hooks.json",
        Harness::Cursor => ".cursor/hooks.json",
        Harness::OpenCode => "opencode.json",
        Harness::Gemini => ".gemini/settings.json",
        Harness::Qwen => ".qwen/settings.json",
    }
}

/// What somebody may have before, by name: each makes one folder.
type Configuration = (&'static str, Box<dyn Fn(&Path)>);

fn configurations(harness: Harness) -> Vec<Configuration> {
    let file = settings(harness);
    let theirs = r#"{"hooks":{"SessionStart":[{"matcher":"startup","hooks":[{"type":"command","command":"./mine.sh"}]}],"sessionStart":[{"command":"./mine.sh"}]}}"#;
    let mut all: Vec<Configuration> = vec![
        ("nothing", Box::new(|_| {})),
        ("empty file", Box::new(move |root| put(root, file, ""))),
        ("empty object", Box::new(move |root| put(root, file, "{}"))),
        ("own hooks on one line", Box::new(move |root| put(root, file, theirs))),
        (
            "own hooks, four spaces",
            Box::new(move |root| put(root, file, &format!("{}\n", theirs.replace('{', "{\n    ")))),
        ),
        (
            "comments and commas",
            Box::new(move |root| put(root, file, "{\n  // mine\n  \"theme\": \"dark\", // yes\n}\n")),
        ),
        ("windows lines", Box::new(move |root| put(root, file, "{\r\n\t\"model\": \"x\"\r\n}\r\n"))),
        ("byte order mark", Box::new(move |root| put(root, file, "\u{feff}{\n  \"model\": \"日本\"\n}"))),
        (
            "empty containers",
            Box::new(move |root| {
                put(root, file, "{\"hooks\": {}, \"mcpServers\": {}, \"mcp\": {}, \"instructions\": []}\n")
            }),
        ),
        (
            "own server",
            Box::new(move |root| {
                put(root, file, "{\"mcpServers\": {\"db\": {\"command\": \"db\"}}, \"mcp\": {\"db\": {}}}\n");
                put(root, ".mcp.json", "{\n\t\"mcpServers\": {\n\t\t\"db\": {\"command\": \"db\"}\n\t}\n}\n");
            }),
        ),
        (
            "private mode",
            Box::new(move |root| {
                put(root, file, "{}\n");
                fs::set_permissions(root.join(file), fs::Permissions::from_mode(0o600)).unwrap();
            }),
        ),
        (
            "link to elsewhere",
            Box::new(move |root| {
                put(root, "dotfiles/settings.json", "{\n  \"a\": 1\n}\n");
                let path = root.join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                symlink(root.join("dotfiles/settings.json"), path).unwrap();
            }),
        ),
        (
            "prose without an end",
            Box::new(|root| {
                put(root, "AGENTS.md", "# House rules\n\nBe kind.");
                put(root, "CLAUDE.md", "Read this.\n");
                put(root, "GEMINI.md", "\n\n");
            }),
        ),
        (
            "own agents and skills",
            Box::new(|root| {
                for folder in [
                    ".claude/agents",
                    ".codex/agents",
                    ".cursor/agents",
                    ".opencode/agent",
                    ".gemini/agents",
                    ".qwen/agents",
                ] {
                    put(root, &format!("{folder}/mine.md"), "---\nname: mine\n---\nHello\n");
                }
                put(root, ".agents/skills/mine/SKILL.md", "---\nname: mine\n---\n");
                put(root, ".claude/skills/mine/SKILL.md", "---\nname: mine\n---\n");
            }),
        ),
    ];
    if harness == Harness::Codex {
        for (name, text) in [
            ("own tables", "model = \"x\" # mine\n\n[mcp_servers.db]\ncommand = \"db\"\n"),
            ("tables without an end", "[projects.\"/a\"]\ntrust_level = \"trusted\""),
            ("only a comment", "# nothing here\n"),
        ] {
            all.push((name, Box::new(move |root| put(root, ".codex/config.toml", text))));
        }
    }
    if harness == Harness::OpenCode {
        all.push((
            "with comments by name",
            Box::new(|root| put(root, "opencode.jsonc", "{\n  // c\n  \"mcp\": {}, /* d */\n}\n")),
        ));
    }
    all
}

#[test]
fn a_folder_is_what_it_was_after_binding_and_removing() {
    let mut tried = 0;
    for harness in Harness::ALL {
        for (name, make) in configurations(harness) {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path().join("project");
            fs::create_dir(&root).unwrap();
            let records = RecordFolder::at(folder.path().join("records"));
            make(&root);
            let before = tree(&root);
            let ground = Ground::survey(&root, None).unwrap();

            let plan = Plan::bind(harness, &ground, &records, false)
                .unwrap_or_else(|error| panic!("{harness} {name}: {error}"));
            assert!(!plan.is_empty() && !plan.diff().is_empty());
            assert_eq!(tree(&root), before, "{harness} {name}: a plan writes nothing");
            plan.apply(&records).unwrap();
            let bound = tree(&root);
            assert_ne!(bound, before, "{harness} {name}");
            for (path, (mode, _)) in &before {
                assert_eq!(
                    bound.get(path).map(|(mode, _)| mode),
                    Some(mode),
                    "{harness} {name}: mode of {path:?}"
                );
            }

            let again = Plan::bind(harness, &ground, &records, false).unwrap();
            assert!(again.is_empty(), "{harness} {name}: a second time\n{}", again.diff());
            again.apply(&records).unwrap();
            assert_eq!(tree(&root), bound, "{harness} {name}: a second time");

            Plan::remove(harness, &ground, &records, false).unwrap().apply(&records).unwrap();
            assert_eq!(tree(&root), before, "{harness} {name}: removed");
            assert_eq!(fs::read_dir(folder.path().join("records")).unwrap().count(), 0, "no record stays");
            tried += 1;
        }
    }
    assert!(tried >= 6 * 10, "{tried}");
}

#[test]
fn harnesses_share_a_folder_and_leave_it_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("project");
    fs::create_dir(&root).unwrap();
    put(&root, "AGENTS.md", "# Mine\n");
    let records = RecordFolder::at(folder.path().join("records"));
    let before = tree(&root);
    let ground = Ground::survey(&root, None).unwrap();
    let mut states = vec![before];
    for harness in Harness::ALL {
        Plan::bind(harness, &ground, &records, false).unwrap().apply(&records).unwrap();
        states.push(tree(&root));
    }
    states.pop();
    for harness in Harness::ALL.into_iter().rev() {
        Plan::remove(harness, &ground, &records, false).unwrap().apply(&records).unwrap();
        assert_eq!(Some(tree(&root)), states.pop(), "{harness} left");
    }
}

#[test]
fn what_somebody_added_meanwhile_stays_when_the_binding_goes() {
    for harness in Harness::ALL {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("project");
        fs::create_dir(&root).unwrap();
        let records = RecordFolder::at(folder.path().join("records"));
        let ground = Ground::survey(&root, None).unwrap();
        Plan::bind(harness, &ground, &records, false).unwrap().apply(&records).unwrap();
        let file = root.join(settings(harness));
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, text.replacen('{', "{\n  \"added\": true,", 1)).unwrap();
        let agents = fs::read_to_string(root.join("AGENTS.md")).unwrap();
        fs::write(root.join("AGENTS.md"), format!("# Added\n\n{agents}")).unwrap();

        let again = Plan::bind(harness, &ground, &records, false).unwrap();
        assert!(again.is_empty(), "{harness}\n{}", again.diff());
        Plan::remove(harness, &ground, &records, false).unwrap().apply(&records).unwrap();
        let left = fs::read_to_string(&file).unwrap();
        assert!(left.contains("added") && !left.contains("nexus"), "{harness}: {left}");
        assert_eq!(fs::read_to_string(root.join("AGENTS.md")).unwrap(), "# Added\n", "{harness}");
    }
}

#[test]
fn without_its_record_a_binding_still_goes() {
    for harness in Harness::ALL {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("project");
        fs::create_dir(&root).unwrap();
        put(&root, "AGENTS.md", "# Mine\n");
        let records = RecordFolder::at(folder.path().join("records"));
        let ground = Ground::survey(&root, None).unwrap();
        let before = tree(&root);
        Plan::bind(harness, &ground, &records, false).unwrap().apply(&records).unwrap();
        let elsewhere = RecordFolder::at(folder.path().join("other"));
        Plan::remove(harness, &ground, &elsewhere, false).unwrap().apply(&elsewhere).unwrap();
        let mut left = tree(&root);
        // Without a record nobody knows who made the empty folders.
        left.retain(|path, _| !root.join(path).is_dir());
        assert_eq!(left, before, "{harness}");
    }
}
