//! The runtime's own voice: texts that come from no person, such as BOOT.md.

use std::sync::{Arc, OnceLock, Weak};

use async_trait::async_trait;
use nexus_automation::RunError;
use nexus_automation::ports::Speak;

use crate::pipeline::Pipeline;

/// Speaks as the system principal.
#[derive(Debug, Default)]
pub(super) struct SystemVoice(OnceLock<Weak<Pipeline>>);

impl SystemVoice {
    pub(super) fn connect(&self, pipeline: &Arc<Pipeline>) {
        // Composition happens once; a second time would change nothing.
        let _ = self.0.set(Arc::downgrade(pipeline));
    }
}

#[async_trait]
impl Speak for SystemVoice {
    async fn say(&self, key: &str, text: &str) -> Result<(), RunError> {
        let pipeline = self.0.get().and_then(Weak::upgrade);
        let pipeline = pipeline.ok_or_else(|| RunError("the daemon is not ready".to_owned()))?;
        pipeline.accept_system("boot", key, text).await.map(drop).map_err(|error| RunError(error.to_string()))
    }
}
