//! What the workspace stands on: disk, sandbox, port, the key outside, and skills nobody accepted.

use nexus_workspace::config::Loaded;
use nexus_workspace::skills;

use super::{Check, Condition, DoctorRequest};

/// Free bytes below which the daemon will soon fail to write.
const TOO_LITTLE: u64 = 100 * 1024 * 1024;
/// Free bytes below which it is time to clean up.
const LITTLE: u64 = 1024 * 1024 * 1024;

pub(super) fn look(request: &DoctorRequest<'_>, loaded: Option<&Loaded>, checks: &mut Vec<Check>) {
    checks.push(disk(request));
    checks.push(sandbox());
    checks.extend(loaded.and_then(|loaded| port(request, loaded.settings.runtime.port)));
    checks.extend(key(request));
    skill_consent(request, checks);
}

fn disk(request: &DoctorRequest<'_>) -> Check {
    match rustix::fs::statvfs(request.layout.state()) {
        Ok(found) => {
            let free = found.f_bavail.saturating_mul(found.f_frsize);
            let message = format!("{} MB free", free / 1_000_000);
            let hint = "free some space; old backups and logs are good candidates";
            match free {
                0..TOO_LITTLE => Check::new("disk", Condition::Broken, message).hint(hint),
                TOO_LITTLE..LITTLE => Check::new("disk", Condition::Warning, message).hint(hint),
                LITTLE.. => Check::fine("disk", message),
            }
        }
        Err(error) => Check::new("disk", Condition::Warning, format!("free space is unknown: {error}")),
    }
}

fn sandbox() -> Check {
    let support = nexus_process::support();
    if !support.is_usable() {
        return Check::new("sandbox", Condition::Warning, support.gaps.join("; "))
            .hint("every command of an agent needs your consent; a kernel with Landlock would confine them");
    }
    let Some(tier) = nexus_process::tier() else {
        return Check::new("sandbox", Condition::Warning, "it could not be tried out");
    };
    let message = tier.summary(support);
    if tier.gaps(support).is_empty() {
        return Check::fine("sandbox", message);
    }
    Check::new("sandbox", Condition::Warning, message).hint(
        "let ordinary users make namespaces: `sysctl user.max_user_namespaces`; on Ubuntu an AppArmor profile for this \
         program with `flags=(unconfined) { userns, }`; in a container its seccomp profile",
    )
}

fn port(request: &DoctorRequest<'_>, port: u16) -> Option<Check> {
    if nexus_base::lock::inspect(&request.layout.lock()).is_some() {
        return None;
    }
    let holder = nexus_process::listener_of(port)?;
    let message = format!("port {port} is taken by process {holder}");
    let hint = "stop that process, or choose another port with `nexus config set runtime.port`";
    Some(Check::new("port", Condition::Warning, message).hint(hint))
}

fn key(request: &DoctorRequest<'_>) -> Option<Check> {
    let folder = nexus_credentials::CredentialFolder::new(request.layout.credentials());
    let accounts = folder.read_all().ok()?.accounts;
    let sealed = accounts
        .iter()
        .flat_map(|account| &account.credentials)
        .filter(|one| matches!(one.storage, nexus_credentials::Storage::Sealed { .. }))
        .count();
    if sealed == 0 {
        return None;
    }
    let place = nexus_models::credentials::key_place(request.layout, request.environment, request.home)?;
    let path = place.path().display();
    Some(if place.exists() {
        Check::fine("key", format!("{sealed} sealed secrets open with {path}; keep a copy of it elsewhere"))
    } else {
        Check::new(
            "key",
            Condition::Broken,
            format!("{path} is missing, and {sealed} secrets are sealed with it"),
        )
        .hint("restore the key, or add those credentials again")
    })
}

fn skill_consent(request: &DoctorRequest<'_>, checks: &mut Vec<Check>) {
    let Ok(names) = skills::names(request.layout) else { return };
    for name in names {
        let Ok(found) = skills::inspect(&request.layout.skills().join(&name)) else { continue };
        let consent = skills::consent(request.trust_folder, request.layout, &name, &found);
        let what = match consent {
            skills::Consent::Accepted => continue,
            skills::Consent::New => "is not accepted yet",
            skills::Consent::Changed => "has changed since it was accepted",
        };
        checks.push(Check::new("skills", Condition::Warning, format!("skill {name} {what}")).hint(format!(
            "review it with `nexus skills info {name}`, accept it with `nexus skills verify {name} --accept`"
        )));
    }
}
