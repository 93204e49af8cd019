//! A sessions room over real databases with a model that follows a script.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use nexus_agent::ports::{Free, Hooks, NoHooks, Spending};
use nexus_agent::{Agent, AgentParts, Limits, Window};
use nexus_base::id::{BootId, EventId, QueueItemId, RequestId, SessionLabel, new_ulid};
use nexus_llm::{
    Content, Conversation, Model, ModelError, ModelEvent, ModelName, ModelReply, ReplySink, StopReason, Usage,
};
use nexus_pipeline::sessions::{
    AgentRequest, Broker, BrokerLimits, BrokerParts, Ended, Engine, Framer, Observer, Passage, Quiescence,
};
use nexus_protocol::bus::BusBody;
use nexus_protocol::framing::{Frame, Kind, key};
use nexus_store::agents::{
    Admitted, Item, ItemFacts, ItemKind, ItemMode, NewItem, NewSession, OutboxRecord, Overflow,
    PermissionSnapshot, SessionRecord, SessionSettings,
};
use nexus_store::{OpenMode, Store, StoreError};
use nexus_tools::{FileAccess, FileTools};
use nexus_tools::{Role, Toolbox};
use nexus_workspace::Layout;
use nexus_workspace::config::{self, Overrides};
use nexus_workspace::init::prepare_tree;
use nexus_workspace::trust::{Trust, TrustFolder};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Longest any test waits for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// What the model does when a text it is given contains a word.
#[derive(Clone)]
pub(crate) enum Act {
    /// Says a text.
    Say(&'static str),
    /// Says a text and calls tools.
    Call(&'static str, Vec<(&'static str, Value)>),
    /// Says a text piece by piece and then waits to be released or cancelled.
    Hang(&'static str),
    /// Fails.
    Fail(&'static str),
    /// Finds the conversation too long.
    TooLong,
    /// Waits to be told, then fails.
    HangThenFail(&'static str),
    /// Panics.
    Panic,
    /// Tells its newest worker something at once.
    TellWorker(&'static str),
}

/// A model that answers by the last user text it sees.
pub(crate) struct Script {
    rules: Vec<(&'static str, Mutex<VecDeque<Act>>)>,
    pub(crate) seen: Mutex<Vec<Conversation>>,
    pub(crate) hanging: Notify,
    pub(crate) release: Notify,
    pub(crate) fail: Notify,
    hung: AtomicUsize,
}

impl std::fmt::Debug for Script {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Script")
    }
}

impl Script {
    /// Each rule: a word to look for in the newest user message, and what to do time after time;
    /// the last act of a rule repeats.
    pub(crate) fn new(rules: Vec<(&'static str, Vec<Act>)>) -> Arc<Self> {
        Arc::new(Self {
            rules: rules.into_iter().map(|(word, acts)| (word, Mutex::new(acts.into()))).collect(),
            seen: Mutex::default(),
            hanging: Notify::new(),
            release: Notify::new(),
            fail: Notify::new(),
            hung: AtomicUsize::new(0),
        })
    }

    /// How often it began to hang.
    pub(crate) fn hung(&self) -> usize {
        self.hung.load(Ordering::SeqCst)
    }

    fn hang(&self) {
        self.hung.fetch_add(1, Ordering::SeqCst);
        self.hanging.notify_one();
    }

    fn next(&self, conversation: &Conversation) -> Act {
        let newest = conversation.messages.last().map(newest_text).unwrap_or_default();
        for (word, acts) in &self.rules {
            if newest.contains(word) {
                let mut acts = acts.lock().unwrap();
                return if acts.len() > 1 { acts.pop_front().unwrap() } else { acts[0].clone() };
            }
        }
        Act::Say("I have no rule for this.")
    }
}

fn newest_text(message: &nexus_llm::Message) -> String {
    message
        .content
        .iter()
        .map(|part| match part {
            Content::Text { text } | Content::ToolResult { text, .. } => text.clone(),
            Content::Thinking { .. } | Content::ToolUse { .. } => String::new(),
        })
        .collect::<Vec<_>>()
        .join("\n")
}

#[async_trait]
impl Model for Script {
    fn name(&self) -> ModelName {
        ModelName { provider: "test".into(), model: "script".into() }
    }

    async fn reply(
        &self,
        conversation: &Conversation,
        sink: ReplySink<'_>,
        cancel: &CancellationToken,
    ) -> Result<ModelReply, ModelError> {
        self.seen.lock().unwrap().push(conversation.clone());
        let usage = Usage { input: 10, output: 5, ..Usage::default() };
        let (text, calls) = match self.next(conversation) {
            Act::Say(text) => (text, Vec::new()),
            Act::Call(text, calls) => (text, calls),
            Act::Hang(text) => {
                sink(ModelEvent::TextDelta(text.to_owned()));
                self.hang();
                tokio::select! {
                    () = cancel.cancelled() => return Err(ModelError::Cancelled),
                    () = self.release.notified() => (text, Vec::new()),
                }
            }
            Act::TellWorker(text) => {
                let all = format!("{:?}", conversation.messages);
                let label: String =
                    all.split("worker:").last().unwrap_or_default().chars().take(26).collect();
                let target = format!("worker:{label}");
                let arguments =
                    json!({"op": "message", "target": target, "text": text, "deliveryMode": "interrupt"});
                ("", vec![("agent_send", arguments)])
            }
            Act::Panic => panic!("a model that breaks"),
            Act::HangThenFail(reason) => {
                self.hang();
                self.fail.notified().await;
                return Err(ModelError::Rejected { provider: "test".into(), reason: reason.into() });
            }
            Act::TooLong => return Err(ModelError::ContextTooLong),
            Act::Fail(reason) => {
                return Err(ModelError::Rejected { provider: "test".into(), reason: reason.into() });
            }
        };
        sink(ModelEvent::TextDelta(text.to_owned()));
        let mut content = vec![Content::Text { text: text.to_owned() }];
        let stop = if calls.is_empty() { StopReason::EndTurn } else { StopReason::ToolUse };
        content.extend(calls.into_iter().map(|(name, input)| Content::ToolUse {
            id: new_ulid(),
            name: name.to_owned(),
            input,
        }));
        Ok(ModelReply { content, stop, usage, model: None })
    }
}

/// What a test may want otherwise than usual.
#[derive(Clone)]
pub(crate) struct Extras {
    pub(crate) limits: Limits,
    pub(crate) window: Window,
    pub(crate) spending: Arc<dyn Spending>,
    pub(crate) hooks: Arc<dyn Hooks>,
}

impl Default for Extras {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            window: Window::default(),
            spending: Arc::new(Free),
            hooks: Arc::new(NoHooks),
        }
    }
}

struct TestEngine {
    layout: Layout,
    model: Arc<dyn Model>,
    store: Store,
    extras: Extras,
}

impl Engine for TestEngine {
    fn speaker(&self) -> String {
        String::new()
    }

    fn hooks(&self, _request: &AgentRequest<'_>) -> Arc<dyn Hooks> {
        Arc::clone(&self.extras.hooks)
    }

    fn spending(&self, _request: &AgentRequest<'_>) -> Arc<dyn Spending> {
        Arc::clone(&self.extras.spending)
    }

    fn agent(&self, request: &AgentRequest<'_>) -> Result<Agent, String> {
        let root = self.layout.root();
        let files = match request.role {
            Role::Manager => {
                FileTools::manager(FileAccess::manager(root).map_err(|error| error.to_string())?)
            }
            Role::Worker => FileTools::worker(
                FileAccess::worker(root, self.layout.home(), &Default::default())
                    .map_err(|error| error.to_string())?,
                None,
            ),
        };
        let loaded =
            config::load(&self.layout, Trust::Trusted, &Overrides::default()).map_err(|e| e.to_string())?;
        Ok(Agent::new(AgentParts {
            layout: self.layout.clone(),
            settings: Arc::new(loaded.settings),
            model: Arc::clone(&self.model),
            toolbox: Toolbox::new(request.role, Arc::new(files), nexus_memory::Memory::new(&self.store)),
            limits: self.extras.limits,
            window: self.extras.window.clone(),
            assignment: nexus_agent::Assignment {
                task: request.session.task.clone(),
                ..nexus_agent::Assignment::default()
            },
            prompts: Arc::default(),
        }))
    }

    fn framer(&self, _worker: Option<&SessionRecord>) -> Framer {
        Box::new(|item| {
            let kind = Kind::parse(item.new.kind.as_str()).unwrap_or(Kind::System);
            let facts = item.new.facts.read().unwrap();
            let frame = facts.iter().fold(Frame::new(kind), |frame, (name, value)| frame.with(name, value));
            frame.with(key::SENDER, "test").render()
        })
    }
}

type Reaction = Box<dyn Fn(&BusBody) + Send>;

#[derive(Default)]
pub(crate) struct Watcher {
    pub(crate) events: Mutex<Vec<BusBody>>,
    pub(crate) projected: Mutex<Vec<String>>,
    reaction: Mutex<Option<Reaction>>,
}

impl Watcher {
    /// Does something at the moment an event is published.
    pub(crate) fn when(&self, reaction: impl Fn(&BusBody) + Send + 'static) {
        *self.reaction.lock().unwrap() = Some(Box::new(reaction));
    }
}

#[async_trait]
impl Observer for Watcher {
    fn publish(&self, _root: &RequestId, body: BusBody) {
        if let Some(reaction) = &*self.reaction.lock().unwrap() {
            reaction(&body);
        }
        self.events.lock().unwrap().push(body);
    }

    fn taken(&self, _item: &Item, _session: &SessionRecord) {}

    fn passed(&self, _passage: &Passage<'_>) {}

    async fn project(&self, ended: &Ended<'_>) -> Result<(), StoreError> {
        self.projected.lock().unwrap().push(ended.item.new.id.to_string());
        Ok(())
    }
}

/// One life of a sessions room.
pub(crate) struct Room {
    _folder: Option<tempfile::TempDir>,
    pub(crate) root: std::path::PathBuf,
    pub(crate) store: Store,
    pub(crate) broker: Broker,
    pub(crate) watcher: Arc<Watcher>,
    pub(crate) model: Arc<Script>,
}

pub(crate) fn limits() -> BrokerLimits {
    BrokerLimits {
        queue_cap: 20,
        overflow: Overflow::Summarize,
        debounce: Duration::from_millis(50),
        worker_depth: 3,
        workers_per_request: 200,
        concurrent_workers: 8,
        turn_timeout: PATIENCE,
        worker_timeout: PATIENCE,
    }
}

/// Makes an empty workspace.
pub(crate) fn workspace() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("ws");
    let layout = Layout::new(&root);
    prepare_tree(&layout, &TrustFolder::at(folder.path().join("trust"))).unwrap();
    Store::create(&layout.data()).unwrap();
    (folder, root)
}

/// Begins one life of a sessions room.
pub(crate) fn life(
    root: &std::path::Path,
    model: Arc<dyn Model>,
    observer: Arc<dyn Observer>,
    limits: BrokerLimits,
) -> (Store, Broker) {
    life_with(root, model, observer, limits, Extras::default())
}

fn life_with(
    root: &std::path::Path,
    model: Arc<dyn Model>,
    observer: Arc<dyn Observer>,
    limits: BrokerLimits,
    extras: Extras,
) -> (Store, Broker) {
    let layout = Layout::new(root);
    let store = Store::open(&layout.data(), OpenMode::ReadWrite).unwrap();
    let broker = Broker::new(BrokerParts {
        agents: store.agents().clone(),
        boot: BootId::generate(),
        engine: Arc::new(TestEngine { layout, model, store: store.clone(), extras }),
        observer,
        limits,
    });
    (store, broker)
}

impl Room {
    pub(crate) fn new(model: Arc<Script>, limits: BrokerLimits) -> Self {
        Self::with(model, limits, Extras::default())
    }

    /// A room with something unusual in it.
    pub(crate) fn with(model: Arc<Script>, limits: BrokerLimits, extras: Extras) -> Self {
        let (folder, root) = workspace();
        let mut room = Self::open_with(&root, model, limits, extras);
        room._folder = Some(folder);
        room
    }

    /// Begins another life over the same files.
    pub(crate) fn open(root: &std::path::Path, model: Arc<Script>, limits: BrokerLimits) -> Self {
        Self::open_with(root, model, limits, Extras::default())
    }

    /// Begins another life with something unusual in it.
    pub(crate) fn open_with(
        root: &std::path::Path,
        model: Arc<Script>,
        limits: BrokerLimits,
        extras: Extras,
    ) -> Self {
        let watcher = Arc::new(Watcher::default());
        let (store, broker) = life_with(
            root,
            Arc::clone(&model) as Arc<dyn Model>,
            Arc::clone(&watcher) as Arc<dyn Observer>,
            limits,
            extras,
        );
        Self { _folder: None, root: root.to_owned(), store, broker, watcher, model }
    }

    pub(crate) async fn say(&self, text: &str, mode: ItemMode) -> RequestId {
        self.say_in("dm:owner", text, mode).await
    }

    pub(crate) async fn say_in(&self, session: &str, text: &str, mode: ItemMode) -> RequestId {
        let (session, item) = message(session, text, mode);
        let request = item.request_id.clone();
        let admitted = self.broker.admit(session, item).await.unwrap();
        assert!(!matches!(admitted, Admitted::AlreadyThere));
        request
    }

    pub(crate) async fn wait(&self, request: &RequestId) -> Vec<OutboxRecord> {
        let reached = self.broker.wait_quiescent(request, PATIENCE).await.unwrap();
        assert_eq!(reached, Quiescence::Reached);
        self.store.agents().replies_of(request).await.unwrap()
    }

    pub(crate) async fn texts(&self, request: &RequestId) -> Vec<String> {
        self.wait(request).await.into_iter().map(|line| line.text).collect()
    }

    /// Ends this life in the middle of whatever runs, as a stop without patience does.
    pub(crate) async fn cut_off(&self) {
        self.broker.drain(Duration::ZERO).await;
        self.store.close().await;
    }

    /// Waits until something holds.
    pub(crate) async fn until(&self, holds: impl Fn() -> bool) {
        self.until_async(|| async { holds() }).await;
    }

    /// Waits until something that has to be asked for holds.
    pub(crate) async fn until_async<F: Future<Output = bool>>(&self, holds: impl Fn() -> F) {
        let started = Instant::now();
        while !holds().await {
            assert!(started.elapsed() < PATIENCE, "it never came to hold");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Goes on with what an earlier life left, as a start does.
    pub(crate) async fn recover(&self) {
        self.broker.settle().await.unwrap();
        self.broker.resume().await.unwrap();
    }

    /// Everything the person was told in a session, oldest first.
    pub(crate) async fn told(&self, session: &str) -> Vec<String> {
        let lines = self.store.agents().chat_history(&SessionLabel::new(session), 100).await.unwrap();
        lines.into_iter().filter(|line| line.state.is_some()).map(|line| line.text).collect()
    }
}

pub(crate) fn message(session: &str, text: &str, mode: ItemMode) -> (NewSession, NewItem) {
    let label = SessionLabel::new(session);
    let request_id = RequestId::generate();
    let event = EventId::new(format!("test:{}", new_ulid()));
    let new = NewSession {
        label: label.clone(),
        persona: String::new(),
        role: nexus_base::conversation::Role::Manager,
        origin: "nexus",
        settings: SessionSettings::default(),
    };
    let item = NewItem {
        id: QueueItemId::new(event.as_str()),
        session: label,
        request_id: request_id.clone(),
        parent_request_id: None,
        root_request_id: request_id,
        source_event_id: Some(event),
        kind: ItemKind::Message,
        mode,
        facts: ItemFacts::new::<String>([]),
        content: text.to_owned(),
        permissions: PermissionSnapshot::new(json!({})),
    };
    (new, item)
}

pub(crate) fn dispatch(task: &str) -> (&'static str, Value) {
    ("agent_send", json!({"op": "dispatch", "text": task}))
}
