use nexus_automation::{SEED_STEPS, SHIPPED, SeedReport};
use nexus_store::runtime::{AutomationStatus, NewAutomation};

use crate::support::{Place, put, seed_in_child};

#[tokio::test]
async fn a_first_start_makes_rows_and_folders() {
    let place = Place::new();
    let report = place.seed().await;
    assert_eq!(report.to_string(), "4 rows, 6 folders, 18 files created");
    let names: Vec<String> =
        place.picture().iter().map(|(name, (mode, _))| format!("{mode:03o} {name}")).collect();
    insta::assert_snapshot!(names.join("\n"), @"
    700 memory-reader
    600 memory-reader/ERRORS.md
    600 memory-reader/PATTERNS.md
    600 memory-reader/ROLE.md
    600 memory-reader/SKILLS.md
    700 memory-reader/skills
    700 memory-reader/skills/memory
    600 memory-reader/skills/memory/DB_PATHS
    600 memory-reader/skills/memory/QUERIES.md
    600 memory-reader/skills/memory/SCHEMA.md
    700 memory-reader/skills/memory/memory-search.sh
    700 memory-reader/skills/memory/memory-write.sh
    700 memory-writer
    600 memory-writer/ERRORS.md
    600 memory-writer/PATTERNS.md
    600 memory-writer/ROLE.md
    600 memory-writer/SKILLS.md
    700 memory-writer/skills
    700 memory-writer/skills/memory
    600 memory-writer/skills/memory/DB_PATHS
    600 memory-writer/skills/memory/QUERIES.md
    600 memory-writer/skills/memory/SCHEMA.md
    700 memory-writer/skills/memory/memory-search.sh
    700 memory-writer/skills/memory/memory-write.sh
    ");
    let store = place.open();
    let rows = store.runtime().list_automations().await.unwrap();
    let lines: Vec<String> = rows
        .iter()
        .map(|row| {
            let one = &row.definition;
            format!(
                "{} {} {} blocking={} timeout={:?} folder={:?} peers={:?} improves={} {}",
                one.name,
                one.hook_point,
                one.script_path,
                one.blocking,
                one.timeout_ms,
                one.workspace_dir,
                one.peer_workspaces.as_ref().map(ToString::to_string),
                one.self_improvement,
                row.status
            )
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    boot-md runtime:startup builtin:boot-md blocking=false timeout=None folder=None peers=None improves=false active
    command-logger command:execute builtin:command-logger blocking=false timeout=None folder=None peers=None improves=false active
    memory-reader worker:pre_execution builtin:memory-reader blocking=true timeout=Some(10000) folder=Some("state/workspace/memory-reader") peers=Some("[\"memory-writer\"]") improves=true active
    memory-writer after:runAgent builtin:memory-writer blocking=false timeout=Some(30000) folder=Some("state/workspace/memory-writer") peers=Some("[\"memory-reader\"]") improves=true active
    "#);
    store.close().await;
}

#[tokio::test]
async fn a_second_start_changes_nothing() {
    let place = Place::new();
    place.seed().await;
    let before = place.picture();
    let report = place.seed().await;
    assert_eq!(report, SeedReport::default());
    assert_eq!(report.to_string(), "all there");
    assert_eq!(place.picture(), before);
}

#[tokio::test]
async fn what_the_owner_and_the_automation_changed_stays() {
    let place = Place::new();
    place.seed().await;
    let store = place.open();
    let off = AutomationStatus::Disabled;
    store.runtime().set_automation_status("memory-writer", off, Some("too chatty")).await.unwrap();
    store.close().await;
    let folder = place.layout.automation_workspaces().join("memory-reader");
    put(&folder.join("SKILLS.md"), "- learned something\n");
    put(&folder.join("ERRORS.md"), "");
    put(&folder.join("skills/memory/SCHEMA.md"), "of an older version");
    std::fs::remove_file(folder.join("ROLE.md")).unwrap();
    let report = place.seed().await;
    assert_eq!(report, SeedReport { files: 3, ..SeedReport::default() });
    let picture = place.picture();
    assert_eq!(picture["memory-reader/SKILLS.md"].1, "- learned something\n");
    assert!(picture["memory-reader/ROLE.md"].1.starts_with("# Role: memory reader"));
    assert!(picture["memory-reader/ERRORS.md"].1.starts_with("# Errors"));
    assert!(picture["memory-reader/skills/memory/SCHEMA.md"].1.contains("CREATE TABLE facts ("));
    let store = place.open();
    let row = store.runtime().automation("memory-writer").await.unwrap().unwrap();
    assert_eq!((row.status, row.disabled_reason.as_deref()), (off, Some("too chatty")));
    store.close().await;
}

#[tokio::test]
async fn an_upgrade_changes_the_definition_and_not_the_owners_choice() {
    let place = Place::new();
    place.seed().await;
    let store = place.open();
    let shipped = store.runtime().automation("memory-reader").await.unwrap().unwrap();
    let older = NewAutomation {
        timeout_ms: Some(1),
        config: Some(serde_json::json!({"model": true})),
        seed_version: Some(0),
        ..shipped.definition.clone()
    };
    store.close().await;
    // A workspace of an older version: the row as it was then, disabled by the owner.
    let place = Place::new();
    let store = place.open();
    store.runtime().seed_automation(older).await.unwrap();
    let off = AutomationStatus::Disabled;
    store.runtime().set_automation_status("memory-reader", off, Some("not now")).await.unwrap();
    store.close().await;
    assert!(seed_in_child(&place, "seed.upgraded"), "a death right after the row");
    assert_eq!(place.seed().await.upgraded, 0, "it was whole");
    let store = place.open();
    let row = store.runtime().automation("memory-reader").await.unwrap().unwrap();
    assert_eq!((row.status, row.disabled_reason.as_deref()), (off, Some("not now")));
    assert_eq!(row.definition.config, Some(serde_json::json!({"model": true})));
    assert_eq!(
        NewAutomation { config: None, ..row.definition },
        NewAutomation { config: None, ..shipped.definition }
    );
    store.close().await;
}

#[tokio::test]
async fn generated_files_follow_from_the_store() {
    let place = Place::new();
    place.seed().await;
    let picture = place.picture();
    insta::assert_snapshot!(picture["memory-writer/skills/memory/DB_PATHS"].1, @"
    # Path of the memory database, from the workspace's root. Closed to agents; use `nexus memory`.
    MEMORY_DB=state/data/memory.db
    IDENTITY_DB=state/data/identity.db
    EMBEDDINGS_DB=state/data/embeddings.db
    ");
    // A migration that SCHEMA.md leaves out would make it a lie.
    let schema = &picture["memory-writer/skills/memory/SCHEMA.md"].1;
    for database in ["memory", "identity", "embeddings"] {
        let folder = format!("{}/../nexus-store/migrations/{database}", env!("CARGO_MANIFEST_DIR"));
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let sql = std::fs::read_to_string(&path).unwrap();
            assert!(schema.contains(sql.trim()), "SCHEMA.md lacks {}", path.display());
        }
    }
}

#[tokio::test]
async fn a_start_after_death_at_any_step_finishes_the_work() {
    let whole = Place::new();
    whole.seed().await;
    let expected = whole.picture();
    for (step, passes) in SEED_STEPS {
        for pass in 1..=*passes {
            let place = Place::new();
            assert!(seed_in_child(&place, &format!("{step}@{pass}")), "{step}@{pass} was not reached");
            place.seed().await;
            assert_eq!(place.picture(), expected, "{step}@{pass}");
            let store = place.open();
            let rows = store.runtime().list_automations().await.unwrap();
            assert_eq!(rows.len(), SHIPPED.len(), "{step}@{pass}");
            store.close().await;
        }
    }
}

#[tokio::test]
async fn scripts_are_valid_and_say_how_to_use_them() {
    let place = Place::new();
    place.seed().await;
    for (name, (_, text)) in place.picture().iter().filter(|(name, _)| name.ends_with(".sh")) {
        assert!(text.starts_with("#!/bin/sh\n"), "{name}");
        assert!(
            text.contains("nexus memory") && text.contains("Usage:") && !text.contains("sqlite"),
            "{name}"
        );
    }
}
