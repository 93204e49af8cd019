//! The daemon dies at every failpoint there is, and nothing is lost, doubled or stuck afterwards.
//!
//! What there is comes from the program itself: a recorded run lists the failpoints it passes. The
//! sources are searched too, so that a failpoint the recorded run never reaches is a failure here.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::OnceLock;
use std::time::Duration;

use nexus_base::failpoint::{LOG_VARIABLE, VARIABLE};
use nexus_client::{Client, ClientError};
use nexus_testkit::witness::{Ask, Verdict, Witness, onboard};
use nexus_testkit::{Daemon, DaemonOptions, Run, Workspace};
use tokio::runtime::Runtime;

use crate::architecture::source::{RustFile, rust_files};

const BINARY: &str = env!("CARGO_BIN_EXE_nexus");
/// How long recovered work may take to come to rest.
const PATIENCE: Duration = Duration::from_secs(60);
/// Failpoints that neither this sweep passes nor a test names, each with the reason why it is left to somebody else.
const SWEPT_ELSEWHERE: &[(&str, &[&str])] = &[
    // `turns_survive_deaths` takes these from the sources and fails if one is not passed.
    (
        "crates/nexus/tests/it/turns_survive_deaths.rs",
        &[
            "turn.compaction.before_commit",
            "turn.compaction.committed",
            "turn.usage.before_commit",
            "turn.usage.committed",
        ],
    ),
    // A sweep of its own, without a daemon, that takes its list from a recorded run like this one.
    (
        "crates/nexus-project/tests/it/crashes_leave_whole_files.rs",
        &[
            "project.archive.appended",
            "project.archive.created",
            "project.artifact.write",
            "project.artifact.written",
            "project.journal.made",
            "project.journal.marked",
            "project.journal.synced",
            "project.journal.write",
            "project.journal.written",
            "project.locked",
            "project.queued",
            "project.remove",
            "project.removed",
            "project.write",
            "project.written",
        ],
    ),
    // The sweep with a scripted model records these, too.
    (
        "crates/nexus/tests/it/crash_sweep_with_tools.rs",
        &["marks.before_commit", "marks.committed", "s5.taint.before_commit"],
    ),
    // One column of one fact, which keeps a valid source either way; nothing waits for it.
    ("crates/nexus-automation/src/shipped/writer.rs", &["automation.source_named"]),
];

/// Failpoints that the guide's conversation never passes; the sweep with a scripted model and the tests
/// of `nexus undo` die there.
const WITH_TOOLS: [&str; 7] = [
    "artifact.kept",
    "marks.before_commit",
    "marks.committed",
    "s5.taint.before_commit",
    "s5.taint.committed",
    "undo.before_restore",
    "undo.restored",
];

/// Returns what this sweep leaves to the one with tools.
pub(crate) fn left_to_tools() -> [&'static str; 7] {
    WITH_TOOLS
}

/// Names of failpoints and how often one run passes each.
type Passed = BTreeMap<String, usize>;

/// What each part of a life passes.
struct Recording {
    init: Passed,
    first_start: Passed,
    conversation: Passed,
}

fn recording() -> &'static Recording {
    static RECORDING: OnceLock<Recording> = OnceLock::new();
    RECORDING.get_or_init(|| {
        let workspace = Workspace::new(BINARY);
        let log = |name: &str| workspace.home().join(name);
        let init = log("init");
        let _ = workspace.run(&Run::new(&["init"]).variable(LOG_VARIABLE, text(&init))).ok();
        let first_start = log("first-start");
        Daemon::start(&workspace, &recorded_in(&first_start)).stop();

        let tokio = tokio_runtime();
        let daemon = Daemon::start(&workspace, &DaemonOptions::default());
        tokio.block_on(onboard(&daemon.client())).expect("the guide onboards");
        daemon.stop();
        let conversation = log("conversation");
        let daemon = Daemon::start(&workspace, &recorded_in(&conversation));
        let mut witness = Witness::new(workspace.root());
        tokio.block_on(talk(&daemon.client(), &mut witness)).expect("an undisturbed conversation");
        let verdict = tokio.block_on(judge(&daemon.client(), &mut witness)).expect("the daemon answers");
        assert_eq!(verdict, Verdict::default(), "an undisturbed conversation");
        daemon.stop();

        let mut conversation = passed(&conversation);
        // What automations commit on the side is passed when it happens to be; their own tests die there.
        conversation.retain(|name, _| !name.starts_with("automation."));
        // Their notes are files, too, so how often files are written differs from run to run.
        for (name, count) in &mut conversation {
            if name.starts_with("file.") {
                *count = 1;
            }
        }
        Recording { init: passed(&init), first_start: passed(&first_start), conversation }
    })
}

fn recorded_in(log: &Path) -> DaemonOptions {
    DaemonOptions::default().variable(LOG_VARIABLE, text(log))
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn passed(log: &Path) -> Passed {
    let mut passed = Passed::new();
    for name in std::fs::read_to_string(log).expect("the program lists what it passes").lines() {
        *passed.entry(name.to_owned()).or_insert(0) += 1;
    }
    assert!(!passed.is_empty(), "no failpoint passed: is {BINARY} a release build?");
    passed
}

fn tokio_runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime for the client")
}

/// One message of each kind, each at rest before the next.
async fn talk(client: &Client, witness: &mut Witness) -> Result<(), ClientError> {
    for ask in [Ask::Command, Ask::Note, Ask::Plain] {
        let request = witness.say(client, ask, None).await?;
        client.wait(&request, PATIENCE).await?;
    }
    Ok(())
}

async fn judge(client: &Client, witness: &mut Witness) -> Result<Verdict, ClientError> {
    witness.repeat_unacknowledged(client).await?;
    let mut verdict = witness.judge(client, PATIENCE).await?;
    verdict.extend(witness.judge_rest(client).await?);
    Ok(verdict)
}

fn assert_killed(status: Option<ExitStatus>, place: &str) {
    let signal = status.and_then(|status| status.signal());
    assert_eq!(signal, Some(9), "{place} was not reached: {status:?}");
}

/// What a workspace has behind it when its life goes on after a death.
#[derive(Clone, Copy, PartialEq)]
enum Past {
    Nothing,
    Onboarded,
}

/// Starts the workspace, talks, and expects that nothing is missing.
fn live_on(workspace: &Workspace, tokio: &Runtime, past: Past, witness: &mut Witness, place: &str) {
    let daemon = Daemon::start(workspace, &DaemonOptions::default());
    let verdict = tokio.block_on(async {
        let client = daemon.client();
        if past == Past::Nothing {
            onboard(&client).await?;
        }
        witness.repeat_unacknowledged(&client).await?;
        witness.say(&client, Ask::Plain, None).await?;
        judge(&client, witness).await
    });
    let verdict = verdict.unwrap_or_else(|error| panic!("after {place}: {error}\n{}", daemon.log()));
    assert_eq!(verdict, Verdict::default(), "after {place}\n{}", daemon.log());
    daemon.stop();
}

/// First and last pass, and the second where a name stands on both sides of a commit.
fn passes(count: usize) -> BTreeSet<usize> {
    BTreeSet::from([1, count.min(2), count])
}

#[test]
fn a_death_during_init_is_repaired() {
    let tokio = tokio_runtime();
    let whole = listing(Workspace::initialized(BINARY).root());
    for (name, count) in &recording().init {
        for pass in passes(*count) {
            let place = format!("{name}@{pass}");
            let workspace = Workspace::new(BINARY);
            let dying = workspace.run(&Run::new(&["init"]).variable(VARIABLE, place.clone()));
            assert_killed(Some(dying.status), &place);
            workspace.init();
            assert_eq!(listing(workspace.root()), whole, "init after {place}");
            // Half-written files that are old enough to be nobody's go; a young one may be somebody's.
            age_left_overs(workspace.root());
            workspace.init();
            assert_eq!(left_overs(workspace.root()), Vec::<std::path::PathBuf>::new(), "after {place}");
            let before = contents(workspace.root());
            workspace.init();
            assert!(contents(workspace.root()) == before, "a further init after {place} changed something");
            live_on(&workspace, &tokio, Past::Nothing, &mut Witness::new(workspace.root()), &place);
        }
    }
}

#[test]
fn a_death_during_the_first_start_is_repaired() {
    let tokio = tokio_runtime();
    for (name, count) in &recording().first_start {
        for pass in passes(*count) {
            let place = format!("{name}@{pass}");
            let workspace = Workspace::initialized(BINARY);
            let status = match Daemon::try_start(&workspace, &DaemonOptions::dying_at(&place)) {
                Ok(daemon) => Some(daemon.stop()),
                Err(failure) => failure.status,
            };
            assert_killed(status, &place);
            live_on(&workspace, &tokio, Past::Nothing, &mut Witness::new(workspace.root()), &place);
        }
    }
}

#[test]
fn a_death_during_a_conversation_loses_nothing() {
    let tokio = tokio_runtime();
    let workspace = Workspace::initialized(BINARY);
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    tokio.block_on(onboard(&daemon.client())).expect("the guide onboards");
    daemon.stop();
    // One workspace for all of them: every death meets the remains of those before it.
    let mut witness = Witness::new(workspace.root());
    for (name, count) in &recording().conversation {
        for pass in passes(*count) {
            let place = format!("{name}@{pass}");
            let status = match Daemon::try_start(&workspace, &DaemonOptions::dying_at(&place)) {
                Ok(daemon) => {
                    // An error is the death itself; without one it comes on the way down.
                    let _ = tokio.block_on(talk(&daemon.client(), &mut witness));
                    Some(daemon.stop())
                }
                Err(failure) => failure.status,
            };
            assert_killed(status, &place);
            live_on(&workspace, &tokio, Past::Onboarded, &mut witness, &place);
        }
    }
}

#[test]
fn every_failpoint_of_the_sources_is_reached() {
    let recording = recording();
    let reached = |name: &str| {
        [&recording.init, &recording.first_start, &recording.conversation]
            .iter()
            .any(|passed| passed.contains_key(name))
    };
    let files = rust_files();
    let is_other_test = |file: &&RustFile| file.is_test() && !file.path.ends_with("/crash_sweep.rs");
    let tests: Vec<&str> = files.iter().filter(is_other_test).map(|file| file.text.as_str()).collect();
    // As a whole string, or with the number of the pass at which to die.
    let is_named = |name: &str| {
        let (alone, numbered) = (format!("\"{name}\""), format!("\"{name}@"));
        tests.iter().any(|text| text.contains(&alone) || text.contains(&numbered))
    };
    let mut exempt: BTreeSet<&str> =
        SWEPT_ELSEWHERE.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    let mut missing = BTreeSet::new();
    for file in &files {
        let text = file.code_and_strings();
        for piece in text.split("hit(\"").skip(1) {
            let name = piece.split('"').next().unwrap_or_default();
            if !reached(name) && !is_named(name) && !exempt.contains(name) {
                missing.insert(format!("{name} in {}", file.path));
            }
        }
    }
    assert!(missing.is_empty(), "failpoints at which nothing dies: {missing:#?}");
    // An exemption that is not needed, or names a file that is gone, goes too.
    for file in &files {
        for piece in file.code_and_strings().split("hit(\"").skip(1) {
            let name = piece.split('"').next().unwrap_or_default();
            if !reached(name) && !is_named(name) {
                exempt.remove(name);
            }
        }
    }
    assert!(exempt.is_empty(), "exemptions that are not needed: {exempt:?}");
    for (path, _) in SWEPT_ELSEWHERE {
        assert!(files.iter().any(|file| file.path == *path), "{path} is gone");
    }
}

/// Paths and modes below a folder. A half-written file that a death left behind under a temporary
/// name is nobody's content and does not count.
fn listing(root: &Path) -> BTreeMap<String, u32> {
    use std::os::unix::fs::PermissionsExt as _;
    files(root)
        .into_iter()
        .filter(|path| !relative(root, path).contains(nexus_base::jail::TEMPORARY_PREFIX))
        .map(|path| {
            let mode = std::fs::metadata(&path).expect("a listed file").permissions().mode();
            (relative(root, &path), mode)
        })
        .collect()
}

fn left_overs(root: &Path) -> Vec<std::path::PathBuf> {
    let mut found = files(root);
    found.retain(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".nexus-tmp-"))
    });
    found
}

fn age_left_overs(root: &Path) {
    let long_ago = std::time::SystemTime::now() - Duration::from_secs(3600);
    for path in left_overs(root) {
        std::fs::File::options().write(true).open(path).unwrap().set_modified(long_ago).unwrap();
    }
}

fn contents(root: &Path) -> BTreeMap<String, Vec<u8>> {
    files(root)
        .into_iter()
        .filter(|path| path.is_file())
        .map(|path| (relative(root, &path), std::fs::read(&path).expect("a listed file")))
        .collect()
}

fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).expect("below the root").to_string_lossy().into_owned()
}

fn files(root: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of the workspace") {
            let path = entry.expect("an entry of the workspace").path();
            if path.is_dir() {
                folders.push(path.clone());
            }
            found.push(path);
        }
    }
    found
}
