//! What no path reaches, however it is written (T20).

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use nexus_workspace::persona::IdentityRights;
use nexus_workspace::{Layout, LayoutOverrides};
use proptest::prelude::*;
use serde_json::json;

use super::Place;
use crate::tools::{AccessError, FileAccess, FileTools};

#[tokio::test]
async fn closed_files_stay_closed_to_every_role() {
    let place = Place::new();
    for tools in [place.worker(), place.onboarding(), place.manager()] {
        for path in [
            "state/config.json",
            "./state/config.json",
            "home/../state/config.json",
            "../state/config.json",
            "state/data/agents.db",
            "state/credentials/x.json",
            "state/user/../config.json",
            "/etc/passwd",
            "~/.ssh/id",
            "state",
            "..",
            "/",
        ] {
            for tool in ["read", "write", "edit"] {
                let output = place
                    .call(&tools, tool, json!({"path": path, "content": "x", "old": "S", "new": "x"}))
                    .await;
                let text = Place::failed(&output);
                assert!(!text.contains("SECRET"), "{path}");
                assert!(text.contains("You may change:") || path == "..", "{tool} {path}: {text}");
            }
        }
    }
    assert_eq!(place.get("state/config.json"), "SECRET token");
}

#[tokio::test]
async fn identity_is_written_by_manager_and_onboarding_only() {
    let place = Place::new();
    let write = json!({"path": "state/user/USER.md", "content": "new"});
    let output = place.call(&place.worker(), "write", write.clone()).await;
    assert_eq!(
        Place::failed(&output),
        "state/user/USER.md may be read but not changed. You may change: home. You may read: AGENTS.md, skills, \
         state/agents, state/user."
    );
    for tools in [place.onboarding(), place.manager()] {
        Place::worked(&place.call(&tools, "write", write.clone()).await);
        let output = place.call(&tools, "write", json!({"path": "AGENTS.md", "content": "x"})).await;
        assert!(Place::failed(&output).contains("may be read but not changed"));
    }
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &place.root().join("state/user/USER.md").metadata().unwrap().permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn a_manager_has_a_scratchpad_and_no_home() {
    let place = Place::new();
    let tools = place.manager();
    Place::worked(&place.call(&tools, "write", json!({"path": "plan.md", "content": "x"})).await);
    assert_eq!(place.get("state/workspace/manager/plan.md"), "x");
    let output = place.call(&tools, "write", json!({"path": "home/x", "content": "x"})).await;
    assert!(Place::failed(&output).contains("you have no access to"));
}

#[tokio::test]
async fn links_are_never_followed() {
    let place = Place::new();
    let tools = place.worker();
    let home = place.root().join("home");
    std::os::unix::fs::symlink(place.root().join("state"), home.join("folder")).unwrap();
    std::os::unix::fs::symlink("../state/config.json", home.join("file")).unwrap();
    for path in ["home/file", "home/folder/config.json", "home/folder"] {
        for (tool, arguments) in [
            ("read", json!({"path": path})),
            ("write", json!({"path": path, "content": "x"})),
            ("edit", json!({"path": path, "old": "SECRET", "new": "x"})),
            ("list", json!({"path": path})),
            ("grep", json!({"path": path, "pattern": "SECRET"})),
        ] {
            let output = place.call(&tools, tool, arguments).await;
            assert!(Place::failed(&output).contains("link"), "{tool} {path}: {}", output.text);
        }
    }
    let output = place.call(&tools, "grep", json!({"pattern": "SECRET"})).await;
    assert_eq!(Place::worked(&output), "[no line matches SECRET]\n");
    assert_eq!(place.get("state/config.json"), "SECRET token");
}

/// T20: somebody swaps a folder for a link to the secrets, over and over, while the tools use it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_swapped_for_a_link_never_opens_a_secret() {
    let place = Place::new();
    let tools = place.worker();
    place.put("home/swap/config.json", "harmless");
    let home = place.root().join("home");
    std::os::unix::fs::symlink("../state", home.join("link")).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                // Exchanges the two names in one step, so the path exists at every instant.
                let (one, two) = (home.join("swap"), home.join("link"));
                let flags = rustix::fs::RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(rustix::fs::CWD, &one, rustix::fs::CWD, &two, flags).unwrap();
            }
        });
        let (mut through, mut refused) = (0, 0);
        tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(async {
                for round in 0..600 {
                    let path = json!({"path": "home/swap/config.json", "content": format!("round {round}")});
                    let tool = if round % 3 == 0 { "write" } else { "read" };
                    let output = place.call(&tools, tool, path).await;
                    assert!(!output.text.contains("SECRET"), "{}", output.text);
                    if output.is_error { refused += 1 } else { through += 1 }
                }
            });
        });
        done.store(true, Ordering::Relaxed);
        // Both must have happened, or the race was none.
        assert!(through > 0 && refused > 0, "{through} {refused}");
    });
    assert_eq!(place.get("state/config.json"), "SECRET token");
}

#[test]
fn some_folders_can_never_be_task_folders() {
    let place = Place::new();
    let outside = place.folder.path().canonicalize().unwrap();
    for folder in [
        Path::new(""),
        Path::new("."),
        Path::new("state"),
        Path::new("state/data"),
        Path::new("state/data/below"),
        Path::new("home/../state"),
        Path::new("/"),
        outside.as_path(),
        &outside.join("missing"),
    ] {
        let result = FileAccess::worker(&place.root(), folder, &IdentityRights::default());
        assert!(matches!(result, Err(AccessError::Forbidden { .. })), "{folder:?}: {result:?}");
    }
    FileAccess::worker(&place.root(), Path::new("state/workspace/automation"), &IdentityRights::default())
        .unwrap();
}

#[tokio::test]
async fn a_project_outside_the_workspace_is_a_task_folder_of_its_own() {
    let place = Place::new();
    let project = place.folder.path().canonicalize().unwrap().join("project");
    std::fs::create_dir(&project).unwrap();
    let access = FileAccess::worker(&place.root(), &project, &IdentityRights::default()).unwrap();
    let tools = FileTools::worker(access, None);
    Place::worked(&place.call(&tools, "write", json!({"path": "src/a.rs", "content": "x"})).await);
    assert!(project.join("src/a.rs").exists());
    Place::worked(&place.call(&tools, "read", json!({"path": "AGENTS.md"})).await);
    for path in ["home/x", "../owner/.ssh/id", "state/config.json"] {
        let output = place.call(&tools, "read", json!({"path": path})).await;
        assert!(Place::failed(&output).contains("you have no access to"), "{path}");
    }
}

/// `NEXUS_STATE_DIR` and `NEXUS_HOME` move folders; the names in paths, and what is closed, stay.
#[tokio::test]
async fn state_and_home_may_lie_elsewhere() {
    let place = Place::new();
    let base = place.folder.path().canonicalize().unwrap();
    let (state, home) = (base.join("far/state"), base.join("far-home"));
    std::fs::create_dir_all(state.join("user")).unwrap();
    std::fs::create_dir_all(&home).unwrap();
    let put = |path: &Path, text: &str| {
        nexus_base::file::replace(path, text.as_bytes(), 0o600, nexus_base::file::Durability::Crash).unwrap();
    };
    put(&state.join("config.json"), "SECRET far");
    put(&state.join("user/USER.md"), "far owner");
    let overrides = LayoutOverrides {
        state: Some(state.clone()),
        home: Some(home.clone()),
        ..LayoutOverrides::default()
    };
    let layout = Layout::with_overrides(place.root(), overrides);
    let tools = FileTools::worker(
        FileAccess::worker_at(&layout, layout.home(), &IdentityRights::default()).unwrap(),
        None,
    );
    let output = place.call(&tools, "write", json!({"path": "home/a.txt", "content": "x"})).await;
    assert_eq!(Place::worked(&output), "made home/a.txt (1 bytes, 1 lines)");
    assert!(home.join("a.txt").exists());
    let output = place.call(&tools, "read", json!({"path": "state/user/USER.md"})).await;
    assert_eq!(Place::worked(&output), "     1\tfar owner\n");
    for path in ["state/config.json", "far/state/config.json", state.join("config.json").to_str().unwrap()] {
        let output = place.call(&tools, "read", json!({"path": path})).await;
        assert!(!Place::failed(&output).contains("SECRET"), "{path}");
    }
    for folder in [base.join("far"), state.clone()] {
        let result = FileAccess::worker_at(&layout, &folder, &IdentityRights::default());
        assert!(matches!(result, Err(AccessError::Forbidden { .. })), "{folder:?}");
    }
    let manager = FileTools::manager(FileAccess::manager_at(&layout).unwrap());
    Place::worked(&place.call(&manager, "write", json!({"path": "plan", "content": "x"})).await);
    assert!(state.join("workspace/manager/plan").exists());
}

#[tokio::test]
async fn a_workspace_reached_through_a_link_works() {
    let place = Place::new();
    let link = place.folder.path().join("link");
    std::os::unix::fs::symlink(place.root(), &link).unwrap();
    let access = FileAccess::worker(&link, &link.join("home"), &IdentityRights::default()).unwrap();
    let tools = FileTools::worker(access, None);
    let path = link.join("home/a.txt");
    let output = place.call(&tools, "write", json!({"path": path, "content": "x"})).await;
    assert_eq!(Place::worked(&output), "made home/a.txt (1 bytes, 1 lines)");
    let output = place.call(&tools, "read", json!({"path": link.join("state/config.json")})).await;
    assert!(Place::failed(&output).contains("you have no access to"));
}

/// Names that lead somewhere interesting, and some that do not.
fn component() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => prop::sample::select(vec![
            "..", ".", "", "state", "home", "config.json", "data", "agents.db", "credentials", "x.json", "user",
            "agents", "workspace", "manager", "skills", "AGENTS.md", "link", "owner", ".ssh", "id", "~", "a",
        ]).prop_map(str::to_owned),
        1 => "[a-z./\\\\~%\u{0}é ]{0,6}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_path_escapes(
        parts in prop::collection::vec(component(), 1..9),
        leading in prop::sample::select(vec!["", "/", "ROOT/", "ROOT/home/", "./"]),
        tool in prop::sample::select(vec!["read", "write", "edit", "list", "glob", "grep"]),
        role in 0..3,
    ) {
        let place = Place::new();
        std::os::unix::fs::symlink(place.root().join("state"), place.root().join("home/link")).unwrap();
        let text = format!("{}{}", leading.replace("ROOT", place.root().to_str().unwrap()), parts.join("/"));
        let tools = match role {
            0 => place.worker(),
            1 => place.onboarding(),
            _ => place.manager(),
        };
        let arguments = json!({
            "path": text, "content": "planted", "old": "SECRET", "new": "planted",
            "pattern": if tool == "grep" { "SECRET" } else { text.as_str() },
        });
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let output = runtime.block_on(place.call(&tools, tool, arguments));
        let leaked = ["SECRET token", "SECRET rows", "SECRET pointer", "SECRET key"];
        prop_assert!(!leaked.iter().any(|secret| output.text.contains(secret)), "{text}: {}", output.text);
        prop_assert_eq!(place.get("state/config.json"), "SECRET token");
        prop_assert_eq!(place.get("state/data/agents.db"), "SECRET rows");
        prop_assert_eq!(place.get("AGENTS.md"), "the rules");
        // Nothing new anywhere but where this role may write.
        for folder in ["", "state", "state/data", "state/credentials", "skills", "skills/one"] {
            let known = ["home", "state", "skills", "AGENTS.md", "config.json", "data", "credentials", "agents",
                "user", "workspace", "agents.db", "x.json", "one", "SKILL.md"];
            for entry in std::fs::read_dir(place.root().join(folder)).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                prop_assert!(known.contains(&name.as_str()), "{folder}/{name} appeared through {text}");
            }
        }
        prop_assert_eq!(std::fs::read_dir(place.owner()).unwrap().count(), 1);
    }
}
