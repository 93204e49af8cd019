//! What this machine can enforce, for `doctor`, `status` and the decision to run at all.

use std::sync::OnceLock;

use serde::Serialize;

/// The oldest Landlock version that guards truncation, without which a path rule has a hole.
#[cfg(target_os = "linux")]
const TRUNCATE_SINCE: u32 = 3;
/// The oldest Landlock version that keeps signals and abstract sockets inside.
#[cfg(target_os = "linux")]
const SCOPES_SINCE: u32 = 6;

/// What of the sandbox holds here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SandboxSupport {
    /// The Landlock version of the running kernel, when it is built in and switched on.
    pub landlock_abi: Option<u32>,
    /// Whether system calls can be filtered.
    pub seccomp: bool,
    /// What is weaker here than on a current Linux, one sentence each.
    pub gaps: Vec<String>,
}

impl SandboxSupport {
    /// Returns whether files and network can be closed at all; if not, a shell must not run unasked.
    pub fn is_usable(&self) -> bool {
        self.landlock_abi.is_some() && self.seccomp
    }
}

/// Returns what this machine can enforce. Asked once, then remembered.
pub fn support() -> &'static SandboxSupport {
    static SUPPORT: OnceLock<SandboxSupport> = OnceLock::new();
    SUPPORT.get_or_init(probe)
}

#[cfg(target_os = "linux")]
fn probe() -> SandboxSupport {
    use landlock::{LandlockStatus, RestrictSelf};
    let mut gaps = Vec::new();
    // Applying nothing restricts nothing; it is the one safe way the library offers to ask for the version.
    let status = RestrictSelf::default().no_new_privs(false).apply().map(|applied| applied.landlock);
    let landlock_abi = match status {
        Ok(LandlockStatus::Available { effective_abi, kernel_abi }) => {
            Some(kernel_abi.and_then(|abi| u32::try_from(abi).ok()).unwrap_or(effective_abi as u32))
        }
        Ok(LandlockStatus::NotEnabled) => {
            gaps.push("Landlock is built into the kernel but disabled (boot with lsm=landlock,…)".to_owned());
            None
        }
        Ok(LandlockStatus::NotImplemented) | Err(_) => {
            gaps.push("the kernel has no Landlock (Linux 5.13 or newer is needed)".to_owned());
            None
        }
    };
    if landlock_abi.is_some_and(|abi| abi < TRUNCATE_SINCE) {
        gaps.push("a tool may truncate files it can read (Linux 6.2 or newer prevents this)".to_owned());
    }
    if landlock_abi.is_some_and(|abi| abi < SCOPES_SINCE) {
        gaps.push(
            "a tool may signal other programs of the owner, except the daemon (Linux 6.12 or newer prevents this)"
                .to_owned(),
        );
    }
    let seccomp = std::fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail")
        .is_ok_and(|actions| actions.split_whitespace().any(|action| action == "errno"));
    if !seccomp {
        gaps.push("system calls cannot be filtered, so the network cannot be blocked".to_owned());
    }
    SandboxSupport { landlock_abi, seccomp, gaps }
}

#[cfg(not(target_os = "linux"))]
fn probe() -> SandboxSupport {
    SandboxSupport {
        landlock_abi: None,
        seccomp: false,
        gaps: vec![
            "this system offers neither Landlock nor system call filters; commands run unconfined".to_owned(),
        ],
    }
}
