//! Output kept within a cap: the beginning and the end stay, the middle is counted and dropped.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// What one stream of a process said, within the cap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    /// The first bytes.
    pub head: Vec<u8>,
    /// The last bytes, when the whole did not fit into the head.
    pub tail: Vec<u8>,
    /// How many bytes between head and tail were dropped.
    pub cut: u64,
}

impl Captured {
    /// Returns the text, invalid UTF-8 replaced, with one line standing where bytes were dropped.
    pub fn text(&self) -> String {
        if self.cut == 0 {
            // One string for both halves: a character may straddle the border.
            let whole: Vec<u8> = self.head.iter().chain(&self.tail).copied().collect();
            return String::from_utf8_lossy(&whole).into_owned();
        }
        format!(
            "{}\n[… {} bytes cut here …]\n{}",
            String::from_utf8_lossy(&self.head),
            self.cut,
            String::from_utf8_lossy(&self.tail)
        )
    }

    /// Returns how many bytes the process wrote to this stream.
    pub fn total(&self) -> u64 {
        self.head.len() as u64 + self.tail.len() as u64 + self.cut
    }

    /// Returns whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.total() == 0
    }
}

/// A stream being read; shared so that what arrived can be taken even if reading never ends.
#[derive(Debug, Clone)]
pub(crate) struct Capture {
    limit: usize,
    inner: Arc<Mutex<Buffer>>,
}

#[derive(Debug, Default)]
struct Buffer {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    cut: u64,
}

/// Both output streams of a program that may still be running.
#[derive(Debug, Clone)]
pub struct LiveOutput {
    pub(crate) streams: [Capture; 2],
}

impl LiveOutput {
    pub(crate) fn new(limit: usize) -> Self {
        Self { streams: [Capture::new(limit), Capture::new(limit)] }
    }

    /// Returns what standard output and standard error said so far.
    pub fn so_far(&self) -> [Captured; 2] {
        self.streams.each_ref().map(Capture::so_far)
    }
}

impl Capture {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, inner: Arc::default() }
    }

    /// Reads `stream` to its end, keeping at most the limit.
    pub(crate) async fn drain(self, mut stream: impl AsyncRead + Unpin) {
        let mut chunk = vec![0u8; 16 * 1024];
        loop {
            match stream.read(&mut chunk).await {
                Ok(0) => return,
                Ok(count) => self.push(&chunk[..count]),
                // The other end is gone; what was read stays.
                Err(_) => return,
            }
        }
    }

    /// Returns what has arrived so far.
    pub(crate) fn so_far(&self) -> Captured {
        let buffer = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let Buffer { head, tail, cut } = &*buffer;
        Captured { head: head.clone(), tail: tail.iter().copied().collect(), cut: *cut }
    }

    fn push(&self, bytes: &[u8]) {
        let head_limit = self.limit / 2;
        let tail_limit = self.limit - head_limit;
        let mut buffer = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let room = head_limit.saturating_sub(buffer.head.len()).min(bytes.len());
        let (first, rest) = bytes.split_at(room);
        buffer.head.extend_from_slice(first);
        buffer.tail.extend(rest);
        let surplus = buffer.tail.len().saturating_sub(tail_limit);
        if surplus > 0 {
            buffer.tail.drain(..surplus);
            buffer.cut += surplus as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_dropped_and_counted() {
        let capture = Capture::new(8);
        for chunk in [b"abc".as_slice(), b"defgh", b"ijklmnop"] {
            capture.push(chunk);
        }
        let captured = capture.so_far();
        assert_eq!(captured, Captured { head: b"abcd".to_vec(), tail: b"mnop".to_vec(), cut: 8 });
        assert_eq!(captured.text(), "abcd\n[… 8 bytes cut here …]\nmnop");
        assert_eq!(captured.total(), 16);
    }

    #[test]
    fn a_character_on_the_border_survives_when_nothing_is_cut() {
        let capture = Capture::new(6);
        capture.push("aaéé".as_bytes());
        assert_eq!(capture.so_far().text(), "aaéé");
    }
}
