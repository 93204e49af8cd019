//! The hook points on the way in: after each of the first three stages, and the automation stage itself.

use nexus_automation::{EventFacts, HookPoint, Merged, Occasion, PrincipalFacts};
use nexus_base::id::{RequestId, SessionLabel};
use nexus_identity::Principal;
use nexus_store::events::Event;
use serde_json::{Value, json};

use super::Automations;
use crate::stages::Message;

/// Most words of an event that automations are told.
const SHOWN: usize = 64 * 1024;

impl Automations {
    /// Runs what waits after a stage.
    pub(crate) async fn stage(
        &self,
        hook: HookPoint,
        message: &Message,
        principal: Option<&Principal>,
        data: Value,
    ) -> Merged {
        tracing::trace!("automations are asked");
        self.fire(hook, || {
            let body = &message.event.body;
            let content = &body.content[..body.content.floor_char_boundary(SHOWN)];
            Occasion {
                request_id: Some(message.request.clone()),
                event_id: Some(message.event.id.clone()),
                session: Some(message.options.session.clone()),
                principal: principal.map(facts),
                event: Some(EventFacts {
                    platform: body.platform.clone(),
                    kind: body.kind.clone(),
                    direction: body.direction.as_str().to_owned(),
                    content: content.to_owned(),
                }),
                data,
            }
        })
        .await
    }

    /// Tells of an event that no agent will see: its end, and what was said in it.
    pub(crate) fn unseen(&self, event: &Event, request: &RequestId, session: &SessionLabel) {
        let occasion = || Occasion {
            request_id: Some(request.clone()),
            event_id: Some(event.id.clone()),
            session: Some(session.clone()),
            principal: Some(PrincipalFacts { kind: "owner".to_owned(), ..PrincipalFacts::default() }),
            event: None,
            data: json!({
                "kind": event.body.kind,
                "words": event.body.content,
                "voice": "owner",
                "at": event.body.timestamp.as_millis(),
            }),
        };
        self.detached(HookPoint::Finalize, occasion);
        if self.runner.is_active("memory-writer") {
            let (runner, occasion) = (self.runner.clone(), occasion());
            self.runner.spawn(async move { drop(runner.run_now("memory-writer", occasion).await) });
        }
    }

    /// Tells of something a person commanded.
    pub fn commanded(&self, hook: HookPoint, session: &SessionLabel) {
        self.detached(hook, || Occasion {
            session: Some(session.clone()),
            principal: Some(PrincipalFacts { kind: "owner".to_owned(), ..PrincipalFacts::default() }),
            data: json!({"command": hook.as_str()}),
            ..Occasion::default()
        });
    }
}

fn facts(principal: &Principal) -> PrincipalFacts {
    let (name, relationship) = match principal {
        Principal::Owner { name, .. } | Principal::System { name } | Principal::Webhook { name } => {
            (Some(name.clone()), None)
        }
        Principal::Known { name, tags, .. } => (Some(name.clone()), tags.first().cloned()),
        Principal::Unknown | Principal::Agent { .. } => (None, None),
    };
    PrincipalFacts {
        kind: principal.kind().to_owned(),
        name,
        relationship,
        entity_id: principal.entity_id().map(ToString::to_string),
    }
}
