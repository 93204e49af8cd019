//! A program that is talked to in lines, such as a server on its standard streams.

use std::ffi::OsStr;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use crate::environment::is_executable;

/// Longest line taken, in bytes.
const MAX_LINE_LEN: u64 = 64 * 1024 * 1024;
/// Lines kept until somebody asks for them.
const LINES_AHEAD: usize = 16;
/// How long a program has to end by itself once its input has ended.
const END_WITHIN: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(5);

/// A running program with its input and output at hand; ended when dropped.
#[derive(Debug)]
pub struct Piped {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Piped {
    /// Starts `program`, by its name on `PATH` or by a path from here and not from `folder`, in its own process group with the whole environment of this process; what it
    /// says on standard error goes where ours goes.
    ///
    /// This is for a program the person named on the command line; anything a model or a file of a
    /// workspace can influence goes through [`Launch`](crate::Launch).
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(program: &OsStr, arguments: &[impl AsRef<OsStr>], folder: &Path) -> io::Result<Self> {
        #[expect(clippy::disallowed_methods, reason = "this crate is the one place that starts processes")]
        let mut command = Command::new(of_the_person(program)?);
        command
            .args(arguments)
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0);
        let mut child = command.spawn()?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or_else(|| io::Error::other("the output is not ours"))?;
        let (sender, lines) = mpsc::sync_channel(LINES_AHEAD);
        std::thread::Builder::new().name("piped-output".to_owned()).spawn(move || read(output, &sender))?;
        Ok(Self { child, input, lines })
    }

    /// Writes a line.
    ///
    /// # Errors
    /// The program does not listen any more.
    pub fn say(&mut self, line: &str) -> io::Result<()> {
        let input = self.input.as_mut().ok_or_else(|| io::Error::from(io::ErrorKind::BrokenPipe))?;
        input.write_all(line.as_bytes())?;
        input.write_all(b"\n")?;
        input.flush()
    }

    /// Waits for the next line.
    ///
    /// # Errors
    /// `TimedOut` when none came within `limit`, `UnexpectedEof` when the program's output has ended.
    pub fn hear(&mut self, limit: Duration) -> io::Result<String> {
        self.lines.recv_timeout(limit).map_err(|error| match error {
            RecvTimeoutError::Timeout => io::Error::from(io::ErrorKind::TimedOut),
            RecvTimeoutError::Disconnected => io::Error::from(io::ErrorKind::UnexpectedEof),
        })
    }
}

impl Drop for Piped {
    fn drop(&mut self) {
        // The end of its input is how such a program is told to go.
        self.input = None;
        let deadline = Instant::now() + END_WITHIN;
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(LOOK);
        }
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw) {
            // One that is gone in the meantime needs no ending.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

/// Finds a program as the person's shell would, without the relative folders of `PATH`: the system would look for both
/// in the folder the program is started in, which holds what others put there.
fn of_the_person(program: &OsStr) -> io::Result<PathBuf> {
    if Path::new(program).components().count() != 1 || program.as_encoded_bytes().contains(&b'/') {
        return std::path::absolute(program);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let candidates = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
    let mut candidates = candidates.map(|folder| folder.join(program));
    candidates.find(|candidate| is_executable(candidate)).ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn read(output: ChildStdout, sender: &SyncSender<String>) {
    let mut output = BufReader::new(output);
    loop {
        let mut line = Vec::new();
        match output.by_ref().take(MAX_LINE_LEN).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        if !line.is_empty() && sender.send(line).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_go_both_ways_and_the_end_is_seen() {
        let mut cat = Piped::start("cat".as_ref(), &[] as &[&str], Path::new("/")).unwrap();
        cat.say("one").unwrap();
        assert_eq!(cat.hear(Duration::from_secs(5)).unwrap(), "one");
        let silent = cat.hear(Duration::from_millis(1)).unwrap_err();
        assert_eq!(silent.kind(), io::ErrorKind::TimedOut);
        let mut gone = Piped::start("true".as_ref(), &[] as &[&str], Path::new("/")).unwrap();
        assert_eq!(gone.hear(Duration::from_secs(5)).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        let path = of_the_person("./here".as_ref()).unwrap();
        assert_eq!(path, std::env::current_dir().unwrap().join("here"), "not where it is started");
        Piped::start("/no/such/program".as_ref(), &[] as &[&str], Path::new("/")).unwrap_err();
    }
}
