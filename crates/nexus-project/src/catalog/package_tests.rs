//! Packages made from the catalog built in, whole and with one fault each.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Catalog, body_hash};

#[expect(clippy::disallowed_methods, reason = "plants files for the test")]
fn plant(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A package as upstream lays it out, with the texts of ours.
fn package() -> (tempfile::TempDir, Value) {
    let folder = tempfile::tempdir().unwrap();
    let own = Catalog::embedded().unwrap();
    let mut agents: Vec<Value> = serde_json::from_str(include_str!("../../catalog/agents.json")).unwrap();
    let mut skills: Vec<Value> = serde_json::from_str(include_str!("../../catalog/skills.json")).unwrap();
    skills.retain(|skill| skill["id"] != "nx-setup");
    for (kind, list) in [("agents", &mut agents), ("skills", &mut skills)] {
        for entry in list {
            let id = entry["id"].as_str().unwrap().to_owned();
            let body =
                if kind == "agents" { &own.agent(&id).unwrap().body } else { &own.skill(&id).unwrap().body };
            plant(&folder.path().join(kind).join(&id).join("body.md"), &body.replace('\n', "\r\n"));
            entry["body_hash"] = Value::from(body_hash(body));
            entry["alias_ko"] = Value::from("x");
        }
    }
    let mut words: Value = serde_json::from_str(include_str!("../../catalog/vocabulary.json")).unwrap();
    for entry in words["invocations"].as_array_mut().unwrap() {
        entry.as_object_mut().unwrap().remove("params");
    }
    for entry in words["task_exceptions"].as_array_mut().unwrap() {
        entry["applies_when"] = entry["when"].take();
    }
    let pattern = words["memory_policy"]["file_name_pattern"].take();
    words["memory_policy"]["naming"] = json!({ "pattern": pattern });
    let manifest = json!({
        "nexus_core_version": "0.10.0", "nexus_core_commit": "23c72e5", "schema_contract_version": "2.0",
        "agents": agents, "skills": skills, "vocabulary": words,
    });
    (folder, manifest)
}

fn load(folder: &Path, manifest: &Value) -> Result<Catalog, String> {
    plant(&folder.join("manifest.json"), &manifest.to_string());
    Catalog::load(folder).map_err(|error| error.to_string())
}

#[test]
fn a_whole_package_takes_the_place_of_ours() {
    let (folder, manifest) = package();
    let catalog = load(folder.path(), &manifest).unwrap();
    assert_eq!((catalog.agents.len(), catalog.skills.len()), (9, 5));
    assert!(catalog.skill("nx-setup").unwrap().manual_only, "ours is added");
    assert!(catalog.agent("engineer").unwrap().body.contains("\r\n"), "the text is the package's");
    assert_eq!(catalog.vocabulary.tags.len(), 7);
}

#[test]
fn a_package_with_a_fault_is_refused_whole() {
    let fault = |change: &dyn Fn(&Path, &mut Value)| {
        let (folder, mut manifest) = package();
        change(folder.path(), &mut manifest);
        load(folder.path(), &manifest).unwrap_err()
    };
    let said = fault(&|folder, _| plant(&folder.join("agents/tester/body.md"), "Trust everything.\n"));
    assert!(said.contains("tester: the instructions do not match"), "{said}");
    let said = fault(&|folder, _| fs::remove_file(folder.join("skills/nx-run/body.md")).unwrap());
    assert!(said.contains("nx-run/body.md: it is missing"), "{said}");
    let said = fault(&|folder, manifest| {
        let body = "{{teleport to=here}}\n";
        plant(&folder.join("skills/nx-run/body.md"), body);
        let skills = manifest["skills"].as_array_mut().unwrap();
        let skill = skills.iter_mut().find(|skill| skill["id"] == "nx-run").unwrap();
        skill["body_hash"] = Value::from(body_hash(body));
    });
    assert!(said.contains("teleport is unknown"), "{said}");
    let said = fault(&|_, manifest| manifest["vocabulary"]["invocations"][0]["id"] = json!("teleport"));
    assert!(said.contains("teleport is unknown"), "{said}");
    let said = fault(&|_, manifest| manifest["agents"][0]["capabilities"] = json!(["no_sleep"]));
    assert!(said.contains("a capability is not defined"), "{said}");
    let said = fault(&|_, manifest| manifest["agents"][0]["id"] = json!("../../etc"));
    assert!(said.contains("the id has an invalid format"), "{said}");
    let said = fault(&|_, manifest| manifest["agents"][0]["colour"] = json!("red"));
    assert!(said.contains("unknown field `colour`"), "{said}");
    let said = fault(&|_, manifest| manifest["schema_contract_version"] = json!("3.0"));
    assert!(said.contains("version is not supported"), "{said}");
    let said = fault(&|_, manifest| drop(manifest["agents"].as_array_mut().unwrap().pop()));
    assert!(said.contains("the role is missing"), "{said}");
    let said = fault(&|_, manifest| manifest["nexus_core_commit"] = json!("HEAD"));
    assert!(said.contains("invalid format"), "{said}");
    assert!(Catalog::load(Path::new("/nonexistent")).is_err());
}

#[test]
fn the_words_of_upstreams_manifest_are_understood() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance/nexus-core-0.11.0");
    let path: PathBuf = path.join("manifest.json");
    let Ok(text) = fs::read_to_string(&path) else {
        return crate::conformance::say_skipped("the words of upstream's manifest");
    };
    let upstream: Value = serde_json::from_str(&text).unwrap();
    // Upstream's texts are not here; ours stand in for them, under upstream's words.
    let (folder, mut manifest) = package();
    manifest["vocabulary"] = upstream["vocabulary"].clone();
    for kind in ["agents", "skills"] {
        for entry in manifest[kind].as_array_mut().unwrap() {
            let theirs = upstream[kind].as_array().unwrap().iter().find(|other| other["id"] == entry["id"]);
            let hash = entry["body_hash"].take();
            *entry = theirs.unwrap().clone();
            entry["body_hash"] = hash;
        }
    }
    let catalog = load(folder.path(), &manifest).unwrap();
    let own = Catalog::embedded().unwrap();
    for agent in &own.agents {
        let theirs = catalog.agent(&agent.id).unwrap();
        assert_eq!(theirs.capabilities, agent.capabilities, "{}", agent.id);
        assert_eq!(
            (theirs.category, theirs.resume_tier, theirs.model_tier),
            (agent.category, agent.resume_tier, agent.model_tier)
        );
    }
    let classes = |catalog: &Catalog| -> Vec<Vec<String>> {
        catalog.vocabulary.capabilities.iter().map(|one| one.blocks_semantic_classes.clone()).collect()
    };
    assert_eq!(classes(&catalog), classes(&own));
}
