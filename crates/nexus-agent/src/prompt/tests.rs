use nexus_workspace::config::{self, Overrides};
use nexus_workspace::init::prepare_tree;
use nexus_workspace::trust::{Trust, TrustFolder};

use super::*;

struct Place {
    _folder: tempfile::TempDir,
    layout: Layout,
    settings: Settings,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(folder.path().join("ws"));
        prepare_tree(&layout, &TrustFolder::at(folder.path().join("trust"))).unwrap();
        let settings = config::load(&layout, Trust::Trusted, &Overrides::default()).unwrap().settings;
        Self { _folder: folder, layout, settings }
    }

    fn onboarded() -> Self {
        let place = Self::new();
        place
            .write("state/agents/echo/IDENTITY.md", "---\nname: Echo\nemoji: 🦊\n---\nA fox of few words.\n");
        place.write("state/agents/echo/SOUL.md", "Calm and exact. Never flatters.\n");
        place.write(
            "state/user/IDENTITY.md",
            "---\nname: Samantha\ncall: Sam\ntimezone: Europe/Berlin\n---\nGardener.\n",
        );
        place
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.layout.root().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        file::replace(&path, text.as_bytes(), 0o600, file::Durability::Crash).unwrap();
    }

    fn prompt(&self, role: Role, session: &str, assignment: &Assignment) -> SystemPrompt {
        let session = SessionLabel::new(session);
        let channel = Channel::of(&session, None);
        let location = Location { session: &session, channel: channel.as_ref() };
        assemble(&self.layout, &self.settings, role, location, assignment).unwrap()
    }

    /// The prompt without what is true of this machine only; AGENTS.md and BOOTSTRAP.md are the
    /// workspace's own texts and only named.
    fn shown(&self, prompt: &SystemPrompt) -> String {
        prompt
            .text
            .replace(self.layout.root().to_str().unwrap(), "[root]")
            .replace(std::env::consts::ARCH, "[arch]")
            .replace(std::env::consts::OS, "[os]")
            .replace(nexus_workspace::templates::AGENTS_MD.trim_end(), "[AGENTS.md, whole]")
            .replace(nexus_workspace::templates::BOOTSTRAP_MD.trim_end(), "[BOOTSTRAP.md, whole]")
    }
}

fn names(prompt: &SystemPrompt) -> Vec<&str> {
    prompt.parts.iter().map(|part| part.name.as_str()).collect()
}

#[test]
fn the_first_run() {
    let place = Place::new();
    let prompt = place.prompt(Role::Manager, "dm:owner", &Assignment::default());
    assert!(prompt.onboarding);
    insta::assert_snapshot!(place.shown(&prompt));
}

#[test]
fn the_onboarded_manager() {
    let place = Place::onboarded();
    let prompt = place.prompt(Role::Manager, "dm:owner", &Assignment::default());
    assert!(!prompt.onboarding);
    insta::assert_snapshot!(place.shown(&prompt));
}

#[test]
fn a_worker() {
    let place = Place::onboarded();
    let task = Assignment { task: Some("Count the files\nunder home/.".into()), role: None };
    insta::assert_snapshot!(place.shown(&place.prompt(Role::Worker, "worker:1", &task)));
}

#[test]
fn a_worker_with_a_catalog_role() {
    let place = Place::onboarded();
    let role =
        RoleSection { name: "reviewer".into(), body: "Read the change. Say what is wrong with it.\n".into() };
    let task = Assignment { task: Some("Review the change.".into()), role: Some(role) };
    insta::assert_snapshot!(place.shown(&place.prompt(Role::Worker, "worker:1", &task)));
}

#[test]
fn only_a_manager_on_a_channel_has_the_rules_of_channels() {
    let place = Place::onboarded();
    let none = Assignment::default();
    let group = place.prompt(Role::Manager, "group:discord:garden", &none);
    let channel = |is_group| Channel { platform: "discord".into(), is_group };
    insta::assert_snapshot!(texts::channel_rules(&channel(true)));
    let alone = texts::channel_rules(&channel(false));
    assert!(alone.contains("reply_to_current") && !alone.contains("participant"), "{alone}");
    assert!(names(&group).contains(&"channel") && group.text.contains("You are writing on discord"));
    for (role, session) in [(Role::Manager, "dm:owner"), (Role::Worker, "worker:1")] {
        let prompt = place.prompt(role, session, &none);
        assert!(!names(&prompt).contains(&"channel"), "{session}");
        for word in ["reply_to", "Reactions", "WhatsApp", "participant"] {
            assert!(!prompt.text.contains(word), "{word} in {session}");
        }
    }
}

#[test]
fn parts_stay_within_the_budget_and_add_up() {
    let place = Place::onboarded();
    let prompt = place.prompt(Role::Manager, "dm:owner", &Assignment::default());
    let size = |name: &str| prompt.parts.iter().find(|part| part.name == name).map_or(0, |part| part.bytes);
    assert_eq!(prompt.parts.iter().map(|part| part.bytes).sum::<usize>(), prompt.text.len());
    assert!(size("AGENTS.md") <= 3_200, "{}", size("AGENTS.md"));
    let rules = size("role") + size("rules") + size("host") + size("tool style");
    assert!(rules <= 2_200, "{rules}");
    assert!(size("rules") <= 1_800, "{}", size("rules"));
}

#[test]
fn what_is_too_long_is_cut_and_says_so() {
    let place = Place::onboarded();
    place.write("AGENTS.md", &"rule\n".repeat(10_000));
    place.write("state/agents/echo/SOUL.md", &"soul ".repeat(4_000));
    let prompt = place.prompt(Role::Manager, "dm:owner", &Assignment::default());
    let cut: Vec<_> = prompt
        .parts
        .iter()
        .filter_map(|part| part.cut_from.map(|whole| (part.name.as_str(), whole)))
        .collect();
    assert_eq!(cut, [("AGENTS.md", 50_000), ("Agent Soul", 19_999)]);
    assert_eq!(prompt.text.matches("[cut here: ").count(), 2);
    assert!(prompt.text.len() < 50_000);
}

#[test]
fn what_stands_there_for_other_harnesses_is_left_out() {
    let bound = "# Rules\n\n<!-- nexus:begin -->\nfor others\n<!-- nexus:end -->\nmore\n";
    assert_eq!(super::without_bindings(bound), "# Rules\nmore\n");
    assert_eq!(super::without_bindings("# Rules\n"), "# Rules\n");
    assert_eq!(super::without_bindings("<!-- nexus:begin --> open"), "<!-- nexus:begin --> open");
}
