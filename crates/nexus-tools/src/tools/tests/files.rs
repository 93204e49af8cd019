//! read, write, edit, list, glob and grep on ordinary work.

use serde_json::json;

use super::Place;

#[tokio::test]
async fn read_numbers_lines_and_pages() {
    let place = Place::new();
    let tools = place.worker();
    place.put("home/lines", &(1..=10).map(|number| format!("line {number}\n")).collect::<String>());
    let output = place.call(&tools, "read", json!({"path": "home/lines", "offset": 3, "limit": 2})).await;
    assert_eq!(
        Place::worked(&output),
        "     3\tline 3\n     4\tline 4\n[more follows: continue with offset=5]"
    );
    let output = place.call(&tools, "read", json!({"path": "home/lines", "offset": 10})).await;
    assert_eq!(Place::worked(&output), "    10\tline 10\n");
    let output = place.call(&tools, "read", json!({"path": "home/lines", "offset": 11})).await;
    assert!(Place::failed(&output).contains("only 10 lines"));
}

#[tokio::test]
async fn read_caps_and_refuses_what_is_not_text() {
    let place = Place::new();
    let tools = place.worker();
    place.put("home/long", &format!("{}\n", "y".repeat(99)).repeat(5000));
    let output = place.call(&tools, "read", json!({"path": "home/long"})).await;
    let text = Place::worked(&output);
    assert!(text.len() < 33 * 1024 && text.contains("continue with offset="), "{}", text.len());
    place.put("home/wide", &"z".repeat(500_000));
    let output = place.call(&tools, "read", json!({"path": "home/wide"})).await;
    assert!(Place::worked(&output).contains("498000 more bytes in this line"));
    place.put("home/binary", "a\0b");
    let output = place.call(&tools, "read", json!({"path": "home/binary"})).await;
    assert!(Place::failed(&output).contains("not text (3 bytes)"));
    place.put("home/empty", "");
    let output = place.call(&tools, "read", json!({"path": "home/empty"})).await;
    assert_eq!(Place::worked(&output), "[home/empty is empty]");
    let output = place.call(&tools, "read", json!({"path": "home"})).await;
    assert!(Place::failed(&output).contains("use list"));
    let output = place.call(&tools, "read", json!({"path": "home/none"})).await;
    assert_eq!(Place::failed(&output), "home/none does not exist; look with list or glob");
}

#[tokio::test]
async fn paths_may_be_relative_to_the_workspace_or_the_task_folder_or_absolute() {
    let place = Place::new();
    let tools = place.worker();
    place.put("home/notes/a.md", "here");
    let absolute = place.root().join("home/notes/a.md");
    for path in ["home/notes/a.md", "notes/a.md", "./notes/../notes/a.md", absolute.to_str().unwrap()] {
        let output = place.call(&tools, "read", json!({"path": path})).await;
        assert_eq!(Place::worked(&output), "     1\there\n", "{path}");
    }
}

#[tokio::test]
async fn write_makes_folders_and_replaces() {
    let place = Place::new();
    let tools = place.worker();
    let output = place.call(&tools, "write", json!({"path": "a/b/c.txt", "content": "one\ntwo\n"})).await;
    assert_eq!(Place::worked(&output), "made home/a/b/c.txt (8 bytes, 2 lines)");
    let output = place.call(&tools, "write", json!({"path": "home/a/b/c.txt", "content": "three"})).await;
    assert_eq!(Place::worked(&output), "replaced home/a/b/c.txt (5 bytes, 1 lines)");
    assert_eq!(place.get("home/a/b/c.txt"), "three");
    let output =
        place.call(&tools, "write", json!({"path": "big", "content": "x".repeat(1024 * 1024 + 1)})).await;
    assert!(Place::failed(&output).contains("1048577 bytes"));
    let output = place.call(&tools, "write", json!({"path": "a/b/", "content": ""})).await;
    assert!(Place::failed(&output).contains("names a folder"));
    let output = place.call(&tools, "write", json!({"path": "a/b/c.txt/d", "content": ""})).await;
    assert!(Place::failed(&output).contains("a/b/c.txt"));
}

#[tokio::test]
async fn edit_replaces_exactly_or_says_why_not() {
    let place = Place::new();
    let tools = place.worker();
    let text = "fn alpha() {}\nfn beta() {\n    call();\n}\ncall();\n";
    place.put("home/code.rs", text);
    let edit = |old: &str, new: &str, all: bool| json!({"path": "home/code.rs", "old": old, "new": new, "replace_all": all});
    let output = place.call(&tools, "edit", edit("call();", "other();", false)).await;
    assert_eq!(
        Place::failed(&output),
        "\"old\" occurs 2 times in home/code.rs (line 3, 5); add surrounding lines until it is unique, or set \
         replace_all"
    );
    let output = place.call(&tools, "edit", edit("fn beta()  {", "x", false)).await;
    assert!(
        Place::failed(&output).contains("The nearest lines are:\n     2\tfn beta() {"),
        "{}",
        output.text
    );
    let output = place.call(&tools, "edit", edit("fn beta() {\ncall();", "x", false)).await;
    assert!(Place::failed(&output).contains("Line 2 starts like it"), "{}", output.text);
    let output = place.call(&tools, "edit", edit("zzzzzz qqqq", "x", false)).await;
    assert!(Place::failed(&output).contains("Nothing similar"));
    let output = place.call(&tools, "edit", edit("a", "a", false)).await;
    assert!(Place::failed(&output).contains("nothing to do"));
    assert_eq!(place.get("home/code.rs"), text);

    let output = place.call(&tools, "edit", edit("fn beta() {\n    call();", "fn beta() {", false)).await;
    assert_eq!(Place::worked(&output), "replaced 1 occurrence in home/code.rs (line 2)");
    let output = place.call(&tools, "edit", edit("fn ", "pub fn ", true)).await;
    assert_eq!(Place::worked(&output), "replaced 2 occurrences in home/code.rs (line 1, 2)");
    assert_eq!(place.get("home/code.rs"), "pub fn alpha() {}\npub fn beta() {\n}\ncall();\n");
}

#[tokio::test]
async fn list_shows_kinds_and_the_way_to_what_is_open() {
    let place = Place::new();
    let tools = place.worker();
    place.put("home/b.txt", "12345");
    std::fs::create_dir(place.root().join("home/a")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", place.root().join("home/c")).unwrap();
    let output = place.call(&tools, "list", json!({})).await;
    assert_eq!(Place::worked(&output), "a/\nb.txt\t5 bytes\nc\tlink, not followed\n");
    let output = place.call(&tools, "list", json!({"path": "home/a"})).await;
    assert_eq!(Place::worked(&output), "[home/a is empty]");
    let output = place.call(&tools, "list", json!({"path": "."})).await;
    assert_eq!(
        Place::worked(&output),
        "AGENTS.md\nhome\nskills\nstate\n[only what you have access to is shown]"
    );
    let output = place.call(&tools, "list", json!({"path": "state"})).await;
    assert_eq!(Place::worked(&output), "agents\nuser\n[only what you have access to is shown]");
    let output = place.call(&tools, "list", json!({"path": "state/data"})).await;
    assert!(Place::failed(&output).contains("you have no access to"));
}

#[tokio::test]
async fn glob_finds_by_name() {
    let place = Place::new();
    let tools = place.worker();
    for path in
        ["home/a.rs", "home/src/b.rs", "home/src/deep/c.rs", "home/src/d.md", "home/node_modules/e.rs"]
    {
        place.put(path, "x");
    }
    let output = place.call(&tools, "glob", json!({"pattern": "**/*.rs"})).await;
    assert_eq!(
        Place::worked(&output),
        "home/a.rs\nhome/src/b.rs\nhome/src/deep/c.rs\n[passed over: node_modules]\n"
    );
    let output = place.call(&tools, "glob", json!({"pattern": "home/src/*.rs"})).await;
    assert_eq!(Place::worked(&output), "home/src/b.rs\n");
    let output = place.call(&tools, "glob", json!({"pattern": "home/node_modules/*"})).await;
    assert_eq!(Place::worked(&output), "home/node_modules/e.rs\n");
    let output = place.call(&tools, "glob", json!({"pattern": "skills/**/*.md"})).await;
    assert_eq!(Place::worked(&output), "skills/one/SKILL.md\n");
    let output = place.call(&tools, "glob", json!({"pattern": "*.none"})).await;
    assert_eq!(Place::worked(&output), "[nothing matches *.none]\n[passed over: node_modules]\n");
    let output = place.call(&tools, "glob", json!({"pattern": "state/**"})).await;
    assert!(Place::failed(&output).contains("you have no access to"));
}

#[tokio::test]
async fn grep_finds_lines() {
    let place = Place::new();
    let tools = place.worker();
    place.put("home/a.rs", "let one = 1;\nlet two = 2;\n");
    place.put("home/sub/b.md", "One more\n");
    place.put("home/binary", "one\0one");
    let output = place.call(&tools, "grep", json!({"pattern": "one"})).await;
    assert_eq!(Place::worked(&output), "home/a.rs:1: let one = 1;\n");
    let output =
        place.call(&tools, "grep", json!({"pattern": "one", "ignore_case": true, "glob": "*.md"})).await;
    assert_eq!(Place::worked(&output), "home/sub/b.md:1: One more\n");
    let output = place.call(&tools, "grep", json!({"pattern": "two", "path": "home/a.rs"})).await;
    assert_eq!(Place::worked(&output), "home/a.rs:2: let two = 2;\n");
    let output = place.call(&tools, "grep", json!({"pattern": "none"})).await;
    assert_eq!(Place::worked(&output), "[no line matches none]\n");
    place.put("home/many", &"match\n".repeat(1000));
    let output = place.call(&tools, "grep", json!({"pattern": "match"})).await;
    assert!(
        Place::worked(&output)
            .ends_with("[stopped after 200 lines in 1 files; narrow the pattern or path]\n")
    );
    let output = place.call(&tools, "grep", json!({"pattern": "SECRET", "path": "state"})).await;
    assert!(Place::failed(&output).contains("you have no access to"));
}
