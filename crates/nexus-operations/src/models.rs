//! Which model is chosen and why, and the owner's answers about credentials that were found.

use nexus_protocol::control::Nothing;
use nexus_protocol::control::answers::ModelAnswered;
use nexus_protocol::models::{ModelAnswer, ModelsView};
use serde_json::json;

use crate::RuntimeError;
use crate::call::{Call, missing, typed};

pub(crate) async fn list(call: &Call<'_>, _: Nothing) -> Result<ModelsView, RuntimeError> {
    Ok(call.daemon()?.agent_factory.models.view())
}

pub(crate) async fn allow(call: &Call<'_>, answer: ModelAnswer) -> Result<ModelAnswered, RuntimeError> {
    settle(call, answer, true).await
}

pub(crate) async fn refuse(call: &Call<'_>, answer: ModelAnswer) -> Result<ModelAnswered, RuntimeError> {
    settle(call, answer, false).await
}

async fn settle(call: &Call<'_>, answer: ModelAnswer, agrees: bool) -> Result<ModelAnswered, RuntimeError> {
    let models = &call.daemon()?.agent_factory.models;
    let about = models.answer(&answer.provider, answer.account.as_deref(), agrees).await?;
    if about.is_empty() {
        return Err(missing("usable credential", answer.provider));
    }
    typed(&json!({ "accounts": about, "allowed": agrees, "model": models.name().to_string() }))
}
