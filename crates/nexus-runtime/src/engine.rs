//! Puts agents together: the model in use, each role's tools, and the frame of each message.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use nexus_agent::tools::{FileAccess, FileTools, Shell, ShellSetup};
use nexus_agent::{Agent, AgentParts, Limits, Role, Toolbox};
use nexus_base::clock::{Timestamp, local_zone_name};
use nexus_llm::Model;
use nexus_memory::Memory;
use nexus_process::{FileRecord, GroupRecord, Network};
use nexus_protocol::framing::{Frame, Kind, key};
use nexus_session::{AgentRequest, Engine, Framer};
use nexus_store::agents::ItemKind;
use nexus_workspace::config::Settings;
use nexus_workspace::persona::Persona;
use nexus_workspace::skills::OfferedSkills;
use nexus_workspace::trust::TrustFolder;
use nexus_workspace::{Layout, persona};

use crate::run_socket::RunCommands;

/// Said once when an onboarded workspace has no credentials.
const CREDENTIAL_NOTE: &str =
    "no credentials are known yet; offering `nexus credential scan` through a worker may help";

/// Folder under `state/` that commands of workers see as their home: caches, git's name, nothing else.
const TOOL_HOME: &str = "tool-home";

/// Everything agents are made of.
#[derive(Debug)]
pub(crate) struct Workshop {
    pub(crate) layout: Layout,
    pub(crate) settings: ArcSwap<Settings>,
    pub(crate) model: Arc<dyn Model>,
    pub(crate) memory: Memory,
    pub(crate) commands: Arc<RunCommands>,
    processes: Arc<FileRecord>,
    owner_home: PathBuf,
    skills: OfferedSkills,
    zone: String,
    /// A note for the next message of a person, taken by the first one.
    note: Arc<Mutex<Option<String>>>,
}

impl Workshop {
    pub(crate) fn new(
        layout: Layout,
        settings: Settings,
        model: Arc<dyn Model>,
        memory: Memory,
        commands: Arc<RunCommands>,
        processes: Arc<FileRecord>,
        (owner_home, trust): (PathBuf, TrustFolder),
    ) -> Self {
        Self {
            skills: OfferedSkills::new(layout.clone(), trust),
            layout,
            settings: ArcSwap::from_pointee(settings),
            model,
            memory,
            commands,
            processes,
            owner_home,
            zone: local_zone_name(),
            note: Arc::default(),
        }
    }

    /// Returns the settings in force.
    pub(crate) fn settings(&self) -> Arc<Settings> {
        self.settings.load_full()
    }

    /// Returns the active persona's slug; empty before onboarding.
    pub(crate) fn persona_name(&self) -> String {
        self.persona().map(|persona| persona.slug.as_str().to_owned()).unwrap_or_default()
    }

    /// Tells whether a folder of that name holds a persona.
    pub(crate) fn has_persona(&self, name: &str) -> bool {
        let is_folder_name = persona::Slug::from_name(name).is_some_and(|slug| slug.as_str() == name);
        let found = is_folder_name && self.layout.agents().join(name).join("IDENTITY.md").is_file();
        if !found {
            tracing::warn!(
                persona = name,
                "a policy names a persona that does not exist; the usual one answers"
            );
        }
        found
    }

    fn persona(&self) -> Option<Persona> {
        persona::active_persona(&self.layout, &self.settings()).unwrap_or_else(|error| {
            tracing::warn!(%error, "the persona could not be read");
            None
        })
    }

    /// Leaves the one-time reminder about credentials for the next message.
    pub(crate) fn remind_of_credentials(&self) {
        *self.note.lock().unwrap_or_else(PoisonError::into_inner) = Some(CREDENTIAL_NOTE.to_owned());
    }

    fn limits(&self) -> Limits {
        let budgets = &self.settings().budgets;
        Limits {
            steps: budgets.model_steps_per_turn,
            tokens: budgets.tokens_per_turn,
            identical_calls: budgets.identical_calls,
            ..Limits::default()
        }
    }
}

impl Engine for Workshop {
    fn speaker(&self) -> String {
        self.persona().map(|persona| persona.name).unwrap_or_default()
    }

    fn agent(&self, request: &AgentRequest<'_>) -> Result<Agent, String> {
        let files = self.file_tools(request.role)?;
        Ok(Agent::new(AgentParts {
            layout: self.layout.clone(),
            settings: self.settings(),
            model: Arc::clone(&self.model),
            toolbox: Toolbox::new(request.role, Arc::new(files), self.memory.clone()),
            limits: self.limits(),
        }))
    }

    fn framer(&self) -> Framer {
        // What nobody accepted is not offered: an assistant follows what it is told of.
        let skills = self.skills.names().unwrap_or_else(|error| {
            tracing::warn!(%error, "the skills could not be listed");
            Vec::new()
        });
        let (zone, model) = (self.zone.clone(), self.model.name().to_string());
        let (skills, note) = (skills.join(", "), Arc::clone(&self.note));
        Box::new(move |item| {
            let mut frame = Frame::new(kind_of(item.new.kind))
                .with(key::TIME, &Timestamp::now().to_local_rfc3339())
                .with(key::ZONE, &zone);
            // Written by us at admission; a row that does not parse only loses its facts.
            let facts: Vec<(String, String)> = serde_json::from_str(&item.new.frame_json).unwrap_or_default();
            for (name, value) in &facts {
                frame = frame.with(name, value);
            }
            frame = frame.with(key::MODEL, &model);
            if !skills.is_empty() {
                frame = frame.with(key::SKILLS, &skills);
            }
            if item.new.kind == ItemKind::Message
                && let Some(note) = note.lock().unwrap_or_else(PoisonError::into_inner).take()
            {
                frame = frame.with(key::NOTE, &note);
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

impl Workshop {
    fn file_tools(&self, role: Role) -> Result<FileTools, String> {
        match role {
            Role::Manager => {
                let access = FileAccess::manager_at(&self.layout).map_err(|error| explain(&error))?;
                Ok(FileTools::manager(access))
            }
            Role::Worker => {
                // Identity files are written by onboarding's worker only.
                let onboarding = persona::needs_bootstrap(&self.layout).map_err(|error| explain(&error))?;
                let access = FileAccess::worker_at(&self.layout, self.layout.home(), onboarding)
                    .map_err(|error| explain(&error))?;
                Ok(FileTools::worker(access, Some(self.shell(onboarding)?)))
            }
        }
    }

    fn shell(&self, onboarding: bool) -> Result<Shell, String> {
        let setup = ShellSetup {
            root: self.layout.root().to_owned(),
            task_folder: self.layout.home().to_owned(),
            owner_home: self.owner_home.clone(),
            private_home: self.layout.state().join(TOOL_HOME),
            onboarding,
            network: Network::Off,
        };
        let shell = Shell::at(&self.layout, &setup).map_err(|error| explain(&error))?;
        Ok(shell
            .run_socket(self.commands.opener())
            .record(Arc::clone(&self.processes) as Arc<dyn GroupRecord>))
    }
}

/// Renders an error with its causes on one line.
pub(crate) fn explain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text.push_str(": ");
        text.push_str(&next.to_string());
        cause = next.source();
    }
    text
}
