use super::*;
use crate::tools::Tool;

fn catalog() -> Catalog {
    Catalog::embedded().unwrap()
}

#[test]
fn the_embedded_catalog_is_sound() {
    let catalog = catalog();
    assert_eq!((catalog.agents.len(), catalog.skills.len()), (9, 5));
    let words = &catalog.vocabulary;
    assert_eq!((words.capabilities.len(), words.tags.len(), words.invocations.len()), (4, 7, 5));
    let forms: usize = words.tags.iter().map(|tag| 1 + tag.variants.len()).sum();
    assert_eq!(forms, 9);
    let classes: usize = words.capabilities.iter().map(|one| one.blocks_semantic_classes.len()).sum();
    assert_eq!(classes, 11);
    let manual: Vec<&str> =
        catalog.skills.iter().filter(|skill| skill.manual_only).map(|skill| skill.id.as_str()).collect();
    assert_eq!(manual, ["nx-init", "nx-setup"]);
}

#[test]
fn roles_have_the_tiers_and_denials_of_the_contract() {
    let catalog = catalog();
    let how = ["no_file_edit", "no_task_create", "no_task_update"];
    for (id, category, tier, denials) in [
        ("architect", Category::How, ResumeTier::Persistent, &how[..]),
        ("designer", Category::How, ResumeTier::Persistent, &how),
        ("postdoc", Category::How, ResumeTier::Persistent, &how),
        ("strategist", Category::How, ResumeTier::Persistent, &how),
        ("engineer", Category::Do, ResumeTier::Bounded, &["no_task_create"]),
        ("writer", Category::Do, ResumeTier::Bounded, &["no_task_create"]),
        ("researcher", Category::Do, ResumeTier::Persistent, &["no_file_edit", "no_task_create"]),
        ("tester", Category::Check, ResumeTier::Ephemeral, &["no_file_edit", "no_task_create"]),
        ("reviewer", Category::Check, ResumeTier::Ephemeral, &["no_file_edit", "no_task_create"]),
    ] {
        let agent = catalog.agent(id).unwrap();
        assert_eq!((agent.category, agent.resume_tier), (category, tier), "{id}");
        assert_eq!(agent.capabilities, denials, "{id}");
        assert_eq!(agent.model_tier == ModelTier::High, category == Category::How, "{id}");
    }
}

#[test]
fn denials_only_grow_and_take_tools_away() {
    let catalog = catalog();
    let engineer = catalog.agent("engineer").unwrap();
    let all = effective(engineer, &["no_task_update".to_owned(), "no_task_create".to_owned()]);
    assert_eq!(all, ["no_task_create", "no_task_update"]);
    assert_eq!(effective(engineer, &[]), engineer.capabilities);
    let known = &catalog.vocabulary.capabilities;
    let denied = denied_tools(&engineer.capabilities, known);
    assert!(denied.contains(&Tool::TaskAdd) && denied.contains(&Tool::TaskClose));
    assert!(!denied.contains(&Tool::TaskUpdate));
    assert!(denied_tools(&all, known).contains(&Tool::TaskUpdate));
    for tool in Tool::ALL.into_iter().filter(|tool| tool.is_read_only()) {
        assert!(!denied_tools(&all, known).contains(&tool), "{tool:?}");
    }
}

#[test]
fn a_catalog_with_a_fault_is_refused() {
    let break_it = |change: fn(&mut Catalog)| {
        let mut catalog = catalog();
        change(&mut catalog);
        validate(&catalog).unwrap_err().to_string()
    };
    assert_eq!(break_it(|it| it.agents.truncate(8)), "reviewer: the role is missing");
    assert_eq!(
        break_it(|it| it.agents[0].capabilities.push("no_sleep".to_owned())),
        "architect: a capability is not defined"
    );
    assert_eq!(break_it(|it| it.skills[0].triggers.clear()), "nx-plan: it has no trigger");
    assert!(
        break_it(|it| it.skills[0].body.push_str("{{teleport to=here}}")).contains("teleport is unknown")
    );
    assert!(
        break_it(|it| it.skills[0].body.push_str("{{skill_activation mode=auto}}")).contains("needs skill")
    );
    assert!(
        break_it(|it| it.skills[0].body.push_str("{{user_question question=\"")).contains("is not closed")
    );
    assert_eq!(break_it(|it| it.vocabulary.tags[0].skill = None), "plan: the tag has no target");
}

#[test]
fn requests_are_found_with_their_keys() {
    let text = "a {{one k=v q=\"x y\" l=[a, b] m={k: v}}} b {{two p=>>END}}\n{{not_one}}\n<<END\nc";
    let found = macros::requests(text).unwrap();
    let names: Vec<(&str, Vec<&str>)> = found
        .iter()
        .map(|one| (one.name.as_str(), one.pairs.iter().map(|(key, _)| key.as_str()).collect()))
        .collect();
    assert_eq!(names, [("one", vec!["k", "q", "l", "m"]), ("two", vec!["p"])]);
    assert_eq!((found[0].value("q"), found[0].value("l")), (Some("x y"), Some("[a, b]")));
    assert_eq!(found[1].value("p"), Some("{{not_one}}"));
    assert!(
        text[found[1].place.clone()].starts_with("{{two") && text[found[1].place.clone()].ends_with("<<END")
    );
    macros::requests("{{two p=>>END}}\nnever").unwrap_err();
}

proptest::proptest! {
    #[test]
    fn any_text_is_searched_for_requests_without_harm(text in "[a-z{}=\"<> \\n\\[\\]]{0,80}") {
        if let Ok(found) = macros::requests(&text) {
            for request in found {
                // A request stands where it says, and they do not overlap what is not theirs.
                proptest::prop_assert!(text[request.place.clone()].starts_with("{{"), "{request:?}");
            }
        }
    }

    #[test]
    fn a_request_keeps_its_values(name in "[a-z_]{1,10}", key in "[a-z]{1,8}", value in "[^\"{}\\[\\]]{0,30}") {
        let text = format!("before {{{{{name} {key}=\"{value}\"}}}} after");
        let found = macros::requests(&text).unwrap();
        proptest::prop_assert_eq!(found.len(), 1);
        proptest::prop_assert_eq!(&found[0].name, &name);
        proptest::prop_assert_eq!(found[0].value(&key), Some(value.as_str()));
    }

    #[test]
    fn the_hash_of_a_text_does_not_depend_on_its_line_ends(text in "[a-z \\n]{0,60}", end in "[ \\n\\t]{0,4}") {
        let other = format!("{}{end}", text.replace('\n', "\r\n"));
        proptest::prop_assert_eq!(body_hash(&text), body_hash(&other));
    }
}
