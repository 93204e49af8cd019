//! The project layer under a crowd and under random kills: servers call tools on one project at once,
//! then are killed again and again. Whatever was acknowledged is there once, the files always parse.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::command::{self, Profile};
use crate::random::Random;

/// Servers that work at once.
const CROWD: usize = 8;
/// Latest moment of a kill after its round began.
const LATEST_KILL: Duration = Duration::from_millis(120);
/// Servers at work when the kill comes.
const VICTIMS: usize = 2;

/// Runs both parts and prints what they found.
pub(crate) fn run(rounds: usize, calls: usize, seed: Option<u64>, binary: Option<&Path>) -> Result<()> {
    let binary = command::nexus(binary, Profile::Release)?;
    let seed = seed.unwrap_or_else(|| {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_millis() as u64)
    });
    println!("soak project: {calls} calls by {CROWD} processes, then {rounds} kills, seed {seed}");
    crowd(&binary, calls)?;
    kills(&binary, rounds, seed)
}

/// What was asked for under a name of its own, and whether it was acknowledged.
type Told = BTreeMap<String, bool>;

fn crowd(binary: &Path, calls: usize) -> Result<()> {
    let folder = tempfile::tempdir().context("making a folder")?;
    let began = Instant::now();
    let told: Vec<Told> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..CROWD)
            .map(|worker| {
                let root = folder.path();
                scope.spawn(move || -> Result<Told> {
                    let mut server = Server::start(binary, root)?;
                    let mut told = Told::new();
                    for call in 0..calls / CROWD {
                        work(&mut server, &format!("w{worker}-{call}"), call, &mut told)?;
                    }
                    Ok(told)
                })
            })
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|_| bail!("a worker panicked")))
            .collect::<Result<_>>()
    })?;
    let told: Told = told.into_iter().flatten().collect();
    judge(folder.path(), &told)?;
    let seconds = began.elapsed().as_secs_f64();
    println!("  crowd: {calls} calls in {seconds:.1} s, {} plans and tasks, each there once", told.len());
    Ok(())
}

fn kills(binary: &Path, rounds: usize, seed: u64) -> Result<()> {
    let folder = tempfile::tempdir().context("making a folder")?;
    let mut random = Random::new(seed);
    let mut told = Told::new();
    for round in 1..=rounds {
        let moment = Duration::from_micros(random.below(LATEST_KILL.as_micros() as u64));
        let servers =
            (0..VICTIMS).map(|_| Server::start(binary, folder.path())).collect::<Result<Vec<_>>>()?;
        let pids: Vec<u32> = servers.iter().map(|server| server.child.id()).collect();
        let heard: Vec<Told> = std::thread::scope(|scope| {
            let workers: Vec<_> = servers
                .into_iter()
                .zip(0..)
                .map(|(mut server, worker)| {
                    scope.spawn(move || {
                        let mut told = Told::new();
                        // Ends when the server does.
                        for call in 0.. {
                            if work(&mut server, &format!("k{round}-{worker}-{call}"), call, &mut told)
                                .is_err()
                            {
                                break;
                            }
                        }
                        told
                    })
                })
                .collect();
            std::thread::sleep(moment);
            for pid in pids {
                kill(pid);
            }
            workers.into_iter().map(|worker| worker.join().unwrap_or_default()).collect()
        });
        told.extend(heard.into_iter().flatten());
        // Whoever comes next repairs what was left.
        let mut next = Server::start(binary, folder.path())?;
        next.call("task_add", &json!({ "title": format!("after-{round}"), "context": "c" }))
            .with_context(|| format!("after kill {round}, seed {seed}"))?;
        told.insert(format!("after-{round}"), true);
        judge(folder.path(), &told).with_context(|| format!("after kill {round}, seed {seed}"))?;
        if round % 20 == 0 {
            let acknowledged = told.values().filter(|heard| **heard).count();
            println!("  {round} kills, {acknowledged} of {} acknowledged", told.len());
        }
    }
    println!(
        "  {rounds} kills: of {} plans and tasks none is lost or doubled, and every file parses",
        told.len()
    );
    Ok(())
}

/// One call of a round: plans, tasks, decisions, searches, artifacts, closings.
fn work(server: &mut Server, name: &str, call: usize, told: &mut Told) -> Result<()> {
    let plan = json!({ "topic": name, "issues": ["a", "b"], "research_summary": "r" });
    let task = json!({ "title": name, "context": "c", "decisions": ["d"] });
    match call % 8 {
        0 => {
            told.insert(name.to_owned(), false);
            server.call("plan_start", &plan)?;
            told.insert(name.to_owned(), true);
        }
        1..=3 => {
            told.insert(name.to_owned(), false);
            server.call("task_add", &task)?;
            told.insert(name.to_owned(), true);
        }
        // Somebody else may have closed the plan or the task; being told so is an answer.
        4 => drop(server.ask("plan_decide", &json!({ "issue_id": 1, "decision": name }))?),
        5 => drop(server.call("history_search", &json!({ "query": "w1" }))?),
        6 => drop(server.call("artifact_write", &json!({ "filename": "notes/a.md", "content": name }))?),
        _ => drop(server.call("task_close", &json!({}))?),
    }
    Ok(())
}

/// Everything acknowledged is there once; what was not may be there, but not twice.
fn judge(root: &Path, told: &Told) -> Result<()> {
    let mut found = BTreeMap::<String, usize>::new();
    let mut ids = BTreeSet::new();
    let mut count = |name: &Value| {
        if let Some(name) = name.as_str() {
            *found.entry(name.to_owned()).or_default() += 1;
        }
    };
    let history = read(root, "history.json")?.unwrap_or_default();
    let cycles = history["cycles"].as_array().map(Vec::as_slice).unwrap_or_default();
    for cycle in cycles {
        count(&cycle["plan"]["topic"]);
        if let Some(id) = cycle["plan"]["id"].as_u64() {
            ensure!(ids.insert(id), "plan {id} is archived twice");
        }
        cycle["tasks"].as_array().into_iter().flatten().for_each(|task| count(&task["title"]));
    }
    if let Some(plan) = read(root, "state/plan.json")? {
        count(&plan["topic"]);
        ensure!(
            plan["id"].as_u64().is_some_and(|id| ids.insert(id)),
            "the open plan has an id of an archived one"
        );
    }
    let tasks = read(root, "state/tasks.json")?.unwrap_or_default();
    let open = tasks["tasks"].as_array().map(Vec::as_slice).unwrap_or_default();
    open.iter().for_each(|task| count(&task["title"]));
    let distinct: BTreeSet<Option<u64>> = open.iter().map(|task| task["id"].as_u64()).collect();
    ensure!(distinct.len() == open.len(), "two open tasks share an id");
    for (name, heard) in told {
        let times = found.get(name).copied().unwrap_or(0);
        ensure!(times < 2, "{name} is there {times} times");
        ensure!(times == 1 || !heard, "{name} was acknowledged and is lost");
    }
    Ok(())
}

fn read(root: &Path, name: &str) -> Result<Option<Value>> {
    match std::fs::read(root.join(".nexus").join(name)) {
        Ok(bytes) => {
            serde_json::from_slice(&bytes).map(Some).with_context(|| format!("{name} does not parse"))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("reading {name}")),
    }
}

fn kill(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) {
        // One that has ended needs no killing.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

/// A `nexus mcp` that is talked to.
struct Server {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    asked: u64,
}

impl Server {
    fn start(binary: &Path, root: &Path) -> Result<Self> {
        let mut child = Command::new(binary)
            .args(["mcp", "--project"])
            .arg(root)
            .current_dir(root)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting nexus mcp")?;
        let input = child.stdin.take().context("the server's input")?;
        let output = BufReader::new(child.stdout.take().context("the server's output")?);
        let mut server = Self { child, input, output, asked: 0 };
        server.request(
            "initialize",
            &json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "soak", "version": "1" } }),
        )?;
        Ok(server)
    }

    fn request(&mut self, method: &str, parameters: &Value) -> Result<Value> {
        self.asked += 1;
        let message = json!({ "jsonrpc": "2.0", "id": self.asked, "method": method, "params": parameters });
        writeln!(self.input, "{message}")?;
        let mut line = String::new();
        ensure!(self.output.read_line(&mut line)? > 0, "the server is gone");
        let mut answer: Value = serde_json::from_str(&line)?;
        ensure!(answer["error"].is_null(), "{method}: {}", answer["error"]);
        Ok(answer["result"].take())
    }

    /// Calls a tool and returns its answer, whatever it says.
    fn ask(&mut self, tool: &str, arguments: &Value) -> Result<Value> {
        let result = self.request("tools/call", &json!({ "name": tool, "arguments": arguments }))?;
        Ok(serde_json::from_str(result["content"][0]["text"].as_str().unwrap_or_default())?)
    }

    /// Calls a tool that must do what is asked.
    fn call(&mut self, tool: &str, arguments: &Value) -> Result<Value> {
        let answer = self.ask(tool, arguments)?;
        ensure!(answer.get("error").is_none(), "{tool}: {answer}");
        Ok(answer)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        kill(self.child.id());
        let _ = self.child.wait();
    }
}
