//! Secrets at a real terminal: typed unseen, shown when asked for, and the terminal is as it was.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nexus_testkit::{Workspace, until};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};

const WITHIN: Duration = Duration::from_secs(30);

/// The binary with a terminal of its own.
struct Terminal {
    child: Child,
    near: File,
    far: File,
    seen: Arc<Mutex<String>>,
}

impl Terminal {
    #[expect(clippy::disallowed_methods, reason = "a test starts the binary under test")]
    fn run(workspace: &Workspace, arguments: &[&str]) -> Self {
        let near = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&near).unwrap();
        unlockpt(&near).unwrap();
        let name = ptsname(&near, Vec::new()).unwrap().into_string().unwrap();
        let noctty = i32::try_from(rustix::fs::OFlags::NOCTTY.bits()).unwrap();
        let far = OpenOptions::new().read(true).write(true).custom_flags(noctty).open(name).unwrap();
        let child = Command::new(workspace.binary())
            .args(arguments)
            .env_clear()
            .envs(workspace.environment().iter().map(|(name, value)| (name, value)))
            .env("TERM", "xterm")
            .stdin(far.try_clone().unwrap())
            .stdout(far.try_clone().unwrap())
            .stderr(far.try_clone().unwrap())
            .spawn()
            .unwrap();
        let near = File::from(near);
        let seen = Arc::new(Mutex::new(String::new()));
        let (mut reader, collected) = (near.try_clone().unwrap(), Arc::clone(&seen));
        std::thread::spawn(move || {
            let mut buffer = [0u8; 4096];
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                collected.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..count]));
            }
        });
        Self { child, near, far, seen }
    }

    fn seen(&self) -> String {
        self.seen.lock().unwrap().clone()
    }

    fn echoes(&self) -> bool {
        tcgetattr(&self.far).unwrap().local_modes.contains(LocalModes::ECHO)
    }

    /// Waits for the end and returns the exit code with everything that was on the screen.
    fn finish(mut self) -> (Option<i32>, String) {
        let status = until("the command to end", WITHIN, || self.child.try_wait().unwrap());
        assert!(self.echoes(), "the terminal is as it was");
        // What the command wrote last may still be on its way through the terminal.
        let mark = "-- end --";
        writeln!(self.far, "{mark}").unwrap();
        let screen = until("the screen to be complete", WITHIN, || {
            let seen = self.seen();
            seen.contains(mark).then_some(seen)
        });
        (status.code(), screen)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_secret_is_typed_unseen_and_shown_on_the_terminal_alone() {
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    let mut typing = Terminal::run(&workspace, &["credential", "add", "github", "--account", "me"]);
    until("the prompt, with nothing echoed", WITHIN, || {
        (!typing.seen().is_empty() && !typing.echoes()).then_some(())
    });
    typing.near.write_all(b"typed-in-the-dark\n").unwrap();
    let (code, screen) = typing.finish();
    assert_eq!(code, Some(0), "{screen}");
    assert!(!screen.contains("typed-in-the-dark"), "{screen}");

    // At a terminal it is shown without --raw; into a pipe it is not.
    let (code, screen) = Terminal::run(&workspace, &["credential", "get", "github/me"]).finish();
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("typed-in-the-dark"), "{screen}");
    assert_eq!(workspace.nexus(&["credential", "get", "github/me"]).code(), Some(2));
    assert_eq!(
        workspace.nexus(&["credential", "get", "github/me", "--raw"]).ok().stdout,
        "typed-in-the-dark\n"
    );
}

#[test]
fn an_interrupted_prompt_leaves_the_terminal_as_it_was() {
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    let mut typing = Terminal::run(&workspace, &["credential", "add", "github"]);
    until("the prompt", WITHIN, || (!typing.seen().is_empty() && !typing.echoes()).then_some(()));
    // End of input instead of a secret.
    typing.near.write_all(&[4]).unwrap();
    let (code, screen) = typing.finish();
    assert_ne!(code, Some(0), "{screen}");
    assert!(!workspace.path("state/credentials/github").exists(), "nothing was stored");
}
