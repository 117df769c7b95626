//! Tokens of expressions. Strings and variables have tokens of their own kind inside, which the parser reads.

use super::{Comparison, Order};
use crate::limits::EXPR_STRING_BYTES_MAX;

/// One token outside of strings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    End,
    Not,
    And,
    Or,
    True,
    False,
    Open,
    Close,
    OpenList,
    CloseList,
    Comma,
    Concat,
    Compare(Comparison),
    Match {
        is_negated: bool,
    },
    In,
    /// `-f`
    Unary(u8),
    /// `-ipmatch`
    Binary(String),
    Digits(Vec<u8>),
    Name(String),
    /// A quotation mark that begins a string.
    Quote(u8),
    /// `%{`
    Variable,
    /// `$1`
    Capture(usize),
    Pattern {
        text: Vec<u8>,
        ignores_case: bool,
    },
}

/// Part of a string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Text(Vec<u8>),
    Variable,
    Capture(usize),
    End,
}

/// Where a string ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StringEnd {
    /// At this quotation mark.
    Quote(u8),
    /// At the brace that closes a variable.
    Brace,
    /// With the whole text.
    Text,
}

/// Reads a text from its beginning.
pub struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Lexer<'a> {
    pub fn new(text: &'a [u8]) -> Lexer<'a> {
        Lexer { text, at: 0 }
    }

    fn rest(&self) -> &'a [u8] {
        &self.text[self.at..]
    }

    fn taken<T>(&mut self, count: usize, token: T) -> Result<T, String> {
        self.at += count;
        Ok(token)
    }

    /// The next token. The longest one counts: `android` is a name, not `and` with something behind it.
    pub fn next(&mut self) -> Result<Token, String> {
        while let [b' ' | b'\t' | b'\n', ..] = self.rest() {
            self.at += 1;
        }
        let compare = |order| Token::Compare(Comparison { is_numeric: false, order });
        match self.rest() {
            [] => Ok(Token::End),
            [mark @ (b'"' | b'\''), ..] => self.taken(1, Token::Quote(*mark)),
            [b'%', b'{', ..] => self.taken(2, Token::Variable),
            [b'$', digit @ b'0'..=b'9', ..] => self.taken(2, Token::Capture(usize::from(digit - b'0'))),
            [b'/', ..] => self.pattern(1, b'/'),
            [b'm', mark, ..] if b"/#$%^,;:_?|-!.'\"".contains(mark) && !self.is_name_of_two() => {
                self.pattern(2, *mark)
            }
            [b'=', b'=', ..] => self.taken(2, compare(Order::Equal)),
            [b'=', b'~', ..] => self.taken(2, Token::Match { is_negated: false }),
            [b'!', b'~', ..] => self.taken(2, Token::Match { is_negated: true }),
            [b'!', b'=', ..] => self.taken(2, compare(Order::NotEqual)),
            [b'<', b'=', ..] => self.taken(2, compare(Order::LessOrEqual)),
            [b'>', b'=', ..] => self.taken(2, compare(Order::GreaterOrEqual)),
            [b'&', b'&', ..] => self.taken(2, Token::And),
            [b'|', b'|', ..] => self.taken(2, Token::Or),
            [b'=', ..] => self.taken(1, compare(Order::Equal)),
            [b'<', ..] => self.taken(1, compare(Order::Less)),
            [b'>', ..] => self.taken(1, compare(Order::Greater)),
            [b'!', ..] => self.taken(1, Token::Not),
            [b'.', ..] => self.taken(1, Token::Concat),
            [b'(', ..] => self.taken(1, Token::Open),
            [b')', ..] => self.taken(1, Token::Close),
            [b'{', ..] => self.taken(1, Token::OpenList),
            [b'}', ..] => self.taken(1, Token::CloseList),
            [b',', ..] => self.taken(1, Token::Comma),
            [b'-', b'0'..=b'9', ..] | [b'0'..=b'9', ..] => {
                let count = 1 + count(&self.rest()[1..], |byte| byte.is_ascii_digit());
                let digits = self.rest()[..count].to_vec();
                self.taken(count, Token::Digits(digits))
            }
            [b'-', rest @ ..]
                if rest.first().is_some_and(|&byte| byte.is_ascii_alphabetic() || byte == b'_') =>
            {
                let count = count(rest, is_word);
                let name = String::from_utf8_lossy(&rest[..count]).into_owned();
                self.taken(1 + count, operator(name))
            }
            [first, ..] if first.is_ascii_alphabetic() => {
                let count = count(self.rest(), is_word);
                let name = String::from_utf8_lossy(&self.rest()[..count]).into_owned();
                self.taken(count, word(name))
            }
            [byte, ..] => Err(format!("Parse error near '{}'", byte.escape_ascii())),
        }
    }

    /// `m_` may begin a pattern or a name; a name is longer.
    fn is_name_of_two(&self) -> bool {
        self.rest()[1] == b'_' && self.rest().get(2).copied().is_some_and(is_word)
    }

    fn pattern(&mut self, skip: usize, end: u8) -> Result<Token, String> {
        let text = &self.rest()[skip..];
        let length = memchr::memchr(end, text).ok_or("Unterminated regexp")?;
        if length > EXPR_STRING_BYTES_MAX {
            return Err("Regexp too long".into());
        }
        let ignores_case = text.get(length + 1) == Some(&b'i');
        let token = Token::Pattern { text: text[..length].to_vec(), ignores_case };
        self.taken(skip + length + 1 + usize::from(ignores_case), token)
    }

    /// The name of a variable or a function, and whether an argument follows: what stands between `%{` and `:` or `}`.
    pub fn variable_name(&mut self) -> Result<(String, bool), String> {
        let count = count(self.rest(), is_word);
        let name = self.rest()[..count].to_vec();
        match self.rest()[count..] {
            [] => Err("Unterminated string or variable".into()),
            [end @ (b':' | b'}'), ..] if name.first().is_some_and(u8::is_ascii_alphabetic) => {
                self.taken(count + 1, (String::from_utf8_lossy(&name).into_owned(), end == b':'))
            }
            [byte, ..] => Err(format!("Invalid character in variable name '{}'", byte.escape_ascii())),
        }
    }

    /// The next part of a string.
    pub fn part(&mut self, end: StringEnd) -> Result<Part, String> {
        let mut text = Vec::new();
        loop {
            let special = match (self.rest(), end) {
                ([], StringEnd::Text) => Some((0, Part::End)),
                ([], _) | ([b'\n', ..], _) => return Err("Unterminated string or variable".into()),
                ([mark, ..], StringEnd::Quote(quote)) if *mark == quote => Some((1, Part::End)),
                ([b'}', ..], StringEnd::Brace) => Some((1, Part::End)),
                ([b'%', b'{', ..], _) => Some((2, Part::Variable)),
                ([b'$', digit @ b'0'..=b'9', ..], _) => Some((2, Part::Capture(usize::from(digit - b'0')))),
                _ => None,
            };
            match special {
                // What comes before is given first.
                Some(_) if !text.is_empty() => return Ok(Part::Text(text)),
                Some((count, part)) => return self.taken(count, part),
                None => text.push(self.character()?),
            }
            if text.len() > EXPR_STRING_BYTES_MAX {
                return Err("String too long".into());
            }
        }
    }

    /// One character of a string, with its escape.
    fn character(&mut self) -> Result<u8, String> {
        match self.rest() {
            [b'\\', b'0'..=b'9', ..] => {
                let count = count(&self.rest()[1..], |byte| byte.is_ascii_digit());
                let digits = std::str::from_utf8(&self.rest()[1..=count]).unwrap_or_default();
                let value = u32::from_str_radix(digits, 8).ok().filter(|_| count <= 3);
                match value {
                    // A text of Apache's cannot hold NUL.
                    Some(value @ 1..=255) => self.taken(1 + count, value as u8),
                    Some(256..) => Err("Escape sequence out of bound".into()),
                    _ => Err("Bad escape sequence".into()),
                }
            }
            [b'\\', escaped, ..] => {
                let byte = match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'f' => 12,
                    other => *other,
                };
                self.taken(2, byte)
            }
            [byte, ..] => self.taken(1, *byte),
            [] => Err("Unterminated string or variable".into()),
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn count(text: &[u8], is_part: impl Fn(u8) -> bool) -> usize {
    text.iter().position(|&byte| !is_part(byte)).unwrap_or(text.len())
}

fn numeric(name: &str) -> Option<Token> {
    let order = match name {
        "eq" => Order::Equal,
        "ne" => Order::NotEqual,
        "lt" => Order::Less,
        "le" => Order::LessOrEqual,
        "gt" => Order::Greater,
        "ge" => Order::GreaterOrEqual,
        _ => return None,
    };
    Some(Token::Compare(Comparison { is_numeric: true, order }))
}

/// What stands behind a hyphen.
fn operator(name: String) -> Token {
    match (name.as_str(), name.as_bytes()) {
        ("in", _) => Token::In,
        (_, [letter]) => Token::Unary(*letter),
        _ => numeric(&name).unwrap_or(Token::Binary(name)),
    }
}

fn word(name: String) -> Token {
    match name.as_str() {
        "and" => Token::And,
        "or" => Token::Or,
        "not" => Token::Not,
        "true" => Token::True,
        "false" => Token::False,
        "in" => Token::In,
        _ => numeric(&name).unwrap_or(Token::Name(name)),
    }
}
