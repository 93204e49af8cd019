use std::time::Duration;

use nexus_base::clock::LocalClock;
use nexus_base::id::EntityId;
use nexus_identity::{
    Circumstances, DataLevel, Decision, Evaluation, Names, Permissions, Principal, Routing, StrangerRule,
    evaluate, with_document,
};
use serde_json::{Value, json};

fn friend(tags: &[&str]) -> Principal {
    let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
    Principal::Known { entity: EntityId::new("chat:bo"), name: "Bo".into(), tags }
}

fn owner() -> Principal {
    Principal::Owner { entity: EntityId::new("entity-owner"), name: "Ada".into() }
}

fn at(kind: &str, minute_of_day: u16) -> Circumstances {
    Circumstances {
        platform: "chat".into(),
        container_kind: Some(kind.into()),
        clock: Some(LocalClock { minute_of_day, is_weekend: false }),
        ..Circumstances::default()
    }
}

fn decide(document: &Value, principal: &Principal, circumstances: &Circumstances) -> Evaluation {
    let policies = with_document(document.as_array().unwrap(), StrangerRule::Deny).unwrap();
    evaluate(&policies, principal, circumstances)
}

#[test]
fn nothing_written_means_that_strangers_are_refused() {
    assert_eq!(decide(&json!([]), &friend(&[]), &at("dm", 0)).decision, Decision::Deny);
    assert_eq!(decide(&json!([]), &owner(), &at("dm", 0)).decision, Decision::Allow);
}

#[test]
fn allows_give_what_all_of_them_give_and_a_deny_wins() {
    let document = json!([
        { "name": "friends", "match": { "principal": { "relationship": ["friend", "partner"] } }, "effect": "allow",
          "permissions": { "tools": { "allow": ["recall", "read", "bash"], "deny": ["bash"] }, "credentials": ["a/x", "b/y"], "data": "full" } },
        { "name": "chat-people", "match": { "conditions": [{ "platform": "chat" }] }, "effect": "allow",
          "permissions": { "tools": { "allow": ["read", "bash"] }, "credentials": ["a/*"], "data": "restricted" } },
    ]);
    let both = decide(&document, &friend(&["friend"]), &at("group", 0));
    assert_eq!(
        (both.decision, both.matched.as_slice()),
        (Decision::Allow, &["chat-people".into(), "friends".to_owned()][..])
    );
    assert!(both.permissions.may_use_tool("read"));
    assert!(!both.permissions.may_use_tool("recall"), "allowed by one of them only");
    assert!(!both.permissions.may_use_tool("bash"), "denied by one");
    assert!(both.permissions.may_use_credential("a/x") && !both.permissions.may_use_credential("b/y"));
    assert_eq!(both.permissions.data, DataLevel::Minimal);

    let mut with_deny = document.as_array().unwrap().clone();
    with_deny.push(json!({ "name": "not-in-groups", "priority": 1, "effect": "deny",
        "match": { "conditions": [{ "container_kind": "group" }] } }));
    let refused = decide(&json!(with_deny), &friend(&["friend"]), &at("group", 0));
    assert_eq!((refused.decision, refused.decided_by.as_deref()), (Decision::Deny, Some("not-in-groups")));
    assert!(!refused.permissions.may_use_tool("recall"));
}

#[test]
fn session_and_modifiers_come_from_the_policies_that_decide() {
    let document = json!([
        { "name": "friends", "priority": 60, "match": { "principal": { "tags": ["friend"] } }, "effect": "allow",
          "permissions": { "tools": { "allow": ["recall"] }, "credentials": "*", "data": "full" },
          "session": { "persona": "ada", "key": "chat:friends" }, "modifiers": { "delay_response": 500 } },
        { "name": "everybody", "priority": 10, "effect": "allow", "match": { "principal": { "is_user": false } },
          "session": { "key": "chat:all" }, "modifiers": { "queue_mode": "collect", "delay_response": 2000 } },
        { "name": "quiet", "priority": 90, "effect": "allow", "match": { "principal": { "is_user": false } } },
    ]);
    let friend_of = decide(&document, &friend(&["friend"]), &at("dm", 0));
    let label =
        |evaluation: &Evaluation| evaluation.routing.session.as_ref().and_then(|rule| rule.label.clone());
    // The highest that names a session gives all of it; one without permissions takes none away.
    assert_eq!(label(&friend_of).as_deref(), Some("chat:friends"));
    assert_eq!(friend_of.routing.session.as_ref().unwrap().persona.as_deref(), Some("ada"));
    assert_eq!(
        friend_of.routing.queue,
        Some(nexus_store::agents::ItemMode::Collect),
        "the first that says so"
    );
    assert_eq!(friend_of.routing.delay, Some(Duration::from_secs(2)), "the longest");
    assert!(friend_of.permissions.may_use_credential("a/x") && friend_of.permissions.may_use_tool("recall"));
    assert_eq!(label(&decide(&document, &friend(&[]), &at("dm", 0))).as_deref(), Some("chat:all"));
    assert_eq!(decide(&document, &owner(), &at("dm", 0)).routing, Routing::default(), "about others");
    let with_deny = json!([document[0], { "name": "no", "effect": "deny", "session": { "key": "chat:no" } }]);
    assert_eq!(decide(&with_deny, &friend(&["friend"]), &at("dm", 0)).routing, Routing::default());
}

#[test]
fn a_part_left_out_is_neither_given_nor_limited_and_groups_stand_for_their_tools() {
    let about_owner = json!([{ "name": "no-commands", "effect": "allow", "match": { "principal": { "is_user": true } },
        "permissions": { "tools": { "deny": ["runtime", "project"] } } }]);
    let given = decide(&about_owner, &owner(), &at("dm", 0)).permissions;
    assert!(given.may_use_tool("read") && given.may_use_credential("a/x"));
    assert!(!given.may_use_tool("bash") && !given.may_use_tool("project/task_add"));
    assert_eq!(given.data, DataLevel::Full);

    let about_others = json!([{ "name": "readers", "effect": "allow", "match": { "principal": { "is_user": false } },
        "permissions": { "tools": { "allow": ["fs", "memory"], "deny": ["write", "edit"] } } }]);
    let given = decide(&about_others, &friend(&[]), &at("dm", 0)).permissions;
    let tools = ["read", "grep", "recall", "write", "bash", "project/task_add"];
    assert_eq!(tools.map(|tool| given.may_use_tool(tool)), [true, true, true, false, false, false]);
    assert_eq!((given.credentials, given.data), (Names::none(), DataLevel::None), "nobody gave any");
}

#[test]
fn one_that_asks_says_what_consent_would_give() {
    let document = json!([
        { "name": "pair", "effect": "ask", "match": { "principal": { "is_user": false } },
          "permissions": { "tools": { "allow": ["recall", "bash"] } }, "session": { "key": "chat:guests" } },
        { "name": "careful", "effect": "ask", "match": { "principal": { "is_user": false } },
          "permissions": { "tools": { "deny": ["bash"] } } },
    ]);
    let asked = decide(&document, &friend(&[]), &at("dm", 0));
    assert_eq!(asked.decision, Decision::Ask);
    assert_eq!(asked.permissions, Permissions::nothing(), "nothing before the answer");
    assert!(asked.upon_consent.may_use_tool("recall") && !asked.upon_consent.may_use_tool("bash"));
    assert_eq!(asked.routing.session.unwrap().label.as_deref(), Some("chat:guests"));
}

#[test]
fn hours_hold_by_the_owner_s_clock_also_across_midnight() {
    let document = |time: &str| json!([{ "name": "hours", "effect": "allow", "match": { "principal": { "is_user": false }, "conditions": [{ "time": time }] } }]);
    let allowed = |time: &str, minute: u16| {
        decide(&document(time), &friend(&[]), &at("dm", minute)).decision == Decision::Allow
    };
    assert!(allowed("09:00-17:30", 9 * 60) && !allowed("09:00-17:30", 17 * 60 + 30));
    assert!(allowed("22:00-06:00", 23 * 60) && allowed("22:00-06:00", 0) && !allowed("22:00-06:00", 12 * 60));
    assert!(!allowed("weekends", 0));
    let mut no_clock = at("dm", 0);
    no_clock.clock = None;
    assert_eq!(decide(&document("00:00-24:00"), &friend(&[]), &no_clock).decision, Decision::Deny);
}

#[test]
fn a_built_in_policy_can_be_replaced_or_switched_off_by_its_name() {
    let off = json!([{ "name": "system-internal", "effect": "allow", "enabled": false }]);
    let system = Principal::System { name: "boot".into() };
    assert_eq!(decide(&off, &system, &at("dm", 0)).decision, Decision::Deny);
}

#[test]
fn one_wrong_policy_makes_the_whole_document_void() {
    let good = json!({ "name": "a", "effect": "deny" });
    for wrong in [
        json!({ "name": "b", "effect": "perhaps" }),
        json!({ "name": "b" }),
        json!({ "name": "a", "effect": "deny" }),
        json!({ "name": "b", "effect": "deny", "match": { "principal": { "is_user": true, "agent": true } } }),
        json!({ "name": "b", "effect": "deny", "priority": 101 }),
        json!({ "name": "b", "effect": "deny", "unheard": 1 }),
        json!({ "name": "b", "effect": "allow", "session": {} }),
        json!({ "name": "b", "effect": "allow", "session": { "key": "" } }),
        json!({ "name": "b", "effect": "allow", "session": { "room": "x" } }),
        json!({ "name": "b", "effect": "allow", "modifiers": { "queue_mode": "whenever" } }),
        json!({ "name": "b", "effect": "allow", "modifiers": { "delay_response": 3_600_001 } }),
        json!({ "name": "b", "effect": "deny", "match": { "conditions": [{ "time": "25:00-26:00" }] } }),
        json!("text"),
    ] {
        let problem = with_document(&[good.clone(), wrong.clone()], StrangerRule::Deny).unwrap_err();
        assert!(!problem.reason.is_empty(), "{wrong}");
    }
}
