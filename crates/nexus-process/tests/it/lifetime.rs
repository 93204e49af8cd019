//! Deadlines, cancellation, output caps, and that nothing outlives its run.

use std::time::{Duration, Instant};

use nexus_process::{Input, LiveGroup, Status};
use tokio_util::sync::CancellationToken;

use crate::machine::{Machine, eventually, sleepers, unique_sleep};

#[tokio::test]
async fn a_deadline_ends_the_whole_group() {
    let (machine, sleep) = (Machine::new(), unique_sleep());
    let outcome = machine
        .bash(&format!("(sleep {sleep} & wait) & echo begun; wait"))
        .deadline(Duration::from_secs(3))
        .run()
        .await
        .unwrap();
    assert_eq!(outcome.status, Status::TimedOut);
    assert!(outcome.stdout.text().contains("begun"));
    assert_eq!(sleepers(&sleep), 0);
}

#[tokio::test]
async fn a_program_that_ignores_the_request_is_killed() {
    let machine = Machine::new();
    let begun = Instant::now();
    let outcome = machine
        .bash("trap '' TERM; while :; do sleep 600; done")
        .deadline(Duration::from_millis(800))
        .grace(Duration::from_millis(200))
        .run()
        .await
        .unwrap();
    assert_eq!(outcome.status, Status::TimedOut);
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn cancelling_ends_it_at_once() {
    let (machine, sleep) = (Machine::new(), unique_sleep());
    let token = CancellationToken::new();
    let launch = machine.bash(&format!("sleep {sleep}")).cancel(token.clone()).grace(Duration::from_secs(30));
    let running = tokio::spawn(launch.run());
    eventually("the command runs", || sleepers(&sleep) == 1).await;
    let begun = Instant::now();
    token.cancel();
    let outcome = running.await.unwrap().unwrap();
    assert_eq!(outcome.status, Status::Cancelled);
    // Far less than the grace: asking was enough.
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!(sleepers(&sleep), 0);
}

#[tokio::test]
async fn dropping_the_run_ends_it() {
    let (machine, sleep) = (Machine::new(), unique_sleep());
    let command = format!("setsid -f env -i sleep {sleep}; sleep {sleep}");
    let running = tokio::spawn(machine.bash(&command).run());
    eventually("the command runs", || sleepers(&sleep) == 2).await;
    running.abort();
    eventually("everything is gone", || sleepers(&sleep) == 0).await;
}

#[tokio::test]
async fn background_processes_end_with_the_command() {
    let (machine, sleep) = (Machine::new(), unique_sleep());
    let begun = Instant::now();
    let ran = machine.run(&format!("sleep {sleep} & echo done")).await.must_work();
    assert_eq!(ran.stdout, "done\n");
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert_eq!(sleepers(&sleep), 0);
}

#[tokio::test]
async fn s5_nothing_that_leaves_the_group_outlives_the_command() {
    let (machine, sleep) = (Machine::new(), unique_sleep());
    for command in [
        "setsid sleep SECONDS &",
        "setsid -f env -i sleep SECONDS",
        "(setsid bash -c 'setsid sleep SECONDS & disown; exit' &) ; sleep 0.1",
        "env -i setsid bash -c 'trap \"\" TERM HUP; (sleep SECONDS &) ; exec sleep SECONDS' & sleep 0.1",
        "nohup setsid sleep SECONDS </dev/null >/dev/null 2>&1 & sleep 0.1",
    ] {
        machine.run(&command.replace("SECONDS", &sleep)).await.must_work();
        assert_eq!(sleepers(&sleep), 0, "{command}");
    }
}

#[tokio::test]
async fn s5_nothing_outlives_a_helper_that_was_killed() {
    let (machine, sleep) = (Machine::new(), unique_sleep());
    let (sender, receiver) = std::sync::mpsc::channel();
    let launch = machine.bash(&format!("setsid -f env -i sleep {sleep}; sleep {sleep}"));
    let running = tokio::spawn(async move {
        launch.run_reporting(&move |group: &LiveGroup| sender.send(group.leader).unwrap()).await
    });
    eventually("the command runs", || sleepers(&sleep) == 2).await;
    let leader = rustix::process::Pid::from_raw(receiver.recv().unwrap().unwrap().process).unwrap();
    rustix::process::kill_process(leader, rustix::process::Signal::KILL).unwrap();
    assert_eq!(running.await.unwrap().unwrap().status, Status::Signaled(9));
    // Without namespaces only what kept its mark is found.
    if nexus_process::tier_with(&crate::machine::helper()) == Some(nexus_process::Tier::Namespaces) {
        assert_eq!(sleepers(&sleep), 0);
    }
}

#[tokio::test]
async fn output_is_capped_head_and_tail() {
    let machine = Machine::new();
    let outcome = machine
        .bash("echo first; head -c 3000000 /dev/zero; echo last")
        .output_limit(4096)
        .run()
        .await
        .unwrap();
    let text = outcome.stdout.text();
    assert!(text.contains("first\n") && text.ends_with("last\n"));
    assert!(outcome.stdout.cut > 2_900_000, "{}", outcome.stdout.cut);
    assert_eq!(outcome.stdout.head.len() + outcome.stdout.tail.len(), 4096);
    assert!(text.contains(&format!("{} bytes cut here", outcome.stdout.cut)));
}

#[tokio::test]
async fn input_arrives_and_may_be_ignored() {
    let machine = Machine::new();
    let bytes = vec![b'x'; 1_000_000];
    let outcome = machine.bash("wc -c").input(Input::Bytes(bytes.clone())).run().await.unwrap();
    assert!(outcome.stdout.text().contains("1000000"));
    let outcome = machine.bash("exit 3").input(Input::Bytes(bytes)).run().await.unwrap();
    assert_eq!(outcome.status, Status::Exited(3));
    let outcome = machine.bash("cat; echo end").run().await.unwrap();
    assert!(outcome.succeeded());
}

#[tokio::test]
async fn a_signal_from_elsewhere_is_told() {
    let machine = Machine::new();
    let outcome = machine.bash("kill -SEGV $$").run().await.unwrap();
    assert_eq!(outcome.status, Status::Signaled(11));
}

#[tokio::test]
async fn a_cancelled_token_starts_nothing_lasting() {
    let machine = Machine::new();
    let token = CancellationToken::new();
    token.cancel();
    let outcome = machine.bash("sleep 600").cancel(token).run().await.unwrap();
    assert_eq!(outcome.status, Status::Cancelled);
}
