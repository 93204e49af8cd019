use nexus_base::id::{EntityId, EventId, SessionLabel};
use nexus_identity::{
    Access, Circumstances, DataLevel, Decision, Grant, Names, Permissions, Policy, Principal, Routing,
    StrangerRule, WhichPrincipal, built_in, evaluate,
};
use nexus_store::identity::AccessEffect;

use crate::support::place;

fn owner() -> Principal {
    Principal::Owner { entity: EntityId::new("entity-owner"), name: "Ada".into() }
}

fn known() -> Principal {
    Principal::Known { entity: EntityId::new("test:bo"), name: "Bo".into(), tags: vec![] }
}

fn in_kind(kind: &str) -> Circumstances {
    Circumstances {
        platform: "test".into(),
        sender: "bo".into(),
        container_kind: Some(kind.into()),
        ..Circumstances::default()
    }
}

fn said(policies: &[Policy], principal: &Principal, kind: &str) -> String {
    let evaluation = evaluate(policies, principal, &in_kind(kind));
    format!("{} {:?}", evaluation.decision.as_str(), evaluation.decided_by.unwrap_or_default())
}

#[test]
fn the_built_in_policies() {
    let policies = built_in(StrangerRule::Deny);
    let system = Principal::System { name: "boot".into() };
    let webhook = Principal::Webhook { name: "x".into() };
    assert_eq!(said(&policies, &owner(), "dm"), r#"allow "owner-full-access""#);
    assert_eq!(said(&policies, &system, "dm"), r#"allow "system-internal""#);
    assert_eq!(said(&policies, &known(), "dm"), r#"deny """#);
    assert_eq!(said(&policies, &Principal::Unknown, "dm"), r#"deny """#);
    assert_eq!(said(&policies, &webhook, "dm"), r#"deny """#);
    assert_eq!(evaluate(&policies, &owner(), &in_kind("dm")).permissions, Permissions::everything());
    let given = evaluate(&policies, &system, &in_kind("dm")).permissions;
    assert!(given.may_use_tool("read") && !given.may_use_tool("bash") && !given.may_use_tool("write"));
    assert!(!given.may_use_credential("github/work"));
}

#[test]
fn strangers_are_asked_about_in_direct_messages_only_and_only_if_wanted() {
    let policies = built_in(StrangerRule::AskInDirectMessages);
    assert_eq!(said(&policies, &known(), "dm"), r#"ask "stranger-in-dm""#);
    assert_eq!(said(&policies, &known(), "group"), r#"deny """#);
    assert_eq!(evaluate(&policies, &known(), &in_kind("dm")).permissions, Permissions::nothing());
}

#[test]
fn an_agent_has_what_its_caller_has_and_never_more() {
    let caller = Permissions {
        data: DataLevel::Minimal,
        credentials: Names::only(["github/*"]),
        ..Permissions::everything()
    };
    let agent = Principal::Agent { session: SessionLabel::new("worker:1"), inherited: caller.clone() };
    let mut policies = built_in(StrangerRule::Deny);
    assert_eq!(evaluate(&policies, &agent, &in_kind("dm")).permissions, caller);
    policies.push(policy("generous", 90, Decision::Allow, WhichPrincipal::Agent));
    let given = evaluate(&policies, &agent, &in_kind("dm")).permissions;
    assert!(!given.may_use_credential("slack/work") && given.may_use_credential("github/work"));
    assert_eq!(given.data, DataLevel::Minimal);
}

fn policy(name: &str, priority: u8, decision: Decision, about: WhichPrincipal) -> Policy {
    Policy {
        name: name.into(),
        priority,
        about,
        person: None,
        tags: Vec::new(),
        conditions: Vec::new(),
        decision,
        grant: Grant::Fixed(Permissions::everything().into()),
        routing: Routing::default(),
    }
}

#[test]
fn one_deny_beats_every_allow_whatever_its_priority() {
    let policies = [
        policy("allow", 100, Decision::Allow, WhichPrincipal::Known),
        policy("deny", 0, Decision::Deny, WhichPrincipal::Known),
        policy("ask", 50, Decision::Ask, WhichPrincipal::Known),
    ];
    let evaluation = evaluate(&policies, &known(), &in_kind("dm"));
    assert_eq!((evaluation.decision, evaluation.permissions), (Decision::Deny, Permissions::nothing()));
    assert_eq!(evaluation.matched, ["allow", "ask", "deny"]);
    assert_eq!(said(&policies[..1], &known(), "dm"), r#"allow "allow""#);
    assert_eq!(said(&policies[2..], &known(), "dm"), r#"ask "ask""#);
    assert_eq!(said(&[], &owner(), "dm"), r#"deny """#);
}

#[tokio::test]
async fn every_decision_leaves_a_row() {
    let place = place();
    let (event, session) = (EventId::new("cli:1"), SessionLabel::new("dm:entity-owner"));
    let allowed = place.access.decide(&owner(), &event, &session);
    assert_eq!((allowed.decision, allowed.policy.as_deref()), (Decision::Allow, Some("owner-full-access")));
    assert_eq!(allowed.reason, None);
    let denied = place.access.decide_in(&known(), &in_kind("group"), &event, &session);
    assert_eq!(denied.reason.as_deref(), Some("no policy allows messages from principals of kind known"));
    let asking =
        Access::with_policies(place.store.identity().clone(), built_in(StrangerRule::AskInDirectMessages));
    assert_eq!(asking.decide_in(&known(), &in_kind("dm"), &event, &session).decision, Decision::Ask);
    place.store.identity().flush().await.unwrap();
    let rows = place.store.identity().recent_access(10).await.unwrap();
    let mut lines: Vec<String> = rows
        .iter()
        .map(|row| {
            format!(
                "{:?} {} {} {} {:?} {} {}",
                row.effect,
                row.principal_type,
                row.platform,
                row.sender_id,
                row.container_kind,
                row.policies_matched.clone().unwrap(),
                row.tools_allowed.clone().unwrap()
            )
        })
        .collect();
    lines.sort();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    Allow owner control-plane entity-owner Some("dm") ["owner-full-access"] "*"
    Ask known test bo Some("dm") ["stranger-in-dm"] []
    Deny known test bo Some("group") ["default-deny"] []
    "#);
    assert!(
        rows.iter().any(|row| row.effect == AccessEffect::Deny && row.session_key == Some(session.clone()))
    );
    place.store.close().await;
}
