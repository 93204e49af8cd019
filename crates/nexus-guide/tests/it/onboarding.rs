//! Whole first conversations, through manager and workers, in many shapes.

use crate::world::{Scan, World};

struct Shape<'a> {
    name: &'a str,
    agent: &'a str,
    person: &'a str,
    folder: &'a str,
    lines: Vec<String>,
}

fn shapes() -> Vec<Shape<'static>> {
    let mut shapes: Vec<Shape<'static>> = Vec::new();
    for line in include_str!("data/onboardings.txt").lines().map(str::trim) {
        if let Some(head) = line.strip_prefix("== ") {
            let parts: Vec<&str> = head.split(" | ").collect();
            let [name, agent, person, folder] = parts[..] else { panic!("{line}") };
            shapes.push(Shape { name, agent, person, folder, lines: Vec::new() });
        } else if !line.is_empty() && !line.starts_with("# ") {
            shapes.last_mut().unwrap().lines.push(line.replace("\\n", "\n"));
        }
    }
    shapes
}

fn play(shape: &Shape<'_>, scan: &Scan) -> World {
    let mut world = World::new();
    world.scan = scan.clone();
    for line in &shape.lines {
        world.say(line);
    }
    world
}

fn problem(shape: &Shape<'_>, world: &World) -> Option<String> {
    let text = |path: String| world.files.get(&path).cloned().ok_or(format!("{path} is missing"));
    let check = || -> Result<(), String> {
        let agent = text(format!("state/agents/{}/IDENTITY.md", shape.folder))?;
        text(format!("state/agents/{}/SOUL.md", shape.folder))?;
        let user = text("state/user/IDENTITY.md".to_owned())?;
        let named = |text: &str, name: &str| {
            text.lines().any(|line| line == format!("name: {name}") || line == format!("name: \"{name}\""))
        };
        if !named(&agent, shape.agent) {
            return Err(format!("the assistant is not {}:\n{agent}", shape.agent));
        }
        if !named(&user, shape.person) {
            return Err(format!("the person is not {}:\n{user}", shape.person));
        }
        let folders = world.files.keys().filter(|path| path.ends_with("/SOUL.md")).count();
        if folders != 1 {
            return Err(format!("{folders} personas"));
        }
        Ok(())
    };
    check().err()
}

#[test]
fn every_shape_of_first_conversation_ends_with_the_right_names() {
    let shapes = shapes();
    assert!(shapes.len() >= 15);
    let mut failed = 0;
    for scan in [Scan::Finds(Vec::new()), Scan::Finds(vec![("GITHUB_TOKEN", "github")])] {
        for shape in &shapes {
            let world = play(shape, &scan);
            if let Some(problem) = problem(shape, &world) {
                // A plain "no" answers the import question first; then names are still open.
                if matches!(&scan, Scan::Finds(found) if !found.is_empty())
                    && shape.name == "refuses everything"
                {
                    continue;
                }
                failed += 1;
                println!("{} ({scan:?}): {problem}\n{}\n", shape.name, world.log.join("\n"));
            }
        }
    }
    println!("onboardings: {failed} of {} misunderstood", shapes.len() * 2);
    assert_eq!(failed, 0);
}

#[test]
fn the_first_turn_greets_plainly_and_scans_in_parallel() {
    let mut world = World::new();
    world.hold_results = true;
    world.skills = Some("filesystem-scan, other");
    let seen = world.say("Hello");
    assert!(seen.contains("not a language model"), "{seen}");
    assert!(seen.contains("stays on this machine"), "{seen}");
    assert_eq!(world.pending.len(), 2, "credential scan and filesystem scan");
    world.hold_results = false;
    let told = world.deliver();
    assert_eq!(told.len(), 1, "two results, one turn");
    assert!(told[0].contains("found nothing"), "{told:?}");
    assert!(told[0].contains("todo.txt"), "{told:?}");
}

#[test]
fn without_the_skill_only_credentials_are_scanned() {
    let mut world = World::new();
    world.hold_results = true;
    world.say("Hello");
    assert_eq!(world.pending.len(), 1);
}

#[test]
fn findings_are_named_never_shown_and_imported_only_after_a_yes() {
    let mut world = World::new();
    world.scan = Scan::Finds(vec![("GITHUB_TOKEN", "github"), ("BRAVE_API_KEY", "brave")]);
    let seen = world.say("Hello");
    assert!(seen.contains("GITHUB_TOKEN (github) and BRAVE_API_KEY (brave)"), "{seen}");
    assert!(seen.contains("Should I import them?"), "{seen}");
    assert!(!seen.contains("ghp_"), "{seen}");
    let seen = world.say("You are Atlas and I am Sam");
    assert!(seen.contains("still open: should I import"), "{seen}");
    assert!(world.imported.is_empty());
    let seen = world.say("yes please");
    assert!(seen.contains("Imported: GITHUB_TOKEN (github) and BRAVE_API_KEY (brave)"), "{seen}");
    assert_eq!(world.imported.len(), 2);
}

#[test]
fn a_no_is_taken_and_never_asked_again() {
    let mut world = World::new();
    world.scan = Scan::Finds(vec![("GITHUB_TOKEN", "github")]);
    world.say("Hello");
    let seen = world.say("no thanks");
    assert!(seen.contains("not ask again"), "{seen}");
    for line in ["Atlas", "Sam", "hello", "scan for credentials"] {
        let seen = world.say(line);
        assert!(!seen.to_lowercase().contains("shall i import"), "{line}: {seen}");
    }
    assert!(world.imported.is_empty());
    world.say("import the credentials");
    assert_eq!(world.imported, ["GITHUB_TOKEN"]);
}

#[test]
fn a_yes_and_a_name_in_one_line_do_both() {
    let mut world = World::new();
    world.scan = Scan::Finds(vec![("GITHUB_TOKEN", "github")]);
    world.say("Hello");
    world.say("Yes, import it, and call yourself Atlas. I'm Sam.");
    assert_eq!(world.imported, ["GITHUB_TOKEN"]);
    assert!(world.files.contains_key("state/agents/atlas/IDENTITY.md"));
}

#[test]
fn a_leading_no_that_corrects_a_name_leaves_the_import_open() {
    let mut world = World::new();
    world.scan = Scan::Finds(vec![("GITHUB_TOKEN", "github")]);
    world.say("Hello");
    world.say("Atlas");
    let seen = world.say("No, call yourself Nova");
    assert!(!seen.contains("not ask again"), "{seen}");
    world.say("I'm Sam");
    assert!(world.files["state/agents/nova/IDENTITY.md"].contains("name: Nova"));
    world.say("yes");
    assert_eq!(world.imported, ["GITHUB_TOKEN"]);
}

#[test]
fn what_was_said_is_in_the_files_and_nothing_else_is_made_up() {
    let mut world = World::new();
    world.say("Hello");
    world.say("I'm a carpenter from Graz. My email is sam@example.org");
    world.say("Call yourself Atlas, be calm and not too formal. You are an owl, your emoji is 🦉");
    world.say("Sam");
    let agent = &world.files["state/agents/atlas/IDENTITY.md"];
    assert!(agent.contains("creature: owl") && agent.contains("emoji: \"🦉\""), "{agent}");
    assert!(agent.contains("vibe: calm, not formal"), "{agent}");
    let user = &world.files["state/user/IDENTITY.md"];
    assert!(user.contains("email: sam@example.org") && user.contains("timezone: Europe/Berlin"), "{user}");
    assert!(user.contains("I'm a carpenter from Graz"), "{user}");
}

#[test]
fn afterwards_it_is_the_persona_and_remembers() {
    let mut world = World::new();
    world.say("Hello");
    world.say("You are Atlas and I am Sam");
    assert!(world.say("who are you?").contains("I am Atlas"));
    assert!(world.say("who am I?").contains("You are Sam"));
    assert!(world.say("remember that I like green tea").contains("I will remember: “I like green tea”"));
    assert!(world.say("what do you know about tea?").contains("2026-07-22: I like green tea"));
    let seen = world.say("run `uname`");
    assert!(seen.contains("A worker is running `uname`.") && seen.contains("ran uname"), "{seen}");
    let seen = world.say("call yourself Nova");
    assert!(seen.contains("From now on I am Nova"), "{seen}");
    assert!(world.files["state/agents/nova/SOUL.md"].contains("What Nova stands for"));
}
