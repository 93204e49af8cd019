//! Stage two: who a message is from.

use nexus_base::id::RequestId;
use nexus_identity::{Principal, Source};
use nexus_protocol::trace::Stage;
use nexus_store::StoreError;
use nexus_store::runtime::RequestUpdate;

use super::Pipeline;
use super::decide::StageClock;
use super::send_options::SendOptions;
use super::system::part_of;

impl Pipeline {
    pub(super) async fn identify(
        &self,
        request: &RequestId,
        send_options: &SendOptions,
    ) -> Result<Principal, StoreError> {
        let clock = StageClock::start();
        let source = match part_of(send_options) {
            Some(part) => Source::System { name: part.to_owned() },
            None => Source::Owner { entity: self.owner.clone() },
        };
        let principal = self.access.principal(source).await?;
        let update = RequestUpdate {
            principal_id: principal.entity_id().cloned(),
            principal_type: Some(principal.kind().to_owned()),
            principal_is_user: Some(matches!(principal, Principal::Owner { .. })),
            ..RequestUpdate::default()
        };
        let timing = clock.stop(Stage::ResolveIdentity);
        self.recorder.stage(request, request, Stage::ResolveIdentity, timing, update);
        Ok(principal)
    }
}
