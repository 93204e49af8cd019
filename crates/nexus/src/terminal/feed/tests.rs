//! What a person sees for sequences of events.

use nexus_base::clock::Timestamp;
use nexus_base::id::OutboxId;

use super::*;

const MAIN: &str = "dm:entity-owner";

fn event(root: &str, body: BusBody) -> BusEvent {
    BusEvent { seq: 1, at: Timestamp(0), root_request_id: Some(RequestId::new(root)), body }
}

fn delta(turn: &str, attempt: u32, text: &str) -> BusEvent {
    event(
        "r1",
        BusBody::Delta {
            request_id: RequestId::new("r1"),
            session: SessionLabel::new(MAIN),
            turn_id: TurnId::new(turn),
            attempt,
            text: text.to_owned(),
        },
    )
}

fn reply(root: &str, message: &str, turn: &str, text: &str) -> BusEvent {
    event(
        root,
        BusBody::Reply {
            request_id: RequestId::new(root),
            session: SessionLabel::new(MAIN),
            turn_id: TurnId::new(turn),
            outbox_id: OutboxId::new(format!("{turn}:0")),
            message_id: MessageId::new(message),
            state: TurnState::Final,
            text: text.to_owned(),
            reply_to: None,
        },
    )
}

fn dispatched(parent: &str, worker: &str, task: &str) -> BusEvent {
    event(
        "r1",
        BusBody::WorkerDispatched {
            parent: SessionLabel::new(parent),
            session: SessionLabel::new(worker),
            request_id: RequestId::new("r2"),
            task: task.to_owned(),
        },
    )
}

fn feed() -> Feed {
    Feed::of_session(Some(SessionLabel::new(MAIN)))
}

fn said(text: &str, streamed: bool) -> Show {
    Show::Reply { text: text.to_owned(), streamed, state: TurnState::Final }
}

#[test]
fn a_streamed_reply_is_not_said_again() {
    let mut feed = feed();
    assert_eq!(feed.take(&delta("t1", 1, "Hello ")), vec![Show::Piece("Hello ".into())]);
    feed.take(&delta("t1", 1, "there."));
    assert_eq!(feed.take(&reply("r1", "m1", "t1", "Hello there.")), vec![said("Hello there.", true)]);
    assert_eq!(feed.take(&reply("r1", "m1", "t1", "Hello there.")), vec![]);
}

#[test]
fn only_the_end_of_a_stream_has_to_be_the_reply() {
    let mut feed = feed();
    feed.take(&delta("t1", 1, "Let me look. "));
    feed.take(&delta("t1", 1, "It is blue.\n"));
    assert_eq!(feed.take(&reply("r1", "m1", "t1", "It is blue.")), vec![said("It is blue.", true)]);
}

#[test]
fn a_reply_that_was_not_streamed_is_shown_whole() {
    let mut feed = feed();
    feed.take(&delta("t1", 1, "Hel"));
    assert_eq!(feed.take(&reply("r1", "m1", "t1", "Other words.")), vec![said("Other words.", false)]);
}

#[test]
fn a_higher_attempt_starts_over_and_a_late_lower_one_is_dropped() {
    let mut feed = feed();
    feed.take(&delta("t1", 1, "Hel"));
    assert_eq!(feed.take(&delta("t1", 2, "Hello")), vec![Show::StartOver, Show::Piece("Hello".into())]);
    assert_eq!(feed.take(&delta("t1", 1, "lo")), vec![]);
    assert_eq!(feed.take(&reply("r1", "m1", "t1", "Hello")), vec![said("Hello", true)]);
}

#[test]
fn workers_of_workers_are_seen_and_strangers_are_not() {
    let mut feed = feed();
    assert_eq!(
        feed.take(&dispatched(MAIN, "worker:a", "scan\nthe disk")),
        vec![Show::Notice("worker 1: scan ⏎ the disk".into())]
    );
    assert_eq!(
        feed.take(&dispatched("worker:a", "worker:b", "read")),
        vec![Show::Notice("worker 2: read".into())]
    );
    assert_eq!(feed.take(&dispatched("dm:other", "worker:c", "read")), vec![]);
    let ended = BusBody::WorkerEnded {
        parent: SessionLabel::new(MAIN),
        session: SessionLabel::new("worker:a"),
        status: "completed".into(),
    };
    assert_eq!(feed.take(&event("r1", ended)), vec![Show::Notice("worker 1: completed".into())]);
}

#[test]
fn a_narrowed_feed_ignores_other_requests() {
    let mut feed = feed();
    feed.follow_only(RequestId::new("r1"));
    assert_eq!(feed.take(&reply("r9", "m9", "t9", "not yours")), vec![]);
    assert_eq!(feed.take(&reply("r1", "m1", "t1", "yours")), vec![said("yours", false)]);
}

#[test]
fn catching_up_shows_what_events_did_not() {
    let mut feed = feed();
    feed.take(&reply("r1", "m1", "t1", "first"));
    let line = |message: &str, speaker, text: &str| ChatLine {
        message_id: MessageId::new(message),
        turn_id: TurnId::new("t1"),
        request_id: RequestId::new("r1"),
        speaker,
        text: text.to_owned(),
        at: Timestamp(0),
    };
    let lines = [
        line("m0", Speaker::User, "hi"),
        line("m1", Speaker::Assistant, "first"),
        line("m2", Speaker::Assistant, "second"),
    ];
    assert_eq!(feed.catch_up(&lines), vec![said("second", false)]);
    assert_eq!(feed.catch_up(&lines), vec![]);
}

#[test]
fn what_a_turn_used_what_failed_and_what_was_summed_up_are_lines_of_their_own() {
    let mut feed = feed();
    let used = |session: &str, turn: &str, input_tokens, output_tokens| {
        event(
            "r1",
            BusBody::Used {
                session: SessionLabel::new(session),
                turn_id: TurnId::new(turn),
                input_tokens,
                cached_input_tokens: 0,
                output_tokens,
            },
        )
    };
    let ended = |state| {
        event(
            "r1",
            BusBody::TurnEnded {
                request_id: RequestId::new("r1"),
                session: SessionLabel::new(MAIN),
                turn_id: TurnId::new("t1"),
                state,
            },
        )
    };
    let notice = |text: &str| Show::Notice(text.to_owned());
    feed.take(&dispatched(MAIN, "worker:1", "count"));
    // The same turn counts up; a stranger's does not count.
    for used in [
        used(MAIN, "t1", 10, 1),
        used(MAIN, "t1", 30, 3),
        used("worker:1", "t2", 100, 7),
        used("dm:x", "t3", 9, 9),
    ] {
        assert_eq!(feed.take(&used), []);
    }
    assert_eq!(
        feed.take(&ended(TurnState::Final)),
        [Show::TurnEnded(TurnState::Final), notice("130 tokens in, 10 out")]
    );
    assert_eq!(feed.take(&ended(TurnState::Final)), [Show::TurnEnded(TurnState::Final)], "said once");
    let failed = |is_error| {
        event(
            "r1",
            BusBody::ToolEnded {
                session: SessionLabel::new("worker:1"),
                turn_id: TurnId::new("t2"),
                tool_call_id: nexus_base::id::ToolCallId::new("c"),
                tool: "bash".to_owned(),
                is_error,
                duration_ms: 5,
            },
        )
    };
    assert_eq!(feed.take(&failed(true)), [notice("worker 1: bash did not work")]);
    assert_eq!(feed.take(&failed(false)), []);
    let compacted = event(
        "r1",
        BusBody::Compacted {
            session: SessionLabel::new(MAIN),
            turn_id: TurnId::new("t1"),
            compaction_id: nexus_base::id::CompactionId::new("k"),
            turns: 12,
            tokens_before: 10,
            tokens_after: 5,
        },
    );
    assert_eq!(
        feed.take(&compacted),
        [notice("12 earlier turns are summarised from here on (nexus sessions compactions)")]
    );
}
