//! Decoding of `text/event-stream`: bytes in, frames out, whatever the chunks look like.
//! Knows the format only; what the data means is for the caller.

use std::collections::VecDeque;

/// Longest frame accepted, in bytes of field text.
pub const MAX_FRAME_LEN: usize = 4 * 1024 * 1024;

/// One event of the stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Frame {
    /// The `id` field of this frame, if it had one.
    pub id: Option<String>,
    /// The `event` field, if it had one.
    pub event: Option<String>,
    /// The `data` lines, joined by line feeds.
    pub data: String,
}

/// Why a stream cannot be decoded further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// A frame grew past [`MAX_FRAME_LEN`].
    #[error("an event is longer than {MAX_FRAME_LEN} bytes")]
    TooLong,
    /// A line is not UTF-8.
    #[error("an event is not UTF-8")]
    NotUtf8,
}

/// Turns chunks of bytes into frames.
#[derive(Debug, Default)]
pub struct Decoder {
    line: Vec<u8>,
    frame: Frame,
    frame_length: usize,
    has_data: bool,
    /// The last byte was a carriage return, so a line feed right after it belongs to it.
    after_return: bool,
    /// The first line may begin with a byte order mark.
    past_first_line: bool,
    ready: VecDeque<Frame>,
}

impl Decoder {
    /// Makes a decoder at the beginning of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes of the stream.
    ///
    /// # Errors
    /// The stream is not one of ours; nothing sensible can follow.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<(), DecodeError> {
        while !bytes.is_empty() {
            if self.after_return {
                self.after_return = false;
                if bytes[0] == b'\n' {
                    bytes = &bytes[1..];
                    continue;
                }
            }
            match bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
                Some(end) => {
                    self.extend_line(&bytes[..end])?;
                    self.after_return = bytes[end] == b'\r';
                    bytes = &bytes[end + 1..];
                    self.end_line()?;
                }
                None => {
                    self.extend_line(bytes)?;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Returns the next complete frame.
    pub fn next_frame(&mut self) -> Option<Frame> {
        self.ready.pop_front()
    }

    /// Returns the last frame of a stream that ended without the blank line after it.
    ///
    /// # Errors
    /// The line it breaks off in is not UTF-8.
    pub fn finish(&mut self) -> Result<Option<Frame>, DecodeError> {
        self.end_line()?;
        self.end_frame();
        Ok(self.next_frame())
    }

    fn extend_line(&mut self, bytes: &[u8]) -> Result<(), DecodeError> {
        if self.frame_length + self.line.len() + bytes.len() > MAX_FRAME_LEN {
            return Err(DecodeError::TooLong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self) -> Result<(), DecodeError> {
        let line = std::mem::take(&mut self.line);
        let mut text = std::str::from_utf8(&line).map_err(|_| DecodeError::NotUtf8)?;
        if !self.past_first_line {
            self.past_first_line = true;
            text = text.strip_prefix('\u{feff}').unwrap_or(text);
        }
        if text.is_empty() {
            self.end_frame();
        } else {
            self.take_field(text);
        }
        // The buffer goes back, so that a long stream does not allocate line by line.
        self.line = line;
        self.line.clear();
        Ok(())
    }

    fn take_field(&mut self, line: &str) {
        let (name, value) = match line.split_once(':') {
            // A comment: the heartbeat.
            Some(("", _)) => return,
            Some((name, value)) => (name, value.strip_prefix(' ').unwrap_or(value)),
            None => (line, ""),
        };
        match name {
            "data" => {
                if self.has_data {
                    self.frame.data.push('\n');
                }
                self.has_data = true;
                self.frame.data.push_str(value);
            }
            "event" => self.frame.event = Some(value.to_owned()),
            "id" if !value.contains('\0') => self.frame.id = Some(value.to_owned()),
            // `retry` and unknown fields; the format says to pass over them.
            _ => return,
        }
        self.frame_length += line.len() + 1;
    }

    fn end_frame(&mut self) {
        let frame = std::mem::take(&mut self.frame);
        self.frame_length = 0;
        // A frame without data is no event; the format drops it.
        if std::mem::take(&mut self.has_data) {
            self.ready.push_back(frame);
        }
    }
}

#[cfg(test)]
mod tests;
