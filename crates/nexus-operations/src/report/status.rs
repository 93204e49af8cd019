//! Where a workspace stands, read from its files alone: no daemon, no sync, no writing.

use std::path::PathBuf;

use nexus_base::clock::Timestamp;
use nexus_base::file::FileError;
use nexus_base::lock;
use nexus_credentials::CredentialFolder;
use nexus_store::Store;
use nexus_workspace::Layout;
use nexus_workspace::config::Settings;
use nexus_workspace::persona::{self, Onboarding};
use nexus_workspace::skills::{self, Capability, Entry, Standing};
use nexus_workspace::templates::INTRODUCTION_MD;
use nexus_workspace::trust::{Trust, TrustFolder};
use serde::{Deserialize, Serialize};

/// What a report is about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StatusRequest<'a> {
    /// The workspace.
    pub(crate) layout: &'a Layout,
    pub(crate) settings: &'a Settings,
    /// Whose it is.
    pub(crate) trust: Trust,
    /// Where it is recorded which skills were accepted.
    pub(crate) trust_folder: &'a TrustFolder,
    /// Folders that programs are looked up in.
    pub(crate) programs: &'a [PathBuf],
}

/// Where a workspace stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusReport {
    /// Root folder.
    pub workspace: PathBuf,
    /// State folder.
    pub state_dir: PathBuf,
    /// Version of this program.
    pub version: String,
    /// Whether the workspace is its owner's.
    pub trust: Trust,
    /// Who lives here.
    pub identity: IdentityReport,
    /// Whether onboarding is still to come.
    pub bootstrap: Bootstrap,
    /// Whether all three identity files are there.
    pub onboarded: bool,
    /// What works, by the skills that were accepted.
    pub capabilities: Capabilities,
    /// Skills that were accepted.
    pub skills: Vec<String>,
    /// How many others wait for a look; what is in them is no agent's business before.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub skills_waiting: usize,
    /// Known credentials.
    pub credentials: Credentials,
    /// What waits for the owner's consent; none when that cannot be read.
    pub approvals: Option<Approvals>,
    pub runtime: Daemon,
    /// The model that a daemon started now would use; none where that takes more than reading the settings, and
    /// while one runs, which says it itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What to do next.
    pub suggestions: Vec<String>,
}

/// Who lives in a workspace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IdentityReport {
    /// Persona folder's name.
    pub agent_id: Option<String>,
    /// What the assistant is called.
    pub agent_name: Option<String>,
    /// What the person is called.
    pub user_name: Option<String>,
    /// Where the files are.
    pub paths: IdentityPaths,
}

/// Where the identity files are; only those that exist.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IdentityPaths {
    /// The assistant's IDENTITY.md.
    pub agent_identity: Option<PathBuf>,
    /// The assistant's SOUL.md.
    pub agent_soul: Option<PathBuf>,
    /// The person's IDENTITY.md.
    pub user_identity: Option<PathBuf>,
}

/// Whether onboarding is still to come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bootstrap {
    /// No persona has an identity.
    pub needed: bool,
    /// Identity files that a first conversation left unwritten.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// What a harness does about it, while it is needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
}

/// Known credentials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Credentials {
    /// Accounts.
    pub total: usize,
}

/// What a workspace is able to do, and how much of it works.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Capabilities {
    /// How many work and were used.
    pub active: usize,
    /// How many would work.
    pub ready: usize,
    /// How many need something first.
    pub needs_setup: usize,
    /// All of them.
    pub items: Vec<CapabilityItem>,
}

/// One thing a workspace is able to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CapabilityItem {
    pub name: String,
    pub state: Standing,
    /// Skills that provide it.
    pub providers: Vec<String>,
    /// What its providers lack, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// What waits for the owner's consent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Approvals {
    /// All of it.
    pub waiting: usize,
    /// Messages among it that this restored copy holds back.
    pub held_messages: usize,
}

/// The daemon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Daemon {
    /// Whether somebody holds the workspace's lock.
    pub running: bool,
    /// That process.
    pub pid: Option<u32>,
    /// The port it serves on, or would.
    pub port: u16,
}

/// Reads where a workspace stands.
///
/// # Errors
/// A file that exists cannot be read.
pub(crate) fn status(request: &StatusRequest<'_>) -> Result<StatusReport, FileError> {
    let StatusRequest { layout, settings, trust, .. } = *request;
    let identity = identity(layout, settings)?;
    let stage = persona::onboarding(layout)?;
    let needed = stage.is_needed();
    let credentials = CredentialFolder::new(layout.credentials()).summary()?;
    let holder = lock::inspect(&layout.lock());
    let port = holder.as_ref().and_then(|holder| holder.note.as_ref()?.parse().ok());
    let runtime = Daemon {
        running: holder.is_some(),
        pid: holder.map(|holder| holder.pid),
        port: port.unwrap_or(settings.runtime.port),
    };
    // Whoever reads a status is no embedded manager: those have the text of their own.
    let prompt = needed.then(|| INTRODUCTION_MD.to_owned());
    // Whatever is wrong with the database is the doctor's to say.
    let approvals = Store::open_questions(&layout.data(), Timestamp::now()).ok();
    let approvals = approvals.map(|open| Approvals { waiting: open.all, held_messages: open.held_messages });
    let waiting = approvals.as_ref().map_or(0, |approvals| approvals.waiting);
    let mut suggestions = suggestions(&runtime, &stage, trust, credentials.total);
    if waiting > 0 {
        suggestions.push("`nexus approvals list` shows what is waiting for your consent".to_owned());
    }
    let (capabilities, skills, skills_waiting) = abilities(request)?;
    if skills_waiting > 0 {
        suggestions.push("`nexus skills list` shows skills that wait for your look".to_owned());
    }
    let model = if runtime.running { None } else { model_next(layout, settings, trust) };
    Ok(StatusReport {
        workspace: layout.root().to_owned(),
        state_dir: layout.state().to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        trust,
        identity,
        bootstrap: Bootstrap { needed, missing: stage.missing().to_vec(), prompt },
        onboarded: stage.is_complete(),
        capabilities,
        skills,
        skills_waiting,
        credentials: Credentials { total: credentials.total },
        approvals,
        runtime,
        model,
        suggestions,
    })
}

/// Returns what works, which skills were accepted, and how many were not.
fn abilities(request: &StatusRequest<'_>) -> Result<(Capabilities, Vec<String>, usize), FileError> {
    let installed = skills::names(request.layout)?.len();
    if installed == 0 {
        return Ok((Capabilities::default(), Vec::new(), 0));
    }
    let found = crate::skills::look(request.layout, request.trust_folder, request.programs.to_vec())?;
    let accepted: Vec<Entry> = found.skills.into_iter().filter(|skill| skill.consent.is_given()).collect();
    let items: Vec<CapabilityItem> = skills::capabilities(&accepted)
        .into_iter()
        .map(|capability| {
            let lacking = accepted.iter().filter(|skill| capability.providers.contains(&skill.name));
            let missing = match capability.status {
                Standing::Active | Standing::Ready => Vec::new(),
                Standing::NeedsSetup | Standing::NeedsInstall | Standing::Broken | Standing::Unavailable => {
                    lacking.flat_map(|skill| skill.missing.clone()).collect()
                }
            };
            let Capability { name, status, providers } = capability;
            CapabilityItem { name, state: status, providers, missing }
        })
        .collect();
    let count = |wanted: Standing| items.iter().filter(|item| item.state == wanted).count();
    let (active, ready) = (count(Standing::Active), count(Standing::Ready));
    let needs_setup = items.len() - active - ready;
    let names: Vec<String> = accepted.into_iter().map(|skill| skill.name).collect();
    let waiting = installed.saturating_sub(names.len());
    Ok((Capabilities { active, ready, needs_setup, items }, names, waiting))
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Returns the model that the settings and credentials lead to by themselves. One that waits for a yes, or was
/// given one in an earlier life, is in a database that this does not open.
fn model_next(layout: &Layout, settings: &Settings, trust: Trust) -> Option<String> {
    let choice = nexus_models::look(layout, settings, trust, None);
    (choice.question.is_none() && choice.problems.is_empty()).then(|| choice.name.to_string())
}

/// Reads who lives in a workspace.
///
/// # Errors
/// A file that exists cannot be read.
pub(crate) fn identity(layout: &Layout, settings: &Settings) -> Result<IdentityReport, FileError> {
    let persona = persona::active_persona(layout, settings)?;
    let user = persona::read_user(layout)?;
    let user_name = user.as_ref().and_then(|user| {
        let matter = user.front_matter();
        matter.get("call").or_else(|| matter.get("name")).map(str::to_owned)
    });
    let folder = persona.as_ref().map(|persona| layout.persona(&persona.slug));
    Ok(IdentityReport {
        agent_id: persona.as_ref().map(|persona| persona.slug.as_str().to_owned()),
        agent_name: persona.as_ref().map(|persona| persona.name.clone()),
        user_name,
        paths: IdentityPaths {
            agent_identity: folder.as_ref().map(|folder| folder.join("IDENTITY.md")),
            agent_soul: folder
                .filter(|_| persona.as_ref().is_some_and(|persona| persona.soul.is_some()))
                .map(|folder| folder.join("SOUL.md")),
            user_identity: user.map(|_| layout.user_identity()),
        },
    })
}

fn suggestions(daemon: &Daemon, stage: &Onboarding, trust: Trust, credentials: usize) -> Vec<String> {
    let mut suggestions = Vec::new();
    if !trust.is_trusted() {
        suggestions.push("this workspace was not created here: review it, then run `nexus trust`".to_owned());
    }
    if !stage.missing().is_empty() {
        let missing = stage.missing().join(", ");
        suggestions.push(format!(
            "the introduction is not finished: {missing} is missing; the next message continues it"
        ));
    }
    if stage.is_needed() {
        suggestions.push("`nexus up` starts the first conversation".to_owned());
    } else if !daemon.running {
        suggestions.push("`nexus up` starts the daemon and opens a conversation".to_owned());
    }
    if credentials == 0 {
        suggestions.push("`nexus credential scan` looks for keys in the environment".to_owned());
    }
    suggestions
}
