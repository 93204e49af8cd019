//! T13 and T14: a secret planted through every way in comes out nowhere: not in a file, a log, an
//! answer or a listing, after onboarding, turns, errors, a kill and a backup.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nexus_testkit::{Daemon, DaemonOptions, Run, Workspace, witness};

/// Key shapes are put together here, since tools that look for keys would hide them in the source.
struct Canaries {
    all: Vec<(&'static str, String)>,
}

impl Canaries {
    fn new() -> Self {
        let tail = |mark: &str| format!("{mark}{}", "7c".repeat(14));
        Self {
            all: vec![
                ("variable", format!("sk-ant-{}", tail("variable"))),
                ("token variable", format!("ghp_{}", tail("token"))),
                ("odd variable", tail("plainvariable")),
                ("claude login", tail("claudelogin")),
                ("codex login", tail("codexlogin")),
                ("added", format!("sk-{}", tail("added"))),
                ("added plain", tail("addedplain")),
                ("command", tail("command")),
                ("file", tail("file")),
                ("config", format!("sk-{}", tail("config"))),
                ("said", format!("sk-ant-{}", tail("said"))),
            ],
        }
    }

    fn get(&self, name: &str) -> &str {
        &self.all.iter().find(|(known, _)| *known == name).expect("a planted one").1
    }

    /// Returns where any of them can be found in `bytes`.
    fn found_in(&self, place: &str, bytes: &[u8], found: &mut Vec<String>) {
        for (name, canary) in &self.all {
            if bytes.windows(canary.len()).any(|window| window == canary.as_bytes()) {
                found.push(format!("{name} in {place}"));
            }
        }
    }

    fn search(&self, folder: &Path, except: &[PathBuf], found: &mut Vec<String>) {
        let mut open = vec![folder.to_owned()];
        while let Some(path) = open.pop() {
            if except.contains(&path) {
                continue;
            }
            let Ok(metadata) = std::fs::symlink_metadata(&path) else { continue };
            if metadata.is_dir() {
                open.extend(
                    std::fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()),
                );
            } else if metadata.is_file() {
                let bytes = std::fs::read(&path).unwrap_or_default();
                self.found_in(&path.display().to_string(), &bytes, found);
            }
        }
    }
}

fn plant(workspace: &mut Workspace, canaries: &Canaries) -> Vec<PathBuf> {
    workspace.set_variable("ANTHROPIC_API_KEY", canaries.get("variable"));
    workspace.set_variable("GITHUB_TOKEN", canaries.get("token variable"));
    workspace.set_variable("MY_SECRET_TOKEN", canaries.get("odd variable"));
    let put = |path: PathBuf, text: String, mode: u32| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        nexus_base::file::replace(&path, text.as_bytes(), mode, nexus_base::file::Durability::Crash).unwrap();
        path
    };
    let home = workspace.home();
    let claude = format!("{{\"claudeAiOauth\":{{\"accessToken\":\"{}\"}}}}", canaries.get("claude login"));
    let codex = format!("{{\"tokens\":{{\"access_token\":\"{}\"}}}}", canaries.get("codex login"));
    let script = format!("#!/bin/sh\necho {}\n", canaries.get("command"));
    vec![
        put(home.join(".claude/.credentials.json"), claude, 0o600),
        put(home.join(".codex/auth.json"), codex, 0o600),
        put(home.join("secret-file"), canaries.get("file").to_owned(), 0o600),
        put(home.join("secret-command"), script, 0o755),
    ]
}

#[test]
fn planted_secrets_are_found_nowhere() {
    let canaries = Canaries::new();
    let mut workspace = Workspace::new(env!("CARGO_BIN_EXE_nexus"));
    let mut except = plant(&mut workspace, &canaries);
    workspace.init();
    let file = except[2].display().to_string();
    let command = except[3].display().to_string();
    let mut outputs: Vec<(String, String)> = Vec::new();
    let mut note = |what: &str, finished: nexus_testkit::Finished| {
        outputs.push((what.to_owned(), format!("{}\n{}", finished.stdout, finished.stderr)));
    };
    let add = |service: &str, canary: &str| {
        let run = Run::new(&["credential", "add", service, "--json"]).input(canaries.get(canary));
        workspace.run(&run).ok()
    };
    note("add", add("openai", "added"));
    note("add plain", add("example-service", "added plain"));
    note("add command", workspace.nexus(&["credential", "add", "from-command", "--command", &command]).ok());
    note("add file", workspace.nexus(&["credential", "add", "from-file", "--file", &file]).ok());
    // What is refused is not repeated either.
    let refused = workspace.nexus(&["config", "set", "providers.openai.api_key", canaries.get("config")]);
    assert_ne!(refused.code(), Some(0), "{refused:?}");
    note("config set", refused);
    let odd = workspace.nexus(&["credential", "add", "x", "--env", &format!("{}!", canaries.get("config"))]);
    assert_ne!(odd.code(), Some(0));
    note("add --env", odd);

    // Onboarding, turns, an unknown route and a kill in the middle of a turn.
    let conversation = format!(
        "{}\nWhat credentials do I have?\nremember that my key is {}",
        witness::ONBOARDING.join("\n"),
        canaries.get("said")
    );
    let run = Run::new(&["up", "--port", "0"]).input(conversation).within(Duration::from_secs(120));
    let mut said = workspace.run(&run).ok();
    // The person's own line is shown to the person as it was typed; nothing else may repeat it.
    said.stdout =
        said.stdout.lines().filter(|line| !line.starts_with("you> ")).collect::<Vec<_>>().join("\n");
    note("up", said);
    let daemon = Daemon::start(&workspace, &DaemonOptions::dying_at("s6.committed"));
    daemon.post("/api/chat", &serde_json::json!({ "message": "Hello again" }));
    daemon.wait_for_end(Duration::from_secs(60));
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    for target in [
        "/health",
        "/api/requests",
        "/api/sessions",
        "/api/chat/history?session=main",
        "/metrics",
        "/nowhere",
    ] {
        let answer = daemon.get(target);
        outputs.push((target.to_owned(), format!("{:?}\n{}", answer.headers, answer.body)));
    }
    outputs.push(("daemon".to_owned(), daemon.log()));

    let backup = workspace.home().join("backup");
    let listings: [&[&str]; 14] = [
        &["credential", "list", "--json"],
        &["credential", "scan", "--deep", "--import", "--yes", "--json"],
        &["credential", "sync", "--json"],
        &["credential", "get", "openai/default"],
        &["status", "--json"],
        &["config", "list", "--json"],
        &["trace", "--json"],
        &["trace", "--list", "--json"],
        &["sessions", "--json"],
        &["identity", "--json"],
        &["logs", "--json", "-n", "100000"],
        &["usage", "--json"],
        &["doctor", "--json"],
        &["backup", backup.to_str().unwrap(), "--json"],
    ];
    for arguments in listings {
        let finished = workspace.nexus(arguments);
        outputs.push((arguments.join(" "), format!("{}\n{}", finished.stdout, finished.stderr)));
    }
    daemon.kill9();
    assert!(backup.join("nexus-backup.json").is_file(), "{outputs:?}");

    let mut found = Vec::new();
    for (what, text) in &outputs {
        canaries.found_in(what, text.as_bytes(), &mut found);
    }
    except.push(workspace.home().join("nowhere"));
    canaries.search(&workspace.home(), &except, &mut found);
    canaries.search(workspace.root(), &except, &mut found);
    assert_eq!(found, Vec::<String>::new());
    // The token is the one secret a file of the workspace holds; no copy has it.
    let token = workspace.token();
    let holds = std::fs::read_to_string(backup.join("state/config.json")).unwrap();
    assert!(!holds.contains(&token));
    assert!(outputs.iter().all(|(_, text)| !text.contains(&token)));
    for private in ["state", "state/credentials", "state/data", "state/credentials/openai"] {
        let mode = std::fs::metadata(workspace.path(private)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{private}");
    }
    // They are still usable by their owner.
    let got = workspace.nexus(&["credential", "get", "openai/default", "--raw"]).ok();
    assert_eq!(got.stdout.trim(), canaries.get("added"));
    let got = workspace.nexus(&["credential", "get", "from-command", "--raw"]).ok();
    assert_eq!(got.stdout.trim(), canaries.get("command"));
}

#[test]
fn a_key_written_into_the_configuration_by_hand_goes_into_no_copy() {
    let canaries = Canaries::new();
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    let mut config = workspace.json("state/config.json");
    config["notes"] = canaries.get("config").into();
    workspace.write("state/config.json", &config.to_string());
    let refused = workspace.nexus(&["start", "--port", "0"]);
    assert_eq!(refused.code(), Some(1), "{refused:?}");
    assert!(refused.stderr.contains("nexus credential add"), "{refused:?}");
    let backup = workspace.home().join("backup");
    workspace.nexus(&["backup", backup.to_str().unwrap()]).ok();
    let mut found = Vec::new();
    canaries.found_in("start", format!("{refused:?}").as_bytes(), &mut found);
    for arguments in [&["config", "list", "--json"][..], &["doctor", "--json"], &["status", "--json"]] {
        let finished = workspace.nexus(arguments);
        canaries.found_in(&arguments.join(" "), format!("{finished:?}").as_bytes(), &mut found);
    }
    canaries.search(&workspace.home(), &[], &mut found);
    canaries.search(workspace.root(), &[workspace.path("state/config.json")], &mut found);
    assert_eq!(found, Vec::<String>::new());
}
