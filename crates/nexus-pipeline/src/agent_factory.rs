//! Puts agents together: the model in use, each role's tools, and the frame of each message.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::sessions::{AgentRequest, AssignRequest, Assigned, Engine, Framer};
use async_trait::async_trait;
use nexus_agent::ports::{Hooks, Spending};
use nexus_agent::{Agent, AgentParts, Assignment, Limits, Prompts};
use nexus_base::clock::{Timestamp, Zone};
use nexus_base::error::chain;
use nexus_identity::Permissions;
use nexus_memory::Memory;
use nexus_process::{FileRecord, GroupRecord};
use nexus_project::catalog::ModelTier;
use nexus_protocol::framing::{Frame, Kind, key};
use nexus_store::agents::{ItemKind, SessionRecord};
use nexus_tools::ports::Approve;
use nexus_tools::{BackgroundPrograms, FileAccess, FileTools, Shell, ShellSetup};
use nexus_tools::{Role, Toolbox};
use nexus_workspace::config::Settings;
use nexus_workspace::persona::Persona;
use nexus_workspace::skills::OfferedSkills;
use nexus_workspace::trust::TrustFolder;
use nexus_workspace::{Layout, persona};

use crate::consent::OwnerConsent;
use crate::hooks::{Automations, OwnWork};
use crate::live_settings::LiveSettings;
use crate::memory_service;
use crate::projects::Projects;
use crate::reminder::{CREDENTIAL_NOTE, CredentialReminder};
use crate::spending::Costs;
use crate::tool_assembly::{ToolAssembly, bash_network};
use crate::tool_sockets::ToolSockets;
use crate::turn_model;
use nexus_models::Models;

/// Folder under `state/` that commands of workers see as their home: caches, git's name, nothing else.
const TOOL_HOME: &str = "tool-home";

/// Everything agents are made of.
#[derive(Debug)]
pub struct AgentFactory {
    pub(crate) layout: Layout,
    pub live: Arc<LiveSettings>,
    pub models: Models,
    pub memory: Memory,
    sockets: ToolSockets,
    processes: Arc<FileRecord>,
    background: Arc<BackgroundPrograms>,
    owner_home: PathBuf,
    skills: OfferedSkills,
    tool_assembly: ToolAssembly,
    pub(crate) costs: Costs,
    prompts: Arc<Prompts>,
    pub consent: OwnerConsent,
    automations: Arc<Automations>,
    pub projects: Arc<Projects>,
    pub reminder: Arc<CredentialReminder>,
}

/// What a factory is made with.
#[derive(Debug)]
pub struct AgentFactoryParts {
    pub live: Arc<LiveSettings>,
    pub automations: Arc<Automations>,
    pub models: Models,
    pub costs: Costs,
    pub memory: Memory,
    pub sockets: ToolSockets,
    pub processes: Arc<FileRecord>,
    pub consent: OwnerConsent,
    pub owner_home: PathBuf,
    pub trust_folder: TrustFolder,
    pub tool_assembly: ToolAssembly,
    pub reminder: Arc<CredentialReminder>,
}

impl AgentFactory {
    pub fn new(parts: AgentFactoryParts) -> Self {
        let AgentFactoryParts { live, automations, models, costs, memory, .. } = parts;
        let AgentFactoryParts {
            sockets,
            processes,
            consent,
            owner_home,
            trust_folder,
            tool_assembly,
            reminder,
            ..
        } = parts;
        let layout = live.layout.clone();
        Self {
            skills: OfferedSkills::new(layout.clone(), trust_folder),
            tool_assembly,
            costs,
            prompts: Arc::default(),
            consent,
            automations,
            projects: Arc::new(Projects::new(layout.clone(), owner_home.clone(), memory.clone())),
            layout,
            live,
            models,
            memory,
            sockets,
            processes,
            background: Arc::default(),
            owner_home,
            reminder,
        }
    }

    /// Returns the settings in force.
    pub fn settings(&self) -> Arc<Settings> {
        self.live.settings()
    }

    /// Returns the active persona's slug; empty before onboarding.
    pub fn persona_name(&self) -> String {
        self.live.persona_name()
    }

    /// Returns the settings as a session sees them: one that a policy gave a persona speaks as that one.
    fn settings_of(&self, request: &AgentRequest<'_>) -> Arc<Settings> {
        match &request.settings.persona {
            Some(persona) => {
                let mut settings = Settings::clone(&self.settings());
                settings.agent.id = Some(persona.clone());
                Arc::new(settings)
            }
            None => self.settings(),
        }
    }

    /// Returns the model the settings name for roles of a tier.
    fn model_of(&self, tier: ModelTier) -> Option<String> {
        let tiers = &self.settings().models.tiers;
        match tier {
            ModelTier::High => tiers.high.clone(),
            ModelTier::Standard => tiers.standard.clone(),
        }
    }

    fn limits(&self) -> Limits {
        let budgets = &self.settings().budgets;
        Limits {
            steps: budgets.model_steps_per_turn,
            tokens: budgets.tokens_per_turn,
            identical_calls: budgets.identical_calls,
            run_tokens: budgets.tokens_per_run,
            day_tokens: budgets.tokens_per_day,
            day_micro_usd: micro_usd(budgets.usd_per_day),
            ..Limits::default()
        }
    }
}

#[async_trait]
impl Engine for AgentFactory {
    fn speaker(&self) -> String {
        self.live.persona().map(|persona| persona.name).unwrap_or_default()
    }

    fn agent(&self, request: &AgentRequest<'_>) -> Result<Agent, String> {
        tracing::trace!("its agent is put together");
        if let Some(own) = OwnWork::of(&request.session.label, &self.layout) {
            return self.automation(&own, request);
        }
        let permissions = Permissions::of(&request.item.new.permissions);
        let bound = request.settings;
        let project = self.projects.of(bound)?;
        let folder = project.as_ref().map(|project| self.projects.task_folder(project));
        let files = self.file_tools(request, folder.as_deref().unwrap_or_else(|| self.layout.home()))?;
        let mut toolbox =
            self.tool_assembly.build(request.role, files, &self.settings(), &permissions, |files| {
                Toolbox::new(request.role, files, self.memory.seen_by(memory_service::viewer(request)))
            })?;
        if let Some(project) = &project {
            toolbox = toolbox.project(self.projects.tool(request.role, project, bound)?);
        }
        toolbox = toolbox.without(&self.projects.removed_tools(bound)).permitted(&permissions);
        Ok(Agent::new(AgentParts {
            layout: self.layout.clone(),
            settings: self.settings_of(request),
            model: self.models.of_turn(&turn_model::of(request))?,
            toolbox,
            limits: self.limits(),
            window: self.costs.window(
                &self.models.table(),
                &self.models.name_of(&turn_model::of(request)),
                &self.settings(),
            ),
            assignment: Assignment { task: request.session.task.clone(), role: self.projects.role(bound) },
            prompts: Arc::clone(&self.prompts),
        }))
    }

    fn spending(&self, request: &AgentRequest<'_>) -> Arc<dyn Spending> {
        self.costs.of(self.models.table(), &self.models.name_of(&turn_model::of(request)), request)
    }

    fn hooks(&self, request: &AgentRequest<'_>) -> Arc<dyn Hooks> {
        if let Some(own) = OwnWork::of(&request.session.label, &self.layout) {
            return Arc::new(own);
        }
        // The project's rules first: what they refuse is no automation's business.
        let mut around: Vec<Arc<dyn Hooks>> = self.projects.around(request).into_iter().collect();
        around.push(Arc::new(self.automations.around(request)));
        Arc::new(around)
    }

    async fn assign(&self, request: &AssignRequest<'_>) -> Result<Assigned, String> {
        if let Some(model) = request.model {
            self.models.named(model)?;
        }
        let mut assigned = self.projects.assign(request).await?;
        if request.model.is_none() {
            let wanted = self.projects.tier(&assigned.settings).and_then(|tier| self.model_of(tier));
            if wanted.is_some() {
                assigned.settings.tier_model = wanted;
            } else if let Some(model) = turn_model::named_in(request.settings) {
                assigned.settings.model = Some(model);
            }
        }
        Ok(assigned)
    }

    fn approver(&self, request: &AgentRequest<'_>) -> Arc<dyn Approve> {
        let patience = self.settings().tools.approval_timeout;
        Arc::new(self.consent.in_run(&request.item.new.root_request_id, patience))
    }

    fn framer(&self, worker: Option<&SessionRecord>) -> Framer {
        // What nobody accepted is not offered: an assistant follows what it is told of.
        let skills = self.skills.names().unwrap_or_else(|error| {
            tracing::warn!(%error, "skills not listed");
            Vec::new()
        });
        let persona = self.live.persona();
        let zone = persona.as_ref().map_or_else(Zone::system, Persona::zone);
        let model = match worker {
            Some(session) => self.models.name_of(&turn_model::of_worker(session)),
            None => self.models.name(),
        };
        let reminder = (persona.is_some() && self.reminder.is_due()).then(|| Arc::clone(&self.reminder));
        let (model, skills) = (model.to_string(), skills.join(", "));
        Box::new(move |item| {
            let now = Timestamp::now();
            let mut frame = Frame::new(kind_of(item.new.kind))
                .with(key::TIME, &zone.rfc3339(now))
                .with(key::ZONE, &zone.name(now));
            let facts = &item.new.facts;
            for (name, value) in facts.read().unwrap_or_default() {
                frame = frame.with(name, value);
            }
            if facts.read().is_err() {
                frame = frame.with(key::UNTRUSTED, facts.untrusted().unwrap_or_default());
            }
            // The message may have named another one.
            if facts.get(key::MODEL).is_none() {
                frame = frame.with(key::MODEL, &model);
            }
            if !skills.is_empty() {
                frame = frame.with(key::SKILLS, &skills);
            }
            if item.new.kind == ItemKind::Message
                && facts.get(key::SENDER) == Some("owner")
                && reminder.as_ref().is_some_and(|reminder| reminder.take())
            {
                frame = frame.with(key::NOTE, CREDENTIAL_NOTE);
            }
            frame.render()
        })
    }
}

const fn kind_of(kind: ItemKind) -> Kind {
    match kind {
        ItemKind::Message => Kind::Message,
        ItemKind::Task => Kind::Task,
        ItemKind::WorkerResult => Kind::WorkerResult,
        ItemKind::AgentMessage => Kind::AgentMessage,
        ItemKind::System => Kind::System,
    }
}

impl AgentFactory {
    /// Returns an automation's own agent.
    fn automation(&self, own: &OwnWork, request: &AgentRequest<'_>) -> Result<Agent, String> {
        Ok(Agent::new(AgentParts {
            layout: self.layout.clone(),
            settings: self.settings(),
            model: self.models.current(),
            toolbox: self
                .tool_assembly
                .hide(own.toolbox(&self.layout, self.memory.clone(), request.item)?)
                .permitted(&Permissions::of(&request.item.new.permissions)),
            limits: self.limits(),
            window: self.costs.window(&self.models.table(), &self.models.name(), &self.settings()),
            assignment: own.assignment(),
            prompts: Arc::clone(&self.prompts),
        }))
    }

    fn file_tools(&self, request: &AgentRequest<'_>, folder: &Path) -> Result<FileTools, String> {
        match request.role {
            Role::Manager => {
                // Before it can write a second one.
                persona::record_active(&self.layout, &self.settings()).map_err(|error| chain(&error))?;
                let access = FileAccess::manager_at(&self.layout).map_err(|error| chain(&error))?;
                Ok(FileTools::manager(access))
            }
            Role::Worker => {
                let rights = persona::identity_rights(&self.layout, &self.settings())
                    .map_err(|error| chain(&error))?;
                let access =
                    FileAccess::worker_at(&self.layout, folder, &rights).map_err(|error| chain(&error))?;
                // What a worker leaves running belongs to whoever sent it, which is there when the worker is gone.
                let session = request.session;
                let owner = session.parent.as_ref().unwrap_or(&session.label).to_string();
                let shell = self.shell(request, rights.writable, folder)?;
                let shell = shell.background_programs(Arc::clone(&self.background), owner);
                Ok(FileTools::worker(access, Some(shell)))
            }
        }
    }

    fn shell(
        &self,
        request: &AgentRequest<'_>,
        identity: Vec<PathBuf>,
        folder: &Path,
    ) -> Result<Shell, String> {
        let setup = ShellSetup {
            root: self.layout.root().to_owned(),
            task_folder: folder.to_owned(),
            owner_home: self.owner_home.clone(),
            private_home: self.layout.state().join(TOOL_HOME),
            identity,
            network: bash_network(&self.settings()),
        };
        let shell = Shell::at(&self.layout, &setup).map_err(|error| chain(&error))?;
        Ok(shell
            .tool_socket(self.sockets.opener(request))
            .record(Arc::clone(&self.processes) as Arc<dyn GroupRecord>))
    }
}

/// Turns dollars into millionths of one; settings keep them between nothing and a million.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a bounded, positive amount")]
fn micro_usd(dollars: f64) -> u64 {
    (dollars.max(0.0) * 1_000_000.0).round() as u64
}
