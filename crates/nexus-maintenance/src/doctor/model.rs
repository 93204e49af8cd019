//! Which model would answer, as far as that can be said without asking anybody.

use nexus_store::{OpenMode, Store};
use nexus_workspace::config::Loaded;
use nexus_workspace::trust::Trust;

use super::{Check, Condition, DoctorRequest};
use nexus_models as models;

pub(super) async fn look(
    request: &DoctorRequest<'_>,
    loaded: Option<&Loaded>,
    trust: Trust,
) -> Option<Check> {
    let settings = &loaded?.settings;
    let kept = match Store::open(&request.layout.data(), OpenMode::ReadOnly) {
        Ok(store) => store.runtime().kv_get(models::CONSENTS).await.ok().flatten(),
        // What is wrong with the databases is said elsewhere.
        Err(_) => None,
    };
    let choice = models::look(request.layout, settings, trust, kept.as_deref());
    let message = format!("{}: {}", choice.name, choice.reason);
    if let Some(problem) = choice.problems.first() {
        return Some(Check::new("model", Condition::Warning, problem).hint("see docs/models.md"));
    }
    Some(match choice.question {
        Some(question) => Check::fine("model", message).hint(format!(
            "{} needs your consent: `nexus models allow {}`",
            question.model, question.provider
        )),
        None => Check::fine("model", message),
    })
}
