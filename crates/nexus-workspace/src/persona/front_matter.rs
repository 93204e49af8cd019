//! Front matter of identity files: `key: value` lines between two `---` lines, and no more of YAML.

/// Most lines looked at for the closing `---`.
const MAX_LINES: usize = 64;
/// Longest key or value kept, in bytes.
const MAX_VALUE_LEN: usize = 500;

/// The pairs at the head of a file, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FrontMatter(Vec<(String, String)>);

impl FrontMatter {
    /// Splits a text into its front matter and the body after it. Never fails: what is not front
    /// matter is body.
    pub fn read(text: &str) -> (Self, &str) {
        let nothing = (Self::default(), text);
        let start = text.trim_start_matches('\u{feff}');
        let Some(rest) = start.strip_prefix("---").and_then(|rest| rest.split_once('\n')) else {
            return nothing;
        };
        if !rest.0.trim().is_empty() {
            return nothing;
        }
        let mut pairs = Vec::new();
        let mut position = 0;
        for line in rest.1.split_inclusive('\n').take(MAX_LINES) {
            position += line.len();
            let line = line.trim_end();
            if line == "---" {
                return (Self(pairs), &rest.1[position..]);
            }
            // Indented lines belong to nested YAML, which no identity file needs.
            if line.starts_with([' ', '\t', '#', '-']) {
                continue;
            }
            if let Some((key, value)) = line.split_once(':') {
                pairs.push((shorten(key.trim()).to_lowercase(), shorten(unquote(value.trim())).to_owned()));
            }
        }
        nothing
    }

    /// Returns a value that was given and is not empty.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, value)| name == key && !value.is_empty()).map(|(_, value)| value.as_str())
    }

    /// Goes through the pairs in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Tells whether there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn unquote(value: &str) -> &str {
    for quote in ['"', '\''] {
        if let Some(inner) = value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            return inner.trim();
        }
    }
    value
}

fn shorten(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_VALUE_LEN)]
}
