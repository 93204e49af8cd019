//! Text of somebody else's, shown so that what is read is what is there: nothing in it can hide, move or reorder
//! anything, and two different texts never look the same.
//!
//! Line breaks are lines. A letter that has no look of its own (control, direction, zero width, unassigned, private,
//! combining, tag and variation characters, blanks other than the space) or that turns the direction of its
//! neighbours (letters of right-to-left scripts) stands as `\u{202E}`. Long runs of blanks, blanks at the end of a
//! line and runs of empty lines stand as a count, `⟨␠×1500⟩`. A text that contains these marks itself has them escaped,
//! so a mark is always ours. Breaking lines to a width and numbering them is for whoever knows the width.

use std::fmt::Write as _;

/// Most spaces in a row that are shown as they are.
const MAX_PLAIN_SPACES: usize = 16;
/// Most tabs in a row that are shown one by one.
const MAX_PLAIN_TABS: usize = 8;
/// Most empty lines in a row that are shown one by one.
const MAX_EMPTY_LINES: usize = 3;
/// What stands for a tab.
const TAB: char = '⇥';
/// What begins a mark of ours.
const MARK: char = '⟨';

/// One line of a text, or a run of empty ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VisibleLine {
    /// Its number in the text, from 1.
    pub number: usize,
    /// How many lines it stands for.
    pub count: usize,
    /// What to show.
    pub text: String,
}

/// Returns a text line by line, every line visible to its end.
pub fn lines(text: &str) -> Vec<VisibleLine> {
    let all: Vec<&str> = text.split('\n').collect();
    let mut shown = Vec::new();
    let mut at = 0;
    while at < all.len() {
        let empty = all[at..].iter().take_while(|line| line.is_empty()).count();
        if empty > MAX_EMPTY_LINES {
            let text = format!("{MARK}{empty} empty lines⟩");
            shown.push(VisibleLine { number: at + 1, count: empty, text });
            at += empty;
        } else {
            shown.push(VisibleLine { number: at + 1, count: 1, text: line(all[at]) });
            at += 1;
        }
    }
    shown
}

/// Returns a text on one line; its line breaks are escaped, too.
pub fn line(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let run = match character {
            ' ' | '\t' => rest.chars().take_while(|next| *next == character).count(),
            _ => 1,
        };
        let taken = match character {
            ' ' if run > MAX_PLAIN_SPACES || run == rest.len() => {
                let _ = write!(shown, "{MARK}␠×{run}⟩");
                run
            }
            '\t' if run > MAX_PLAIN_TABS => {
                let _ = write!(shown, "{MARK}{TAB}×{run}⟩");
                run
            }
            ' ' => {
                shown.push_str(&rest[..run]);
                run
            }
            '\t' => {
                shown.push(TAB);
                1
            }
            // Only one that would read as an escape of ours: commands are full of the others.
            '\\' if !rest.starts_with("\\u{") => {
                shown.push(character);
                1
            }
            '\\' => {
                escape(&mut shown, character);
                1
            }
            _ if is_plain(character) => {
                shown.push(character);
                character.len_utf8()
            }
            _ => {
                escape(&mut shown, character);
                character.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    shown
}

/// Tells whether a letter can turn the order in which others are shown, or is not shown at all: what no text for
/// people needs, whoever wrote it. Joiners, accents and right-to-left letters are not among them.
pub fn is_deceptive(character: char) -> bool {
    matches!(character,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

fn escape(shown: &mut String, character: char) {
    let _ = write!(shown, "\\u{{{:X}}}", u32::from(character));
}

/// Tells whether a letter shows as itself and as nothing else.
fn is_plain(character: char) -> bool {
    if character.is_ascii() {
        return !character.is_ascii_control();
    }
    // The standard library's own notion: unassigned, private, format and separator characters are escaped, and so is
    // what joins the letter before it.
    let has_a_look = character.escape_debug().eq([character]);
    has_a_look
        && character != TAB
        && character != MARK
        && !is_blank(character)
        && !is_right_to_left(character)
}

/// Letters and signs by name that show nothing.
fn is_blank(character: char) -> bool {
    matches!(
        character,
        '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{2800}' | '\u{3164}' | '\u{ffa0}'
    )
}

/// Scripts written from right to left: their letters reorder the signs and digits between them.
fn is_right_to_left(character: char) -> bool {
    matches!(character, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{fefe}'
        | '\u{10800}'..='\u{10fff}' | '\u{1e800}'..='\u{1efff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(text: &str) -> String {
        lines(text).into_iter().map(|line| line.text).collect::<Vec<_>>().join("\n")
    }

    /// Reads a rendering back; only a rendering that keeps everything can be.
    fn read_back(lines: &[VisibleLine]) -> String {
        let mut texts = Vec::new();
        for line in lines {
            if line.count > 1 {
                texts.extend(std::iter::repeat_n(String::new(), line.count));
            } else {
                texts.push(read_line(&line.text));
            }
        }
        texts.join("\n")
    }

    fn read_line(mut rest: &str) -> String {
        let mut text = String::new();
        while let Some(character) = rest.chars().next() {
            if let Some((code, after)) = rest.strip_prefix("\\u{").and_then(|rest| rest.split_once('}')) {
                text.push(char::from_u32(u32::from_str_radix(code, 16).unwrap()).unwrap());
                rest = after;
            } else if let Some((mark, after)) = rest.strip_prefix(MARK).and_then(|rest| rest.split_once('⟩'))
            {
                let (kind, count) = mark.split_once('×').unwrap();
                let character = if kind == "␠" { " " } else { "\t" };
                text.push_str(&character.repeat(count.parse().unwrap()));
                rest = after;
            } else {
                text.push(if character == TAB { '\t' } else { character });
                rest = &rest[character.len_utf8()..];
            }
        }
        text
    }

    #[test]
    fn what_hides_is_shown() {
        assert_eq!(shown("echo hi # \nrm -rf ~"), "echo hi #⟨␠×1⟩\nrm -rf ~");
        assert_eq!(shown(&format!("ls{}; rm x", " ".repeat(1_500))), "ls⟨␠×1500⟩; rm x");
        assert_eq!(
            shown("a\u{202e}b\u{200b}c\u{feff}\u{e0041}\u{fe0f}"),
            "a\\u{202E}b\\u{200B}c\\u{FEFF}\\u{E0041}\\u{FE0F}"
        );
        assert_eq!(shown("x\r\u{1b}[2Ky\u{9b}0m\u{a0}z"), "x\\u{D}\\u{1B}[2Ky\\u{9B}0m\\u{A0}z");
        assert_eq!(
            shown("e\u{301} \u{5d0} \u{378} \u{3164} 日本 é 🎉"),
            "e\\u{301} \\u{5D0} \\u{378} \\u{3164} 日本 é 🎉"
        );
        assert_eq!(
            shown("printf '%s\\n' \\u{41} ⟨␠×9⟩ ⇥"),
            "printf '%s\\n' \\u{5C}u{41} \\u{27E8}␠×9⟩ \\u{21E5}"
        );
        assert_eq!(shown(&format!("a{}b\t\tc", "\n".repeat(5_001))), "a\n⟨5000 empty lines⟩\nb⇥⇥c");
        assert_eq!((shown(""), shown("a\n"), line("a\nb")), (String::new(), "a\n".into(), "a\\u{A}b".into()));
    }

    proptest! {
        #[test]
        fn nothing_hides_and_nothing_is_lost(text in any::<String>()) {
            check(&text)?;
        }

        #[test]
        fn nor_in_a_text_made_to_deceive(
            parts in proptest::collection::vec(prop_oneof![
                Just(" ".to_owned()), Just("\n".to_owned()), Just("\t".to_owned()), Just("\\".to_owned()),
                Just("u{".to_owned()), Just("202E}".to_owned()), Just("⟨".to_owned()), Just("␠×3⟩".to_owned()),
                Just("⇥".to_owned()), Just("\u{202e}".to_owned()), Just("\u{301}".to_owned()),
                Just("3 empty lines⟩".to_owned()), (0usize..40).prop_map(|count| " ".repeat(count)),
                (0usize..9).prop_map(|count| "\n".repeat(count)), (0usize..12).prop_map(|count| "\t".repeat(count)),
            ], 0..24),
        ) {
            check(&parts.concat())?;
        }
    }

    fn check(text: &str) -> Result<(), TestCaseError> {
        let shown = lines(text);
        for line in &shown {
            prop_assert!(
                line.text
                    .chars()
                    .all(|character| character == TAB || character == MARK || is_plain(character))
            );
            prop_assert!(
                !line.text.chars().any(|character| character.is_control() || is_deceptive(character))
            );
            prop_assert!(!line.text.ends_with(' '));
        }
        // Whoever can read it back lost nothing, and two texts cannot have the same look.
        prop_assert_eq!(read_back(&shown), text);
        prop_assert_eq!(read_line(&line(text)), text);
        Ok(())
    }
}
