//! Tools through the real binary and a scripted model: long results, hidden secrets, search, and what a
//! sandbox lets through.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use nexus_testkit::Run;
use serde_json::json;

use crate::scripted::Scripted;

#[test]
fn long_results_are_kept_and_secrets_are_not() {
    let secret = format!("sk-ant-{}", "q7".repeat(14));
    let scripted = Scripted::start(|workspace| {
        workspace.set_variable("ELSEWHERE_API_KEY", &secret);
        workspace.write("home/leak.txt", &format!("key={secret}\n"));
        workspace.write("home/own.txt", "a plain secret: correct-horse-battery-staple\n");
    });
    let done = scripted.work(&json!([
        ["bash", {"command": "seq 1 20000"}],
        ["read", {"path": "leak.txt"}],
        ["bash", {"command": "cat leak.txt leak.txt; cat leak.txt >&2"}],
    ]));
    assert!(
        done.results[0].starts_with("1\n2\n") && done.results[0].ends_with("20000\n"),
        "{}",
        done.results[0]
    );
    let name =
        done.results[0].split("the full result is ").nth(1).unwrap().split(';').next().unwrap().to_owned();
    assert!(name.starts_with("artifact:"), "{name}");
    for result in &done.results[1..] {
        assert!(!result.contains(&secret) && result.contains("[redacted]"), "{result}");
    }
    let done = scripted.work(&json!([["read", {"path": name, "offset": 12345, "limit": 1}]]));
    assert!(done.results[0].contains("12345\t12345"), "{done:?}");
    let Scripted { workspace, daemon, server, .. } = scripted;
    assert!(server.asked().iter().all(|asked| !asked.contains(&secret)), "no request holds it");
    daemon.stop();
    for folder in ["state/data", "state/artifacts", "state/logs"] {
        let Ok(entries) = std::fs::read_dir(workspace.path(folder)) else { continue };
        for entry in entries {
            let content = std::fs::read(entry.unwrap().path()).unwrap_or_default();
            let found = content.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{folder} holds the secret");
        }
    }
}

/// A search service on this machine, opened by the owner's own settings; keeps what it was sent.
#[test]
fn a_search_needs_a_key_and_uses_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let key = format!("BSA{}", "k4".repeat(14));
    let expected = key.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut head = [0; 8192];
            let read = stream.read(&mut head).unwrap_or(0);
            let head = String::from_utf8_lossy(&head[..read]).to_lowercase();
            let has_key = head.contains(&format!("x-subscription-token: {}", expected.to_lowercase()));
            let body = if has_key {
                "{\"web\":{\"results\":[{\"title\":\"Bees\",\"url\":\"https://bees.example/\",\"description\":\"Buzz\"}]}}"
            } else {
                "{}"
            };
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
        }
    });
    let scripted = Scripted::start(|workspace| {
        workspace.set_variable("BRAVE_SEARCH_API_KEY", &key);
        workspace.edit_config(|config| config["providers"]["brave"]["base_url"] = json!(base));
    });
    // Nobody imported it yet. Inside a tool call the daemon's environment is scanned (decision 10).
    let done = scripted.work(&json!([
        ["web_search", {"query": "bees"}],
        ["bash", {"command": "nexus credential scan"}],
        ["bash", {"command": "nexus undo; nexus approvals approve x; nexus credential get brave-search"}],
    ]));
    assert!(done.results[0].contains("there is no tool"), "{done:?}");
    assert!(done.results[1].contains("BRAVE_SEARCH_API_KEY") && !done.results[1].contains(&key), "{done:?}");
    assert_eq!(done.results[2].matches("is not available inside a tool call").count(), 3, "{done:?}");
    scripted.workspace.nexus(&["credential", "scan", "--import", "--yes"]).ok();
    let done = scripted.work(&json!([["web_search", {"query": "bees"}]]));
    assert!(
        done.results[0].contains("https://bees.example/") && done.results[0].contains("<<<untrusted"),
        "{done:?}"
    );
}

#[test]
fn commands_do_real_work_and_nothing_else() {
    let scripted = Scripted::start(|workspace| {
        let home = workspace.home();
        for (path, text) in [
            (".ssh/id_ed25519", "PRIVATE KEY"),
            (".claude/.credentials.json", "PRIVATE TOKEN"),
            (".codex/auth.json", "PRIVATE TOKEN"),
            (".config/gh/hosts.yml", "PRIVATE TOKEN"),
            (".aws/credentials", "PRIVATE TOKEN"),
        ] {
            std::fs::create_dir_all(home.join(path).parent().unwrap()).unwrap();
            nexus_base::file::replace(
                &home.join(path),
                text.as_bytes(),
                0o600,
                nexus_base::file::Durability::Crash,
            )
            .unwrap();
        }
    });
    let home = scripted.workspace.home();
    let pid = scripted.daemon.pid();
    let done = scripted.work(&json!([
        ["bash", {"command": "git init -q r && cd r && echo a > a && git add a && git commit -qm one && git log --oneline"}],
        ["bash", {"command": "python3 -m venv v && v/bin/python -c 'print(6*7)' || echo no python"}],
        ["bash", {"command": format!("cat {0}/.ssh/id_ed25519 {0}/.claude/.credentials.json {0}/.codex/auth.json \
                                      {0}/.config/gh/hosts.yml {0}/.aws/credentials", home.display())}],
        ["bash", {"command": "cat ../state/config.json ../state/data/agents.db"}],
        ["bash", {"command": "cd r && git push http://127.0.0.1:9/x.git HEAD:main"}],
        ["bash", {"command": "curl -sS http://127.0.0.1:9/"}],
        ["bash", {"command": format!("kill -9 {pid}")}],
    ]));
    let results = &done.results;
    assert!(results[0].contains("one"), "{results:?}");
    assert!(results[1].contains("42") || results[1].contains("no python"), "{results:?}");
    for denied in &results[2..] {
        assert!(denied.contains("[sandbox]") && !denied.contains("PRIVATE"), "{denied}");
    }
    // Every denial says how it could be allowed.
    assert!(results[3].contains("--project FOLDER"), "{}", results[3]);
    assert!(results[4].contains("\"network\": true"), "{}", results[4]);
    assert!(results[6].contains("nexus stop"), "{}", results[6]);
    let doctor = scripted.workspace.run(&Run::new(&["doctor", "--json"])).stdout;
    assert!(doctor.contains("\"sandbox\""), "{doctor}");
}
