//! The choice itself: a pure look at settings, credentials, answers and servers.

use std::sync::Arc;
use std::time::Duration;

use nexus_credentials::{AccessRules, CredentialFolder, Reference, ServiceName};
use nexus_llm::{
    Endpoint, LOCAL_SERVERS, Link, LocalServer, ModelName, ModelTable, Needs, PROVIDERS, Timeouts, Wire,
    local_base, provider,
};
use nexus_net::BaseUrl;
use nexus_protocol::models::{ModelCandidate, ModelQuestion, ModelSource};
use nexus_workspace::config::Settings;

use crate::{Answers, file_trouble, key_of};

/// How the guide is named in configuration.
const GUIDE: (&str, &str) = ("nexus", "guide");
/// How long a server on this machine may take to begin: it may have to load the model first.
const SLOW_LOCAL: Duration = Duration::from_secs(600);

/// What was chosen.
#[derive(Debug)]
pub struct Choice {
    pub name: ModelName,
    pub source: ModelSource,
    pub reason: String,
    /// Models in the order they are tried; none means the guide.
    pub links: Vec<Link>,
    pub question: Option<ModelQuestion>,
    pub considered: Vec<ModelCandidate>,
    pub table: Arc<ModelTable>,
    /// What is wrong with the settings, for the person.
    pub problems: Vec<String>,
}

impl Choice {
    pub fn guide(reason: impl Into<String>) -> Self {
        Self {
            name: ModelName { provider: GUIDE.0.to_owned(), model: GUIDE.1.to_owned() },
            source: ModelSource::Guide,
            reason: reason.into(),
            links: Vec::new(),
            question: None,
            considered: Vec::new(),
            table: Arc::default(),
            problems: Vec::new(),
        }
    }
}

/// Everything the choice depends on, at one moment.
pub(crate) struct Outlook<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) trusted: bool,
    pub(crate) folder: CredentialFolder,
    pub(crate) rules: AccessRules,
    pub(crate) answers: &'a Answers,
    pub(crate) local: &'a [LocalServer],
}

/// Notes as the choice is made.
#[derive(Default)]
struct Notes {
    considered: Vec<ModelCandidate>,
}

impl Notes {
    fn add(&mut self, model: &impl ToString, source: ModelSource, outcome: impl Into<String>) {
        self.considered.push(ModelCandidate { model: model.to_string(), source, outcome: outcome.into() });
    }
}

impl Outlook<'_> {
    pub(crate) fn choose(&self) -> Choice {
        let mut notes = Notes::default();
        let mut choice = self
            .by_config(&mut notes)
            .or_else(|| self.by_credentials(&mut notes))
            .or_else(|| self.by_local(&mut notes))
            .unwrap_or_else(|| Choice::guide(self.why_guide(&notes)));
        choice.question = self.question(&choice);
        let (mut table, problems) = ModelTable::new(&self.settings.models.table);
        for server in self.local {
            for model in &server.models {
                if let Some(context) = model.context {
                    let name = ModelName { provider: server.name.clone(), model: model.id.clone() };
                    table.learn_context(&name, context);
                }
            }
        }
        choice.table = Arc::new(table);
        choice.problems = problems;
        choice.considered = notes.considered;
        choice
    }

    /// Reads a model as people write it, `provider/model` or either; none is the guide.
    pub(crate) fn named(&self, wanted: &str) -> Result<Option<Link>, String> {
        let wanted = wanted.trim();
        if wanted == "guide" || wanted == format!("{}/{}", GUIDE.0, GUIDE.1) {
            return Ok(None);
        }
        let (service, model) = self.split(wanted);
        let Some(service) = service.or_else(|| maker_of(wanted).map(str::to_owned)) else {
            return Err(format!("{wanted:?} does not name a provider; write provider/model"));
        };
        self.link(&service, model.as_deref()).map(Some)
    }

    /// Returns a model by its name where its provider can be used as things are; none is the guide.
    pub(crate) fn usable(&self, wanted: &str) -> Result<Option<Link>, String> {
        let link = self.named(wanted)?;
        link.as_ref().map_or(Ok(()), |link| self.is_usable(link))?;
        Ok(link)
    }

    /// Returns a model that is wanted but not needed, where it can be used as things are.
    pub(crate) fn preferred(&self, wanted: &str) -> Option<Link> {
        self.named(wanted).ok().flatten().filter(|link| self.is_usable(link).is_ok())
    }

    /// Returns the providers whose use the configuration itself asks for. In a workspace of somebody
    /// else's it cannot.
    pub(crate) fn named_providers(&self) -> Vec<String> {
        let mut named: Vec<String> = PROVIDERS
            .iter()
            .map(|provider| provider.service.to_owned())
            .filter(|service| self.base(service).is_ok_and(|base| base.is_loopback()))
            .collect();
        if self.trusted {
            let agent = &self.settings.agent;
            named.extend(agent.provider.clone());
            let tiers = &self.settings.models.tiers;
            for wanted in agent.model.iter().chain(&agent.fallbacks).chain(&tiers.high).chain(&tiers.standard)
            {
                let (service, _) = self.split(wanted);
                named.extend(service.or_else(|| maker_of(wanted).map(str::to_owned)));
            }
        }
        named
    }

    /// Returns a provider's usable credentials, in the order they would be tried.
    pub(crate) fn credentials(&self, service: &str) -> Vec<Reference> {
        let Ok(service) = ServiceName::new(service) else { return Vec::new() };
        match self.folder.choose(&service, None, &self.rules) {
            Ok(found) => found.into_iter().map(|candidate| candidate.reference).collect(),
            Err(error) => {
                tracing::warn!(error = file_trouble(&error), "credentials not read");
                Vec::new()
            }
        }
    }

    /// Returns the ports of this machine to look at.
    pub(crate) fn ports(&self) -> Vec<u16> {
        let local = &self.settings.models.local;
        let mut ports: Vec<u16> = if local.enabled {
            local.ports.iter().filter_map(|port| port.parse().ok()).collect()
        } else {
            Vec::new()
        };
        // A configured server on this machine may say what it has.
        for name in self.settings.providers.keys() {
            if let Ok(base) = self.base(name)
                && let Some(port) = loopback_port(&base)
            {
                ports.push(port);
            }
        }
        ports.sort_unstable();
        ports.dedup();
        ports
    }

    fn by_config(&self, notes: &mut Notes) -> Option<Choice> {
        let agent = &self.settings.agent;
        if agent.provider.is_none() && agent.model.is_none() {
            return None;
        }
        let (service, model) = match &agent.model {
            Some(model) => match self.split(model) {
                (Some(service), rest) => (Some(service), rest),
                (None, rest) => (agent.provider.clone().or_else(|| maker_of(model).map(str::to_owned)), rest),
            },
            None => (agent.provider.clone(), None),
        };
        let named = match (&service, &model) {
            (Some(service), Some(model)) => format!("{service}/{model}"),
            (Some(only), None) | (None, Some(only)) => only.clone(),
            (None, None) => String::new(),
        };
        if service.as_deref() == Some(GUIDE.0) || named == GUIDE.1 {
            notes.add(&named, ModelSource::Config, "chosen");
            return Some(Choice {
                source: ModelSource::Config,
                ..Choice::guide("the configuration names the guide")
            });
        }
        let mut links = Vec::new();
        let first =
            service.ok_or_else(|| format!("{named:?} does not name a provider")).and_then(|service| {
                let link = self.link(&service, model.as_deref())?;
                self.is_usable(&link).map(|()| link)
            });
        match first {
            Ok(link) => {
                notes.add(&link.endpoint.name, ModelSource::Config, "chosen");
                links.push(link);
            }
            Err(reason) => notes.add(&named, ModelSource::Config, reason),
        }
        for fallback in &agent.fallbacks {
            match self.named(fallback).and_then(|link| match link {
                Some(link) => self.is_usable(&link).map(|()| link),
                None => Err("the guide is not a fallback; it answers only if no model is set up".to_owned()),
            }) {
                Ok(link) => {
                    notes.add(&link.endpoint.name, ModelSource::Config, "tried next");
                    links.push(link);
                }
                Err(reason) => notes.add(fallback, ModelSource::Config, reason),
            }
        }
        let reason = "the configuration names it";
        self.chosen(links, ModelSource::Config, reason)
    }

    fn by_credentials(&self, notes: &mut Notes) -> Option<Choice> {
        let mut links = Vec::new();
        let mut reason = String::new();
        for provider in PROVIDERS.iter().filter(|provider| provider.chat.is_some()) {
            let service = provider.service;
            let found = self.credentials(service);
            let link = self.link(service, None);
            let local = self.base(service).is_ok_and(|base| base.is_loopback());
            if found.is_empty() && !local {
                continue;
            }
            let link = match link {
                Ok(link) => link,
                Err(why) => {
                    notes.add(&service, ModelSource::Credential, why);
                    continue;
                }
            };
            let agreed = found.iter().find(|reference| self.answers.get(&key_of(reference)) == Some(&true));
            let refused = found.iter().all(|reference| self.answers.get(&key_of(reference)) == Some(&false));
            let name = &link.endpoint.name;
            match (local, agreed) {
                (true, _) => {
                    let why = format!("{} runs on this machine", link.endpoint.base);
                    notes.add(name, ModelSource::Credential, why.clone());
                    if links.is_empty() {
                        reason = why;
                    }
                    links.push(link);
                }
                (false, Some(reference)) => {
                    let why = format!("you agreed to {}", key_of(reference));
                    notes.add(name, ModelSource::Credential, why.clone());
                    if links.is_empty() {
                        reason = why;
                    }
                    links.push(link);
                }
                (false, None) if refused => notes.add(name, ModelSource::Credential, "you said no"),
                (false, None) => notes.add(name, ModelSource::Credential, "needs your consent"),
            }
        }
        self.chosen(links, ModelSource::Credential, &reason)
    }

    fn by_local(&self, notes: &mut Notes) -> Option<Choice> {
        let mut links = Vec::new();
        for server in self.local {
            let configured = self.settings.providers.keys().any(|name| {
                self.base(name).is_ok_and(|base| {
                    base.as_str() == server.base || loopback_port(&base) == port_of(&server.base)
                })
            });
            let Some(model) = server.models.first().filter(|_| !configured) else { continue };
            let name = ModelName { provider: server.name.clone(), model: model.id.clone() };
            let Ok(base) = BaseUrl::parse(&server.base) else { continue };
            notes.add(&name, ModelSource::Local, format!("found at {}", server.base));
            let endpoint = Endpoint::new(name, Wire::OpenAi, base, self.timeouts(true));
            links.push(Link { endpoint, needs: Needs::Nothing });
        }
        // One is enough: another server on the same machine is no better when it is busy.
        links.truncate(1);
        let reason = links.first().map(|link| format!("a server was found at {}", link.endpoint.base));
        self.chosen(links, ModelSource::Local, &reason.unwrap_or_default())
    }

    fn chosen(&self, links: Vec<Link>, source: ModelSource, reason: &str) -> Option<Choice> {
        let name = links.first()?.endpoint.name.clone();
        Some(Choice { name, source, links, ..Choice::guide(reason) })
    }

    /// Returns what the owner should be asked: about the first credential nobody answered for, as long as
    /// nothing better than a server on this machine or the guide is in use.
    fn question(&self, choice: &Choice) -> Option<ModelQuestion> {
        if matches!(choice.source, ModelSource::Config | ModelSource::Credential) {
            return None;
        }
        let chats = PROVIDERS.iter().filter(|provider| provider.chat.is_some());
        chats.into_iter().find_map(|provider| {
            let link = self.link(provider.service, None).ok()?;
            let open = |reference: &Reference| !self.answers.contains_key(&key_of(reference));
            let reference = self.credentials(provider.service).into_iter().find(open)?;
            let (provider, account) = (provider.service.to_owned(), reference.account.as_str().to_owned());
            let model = link.endpoint.name.to_string();
            let host = link.endpoint.base.host();
            let text = format!(
                "A credential for {provider} was found (account {account}). If you agree, {model} at {host} answers \
                 here and is charged to that account."
            );
            Some(ModelQuestion { provider, account, model, text })
        })
    }

    fn why_guide(&self, notes: &Notes) -> String {
        match notes.considered.first() {
            None => "found neither a credential for a provider nor a model server on this machine".to_owned(),
            Some(first) => format!("{}: {}", first.model, first.outcome),
        }
    }

    /// Describes a model of a provider; the error is for the person.
    fn link(&self, service: &str, model: Option<&str>) -> Result<Link, String> {
        let known = provider(service);
        if known.is_some_and(|known| known.chat.is_none()) {
            return Err(format!("{service} has no models"));
        }
        let base = self.base(service)?;
        let chat = known.and_then(|known| known.chat);
        let listed = self.local.iter().find(|server| loopback_port(&base) == port_of(&server.base));
        let first_listed = listed.and_then(|server| server.models.first()).map(|model| model.id.clone());
        let lists =
            |name: &str| listed.is_none_or(|server| server.models.iter().any(|model| model.id == name));
        let model = match (model, chat) {
            (Some(model), _) => Some(model.to_owned()),
            (None, Some(chat)) if lists(chat.default_model) => Some(chat.default_model.to_owned()),
            (None, _) => first_listed,
        };
        let Some(model) = model else {
            return Err(format!("{service} has no default model; set agent.model"));
        };
        let local = base.is_loopback();
        let needs = match (local, known) {
            (false, Some(_)) => Needs::Service(service.to_owned()),
            (true, _) | (false, None) => Needs::MaybeService(service.to_owned()),
        };
        let name = ModelName { provider: service.to_owned(), model };
        let wire = chat.map_or(Wire::OpenAi, |chat| chat.wire);
        Ok(Link { endpoint: Endpoint::new(name, wire, base, self.timeouts(local)), needs })
    }

    fn is_usable(&self, link: &Link) -> Result<(), String> {
        let Needs::Service(service) = &link.needs else { return Ok(()) };
        let found = self.credentials(service);
        let agreed = |reference: &Reference| self.answers.get(&key_of(reference)) == Some(&true);
        if found.is_empty() && !self.has_any(service) {
            return Err(format!("no credential for {service}; `nexus credential add {service}` adds one"));
        }
        // The configuration of a stranger's workspace is nobody's yes.
        if !self.trusted && !found.iter().any(agreed) {
            return Err(
                "this workspace is not trusted, so its configured model needs your consent".to_owned()
            );
        }
        Ok(())
    }

    /// Tells whether a service has credentials at all, resting and broken ones included.
    fn has_any(&self, service: &str) -> bool {
        let all = self.folder.read_all().map(|listing| listing.accounts).unwrap_or_default();
        all.iter().any(|account| account.service.as_str() == service)
    }

    fn base(&self, service: &str) -> Result<BaseUrl, String> {
        let configured = self.settings.providers.get(service).and_then(|one| one.base_url.as_deref());
        if configured.is_some() && !self.trusted {
            return Err(
                "its address is configured in a workspace that is not trusted; run `nexus trust`".to_owned()
            );
        }
        let own = provider(service).map(|known| known.base.to_owned()).or_else(|| local_base(service));
        let Some(base) = configured.map(str::to_owned).or(own) else {
            let known: Vec<&str> = LOCAL_SERVERS.iter().map(|(name, _)| *name).collect();
            return Err(format!(
                "unknown provider {service:?}; set providers.{service}.base_url, or use {} or {}",
                PROVIDERS
                    .iter()
                    .filter(|one| one.chat.is_some())
                    .map(|one| one.service)
                    .collect::<Vec<_>>()
                    .join(", "),
                known.join(", ")
            ));
        };
        BaseUrl::parse(&base).map_err(|error| format!("providers.{service}.base_url: {error}"))
    }

    /// Takes `provider/model` apart, where the first part is a provider.
    fn split(&self, wanted: &str) -> (Option<String>, Option<String>) {
        let is_provider = |name: &str| {
            provider(name).is_some()
                || local_base(name).is_some()
                || name == GUIDE.0
                || self.settings.providers.contains_key(name)
        };
        match wanted.split_once('/') {
            Some((service, model)) if is_provider(service) && !model.is_empty() => {
                (Some(service.to_owned()), Some(model.to_owned()))
            }
            _ if is_provider(wanted) => (Some(wanted.to_owned()), None),
            _ => (None, Some(wanted.to_owned())),
        }
    }

    fn timeouts(&self, local: bool) -> Timeouts {
        let models = &self.settings.models;
        let first = models.first_byte_timeout;
        // A server on this machine loads a model before it says anything.
        let unchanged = first == Timeouts::default().first_byte;
        let first_byte = if local && unchanged { SLOW_LOCAL } else { first };
        Timeouts { first_byte, idle: models.idle_timeout }
    }
}

/// Guesses who makes a model from its name.
fn maker_of(model: &str) -> Option<&'static str> {
    let makers = [
        ("claude", "anthropic"),
        ("gpt-", "openai"),
        ("o1", "openai"),
        ("o3", "openai"),
        ("o4", "openai"),
        ("gemini", "gemini"),
        ("deepseek", "deepseek"),
        ("grok", "xai"),
        ("mistral", "mistral"),
    ];
    makers.iter().find(|(start, _)| model.starts_with(start)).map(|(_, maker)| *maker)
}

fn loopback_port(base: &BaseUrl) -> Option<u16> {
    base.is_loopback().then(|| port_of(base.as_str())).flatten()
}

fn port_of(base: &str) -> Option<u16> {
    let host = base.split("://").nth(1)?.split('/').next()?;
    host.rsplit(':').next()?.parse().ok()
}
