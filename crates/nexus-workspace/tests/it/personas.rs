//! Lifecycle predicates, the persona in use, front matter, slugs and skills.

use std::os::unix::fs::symlink;
use std::time::{Duration, SystemTime};

use nexus_workspace::config::{Overrides, Settings, load};
use nexus_workspace::persona::{
    FILL_IN_MARKER, FrontMatter, IDENTITY_LIMIT, Onboarding, Slug, active_persona, identity_rights,
    is_template, onboarding, record_active,
};
use nexus_workspace::skills;
use nexus_workspace::trust::Trust;
use proptest::prelude::*;

use crate::support::Place;

const ECHO: &str = "---\nname: Echo\nemoji: \"🔔\"\ncreature:\nvibe: calm\n---\nI answer when called.\n";

fn settings(place: &Place) -> Settings {
    load(&place.layout, Trust::Trusted, &Overrides::default()).unwrap().settings
}

#[test]
fn the_three_stages_of_onboarding() {
    let place = Place::initialised();
    let stage = || onboarding(&place.layout).unwrap();
    let rights = || identity_rights(&place.layout, &settings(&place)).unwrap();
    let needed =
        |written: &[&str]| Onboarding::Needed { written: written.iter().map(|&file| file.into()).collect() };
    assert_eq!(stage(), needed(&[]));
    for folder in [".hidden", "echo"] {
        std::fs::create_dir(place.layout.agents().join(folder)).unwrap();
        assert_eq!(stage(), needed(&[]), "a folder is no persona");
    }
    assert_eq!(active_persona(&place.layout, &settings(&place)).unwrap(), None);
    place.write("state/agents/echo/SOUL.md", "I am kind.\n");
    place.write("state/agents/echo/IDENTITY.md", "---\nname:\n---\n");
    assert_eq!(stage(), needed(&["state/agents/echo/SOUL.md"]), "a blank file is no identity");
    assert_eq!(rights().writable, ["agents", "user"].map(std::path::PathBuf::from));
    place.write("state/agents/echo/IDENTITY.md", ECHO);
    assert_eq!(stage().missing(), ["state/user/IDENTITY.md"]);
    assert_eq!(rights().writable, ["agents/echo", "user"].map(std::path::PathBuf::from));
    place.write("state/user/IDENTITY.md", "---\nname: Ada\n---\n");
    assert_eq!(stage(), Onboarding::Complete);
    assert_eq!(rights().writable, [std::path::PathBuf::from("agents")]);
    assert!(rights().kept.contains(&"agents/echo".into()), "{:?}", rights());
    place.write("state/agents/nova/IDENTITY.md", ECHO);
    assert_eq!(stage(), Onboarding::Complete, "a second persona that was only begun opens nothing");
    std::fs::remove_file(place.layout.agents().join("echo/SOUL.md")).unwrap();
    assert_eq!(stage().missing(), ["state/agents/nova/SOUL.md"], "the one written last");
    std::fs::remove_dir_all(place.layout.agents()).unwrap();
    assert_eq!(stage(), needed(&["state/user/IDENTITY.md"]));
}

#[test]
fn a_link_out_of_the_workspace_is_no_persona() {
    let place = Place::initialised();
    let outside = place.folder.path().join("elsewhere");
    std::fs::create_dir(&outside).unwrap();
    symlink(&outside, place.layout.agents().join("spy")).unwrap();
    assert!(onboarding(&place.layout).unwrap().is_needed());
    crate::support::put(&outside.join("secret.md"), "not yours");
    std::fs::create_dir(place.layout.agents().join("echo")).unwrap();
    symlink(outside.join("secret.md"), place.layout.agents().join("echo/IDENTITY.md")).unwrap();
    assert!(onboarding(&place.layout).unwrap().is_needed());
}

#[test]
fn the_whole_persona_is_read() {
    let place = Place::initialised();
    place.write("state/agents/echo/IDENTITY.md", ECHO);
    place.write("state/agents/echo/SOUL.md", "Patient.\n");
    place.write("state/user/IDENTITY.md", "---\nname: Ada\n---\nLikes short answers.\n");
    let persona = active_persona(&place.layout, &settings(&place)).unwrap().unwrap();
    insta::assert_json_snapshot!(persona, @r#"
    {
      "slug": "echo",
      "name": "Echo",
      "identity": {
        "file": "state/agents/echo/IDENTITY.md",
        "text": "---\nname: Echo\nemoji: \"🔔\"\ncreature:\nvibe: calm\n---\nI answer when called.",
        "cut_from": null
      },
      "soul": {
        "file": "state/agents/echo/SOUL.md",
        "text": "Patient.",
        "cut_from": null
      },
      "user": {
        "file": "state/user/IDENTITY.md",
        "text": "---\nname: Ada\n---\nLikes short answers.",
        "cut_from": null
      }
    }
    "#);
}

#[test]
fn the_configured_persona_wins_then_the_newest() {
    let place = Place::initialised();
    for (age, name) in [(2, "atlas"), (1, "Echo")] {
        place.write(&format!("state/agents/{name}/IDENTITY.md"), "Hello.");
        let file = std::fs::File::open(place.layout.agents().join(name).join("IDENTITY.md")).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_hours(age)).unwrap();
    }
    let mut settings = settings(&place);
    let slug =
        |settings: &Settings| active_persona(&place.layout, settings).unwrap().unwrap().slug.to_string();
    assert_eq!(slug(&settings), "echo");
    settings.agent.id = Some("Atlas".into());
    assert_eq!(slug(&settings), "atlas");
    settings.agent.id = Some("nobody".into());
    assert_eq!(slug(&settings), "echo");
    settings.agent.id = None;
    record_active(&place.layout, &settings).unwrap();
    place.write("state/agents/atlas/IDENTITY.md", "Newer.");
    assert_eq!(slug(&settings), "echo", "a newer one takes nothing from the one written down");
    for (written, expected) in [("Atlas\n", "atlas"), ("nobody", "atlas"), ("", "atlas")] {
        place.write("state/agents/ACTIVE", written);
        assert_eq!(slug(&settings), expected, "{written:?}");
    }
}

#[test]
fn a_long_file_is_cut_between_letters_and_says_so() {
    let place = Place::initialised();
    place.write("state/agents/echo/IDENTITY.md", &"ä".repeat(IDENTITY_LIMIT));
    let identity = active_persona(&place.layout, &settings(&place)).unwrap().unwrap().identity;
    assert_eq!(identity.cut_from, Some(2 * IDENTITY_LIMIT));
    let notice = identity.text.trim_start_matches('ä').trim();
    assert_eq!(notice, "[cut here: 4000 of 8000 bytes shown; the rest is in state/agents/echo/IDENTITY.md]");
}

#[test]
fn templates_are_told_from_real_files() {
    for text in [
        "",
        "  \n",
        "# Identity\n\n",
        "---\nname:\nvibe: \"\"\n---\nSome explanation of the fields.\n",
        "---\nname: <name>\n---\n",
        &format!("---\nname: Echo\n---\n{FILL_IN_MARKER}\n"),
    ] {
        assert!(is_template(text), "{text:?}");
    }
    for text in [ECHO, "I am Echo.", "---\nname: Echo\n---\n"] {
        assert!(!is_template(text), "{text:?}");
    }
}

#[test]
fn skills_are_folders_with_a_skill_file() {
    let place = Place::initialised();
    assert_eq!(skills::names(&place.layout).unwrap(), Vec::<String>::new());
    place.write("skills/weather/SKILL.md", "x");
    place.write("skills/filesystem-scan/SKILL.md", "x");
    place.write("skills/unfinished/notes.md", "x");
    place.write("skills/loose.md", "x");
    assert_eq!(skills::names(&place.layout).unwrap(), ["filesystem-scan", "weather"]);
}

#[test]
fn slugs_by_example() {
    let slug = |name: &str| Slug::from_name(name).map(|slug| slug.to_string());
    assert_eq!(slug("Echo"), Some("echo".into()));
    assert_eq!(slug("  Echo the 2nd! "), Some("echo-the-2nd".into()));
    assert_eq!(slug("../../etc"), Some("etc".into()));
    assert_eq!(slug("Зоя"), None);
    assert_eq!(Slug::parse("Echo"), None);
    assert_eq!(Slug::default().as_str(), "agent");
}

proptest! {
    #[test]
    fn a_slug_is_always_safe_and_stable(name in "\\PC{0,200}") {
        if let Some(slug) = Slug::from_name(&name) {
            let text = slug.as_str();
            prop_assert!(!text.is_empty() && text.len() <= 64);
            prop_assert!(text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-')));
            prop_assert!(!text.starts_with('-') && !text.ends_with('-') && !text.contains("--"));
            prop_assert_eq!(Slug::parse(text), Some(slug.clone()));
        }
    }

    #[test]
    fn front_matter_never_loses_text(text in "(---\n)?([a-z]{1,5}: ?[a-z]{0,5}\n|\\PC{0,10}\n|---\n){0,8}") {
        let (front_matter, body) = FrontMatter::read(&text);
        prop_assert!(text.ends_with(body));
        prop_assert!(body.len() == text.len() || text.starts_with("---"));
        for (key, _) in front_matter.iter() {
            prop_assert!(!key.contains(':'));
        }
    }
}
