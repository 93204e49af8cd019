use nexus_automation::{HookPoint, SHIPPED, load_active};
use nexus_store::runtime::{AutomationMode, AutomationStatus, NewAutomation};

use crate::support::Place;

fn own(name: &str, script: &str, hook_point: &str) -> NewAutomation {
    NewAutomation {
        name: name.into(),
        description: String::new(),
        mode: AutomationMode::Persistent,
        script_path: script.into(),
        script_hash: None,
        triggers: None,
        config: None,
        hook_point: hook_point.into(),
        workspace_dir: None,
        peer_workspaces: None,
        self_improvement: false,
        timeout_ms: None,
        blocking: false,
        bundled: true,
        seed_version: None,
    }
}

#[tokio::test]
async fn only_what_is_switched_on_is_loaded_and_found_by_hook_point() {
    let place = Place::new();
    place.seed().await;
    let store = place.open();
    store.runtime().set_automation_status("command-logger", AutomationStatus::Paused, None).await.unwrap();
    store.runtime().seed_automation(own("a-first", "/bin/true", "worker:pre_execution")).await.unwrap();
    store.runtime().seed_automation(own("no-hook", "/bin/true", "")).await.unwrap();
    store.runtime().seed_automation(own("of-the-future", "/bin/true", "moon:rise")).await.unwrap();
    let active = load_active(&store).await.unwrap();
    assert_eq!(active.len(), 6);
    let at = |hook| active.at(hook).map(|one| one.definition.name.clone()).collect::<Vec<_>>();
    assert_eq!(at(HookPoint::WorkerPreExecution), ["a-first", "memory-reader"]);
    assert_eq!(at(HookPoint::RunAutomations), ["no-hook"]);
    assert_eq!(at(HookPoint::CommandExecute), Vec::<String>::new());
    store.close().await;
}

#[tokio::test]
async fn an_untrusted_workspace_runs_only_our_own_code() {
    let place = Place::new();
    let store = place.open();
    // A row that claims to be shipped, under a shipped name, with somebody's script.
    let newest =
        NewAutomation { seed_version: Some(u32::MAX), ..own("boot-md", "/tmp/evil.sh", "runtime:startup") };
    store.runtime().seed_automation(newest).await.unwrap();
    store.close().await;
    place.seed().await;
    let store = place.open();
    let active = load_active(&store).await.unwrap();
    assert_eq!(active.len(), 4);
    let ours = active.only_shipped();
    let names: Vec<&str> = ours.iter().map(|one| one.definition.name.as_str()).collect();
    assert_eq!(names, ["command-logger", "memory-reader", "memory-writer"]);
    store.close().await;
}

#[test]
fn hook_points_have_one_name_each_and_blocking_is_only_where_something_waits() {
    for hook in HookPoint::ALL {
        assert_eq!(HookPoint::parse(hook.as_str()), Some(hook));
    }
    assert_eq!(HookPoint::parse("nowhere"), None);
    assert!(SHIPPED.iter().all(|one| !one.blocking || one.hook_point.may_block()));
}
