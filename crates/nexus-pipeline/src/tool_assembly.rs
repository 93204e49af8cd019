//! What agents' tools are made of besides files: the web, a search key, kept results, the way back.

use std::sync::Arc;

use nexus_base::redact::Redactor;
use nexus_credentials::{AccessRules, CredentialFolder, Resolver, ServiceName};
use nexus_identity::Permissions;
use nexus_net::{BaseUrl, Net};
use nexus_process::Network;
use nexus_store::agents::Agents;
use nexus_tools::changes::Changes;
use nexus_tools::marks::FileMarks;
use nexus_tools::web::{Search, SearchKey, Web};
use nexus_tools::{Artifacts, FileTools};
use nexus_tools::{Role, Toolbox};
use nexus_workspace::Layout;
use nexus_workspace::config::{BashNetwork, Settings};
use secrecy::ExposeSecret;

use crate::file_taint::KeptMarks;
use nexus_base::error::chain;
use nexus_workspace::StartOptions;

/// Service whose key opens `web_search`, and the provider whose address may be set.
const SEARCH_SERVICE: &str = "brave-search";
const SEARCH_PROVIDER: &str = "brave";

/// What tools are made of.
#[derive(Debug)]
pub struct ToolAssembly {
    layout: Layout,
    redactor: Arc<Redactor>,
    net: Net,
    resolver: Arc<Resolver>,
    marks: Arc<KeptMarks>,
}

impl ToolAssembly {
    pub fn new(options: &StartOptions, redactor: Arc<Redactor>, agents: Agents) -> Self {
        let resolver = nexus_models::credentials::of_daemon(options);
        let layout = options.layout.clone();
        let marks = Arc::new(KeptMarks::new(agents, layout.root()));
        Self { layout, redactor, net: Net::new(), resolver: Arc::new(resolver), marks }
    }

    /// Puts a role's tools together.
    pub(crate) fn build(
        &self,
        role: Role,
        files: FileTools,
        settings: &Settings,
        permissions: &Permissions,
        toolbox: impl FnOnce(Arc<FileTools>) -> Toolbox,
    ) -> Result<Toolbox, String> {
        tracing::trace!("its tools are put together");
        let artifacts = Arc::new(Artifacts::at(&self.layout).map_err(|error| chain(&error))?);
        let changes = Changes::at(&self.layout).map_err(|error| chain(&error))?;
        let marks = Arc::clone(&self.marks) as Arc<dyn FileMarks>;
        let files = files.changes(changes).artifacts(Arc::clone(&artifacts)).marks(marks);
        let toolbox = toolbox(Arc::new(files)).redactor(Arc::clone(&self.redactor)).artifacts(artifacts);
        Ok(match role {
            // A manager talks; looking things up is a worker's task.
            Role::Manager => toolbox,
            Role::Worker => toolbox.web(self.web(settings, permissions)),
        })
    }

    /// Hides every known secret in what other tools give back.
    pub(crate) fn hide(&self, toolbox: Toolbox) -> Toolbox {
        toolbox.redactor(Arc::clone(&self.redactor))
    }

    fn web(&self, settings: &Settings, permissions: &Permissions) -> Web {
        let allowed = settings.tools.web.allow.iter().filter_map(|address| match BaseUrl::parse(address) {
            Ok(base) => Some(base),
            Err(error) => {
                tracing::warn!(address, %error, "entry of tools.web.allow not usable");
                None
            }
        });
        let web = Web::new(self.net.clone(), allowed.collect());
        match self.search(settings, permissions) {
            Some(search) => web.search(search),
            None => web,
        }
    }

    /// Returns the search service if there is a credential for it that may be used here.
    fn search(&self, settings: &Settings, permissions: &Permissions) -> Option<Search> {
        let service = ServiceName::new(SEARCH_SERVICE).ok()?;
        let folder = CredentialFolder::new(self.layout.credentials());
        let rules = AccessRules {
            level: settings.runtime.credentials.level,
            blocked: settings.runtime.credentials.blocked.clone(),
            allowed: settings.runtime.credentials.allowed.clone(),
        };
        let mut candidates = folder.choose(&service, None, &rules).ok()?;
        candidates.retain(|one| {
            permissions.may_use_credential(&format!("{}/{}", one.reference.service, one.reference.account))
        });
        if candidates.is_empty() {
            return None;
        }
        let address =
            settings.providers.get(SEARCH_PROVIDER).and_then(|provider| provider.base_url.as_deref());
        let base = BaseUrl::parse(address.unwrap_or(Search::BASE)).ok()?;
        let (resolver, redactor) = (Arc::clone(&self.resolver), Arc::clone(&self.redactor));
        let key: SearchKey = Arc::new(move || {
            let (resolver, redactor, candidates) =
                (Arc::clone(&resolver), Arc::clone(&redactor), candidates.clone());
            Box::pin(async move {
                let mut problem = "no usable credential for the search service".to_owned();
                for candidate in &candidates {
                    match resolver
                        .resolve(&candidate.reference.to_string(), &candidate.credential.storage)
                        .await
                    {
                        Ok(secret) => {
                            redactor.register(secret.expose_secret());
                            return Ok(secret);
                        }
                        Err(error) => problem = format!("{}: {error}", candidate.reference),
                    }
                }
                Err(problem)
            })
        });
        Some(Search::new(base, key))
    }
}

/// Returns whether the owner's policy opens the network to commands unasked.
pub(crate) const fn bash_network(settings: &Settings) -> Network {
    match settings.tools.bash.network {
        BashNetwork::Ask => Network::Off,
        BashNetwork::Allow => Network::On,
    }
}
