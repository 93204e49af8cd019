//! A walk over the text of `history.json` that finds where each cycle begins and ends, without ever
//! holding more than one cycle. What is inside a cycle is for `serde_json`.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use serde::de::IgnoredAny;

#[cfg(test)]
mod tests;

/// Most bytes read at once, and least.
const CHUNK: u64 = 128 * 1024;
const SMALL_CHUNK: u64 = 4 * 1024;
/// Largest single cycle, in bytes.
pub(super) const MAX_CYCLE_SIZE: usize = 64 * 1024 * 1024;

/// Why the walk ended early.
#[derive(Debug)]
pub(super) enum Fault {
    /// The text is not a history at this offset.
    Shape { offset: u64, what: &'static str },
    /// The operating system refused.
    Io(io::Error),
}

/// What the walk found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    /// Offset right after the last cycle, or after the opening bracket when there is none.
    pub(super) elements_end: u64,
}

/// Where to begin.
#[derive(Debug, Clone, Copy)]
pub(super) enum From {
    /// At the first byte.
    Start,
    /// Right after a cycle that is known already.
    AfterCycle(u64),
    /// Right after the opening bracket.
    AfterBracket(u64),
}

/// Walks the file and hands each cycle's offset and text over.
pub(super) fn walk(
    file: &File,
    from: From,
    mut each: impl FnMut(u64, &[u8]) -> Result<(), Fault>,
) -> Result<End, Fault> {
    let offset = match from {
        From::Start => 0,
        From::AfterCycle(offset) | From::AfterBracket(offset) => offset,
    };
    let rest = file.metadata().map_err(Fault::Io)?.len().saturating_sub(offset);
    let chunk = usize::try_from(rest.clamp(SMALL_CHUNK, CHUNK)).unwrap_or_default();
    let mut text = Text { file, chunk: vec![0; chunk], at: 0, filled: 0, base: offset };
    let mut end = None;
    match from {
        From::Start => {
            text.space()?;
            text.expect(b'{', "expected an object")?;
            text.space()?;
            if text.peek()? == Some(b'}') {
                return Err(text.fault("no list of cycles"));
            }
        }
        From::AfterCycle(_) | From::AfterBracket(_) => {
            let first = matches!(from, From::AfterBracket(_));
            end = Some(cycles(&mut text, first, &mut each)?);
            if !more(&mut text)? {
                return close(&mut text, end);
            }
        }
    }
    let mut key = Vec::new();
    let mut scrap = Vec::new();
    loop {
        text.space()?;
        key.clear();
        let offset = text.position();
        text.string(&mut key)?;
        let no_name = |_| Fault::Shape { offset, what: "a name is not valid JSON" };
        let name: String = serde_json::from_slice(&key).map_err(no_name)?;
        text.space()?;
        text.expect(b':', "expected a colon")?;
        text.space()?;
        if name == "cycles" {
            if end.is_some() {
                return Err(text.fault("a second list of cycles"));
            }
            text.expect(b'[', "expected a list of cycles")?;
            end = Some(cycles(&mut text, true, &mut each)?);
        } else {
            scrap.clear();
            let offset = text.position();
            text.value(&mut scrap)?;
            sound(&scrap, offset)?;
        }
        if !more(&mut text)? {
            return close(&mut text, end);
        }
    }
}

fn cycles(
    text: &mut Text<'_>,
    mut first: bool,
    each: &mut impl FnMut(u64, &[u8]) -> Result<(), Fault>,
) -> Result<End, Fault> {
    let mut elements_end = text.position();
    let mut cycle = Vec::new();
    loop {
        text.space()?;
        match text.peek()? {
            Some(b']') => {
                text.take()?;
                return Ok(End { elements_end });
            }
            Some(b',') if !first => {
                text.take()?;
                text.space()?;
            }
            Some(_) if first => {}
            _ => return Err(text.fault("the list of cycles is not closed")),
        }
        first = false;
        let start = text.position();
        if text.peek()? != Some(b'{') {
            return Err(text.fault("expected a cycle"));
        }
        cycle.clear();
        text.value(&mut cycle)?;
        elements_end = text.position();
        each(start, &cycle)?;
    }
}

/// Checks a value that is not ours: it stays as it is, but only in a document that everybody can read.
fn sound(value: &[u8], offset: u64) -> Result<(), Fault> {
    // A value that is passed over is not looked at for this.
    if let Err(error) = std::str::from_utf8(value) {
        let offset = offset + error.valid_up_to() as u64;
        return Err(Fault::Shape { offset, what: "text that is not UTF-8" });
    }
    let no_json = |_| Fault::Shape { offset, what: "a value is not valid JSON" };
    serde_json::from_slice::<IgnoredAny>(value).map(drop).map_err(no_json)
}

/// Steps over a comma; false at the closing brace.
fn more(text: &mut Text<'_>) -> Result<bool, Fault> {
    text.space()?;
    match text.take()? {
        Some(b',') => Ok(true),
        Some(b'}') => Ok(false),
        _ => Err(text.fault("expected a comma or the end of the object")),
    }
}

fn close(text: &mut Text<'_>, end: Option<End>) -> Result<End, Fault> {
    text.space()?;
    if text.peek()?.is_some() {
        return Err(text.fault("text after the end"));
    }
    end.ok_or_else(|| text.fault("no list of cycles"))
}

struct Text<'file> {
    file: &'file File,
    chunk: Vec<u8>,
    at: usize,
    filled: usize,
    base: u64,
}

impl Text<'_> {
    fn position(&self) -> u64 {
        self.base + self.at as u64
    }

    fn fault(&self, what: &'static str) -> Fault {
        Fault::Shape { offset: self.position(), what }
    }

    fn fill(&mut self) -> Result<bool, Fault> {
        self.base += self.filled as u64;
        self.at = 0;
        self.filled = self.file.read_at(&mut self.chunk, self.base).map_err(Fault::Io)?;
        Ok(self.filled > 0)
    }

    fn peek(&mut self) -> Result<Option<u8>, Fault> {
        if self.at == self.filled && !self.fill()? {
            return Ok(None);
        }
        Ok(self.chunk.get(self.at).copied())
    }

    fn take(&mut self) -> Result<Option<u8>, Fault> {
        let byte = self.peek()?;
        self.at += usize::from(byte.is_some());
        Ok(byte)
    }

    fn space(&mut self) -> Result<(), Fault> {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek()? {
            self.at += 1;
        }
        Ok(())
    }

    fn expect(&mut self, byte: u8, what: &'static str) -> Result<(), Fault> {
        if self.peek()? == Some(byte) {
            self.at += 1;
            return Ok(());
        }
        Err(self.fault(what))
    }

    /// Copies a string, quotes included.
    fn string(&mut self, into: &mut Vec<u8>) -> Result<(), Fault> {
        self.expect(b'"', "expected a name")?;
        into.push(b'"');
        loop {
            if self.at == self.filled && !self.fill()? {
                return Err(self.fault("a string is not closed"));
            }
            let rest = self.chunk.get(self.at..self.filled).unwrap_or_default();
            let plain = rest.iter().position(|byte| matches!(byte, b'"' | b'\\')).unwrap_or(rest.len());
            into.extend_from_slice(rest.get(..plain).unwrap_or_default());
            self.at += plain;
            if into.len() > MAX_CYCLE_SIZE {
                return Err(self.fault("a cycle is too long"));
            }
            match self.peek()? {
                Some(b'"') => {
                    self.at += 1;
                    into.push(b'"');
                    return Ok(());
                }
                Some(b'\\') => {
                    self.at += 1;
                    into.push(b'\\');
                    if let Some(escaped) = self.take()? {
                        into.push(escaped);
                    }
                }
                _ => {}
            }
        }
    }

    /// Copies one value. Brackets are counted, not matched: `serde_json` judges what is inside.
    fn value(&mut self, into: &mut Vec<u8>) -> Result<(), Fault> {
        let mut depth = 0_usize;
        loop {
            match self.peek()? {
                None => return Err(self.fault("the text ends in the middle of a value")),
                Some(b'"') => self.string(into)?,
                Some(open @ (b'{' | b'[')) => {
                    depth += 1;
                    self.at += 1;
                    into.push(open);
                }
                Some(b'}' | b']' | b',') if depth == 0 => return Ok(()),
                Some(close @ (b'}' | b']')) => {
                    depth -= 1;
                    self.at += 1;
                    into.push(close);
                    if depth == 0 {
                        return Ok(());
                    }
                }
                Some(byte) => {
                    self.at += 1;
                    into.push(byte);
                }
            }
            if into.len() > MAX_CYCLE_SIZE {
                return Err(self.fault("a cycle is too long"));
            }
        }
    }
}
