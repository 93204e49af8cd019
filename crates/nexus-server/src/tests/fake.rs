//! A daemon that remembers what it was asked, and a server in front of it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use nexus_operations::{Bus, BusReader, Caller, CallerKind, RuntimeError};
use nexus_protocol::bus::BusBody;
use nexus_protocol::chat::{ChatAbort, ChatAborted, ChatAccepted, ChatHistory, ChatSend, ChatWaited};
use nexus_protocol::methods::Method;
use nexus_protocol::status::{Health, HealthReport};
use nexus_protocol::tool::{MergedTools, ToolSource};
use nexus_protocol::trace::RequestView;
use nexus_testkit::client::Client;
use nexus_testkit::http::{Answer, exchange, request};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::daemon::Daemon;
use crate::serve::serve_daemon;

pub(super) const TOKEN: &str = "0123456789abcdef0123456789abcdef0123456789abcdef";

/// A daemon whose answers only name what it was asked.
#[derive(Debug, Clone)]
pub(super) struct Fake {
    pub(super) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) bus: Bus,
    pub(super) health: Mutex<Health>,
    pub(super) stopping: CancellationToken,
    /// Messages taken to their end.
    pub(super) taken: Mutex<Vec<String>>,
    /// A message `slow` is held until this.
    pub(super) release: Notify,
    /// Told when a held message has begun.
    pub(super) begun: Notify,
    /// The owner's token; replaced by a test that rotates it.
    pub(super) token: Mutex<String>,
    pub(super) changes: watch::Sender<u64>,
}

/// A token that may only look.
pub(super) const READING: &str = "nxt_reading-reading-reading-reading";
/// A secret that the redactor knows.
pub(super) const CANARY: &str = "canary-in-the-coal-mine";

impl Fake {
    pub(super) fn idle() -> Self {
        let inner = Inner {
            bus: Bus::new(),
            health: Mutex::new(Health::Healthy),
            stopping: CancellationToken::new(),
            taken: Mutex::default(),
            release: Notify::new(),
            begun: Notify::new(),
            token: Mutex::new(TOKEN.to_owned()),
            changes: watch::Sender::new(0),
        };
        Self { inner: Arc::new(inner) }
    }
}

fn made<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

impl Daemon for Fake {
    async fn chat_send(&self, _caller: &Caller, send: ChatSend) -> Result<ChatAccepted, RuntimeError> {
        match send.message.as_str() {
            "" => {
                return Err(RuntimeError::Invalid {
                    message: "empty".to_owned(),
                    hint: Some("say it".to_owned()),
                });
            }
            "panic" => panic!("a defect, on purpose"),
            "slow" => {
                self.inner.begun.notify_one();
                self.inner.release.notified().await;
            }
            _ => {}
        }
        self.inner.taken.lock().unwrap().push(send.message.clone());
        Ok(made(json!({"requestId": "r1", "eventId": "e1", "session": "s", "duplicate": false})))
    }

    async fn chat_history(
        &self,
        _: &Caller,
        session: Option<&str>,
        limit: usize,
    ) -> Result<ChatHistory, RuntimeError> {
        Ok(made(json!({"session": format!("{session:?}/{limit}"), "lines": []})))
    }

    async fn chat_wait(
        &self,
        _: &Caller,
        request: &str,
        timeout: Duration,
    ) -> Result<ChatWaited, RuntimeError> {
        if request == "never" {
            self.inner.begun.notify_one();
            std::future::pending::<()>().await;
        }
        Ok(made(
            json!({"requestId": format!("{request}/{}", timeout.as_millis()), "quiescent": true, "replies": []}),
        ))
    }

    async fn chat_abort(&self, _: &Caller, abort: ChatAbort) -> Result<ChatAborted, RuntimeError> {
        Ok(ChatAborted { aborted: abort.workers })
    }

    async fn request(&self, _: &Caller, id: &str) -> Result<RequestView, RuntimeError> {
        Err(RuntimeError::NotFound { what: "request", name: id.to_owned() })
    }

    async fn recent_requests(&self, _: &Caller, limit: usize) -> Result<Value, RuntimeError> {
        let rows = (0..limit.min(3)).map(|row| {
            json!({"requestId": row.to_string(), "eventType": "message", "session": null, "status": "completed",
                "input": "", "startedAt": 1, "durationMs": null})
        });
        Ok(json!({ "requests": rows.collect::<Vec<_>>() }))
    }

    async fn sessions(&self, _: &Caller, _limit: usize) -> Result<Value, RuntimeError> {
        panic!("a defect, on purpose")
    }

    fn subscribe(&self, after: Option<u64>) -> BusReader {
        self.inner.bus.subscribe(after)
    }

    fn health(&self) -> Health {
        *self.inner.health.lock().unwrap()
    }

    async fn health_report(&self) -> HealthReport {
        made(
            json!({"status": self.health(), "version": "1", "pid": 7, "uptime_ms": 1, "workspace": "w", "ledgers": {},
            "adapters": {"total": 0, "running": 0, "errored": 0}, "boot": [], "warnings": [], "model": "m",
            "pipeline": {"active_requests": 0, "total_processed": 0, "avg_latency_ms": 0}}),
        )
    }

    async fn authenticate(&self, presented: &str) -> Option<Caller> {
        if presented == READING {
            return Some(Caller::given("reading".to_owned(), &["control.*.read".to_owned()], None));
        }
        (presented == *self.inner.token.lock().unwrap()).then(|| Caller::owner(presented))
    }

    async fn is_still_valid(&self, caller: &Caller) -> bool {
        caller.kind() == CallerKind::Token || *self.inner.token.lock().unwrap() == TOKEN
    }

    fn token_changes(&self) -> watch::Receiver<u64> {
        self.inner.changes.subscribe()
    }

    fn permit(&self, caller: &Caller, method: Method) -> Result<(), RuntimeError> {
        match caller.may(&method.entry().permission()) {
            true => Ok(()),
            false => Err(RuntimeError::Forbidden { reason: "not with this token".to_owned() }),
        }
    }

    async fn call(
        &self,
        caller: &Caller,
        method: Method,
        params: Option<Value>,
    ) -> Result<Value, RuntimeError> {
        self.permit(caller, method)?;
        if method == Method::ChatWait {
            self.inner.begun.notify_one();
            std::future::pending::<()>().await;
        }
        Ok(json!({ "method": method.entry().name, "params": params, "canary": CANARY }))
    }

    fn redact(&self, text: &str) -> String {
        text.replace(CANARY, "[redacted]")
    }

    fn metrics(&self) -> String {
        "nexus_up 1\n".to_owned()
    }

    fn tools(&self, project: Option<&str>) -> Result<Arc<dyn ToolSource>, RuntimeError> {
        match project {
            Some(project) if !project.starts_with('/') => {
                Err(RuntimeError::Invalid { message: "absolute".to_owned(), hint: None })
            }
            _ => Ok(Arc::new(MergedTools::default())),
        }
    }

    fn handshake_within(&self) -> std::time::Duration {
        std::time::Duration::from_secs(10)
    }

    async fn stopping(&self) {
        self.inner.stopping.cancelled().await;
    }
}

/// A server in front of a fake daemon.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) port: u16,
    pub(super) daemon: Arc<Inner>,
    shutdown: Option<oneshot::Sender<()>>,
    task: JoinHandle<std::io::Result<()>>,
}

impl Served {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let daemon = Fake::idle();
        let inner = Arc::clone(&daemon.inner);
        let (shutdown, told) = oneshot::channel();
        let task = tokio::spawn(serve_daemon(daemon, listener, async move {
            let _ = told.await;
        }));
        Self { port, daemon: inner, shutdown: Some(shutdown), task }
    }

    pub(super) fn client(&self) -> Client {
        Client::new(self.port, TOKEN.to_owned().into())
    }

    pub(super) fn publish(&self, root: Option<&str>, body: BusBody) {
        self.daemon.bus.publish(root.map(|root| made(json!(root))), body);
    }

    /// Sends bytes and returns the answer; blocking, so on a thread of its own.
    pub(super) async fn raw(&self, bytes: impl Into<Vec<u8>>) -> Answer {
        let (port, bytes) = (self.port, bytes.into());
        tokio::task::spawn_blocking(move || exchange(port, &bytes).unwrap()).await.unwrap()
    }

    pub(super) async fn ask(&self, method: &str, target: &str, token: Option<&str>, body: &str) -> Answer {
        self.raw(request(method, self.port, target, token, body)).await
    }

    pub(super) async fn get(&self, target: &str) -> Answer {
        self.ask("GET", target, Some(TOKEN), "").await
    }

    pub(super) async fn post(&self, target: &str, body: &str) -> Answer {
        self.ask("POST", target, Some(TOKEN), body).await
    }

    /// Asks the server to close; the handle ends when it has.
    pub(super) fn shut_down(mut self) -> JoinHandle<std::io::Result<()>> {
        self.shutdown.take().unwrap().send(()).unwrap();
        self.task
    }
}

/// Returns the code and the message of an error answer.
pub(super) fn error_of(answer: &Answer) -> (u16, String, String) {
    let error = &answer.json()["error"];
    (answer.status, error["code"].as_str().unwrap().to_owned(), error["message"].as_str().unwrap().to_owned())
}
