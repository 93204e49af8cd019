//! The binary under test with a terminal of its own.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nexus_testkit::{Workspace, until};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

pub(crate) const WITHIN: Duration = Duration::from_secs(30);

/// Opens a terminal and returns its two ends: ours, and the one a program is given.
pub(crate) fn open(columns: u16) -> (File, File) {
    let near = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&near).unwrap();
    unlockpt(&near).unwrap();
    let name = ptsname(&near, Vec::new()).unwrap().into_string().unwrap();
    let noctty = i32::try_from(rustix::fs::OFlags::NOCTTY.bits()).unwrap();
    let far = OpenOptions::new().read(true).write(true).custom_flags(noctty).open(name).unwrap();
    tcsetwinsize(&far, Winsize { ws_row: 40, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    (File::from(near), far)
}

/// A program that runs at a terminal.
pub(crate) struct Terminal {
    child: Child,
    near: File,
    far: File,
    seen: Arc<Mutex<String>>,
}

impl Terminal {
    #[expect(clippy::disallowed_methods, reason = "a test starts the binary under test")]
    pub(crate) fn run(workspace: &Workspace, arguments: &[&str]) -> Self {
        let (near, far) = open(100);
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

    pub(crate) fn seen(&self) -> String {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn wait_for(&self, what: &str, times: usize) {
        let found = || (self.seen().matches(what).count() >= times).then_some(());
        until(&format!("{what:?} {times} times on the screen"), WITHIN, found);
    }

    /// Waits until the prompt has come back after some text. Keys pressed in between would meet a
    /// terminal that belongs to nobody.
    pub(crate) fn wait_for_prompt_after(&self, what: &str) {
        let found = || {
            let seen = self.seen();
            let (_, rest) = seen.rsplit_once(what)?;
            rest.contains("you> ").then_some(())
        };
        until(&format!("the prompt after {what:?}"), WITHIN, found);
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.near.write_all(keys.as_bytes()).unwrap();
    }

    pub(crate) fn wait_for_exit(&mut self) -> Option<i32> {
        until("the program to leave", WITHIN, || self.child.try_wait().unwrap()).code()
    }

    /// Whether typed letters are shown and lines taken as a whole, as a terminal does that nobody changed.
    pub(crate) fn echoes(&self) -> bool {
        tcgetattr(&self.far).unwrap().local_modes.contains(LocalModes::ECHO | LocalModes::ICANON)
    }

    /// Waits for the end and returns the exit code with everything that was on the screen.
    pub(crate) fn finish(mut self) -> (Option<i32>, String) {
        let code = self.wait_for_exit();
        assert!(self.echoes(), "the terminal is as it was");
        // What the command wrote last may still be on its way through the terminal.
        let mark = "-- end --";
        writeln!(self.far, "{mark}").unwrap();
        let screen = until("the screen to be complete", WITHIN, || {
            let seen = self.seen();
            seen.contains(mark).then_some(seen)
        });
        (code, screen)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Fails only when it has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
