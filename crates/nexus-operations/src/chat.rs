//! Chat: said, waited for, read again and stopped.

use std::time::{Duration, Instant};

use nexus_automation::HookPoint;
use nexus_base::id::{RequestId, SessionLabel, TurnId};
use nexus_base::redact::Redactor;
use nexus_pipeline::pipeline::{SentBy, check_label};
use nexus_pipeline::sessions::Quiescence;
use nexus_protocol::chat::{
    ChatAbort, ChatAborted, ChatAccepted, ChatHistory, ChatLine, ChatSend, ChatWaited, Speaker,
};
use nexus_protocol::control::{ChatInject, HistoryOf, WaitFor};
use nexus_store::agents::{HistoryLine, ItemKind, OutboxRecord, OutboxState};

use crate::call::{Call, invalid, missing, rows};
use crate::{Caller, CallerKind, RuntimeError};

/// How long `chat.wait` waits when the caller does not say, and at most.
const DEFAULT_WAIT: Duration = Duration::from_secs(30);
const MAX_WAIT: Duration = Duration::from_secs(600);

/// Takes one message: on disk when this returns.
pub(crate) async fn send(call: &Call<'_>, send: ChatSend) -> Result<ChatAccepted, RuntimeError> {
    tracing::trace!("the daemon takes a message");
    let daemon = call.daemon()?;
    daemon.check_serving()?;
    daemon.pipeline.accept(send, ItemKind::Message, sent_by(call.caller)).await
}

/// Puts a note before a session's assistant, marked as not being the person's words. On disk when this returns, like
/// a message.
pub(crate) async fn inject(call: &Call<'_>, inject: ChatInject) -> Result<ChatAccepted, RuntimeError> {
    let daemon = call.daemon()?;
    daemon.check_serving()?;
    let send = ChatSend {
        message: inject.message,
        session: inject.session,
        idempotency_key: inject.idempotency_key,
        project: None,
        queue_mode: None,
        model: None,
    };
    daemon.pipeline.accept(send, ItemKind::System, sent_by(call.caller)).await
}

fn sent_by(caller: &Caller) -> SentBy {
    match caller.kind() {
        CallerKind::Owner => SentBy::Owner,
        CallerKind::Token | CallerKind::Worker => SentBy::Client(caller.name()),
    }
}

/// Returns the last lines of a session.
pub(crate) async fn history(call: &Call<'_>, of: HistoryOf) -> Result<ChatHistory, RuntimeError> {
    let session =
        of.session.map_or_else(|| Ok(call.daemon()?.pipeline.owner_session()), Ok::<_, RuntimeError>)?;
    lines(call, session, rows(of.limit)?).await
}

pub(crate) async fn lines(
    call: &Call<'_>,
    session: SessionLabel,
    limit: usize,
) -> Result<ChatHistory, RuntimeError> {
    let agents = call.store.agents();
    let is_own =
        call.running.is_some_and(|operations| operations.daemon().pipeline.owner_session() == session);
    if !is_own && agents.session(&session).await?.is_none() {
        return Err(missing("session", session.to_string()));
    }
    let lines = agents.chat_history(&session, limit).await?;
    let redactor = &call.options.redactor;
    Ok(ChatHistory { session, lines: lines.into_iter().map(|line| history_line(redactor, line)).collect() })
}

/// Waits until nothing of the request's tree is queued, running or undelivered.
pub(crate) async fn wait(call: &Call<'_>, wait: WaitFor) -> Result<ChatWaited, RuntimeError> {
    let timeout = wait.timeout_ms.map_or(DEFAULT_WAIT, Duration::from_millis);
    if timeout > MAX_WAIT {
        return Err(invalid(format!("timeoutMs must be at most {}", MAX_WAIT.as_millis())));
    }
    let request = RequestId::new(wait.request);
    tokio::select! {
        waited = quiescence(call, &request, timeout) => waited,
        () = call.daemon()?.lifecycle.stopping().cancelled() => {
            Err(RuntimeError::NotServing { state: "stopping" })
        }
    }
}

async fn quiescence(
    call: &Call<'_>,
    request: &RequestId,
    timeout: Duration,
) -> Result<ChatWaited, RuntimeError> {
    let daemon = call.daemon()?;
    let started = Instant::now();
    if tokio::time::timeout(timeout, daemon.pipeline.settled(request)).await.is_err() {
        return Ok(ChatWaited { request_id: request.clone(), quiescent: false, replies: Vec::new() });
    }
    let rest = timeout.saturating_sub(started.elapsed());
    let quiescent = match daemon.broker.wait_quiescent(request, rest).await? {
        Quiescence::Reached => true,
        Quiescence::TimedOut => false,
        // Never admitted: denied or skipped requests have nothing to wait for.
        Quiescence::Unknown => {
            let trace = call.store.runtime();
            // What is known of it may still be on its way into the file.
            trace.flush().await?;
            if trace.request(request.clone()).await?.is_none() {
                return Err(missing("request", request.to_string()));
            }
            true
        }
    };
    let replies = call.store.agents().replies_of(request).await?;
    let redactor = &call.options.redactor;
    let replies = replies.into_iter().map(|line| reply_line(redactor, line)).collect();
    Ok(ChatWaited { request_id: request.clone(), quiescent, replies })
}

/// Ends a session's running turn.
pub(crate) async fn abort(call: &Call<'_>, abort: ChatAbort) -> Result<ChatAborted, RuntimeError> {
    let daemon = call.daemon()?;
    let session = match abort.session {
        Some(label) => check_label(&label)?,
        None => daemon.pipeline.owner_session(),
    };
    daemon.automations.commanded(HookPoint::CommandStop, &session);
    let mut aborted = daemon.broker.abort(&session);
    if abort.workers {
        aborted |= daemon.broker.cancel_workers(&session, "the person stopped it").await? > 0;
    }
    Ok(ChatAborted { aborted })
}

fn history_line(redactor: &Redactor, line: HistoryLine) -> ChatLine {
    ChatLine {
        message_id: line.message_id,
        turn_id: line.turn_id.unwrap_or_else(|| TurnId::new("")),
        request_id: line.request_id,
        speaker: line.state.map_or(Speaker::User, speaker),
        text: redactor.redact_cut(&line.text),
        at: line.at,
    }
}

fn reply_line(redactor: &Redactor, line: OutboxRecord) -> ChatLine {
    ChatLine {
        message_id: line.message_id,
        turn_id: line.turn_id.unwrap_or_else(|| TurnId::new("")),
        request_id: line.request_id,
        speaker: speaker(line.state),
        text: redactor.redact_cut(&line.text),
        at: line.created_at,
    }
}

const fn speaker(state: OutboxState) -> Speaker {
    match state {
        OutboxState::Final | OutboxState::Aborted => Speaker::Assistant,
        OutboxState::Error => Speaker::System,
    }
}
