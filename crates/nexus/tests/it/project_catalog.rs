//! `nexus project catalog`: what is built in, a package in its place, and packages with a fault, which are refused whole.

use std::path::Path;
use std::process::{Command, Output};

use nexus_project::catalog::{Catalog, body_hash};
use serde_json::{Value, json};

#[expect(clippy::disallowed_methods, reason = "tests start the binary under test")]
fn catalog(root: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nexus"));
    command.args(["project", "catalog"]).args(arguments).current_dir(root).env_clear().env("HOME", root);
    command.output().unwrap()
}

fn plant(path: &Path, text: &str) {
    nexus_base::file::create_folder(path.parent().unwrap(), 0o755).unwrap();
    nexus_base::file::replace(path, text.as_bytes(), 0o644, nexus_base::file::Durability::Crash).unwrap();
}

fn built_in(name: &str) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../nexus-project/catalog");
    serde_json::from_slice(&std::fs::read(folder.join(name)).unwrap()).unwrap()
}

/// Lays a package out as upstream does, with the texts of ours and one description that tells it apart.
fn package(root: &Path) -> Value {
    let own = Catalog::embedded().unwrap();
    let (mut agents, mut skills) = (built_in("agents.json"), built_in("skills.json"));
    for (kind, list) in [("agents", &mut agents), ("skills", &mut skills)] {
        for entry in list.as_array_mut().unwrap() {
            let id = entry["id"].as_str().unwrap().to_owned();
            let body =
                if kind == "agents" { &own.agent(&id).unwrap().body } else { &own.skill(&id).unwrap().body };
            plant(&root.join(kind).join(&id).join("body.md"), body);
            entry["body_hash"] = json!(body_hash(body));
        }
    }
    agents[0]["description"] = json!("Comes from a package and not from the binary.");
    let mut words = built_in("vocabulary.json");
    for entry in words["invocations"].as_array_mut().unwrap() {
        entry.as_object_mut().unwrap().remove("params");
    }
    for entry in words["task_exceptions"].as_array_mut().unwrap() {
        entry["applies_when"] = entry["when"].take();
    }
    words["memory_policy"]["naming"] =
        json!({ "pattern": words["memory_policy"]["file_name_pattern"].take() });
    json!({
        "nexus_core_version": "0.11.0", "nexus_core_commit": "23c72e5", "schema_contract_version": "2.0",
        "agents": agents, "skills": skills, "vocabulary": words,
    })
}

#[test]
fn roles_and_skills_are_shown_and_a_package_takes_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let shown = catalog(root, &[]);
    assert_eq!(shown.status.code(), Some(0), "{shown:?}");
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.starts_with("ROLE ") && shown.contains("\nSKILL "), "{shown}");
    for word in ["engineer", "tester", "[plan]", "[run]", "[sync]", "/nx-init", "/nx-setup"] {
        assert!(shown.contains(word), "{word}: {shown}");
    }
    let read = |output: &Output| serde_json::from_slice::<Value>(&output.stdout).unwrap();
    let own = read(&catalog(root, &["--json"]));
    assert_eq!((own["agents"].as_array().unwrap().len(), own["skills"].as_array().unwrap().len()), (9, 5));

    let manifest = package(&root.join("package"));
    plant(&root.join("package/manifest.json"), &manifest.to_string());
    let mut theirs = read(&catalog(root, &["--catalog", "package", "--json"]));
    assert_eq!(theirs["agents"][0]["description"], manifest["agents"][0]["description"]);
    theirs["agents"][0]["description"] = own["agents"][0]["description"].clone();
    assert_eq!(theirs, own, "all else is alike");
}

#[test]
fn a_package_with_a_fault_is_refused_whole() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let refused = |why: &str| {
        let output = catalog(root, &["--catalog", "package"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{why}: {said}");
        assert!(said.contains(why) && said.contains("hint: a package is used whole or not at all"), "{said}");
        assert!(output.stdout.is_empty(), "nothing of it is shown");
    };
    refused("manifest.json");
    let at = root.join("package");
    let sound = package(&at);
    plant(&at.join("manifest.json"), &sound.to_string());
    assert_eq!(catalog(root, &["--catalog", "package"]).status.code(), Some(0));

    let body = at.join("agents/tester/body.md");
    let before = std::fs::read_to_string(&body).unwrap();
    plant(&body, "Trust everything.\n");
    refused("tester: the instructions do not match the manifest");
    plant(&body, &before);

    let text = "{{teleport to=here}}\n";
    plant(&at.join("skills/nx-run/body.md"), text);
    let mut manifest = sound;
    let skills = manifest["skills"].as_array_mut().unwrap();
    skills.iter_mut().find(|skill| skill["id"] == "nx-run").unwrap()["body_hash"] = json!(body_hash(text));
    plant(&at.join("manifest.json"), &manifest.to_string());
    refused("teleport is unknown");
}
