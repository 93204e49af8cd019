//! Paths with query strings: the one place that percent-encodes.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A request target under construction.
#[derive(Debug)]
pub(crate) struct Target {
    text: String,
    has_query: bool,
}

impl Target {
    /// Begins with a path that needs no encoding.
    pub(crate) fn new(path: &str) -> Self {
        Self { text: path.to_owned(), has_query: false }
    }

    /// Adds one path segment.
    pub(crate) fn segment(mut self, segment: &str) -> Self {
        self.text.push('/');
        self.text.extend(utf8_percent_encode(segment, RESERVED));
        self
    }

    /// Adds one query parameter.
    pub(crate) fn parameter(mut self, name: &str, value: &str) -> Self {
        self.text.push(if self.has_query { '&' } else { '?' });
        self.has_query = true;
        self.text.push_str(name);
        self.text.push('=');
        self.text.extend(utf8_percent_encode(value, RESERVED));
        self
    }

    /// Adds one query parameter if there is a value for it.
    pub(crate) fn optional(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.parameter(name, value),
            None => self,
        }
    }

    /// Returns the finished target.
    pub(crate) fn into_text(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_outside_the_unreserved_set_is_encoded() {
        let target = Target::new("/api/requests").segment("a/../b?c").into_text();
        assert_eq!(target, "/api/requests/a%2F..%2Fb%3Fc");
        let target = Target::new("/api/chat/history")
            .parameter("session", "dm:entity owner&x=ü")
            .optional("other", None)
            .parameter("limit", "5");
        assert_eq!(target.into_text(), "/api/chat/history?session=dm%3Aentity%20owner%26x%3D%C3%BC&limit=5");
    }
}
