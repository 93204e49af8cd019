//! Server-sent events out of bytes that may be split anywhere.

/// Largest event that is put together; a reply's pieces are far smaller.
const MAX_EVENT_SIZE: usize = 4 * 1024 * 1024;
const BYTE_ORDER_MARK: &[u8] = &[0xEF, 0xBB, 0xBF];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    /// Its type, where the server gives one.
    pub(crate) name: Option<String>,
    /// Its data lines, joined.
    pub(crate) data: String,
}

/// An event is longer than anybody means it to be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// Puts events together. Lines may end with LF, CR or CRLF; comments and unknown fields are skipped.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    line: Vec<u8>,
    name: Option<String>,
    data: Option<String>,
    started: bool,
    after_return: bool,
}

impl Parser {
    /// Takes the next bytes and returns the events they complete.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<Vec<Event>, TooLong> {
        let mut events = Vec::new();
        for &byte in bytes {
            let after_return = std::mem::replace(&mut self.after_return, byte == b'\r');
            match byte {
                // The second half of a line end whose first half is done.
                b'\n' if after_return => {}
                b'\n' | b'\r' => events.extend(self.end_line()),
                byte => self.line.push(byte),
            }
            if self.line.len() + self.data.as_ref().map_or(0, String::len) > MAX_EVENT_SIZE {
                return Err(TooLong);
            }
        }
        Ok(events)
    }

    /// Returns the last event of a stream that ended without the blank line after it.
    pub(crate) fn finish(&mut self) -> Option<Event> {
        self.end_line().or_else(|| self.end_event())
    }

    fn end_line(&mut self) -> Option<Event> {
        let line = std::mem::take(&mut self.line);
        let mut line = line.as_slice();
        if !std::mem::replace(&mut self.started, true) {
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        if line.is_empty() {
            return self.end_event();
        }
        // A whole line is whole characters, however its bytes were split.
        let line = String::from_utf8_lossy(line);
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.name = Some(value.to_owned()),
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                none => *none = Some(value.to_owned()),
            },
            // A comment has an empty field; ids and retry times mean nothing to a single reply.
            _ => {}
        }
        None
    }

    fn end_event(&mut self) -> Option<Event> {
        let name = self.name.take();
        self.data.take().map(|data| Event { name, data })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn event(name: Option<&str>, data: &str) -> Event {
        Event { name: name.map(str::to_owned), data: data.to_owned() }
    }

    fn whole(text: &str) -> Vec<Event> {
        let mut parser = Parser::default();
        let mut events = parser.push(text.as_bytes()).expect("short");
        events.extend(parser.finish());
        events
    }

    #[test]
    fn fields_comments_and_line_ends() {
        assert_eq!(whole("data: a\n\n"), [event(None, "a")]);
        assert_eq!(
            whole("\u{feff}data:a\r\n\r\n: ping\r\n\r\ndata: b\r\rdata: c"),
            [event(None, "a"), event(None, "b"), event(None, "c"),]
        );
        assert_eq!(
            whole("event: x\nid: 3\nretry: 9\ndata: one\ndata:  two\n\n"),
            [event(Some("x"), "one\n two")]
        );
        assert_eq!(whole("event: lost\n\ndata\n\n"), [event(None, "")]);
        assert_eq!(whole(": only a comment\n\n\n\n"), []);
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut parser = Parser::default();
        let piece = vec![b'x'; MAX_EVENT_SIZE];
        assert!(parser.push(b"data: ").is_ok());
        assert_eq!(parser.push(&piece), Err(TooLong));
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_events(
            lines in prop::collection::vec(("(data|event|:|id)", "[ -~äß→🦀]{0,12}", "(\n|\r|\r\n)", 1..3usize), 0..12),
            cuts in prop::collection::vec(0..200usize, 0..12),
        ) {
            let mut text = String::new();
            for (field, value, end, ends) in &lines {
                text.push_str(&format!("{field}: {value}"));
                text.push_str(&end.repeat(*ends));
            }
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let mut parser = Parser::default();
            let mut events = Vec::new();
            for pair in cuts.windows(2) {
                events.extend(parser.push(&bytes[pair[0]..pair[1]]).expect("short"));
            }
            events.extend(parser.finish());
            prop_assert_eq!(events, whole(&text));
        }

        #[test]
        fn any_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut parser = Parser::default();
            prop_assert!(parser.push(&bytes).is_ok());
            parser.finish();
        }
    }
}
