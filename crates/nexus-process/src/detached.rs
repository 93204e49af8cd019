//! Starting the daemon so that it outlives the command that started it.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Starts `program` in its own process group with the whole environment of this process, both outputs going
/// to `log`, and returns its handle without waiting for it. Dropping the handle leaves the process running.
///
/// This is for starting our own daemon on the owner's command; anything a model or a file of a workspace can
/// influence goes through [`Launch`](crate::Launch).
///
/// # Errors
/// The program cannot be started.
pub fn start_detached(
    program: &Path,
    arguments: &[impl AsRef<OsStr>],
    folder: &Path,
    log: &File,
) -> io::Result<Child> {
    #[expect(clippy::disallowed_methods, reason = "this crate is the one place that starts processes")]
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log.try_clone()?)
        // Its own group: a Ctrl-C in the terminal ends the conversation, not the daemon.
        .process_group(0);
    command.spawn()
}
