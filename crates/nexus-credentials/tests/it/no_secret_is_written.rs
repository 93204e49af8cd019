//! A canary in every place a secret can come from, and none of it anywhere under the folder.

use nexus_credentials::{DEFAULT_SYNC_TTL, Depth, SyncRequest, boot_sync, scan};

use crate::support::{Place, environment};

#[test]
fn no_canary_reaches_a_file_a_listing_or_a_debug_text() {
    let place = Place::empty();
    let canary = "canary".repeat(8);
    let login = format!(r#"{{"claudeAiOauth": {{"accessToken": "{canary}", "refreshToken": "{canary}"}}}}"#);
    place.put("home/.claude/.credentials.json", &login);
    let names = ["ANTHROPIC_API_KEY", "GITHUB_TOKEN", "STRANGE_SECRET", "SLACK_BOT_TOKEN"];
    let pairs: Vec<(&str, &str)> = names.iter().map(|name| (*name, canary.as_str())).collect();
    let environment = environment(&pairs);
    let home = place.home();
    let request = SyncRequest {
        observer: nexus_credentials::Observer::Daemon,
        environment: &environment,
        home: Some(&home),
        ttl: DEFAULT_SYNC_TTL,
    };
    let report = boot_sync(&place.folder, &request).unwrap();
    let mut found = scan(&environment, Depth::Deep);
    place.folder.import(&mut found).unwrap();
    let mut seen: Vec<String> = place.files().into_iter().map(|(name, text)| name + &text).collect();
    seen.push(serde_json::to_string(&found).unwrap());
    seen.push(serde_json::to_string(&place.folder.list().unwrap()).unwrap());
    seen.push(format!("{report:?} {found:?} {:?}", place.folder.read_all().unwrap()));
    assert_eq!(seen.iter().filter(|text| text.contains(&canary)).count(), 0);
    assert_eq!(place.folder.summary().unwrap().total, 4);
}
