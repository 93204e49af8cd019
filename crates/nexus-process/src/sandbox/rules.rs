//! Landlock: turns the grants of a profile into rules on the calling thread.

use std::io;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath, Ruleset,
    RulesetAttr as _, RulesetCreatedAttr as _, Scope,
};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

use super::{Access, Grant, Links, Network, SandboxProfile, Tier, mounts};

/// The version whose rights are named here; an older kernel enforces the part it knows.
const WRITTEN_FOR: ABI = ABI::V9;

/// Confines the calling thread, and everything it becomes or starts, to the grants.
pub(super) fn apply(profile: &SandboxProfile, tier: Tier) -> Result<(), String> {
    let failed = |error: landlock::RulesetError| format!("setting up Landlock: {error}");
    let mut ruleset = Ruleset::default()
        // No Landlock at all is an error; single rights an older kernel does not know are not.
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))
        .map_err(failed)?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(WRITTEN_FOR))
        .map_err(failed)?
        .scope(Scope::AbstractUnixSocket | Scope::Signal)
        .map_err(failed)?;
    if profile.network == Network::Off {
        ruleset = ruleset.handle_access(AccessNet::BindTcp | AccessNet::ConnectTcp).map_err(failed)?;
    }
    let mut created = ruleset.create().map_err(failed)?;
    let own = match tier {
        Tier::Namespaces => own(profile),
        Tier::Broker | Tier::Landlock => Vec::new(),
    };
    for grant in profile.grants.iter().chain(&own) {
        let handle = match open(grant) {
            Ok(handle) => handle,
            // An optional path that is missing, or cannot be reached, is simply not granted.
            Err(_) if !grant.required => continue,
            Err(error) => return Err(format!("granting {}: {error}", grant.path.display())),
        };
        let is_folder = rustix::fs::fstat(&handle).is_ok_and(|stat| {
            rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Directory
        });
        let rights = rights(grant.access, is_folder);
        created = created.add_rule(PathBeneath::new(handle, rights)).map_err(failed)?;
    }
    created.restrict_self().map_err(failed)?;
    Ok(())
}

/// What namespaces make the program's own: folders that were emptied for it, and a `/proc` without anybody else.
fn own(profile: &SandboxProfile) -> Vec<Grant> {
    let grant =
        |path: &str, access| Grant { path: path.into(), access, links: Links::Refuse, required: false };
    let mut own = vec![grant("/proc", Access::Read)];
    // Not to execute: granted folders that lie below keep their own rights.
    own.extend(mounts::private_folders(profile).map(|(path, _)| grant(path, Access::Edit)));
    own
}

pub(super) fn open(grant: &Grant) -> io::Result<std::os::fd::OwnedFd> {
    let resolve = match grant.links {
        Links::Follow => ResolveFlags::empty(),
        // Somebody who may write next to this path could otherwise widen the grant with a link.
        Links::Refuse => ResolveFlags::NO_SYMLINKS,
    };
    Ok(rustix::fs::openat2(CWD, &grant.path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)?)
}

fn rights(access: Access, is_folder: bool) -> BitFlags<AccessFs> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let wanted = match access {
        Access::Read => read,
        Access::Execute => read | AccessFs::Execute,
        // Not MakeChar and MakeBlock: root could make itself a door to the disk.
        Access::Edit => {
            read | AccessFs::WriteFile
                | AccessFs::Truncate
                | AccessFs::RemoveDir
                | AccessFs::RemoveFile
                | AccessFs::MakeDir
                | AccessFs::MakeReg
                | AccessFs::MakeSym
                | AccessFs::MakeFifo
                | AccessFs::MakeSock
                | AccessFs::Refer
        }
        Access::Write => rights(Access::Edit, true) | AccessFs::Execute,
        Access::Device => AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate,
    };
    // The kernel refuses folder rights on a file.
    if is_folder { wanted } else { wanted & AccessFs::from_file(WRITTEN_FOR) }
}
