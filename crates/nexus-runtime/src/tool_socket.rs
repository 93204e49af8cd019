//! `nexus …` inside a tool call: served over a socket that belongs to that one call.
//!
//! The command runs here, in the daemon, with the worker's rights: it sees the daemon's start-up
//! environment (names and masked values only) and never a token. What could widen anybody's rights
//! is refused, whoever asks.

use std::io;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::Arc;

use nexus_credentials::{CredentialFolder, Depth, scan};
use nexus_memory::{Memory, Provenance, RecallRequest};
use nexus_protocol::run::{MAX_LINE_LEN, RunReply, RunRequest};
use nexus_tools::OpenToolSocket;
use nexus_workspace::config::Settings;
use nexus_workspace::trust::Trust;
use nexus_workspace::{Layout, skills};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use nexus_pipeline::agent_factory::ToolSockets;

use crate::report::{self, StatusRequest};
use nexus_base::error::chain;

/// Longest skill text given, in bytes.
const MAX_SKILL_LEN: u64 = 256 * 1024;
/// Facts a `memory recall` inside a call gives at most.
const RECALL_LIMIT: usize = 10;

/// Commands of the daemon that workers may use.
#[derive(Debug)]
pub(crate) struct ToolCommands {
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) layout: Layout,
    pub(crate) settings: Settings,
    pub(crate) trust: Trust,
    pub(crate) memory: Memory,
    pub(crate) runtime: tokio::runtime::Handle,
}

impl ToolSockets for ToolCommands {
    /// The program gets one end; the other is served until it closes.
    fn opener(self: Arc<Self>) -> OpenToolSocket {
        let commands = self;
        Arc::new(move |provenance| {
            let (ours, theirs) = StdUnixStream::pair()?;
            ours.set_nonblocking(true)?;
            let _inside = commands.runtime.enter();
            let ours = UnixStream::from_std(ours)?;
            let commands = Arc::clone(&commands);
            let served = commands.runtime.clone();
            served.spawn(async move {
                if let Err(error) = commands.serve(ours, provenance).await {
                    tracing::debug!(%error, "socket of a tool call ended");
                }
            });
            Ok(theirs)
        })
    }
}

impl ToolCommands {
    async fn serve(&self, stream: UnixStream, provenance: Provenance) -> io::Result<()> {
        let (read, mut write) = stream.into_split();
        let mut read = BufReader::new(read);
        loop {
            let mut line = Vec::new();
            let limit = u64::try_from(MAX_LINE_LEN).unwrap_or(u64::MAX);
            if (&mut read).take(limit).read_until(b'\n', &mut line).await? == 0 {
                return Ok(());
            }
            // Half a line is no request, and its rest would be taken for another one.
            let whole = line.last() == Some(&b'\n') || line.len() < MAX_LINE_LEN;
            let reply = match serde_json::from_slice::<RunRequest>(&line) {
                _ if !whole => failed(&format!("the request is longer than {MAX_LINE_LEN} bytes"), None),
                Ok(request) => self.run(&request.arguments, provenance).await,
                Err(error) => failed(&format!("the request cannot be read: {error}"), None),
            };
            let mut answer = serde_json::to_vec(&reply).map_err(io::Error::other)?;
            answer.push(b'\n');
            write.write_all(&answer).await?;
            if !whole {
                return Ok(());
            }
        }
    }

    async fn run(&self, arguments: &[String], provenance: Provenance) -> RunReply {
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["status", ..] => self.status(),
            ["skills", "list", ..] => self.skills(),
            ["skills", "use", name] => self.skill(name),
            ["credential", "scan", flags @ ..] => self.credential_scan(flags),
            ["credential", "list", ..] => self.credential_list(),
            ["memory", "recall", query @ ..] if !query.is_empty() => self.recall(&plain(query)).await,
            ["memory", "add", text @ ..] if !text.is_empty() => self.remember(&plain(text), provenance).await,
            _ => failed(
                &format!("`nexus {}` is not available inside a tool call", words.join(" ")),
                Some(
                    "status, skills list|use, credential scan|list and memory recall|add are; for anything else, ask \
                     the owner to run it in a terminal",
                ),
            ),
        }
    }

    fn credential_scan(&self, flags: &[&str]) -> RunReply {
        let known = ["--json", "--deep", "--import", "--yes"];
        if let Some(unknown) = flags.iter().find(|flag| !known.contains(flag)) {
            return failed(
                &format!("credential scan has no option {unknown}"),
                Some("use --deep, --import, --yes, --json"),
            );
        }
        let depth = if flags.contains(&"--deep") { Depth::Deep } else { Depth::Known };
        let folder = CredentialFolder::new(self.layout.credentials());
        let mut findings = scan(&self.environment, depth);
        let outcome = if flags.contains(&"--import") {
            folder.import(&mut findings)
        } else {
            folder.mark_imported(&mut findings)
        };
        if let Err(error) = outcome {
            return failed(&chain(&error), None);
        }
        if flags.contains(&"--json") {
            return json(&findings);
        }
        let mut text = String::new();
        for finding in &findings.findings {
            text.push_str(&format!("{}  {}  {}\n", finding.variable, finding.service, finding.masked));
        }
        if findings.findings.is_empty() {
            text.push_str("no credentials in the environment\n");
        }
        for name in &findings.imported {
            text.push_str(&format!("imported {name}\n"));
        }
        done(text)
    }

    fn status(&self) -> RunReply {
        let request = StatusRequest { layout: &self.layout, settings: &self.settings, trust: self.trust };
        match report::status(&request) {
            Ok(status) => json(&status),
            Err(error) => failed(&chain(&error), None),
        }
    }

    fn skills(&self) -> RunReply {
        match skills::names(&self.layout) {
            Ok(names) if names.is_empty() => done("no skills are installed\n".to_owned()),
            Ok(names) => done(names.iter().map(|name| format!("{name}\n")).collect()),
            Err(error) => failed(&chain(&error), None),
        }
    }

    fn skill(&self, name: &str) -> RunReply {
        match skills::names(&self.layout) {
            // Only a name from the list is ever looked up, so it cannot be a path to somewhere else.
            Ok(names) if names.iter().any(|known| known == name) => {
                let path = self.layout.skills().join(name).join("SKILL.md");
                match nexus_base::file::read_text(&path, MAX_SKILL_LEN) {
                    Ok(text) => done(text),
                    Err(error) => failed(&chain(&error), None),
                }
            }
            Ok(_) => failed(&format!("no skill {name}"), Some("`nexus skills list` shows the existing ones")),
            Err(error) => failed(&chain(&error), None),
        }
    }

    fn credential_list(&self) -> RunReply {
        match CredentialFolder::new(self.layout.credentials()).list() {
            Ok(listed) => json(&listed),
            Err(error) => failed(&chain(&error), None),
        }
    }

    async fn recall(&self, query: &str) -> RunReply {
        match self.memory.tell(RecallRequest::new(query).limit(RECALL_LIMIT)).await {
            Ok(found) if found.is_empty() => done("nothing found\n".to_owned()),
            Ok(found) => done(found.iter().map(|fact| format!("{}  {}\n", fact.as_of, fact.text)).collect()),
            Err(error) => failed(&error.to_string(), None),
        }
    }

    async fn remember(&self, text: &str, provenance: Provenance) -> RunReply {
        match self.memory.remember(text, None, provenance).await {
            Ok(id) => done(format!("{id}\n")),
            Err(error) => failed(&error.to_string(), None),
        }
    }
}

fn plain(words: &[&str]) -> String {
    words.iter().filter(|word| **word != "--json").copied().collect::<Vec<_>>().join(" ")
}

fn json(value: &impl serde::Serialize) -> RunReply {
    match serde_json::to_string(value) {
        Ok(text) => done(format!("{text}\n")),
        Err(error) => failed(&error.to_string(), None),
    }
}

fn done(stdout: String) -> RunReply {
    RunReply { exit_code: 0, stdout, stderr: String::new() }
}

fn failed(message: &str, hint: Option<&str>) -> RunReply {
    let hint = hint.map(|hint| format!("hint: {hint}\n")).unwrap_or_default();
    RunReply { exit_code: 1, stdout: String::new(), stderr: format!("error: {message}\n{hint}") }
}
