//! A workspace whose model does exactly what the message says; see [`nexus_testkit::script`].

use std::sync::atomic::{AtomicUsize, Ordering};

use nexus_testkit::model::{ModelServer, Wire};
use nexus_testkit::script::{SELF, WORK, results_of};
use nexus_testkit::{Daemon, DaemonOptions, Workspace};
use serde_json::{Value, json};

pub(crate) use nexus_testkit::script::server;

/// A workspace, its daemon and its model.
pub(crate) struct Scripted {
    pub(crate) workspace: Workspace,
    pub(crate) server: ModelServer,
    pub(crate) daemon: Daemon,
    count: AtomicUsize,
}

/// What came of one message.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) request: String,
    /// Results of the calls, in order.
    pub(crate) results: Vec<String>,
    /// The last reply.
    pub(crate) reply: String,
}

/// Makes an onboarded workspace that talks to `server`.
pub(crate) fn workspace(server: &ModelServer) -> Workspace {
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    onboarded(workspace, server)
}

/// Makes a workspace one that is onboarded and talks to `server`.
pub(crate) fn onboarded(mut workspace: Workspace, server: &ModelServer) -> Workspace {
    server.configure(&mut workspace, Wire::Anthropic);
    workspace.write("state/agents/ada/IDENTITY.md", "---\nname: Ada\n---\nAda helps.\n");
    workspace.write("state/agents/ada/SOUL.md", "Kind and exact.\n");
    workspace.write("state/user/IDENTITY.md", "---\nname: Tim\n---\nTim owns it.\n");
    workspace
}

impl Scripted {
    /// Starts everything; `prepare` may change the workspace before the daemon runs.
    pub(crate) fn start(prepare: impl FnOnce(&mut Workspace)) -> Self {
        let server = server();
        let workspace = workspace(&server);
        Self::start_in(workspace, server, prepare)
    }

    /// Starts the daemon of a workspace; `prepare` may change it before.
    pub(crate) fn start_in(
        mut workspace: Workspace,
        server: ModelServer,
        prepare: impl FnOnce(&mut Workspace),
    ) -> Self {
        prepare(&mut workspace);
        let daemon = Daemon::start(&workspace, &DaemonOptions::default());
        Self { workspace, server, daemon, count: AtomicUsize::new(0) }
    }

    /// Has a worker make these calls.
    pub(crate) fn work(&self, calls: &Value) -> Done {
        self.finish(&self.begin(WORK, calls))
    }

    /// Has a worker make these calls, in another conversation.
    pub(crate) fn work_in(&self, session: &str, calls: &Value) -> Done {
        self.finish(&self.begin_in(WORK, calls, Some(session)))
    }

    /// Has the manager make these calls.
    pub(crate) fn manage(&self, calls: &Value) -> Done {
        self.finish(&self.begin(SELF, calls))
    }

    /// Sends a worker off and returns at once, with the request and the mark of this message.
    pub(crate) fn begin_work(&self, calls: &Value) -> (String, String) {
        self.begin(WORK, calls)
    }

    fn begin(&self, who: &str, calls: &Value) -> (String, String) {
        self.begin_in(who, calls, None)
    }

    fn begin_in(&self, who: &str, calls: &Value, session: Option<&str>) -> (String, String) {
        let mark = format!("mark-{}", self.count.fetch_add(1, Ordering::Relaxed));
        let mut body = json!({ "message": format!("{who}{} {mark}", json!(calls)) });
        if let Some(session) = session {
            body["session"] = json!(session);
        }
        let accepted = self.daemon.post("/api/chat", &body).json();
        let request = accepted["requestId"].as_str().unwrap_or_else(|| panic!("{accepted}")).to_owned();
        (request, mark)
    }

    /// Waits for the end of a message.
    pub(crate) fn finish(&self, (request, mark): &(String, String)) -> Done {
        let waited = self.daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=60000")).json();
        assert_eq!(waited["quiescent"], true, "{waited}\n{}", self.daemon.log());
        let replies = waited["replies"].as_array().cloned().unwrap_or_default();
        let reply = replies.last().and_then(|line| line["text"].as_str()).unwrap_or_default().to_owned();
        Done { request: request.clone(), results: self.results(mark), reply }
    }

    /// Returns the results the model was told for the message with this mark.
    pub(crate) fn results(&self, mark: &str) -> Vec<String> {
        results_of(&self.server, mark)
    }
}
