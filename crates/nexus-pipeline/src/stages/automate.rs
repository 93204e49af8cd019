//! Stage four: what automations make of a message. They may add to it, send it elsewhere, or deal with it themselves.

use nexus_automation::{Handled, HookPoint, Merged};
use nexus_base::failpoint;
use nexus_base::id::SessionLabel;
use nexus_identity::{Principal, Routing};
use nexus_protocol::trace::Stage;
use nexus_store::StoreError;
use nexus_store::events::InboxOutcome;
use nexus_store::runtime::{RequestStatus, RequestUpdate};
use serde_json::{Value, json};

use super::authorize::Access;
use super::{Decided, Message, Run, StageClock};
use crate::pipeline::Pipeline;
use crate::send_options::{SendOptions, check_label};

/// `said` holds what automations said at the hook points before this stage.
pub(super) async fn automate(
    pipeline: &Pipeline,
    message: &Message,
    principal: &Principal,
    access: &Access,
    mut said: Merged,
) -> Result<Decided, StoreError> {
    tracing::trace!("stage four: automate");
    let clock = StageClock::start();
    let hooks = &pipeline.automations;
    said.extend(hooks.stage(HookPoint::RunAutomations, message, Some(principal), Value::Null).await);
    let update = RequestUpdate {
        hooks_matched: Some(json!(said.matched)),
        hooks_fired: Some(json!(said.fired)),
        hooks_handled: said.handled.as_ref().map(|handled| handled.by.clone()),
        hooks_context: (!said.enrich.is_empty()).then(|| json!(said.enrich)),
        ..RequestUpdate::default()
    };
    let (request, timing) = (&message.request, clock.stop(Stage::RunAutomations));
    pipeline.recorder.stage(request, request, Stage::RunAutomations, timing, update);

    let Routing { session, delay, .. } = &access.verdict.routing;
    let Merged { enrich, handled, session: wanted, .. } = said;
    let run = Run {
        permissions: access.permissions.clone(),
        options: rerouted(message.options.routed(&access.verdict.routing), wanted.as_deref()),
        persona: session.as_ref().and_then(|rule| rule.persona.clone()),
        delay: *delay,
        enrichment: enrich,
    };
    match handled {
        Some(handled) => {
            close_handled(pipeline, message, &run, &handled).await?;
            Ok(Decided::Ended)
        }
        None => Ok(Decided::Run(Box::new(run))),
    }
}

/// Ends a message that an automation dealt with: with its reply, or with the promise closed.
async fn close_handled(
    pipeline: &Pipeline,
    message: &Message,
    run: &Run,
    handled: &Handled,
) -> Result<(), StoreError> {
    if let Some(reply) = &handled.reply {
        let (session, item) = pipeline.place(message, run);
        return pipeline.broker.answer(session, item, reply).await.map(drop);
    }
    let Message { event, request, .. } = message;
    pipeline.store.events().close_inbox(event.id.clone(), InboxOutcome::Handled).await?;
    pipeline.store.runtime().request_finished_later(
        request.clone(),
        RequestStatus::HandledByAutomation,
        RequestUpdate::default(),
    );
    failpoint::hit("s2.handled");
    pipeline.automations.unseen(event, request, &run.options.session);
    Ok(())
}

/// Returns the options with the session an automation wants, if a person could have named that, too.
fn rerouted(options: SendOptions, wanted: Option<&str>) -> SendOptions {
    match wanted.map(|label| check_label(&SessionLabel::new(label))) {
        Some(Ok(session)) => SendOptions { session, ..options },
        Some(Err(error)) => {
            tracing::warn!(%error, "automation returned an invalid session label");
            options
        }
        None => options,
    }
}
