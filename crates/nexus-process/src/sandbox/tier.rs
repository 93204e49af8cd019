//! How much of the sandbox this machine lets an ordinary program have, found by trying it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;

use super::{SandboxProfile, SandboxSupport, support};
use crate::environment::Environment;
use crate::launch::{Confinement, Helper, Launch};

/// How long one try may take.
const TRY_WITHIN: Duration = Duration::from_secs(10);
/// From the most to the least.
const TIERS: [Tier; 3] = [Tier::Namespaces, Tier::Broker, Tier::Landlock];

/// What confines a program besides Landlock and the system call filter, which always do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// A supervisor.
    Landlock,
    /// A supervisor that makes calls for the program which Landlock does not cover.
    Broker,
    /// User, process, mount and IPC namespaces of its own.
    Namespaces,
}

impl fmt::Display for Tier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Landlock => "landlock",
            Self::Broker => "broker",
            Self::Namespaces => "namespaces",
        })
    }
}

impl Tier {
    /// Returns what confines a program in this tier.
    const fn covers(self) -> &'static str {
        match self {
            Self::Landlock => "Landlock, a system call filter and a supervisor around every command",
            Self::Broker => "Landlock, a system call filter and a tracing supervisor around every command",
            Self::Namespaces => {
                "namespaces (user, process, mount, IPC), Landlock and a system call filter around every command"
            }
        }
    }

    /// Returns what confines a program in this tier and what that does not cover, in one line.
    pub fn summary(self, support: &SandboxSupport) -> String {
        let gaps = self.gaps(support);
        match gaps.is_empty() {
            true => self.covers().to_owned(),
            false => format!("{}; not covered: {}", self.covers(), gaps.join("; ")),
        }
    }

    /// Returns what this tier does not cover on a machine with this support, one sentence each.
    pub fn gaps(self, support: &SandboxSupport) -> Vec<String> {
        match self {
            // Mounts and process numbers of its own cover what an old Landlock does not.
            Self::Namespaces => Vec::new(),
            Self::Broker => {
                let mut gaps = support.gaps.clone();
                gaps.push(
                    "debuggers, stopped programs and real-time signals do not work in commands".to_owned(),
                );
                gaps
            }
            Self::Landlock => {
                let mut gaps = support.gaps.clone();
                gaps.push(
                    "a tool may change permissions and times of the owner's files outside its folders"
                        .to_owned(),
                );
                gaps.push(
                    "a program that left its group outlives a supervisor that something else killed"
                        .to_owned(),
                );
                gaps
            }
        }
    }
}

type Tried = BTreeMap<Helper, Arc<OnceCell<Tier>>>;
static TRIED: Mutex<Tried> = Mutex::new(Tried::new());

/// As [`tier`], for programs that are started with another helper; `None` if it was not tried.
pub fn tier_with(helper: &Helper) -> Option<Tier> {
    TRIED.lock().unwrap_or_else(PoisonError::into_inner).get(helper)?.get().copied()
}

/// Returns the tier programs get, and tries it out the first time, which takes some milliseconds.
pub fn tier() -> Option<Tier> {
    if let Some(known) = known_tier() {
        return Some(known);
    }
    if !support().is_usable() {
        return None;
    }
    let helper = Helper::this_program().ok()?;
    // On a thread of its own: the caller may be inside a runtime.
    let tried = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
            Some(runtime.block_on(tier_of(&helper, &Environment::clean())))
        });
        thread.join().ok()
    });
    tried.flatten()
}

/// Returns the tier programs get, if it has been tried.
pub fn known_tier() -> Option<Tier> {
    tier_with(&Helper::this_program().ok()?)
}

/// Returns the tier that works with `helper`, trying them once; the environment is what it needs to know itself as one.
pub(crate) async fn tier_of(helper: &Helper, environment: &Environment) -> Tier {
    let cell = {
        let mut tried = TRIED.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(tried.entry(helper.clone()).or_default())
    };
    *cell.get_or_init(|| find(helper, environment)).await
}

/// Runs `true` through the whole chain, from the top down. A setting that says whether something is allowed says
/// nothing about whether it works, so none is read.
async fn find(helper: &Helper, environment: &Environment) -> Tier {
    let begun = std::time::Instant::now();
    for tier in TIERS {
        match attempt(helper, environment, tier).await {
            Ok(()) => {
                tracing::debug!(%tier, took = ?begun.elapsed(), "sandbox tried");
                return tier;
            }
            Err(reason) => tracing::debug!(%tier, reason, "sandbox tier not available"),
        }
    }
    // The launch itself then says what is wrong.
    Tier::Landlock
}

async fn attempt(helper: &Helper, environment: &Environment, tier: Tier) -> Result<(), String> {
    let folder =
        tempfile::Builder::new().prefix("nexus-try-").tempdir().map_err(|error| error.to_string())?;
    let path = folder.path().canonicalize().map_err(|error| error.to_string())?;
    let program = Environment::clean().find_program("true").ok_or("there is no program `true`")?;
    let profile = SandboxProfile::system().write(&path);
    let launch = Launch::new(program, &path, Confinement::Sandbox(profile))
        .environment(environment.clone())
        .helper(helper.clone())
        .deadline(TRY_WITHIN);
    let outcome = Box::pin(launch.run_in(tier)).await.map_err(|error| error.to_string())?;
    if outcome.succeeded() { Ok(()) } else { Err(format!("{}: {}", outcome.status, outcome.stderr.text())) }
}
