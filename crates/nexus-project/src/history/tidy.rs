//! Removing what was moved aside. Freeing a file that was just written takes longer than all the rest of a call, so it
//! happens on a thread of its own, and not before the next call: the answer to this one is on its way first. What
//! stays, because the process was ended, goes with the next file that is moved there.

use std::path::PathBuf;
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, OnceLock, PoisonError};

use nexus_base::file;

/// Files that nobody needs any more.
#[derive(Debug, Default)]
pub(crate) struct Tidy {
    waiting: Mutex<Vec<PathBuf>>,
    /// Begun with the first files; nothing where the system gave no thread.
    thread: OnceLock<Option<Sender<Vec<PathBuf>>>>,
}

impl Tidy {
    /// Has files removed with the next call.
    pub(super) fn leave(&self, paths: Vec<PathBuf>) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).extend(paths);
    }

    /// Has those removed that earlier calls left.
    pub(crate) fn begin(&self) {
        let paths = self.take();
        if paths.is_empty() {
            return;
        }
        let unsent = match self.thread.get_or_init(thread) {
            Some(sender) => sender.send(paths).map_err(|unsent| unsent.0).err(),
            None => Some(paths),
        };
        unsent.into_iter().for_each(remove);
    }

    fn take(&self) -> Vec<PathBuf> {
        std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Tidy {
    fn drop(&mut self) {
        remove(self.take());
    }
}

fn thread() -> Option<Sender<Vec<PathBuf>>> {
    let (sender, receiver) = mpsc::channel();
    let run = move || receiver.into_iter().for_each(remove);
    std::thread::Builder::new().name("project-tidy".to_owned()).spawn(run).is_ok().then_some(sender)
}

fn remove(paths: Vec<PathBuf>) {
    for path in paths {
        // It is in nobody's way.
        let _ = file::remove(&path);
    }
}
