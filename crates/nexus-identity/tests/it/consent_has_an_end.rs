use nexus_base::clock::Timestamp;
use nexus_identity::{ApprovalError, Approvals, Ask, Asked, Consent, Kind, Lasting};
use nexus_store::identity::{GrantActivity, PermissionRequest, PermissionStatus};

use crate::support::place;

fn ask(kind: Kind, resources: &[&str]) -> Ask {
    Ask {
        requester: "worker:1".into(),
        platform: "test".into(),
        kind,
        tool: None,
        tool_call_id: None,
        session: None,
        request_id: None,
        summary: "reach the network".into(),
        resources: resources.iter().map(|resource| (*resource).to_owned()).collect(),
        reason: None,
    }
}

async fn open(approvals: &Approvals, kind: Kind, resources: &[&str]) -> PermissionRequest {
    match approvals.ask(ask(kind, resources)).await.unwrap() {
        Asked::Open(request) => *request,
        Asked::Granted(grant) => panic!("granted by {grant}"),
    }
}

#[tokio::test]
async fn once_leaves_nothing_and_a_day_stands_until_it_is_taken_back() {
    let place = place();
    let approvals = Approvals::new(place.store.identity().clone());
    let first = open(&approvals, Kind::Tool, &["net:example.org"]).await;
    let answered = approvals.answer(&first.new.id, "owner", Consent::Yes(Lasting::Once), None).await.unwrap();
    assert_eq!((answered.status, answered.grant_id), (PermissionStatus::Approved, None));
    let second = open(&approvals, Kind::Tool, &["net:example.org"]).await;
    let answered = approvals.answer(&second.new.id, "owner", Consent::Yes(Lasting::Day), None).await.unwrap();
    let grant = answered.grant_id.unwrap();
    assert_eq!(
        approvals.ask(ask(Kind::Tool, &["net:example.org"])).await.unwrap(),
        Asked::Granted(grant.clone())
    );
    // Anything beyond it is asked about.
    open(&approvals, Kind::Tool, &["net:example.org", "net:example.com"]).await;
    approvals.revoke_grant(&grant, "owner").await.unwrap();
    open(&approvals, Kind::Tool, &["net:example.org"]).await;
    place.store.identity().flush().await.unwrap();
    let log = place.store.identity().grant_activity(&grant).await.unwrap();
    assert_eq!(log, [GrantActivity::Created, GrantActivity::Used, GrantActivity::Revoked]);
}

#[tokio::test]
async fn an_answer_counts_once_and_in_time() {
    let place = place();
    let approvals = Approvals::new(place.store.identity().clone());
    let request = open(&approvals, Kind::Access, &["x"]).await;
    approvals.answer(&request.new.id, "owner", Consent::No, None).await.unwrap();
    let again = approvals.answer(&request.new.id, "owner", Consent::Yes(Lasting::Once), None).await;
    assert!(matches!(again, Err(ApprovalError::Settled(PermissionStatus::Denied))));
    assert!(matches!(
        approvals.answer("nobody", "owner", Consent::No, None).await,
        Err(ApprovalError::Missing(_))
    ));
    // Tools wait two minutes, everything else a day.
    let tool = open(&approvals, Kind::Tool, &["y"]).await;
    assert_eq!(tool.new.expires_at.since(tool.new.created_at).as_secs(), 120);
    assert_eq!(request.new.expires_at.since(request.new.created_at).as_secs(), 24 * 3600);
    let expired =
        place.store.identity().expire_permissions(Timestamp(tool.new.expires_at.as_millis())).await.unwrap();
    assert_eq!(expired.iter().map(|one| one.new.id.as_str()).collect::<Vec<_>>(), [tool.new.id.as_str()]);
    let late = approvals.answer(&tool.new.id, "owner", Consent::Yes(Lasting::Once), None).await;
    assert!(matches!(late, Err(ApprovalError::Settled(PermissionStatus::Expired))));
}

#[tokio::test]
async fn consent_to_a_command_never_stands() {
    let place = place();
    let approvals = Approvals::new(place.store.identity().clone());
    for (kind, resource) in [(Kind::Exec, "anything"), (Kind::Tool, "exec:/bin/sh")] {
        let request = open(&approvals, kind, &[resource]).await;
        let always = approvals.answer(&request.new.id, "owner", Consent::Yes(Lasting::Always), None).await;
        assert!(matches!(always, Err(ApprovalError::OnlyOnce)));
        approvals.answer(&request.new.id, "owner", Consent::Yes(Lasting::Once), None).await.unwrap();
    }
}

#[tokio::test]
async fn nobody_floods_the_owner_with_questions() {
    let place = place();
    let approvals = Approvals::new(place.store.identity().clone());
    for number in 0..16 {
        open(&approvals, Kind::Access, &[&format!("r{number}")]).await;
    }
    assert!(matches!(approvals.ask(ask(Kind::Access, &["more"])).await, Err(ApprovalError::TooMany)));
    let wrong = Ask { resources: vec![], ..ask(Kind::Access, &[]) };
    assert!(matches!(approvals.ask(wrong).await, Err(ApprovalError::Invalid(_))));
}
