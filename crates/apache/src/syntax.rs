//! Lines, words and sections of Apache's files.

use crate::limits::SECTIONS_DEPTH_MAX;
use std::fmt;

/// A directive, or a section with what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name as it was written, without angle brackets.
    pub name: String,
    /// What stands behind the name, up to the end of the line, or up to the last `>` of a section's first line. Words are
    /// taken from it by [`Words`]; some directives read it otherwise.
    pub args: Vec<u8>,
    /// The line it ends on, from 1; the first one of a section.
    pub line: u32,
    /// What is in a section; `None` for a directive.
    pub children: Option<Vec<Node>>,
}

impl Node {
    /// Whether it is called so; names have no case.
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    /// Its words.
    ///
    /// ```
    /// # use brisk_apache::syntax;
    /// let nodes = syntax::read(b"AddType \"text/x y\" .xy", 8192).unwrap();
    /// let words: Vec<_> = nodes[0].words().collect();
    /// assert_eq!(words, [b"text/x y".to_vec(), b".xy".to_vec()]);
    /// ```
    pub fn words(&self) -> Words<'_> {
        Words(&self.args)
    }
}

/// Why a file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The line, from 1.
    pub line: u32,
    /// What is wrong, and where it helps, what to do.
    pub text: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.text)
    }
}

impl std::error::Error for Mistake {}

/// Reads a file whose lines, with their continuations, have at most `line_bytes_max` bytes.
///
/// # Errors
/// The first line that cannot be read. What stands before it must not be used: rules that would follow may close what it opens.
pub fn read(text: &[u8], line_bytes_max: usize) -> Result<Vec<Node>, Mistake> {
    let mut lines = Lines { rest: text, line: 0, bytes_max: line_bytes_max };
    // The sections that are open, and what was read in each.
    let mut open: Vec<Node> = Vec::new();
    let mut nodes = Vec::new();
    while let Some((line, text)) = lines.next()? {
        let mistake = |text: String| Mistake { line, text };
        match kind(&text).map_err(mistake)? {
            Kind::Nothing => {}
            Kind::Directive(name, args) => {
                let node = Node { name, args, line, children: None };
                siblings(&mut open, &mut nodes).push(node);
            }
            Kind::Begin(name, args) => {
                if open.len() == SECTIONS_DEPTH_MAX {
                    return Err(mistake(format!(
                        "more than {SECTIONS_DEPTH_MAX} sections inside of each other"
                    )));
                }
                open.push(Node { name, args, line, children: Some(Vec::new()) });
            }
            Kind::End(name) => {
                let Some(section) = open.pop() else {
                    return Err(mistake(format!("</{name}> without matching <{name}> section")));
                };
                if !section.is(&name) {
                    return Err(mistake(format!("Expected </{}> but saw </{name}>", section.name)));
                }
                siblings(&mut open, &mut nodes).push(section);
            }
        }
    }
    match open.pop() {
        None => Ok(nodes),
        Some(section) => {
            Err(Mistake { line: section.line, text: format!("<{}> was not closed.", section.name) })
        }
    }
}

fn siblings<'a>(open: &'a mut [Node], top: &'a mut Vec<Node>) -> &'a mut Vec<Node> {
    match open.last_mut() {
        Some(section) => section.children.get_or_insert_default(),
        None => top,
    }
}

/// What a line is.
enum Kind {
    Nothing,
    Directive(String, Vec<u8>),
    Begin(String, Vec<u8>),
    End(String),
}

fn kind(line: &[u8]) -> Result<Kind, String> {
    if matches!(line.first(), None | Some(b'#')) {
        return Ok(Kind::Nothing);
    }
    let mut words = Words(line);
    let name = words.next().unwrap_or_default();
    let args = words.0;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match name.as_slice() {
        [b'<', b'/', rest @ ..] => match rest {
            [name @ .., b'>'] => Ok(Kind::End(text(name))),
            _ => Err(format!("</{}> directive missing closing '>'", text(rest))),
        },
        // `<IfModule>` without an argument; the section's own reader tells what is missing.
        [b'<', name @ .., b'>'] if args.is_empty() => Ok(Kind::Begin(text(name), Vec::new())),
        [b'<', rest @ ..] => {
            let name = rest.strip_suffix(b">").unwrap_or(rest);
            let end = memchr::memrchr(b'>', args);
            let end = end.ok_or_else(|| format!("<{}> directive missing closing '>'", text(name)))?;
            Ok(Kind::Begin(text(name), args[..end].trim_ascii().to_vec()))
        }
        name => Ok(Kind::Directive(text(name), args.to_vec())),
    }
}

/// Lines joined with their continuations: a backslash directly before the end of a line.
struct Lines<'a> {
    rest: &'a [u8],
    line: u32,
    bytes_max: usize,
}

impl Lines<'_> {
    fn next(&mut self) -> Result<Option<(u32, Vec<u8>)>, Mistake> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let mut text = Vec::new();
        loop {
            self.line += 1;
            let end = memchr::memchr(b'\n', self.rest);
            let (line, rest) = match end {
                Some(end) => (&self.rest[..end], &self.rest[end + 1..]),
                None => (self.rest, &[][..]),
            };
            self.rest = rest;
            let mistake = |text: &str| Mistake { line: self.line, text: text.into() };
            if memchr::memchr(0, line).is_some() {
                return Err(mistake("a NUL byte: this is no text"));
            }
            let line = if end.is_some() { line.strip_suffix(b"\r").unwrap_or(line) } else { line };
            let (line, is_continued) = match line.strip_suffix(b"\\") {
                Some(line) if end.is_some() => (line, true),
                _ => (line, false),
            };
            text.extend_from_slice(line);
            // One byte is for the end of the text, as in Apache.
            if text.len() >= self.bytes_max {
                return Err(mistake(&format!("the line is longer than {} bytes", self.bytes_max - 1)));
            }
            if !is_continued || self.rest.is_empty() {
                return Ok(Some((self.line, trimmed(&text).to_vec())));
            }
        }
    }
}

/// White space as C's `isspace` means it.
fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

fn trimmed(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|&byte| !is_space(byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|&byte| !is_space(byte)).map_or(start, |at| at + 1);
    &text[start..end]
}

/// Words of a line: separated by white space, in quotation marks where they hold some. A backslash stands before a quotation
/// mark of the same kind, or before a backslash; anywhere else it is itself.
#[derive(Clone, Debug)]
pub struct Words<'a>(pub &'a [u8]);

impl Words<'_> {
    /// What was not taken yet, without the white space before it.
    pub fn rest(&self) -> &[u8] {
        trimmed(self.0)
    }
}

impl Iterator for Words<'_> {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let start = self.0.iter().position(|&byte| !is_space(byte))?;
        let text = &self.0[start..];
        let quote = Some(text[0]).filter(|byte| matches!(byte, b'"' | b'\''));
        let mut at = usize::from(quote.is_some());
        let mut word = Vec::new();
        while let Some(&byte) = text.get(at) {
            let next = text.get(at + 1);
            if quote == Some(byte) || (quote.is_none() && is_space(byte)) {
                break;
            }
            if byte == b'\\' && next.is_some_and(|&next| next == b'\\' || quote == Some(next)) {
                at += 1;
            }
            word.push(text[at]);
            at += 1;
        }
        // A quotation mark that is not closed ends with the line.
        at = (at + usize::from(quote.is_some())).min(text.len());
        let behind = &text[at..];
        self.0 = &behind[behind.iter().position(|&byte| !is_space(byte)).unwrap_or(behind.len())..];
        Some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        Words(text.as_bytes()).map(|word| String::from_utf8(word).unwrap()).collect()
    }

    #[test]
    fn words_and_quotation_marks() {
        assert_eq!(words(r#"  a  "b c" 'd "e"' f"g "#), ["a", "b c", "d \"e\"", "f\"g"]);
        assert_eq!(words(r#""a \"b\" \\ \n" \d\\w"#), ["a \"b\" \\ \\n", "\\d\\w"]);
        assert_eq!(words(r#""not closed at all"#), ["not closed at all"]);
        assert_eq!(words(r#""a"b"#), ["a", "b"]);
        assert_eq!(words("\"\" x"), ["", "x"]);
        assert_eq!(words("  "), [""; 0]);
    }

    #[test]
    fn sections_and_lines() {
        let text = b"# a comment \\\n of two lines\nOptions -Indexes\r\n\n<IfModule mod_rewrite.c>\n RewriteRule ^a$ \\\n   b [L]\n <Files \"a b\">\n Require all denied\n </Files>\n</ifmodule>\nEnd\\";
        let nodes = read(text, 8192).unwrap();
        let shown =
            |node: &Node| format!("{} {} {}", node.line, node.name, String::from_utf8_lossy(&node.args));
        assert_eq!(
            nodes.iter().map(shown).collect::<Vec<_>>(),
            ["3 Options -Indexes", "5 IfModule mod_rewrite.c", "12 End\\ "]
        );
        let inner = nodes[1].children.as_ref().unwrap();
        assert_eq!(
            inner.iter().map(shown).collect::<Vec<_>>(),
            ["7 RewriteRule ^a$    b [L]", "8 Files \"a b\""]
        );
        assert_eq!(inner[1].words().next().unwrap(), b"a b");
        assert_eq!(inner[1].children.as_ref().unwrap().len(), 1);
        assert_eq!(
            read(b"<If \"%{REQUEST_URI} > 'a'\">\n</If>", 8192).unwrap()[0].args,
            b"\"%{REQUEST_URI} > 'a'\""
        );
    }

    #[test]
    fn mistakes() {
        for (text, line, wanted) in [
            ("<Files a>\n", 1, "<Files> was not closed."),
            ("a\n</Files>\n", 2, "</Files> without matching <Files> section"),
            ("<Files a>\n</If>\n", 2, "Expected </Files> but saw </If>"),
            ("<Files a\n</Files>", 1, "<Files> directive missing closing '>'"),
            ("<Files a>\n</Files", 2, "</Files> directive missing closing '>'"),
            ("a\0b", 1, "a NUL byte: this is no text"),
            ("a\nbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", 2, "the line is longer than 31 bytes"),
            ("a \\\nbbbbbbbbbbbbbbbbbbb\\\nbbbbbbbbbbbbbbbbbb", 3, "the line is longer than 31 bytes"),
        ] {
            let mistake = read(text.as_bytes(), 32).expect_err(text);
            assert_eq!((mistake.line, mistake.text.as_str()), (line, wanted), "{text:?}");
        }
        read("<A>\n".repeat(5000).as_bytes(), 32).expect_err("too deep");
    }

    proptest::proptest! {
        /// Reading ends, and sections are balanced or refused.
        #[test]
        fn any_text_is_read(text in "[a-cA-C<>/\\\\\"' \r\n#]{0,80}") {
            let _ = read(text.as_bytes(), 64);
            let _ = Words(text.as_bytes()).count();
        }
    }
}
