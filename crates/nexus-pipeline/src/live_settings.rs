//! The settings in force, and the persona they name. Made first: everything else asks here what holds now.

use std::sync::Arc;

use arc_swap::ArcSwap;
use nexus_base::file::FileError;
use nexus_workspace::Layout;
use nexus_workspace::config::Settings;
use nexus_workspace::persona::{self, Persona};
use nexus_workspace::watched::Watched;

/// What the workspace says now.
#[derive(Debug)]
pub struct LiveSettings {
    pub(crate) layout: Layout,
    settings: ArcSwap<Settings>,
    /// What the settings name, and the persona that was found for it.
    persona: Watched<(Option<String>, Option<Persona>)>,
}

impl LiveSettings {
    pub fn new(layout: Layout, settings: Settings) -> Self {
        Self { layout, settings: ArcSwap::from_pointee(settings), persona: Watched::default() }
    }

    /// Returns the settings in force.
    pub fn settings(&self) -> Arc<Settings> {
        self.settings.load_full()
    }

    /// Puts other settings in force.
    pub fn replace(&self, settings: Settings) {
        self.settings.store(Arc::new(settings));
    }

    /// Returns the active persona's slug; empty before onboarding.
    pub fn persona_name(&self) -> String {
        self.persona().map(|persona| persona.slug.as_str().to_owned()).unwrap_or_default()
    }

    /// Tells whether a folder of that name holds a persona.
    pub(crate) fn has_persona(&self, name: &str) -> bool {
        let is_folder_name = persona::Slug::from_name(name).is_some_and(|slug| slug.as_str() == name);
        let found = is_folder_name && self.layout.agents().join(name).join("IDENTITY.md").is_file();
        if !found {
            tracing::warn!(persona = name, "policy names an unknown persona; using the default one");
        }
        found
    }

    pub(crate) fn persona(&self) -> Option<Persona> {
        let settings = self.settings();
        let read = || {
            let persona = persona::active_persona(&self.layout, &settings)?;
            Ok::<_, FileError>(((settings.agent.id.clone(), persona), persona::sources(&self.layout)))
        };
        let mut current = self.persona.get(read);
        if current.as_ref().is_ok_and(|(id, _)| *id != settings.agent.id) {
            self.persona.forget();
            current = self.persona.get(read);
        }
        current.map(|(_, persona)| persona).unwrap_or_else(|error| {
            tracing::warn!(%error, "persona not read");
            None
        })
    }
}
