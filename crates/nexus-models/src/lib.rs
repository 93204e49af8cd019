//! Which model answers: configuration, then credentials that were found and agreed to, then servers on
//! this machine, then the offline guide. Decided at start, again when anything it depends on changes.

mod choose;
pub mod credentials;
mod guided;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use nexus_base::redact::Redactor;
use nexus_base::task::Tasks;
use nexus_credentials::{AccessRules, CredentialFolder, Reference};
use nexus_llm::{LocalServer, Model, ModelName, ModelTable};
use nexus_net::Net;
use nexus_protocol::models::ModelsView;
use nexus_store::{Store, StoreError};
use nexus_workspace::config::Settings;
use nexus_workspace::trust::Trust;
use nexus_workspace::{Layout, StartOptions};
use secrecy::ExposeSecret;
use tokio::sync::watch;

use nexus_base::error::chain;

pub use self::choose::Choice;
use self::guided::{Guided, PendingModel};

/// Where the owner's answers are kept.
pub const CONSENTS: &str = "models.consents";
/// The longest name of a model taken from somebody.
const MAX_NAME_LEN: usize = 200;
/// Longest the first message waits for servers on this machine to be found.
const LOOKING: Duration = Duration::from_secs(1);

/// The owner's answers, by `service/account`.
type Answers = BTreeMap<String, bool>;

/// Which model a turn asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelRequest {
    /// The one named for the message or the session; no other will do.
    pub wanted: Option<String>,
    /// The one a worker's role would like, where it can be had.
    pub preferred: Option<String>,
    /// The turn's words may answer a question about models: only the owner's own can.
    pub is_owners_word: bool,
}

/// The model in use and everything the choice depends on. Clones are the same.
#[derive(Debug, Clone)]
pub struct Models {
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
    tasks: Tasks,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // How the daemon was started holds its whole environment.
        formatter.debug_struct("Models").field("choice", &self.choice).finish_non_exhaustive()
    }
}

impl Models {
    /// Chooses from what is known at start; answers given earlier are not known yet.
    pub fn new(options: &StartOptions, settings: &Settings, store: &Store, redactor: Arc<Redactor>) -> Self {
        let models = Self {
            inner: Arc::new(Inner {
                options: options.clone(),
                store: store.clone(),
                redactor,
                net: Net::new(),
                settings: RwLock::new(settings.clone()),
                answers: Arc::default(),
                local: Mutex::default(),
                choice: RwLock::new(Arc::new(Choice::guide("not determined yet"))),
                ready: RwLock::new(None),
                seen: Mutex::new(None),
                looked: watch::Sender::new(false),
                tasks: Tasks::default(),
            }),
        };
        models.choose_again();
        models
    }

    /// Takes over the answers the owner gave in earlier lives. Those in a workspace that came from
    /// somewhere else were given by somebody else, about other credentials.
    pub async fn remember(&self) -> Result<(), StoreError> {
        let kept = self.inner.store.runtime().kv_get(CONSENTS).await?;
        if let Some(kept) = kept.filter(|_| self.inner.options.standing().is_trusted()) {
            let answers = serde_json::from_str(&kept).unwrap_or_default();
            *self.inner.answers.write().unwrap_or_else(PoisonError::into_inner) = answers;
            self.choose_again();
        }
        Ok(())
    }

    /// Looks for servers on this machine, in the background.
    pub fn look_around(&self) {
        let models = self.clone();
        self.inner.tasks.spawn("local-servers", async move {
            models.find_local().await;
            models.inner.looked.send_replace(true);
        });
    }

    /// Puts new settings in force.
    pub fn reload(&self, settings: &Settings) {
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
    pub async fn answer(
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
        if self.inner.options.standing().is_trusted() {
            self.inner.store.runtime().kv_set(CONSENTS, &kept).await?;
        }
        Ok(named)
    }

    /// Returns the choice in force, made anew if credentials have changed since.
    pub fn choice(&self) -> Arc<Choice> {
        let stamp = self.credentials_stamp();
        if *self.inner.seen.lock().unwrap_or_else(PoisonError::into_inner) != stamp {
            self.choose_again();
        }
        Arc::clone(&self.inner.choice.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the name of the model in use.
    pub fn name(&self) -> ModelName {
        self.choice().name.clone()
    }

    /// Returns the name of the model a turn may be charged for: that of a question, if the turn's own words
    /// may be its answer.
    pub fn name_of(&self, request: &ModelRequest) -> ModelName {
        let wanted = request.wanted.as_deref();
        if let Some(Ok(Some(link))) = wanted.map(|wanted| self.outlook(|outlook| outlook.named(wanted))) {
            return link.endpoint.name;
        }
        if let Some(link) = self.preferred(request) {
            return link.endpoint.name;
        }
        let choice = self.choice();
        let asked = choice.question.as_ref().and_then(|question| question.model.split_once('/'));
        match asked.filter(|_| choice.links.is_empty() && request.is_owners_word) {
            Some((provider, model)) => ModelName { provider: provider.to_owned(), model: model.to_owned() },
            None => choice.name.clone(),
        }
    }

    /// Returns what is wrong with the settings about models, for the person.
    pub fn problems(&self) -> Vec<String> {
        self.choice().problems.clone()
    }

    /// Returns what is known of models: context and prices.
    pub fn table(&self) -> Arc<ModelTable> {
        Arc::clone(&self.choice().table)
    }

    /// Returns the model of a session's next turn; the error is for the person.
    pub fn of_turn(&self, request: &ModelRequest) -> Result<Arc<dyn Model>, String> {
        tracing::trace!("its model is chosen");
        if let Some(wanted) = &request.wanted {
            return self.named(wanted);
        }
        if let Some(link) = self.preferred(request) {
            // Should it fail, the usual ones go on, and nobody needs to know.
            let usual = self.choice().links.clone();
            return Ok(self.chain(std::iter::once(link).chain(usual).collect()));
        }
        let asks = request.is_owners_word;
        if *self.inner.looked.borrow() {
            Ok(self.chosen(asks))
        } else {
            Ok(Arc::new(PendingModel { models: self.clone(), asks, name: self.name() }))
        }
    }

    /// Returns the model in use, for work that belongs to no session.
    pub fn current(&self) -> Arc<dyn Model> {
        self.chosen(false)
    }

    /// Returns a model by its name, for one session or worker.
    pub fn named(&self, wanted: &str) -> Result<Arc<dyn Model>, String> {
        let link = self.outlook(|outlook| outlook.named(wanted))?;
        match link {
            Some(link) => Ok(self.chain(vec![link])),
            None => Ok(Arc::new(Guided::alone())),
        }
    }

    /// Returns the whole name of a model that somebody wants for a message: its provider can be used, and the
    /// model is one that is known here. The error is for the person.
    pub fn choosable(&self, wanted: &str) -> Result<String, String> {
        if wanted.len() > MAX_NAME_LEN || wanted.trim().is_empty() || wanted.chars().any(char::is_control) {
            return Err(format!("a model name must have 1 to {MAX_NAME_LEN} printable characters"));
        }
        let Some(link) = self.outlook(|outlook| outlook.usable(wanted))? else {
            return Ok("guide".to_owned());
        };
        let name = link.endpoint.name;
        let in_use = self.choice().links.iter().any(|link| link.endpoint.name == name);
        if in_use || self.table().knows(&name) {
            return Ok(name.to_string());
        }
        Err(format!("{name} is not a known model"))
    }

    /// Returns the model a worker's role would like, where there is one to be had.
    fn preferred(&self, request: &ModelRequest) -> Option<nexus_llm::Link> {
        let wanted = request.preferred.as_deref()?;
        self.outlook(|outlook| outlook.preferred(wanted))
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
            trusted: self.inner.options.standing().is_trusted(),
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

    /// Returns what is chosen and why.
    pub fn view(&self) -> ModelsView {
        let choice = self.choice();
        ModelsView {
            model: choice.name.to_string(),
            source: choice.source,
            reason: choice.reason.clone(),
            context_window: choice.table.context_window(&choice.name),
            chain: choice.links.iter().map(|link| link.endpoint.name.to_string()).collect(),
            question: choice.question.clone(),
            considered: choice.considered.clone(),
        }
    }

    fn resolver(&self) -> nexus_credentials::Resolver {
        credentials::of_daemon(&self.inner.options)
    }

    fn credentials_stamp(&self) -> Option<SystemTime> {
        let index = self.inner.options.layout.credentials().join("index.json");
        std::fs::metadata(index).and_then(|found| found.modified()).ok()
    }
}

/// Chooses as the daemon would at its start, before it has looked for servers on this machine. `kept` are
/// the answers of earlier lives.
pub fn look(layout: &Layout, settings: &Settings, trust: Trust, kept: Option<&str>) -> Choice {
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

/// Says on one line what went wrong with a file.
fn file_trouble(error: &nexus_base::file::FileError) -> String {
    chain(error)
}
