//! Tokens, exactly as nginx's reader splits them.
//!
//! A token ends at white space, `;`, `{` or `}`; a quote counts only at a token's start; a backslash keeps the
//! next byte, and `\" \' \\ \t \r \n` are replaced. `${` never opens a block.

use crate::diag::Diag;
use crate::limits::TOKEN_BYTES_MAX;
use crate::source::{FileId, Span};

/// One piece of a configuration file.
#[derive(Debug, PartialEq, Eq)]
pub enum Lexeme {
    /// A name or parameter, unescaped; `quoted` if it stood in quotes.
    Word {
        /// The bytes, without quotes and escapes.
        value: Box<[u8]>,
        /// Whether it stood in quotes.
        quoted: bool,
    },
    /// `;`
    Semicolon,
    /// `{`
    Open,
    /// `}`
    Close,
    /// The end of the file.
    End,
}

/// Cuts one file into lexemes. It does no I/O and keeps no lexeme.
pub struct Lexer<'a> {
    text: &'a [u8],
    file: FileId,
    at: usize,
    /// The place of `{2}` in the last word, where nginx would take the brace for a block's.
    pub quantifier: Option<Span>,
    /// The first comment that holds more closing braces than opening ones, behind a `;`: it may have swallowed them.
    pub swallowing: Option<Span>,
}

impl<'a> Lexer<'a> {
    /// At the beginning of `text`, behind a byte order mark if there is one.
    pub fn new(file: FileId, text: &'a [u8]) -> Lexer<'a> {
        // A byte order mark is what editors of another system leave behind.
        let at = if text.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        Lexer { text, file, at, quantifier: None, swallowing: None }
    }

    fn span(&self, start: usize) -> Span {
        Span { file: self.file, start: start as u32, end: self.at as u32 }
    }

    /// The next lexeme and its place. After an error reading goes on behind the offending byte.
    pub fn next(&mut self) -> Result<(Lexeme, Span), Diag> {
        self.skip_blank();
        let start = self.at;
        let Some(&byte) = self.text.get(self.at) else {
            return Ok((Lexeme::End, self.span(start)));
        };
        let simple = match byte {
            b';' => Some(Lexeme::Semicolon),
            b'{' => Some(Lexeme::Open),
            b'}' => Some(Lexeme::Close),
            _ => None,
        };
        if let Some(lexeme) = simple {
            self.at += 1;
            return Ok((lexeme, self.span(start)));
        }
        let (value, quoted) = match byte {
            b'"' | b'\'' => (self.quoted(byte)?, true),
            _ => (self.bare(), false),
        };
        if value.len() > TOKEN_BYTES_MAX {
            let head = String::from_utf8_lossy(&value[..10]).into_owned();
            return Err(Diag::emerg(self.span(start), format!("too long parameter \"{head}...\" started"))
                .help("a parameter may have 4096 bytes; is a terminating quote missing?"));
        }
        Ok((Lexeme::Word { value: unescape(value), quoted }, self.span(start)))
    }

    fn skip_blank(&mut self) {
        while let Some(&byte) = self.text.get(self.at) {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' => self.at += 1,
                b'#' => {
                    let rest = &self.text[self.at..];
                    let start = self.at;
                    self.at += rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
                    let comment = &self.text[start..self.at];
                    let count = |wanted: u8| comment.iter().filter(|&&b| b == wanted).count();
                    if self.swallowing.is_none() && comment.contains(&b';') && count(b'}') > count(b'{') {
                        self.swallowing = Some(Span { end: start as u32 + 1, ..self.span(start) });
                    }
                }
                _ => return,
            }
        }
    }

    fn bare(&mut self) -> &'a [u8] {
        let start = self.at;
        let mut previous = 0;
        while let Some(&byte) = self.text.get(self.at) {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' | b';' => break,
                b'{' if previous != b'$' => match quantifier(&self.text[self.at..]) {
                    Some(length) if self.at > start => {
                        let (start, end) = (self.at as u32, (self.at + length) as u32);
                        self.quantifier.get_or_insert(Span { file: self.file, start, end });
                        self.at += length - 1;
                    }
                    _ => break,
                },
                b'\\' => self.at += 1,
                _ => {}
            }
            previous = byte;
            self.at += 1;
        }
        self.at = self.at.min(self.text.len());
        &self.text[start..self.at]
    }

    fn quoted(&mut self, quote: u8) -> Result<&'a [u8], Diag> {
        let open = self.at;
        self.at += 1;
        let start = self.at;
        loop {
            match self.text.get(self.at) {
                None => {
                    self.at = self.text.len();
                    let span = Span { file: self.file, start: open as u32, end: open as u32 + 1 };
                    let quote = quote as char;
                    return Err(Diag::emerg(
                        self.span(self.at),
                        "unexpected end of file, expecting \";\" or \"}\"",
                    )
                    .at(span)
                    .help(format!("the parameter that starts here has no closing {quote}"))
                    .structural());
                }
                Some(b'\\') => self.at += 2,
                Some(&byte) if byte == quote => break,
                Some(_) => self.at += 1,
            }
        }
        let value = &self.text[start..self.at];
        self.at += 1;
        match self.text.get(self.at) {
            None | Some(b' ' | b'\t' | b'\r' | b'\n' | b';' | b'{' | b')') => Ok(value),
            Some(&byte) => {
                let at = self.at;
                // What follows belongs to the same word; leaving it out avoids errors that only echo this one.
                self.bare();
                let span = Span { file: self.file, start: at as u32, end: at as u32 + 1 };
                let diag = Diag::emerg(span, format!("unexpected \"{}\"", shown(byte)));
                if !value.contains(&b'\n') {
                    return Err(diag.help("a closing quote must be followed by white space, \";\" or \"{\""));
                }
                // What looks like its end is the next parameter's beginning, and what lies between was meant to be read.
                let open = Span { file: self.file, start: open as u32, end: open as u32 + 1 };
                let help = format!(
                    "the parameter that starts here goes on for lines: is its closing {} missing?",
                    quote as char
                );
                Err(diag.at(open).help(help).structural())
            }
        }
    }
}

/// The length of a regular expression's `{2}`, `{2,}` or `{2,4}` at the start of `text`.
fn quantifier(text: &[u8]) -> Option<usize> {
    // PCRE's counts have five digits at most.
    const LENGTH_MAX: usize = "{65535,65535}".len();
    let end = text.iter().take(LENGTH_MAX).position(|&b| b == b'}')?;
    let inner = &text[1..end];
    let is_count = inner.iter().all(|&b| b.is_ascii_digit() || b == b',');
    (is_count && inner.iter().any(u8::is_ascii_digit)).then_some(end + 1)
}

/// Replaces nginx's escapes; any other backslash stays.
fn unescape(raw: &[u8]) -> Box<[u8]> {
    if !raw.contains(&b'\\') {
        return raw.into();
    }
    let mut out = Vec::with_capacity(raw.len());
    let mut bytes = raw.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let replaced = match bytes.peek() {
            Some(&(b'"' | b'\'' | b'\\')) => bytes.next(),
            Some(b't') => bytes.next().map(|_| b'\t'),
            Some(b'r') => bytes.next().map(|_| b'\r'),
            Some(b'n') => bytes.next().map(|_| b'\n'),
            _ => None,
        };
        match replaced {
            Some(byte) => out.push(byte),
            None => {
                out.push(b'\\');
                out.extend(bytes.next());
            }
        }
    }
    out.into()
}

/// A byte for a message: itself, unless it would not be seen.
fn shown(byte: u8) -> String {
    if byte.is_ascii_graphic() { char::from(byte).to_string() } else { byte.escape_ascii().to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words of `text`, joined by `|`; `;{}` stand for themselves, an error for its message.
    fn check(text: &str, want: &str) {
        let mut lexer = Lexer::new(FileId(0), text.as_bytes());
        let mut out = Vec::new();
        loop {
            match lexer.next() {
                Ok((Lexeme::End, _)) => break,
                Ok((Lexeme::Word { value, .. }, _)) => out.push(String::from_utf8_lossy(&value).into_owned()),
                Ok((Lexeme::Semicolon, _)) => out.push(";".into()),
                Ok((Lexeme::Open, _)) => out.push("{".into()),
                Ok((Lexeme::Close, _)) => out.push("}".into()),
                Err(diag) => out.push(format!("<{}>", diag.message)),
            }
        }
        assert_eq!(out.join("|"), want, "{text}");
    }

    #[test]
    fn words_quotes_and_escapes() {
        check("a b;c", "a|b|;|c");
        check("a{b}", "a|{|b}");
        check("root /x/${host}/y;", "root|/x/${host}/y|;");
        check("location ~ ^/\\d+$ {", "location|~|^/\\d+$|{");
        check("return 200 \"a \\\"b\\\" \\x\";", "return|200|a \"b\" \\x|;");
        check("a 'b\\'c' # d\ne", "a|b'c|e");
        check("if ($a = \"b\") {", "if|($a|=|b|)|{");
        check("a\\ b;", "a\\ b|;");
        check("~ ^/\\d{2,4}/x$ {", "~|^/\\d{2,4}/x$|{");
        check("a{2;}", "a|{|2|;|}");
        check("x \"a\"b;", "x|<unexpected \"b\">|;");
        check("x 'a'\";", "x|<unexpected \"\"\">|;");
        check("x \"a", "x|<unexpected end of file, expecting \";\" or \"}\">");
    }
}
