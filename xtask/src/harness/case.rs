//! One scenario for each harness: markers of all four files reach the model, a tool of ours answers,
//! an unplanned edit is refused with our reason, context is there after compaction.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::model::{Model, Step};

/// Longest one run of a harness may take.
const PATIENCE: Duration = Duration::from_secs(180);
/// What a request claims to hold when a harness should shorten its conversation.
const MANY_TOKENS: u32 = 50_000;

const MARKS: [&str; 4] = ["MARK-IDENTITY", "MARK-SOUL", "MARK-USER", "MARK-AGENTS"];

/// Returns what a harness's program is called.
pub(super) fn program(name: &str) -> &str {
    match name {
        "claude-code" => "claude",
        other => other,
    }
}

/// A workspace with a persona and a project, bound to one harness, and a home of its own.
struct Ground {
    folder: tempfile::TempDir,
    binary: PathBuf,
    tools: PathBuf,
}

impl Ground {
    fn bound(name: &str, binary: &Path, tools: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("nexus-harness-").tempdir()?;
        let ground = Self { folder, binary: binary.to_owned(), tools: tools.to_owned() };
        for part in ["home", "bin", "workspace"] {
            std::fs::create_dir(ground.path(part))?;
        }
        std::os::unix::fs::symlink(binary, ground.path("bin/nexus"))?;
        ground.nexus(&["init", "--workspace", &ground.workspace().to_string_lossy()])?;
        let files = [
            ("state/agents/atlas/IDENTITY.md", "---\nname: Atlas\n---\nMARK-IDENTITY\n"),
            ("state/agents/atlas/SOUL.md", "MARK-SOUL\n"),
            ("state/user/IDENTITY.md", "---\nname: Kim\n---\nMARK-USER\n"),
        ];
        for (file, text) in files {
            let path = ground.workspace().join(file);
            std::fs::create_dir_all(path.parent().context("a file has a folder")?)?;
            std::fs::write(path, text)?;
        }
        let agents = ground.workspace().join("AGENTS.md");
        std::fs::write(&agents, format!("{}\nMARK-AGENTS\n", std::fs::read_to_string(&agents)?))?;
        ground.nexus(&["project", "init"])?;
        ground.nexus(&["bindings", name])?;
        Ok(ground)
    }

    fn path(&self, part: &str) -> PathBuf {
        self.folder.path().join(part)
    }

    fn workspace(&self) -> PathBuf {
        // Harnesses compare real paths.
        self.path("workspace").canonicalize().unwrap_or_else(|_| self.path("workspace"))
    }

    /// Prepares a program with nothing of the caller's environment.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        let inherited = std::env::var("PATH").unwrap_or_default();
        let path = format!(
            "{}:{}:{inherited}",
            self.path("bin").display(),
            self.tools.join("node_modules/.bin").display()
        );
        command.env_clear().env("PATH", path).env("HOME", self.path("home")).env("TERM", "dumb");
        command.current_dir(self.workspace());
        command
    }

    fn nexus(&self, arguments: &[&str]) -> Result<()> {
        let output = self.command(&self.binary).args(arguments).output().context("starting nexus")?;
        let words = arguments.join(" ");
        ensure!(output.status.success(), "nexus {words}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// Runs the harness once with these lines as its input, each given when the model has been asked
    /// as often as the line says.
    fn run(&self, name: &str, model: &Model, setting: Setting) -> Result<String> {
        let program = self.tools.join("node_modules/.bin").join(program(name));
        let mut command = self.command(&program);
        self.dress(name, &mut command, model.port, setting)?;
        let log = std::fs::File::create(self.path("out"))?;
        let lines = setting.lines(name);
        // A harness that finds an open input waits for its end before it begins.
        command.stdin(if lines.is_empty() { Stdio::null() } else { Stdio::piped() });
        command.stdout(log.try_clone()?).stderr(log);
        let mut child = command.spawn().with_context(|| format!("starting {name}"))?;
        let deadline = Instant::now() + PATIENCE;
        let mut input = child.stdin.take();
        let requests = lines.len() + 1;
        for (line, asked) in lines {
            while model.asked().len() < asked && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(50));
            }
            writeln!(input.as_mut().context("an input")?, "{line}")?;
        }
        // Some end by themselves, one ends with its input: when the last line was answered.
        while input.is_some()
            && model.asked().len() < requests
            && child.try_wait()?.is_none()
            && Instant::now() < deadline
        {
            std::thread::sleep(Duration::from_millis(50));
        }
        drop(input);
        loop {
            if child.try_wait()?.is_some() {
                break;
            }
            if Instant::now() > deadline {
                child.kill()?;
                bail!("{name} did not end in {PATIENCE:?}: {}", tail(&self.output()));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(self.output())
    }

    fn output(&self) -> String {
        std::fs::read_to_string(self.path("out")).unwrap_or_default()
    }

    /// Gives a harness its arguments and environment.
    fn dress(&self, name: &str, command: &mut Command, port: u16, setting: Setting) -> Result<()> {
        let url = format!("http://127.0.0.1:{port}");
        match name {
            "claude-code" => {
                command.envs([("ANTHROPIC_BASE_URL", url.as_str()), ("ANTHROPIC_API_KEY", "x")]);
                command
                    .envs([("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"), ("DISABLE_AUTOUPDATER", "1")]);
                command.args(["-p", "--permission-mode", "acceptEdits"]);
                match setting {
                    Setting::Once => command.arg("hello"),
                    Setting::Compacts => command.args([
                        "--input-format",
                        "stream-json",
                        "--output-format",
                        "stream-json",
                        "--verbose",
                    ]),
                };
            }
            "codex" => {
                let provider = format!(
                    "model_providers.scripted={{name=\"scripted\",base_url=\"{url}/v1\",wire_api=\"responses\",env_key=\"KEY\"}}"
                );
                let trust =
                    format!("projects={{\"{}\"={{trust_level=\"trusted\"}}}}", self.workspace().display());
                command.env("KEY", "x").args(["exec", "--skip-git-repo-check"]);
                command
                    .args(["--dangerously-bypass-approvals-and-sandbox", "--dangerously-bypass-hook-trust"]);
                command.args(["-c", "model=\"scripted\"", "-c", "model_provider=\"scripted\""]);
                if matches!(setting, Setting::Compacts) {
                    command.args(["-c", "model_auto_compact_token_limit=20000"]);
                }
                command.args(["-c", &provider, "-c", &trust, "hello"]);
            }
            "opencode" => {
                let config = json!({"model": "scripted/m", "small_model": "scripted/m", "provider": {"scripted": {
                    "npm": "@ai-sdk/openai-compatible", "options": {"baseURL": format!("{url}/v1"), "apiKey": "x"},
                    "models": {"m": {"tool_call": true, "limit": {"context": 100_000, "output": 4_000}}}}}});
                command.env("OPENCODE_CONFIG_CONTENT", config.to_string()).args(["run", "hello"]);
            }
            "gemini" => {
                let settings = self.path("home/.gemini/settings.json");
                std::fs::create_dir_all(settings.parent().context("a file has a folder")?)?;
                std::fs::write(settings, r#"{"security":{"auth":{"selectedType":"gemini-api-key"}}}"#)?;
                command.envs([("GEMINI_API_KEY", "x"), ("GOOGLE_GEMINI_BASE_URL", url.as_str())]);
                command.env("GEMINI_CLI_TRUST_WORKSPACE", "true").args([
                    "-m",
                    "gemini-2.5-pro",
                    "-y",
                    "-p",
                    "hello",
                ]);
            }
            "qwen" => {
                command.envs([("OPENAI_API_KEY", "x"), ("OPENAI_MODEL", "m")]);
                command.env("OPENAI_BASE_URL", format!("{url}/v1"));
                command.args(["--auth-type", "openai", "-y", "-p", "hello"]);
            }
            other => bail!("nobody knows how to start {other}"),
        }
        Ok(())
    }
}

/// How a harness is run.
#[derive(Clone, Copy)]
enum Setting {
    /// One prompt.
    Once,
    /// A prompt, then the conversation is shortened, then it goes on.
    Compacts,
}

impl Setting {
    /// Lines of input and after how many requests each is given.
    fn lines(&self, name: &str) -> Vec<(String, usize)> {
        let said =
            |text: &str| json!({"type": "user", "message": {"role": "user", "content": text}}).to_string();
        match self {
            Self::Compacts if name == "claude-code" => {
                vec![(said("one"), 0), (said("/compact"), 1), (said("two"), 2)]
            }
            Self::Once | Self::Compacts => Vec::new(),
        }
    }
}

/// Plays the scenario of a harness that can be run here; returns what was seen.
pub(super) fn play(name: &str, binary: &Path, tools: &Path) -> Result<Vec<String>> {
    let ground = Ground::bound(name, binary, tools)?;
    let file = ground.workspace().join("unplanned.txt");
    let patch = "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: unplanned.txt\n+x\n*** End Patch\nEOF";
    let (list, tool, arguments) = match name {
        "claude-code" => ("mcp__nexus__task_list", "Write", json!({"file_path": file, "content": "x"})),
        "codex" => ("mcp__nexus__task_list", "exec_command", json!({"cmd": patch})),
        "opencode" => ("nexus_task_list", "write", json!({"filePath": file, "content": "x"})),
        "gemini" => ("mcp_nexus_task_list", "write_file", json!({"file_path": file, "content": "x"})),
        _ => ("mcp__nexus__task_list", "write_file", json!({"file_path": file, "content": "x"})),
    };
    let call = |tool: &str, arguments: Value| Step::Call { tool: tool.to_owned(), arguments };
    let model = Model::start(vec![call(list, json!({})), call(tool, arguments), Step::Say("done")], 10)?;
    let output = ground.run(name, &model, Setting::Once)?;
    let asked: Vec<String> = model.asked().iter().map(Value::to_string).collect();
    ensure!(asked.len() >= 3, "the model was asked {} times: {}", asked.len(), tail(&output));
    let mut seen = Vec::new();
    for mark in MARKS {
        ensure!(asked[0].contains(mark), "{mark} did not reach the model");
    }
    ensure!(asked[0].contains("# Nexus Session Bootstrap"), "the session's text did not reach the model");
    seen.push("markers of four files".to_owned());
    ensure!(asked[1].contains("exists"), "task_list did not answer: {}", tail(&output));
    let listed = asked[0].contains("task_list");
    seen.push(
        if listed { "tools listed, one called" } else { "one tool called; the harness hides them" }
            .to_owned(),
    );
    ensure!(
        asked[2].contains("No task covers"),
        "the edit was not refused with our reason: {}",
        tail(&output)
    );
    ensure!(!file.exists(), "the file was written");
    seen.push("unplanned edit refused".to_owned());
    if let Some(words) = after_compaction(name, &ground)? {
        seen.push(words);
    }
    let output = ground.command(&ground.binary).args(["bindings", "list", "--json"]).output()?;
    let standing: Value = serde_json::from_slice(&output.stdout).context("reading nexus bindings list")?;
    let state = standing["bindings"].as_array().into_iter().flatten().find(|one| one["harness"] == name);
    ensure!(state.is_some_and(|one| one["state"] == "active"), "not seen as active: {standing}");
    seen.push("active".to_owned());
    Ok(seen)
}

/// Lets the conversation be shortened where a harness does that without a person, and looks whether
/// the context came back.
fn after_compaction(name: &str, ground: &Ground) -> Result<Option<String>> {
    let (steps, tokens) = match name {
        "claude-code" => (vec![Step::Say("fine")], 10),
        "codex" => {
            let call = Step::Call { tool: "mcp__nexus__task_list".to_owned(), arguments: json!({}) };
            (vec![call, Step::Say("done")], MANY_TOKENS)
        }
        _ => return Ok(None),
    };
    let model = Model::start(steps, tokens)?;
    let output = ground.run(name, &model, Setting::Compacts)?;
    let asked = model.asked();
    let last = asked.last().map(Value::to_string).unwrap_or_default();
    ensure!(asked.len() >= 2, "nothing was asked after compaction: {}", tail(&output));
    ensure!(
        output.to_lowercase().contains("compact"),
        "the conversation was not shortened: {}",
        tail(&output)
    );
    ensure!(
        last.contains("# Nexus Session Bootstrap") && last.contains("MARK-SOUL"),
        "the context did not come back"
    );
    Ok(Some("context after compaction".to_owned()))
}

/// Returns the end of a text, where what went wrong stands.
fn tail(text: &str) -> &str {
    &text[text.floor_char_boundary(text.len().saturating_sub(1_500))..]
}

/// Plays the documented side of Cursor, which cannot be run here.
pub(super) fn cursor(binary: &Path) -> Result<Vec<String>> {
    let ground = Ground::bound("cursor", binary, Path::new("/nonexistent"))?;
    let hooks: Value =
        serde_json::from_slice(&std::fs::read(ground.workspace().join(".cursor/hooks.json"))?)?;
    ensure!(hooks["version"] == 1, "hooks.json has no version");
    let fire = |event: &str, payload: &Value| -> Result<Value> {
        let entry = &hooks["hooks"][event][0];
        let command = entry["command"].as_str().with_context(|| format!("no hook for {event}"))?;
        // As documented: the command runs in a shell from the project's root, JSON on its input.
        let mut child = ground
            .command(Path::new("/bin/sh"))
            .args(["-c", command])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        write!(child.stdin.take().context("an input")?, "{payload}")?;
        let output = child.wait_with_output()?;
        ensure!(output.status.success(), "{event} ended with {}", output.status);
        Ok(serde_json::from_slice(&output.stdout).unwrap_or(Value::Null))
    };
    let common = |event: &str, more: Value| {
        let mut payload = json!({"conversation_id": "c1", "generation_id": "g1", "model": "m", "hook_event_name": event,
            "cursor_version": "2", "workspace_roots": [ground.workspace()], "transcript_path": null});
        if let (Some(all), Value::Object(more)) = (payload.as_object_mut(), more) {
            all.extend(more);
        }
        payload
    };
    let start =
        fire("sessionStart", &common("sessionStart", json!({"session_id": "s1", "composer_mode": "agent"})))?;
    let context = start["additional_context"].as_str().context("sessionStart gave no context")?;
    for mark in &MARKS[..3] {
        ensure!(context.contains(mark), "{mark} is not in the context");
    }
    ensure!(context.starts_with("# Nexus Session Bootstrap"), "the context begins otherwise");
    let agents = std::fs::read_to_string(ground.workspace().join("AGENTS.md"))?;
    ensure!(agents.contains("MARK-AGENTS") && agents.contains("[plan]"), "AGENTS.md lacks the rules");
    let write =
        json!({"tool_name": "Write", "tool_input": {"file_path": "unplanned.txt"}, "tool_use_id": "t1"});
    let denied = fire("preToolUse", &common("preToolUse", write))?;
    ensure!(denied["permission"] == "deny", "the edit was not refused: {denied}");
    ensure!(denied["agent_message"].as_str().is_some_and(|text| text.contains("No task covers")), "{denied}");
    for event in [
        "beforeSubmitPrompt",
        "subagentStart",
        "subagentStop",
        "postToolUse",
        "preCompact",
        "stop",
        "sessionEnd",
    ] {
        fire(event, &common(event, json!({"prompt": "hello", "subagent_type": "nexus-engineer"})))?;
    }
    let servers: Value =
        serde_json::from_slice(&std::fs::read(ground.workspace().join(".cursor/mcp.json"))?)?;
    ensure!(servers["mcpServers"]["nexus"]["command"] == "nexus", "no server entry: {servers}");
    Ok(vec!["documented side only: context, refusal, every hook, server entry".to_owned()])
}
