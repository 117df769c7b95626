//! The words of a statement, as far as it takes to tell what the statement does.
//!
//! How quotes end depends on the session's `sql_mode`, which is not known: [`Escapes`] are what it may be, and a statement is judged by
//! each of them.

/// Where a backslash takes the next byte with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Escapes {
    /// In `'…'` and `"…"`: the default.
    Both,
    /// In `'…'` only: `ANSI_QUOTES` make `"…"` a name.
    Single,
    /// Nowhere: `NO_BACKSLASH_ESCAPES`.
    None,
}

/// A piece of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token<'a> {
    /// A word without quotes: of a keyword, a name or a number.
    Word(&'a [u8]),
    /// A name in backticks, what stands between `"` (a name or a text), or the name of a function that is none where it stands.
    Name(&'a [u8]),
    /// What stands between `'`.
    Text(&'a [u8]),
    /// `@name`, and `:=`.
    UserVariable,
    /// `@@`; the name follows as words.
    SystemVariable,
    /// Any other byte.
    Sign(u8),
    /// The end of a statement within several.
    End,
    /// A comment that servers carry out, or may.
    Executable,
    /// A comment that is for us.
    Hint(&'a [u8]),
    /// A quote or a comment that does not end.
    Unclear,
}

/// Functions of which servers without `IGNORE_SPACE` know the name only right before a parenthesis: with a blank between them
/// `now ()` calls what somebody has stored as `now`.
const TOUCHING: &[&str] = &[
    "adddate",
    "bit_and",
    "bit_or",
    "bit_xor",
    "cast",
    "count",
    "cume_dist",
    "curdate",
    "curtime",
    "date_add",
    "date_sub",
    "dense_rank",
    "extract",
    "first_value",
    "group_concat",
    "json_arrayagg",
    "json_objectagg",
    "lag",
    "lead",
    "max",
    "mid",
    "min",
    "now",
    "nth_value",
    "ntile",
    "percent_rank",
    "position",
    "rank",
    "row_number",
    "session_user",
    "std",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "subdate",
    "substr",
    "substring",
    "sum",
    "sysdate",
    "system_user",
    "trim",
    "var_pop",
    "var_samp",
    "variance",
];

/// The tokens of a statement.
#[derive(Clone, Debug)]
pub struct Tokens<'a> {
    text: &'a [u8],
    escapes: Escapes,
}

impl<'a> Tokens<'a> {
    /// As a server in this mode reads them.
    pub fn new(text: &'a [u8], escapes: Escapes) -> Tokens<'a> {
        Tokens { text, escapes }
    }

    fn skip(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.text.split_at(count.min(self.text.len()));
        self.text = rest;
        taken
    }

    fn line(&mut self) {
        let end = self.text.iter().position(|&byte| byte == b'\n').unwrap_or(self.text.len());
        self.skip(end);
    }

    /// A comment from `/*` on: `None`, if it is nothing to anybody.
    fn comment(&mut self) -> Option<Token<'a>> {
        let body = &self.text[2..];
        let Some(end) = body.windows(2).position(|pair| pair == b"*/") else {
            self.skip(self.text.len());
            return Some(Token::Unclear);
        };
        let inner = &body[..end];
        self.skip(end + 4);
        if inner.starts_with(b"!") || inner.starts_with(b"M!") {
            return Some(Token::Executable);
        }
        // Names in quotes within a hint of MySQL's may contain the end of a comment.
        if inner.starts_with(b"+") && inner.iter().any(|byte| matches!(byte, b'\'' | b'"' | b'`')) {
            return Some(Token::Executable);
        }
        inner.trim_ascii().strip_prefix(b"brisk:").map(Token::Hint)
    }

    /// What stands between quotes, doubled ones included.
    fn quoted(&mut self, quote: u8, has_escapes: bool) -> Option<&'a [u8]> {
        let mut at = 1;
        loop {
            match *self.text.get(at)? {
                b'\\' if has_escapes => at += 2,
                byte if byte == quote && self.text.get(at + 1) == Some(&quote) => at += 2,
                byte if byte == quote => {
                    let whole = self.skip(at + 1);
                    return Some(&whole[1..at]);
                }
                _ => at += 1,
            }
        }
    }

    /// Whether a parenthesis may follow after blanks or a comment.
    fn is_apart(&self) -> bool {
        let next = self.text.iter().position(|byte| !matches!(byte, b' ' | b'\t'..=b'\r'));
        match (next, next.and_then(|at| self.text.get(at))) {
            (Some(1..), Some(b'(')) => true,
            (_, next) => matches!(next, Some(b'/' | b'#' | b'-')),
        }
    }

    fn unclear(&mut self) -> Token<'a> {
        self.skip(self.text.len());
        Token::Unclear
    }

    fn user_variable(&mut self) -> Token<'a> {
        self.skip(1);
        let quote = self.text.first().copied();
        match quote {
            Some(quote @ (b'\'' | b'"' | b'`')) => {
                if self.quoted(quote, quote != b'`' && self.escapes == Escapes::Both).is_none() {
                    return self.unclear();
                }
            }
            _ => {
                let end = self.text.iter().position(|byte| !is_word(*byte) && *byte != b'.');
                let name = self.skip(end.unwrap_or(self.text.len()));
                if may_be_two(name) {
                    return self.unclear();
                }
            }
        }
        Token::UserVariable
    }
}

fn is_touching(word: &[u8]) -> bool {
    TOUCHING.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes()))
}

fn is_blank_or_control(byte: u8) -> bool {
    byte == b' ' || byte.is_ascii_control()
}

/// A byte that is a part of a letter in UTF-8 is a blank in Latin-1 and its kin: what stands behind it may be a word of its own.
fn may_be_two(word: &[u8]) -> bool {
    word.contains(&0xa0)
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..)
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        loop {
            let token = match *self.text {
                [] => return None,
                [b' ' | b'\t' | b'\r' | b'\n' | 0x0b | 0x0c, ..] => {
                    self.skip(1);
                    continue;
                }
                [b'#', ..] => {
                    self.line();
                    continue;
                }
                // Two dashes are a comment only before a blank, a control character (0x7f is one) or the end. Bytes from 0x80 on may
                // be either: 0xa0 is a blank in Latin-1.
                [b'-', b'-', 0x80..=0xff, ..] => self.unclear(),
                [b'-', b'-', ref rest @ ..] if rest.first().is_none_or(|&byte| is_blank_or_control(byte)) => {
                    self.line();
                    continue;
                }
                [b'/', b'*', ..] => match self.comment() {
                    Some(token) => token,
                    None => continue,
                },
                [b'\'', ..] => match self.quoted(b'\'', self.escapes != Escapes::None) {
                    Some(text) => Token::Text(text),
                    None => self.unclear(),
                },
                [b'"', ..] => match self.quoted(b'"', self.escapes == Escapes::Both) {
                    Some(text) => Token::Name(text),
                    None => self.unclear(),
                },
                [b'`', ..] => match self.quoted(b'`', false) {
                    Some(name) => Token::Name(name),
                    None => self.unclear(),
                },
                [b'@', b'@', ..] => {
                    self.skip(2);
                    Token::SystemVariable
                }
                [b'@', ..] => self.user_variable(),
                [b':', b'=', ..] => {
                    self.skip(2);
                    Token::UserVariable
                }
                [b';', ..] => {
                    self.skip(1);
                    Token::End
                }
                // A NUL ends what some servers read.
                [0, ..] => self.unclear(),
                [byte, ..] if is_word(byte) => {
                    let end = self.text.iter().position(|&byte| !is_word(byte)).unwrap_or(self.text.len());
                    let word = self.skip(end);
                    if may_be_two(word) {
                        return Some(self.unclear());
                    }
                    if self.is_apart() && is_touching(word) { Token::Name(word) } else { Token::Word(word) }
                }
                [sign, ..] => {
                    self.skip(1);
                    Token::Sign(sign)
                }
            };
            return Some(token);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Token::*;

    fn check(text: &str, escapes: Escapes, want: &[Token<'_>]) {
        let got: Vec<_> = Tokens::new(text.as_bytes(), escapes).collect();
        assert_eq!(got, want, "{text} {escapes:?}");
    }

    #[test]
    fn words_signs_and_comments() {
        let select = Word(b"SELECT");
        check(
            "SELECT a.b,1 # c\n-- d\n--\n/* e */;",
            Escapes::Both,
            &[select, Word(b"a"), Sign(b'.'), Word(b"b"), Sign(b','), Word(b"1"), End],
        );
        check("SELECT 1--1", Escapes::Both, &[select, Word(b"1"), Sign(b'-'), Sign(b'-'), Word(b"1")]);
        check("SELECT 1--", Escapes::Both, &[select, Word(b"1")]);
        check("/* brisk:primary */SELECT/*+ X */", Escapes::Both, &[Hint(b"primary"), select]);
        check("/*!40001 x */ /*M!1 y */ /* z", Escapes::Both, &[Executable, Executable, Unclear]);
        check(
            "@a @`b`:=@@x @'c'",
            Escapes::Both,
            &[UserVariable, UserVariable, UserVariable, SystemVariable, Word(b"x"), UserVariable],
        );
    }

    /// As MySQL and MariaDB have it, in whose tables of characters 0x7f is a control character.
    #[test]
    fn two_dashes_before_a_control_character_are_a_comment() {
        for byte in (0..=0x20).chain([0x7f]) {
            let text = [b"a--", &[byte][..], b"b\nc"].concat();
            let got: Vec<_> = Tokens::new(&text, Escapes::Both).collect();
            let want: &[Token<'_>] = match byte {
                // The line ends at once.
                b'\n' => &[Word(b"a"), Word(b"b"), Word(b"c")],
                _ => &[Word(b"a"), Word(b"c")],
            };
            assert_eq!(got, want, "{byte:#x}");
        }
        for byte in 0x80..=0xff {
            let text = [b"a--", &[byte][..], b"b"].concat();
            let got: Vec<_> = Tokens::new(&text, Escapes::Both).collect();
            assert_eq!(got, [Word(b"a"), Unclear], "{byte:#x}");
        }
    }

    /// `à` is such a letter: a client of Latin-1 asks for `FOR UPDATE` here.
    #[test]
    fn words_that_other_character_sets_split_are_unclear() {
        check("t xàFOR UPDATE", Escapes::Both, &[Word(b"t"), Unclear]);
        check("@xàFOR UPDATE", Escapes::Both, &[Unclear]);
        check(
            "'à' `à` ä",
            Escapes::Both,
            &[Text("à".as_bytes()), Name("à".as_bytes()), Word("ä".as_bytes())],
        );
    }

    #[test]
    fn some_functions_are_names_if_a_blank_follows() {
        let (open, close) = (Sign(b'('), Sign(b')'));
        check(
            "now() NOW () lower ()",
            Escapes::Both,
            &[Word(b"now"), open, close, Name(b"NOW"), open, close, Word(b"lower"), open, close],
        );
        check("max/**/(", Escapes::Both, &[Name(b"max"), open]);
        check("max -- a\n(", Escapes::Both, &[Name(b"max"), open]);
        check("max#a\n(", Escapes::Both, &[Name(b"max"), open]);
        check("max\n\t(", Escapes::Both, &[Name(b"max"), open]);
        check("rank, max", Escapes::Both, &[Word(b"rank"), Sign(b','), Word(b"max")]);
    }

    #[test]
    fn quotes_end_by_the_mode() {
        check("'a''b' `c``d` \"e\"\"f\"", Escapes::Both, &[Text(b"a''b"), Name(b"c``d"), Name(b"e\"\"f")]);
        check(r"'\' x '", Escapes::Both, &[Text(br"\' x ")]);
        check(r"'\' x '", Escapes::None, &[Text(br"\"), Word(b"x"), Unclear]);
        check(r#""\" x ""#, Escapes::Both, &[Name(br#"\" x "#)]);
        check(r#""\" x ""#, Escapes::Single, &[Name(br"\"), Word(b"x"), Unclear]);
        check(r"`\`", Escapes::Both, &[Name(br"\")]);
        for open in ["'a", "\"a", "`a", "'a\\", "@'a", "/*", "a\0b"] {
            assert_eq!(Tokens::new(open.as_bytes(), Escapes::Both).last(), Some(Unclear), "{open}");
        }
    }
}
