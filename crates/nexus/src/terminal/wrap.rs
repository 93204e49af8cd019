//! Breaking streamed text between words instead of inside them. Works on pieces: the last word of a
//! piece waits until it is known to be whole.

use crate::output::columns;

/// Longest word that is held back; longer ones go out in parts, as the terminal breaks them anyway.
const MAX_WORD_LEN: usize = 200;
/// Columns from one stop of a tabulator to the next.
const TAB: usize = 8;

/// Where the cursor is and which word has not been written yet.
#[derive(Debug, Default)]
pub(crate) struct Wrap {
    width: Option<usize>,
    column: usize,
    word: String,
}

impl Wrap {
    /// Begins a text after `column` columns of a line that has `width`; without a width nothing is
    /// ever broken.
    pub(crate) fn begin(&mut self, column: usize, width: Option<usize>) {
        *self = Self { width, column, word: String::new() };
    }

    /// Takes a piece and returns what can be written now.
    pub(crate) fn push(&mut self, piece: &str) -> String {
        if self.width.is_none() {
            return piece.to_owned();
        }
        let mut out = String::with_capacity(piece.len() + 8);
        for character in piece.chars() {
            match character {
                '\n' => {
                    self.finish_word(&mut out);
                    out.push('\n');
                    self.column = 0;
                }
                ' ' | '\t' => {
                    self.finish_word(&mut out);
                    // A blank after a full line would be the terminal's next line, and ours one more.
                    if self.width.is_none_or(|width| self.column < width) {
                        out.push(character);
                        self.column += if character == '\t' { TAB - self.column % TAB } else { 1 };
                    }
                }
                _ => {
                    self.word.push(character);
                    if self.word.len() >= MAX_WORD_LEN {
                        self.finish_word(&mut out);
                    }
                }
            }
        }
        out
    }

    /// Returns the word that is still held back.
    pub(crate) fn finish(&mut self) -> String {
        let mut out = String::new();
        self.finish_word(&mut out);
        out
    }

    fn finish_word(&mut self, out: &mut String) {
        if self.word.is_empty() {
            return;
        }
        let length = columns(&self.word);
        if self.column > 0 && self.width.is_some_and(|width| self.column + length > width) {
            // The blank before this word stays at the end of the line, where nobody sees it.
            out.push('\n');
            self.column = 0;
        }
        out.push_str(&self.word);
        self.column += length;
        // The terminal itself breaks what is longer than a line.
        if let Some(width) = self.width.filter(|width| *width > 0 && self.column > *width) {
            self.column = (self.column - 1) % width + 1;
        }
        self.word.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(column: usize, width: usize, pieces: &[&str]) -> String {
        let mut wrap = Wrap::default();
        wrap.begin(column, Some(width));
        let mut out: String = pieces.iter().map(|piece| wrap.push(piece)).collect();
        out.push_str(&wrap.finish());
        out
    }

    #[test]
    fn lines_break_between_words_however_the_pieces_fall() {
        for pieces in [&["one two three four"][..], &["o", "ne tw", "o thr", "ee fo", "ur"]] {
            assert_eq!(wrapped(0, 9, pieces), "one two \nthree \nfour");
        }
        assert_eq!(wrapped(5, 9, &["one two"]), "one \ntwo");
    }

    #[test]
    fn a_line_that_is_full_to_the_last_column_is_followed_by_the_next_one() {
        assert_eq!(wrapped(0, 7, &["one two three"]), "one two\nthree");
        assert_eq!(wrapped(0, 7, &["one two", " ", "  three"]), "one two\nthree");
        assert_eq!(wrapped(0, 7, &["one two \nthree"]), "one two\nthree", "its own break is the only one");
    }

    #[test]
    fn columns_count_and_not_letters() {
        assert_eq!(wrapped(0, 8, &["日本 日本 x"]), "日本 \n日本 x");
        assert_eq!(wrapped(0, 4, &["e\u{301}e\u{301} x"]), "e\u{301}e\u{301} x");
        assert_eq!(wrapped(0, 10, &["\tabc"]), "\t\nabc");
    }

    #[test]
    fn own_line_breaks_and_blanks_stay() {
        assert_eq!(wrapped(0, 20, &["a\n\n  b  c\n"]), "a\n\n  b  c\n");
    }

    #[test]
    fn a_word_longer_than_the_line_is_left_to_the_terminal() {
        assert_eq!(wrapped(0, 5, &["abcdefghij k"]), "abcdefghij\nk");
        assert_eq!(wrapped(0, 5, &["abcdefg k l"]), "abcdefg k \nl", "its rest is a line as any other");
    }

    #[test]
    fn without_a_width_nothing_changes() {
        let mut wrap = Wrap::default();
        wrap.begin(0, None);
        assert_eq!(wrap.push("one two"), "one two");
        assert_eq!(wrap.finish(), "");
    }
}
