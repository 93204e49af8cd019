//! What stands at the end of the prompts of automations that think: role and skills, what is short enough
//! of patterns and errors, and what a peer left.

use nexus_automation::home::{Home, is_name};

use crate::support::{Place, put};

async fn home(place: &Place, name: &str) -> Home {
    place.seed().await;
    let store = place.open();
    let row = store.runtime().automation(name).await.unwrap().unwrap();
    store.close().await;
    Home::of(&row, &place.layout).unwrap()
}

#[tokio::test]
async fn a_prompt_ends_with_role_skills_patterns_errors_and_notes() {
    let place = Place::new();
    let home = home(&place, "memory-writer").await;
    put(&home.folder.join("NOTES_FOR_WRITER.md"), "Name the town.\n");
    let seed = |name: &str| {
        let path = format!("{}/seed/memory-writer/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(path).unwrap().trim().to_owned()
    };
    let expected = format!(
        "## Your role\n{}\n\n## Your skills\n{}\n\n## Your patterns\n{}\n\n## Your errors\n{}\n\n\
         ## Notes from your peers\nName the town.\n\n",
        seed("ROLE.md"),
        seed("SKILLS.md"),
        seed("PATTERNS.md"),
        seed("ERRORS.md"),
    );
    assert_eq!(home.prompt(), expected);
}

#[tokio::test]
async fn long_patterns_and_errors_are_left_to_be_read() {
    let place = Place::new();
    let home = home(&place, "memory-reader").await;
    put(&home.folder.join("ERRORS.md"), &"- one more\n".repeat(900));
    let headings: Vec<String> =
        home.prompt().lines().filter(|line| line.starts_with("## Your ")).map(str::to_owned).collect();
    // The reader's own role has a part of that name, too.
    assert_eq!(headings, ["## Your role", "## Your workspace", "## Your skills"]);
}

#[tokio::test]
async fn a_folder_goes_by_the_name_and_not_by_what_a_row_says() {
    let place = Place::new();
    place.seed().await;
    let store = place.open();
    let mut row = store.runtime().automation("memory-reader").await.unwrap().unwrap();
    store.close().await;
    row.definition.workspace_dir = Some("../../etc".to_owned());
    row.definition.peer_workspaces = Some(serde_json::json!(["../../etc", "memory-writer"]));
    let home = Home::of(&row, &place.layout).unwrap();
    assert_eq!(home.folder, place.layout.automation_workspaces().join("memory-reader"));
    assert_eq!(home.peers.len(), 1);
    row.definition.name = "../x".to_owned();
    assert!(!is_name(&row.definition.name) && Home::of(&row, &place.layout).is_none());
}
