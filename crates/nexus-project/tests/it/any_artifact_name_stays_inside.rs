//! Whatever name an artifact is given, it lands below the folder of artifacts or nowhere.

use std::path::Path;

use nexus_project::{Project, Tool};
use proptest::prelude::*;
use serde_json::json;

use crate::child::ask;

fn outside(root: &Path, artifacts: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if std::fs::read(&path).is_ok_and(|bytes| bytes == b"content")
                && !path.starts_with(artifacts)
            {
                found.push(path);
            }
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn names_never_lead_out(name in r"([a-z.]{0,3}|\.\.|[/\\]|\.nexus|plan\.json|é){0,8}") {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().join("project");
        std::fs::create_dir(&root).unwrap();
        let project = Project::open(&root).unwrap();
        let answer = ask(&project, Tool::ArtifactWrite, json!({ "filename": name, "content": "content" }));
        let artifacts = project.root().join(".nexus/state/artifacts");
        prop_assert_eq!(outside(&outer.path().canonicalize().unwrap(), &artifacts), Vec::<std::path::PathBuf>::new());
        if answer.get("error").is_none() {
            prop_assert!(Path::new(answer["path"].as_str().unwrap()).starts_with(&artifacts), "{}", answer);
        }
    }
}
