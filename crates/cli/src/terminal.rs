//! What the terminal takes: how many columns, and whether colours.

use crate::limits::{COLUMNS_MAX, COLUMNS_MIN};
use rustix::fd::AsFd;
use std::io::{IsTerminal, stderr, stdout};

/// Columns of what is not a terminal, unless `COLUMNS` says otherwise.
const COLUMNS_USUAL: usize = 100;

/// Columns for text in sentences: of the terminal that is written to, else what `COLUMNS` says, else of the terminal that a
/// pager stands before.
pub fn columns() -> usize {
    let told = || std::env::var("COLUMNS").ok()?.parse().ok();
    let found = of_terminal(&stdout()).or_else(told).or_else(|| of_terminal(&stderr()));
    found.unwrap_or(COLUMNS_USUAL).clamp(COLUMNS_MIN, COLUMNS_MAX)
}

/// Columns of a stream, if it is a terminal.
pub fn of_terminal(stream: &(impl AsFd + IsTerminal)) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok().filter(|_| stream.is_terminal())?;
    (size.ws_col > 0).then(|| usize::from(size.ws_col))
}

/// Whether a stream takes colours: it is a terminal that knows them, and `NO_COLOR` (no-color.org) is not set.
pub fn has_color(stream: &(impl AsFd + IsTerminal)) -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    stream.is_terminal() && !is_set("NO_COLOR") && !is_dumb
}

/// Breaks a text at spaces into lines of at most `columns`, each behind `indent` spaces. Words that are longer stay whole.
pub fn wrap(text: &str, columns: usize, indent: usize) -> String {
    let mut out = String::new();
    for paragraph in text.lines() {
        let mut width = 0;
        for word in paragraph.split_whitespace() {
            let length = word.chars().count();
            if width > 0 && indent + width + 1 + length > columns {
                out.push('\n');
                width = 0;
            }
            if width > 0 {
                out.push(' ');
                width += 1;
            } else {
                out.extend(std::iter::repeat_n(' ', indent));
            }
            out.push_str(word);
            width += length;
        }
        out.push('\n');
    }
    out
}

/// Breaks the lines of a usage, whose first line stands behind a title of `indent` columns; what goes over stands further in.
/// Gives it without the title.
pub fn hang(usage: &str, columns: usize, indent: usize) -> String {
    let lines = usage.lines().map(|line| {
        let text = line.get(indent..).unwrap_or_default();
        wrap(text, columns, indent + 2).trim().to_owned()
    });
    lines.collect::<Vec<_>>().join(&format!("\n{}", " ".repeat(indent)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_at_spaces() {
        assert_eq!(wrap("one two three", 9, 2), "  one two\n  three\n");
        assert_eq!(wrap("a incomprehensible b", 6, 0), "a\nincomprehensible\nb\n");
        assert_eq!(
            hang("Usage: brisk one [OPTIONS] <A>\n       brisk two", 24, 7),
            "brisk one\n         [OPTIONS] <A>\n       brisk two"
        );
        assert_eq!(wrap("one\ntwo", 80, 1), " one\n two\n");
    }
}
