//! `models.*` of the control plane: what is chosen and why, and the owner's answers.

use nexus_protocol::control::answers::ModelAnswered;
use nexus_protocol::models::{ModelAnswer, ModelsView};
use serde_json::{Value, json};

use crate::{Runtime, RuntimeError};

impl Runtime {
    pub(crate) fn models_view(&self) -> ModelsView {
        self.shared.agent_factory.models.view()
    }

    pub(crate) async fn model_answer(
        &self,
        answer: ModelAnswer,
        agrees: bool,
    ) -> Result<Value, RuntimeError> {
        let models = &self.shared.agent_factory.models;
        let about = models.answer(&answer.provider, answer.account.as_deref(), agrees).await?;
        if about.is_empty() {
            return Err(RuntimeError::NotFound { what: "usable credential", name: answer.provider });
        }
        let answered = json!({ "accounts": about, "allowed": agrees, "model": models.name().to_string() });
        crate::control::shown_as::<ModelAnswered>(&answered)
    }
}
