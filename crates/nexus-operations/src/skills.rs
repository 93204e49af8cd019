//! Skills together with what they need: credentials, programs, consent. Looked at, never run and never accepted from
//! here.

use std::path::PathBuf;

use nexus_base::file::FileError;
use nexus_credentials::{CredentialFolder, Status};
use nexus_protocol::control::answers::{SkillText, SkillView, Skills};
use nexus_protocol::control::{Named, Nothing};
use nexus_workspace::skills::{self, CredentialState, Entry, Manifest, Surroundings, manifest};
use nexus_workspace::trust::TrustFolder;
use nexus_workspace::{Layout, StartOptions};
use serde_json::json;

use crate::RuntimeError;
use crate::call::{Call, internal, missing, typed};

pub(crate) async fn status(call: &Call<'_>, _: Nothing) -> Result<Skills, RuntimeError> {
    let found = look_again(call.options).await?;
    // Files and hashes are what `skills.info` is for.
    let skills: Vec<Entry> = found
        .skills
        .into_iter()
        .filter(|skill| may_see(call, skill))
        .map(|skill| Entry { inspection: None, ..skill })
        .collect();
    typed(&json!({ "skills": skills, "capabilities": found.capabilities }))
}

pub(crate) async fn info(call: &Call<'_>, named: Named) -> Result<SkillView, RuntimeError> {
    let entry = one(call, named.id).await?;
    let mut view = json!(entry);
    view["permissions"] = json!(entry.permissions());
    typed(&view)
}

/// The instructions of a skill, as far as its owner accepted exactly these.
pub(crate) async fn instructions(call: &Call<'_>, named: Named) -> Result<SkillText, RuntimeError> {
    let Entry { name, .. } = one(call, named.id).await.and_then(accepted)?;
    let text = skills::read(call.layout(), &name).map_err(|error| internal(&error))?;
    let text = text.ok_or_else(|| missing("skill", &name))?;
    // The instructions are worth more than the note about their use.
    if let Err(error) = skills::note_use(call.layout(), &name) {
        tracing::warn!(skill = name, %error, "use of a skill not recorded");
    }
    Ok(SkillText { name, text })
}

async fn one(call: &Call<'_>, name: String) -> Result<Entry, RuntimeError> {
    let entry = look_again(call.options).await?.skills.into_iter().find(|skill| skill.name == name);
    let entry = entry.ok_or_else(|| missing("skill", name))?;
    if may_see(call, &entry) { Ok(entry) } else { accepted(entry) }
}

/// What a skill says of itself is a stranger's word until the owner accepted it, and agents follow what they read.
fn may_see(call: &Call<'_>, skill: &Entry) -> bool {
    call.caller.as_worker().is_none() || skill.consent.is_given()
}

fn accepted(skill: Entry) -> Result<Entry, RuntimeError> {
    if skill.consent.is_given() {
        return Ok(skill);
    }
    let name = &skill.name;
    Err(RuntimeError::Invalid {
        message: format!("skill {name} is not accepted"),
        hint: Some(format!(
            "its owner looks with `nexus skills info {name}` and accepts with `nexus skills verify {name} --accept`"
        )),
    })
}

async fn look_again(options: &StartOptions) -> Result<Manifest, RuntimeError> {
    let path = options.programs();
    let (layout, trust) = (options.layout.clone(), options.trust_folder.clone());
    // Every file of every skill is hashed.
    let looked = tokio::task::spawn_blocking(move || look(&layout, &trust, path)).await;
    looked.map_err(|error| internal(&error))?.map_err(|error| internal(&error))
}

/// Looks at every skill. Nothing of any is run.
///
/// # Errors
/// The skills or the credentials cannot be listed.
pub fn look(layout: &Layout, trust: &TrustFolder, path: Vec<PathBuf>) -> Result<Manifest, FileError> {
    let accounts = CredentialFolder::new(layout.credentials()).list()?;
    let credential = |service: &str| {
        let mut of_service = accounts.iter().filter(|one| one.service.as_str() == service).peekable();
        if of_service.peek().is_none() {
            return CredentialState::Missing;
        }
        let usable =
            of_service.any(|one| matches!(one.status, Status::Ready | Status::Active | Status::Cooldown));
        if usable { CredentialState::Usable } else { CredentialState::Broken }
    };
    manifest(layout, &Surroundings { path, credential: &credential, trust })
}
