//! A line of a file for a terminal, with a caret under what is meant.

use crate::limits::{LEAD_CHARS_MAX, LINE_CHARS_MAX};
use crate::source::{SourceMap, Span};
use std::fmt;

/// Characters that look like a space, or like nothing, and are neither.
pub(crate) const INVISIBLE: [char; 5] = ['\u{a0}', '\u{202f}', '\u{200b}', '\u{2060}', '\u{feff}'];

/// Text for a terminal: control characters, and those that turn the direction of writing, are shown as escapes and not
/// obeyed. Tabs and line ends stay.
pub fn escape_controls(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => out.push(c),
            // Unicode's bidirectional controls make a line look like another one (CVE-2021-42574).
            '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                out.extend(c.escape_unicode());
            }
            c if INVISIBLE.contains(&c) => out.extend(c.escape_unicode()),
            c if c.is_ascii_control() => out.extend(std::ascii::escape_default(c as u8).map(char::from)),
            c if c.is_control() => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

/// Where a span begins, its line, and its mark.
pub struct Excerpt {
    name: String,
    line: usize,
    column: usize,
    text: String,
    /// What stands before the carets: as wide as the text there, tabs kept.
    lead: String,
    carets: usize,
}

impl Excerpt {
    /// The first line of `span`, of which the file must be in `sources`.
    pub fn new(sources: &SourceMap, span: Span) -> Excerpt {
        let (line, column) = sources.start(span);
        let bytes = sources.line_bytes(span);
        let from = (column - 1).min(bytes.len());
        let to = (from + span.end.saturating_sub(span.start) as usize).clamp(from, bytes.len());
        let part = |range: std::ops::Range<usize>| escape_controls(&String::from_utf8_lossy(&bytes[range]));
        let (mut before, marked, after) = (part(0..from), part(from..to), part(to..bytes.len()));
        cut_start(&mut before);
        let room = LINE_CHARS_MAX.saturating_sub(before.chars().count());
        let carets = marked.chars().count().clamp(1, room.max(1));
        let mut rest = marked + &after;
        cut_end(&mut rest, room);
        // Tabs before the caret are kept, so that it stands under its token at any tab width.
        let lead = before.chars().map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        let name = escape_controls(&sources.file(span.file).name);
        Excerpt { name, line, column, text: before + &rest, lead, carets }
    }
}

fn cut_start(text: &mut String) {
    let count = text.chars().count();
    if count > LEAD_CHARS_MAX {
        *text = std::iter::once('…').chain(text.chars().skip(count - LEAD_CHARS_MAX)).collect();
    }
}

fn cut_end(text: &mut String, room: usize) {
    if text.chars().count() > room {
        *text = text.chars().take(room).chain(['…']).collect();
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Excerpt { name, line, column, text, lead, carets } = self;
        let pad = " ".repeat(line.to_string().len());
        write!(f, "\n {pad}--> {name}:{line}:{column}")?;
        write!(f, "\n {line} | {text}\n {pad} | {lead}{}", "^".repeat(*carets))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &[u8], what: &[u8]) -> String {
        let mut sources = SourceMap::default();
        let start = text.windows(what.len()).position(|window| window == what).unwrap();
        let file = sources.add("f", text.to_vec());
        let span = Span { file, start: start as u32, end: (start + what.len()) as u32 };
        Excerpt::new(&sources, span).to_string()
    }

    #[test]
    fn carets_stand_under_characters_not_bytes() {
        assert_eq!(
            shown("ü\nüü foö x".as_bytes(), "foö".as_bytes()),
            "\n  --> f:2:6\n 2 | üü foö x\n   |    ^^^"
        );
    }

    #[test]
    fn control_characters_are_shown_not_obeyed() {
        assert_eq!(
            shown(b"a\x1b[2J b\x07 \xc2\x9b \xe2\x80\xae;", b"b\x07"),
            "\n  --> f:1:7\n 1 | a\\x1b[2J b\\x07 \\u{9b} \\u{202e};\n   |          ^^^^^"
        );
        assert_eq!(shown(b"a\r\nb\rc", b"b"), "\n  --> f:2:1\n 2 | b\\rc\n   | ^");
    }

    #[test]
    fn long_lines_are_cut_around_the_place() {
        let text = [vec![b'x'; 5000], b" here ".to_vec(), vec![b'y'; 5000]].concat();
        let out = shown(&text, b"here");
        assert!(out.lines().all(|line| line.chars().count() < 180), "{out}");
        let lines: Vec<&str> = out.lines().collect();
        let at = lines[2].find("here").unwrap();
        assert_eq!(lines[2][..at].chars().count(), lines[3].find('^').unwrap(), "{out}");
    }
}
