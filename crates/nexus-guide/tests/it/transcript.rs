//! One whole onboarding as people and runtime see it.

use crate::world::{Scan, World};

#[test]
fn a_whole_onboarding() {
    let mut world = World::new();
    world.scan = Scan::Finds(vec![("GITHUB_TOKEN", "github")]);
    world.skills = Some("filesystem-scan");
    for line in [
        "Hello",
        "I'd like to call you Atlas. I'm Sam, be calm and brief please",
        "yes, import it",
        "remember that my sister is called Ann",
        "what do you know about my sister?",
        "who am I?",
        "run `uname -s`",
        "write me a poem",
        "thanks, bye",
    ] {
        world.say(line);
    }
    insta::assert_snapshot!("onboarding", world.log.join("\n"));
    let files: Vec<String> = world.files.iter().map(|(path, text)| format!("=== {path}\n{text}")).collect();
    insta::assert_snapshot!("identity_files", files.join("\n"));
}
