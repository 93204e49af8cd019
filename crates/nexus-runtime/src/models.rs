//! Which model answers: configuration, then credentials that were found and agreed to, then servers on
//! this machine, then the offline guide. Decided at start, again when anything it depends on changes.

mod choose;
mod guided;
mod view;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use nexus_agent::Role;
use nexus_base::redact::Redactor;
use nexus_credentials::{AccessRules, CredentialFolder, Reference};
use nexus_llm::{LocalServer, Model, ModelName, ModelTable};
use nexus_net::Net;
use nexus_session::AgentRequest;
use nexus_store::agents::ItemKind;
use nexus_store::{Store, StoreError};
use nexus_workspace::Layout;
use nexus_workspace::config::Settings;
use nexus_workspace::trust::Trust;
use secrecy::ExposeSecret;
use tokio::sync::watch;

use crate::boot::{StartOptions, standing};
use crate::engine::explain;

pub(crate) use self::choose::Choice;
use self::guided::{Guided, Patient};

/// Where the owner's answers are kept.
pub(crate) const CONSENTS: &str = "models.consents";
/// The longest name of a model taken from somebody.
const LONGEST_NAME: usize = 200;
/// Longest the first message waits for servers on this machine to be found.
const LOOKING: Duration = Duration::from_secs(1);

/// The owner's answers, by `service/account`.
type Answers = BTreeMap<String, bool>;

/// The model in use and everything the choice depends on. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Models {
    inner: Arc<Inner>,
}

struct Inner {
    options: StartOptions,
    store: Store,
    redactor: Arc<Redactor>,
    net: Net,
    settings: RwLock<Settings>,
    answers: Arc<RwLock<Answers>>,
    local: Mutex<Vec<LocalServer>>,
    choice: RwLock<Arc<Choice>>,
    /// The chosen models, ready to be asked; none when the guide was chosen.
    ready: RwLock<Option<Arc<dyn Model>>>,
    /// When the credentials that the choice was made from were last changed.
    seen: Mutex<Option<SystemTime>>,
    /// Whether this machine's servers have been looked for.
    looked: watch::Sender<bool>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // How the daemon was started holds its whole environment.
        formatter.debug_struct("Models").field("choice", &self.choice).finish_non_exhaustive()
    }
}

impl Models {
    /// Chooses from what is known at start; answers given earlier are not known yet.
    pub(crate) fn new(
        options: &StartOptions,
        settings: &Settings,
        store: &Store,
        redactor: Arc<Redactor>,
    ) -> Self {
        let models = Self {
            inner: Arc::new(Inner {
                options: options.clone(),
                store: store.clone(),
                redactor,
                net: Net::new(),
                settings: RwLock::new(settings.clone()),
                answers: Arc::default(),
                local: Mutex::default(),
                choice: RwLock::new(Arc::new(Choice::guide("nothing was looked at yet"))),
                ready: RwLock::new(None),
                seen: Mutex::new(None),
                looked: watch::Sender::new(false),
            }),
        };
        models.choose_again();
        models
    }

    /// Takes over the answers the owner gave in earlier lives. Those in a workspace that came from
    /// somewhere else were given by somebody else, about other credentials.
    pub(crate) async fn remember(&self) -> Result<(), StoreError> {
        let kept = self.inner.store.runtime().kv_get(CONSENTS).await?;
        if let Some(kept) = kept.filter(|_| standing(&self.inner.options).is_trusted()) {
            let answers = serde_json::from_str(&kept).unwrap_or_default();
            *self.inner.answers.write().unwrap_or_else(PoisonError::into_inner) = answers;
            self.choose_again();
        }
        Ok(())
    }

    /// Looks for servers on this machine, in the background.
    pub(crate) fn look_around(&self) {
        let models = self.clone();
        tokio::spawn(async move {
            models.find_local().await;
            models.inner.looked.send_replace(true);
        });
    }

    /// Puts new settings in force.
    pub(crate) fn reload(&self, settings: &Settings) {
        let before = {
            let mut kept = self.inner.settings.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *kept, settings.clone())
        };
        self.choose_again();
        if before.models.local != settings.models.local || before.providers != settings.providers {
            self.look_around();
        }
    }

    /// Notes the owner's answer about every account of a provider that was found, or about one. Returns the
    /// accounts it was about.
    pub(crate) async fn answer(
        &self,
        provider: &str,
        account: Option<&str>,
        agrees: bool,
    ) -> Result<Vec<String>, StoreError> {
        let named: Vec<String> = self
            .found(provider)
            .into_iter()
            .filter(|reference| account.is_none_or(|account| account == reference.account.as_str()))
            .map(|reference| key_of(&reference))
            .collect();
        if named.is_empty() {
            return Ok(named);
        }
        let kept = {
            let mut answers = self.inner.answers.write().unwrap_or_else(PoisonError::into_inner);
            answers.extend(named.iter().map(|key| (key.clone(), agrees)));
            serde_json::to_string(&*answers).unwrap_or_default()
        };
        self.choose_again();
        if standing(&self.inner.options).is_trusted() {
            self.inner.store.runtime().kv_set(CONSENTS, &kept).await?;
        }
        Ok(named)
    }

    /// Returns the choice in force, made anew if credentials have changed since.
    pub(crate) fn choice(&self) -> Arc<Choice> {
        let stamp = self.credentials_stamp();
        if *self.inner.seen.lock().unwrap_or_else(PoisonError::into_inner) != stamp {
            self.choose_again();
        }
        Arc::clone(&self.inner.choice.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the name of the model in use.
    pub(crate) fn name(&self) -> ModelName {
        self.choice().name.clone()
    }

    /// Returns the name of the model a turn may be charged for: that of a question, if the turn's own words
    /// may be its answer.
    pub(crate) fn name_of(&self, request: &AgentRequest<'_>) -> ModelName {
        let wanted = wanted_by(request);
        if let Some(Ok(Some(link))) = wanted.map(|wanted| self.outlook(|outlook| outlook.named(&wanted))) {
            return link.endpoint.name;
        }
        if let Some(link) = self.preferred(request) {
            return link.endpoint.name;
        }
        let choice = self.choice();
        let asked = choice.question.as_ref().and_then(|question| question.model.split_once('/'));
        match asked.filter(|_| choice.links.is_empty() && is_answerable(request)) {
            Some((provider, model)) => ModelName { provider: provider.to_owned(), model: model.to_owned() },
            None => choice.name.clone(),
        }
    }

    /// Returns what is wrong with the settings about models, for the person.
    pub(crate) fn problems(&self) -> Vec<String> {
        self.choice().problems.clone()
    }

    /// Returns what is known of models: context and prices.
    pub(crate) fn table(&self) -> Arc<ModelTable> {
        Arc::clone(&self.choice().table)
    }

    /// Returns the model of a session's next turn; the error is for the person.
    pub(crate) fn of_turn(&self, request: &AgentRequest<'_>) -> Result<Arc<dyn Model>, String> {
        if let Some(wanted) = wanted_by(request) {
            return self.named(&wanted);
        }
        if let Some(link) = self.preferred(request) {
            // Should it fail, the usual ones go on, and nobody needs to know.
            let usual = self.choice().links.clone();
            return Ok(self.chain(std::iter::once(link).chain(usual).collect()));
        }
        let asks = is_answerable(request);
        if *self.inner.looked.borrow() {
            Ok(self.chosen(asks))
        } else {
            Ok(Arc::new(Patient { models: self.clone(), asks, name: self.name() }))
        }
    }

    /// Returns the model in use, for work that belongs to no session.
    pub(crate) fn current(&self) -> Arc<dyn Model> {
        self.chosen(false)
    }

    /// Returns a model by its name, for one session or worker.
    pub(crate) fn named(&self, wanted: &str) -> Result<Arc<dyn Model>, String> {
        let link = self.outlook(|outlook| outlook.named(wanted))?;
        match link {
            Some(link) => Ok(self.chain(vec![link])),
            None => Ok(Arc::new(Guided::alone())),
        }
    }

    /// Returns the whole name of a model that somebody wants for a message: its provider can be used, and the
    /// model is one that is known here. The error is for the person.
    pub(crate) fn choosable(&self, wanted: &str) -> Result<String, String> {
        if wanted.len() > LONGEST_NAME || wanted.trim().is_empty() || wanted.chars().any(char::is_control) {
            return Err(format!("a model's name has 1 to {LONGEST_NAME} printable characters"));
        }
        let Some(link) = self.outlook(|outlook| outlook.usable(wanted))? else {
            return Ok("guide".to_owned());
        };
        let name = link.endpoint.name;
        let in_use = self.choice().links.iter().any(|link| link.endpoint.name == name);
        if in_use || self.table().knows(&name) {
            return Ok(name.to_string());
        }
        Err(format!("{name} is not a model that is known here"))
    }

    /// Returns the model a worker's role would like, where there is one to be had.
    fn preferred(&self, request: &AgentRequest<'_>) -> Option<nexus_llm::Link> {
        let wanted = setting(&request.session.settings_json, "tier_model")?;
        self.outlook(|outlook| outlook.preferred(&wanted))
    }

    fn chosen(&self, asks: bool) -> Arc<dyn Model> {
        let choice = self.choice();
        let ready = self.inner.ready.read().unwrap_or_else(PoisonError::into_inner).clone();
        ready.unwrap_or_else(|| {
            let question = choice.question.clone().filter(|_| asks);
            Arc::new(Guided::new(question.map(|question| (question, self.clone()))))
        })
    }

    fn chain(&self, links: Vec<nexus_llm::Link>) -> Arc<dyn Model> {
        let settings = self.settings();
        let (answers, redactor) = (Arc::clone(&self.inner.answers), Arc::clone(&self.inner.redactor));
        let named = self.outlook(|outlook| outlook.named_providers());
        let keys = nexus_llm::Keys {
            resolver: self.resolver(),
            rules: rules(&settings),
            account: None,
            may_use: Arc::new(move |reference| {
                let answers = answers.read().unwrap_or_else(PoisonError::into_inner);
                named.iter().any(|provider| provider == reference.service.as_str())
                    || answers.get(&key_of(reference)) == Some(&true)
            }),
            learned: Arc::new(move |secret| redactor.register(secret.expose_secret())),
        };
        let patience = nexus_llm::Patience {
            retries: settings.models.retries,
            first_pause: settings.models.retry_pause,
            ..nexus_llm::Patience::default()
        };
        Arc::new(nexus_llm::Chain::new(self.inner.net.clone(), links, keys, patience))
    }

    /// Waits until this machine's servers have been looked for, within reason.
    async fn looked(&self) {
        let mut looked = self.inner.looked.subscribe();
        // Too long or never: what is known by then is used.
        let _ = tokio::time::timeout(LOOKING, looked.wait_for(|looked| *looked)).await;
    }

    async fn find_local(&self) {
        let ports = self.outlook(|outlook| outlook.ports());
        let found = nexus_llm::discover(&self.inner.net, &ports).await;
        for server in &found {
            tracing::info!(
                server = server.name,
                base = server.base,
                models = server.models.len(),
                "a model server on this machine"
            );
        }
        *self.inner.local.lock().unwrap_or_else(PoisonError::into_inner) = found;
        self.choose_again();
    }

    fn choose_again(&self) {
        *self.inner.seen.lock().unwrap_or_else(PoisonError::into_inner) = self.credentials_stamp();
        let choice = Arc::new(self.outlook(|outlook| outlook.choose()));
        let ready = (!choice.links.is_empty()).then(|| self.chain(choice.links.clone()));
        *self.inner.ready.write().unwrap_or_else(PoisonError::into_inner) = ready;
        let mut kept = self.inner.choice.write().unwrap_or_else(PoisonError::into_inner);
        if kept.name != choice.name || kept.source != choice.source {
            tracing::info!(model = %choice.name, reason = choice.reason, "the model in use");
        }
        *kept = choice;
    }

    fn outlook<T>(&self, look: impl FnOnce(&choose::Outlook<'_>) -> T) -> T {
        let settings = self.settings();
        let local = self.inner.local.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let answers = self.inner.answers.read().unwrap_or_else(PoisonError::into_inner).clone();
        let outlook = choose::Outlook {
            settings: &settings,
            trusted: standing(&self.inner.options).is_trusted(),
            folder: CredentialFolder::new(self.inner.options.layout.credentials()),
            rules: rules(&settings),
            answers: &answers,
            local: &local,
        };
        look(&outlook)
    }

    fn found(&self, provider: &str) -> Vec<Reference> {
        self.outlook(|outlook| outlook.credentials(provider))
    }

    fn settings(&self) -> Settings {
        self.inner.settings.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn resolver(&self) -> nexus_credentials::Resolver {
        crate::credentials::of_daemon(&self.inner.options)
    }

    fn credentials_stamp(&self) -> Option<SystemTime> {
        let index = self.inner.options.layout.credentials().join("index.json");
        std::fs::metadata(index).and_then(|found| found.modified()).ok()
    }
}

/// Chooses as the daemon would at its start, before it has looked for servers on this machine. `kept` are
/// the answers of earlier lives.
pub(crate) fn look(layout: &Layout, settings: &Settings, trust: Trust, kept: Option<&str>) -> Choice {
    let trusted = trust.is_trusted();
    let answers =
        kept.filter(|_| trusted).and_then(|kept| serde_json::from_str(kept).ok()).unwrap_or_default();
    let outlook = choose::Outlook {
        settings,
        trusted,
        folder: CredentialFolder::new(layout.credentials()),
        rules: rules(settings),
        answers: &answers,
        local: &[],
    };
    outlook.choose()
}

/// Names a credential's account as answers are kept.
fn key_of(reference: &Reference) -> String {
    format!("{}/{}", reference.service.as_str(), reference.account.as_str())
}

fn rules(settings: &Settings) -> AccessRules {
    let kept = &settings.runtime.credentials;
    AccessRules { level: kept.level, blocked: kept.blocked.clone(), allowed: kept.allowed.clone() }
}

/// Returns the model a session was made with, if one was named.
fn wanted_by(request: &AgentRequest<'_>) -> Option<String> {
    request.model.clone().or_else(|| wanted_model(&request.session.settings_json))
}

pub(crate) fn wanted_model(settings: &str) -> Option<String> {
    setting(settings, "model")
}

fn setting(settings: &str, name: &str) -> Option<String> {
    let settings: serde_json::Value = serde_json::from_str(settings).ok()?;
    settings.get(name)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Tells whether a turn's words can be an answer to a question about models: only the owner's own can.
fn is_answerable(request: &AgentRequest<'_>) -> bool {
    request.role == Role::Manager
        && request.item.new.kind == ItemKind::Message
        && is_owner(&request.item.new.frame_json)
}

fn is_owner(frame: &str) -> bool {
    let facts: Vec<(String, String)> = serde_json::from_str(frame).unwrap_or_default();
    facts.iter().any(|(name, value)| name == nexus_protocol::framing::key::SENDER && value == "owner")
}

/// Says on one line what went wrong with a file.
fn file_trouble(error: &nexus_base::file::FileError) -> String {
    explain(error)
}
