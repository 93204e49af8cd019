//! A scripted model server on loopback that speaks Anthropic Messages and OpenAI Chat Completions.
//!
//! The script is the same for both formats: a test writes what the model says, the wire renders it.
//! Nothing waits for time to pass; a reply is held by a [`Gate`] the test opens.
//!
//! ```no_run
//! # use nexus_testkit::{Daemon, DaemonOptions, Workspace};
//! # use nexus_testkit::model::{Gate, ModelServer, Reply, Wire};
//! # use serde_json::json;
//! let server = ModelServer::start();
//! // One reply per request, in order. Calls and text may be mixed; several calls run in parallel.
//! server.script([
//!     Reply::text("I send somebody.").call("agent_send", &json!({"op": "dispatch", "text": "count files"})),
//!     Reply::text("Waiting for the count."),
//! ]);
//! // Or by what was asked; the first that gives a reply wins, before the script.
//! server.answer(|asked| asked.has_tool("bash").then(|| Reply::text("There are 3 files.")));
//! server.answer(|asked| asked.last_text().contains("worker_result").then(|| Reply::text("Three.")));
//!
//! // A daemon that talks to it: no question is asked, because the configuration names the provider.
//! let mut workspace = Workspace::initialized(env!("CARGO_MANIFEST_DIR"));
//! server.configure(&mut workspace, Wire::Anthropic);
//! let daemon = Daemon::start(&workspace, &DaemonOptions::default());
//! // … chat, then look at what the model was sent:
//! let asked = server.asked();
//! assert!(asked[0].system().contains("manager"));
//!
//! // Trouble: statuses, held replies, cuts, bytes one by one.
//! let gate = Gate::new();
//! server.script([
//!     Reply::status(429, "slow down").header("retry-after", "1"),
//!     Reply::text("split anywhere").bytes_at_once(1),
//!     Reply::text("first piece, second piece").pieces(2).hold_after(3, &gate),
//!     Reply::text("gone").cut_after(2),
//! ]);
//! gate.wait_reached(); // the server has sent three events and waits
//! gate.open();
//! ```

mod asked;
mod gate;
mod reply;
mod serve;
#[cfg(test)]
mod tests;
mod wire;

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;

use crate::{Workspace, until};

pub use asked::{Asked, Wire};
pub use gate::Gate;
pub use reply::{Reply, Tokens};

/// What the server calls its one model unless told otherwise.
pub const MODEL: &str = "scripted-1";

type Answerer = Box<dyn Fn(&Asked) -> Option<Reply> + Send + Sync>;

/// A running server; it ends with this value.
#[derive(Debug)]
pub struct ModelServer {
    port: u16,
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) ended: AtomicBool,
    pub(crate) models: Mutex<Vec<String>>,
    pub(crate) asked: Mutex<Vec<Asked>>,
    script: Mutex<Script>,
}

#[derive(Default)]
struct Script {
    answerers: Vec<Arc<Answerer>>,
    replies: std::collections::VecDeque<Reply>,
    otherwise: Option<Reply>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Shared").field("asked", &self.asked).finish_non_exhaustive()
    }
}

impl ModelServer {
    /// Starts a server on a free port. Until it is told what to say it answers 400 "the script is over".
    pub fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("a bound socket has an address").port();
        let shared = Arc::new(Shared {
            ended: AtomicBool::new(false),
            models: Mutex::new(vec![MODEL.to_owned()]),
            asked: Mutex::default(),
            script: Mutex::default(),
        });
        let served = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if served.ended.load(Ordering::Acquire) {
                    return;
                }
                let (Ok(stream), shared) = (stream, Arc::clone(&served)) else { continue };
                std::thread::spawn(move || serve::connection(&stream, &shared));
            }
        });
        Self { port, shared }
    }

    /// Adds replies, given one per request in this order, after those that wait already.
    pub fn script(&self, replies: impl IntoIterator<Item = Reply>) {
        self.shared.script.lock().unwrap().replies.extend(replies);
    }

    /// Answers by what was asked; looked at before the script, in the order they were added.
    pub fn answer(&self, answerer: impl Fn(&Asked) -> Option<Reply> + Send + Sync + 'static) {
        self.shared.script.lock().unwrap().answerers.push(Arc::new(Box::new(answerer)));
    }

    /// Says what is answered when the script is over.
    pub fn otherwise(&self, reply: Reply) {
        self.shared.script.lock().unwrap().otherwise = Some(reply);
    }

    /// Names the models that `GET /v1/models` lists.
    pub fn models(&self, names: &[&str]) {
        *self.shared.models.lock().unwrap() = names.iter().map(|name| (*name).to_owned()).collect();
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the address to configure as a provider's base URL.
    pub fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Returns every request for a reply so far, oldest first.
    pub fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().unwrap().iter().filter(|asked| asked.is_conversation()).cloned().collect()
    }

    /// Returns every request so far, lists of models included.
    pub fn everything_asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().unwrap().clone()
    }

    /// Waits until so many replies were asked for and returns them.
    ///
    /// # Panics
    /// They do not come within 30 seconds.
    pub fn wait_for(&self, count: usize) -> Vec<Asked> {
        until(&format!("{count} requests to the model"), Duration::from_secs(30), || {
            let asked = self.asked();
            (asked.len() >= count).then_some(asked)
        })
    }

    /// Waits until the client has hung up on the request of this number, counted from 0.
    ///
    /// # Panics
    /// It does not within 30 seconds.
    pub fn wait_for_hangup(&self, number: usize) {
        until("the client to hang up", Duration::from_secs(30), || {
            self.asked().get(number).is_some_and(|asked| asked.hung_up()).then_some(())
        });
    }

    /// Makes a workspace's daemon talk to this server in one format: provider, model and address in the
    /// configuration, a key in the environment. Naming them there is consent, so nobody is asked.
    pub fn configure(&self, workspace: &mut Workspace, wire: Wire) {
        let provider = wire.provider();
        workspace.set_variable(wire.key_variable(), wire.key());
        workspace.edit_config(|config| {
            config["agent"]["provider"] = json!(provider);
            config["agent"]["model"] = json!(MODEL);
            config["providers"][provider]["base_url"] = json!(self.base_url());
        });
    }
}

impl Shared {
    pub(crate) fn reply_to(&self, asked: &Asked) -> Reply {
        // An answerer may take its time or ask the server something; the lock is not held meanwhile.
        let answerers = self.script.lock().unwrap().answerers.clone();
        if let Some(reply) = answerers.iter().find_map(|answerer| answerer(asked)) {
            return reply;
        }
        let mut script = self.script.lock().unwrap();
        let next = script.replies.pop_front().or_else(|| script.otherwise.clone());
        next.unwrap_or_else(|| Reply::status(400, "the script is over"))
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        // Wakes the accepting thread.
        drop(TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)));
    }
}
