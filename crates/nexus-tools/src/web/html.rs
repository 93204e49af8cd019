//! From HTML to text a model can read: headings, paragraphs, lists and links, nothing that is not seen.
//!
//! A reader, not a browser: broken markup gives worse text, never an error and never unbounded work.

/// Elements whose content is never shown, whatever it is.
const NEVER_SHOWN: &[&str] =
    &["script", "style", "template", "svg", "noscript", "iframe", "object", "head", "math", "canvas", "nav"];
/// Elements that have no content and no end.
const VOID: &[&str] =
    &["br", "hr", "img", "input", "meta", "link", "source", "wbr", "area", "base", "col", "embed", "track"];
/// Elements that begin on a line of their own.
const BLOCKS: &[&str] = &[
    "p",
    "div",
    "section",
    "article",
    "main",
    "header",
    "footer",
    "aside",
    "ul",
    "ol",
    "table",
    "tr",
    "blockquote",
    "pre",
    "form",
    "figure",
    "figcaption",
    "dl",
    "dt",
    "dd",
    "address",
    "hr",
    "details",
    "summary",
    "fieldset",
];
/// The most links taken from one page.
const MAX_LINKS: usize = 2_000;
/// The longest tag looked at.
const MAX_TAG_LEN: usize = 16 * 1024;

/// A page as text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) title: String,
    pub(super) text: String,
    /// Targets of links as written, in order.
    pub(super) links: Vec<String>,
}

pub(super) fn read(html: &str) -> Page {
    let mut reader = Reader::default();
    reader.page.title = title_of(html);
    reader.read(body_of(html));
    let Page { title, text, links } = reader.page;
    Page { title, text: tidy(&text), links }
}

#[derive(Debug, Default)]
struct Reader {
    page: Page,
    /// Inside `pre`, where blanks mean something.
    preformatted: usize,
    /// The target of the link we are in, and where its words begin.
    link: Option<(String, usize)>,
}

impl Reader {
    fn read(&mut self, html: &str) {
        let mut rest = html;
        while let Some(open) = rest.find('<') {
            self.words(&rest[..open]);
            rest = &rest[open..];
            if let Some(comment) = rest.strip_prefix("<!--") {
                rest = comment.find("-->").map_or("", |end| &comment[end + 3..]);
                continue;
            }
            let Some(tag) = Tag::read(rest) else {
                self.words("<");
                rest = &rest[1..];
                continue;
            };
            rest = &rest[tag.length..];
            if tag.is_hidden() {
                rest = after_end(rest, &tag.name);
                continue;
            }
            self.tag(&tag);
        }
        self.words(rest);
        self.end_link();
    }

    fn tag(&mut self, tag: &Tag<'_>) {
        let name = tag.name.as_str();
        match (name, tag.closes) {
            ("br", _) => self.page.text.push('\n'),
            ("li", false) => self.page.text.push_str("\n- "),
            ("h1" | "h2" | "h3" | "h4" | "h5" | "h6", false) => {
                let depth = name.as_bytes().get(1).map_or(1, |digit| usize::from(digit - b'0'));
                self.page.text.push_str(&format!("\n\n{} ", "#".repeat(depth)));
            }
            ("h1" | "h2" | "h3" | "h4" | "h5" | "h6", true) => self.page.text.push('\n'),
            ("td" | "th", false) => self.page.text.push_str(" | "),
            ("a", false) => {
                self.end_link();
                self.link = tag.attribute("href").map(|target| (decode(&target), self.page.text.len()));
            }
            ("a", true) => self.end_link(),
            ("img", _) => {
                if let Some(alt) = tag.attribute("alt").filter(|alt| !alt.trim().is_empty()) {
                    self.page.text.push_str(&format!("[{}]", decode(alt.trim())));
                }
            }
            ("pre", closes) => {
                self.page.text.push('\n');
                self.preformatted =
                    if closes { self.preformatted.saturating_sub(1) } else { self.preformatted + 1 };
            }
            (block, _) if BLOCKS.contains(&block) => self.page.text.push('\n'),
            _ => {}
        }
    }

    fn words(&mut self, raw: &str) {
        let words = decode(raw);
        if self.preformatted > 0 {
            self.page.text.push_str(&words);
            return;
        }
        for character in words.chars() {
            if !character.is_whitespace() {
                self.page.text.push(character);
            } else if !self.page.text.ends_with([' ', '\n']) && !self.page.text.is_empty() {
                self.page.text.push(' ');
            }
        }
    }

    fn end_link(&mut self) {
        let Some((target, start)) = self.link.take() else { return };
        let has_words = self.page.text.get(start..).is_some_and(|words| !words.trim().is_empty());
        let leads_on = !target.is_empty() && !target.starts_with('#') && !target.starts_with("javascript:");
        if leads_on && self.page.links.len() < MAX_LINKS {
            if has_words && (target.starts_with("http://") || target.starts_with("https://")) {
                self.page.text.push_str(&format!(" ({target})"));
            }
            self.page.links.push(target);
        }
    }
}

#[derive(Debug)]
struct Tag<'a> {
    name: String,
    closes: bool,
    inside: &'a str,
    /// Bytes from `<` to `>`.
    length: usize,
}

impl<'a> Tag<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let window = &text[..text.floor_char_boundary(MAX_TAG_LEN)];
        let closes = window[1..].starts_with('/');
        let start = if closes { 2 } else { 1 };
        let first = window[start..].chars().next()?;
        if !first.is_ascii_alphabetic() && !matches!(first, '!' | '?') {
            return None;
        }
        let mut quote = None;
        let end = window.char_indices().skip(start).find(|(_, character)| match (quote, *character) {
            (Some(open), character) => {
                if open == character {
                    quote = None;
                }
                false
            }
            (None, '"' | '\'') => {
                quote = Some(*character);
                false
            }
            (None, character) => character == '>',
        });
        let (end, _) = end?;
        let inside = &window[start..end];
        let name: String = inside
            .chars()
            .take_while(|character| character.is_ascii_alphanumeric() || *character == '-')
            .map(|character| character.to_ascii_lowercase())
            .collect();
        Some(Self { name, closes, inside, length: end + 1 })
    }

    fn attribute(&self, wanted: &str) -> Option<String> {
        let mut rest = self.inside.get(self.name.len()..)?;
        loop {
            rest = rest.trim_start_matches(|character: char| character.is_whitespace() || character == '/');
            let end = rest
                .find(|character: char| character.is_whitespace() || character == '=')
                .unwrap_or(rest.len());
            if end == 0 {
                return None;
            }
            let name = rest[..end].to_ascii_lowercase();
            rest = rest[end..].trim_start();
            let value = match rest.strip_prefix('=') {
                None => String::new(),
                Some(after) => {
                    let after = after.trim_start();
                    let (value, next) = match after.chars().next() {
                        Some(quote @ ('"' | '\'')) => {
                            after[1..].split_once(quote).unwrap_or((&after[1..], ""))
                        }
                        _ => after.split_at(after.find(char::is_whitespace).unwrap_or(after.len())),
                    };
                    rest = next;
                    value.to_owned()
                }
            };
            if name == wanted {
                return Some(value);
            }
        }
    }

    /// Tells whether nothing of the element is seen. Words for the machine alone are no use to a reader.
    fn is_hidden(&self) -> bool {
        if self.closes || VOID.contains(&self.name.as_str()) {
            return false;
        }
        let style = self.attribute("style").unwrap_or_default().to_ascii_lowercase().replace(' ', "");
        NEVER_SHOWN.contains(&self.name.as_str())
            || self.attribute("hidden").is_some()
            || self.attribute("aria-hidden").as_deref() == Some("true")
            || ["display:none", "visibility:hidden", "font-size:0", "opacity:0"]
                .iter()
                .any(|sign| style.contains(sign))
    }
}

/// Returns what follows the end of an element that has just begun.
fn after_end<'a>(html: &'a str, name: &str) -> &'a str {
    let mut depth = 1;
    let mut rest = html;
    // What scripts contain is no markup; their first end is the end.
    let is_raw = matches!(name, "script" | "style");
    while let Some(open) = rest.find('<') {
        rest = &rest[open..];
        let Some(tag) = Tag::read(rest) else {
            rest = &rest[1..];
            continue;
        };
        if tag.name == name {
            if tag.closes {
                depth -= 1;
            } else if !is_raw && !tag.inside.ends_with('/') {
                depth += 1;
            }
        }
        // Inside raw text a tag may swallow the real end; step over its first letter only.
        rest = if is_raw && !(tag.name == name && tag.closes) { &rest[1..] } else { &rest[tag.length..] };
        if depth == 0 {
            return rest;
        }
    }
    ""
}

fn title_of(html: &str) -> String {
    let lower = html.get(..html.floor_char_boundary(64 * 1024)).unwrap_or(html).to_ascii_lowercase();
    let inside = lower.find("<title").and_then(|at| lower[at..].find('>').map(|end| at + end + 1));
    let Some(start) = inside else { return String::new() };
    let end = lower[start..].find("</title").map_or(start, |end| start + end);
    let title: Vec<&str> = html[start..end].split_whitespace().collect();
    decode(&title.join(" ")).chars().take(200).collect()
}

/// Returns the part of a page that is about its subject, where the page says which one that is.
fn body_of(html: &str) -> &str {
    let lower = html.to_ascii_lowercase();
    for name in ["main", "article"] {
        let (open, close) = (format!("<{name}"), format!("</{name}>"));
        if let (Some(start), Some(end)) = (lower.find(&open), lower.rfind(&close))
            && start < end
        {
            return &html[start..end];
        }
    }
    html
}

fn decode(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        result.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = rest.char_indices().take(12).find(|(_, character)| *character == ';').map(|(end, _)| end);
        match end.and_then(|end| Some((entity(&rest[1..end])?, end))) {
            Some((character, end)) => {
                result.push_str(&character);
                rest = &rest[end + 1..];
            }
            None => {
                result.push('&');
                rest = &rest[1..];
            }
        }
    }
    result.push_str(rest);
    result
}

fn entity(name: &str) -> Option<String> {
    if let Some(number) = name.strip_prefix('#') {
        let code = match number.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16).ok()?,
            None => number.parse().ok()?,
        };
        let character =
            char::from_u32(code).filter(|character| !character.is_control() || character.is_whitespace())?;
        return Some(character.to_string());
    }
    let character = match name {
        "amp" => "&",
        "lt" => "<",
        "gt" => ">",
        "quot" => "\"",
        "apos" => "'",
        "nbsp" | "ensp" | "emsp" | "thinsp" => " ",
        "mdash" => "—",
        "ndash" => "–",
        "hellip" => "…",
        "lsquo" => "‘",
        "rsquo" => "’",
        "ldquo" => "“",
        "rdquo" => "”",
        "laquo" => "«",
        "raquo" => "»",
        "bull" => "•",
        "middot" => "·",
        "copy" => "©",
        "reg" => "®",
        "trade" => "™",
        "deg" => "°",
        "euro" => "€",
        "pound" => "£",
        "times" => "×",
        "shy" | "zwnj" | "zwj" => "",
        _ => return None,
    };
    Some(character.to_owned())
}

/// Removes blanks at the ends of lines and more than one empty line in a row.
fn tidy(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut empty = 0;
    for line in text.lines() {
        let line = line.trim_end();
        empty = if line.is_empty() { empty + 1 } else { 0 };
        if empty < 2 && !(result.is_empty() && line.is_empty()) {
            result.push_str(line);
            result.push('\n');
        }
    }
    result.truncate(result.trim_end().len());
    result
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_page_reads_well() {
        let page = read(
            "<!doctype html><html><head><title>A &amp; B</title><style>p{}</style></head><body><nav>menu</nav>\
             <h1>Head</h1><p>One  two<br>three &mdash; <a href='https://x.org/y'>link</a></p>\
             <ul><li>first<li>second</ul><pre>a\n  b</pre><script>if (a<b) alert('</p>')</script>\
             <p hidden>unseen</p><div style='display: none'><div>x</div>unseen</div><!-- <p>no</p> -->\
             <a href='/more'>more</a> <img alt=pic> 1 < 2 &#x41;&unknown;</body>",
        );
        assert_eq!(page.title, "A & B");
        assert_eq!(
            page.text,
            "# Head\n\nOne two\nthree — link (https://x.org/y)\n\n- first\n- second\n\na\n  b\nmore [pic] 1 < 2 A&unknown;"
        );
        assert_eq!(page.links, ["https://x.org/y", "/more"]);
    }

    #[test]
    fn the_subject_is_preferred() {
        assert_eq!(read("<p>around</p><main><p>inside</p></main><p>after</p>").text, "inside");
    }

    proptest! {
        #[test]
        fn anything_is_read_without_harm(html in "([<>/a-z\"'= !&;#-]|<script>|</script>|<a href=|é|<pre>|<!--){0,80}") {
            let page = read(&html);
            prop_assert!(page.text.len() <= html.len() * 4 + 64);
        }
    }
}
