//! Stage four: what automations make of a message. They may add to it, send it elsewhere, or deal with it themselves.

use nexus_automation::{Handled, HookPoint, Merged};
use nexus_base::failpoint;
use nexus_base::id::{RequestId, SessionLabel};
use nexus_identity::{Principal, Routing};
use nexus_protocol::trace::Stage;
use nexus_store::StoreError;
use nexus_store::events::{Event, InboxOutcome};
use nexus_store::runtime::{RequestStatus, RequestUpdate};
use serde_json::{Value, json};

use super::Pipeline;
use super::authorize::Access;
use super::decide::{Decided, Run, StageClock};
use super::send_options::{SendOptions, check_label};
use crate::hooks::OnTheWay;

impl Pipeline {
    /// `merged` holds what automations said at the hook points before this stage.
    pub(super) async fn automate(
        &self,
        way: OnTheWay<'_>,
        principal: &Principal,
        send_options: &SendOptions,
        access: &Access,
        mut merged: Merged,
    ) -> Result<Decided, StoreError> {
        let clock = StageClock::start();
        let said = self.automations.stage(HookPoint::RunAutomations, way, Some(principal), Value::Null).await;
        merged.extend(said);
        let update = RequestUpdate {
            hooks_matched: Some(json!(merged.matched)),
            hooks_fired: Some(json!(merged.fired)),
            hooks_handled: merged.handled.as_ref().map(|handled| handled.by.clone()),
            hooks_context: (!merged.enrich.is_empty()).then(|| json!(merged.enrich)),
            ..RequestUpdate::default()
        };
        let timing = clock.stop(Stage::RunAutomations);
        self.recorder.stage(way.request, way.request, Stage::RunAutomations, timing, update);

        let Routing { session, delay, .. } = &access.verdict.routing;
        let Merged { enrich, handled, session: wanted, .. } = merged;
        let run = Run {
            permissions: access.permissions.to_json(),
            send_options: rerouted(send_options.routed(&access.verdict.routing), wanted.as_deref()),
            persona: session.as_ref().and_then(|rule| rule.persona.clone()),
            delay: *delay,
            enrichment: enrich,
        };
        match handled {
            Some(handled) => {
                self.close_handled(way.event, way.request, &run, &handled).await?;
                Ok(Decided::Ended)
            }
            None => Ok(Decided::Run(Box::new(run))),
        }
    }

    /// Ends a message that an automation dealt with: with its reply, or with the promise closed.
    async fn close_handled(
        &self,
        event: &Event,
        request: &RequestId,
        run: &Run,
        handled: &Handled,
    ) -> Result<(), StoreError> {
        if let Some(reply) = &handled.reply {
            let (session, item) = self.place(event, request, run);
            return self.broker.answer(session, item, reply).await.map(drop);
        }
        self.store.events().close_inbox(event.id.clone(), InboxOutcome::Handled).await?;
        self.store.runtime().request_finished_later(
            request.clone(),
            RequestStatus::HandledByAutomation,
            RequestUpdate::default(),
        );
        failpoint::hit("s2.handled");
        self.automations.unseen(event, request, &run.send_options.session);
        Ok(())
    }
}

/// Returns the options with the session an automation wants, if a person could have named that, too.
fn rerouted(send_options: SendOptions, wanted: Option<&str>) -> SendOptions {
    match wanted.map(|label| check_label(&SessionLabel::new(label))) {
        Some(Ok(session)) => SendOptions { session, ..send_options },
        Some(Err(error)) => {
            tracing::warn!(%error, "an automation wanted a session that is none");
            send_options
        }
        None => send_options,
    }
}
