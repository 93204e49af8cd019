//! The order in which a process gives up what it could do, before it becomes a confined program.

use rustix::process::{Resource, Rlimit};
use rustix::thread::{CapabilitySet, capabilities, clear_ambient_capability_set, set_capabilities};

use super::{Limits, SandboxProfile, filter, rules, support};

/// Puts every restriction of `profile` on the calling thread, which is about to become the program.
pub(super) fn confine(profile: &SandboxProfile, protected_process: i32) -> Result<(), String> {
    let failed = |what: &'static str| move |error| format!("{what}: {error}");
    rustix::thread::set_no_new_privs(true).map_err(failed("giving up new privileges"))?;
    let truncate_is_guarded = support().landlock_abi.is_some_and(|abi| abi >= 3);
    limit(&profile.limits)?;
    rules::apply(profile)?;
    drop_capabilities().map_err(failed("dropping capabilities"))?;
    filter::apply(profile.network, protected_process, truncate_is_guarded)
}

/// Root keeps only what file work needs; everybody else has nothing to lose here.
fn drop_capabilities() -> rustix::io::Result<()> {
    let kept =
        CapabilitySet::CHOWN | CapabilitySet::DAC_OVERRIDE | CapabilitySet::FOWNER | CapabilitySet::FSETID;
    let mut sets = capabilities(None)?;
    sets.effective &= kept;
    sets.permitted &= kept;
    sets.inheritable = CapabilitySet::empty();
    // The ambient set would survive exec; it cannot be cleared only where it does not exist.
    let _ = clear_ambient_capability_set();
    set_capabilities(None, sets)
}

fn limit(limits: &Limits) -> Result<(), String> {
    // Destructured so that a new limit cannot be forgotten here.
    let Limits { cpu_seconds, data_bytes, file_bytes, open_files, processes } = limits;
    let processes = if rustix::process::getuid().is_root() { &None } else { processes };
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
