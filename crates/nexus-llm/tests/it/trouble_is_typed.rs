//! Refusals, silence, cuts and cancellation: each has its own error, and none hangs.

use std::time::{Duration, Instant};

use nexus_llm::{Model, ModelError, Timeouts, Wire};
use nexus_testkit::model::{Gate, ModelServer, Reply};
use tokio_util::sync::CancellationToken;

use crate::support::{BOTH, QUICK, ask, ask_with, client, client_within, conversation};

async fn error(server: &ModelServer, wire: Wire, timeouts: Timeouts) -> ModelError {
    ask(&client_within(server, wire, timeouts)).await.reply.unwrap_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn statuses_are_told_apart() {
    for (wire, kind) in BOTH {
        let provider = kind.provider().to_owned();
        let check = async |reply: Reply, expected: ModelError| {
            let server = ModelServer::start();
            server.script([reply]);
            assert_eq!(error(&server, wire, Timeouts::default()).await, expected);
        };
        let retry_after = |seconds| Some(Duration::from_millis(seconds));
        let pointer = "svc/acct/api_key".to_owned();
        for status in [401, 403] {
            let reason = format!("status {status}: no");
            let refused = ModelError::Unauthorized {
                provider: provider.clone(),
                pointer: pointer.clone(),
                reason,
                only_its_tool: false,
            };
            check(Reply::status(status, "no"), refused).await;
        }
        let limited = |retry_after| ModelError::RateLimited { provider: provider.clone(), retry_after };
        check(Reply::status(429, "slow").header("retry-after", "7"), limited(retry_after(7000))).await;
        check(Reply::status(429, "slow").header("retry-after-ms", "70"), limited(retry_after(70))).await;
        check(Reply::status(429, "slow").header("retry-after", "whenever"), limited(None)).await;
        let reason = "status 402: pay".to_owned();
        check(
            Reply::status(402, "pay"),
            ModelError::NoCredit { provider: provider.clone(), pointer, reason },
        )
        .await;
        check(Reply::status(400, "prompt is too long: 3 > 2"), ModelError::ContextTooLong).await;
        for status in [500, 502, 503, 529] {
            let unavailable = ModelError::Unavailable {
                provider: provider.clone(),
                reason: format!("status {status}: oh"),
                retry_after: retry_after(1000),
            };
            check(Reply::status(status, "oh").header("retry-after", "1"), unavailable).await;
        }
        let rejected = ModelError::Rejected { provider: provider.clone(), reason: "status 404: nope".into() };
        check(Reply::status(404, "nope"), rejected).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_stream_is_reported_with_what_came() {
    for (wire, _) in BOTH {
        // Wherever the cut falls before the end, it is a cut.
        for events in 0..5 {
            let server = ModelServer::start();
            server.script([Reply::text("some words that never end").pieces(8).cut_after(events)]);
            let told = ask(&client(&server, wire)).await;
            let error = told.reply.unwrap_err();
            assert!(matches!(error, ModelError::BrokenOff { .. }), "{wire:?} after {events}: {error:?}");
            assert!(error.is_retryable());
            assert!("some words that never end".starts_with(&told.text));
        }
        // A stream that ends politely but in the middle is one, too.
        let server = ModelServer::start();
        server.script([Reply::raw(": nothing\n\n"), Reply::raw("data: {\"half\": \n\n")]);
        for _ in 0..2 {
            let error = error(&server, wire, Timeouts::default()).await;
            assert!(matches!(error, ModelError::BrokenOff { .. }), "{wire:?}: {error:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_inside_the_stream_is_judged() {
    for (wire, _) in BOTH {
        let server = ModelServer::start();
        server.script([Reply::text("half a reply").pieces(3).fail_after(3, "Overloaded")]);
        let told = ask(&client(&server, wire)).await;
        assert!(!told.text.is_empty());
        let error = told.reply.unwrap_err();
        assert!(
            matches!(&error, ModelError::Unavailable { reason, .. } if reason == "Overloaded"),
            "{error:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_before_and_inside_a_reply_ends_in_time() {
    for (wire, _) in BOTH {
        for reply in [
            Reply::text("never").hold(&Gate::new()),
            Reply::text("never").hold_after(0, &Gate::new()),
            Reply::text("one two three").pieces(3).hold_after(2, &Gate::new()),
        ] {
            let server = ModelServer::start();
            server.script([reply]);
            let started = Instant::now();
            let error = error(&server, wire, QUICK).await;
            assert!(matches!(error, ModelError::TimedOut { .. }), "{wire:?}: {error:?}");
            assert_eq!(error.code(), "timeout");
            assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
            server.wait_for_hangup(0);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_there_is_unavailable() {
    let server = ModelServer::start();
    let client = client(&server, Wire::OpenAi);
    drop(server);
    let error = ask(&client).await.reply.unwrap_err();
    assert!(matches!(error, ModelError::Unavailable { .. }), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_closes_the_socket_at_once() {
    for (wire, _) in BOTH {
        for reply in [
            Reply::text("never").hold(&Gate::new()),
            Reply::text("one two three").pieces(3).hold_after(3, &Gate::new()),
        ] {
            let server = ModelServer::start();
            server.script([reply]);
            let cancel = CancellationToken::new();
            let (client, inner) = (client(&server, wire), cancel.clone());
            let asking = tokio::spawn(async move { ask_with(&client, &conversation(), &inner).await.reply });
            tokio::task::block_in_place(|| server.wait_for(1));
            let cancelled = Instant::now();
            cancel.cancel();
            assert_eq!(asking.await.unwrap(), Err(ModelError::Cancelled));
            assert!(cancelled.elapsed() < Duration::from_millis(100), "{:?}", cancelled.elapsed());
            tokio::task::block_in_place(|| server.wait_for_hangup(0));
        }
    }
    let server = ModelServer::start();
    let cancel = CancellationToken::new();
    cancel.cancel();
    let told = client(&server, Wire::OpenAi).reply(&conversation(), &|_| {}, &cancel).await;
    assert_eq!(told, Err(ModelError::Cancelled));
    assert_eq!(server.asked().len(), 0, "nothing is sent for a call that is over");
}

#[tokio::test(flavor = "multi_thread")]
async fn words_arrive_while_the_reply_is_still_made() {
    for (wire, _) in BOTH {
        let server = ModelServer::start();
        let gate = Gate::new();
        server.script([Reply::text("first, second").pieces(2).hold_after(3, &gate)]);
        let (sender, receiver) = std::sync::mpsc::channel();
        let client = client(&server, wire);
        let asking = tokio::spawn(async move {
            let sink = move |event| drop(sender.send((event, Instant::now())));
            client.reply(&conversation(), &sink, &CancellationToken::new()).await
        });
        let first = tokio::task::block_in_place(|| receiver.recv_timeout(Duration::from_secs(10)));
        assert!(first.is_ok(), "{wire:?}: the first piece comes although the reply is held");
        gate.open();
        asking.await.unwrap().unwrap();
        let (_, heard) = first.unwrap();
        let sent = server.asked()[0].sent_at();
        assert!(heard < sent[sent.len() - 1], "{wire:?}: heard before the last event was sent");
    }
}
