//! From HTML to text a model can read: headings, paragraphs, lists and links, nothing that is not seen.
//!
//! A reader, not a browser: broken markup gives worse text, never an error and never unbounded work. What is markup and what an
//! entity means is `html5gum`'s part, by the rules browsers follow.

use std::borrow::Cow;

use html5gum::{DefaultEmitter, HtmlString, StartTag, Token, Tokenizer};

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
    /// The element we are in that is not seen, and how many of its name are open.
    hidden: Option<(HtmlString, usize)>,
}

impl Reader {
    fn read(&mut self, html: &str) {
        for token in tokens(html) {
            match (token, &mut self.hidden) {
                (Token::StartTag(tag), Some((name, open))) => *open += usize::from(tag.name == *name),
                (Token::EndTag(tag), Some((name, open))) if tag.name == *name => {
                    *open -= 1;
                    if *open == 0 {
                        self.hidden = None;
                    }
                }
                (_, Some(_)) => {}
                (Token::StartTag(tag), None) if is_hidden(&tag) => self.hidden = Some((tag.name, 1)),
                (Token::StartTag(tag), None) => self.begin(&tag),
                (Token::EndTag(tag), None) => self.end(&tag.name),
                (Token::String(words), None) => self.words(&text(&words)),
                (Token::Comment(_) | Token::Doctype(_) | Token::Error(_), None) => {}
            }
        }
        self.end_link();
    }

    fn begin(&mut self, tag: &StartTag<()>) {
        match text(&tag.name).as_ref() {
            "br" => self.page.text.push('\n'),
            "li" => self.page.text.push_str("\n- "),
            name @ ("h1" | "h2" | "h3" | "h4" | "h5" | "h6") => {
                let depth = name.as_bytes().get(1).map_or(1, |digit| usize::from(digit - b'0'));
                self.page.text.push_str(&format!("\n\n{} ", "#".repeat(depth)));
            }
            "td" | "th" => self.page.text.push_str(" | "),
            "a" => {
                self.end_link();
                self.link = attribute(tag, "href").map(|target| (target.into_owned(), self.page.text.len()));
            }
            "img" => {
                if let Some(alt) = attribute(tag, "alt").filter(|alt| !alt.trim().is_empty()) {
                    self.page.text.push_str(&format!("[{}]", alt.trim()));
                }
            }
            "pre" => {
                self.page.text.push('\n');
                self.preformatted += 1;
            }
            block if BLOCKS.contains(&block) => self.page.text.push('\n'),
            _ => {}
        }
    }

    fn end(&mut self, name: &HtmlString) {
        match text(name).as_ref() {
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => self.page.text.push('\n'),
            "a" => self.end_link(),
            "pre" => {
                self.page.text.push('\n');
                self.preformatted = self.preformatted.saturating_sub(1);
            }
            block if BLOCKS.contains(&block) => self.page.text.push('\n'),
            _ => {}
        }
    }

    fn words(&mut self, words: &str) {
        for character in words.chars() {
            match character {
                // Seen by nobody: what parts words, and what ends up here by its number only.
                '\u{ad}' | '\u{200c}' | '\u{200d}' => {}
                hidden if hidden.is_control() && !hidden.is_whitespace() => {}
                blank if blank.is_whitespace() && self.preformatted == 0 => {
                    if !self.page.text.ends_with([' ', '\n']) && !self.page.text.is_empty() {
                        self.page.text.push(' ');
                    }
                }
                character => self.page.text.push(character),
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

fn tokens(html: &str) -> impl Iterator<Item = Token> {
    let mut emitter = DefaultEmitter::default();
    // Inside scripts, styles and titles markup is text.
    emitter.naively_switch_states(true);
    Tokenizer::new_with_emitter(html, emitter).flatten()
}

fn text(bytes: &HtmlString) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

fn attribute<'a>(tag: &'a StartTag<()>, name: &str) -> Option<Cow<'a, str>> {
    tag.attributes.get(name.as_bytes()).map(|value| text(value))
}

/// Tells whether nothing of the element is seen. Words for the machine alone are no use to a reader.
fn is_hidden(tag: &StartTag<()>) -> bool {
    let name = text(&tag.name);
    if VOID.contains(&name.as_ref()) {
        return false;
    }
    let style = attribute(tag, "style").unwrap_or_default().to_ascii_lowercase().replace(' ', "");
    NEVER_SHOWN.contains(&name.as_ref())
        || attribute(tag, "hidden").is_some()
        || attribute(tag, "aria-hidden").as_deref() == Some("true")
        || ["display:none", "visibility:hidden", "font-size:0", "opacity:0"]
            .iter()
            .any(|sign| style.contains(sign))
}

fn title_of(html: &str) -> String {
    let mut tokens = tokens(&html[..html.floor_char_boundary(64 * 1024)])
        .skip_while(|token| !matches!(token, Token::StartTag(tag) if tag.name == b"title"))
        .skip(1);
    let Some(Token::String(title)) = tokens.next() else { return String::new() };
    text(&title).split_whitespace().collect::<Vec<_>>().join(" ").chars().take(200).collect()
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
