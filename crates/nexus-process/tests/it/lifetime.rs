//! Deadlines, cancellation, output caps, and that nothing outlives its run.

use std::time::{Duration, Instant};

use nexus_process::{Input, Status};
use tokio_util::sync::CancellationToken;

use crate::machine::{Machine, eventually, lives};

fn number_in(path: &std::path::Path) -> Option<i32> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[tokio::test]
async fn a_deadline_ends_the_whole_group() {
    let machine = Machine::new();
    let outcome = machine
        .bash("(sleep 600 & echo $! > grandchild; wait) & echo begun; wait")
        .deadline(Duration::from_secs(3))
        .run()
        .await
        .unwrap();
    assert_eq!(outcome.status, Status::TimedOut);
    assert!(outcome.stdout.text().contains("begun"));
    let grandchild = number_in(&machine.task().join("grandchild")).unwrap();
    eventually("it is gone", || !lives(grandchild)).await;
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
async fn a_program_may_use_its_grace() {
    let machine = Machine::new();
    let outcome = machine
        .bash("trap 'echo saved > state; exit 0' TERM; echo ready; while :; do sleep 0.05; done")
        .deadline(Duration::from_secs(3))
        .grace(Duration::from_secs(20))
        .run()
        .await
        .unwrap();
    assert_eq!(outcome.status, Status::TimedOut);
    assert_eq!(std::fs::read_to_string(machine.task().join("state")).unwrap(), "saved\n");
}

#[tokio::test]
async fn cancelling_ends_it_at_once() {
    let machine = Machine::new();
    let token = CancellationToken::new();
    let launch =
        machine.bash("echo $$ > leader; sleep 600").cancel(token.clone()).grace(Duration::from_secs(30));
    let running = tokio::spawn(launch.run());
    let leader = machine.task().join("leader");
    eventually("the command runs", || number_in(&leader).is_some()).await;
    let begun = Instant::now();
    token.cancel();
    let outcome = running.await.unwrap().unwrap();
    assert_eq!(outcome.status, Status::Cancelled);
    // Far less than the grace: asking was enough.
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert!(!lives(number_in(&leader).unwrap()));
}

#[tokio::test]
async fn dropping_the_run_ends_it() {
    let machine = Machine::new();
    let running = tokio::spawn(machine.bash("echo $$ > leader; sleep 600").run());
    let leader = machine.task().join("leader");
    eventually("the command runs", || number_in(&leader).is_some()).await;
    running.abort();
    let leader = number_in(&leader).unwrap();
    eventually("the leader is gone", || !std::path::Path::new(&format!("/proc/{leader}")).exists()).await;
}

#[tokio::test]
async fn background_processes_end_with_the_command() {
    let machine = Machine::new();
    let begun = Instant::now();
    let ran = machine.run("sleep 600 & echo $! > left; echo done").await.must_work();
    assert_eq!(ran.stdout, "done\n");
    assert!(begun.elapsed() < Duration::from_secs(20));
    let left = number_in(&machine.task().join("left")).unwrap();
    eventually("it is gone", || !lives(left)).await;
}

#[tokio::test]
async fn a_process_that_leaves_the_group_is_found() {
    let machine = Machine::new();
    // A session of its own, which nothing in the group waits for.
    let command = "setsid -f bash -c 'echo $$ > new; mv new stray; exec sleep 600' >/dev/null 2>&1; \
                   while [ ! -e stray ]; do sleep 0.01; done";
    let ran = machine.run(command).await.must_work();
    assert!(ran.outcome.strays >= 1);
    let stray = number_in(&machine.task().join("stray")).unwrap();
    eventually("it is gone", || !lives(stray)).await;
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
