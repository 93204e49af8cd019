//! The tree after `init`, again after a second run, and after runs that stopped half-way.

use std::os::unix::fs::PermissionsExt;

use nexus_workspace::init::prepare_tree;
use nexus_workspace::trust::Trust;

use crate::support::{Place, picture};

#[test]
fn the_tree_has_everything_but_databases() {
    let place = Place::empty();
    let report = place.init();
    let tree: Vec<String> = picture(place.layout.root())
        .into_iter()
        .map(|(name, (mode, content))| {
            format!("{mode:03o} {name} {}", if content.is_empty() { "" } else { "+" })
        })
        .collect();
    insta::assert_snapshot!(tree.join("\n"), @"
    755  
    644 AGENTS.md +
    755 home 
    755 skills 
    700 state 
    700 state/agents 
    600 state/agents/BOOTSTRAP.md +
    600 state/config.json +
    700 state/credentials 
    700 state/data 
    700 state/user 
    700 state/workspace 
    600 state/workspace-id +
    ");
    assert_eq!(report.trust, Trust::Trusted);
    assert_eq!(report.already_present, Vec::<String>::new());
    insta::assert_json_snapshot!(report.created, @r#"
    [
      ".",
      "state",
      "state/workspace-id",
      "skills",
      "home",
      "state/data",
      "state/agents",
      "state/user",
      "state/credentials",
      "state/workspace",
      "AGENTS.md",
      "state/agents/BOOTSTRAP.md",
      "state/config.json"
    ]
    "#);
}

#[test]
fn the_seed_config_has_exactly_four_values() {
    let place = Place::initialised();
    let text = std::fs::read_to_string(place.layout.config()).unwrap();
    let config: serde_json::Value = serde_json::from_str(&text).unwrap();
    let token = config["runtime"]["auth"]["token"].as_str().unwrap().to_owned();
    assert_eq!(token.len(), 48);
    assert!(token.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')));
    insta::assert_snapshot!(text.replace(&token, "TOKEN"), @r#"
    {
      "runtime": {
        "port": 18789,
        "bind": "loopback",
        "auth": {
          "mode": "token",
          "token": "TOKEN"
        }
      }
    }
    "#);
}

#[test]
fn a_second_run_changes_nothing() {
    let place = Place::initialised();
    let before = (picture(place.layout.root()), picture(place.trust.path()));
    let report = place.init();
    assert_eq!((picture(place.layout.root()), picture(place.trust.path())), before);
    assert_eq!(report.created, Vec::<String>::new());
    assert_eq!(report.already_present.len(), 13);
    assert_eq!(report.trust, Trust::Trusted);
}

#[test]
fn every_missing_part_is_put_back_and_nothing_else_touched() {
    let whole = Place::initialised();
    let parts = picture(whole.layout.root());
    for name in parts.keys().filter(|name| !name.is_empty()) {
        let place = Place::initialised();
        let path = place.layout.root().join(name);
        let before = picture(place.layout.root());
        if path.is_dir() {
            std::fs::remove_dir_all(&path).unwrap();
        } else {
            std::fs::remove_file(&path).unwrap();
        }
        let report = place.init();
        assert!(report.created.contains(name), "{name} was not put back");
        let after = picture(place.layout.root());
        assert_eq!(after.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
        for (other, value) in &before {
            let is_secret = other == "state/config.json" || other == "state/workspace-id";
            if !is_secret || !path.starts_with(place.layout.state()) {
                assert_eq!(after.get(other), Some(value), "{other} changed while {name} was repaired");
            }
        }
    }
}

#[test]
fn files_of_the_user_stay_as_they_are() {
    let place = Place::empty();
    place.write("AGENTS.md", "my own rules\n");
    place.write("home/notes.txt", "mine");
    let report = place.init();
    assert_eq!(std::fs::read_to_string(place.layout.agents_md()).unwrap(), "my own rules\n");
    assert_eq!(report.already_present, [".", "home", "AGENTS.md"]);
    assert_eq!(report.trust, Trust::Trusted);
}

#[test]
fn a_folder_left_open_is_closed() {
    let place = Place::initialised();
    let state = place.layout.state();
    std::fs::set_permissions(state, std::fs::Permissions::from_mode(0o755)).unwrap();
    prepare_tree(&place.layout, &place.trust).unwrap();
    assert_eq!(std::fs::metadata(state).unwrap().permissions().mode() & 0o777, 0o700);
}

/// Names of the places where `init` can die; a sweep over them runs in a child process.
const STEPS: &[&str] = &[
    "init.root",
    "init.trust",
    "init.state",
    "init.workspace-id",
    "init.skills",
    "init.home",
    "init.data",
    "init.agents",
    "init.user",
    "init.credentials",
    "init.workspaces",
    "init.agents-md",
    "init.bootstrap-md",
    "init.config",
    "file.staged@1",
    "file.staged@2",
    "file.staged@3",
    "file.staged@4",
    "file.staged@5",
];

#[test]
fn a_run_after_death_at_any_step_finishes_the_work() {
    let whole = picture(Place::initialised().layout.root());
    for step in STEPS {
        let place = Place::empty();
        let died = crate::support::init_in_child(&place, step);
        assert!(died, "{step}: the child was meant to die there");
        let report = place.init();
        let after = picture(place.layout.root());
        let ours = |name: &&String| !name.contains(".nexus-tmp-");
        assert_eq!(
            after.keys().filter(ours).collect::<Vec<_>>(),
            whole.keys().collect::<Vec<_>>(),
            "{step}: the tree is not whole"
        );
        assert_eq!(report.trust, Trust::Trusted, "{step}: our own workspace became a stranger");
        let open = after.iter().find(|(name, (mode, _))| name.starts_with("state/") && mode & 0o077 != 0);
        assert_eq!(open, None, "{step}: left open");
    }
}
