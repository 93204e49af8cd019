//! Stage two: who a message is from.

use nexus_identity::{Principal, Source};
use nexus_protocol::trace::Stage;
use nexus_store::StoreError;
use nexus_store::runtime::RequestUpdate;

use super::{Message, StageClock};
use crate::pipeline::Pipeline;

pub(super) async fn identify(pipeline: &Pipeline, message: &Message) -> Result<Principal, StoreError> {
    tracing::trace!("stage two: identify");
    let clock = StageClock::start();
    let source = match message.options.system_part() {
        Some(part) => Source::System { name: part.to_owned() },
        None => Source::Owner { entity: pipeline.owner.clone() },
    };
    let principal = pipeline.access.principal(source).await?;
    let update = RequestUpdate {
        principal_id: principal.entity_id().cloned(),
        principal_type: Some(principal.kind().to_owned()),
        principal_is_user: Some(matches!(principal, Principal::Owner { .. })),
        ..RequestUpdate::default()
    };
    let (request, timing) = (&message.request, clock.stop(Stage::ResolveIdentity));
    pipeline.recorder.stage(request, request, Stage::ResolveIdentity, timing, update);
    Ok(principal)
}
