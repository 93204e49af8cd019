//! Folders, their rights, templates and left-overs.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nexus_workspace::templates;

use super::{Check, Condition, DoctorRequest};

/// How old a temporary file is before it counts as left over.
const LEFT_OVER_AFTER: Duration = Duration::from_secs(3600);
/// Most entries looked at under `state/`.
const MAX_ENTRIES: usize = 20_000;

pub(super) fn look(request: &DoctorRequest<'_>, checks: &mut Vec<Check>) {
    // First, because making what is missing closes what is open on the way, and nobody would be told.
    let mut of_rights = Vec::new();
    rights(request, &mut of_rights);
    missing(request, checks);
    checks.append(&mut of_rights);
    texts(request, checks);
}

/// Makes what `init` would make.
fn missing(request: &DoctorRequest<'_>, checks: &mut Vec<Check>) {
    let layout = request.layout;
    let wanted: Vec<PathBuf> = vec![
        layout.skills(),
        layout.home().to_owned(),
        layout.data(),
        layout.agents(),
        layout.user(),
        layout.credentials(),
        layout.automation_workspaces(),
        layout.agents_md(),
        layout.bootstrap_md(),
        layout.workspace_id(),
    ];
    let gone: Vec<String> =
        wanted.iter().filter(|path| !path.exists()).map(|path| path.display().to_string()).collect();
    if gone.is_empty() {
        checks.push(Check::fine("folders", "all there"));
        return;
    }
    let message = format!("missing: {}", gone.join(", "));
    if request.fix {
        match crate::init::init(layout, request.trust_folder) {
            Ok(_) => checks.push(Check::new(
                "folders",
                Condition::Fixed,
                format!("created again: {}", gone.join(", ")),
            )),
            Err(error) => {
                let reason = nexus_base::error::chain(&error);
                checks.push(Check::new("folders", Condition::Broken, format!("{message}; {reason}")));
            }
        }
        return;
    }
    checks.push(
        Check::new("folders", Condition::Broken, message).hint("`nexus doctor --fix` creates them again"),
    );
}

/// Everything under `state/` is for its owner alone.
fn rights(request: &DoctorRequest<'_>, checks: &mut Vec<Check>) {
    let mut open = vec![request.layout.state().to_owned()];
    let (mut loose, mut foreign, mut stale) = (Vec::new(), Vec::new(), Vec::new());
    let mine = std::fs::metadata(request.layout.root()).map(|root| root.uid()).ok();
    let mut looked = 0;
    while let Some(path) = open.pop() {
        looked += 1;
        let Ok(found) = std::fs::symlink_metadata(&path) else { continue };
        if looked > MAX_ENTRIES || found.is_symlink() {
            continue;
        }
        if found.is_dir() {
            open.extend(std::fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
        }
        if mine.is_some_and(|mine| mine != found.uid()) {
            foreign.push(path.clone());
        }
        if is_left_over(&path, &found) {
            stale.push(path.clone());
        }
        if found.permissions().mode() & 0o077 != 0 {
            loose.push((path, found.permissions().mode()));
        }
    }
    if loose.is_empty() {
        checks.push(Check::fine("rights", "state/ is closed to other users"));
    } else if request.fix {
        let closed = loose.iter().filter(|(path, mode)| close(path, *mode)).count();
        let condition = if closed == loose.len() { Condition::Fixed } else { Condition::Broken };
        checks.push(Check::new("rights", condition, format!("closed {closed} of {} paths", loose.len())));
    } else {
        let (first, _) = &loose[0];
        let message =
            format!("{} paths are readable by other users, such as {}", loose.len(), first.display());
        checks
            .push(Check::new("rights", Condition::Broken, message).hint("`nexus doctor --fix` closes them"));
    }
    if let Some(first) = foreign.first() {
        let message = format!("{} paths belong to another user, such as {}", foreign.len(), first.display());
        checks.push(Check::new("rights", Condition::Warning, message).hint("give them back with chown"));
    }
    if !stale.is_empty() {
        let count = stale.len();
        if request.fix {
            let removed = stale.iter().filter(|path| std::fs::remove_file(path).is_ok()).count();
            checks.push(Check::new("left-overs", Condition::Fixed, format!("removed {removed} of {count}")));
        } else {
            let message = format!("{count} temporary files of interrupted writes");
            let check = Check::new("left-overs", Condition::Warning, message);
            checks.push(check.hint("`nexus doctor --fix` removes them"));
        }
    }
}

fn is_left_over(path: &Path, found: &std::fs::Metadata) -> bool {
    let ours =
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(".nexus-tmp-"));
    let old = found.modified().ok().and_then(|at| at.elapsed().ok()).is_some_and(|age| age > LEFT_OVER_AFTER);
    ours && old && found.is_file()
}

fn close(path: &Path, mode: u32) -> bool {
    nexus_base::file::set_mode(path, mode & 0o7700).is_ok()
}

fn texts(request: &DoctorRequest<'_>, checks: &mut Vec<Check>) {
    let limit = templates::AGENTS_MD_LIMIT as u64 * 4;
    match nexus_base::file::read_text(&request.layout.agents_md(), limit) {
        Ok(text) if text == templates::AGENTS_MD => {
            checks.push(Check::fine("templates", "AGENTS.md as shipped"))
        }
        Ok(text) if text.len() <= templates::AGENTS_MD_LIMIT => {
            checks.push(Check::fine("templates", "AGENTS.md with your own changes"));
        }
        Ok(text) => {
            let message = format!("AGENTS.md has {} bytes and is part of every request", text.len());
            checks.push(Check::new("templates", Condition::Warning, message).hint("shorten it"));
        }
        // That it is missing was said already.
        Err(error) if error.source.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => {
            let message = format!("{error}: {}", error.source);
            checks.push(Check::new("templates", Condition::Warning, message).hint("shorten or repair it"));
        }
    }
}
