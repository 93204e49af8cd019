//! The order in which a process gives up what it could do, before it becomes a confined program.

use rustix::process::{Resource, Rlimit};
use rustix::thread::{CapabilitySet, capabilities, clear_ambient_capability_set, set_capabilities};

use super::filter::{self, Surroundings};
use super::{Limits, SandboxProfile, Tier, namespaces, rules, support};

/// How much likelier than the daemon a program is ended when memory runs out; of 1000.
const OUT_OF_MEMORY_SCORE: &str = "500";
/// Processes and threads of one call, where they can be counted.
const MAX_PROCESSES_OF_A_CALL: u64 = 2048;

/// Makes this process and what it becomes or starts end before the daemon when memory runs out. Comes before anything
/// that closes its own files in `/proc` to it.
pub(super) fn end_first_without_memory() -> Result<(), String> {
    namespaces::write_own("oom_score_adj", OUT_OF_MEMORY_SCORE)
}

/// Puts every restriction of `profile` on the calling thread and everything it becomes or starts.
pub(super) fn confine(profile: &SandboxProfile, tier: Tier, protected: &[i32]) -> Result<(), String> {
    let failed = |what: &'static str| move |error| format!("{what}: {error}");
    rustix::thread::set_no_new_privs(true).map_err(failed("giving up new privileges"))?;
    let surroundings = Surroundings {
        network: profile.network,
        tier,
        protected,
        landlock_abi: support().landlock_abi.unwrap_or(0),
        user: rustix::process::geteuid().as_raw(),
        group: rustix::process::getegid().as_raw(),
    };
    limit(&profile.limits, tier)?;
    rules::apply(profile, tier)?;
    drop_capabilities().map_err(failed("dropping capabilities"))?;
    filter::apply(&surroundings)
}

/// Root keeps only what file work needs; everybody else has nothing to lose here.
fn drop_capabilities() -> rustix::io::Result<()> {
    let kept = CapabilitySet::DAC_OVERRIDE | CapabilitySet::FOWNER | CapabilitySet::FSETID;
    let mut sets = capabilities(None)?;
    sets.effective &= kept;
    sets.permitted &= kept;
    sets.inheritable = CapabilitySet::empty();
    // The ambient set would survive exec; it cannot be cleared only where it does not exist.
    let _ = clear_ambient_capability_set();
    set_capabilities(None, sets)
}

fn limit(limits: &Limits, tier: Tier) -> Result<(), String> {
    // Destructured so that a new limit cannot be forgotten here.
    let Limits { cpu_seconds, data_bytes, file_bytes, open_files, processes } = limits;
    // Root is not counted; everybody else is by user, and in a user namespace by call.
    let processes = match (rustix::process::getuid().is_root(), tier) {
        (true, _) => &None,
        (false, Tier::Namespaces) => &processes.map(|processes| processes.min(MAX_PROCESSES_OF_A_CALL)),
        (false, Tier::Broker | Tier::Landlock) => processes,
    };
    for (resource, value) in [
        (Resource::Core, &Some(0)),
        (Resource::Cpu, cpu_seconds),
        (Resource::Data, data_bytes),
        (Resource::Fsize, file_bytes),
        (Resource::Nofile, open_files),
        (Resource::Nproc, processes),
    ] {
        let Some(value) = value else { continue };
        // A limit that is tighter already stays.
        let ceiling = rustix::process::getrlimit(resource).maximum;
        let value = Some(ceiling.map_or(*value, |ceiling| ceiling.min(*value)));
        rustix::process::setrlimit(resource, Rlimit { current: value, maximum: value })
            .map_err(|error| format!("limiting {resource:?}: {error}"))?;
    }
    Ok(())
}
