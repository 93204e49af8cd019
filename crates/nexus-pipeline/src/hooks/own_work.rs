//! An automation at work for itself: which tools it has, what it is told to be, and what it is refused.

use std::sync::Arc;

use async_trait::async_trait;
use nexus_agent::ports::{Gate, Hooks};
use nexus_agent::{Assignment, RoleSection};
use nexus_automation::home::{Home, LEARNED, is_name};
use nexus_automation::ports::Purpose;
use nexus_automation::{OWN_SESSIONS, SHIPPED};
use nexus_base::id::{EventId, SessionLabel};
use nexus_memory::Memory;
use nexus_store::agents::Item;
use nexus_tools::ports::{Call, TurnFacts};
use nexus_tools::{FileAccess, FileTools};
use nexus_tools::{Role, Toolbox};
use nexus_workspace::Layout;

use super::own_turn::SOURCE;
use nexus_base::error::chain;

/// One automation in a session of its own.
#[derive(Debug, Clone)]
pub(crate) struct OwnWork {
    purpose: Purpose,
    home: Home,
}

impl OwnWork {
    /// Reads a session's label; nothing when it is no automation's own.
    pub(crate) fn of(label: &SessionLabel, layout: &Layout) -> Option<Self> {
        let (name, purpose) = label.as_str().strip_prefix(OWN_SESSIONS)?.split_once(':')?;
        let purpose = Purpose::parse(purpose.split(':').next()?)?;
        let folder = |name: &str| layout.automation_workspaces().join(name);
        let peer = SHIPPED.iter().find(|shipped| shipped.name == name).and_then(|shipped| shipped.peer);
        is_name(name).then(|| Self {
            purpose,
            home: Home {
                name: name.to_owned(),
                folder: folder(name),
                peers: peer.map(|peer| (peer.to_owned(), folder(peer))).into_iter().collect(),
            },
        })
    }

    const fn tools(&self) -> &'static [&'static str] {
        match self.purpose {
            Purpose::Read => &["recall", "read", "write"],
            Purpose::Write => &["recall", "remember", "read", "write"],
            Purpose::Reflect => &["recall", "read", "write", "edit"],
        }
    }

    /// Returns its tools: memory, its own folder and its peers' to read, notes for its peers to write, and what it has
    /// learnt while it thinks about its work. Never a shell.
    pub(crate) fn toolbox(&self, layout: &Layout, memory: Memory, item: &Item) -> Result<Toolbox, String> {
        let learned: &[&str] = match self.purpose {
            Purpose::Read | Purpose::Write => &[],
            Purpose::Reflect => &LEARNED,
        };
        let notes = self.home.notes_for_peers();
        let written: Vec<&str> =
            learned.iter().copied().chain(notes.iter().map(|(_, file)| file.as_str())).collect();
        let peers: Vec<_> = self.home.peers.iter().map(|(_, folder)| folder.clone()).collect();
        let access = FileAccess::automation_at(layout, &self.home.folder, &written, &peers)
            .map_err(|error| chain(&error))?;
        let files = Arc::new(FileTools::manager(access));
        Ok(Toolbox::new(Role::Worker, files, memory).source(source_of(item)).only(self.tools()))
    }

    /// Returns what stands at the end of its prompt.
    pub(crate) fn assignment(&self) -> Assignment {
        let body = self.home.prompt();
        Assignment { task: None, role: Some(RoleSection { name: self.home.name.clone(), body }) }
    }
}

/// Returns the event that facts of this turn come from.
fn source_of(item: &Item) -> Option<EventId> {
    item.new.facts.get(SOURCE).map(EventId::new)
}

/// Refuses every tool it was not given, whatever a model makes up.
#[async_trait]
impl Hooks for OwnWork {
    async fn before_call(&self, _turn: &TurnFacts, call: &Call) -> Gate {
        if self.tools().contains(&call.tool.as_str()) {
            return Gate::Open;
        }
        Gate::Refused {
            reason: format!("you have no tool {:?}; you have {}", call.tool, self.tools().join(", ")),
        }
    }
}
