//! The grammar of expressions: `!` before `&&` before `||`, `.` joins words.

use super::lexer::{Lexer, Part, StringEnd, Token};
use super::{Comparison, Function, Order, Place, Test, Unary, Word};
use crate::limits::EXPR_DEPTH_MAX;
use crate::{FileTest, Patterns, Variable, glob, network};

/// Reads a condition.
pub fn condition<S: Patterns>(text: &[u8], place: Place, patterns: &S) -> Result<Test<S::Pattern>, String> {
    let mut lexer = Lexer::new(text);
    let token = lexer.next()?;
    let mut parser = Parser { lexer, token, place, depth: 0 };
    let test = parser.any(patterns)?;
    match parser.token {
        Token::End => Ok(test),
        _ => Err(parser.unexpected()),
    }
}

/// Reads a text with variables.
pub fn text(text: &[u8], place: Place) -> Result<Word, String> {
    let mut parser = Parser { lexer: Lexer::new(text), token: Token::End, place, depth: 0 };
    parser.string(StringEnd::Text)
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    /// The next one.
    token: Token,
    place: Place,
    depth: usize,
}

impl Parser<'_> {
    fn advance(&mut self) -> Result<Token, String> {
        let next = self.lexer.next()?;
        Ok(std::mem::replace(&mut self.token, next))
    }

    fn unexpected(&self) -> String {
        match &self.token {
            Token::End => "syntax error, unexpected end".into(),
            token => format!("syntax error, unexpected {token:?}"),
        }
    }

    fn expect(&mut self, token: &Token) -> Result<(), String> {
        if self.token != *token {
            return Err(self.unexpected());
        }
        self.advance().map(drop)
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, String>) -> Result<T, String> {
        if self.depth == EXPR_DEPTH_MAX {
            return Err("Recursion limit reached: it is nested too deeply".into());
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    fn any<S: Patterns>(&mut self, patterns: &S) -> Result<Test<S::Pattern>, String> {
        let mut list = vec![self.all(patterns)?];
        while self.token == Token::Or {
            self.advance()?;
            list.push(self.all(patterns)?);
        }
        Ok(if list.len() == 1 { list.remove(0) } else { Test::Any(list) })
    }

    fn all<S: Patterns>(&mut self, patterns: &S) -> Result<Test<S::Pattern>, String> {
        let mut list = vec![self.test(patterns)?];
        while self.token == Token::And {
            self.advance()?;
            list.push(self.test(patterns)?);
        }
        Ok(if list.len() == 1 { list.remove(0) } else { Test::All(list) })
    }

    fn test<S: Patterns>(&mut self, patterns: &S) -> Result<Test<S::Pattern>, String> {
        match self.token {
            Token::Not => self.deeper(|parser| {
                parser.advance()?;
                Ok(Test::Not(Box::new(parser.test(patterns)?)))
            }),
            Token::True | Token::False => Ok(Test::Constant(self.advance()? == Token::True)),
            Token::Open => self.deeper(|parser| {
                parser.advance()?;
                let test = parser.any(patterns)?;
                parser.expect(&Token::Close)?;
                Ok(test)
            }),
            Token::Unary(letter) => {
                self.advance()?;
                let word = self.word()?;
                unary(letter, word)
            }
            _ => self.comparison(patterns),
        }
    }

    fn comparison<S: Patterns>(&mut self, patterns: &S) -> Result<Test<S::Pattern>, String> {
        let left = self.word()?;
        match self.token.clone() {
            Token::Compare(how) => {
                self.advance()?;
                Ok(Test::Compare(how, left, self.word()?))
            }
            Token::Match { is_negated } => {
                self.advance()?;
                let Token::Pattern { text, ignores_case } = self.token.clone() else {
                    return Err(self.unexpected());
                };
                self.advance()?;
                let pattern = patterns
                    .compile(&text, ignores_case)
                    .map_err(|why| format!("Failed to compile regular expression: {why}"))?;
                Ok(Test::Match { subject: left, pattern, is_negated })
            }
            Token::In => {
                self.advance()?;
                self.expect(&Token::OpenList)?;
                let mut words = vec![self.word()?];
                while self.token == Token::Comma {
                    self.advance()?;
                    words.push(self.word()?);
                }
                self.expect(&Token::CloseList)?;
                Ok(Test::In(left, words))
            }
            Token::Binary(name) => {
                self.advance()?;
                let right = self.word()?;
                binary(&name, left, right)
            }
            _ => Err(self.unexpected()),
        }
    }

    fn word(&mut self) -> Result<Word, String> {
        let mut words = vec![self.single()?];
        while self.token == Token::Concat {
            self.advance()?;
            words.push(self.single()?);
        }
        Ok(joined(words))
    }

    fn single(&mut self) -> Result<Word, String> {
        match self.token.clone() {
            Token::Digits(digits) => {
                self.advance()?;
                Ok(Word::Literal(digits))
            }
            Token::Capture(group) => {
                self.advance()?;
                Ok(Word::Capture(group))
            }
            // The token behind a string is read when the string has been.
            Token::Quote(mark) => {
                let word = self.string(StringEnd::Quote(mark))?;
                self.token = self.lexer.next()?;
                Ok(word)
            }
            Token::Variable => {
                let word = self.variable()?;
                self.token = self.lexer.next()?;
                Ok(word)
            }
            Token::Name(name) => self.deeper(|parser| {
                parser.advance()?;
                parser.expect(&Token::Open)?;
                let argument = parser.word()?;
                parser.expect(&Token::Close)?;
                call(&name, argument, parser.place)
            }),
            _ => Err(self.unexpected()),
        }
    }

    /// What stands behind the beginning of a string.
    fn string(&mut self, end: StringEnd) -> Result<Word, String> {
        let mut words = Vec::new();
        loop {
            words.push(match self.lexer.part(end)? {
                Part::Text(text) => Word::Literal(text),
                Part::Capture(group) => Word::Capture(group),
                Part::Variable => self.variable()?,
                Part::End => return Ok(joined(words)),
            });
        }
    }

    /// What stands behind `%{`.
    fn variable(&mut self) -> Result<Word, String> {
        self.deeper(|parser| {
            let (name, has_argument) = parser.lexer.variable_name()?;
            if has_argument {
                let argument = parser.string(StringEnd::Brace)?;
                return call(&name, argument, parser.place);
            }
            let unknown = || format!("Variable '{name}' does not exist");
            Variable::of_expression(&name).map(Word::Variable).ok_or_else(unknown)
        })
    }
}

fn joined(mut words: Vec<Word>) -> Word {
    match words.len() {
        0 => Word::Literal(Vec::new()),
        1 => words.remove(0),
        _ => Word::Concat(words),
    }
}

fn call(name: &str, argument: Word, place: Place) -> Result<Word, String> {
    let function = Function::named(name).ok_or_else(|| format!("Function '{name}' does not exist"))?;
    if place == Place::Override && function.reads_files() {
        return Err(format!("{name} not available in restricted context"));
    }
    Ok(Word::Call(function, Box::new(argument)))
}

fn unary<P>(letter: u8, word: Word) -> Result<Test<P>, String> {
    let operator = match letter {
        b'n' => Unary::NotEmpty,
        b'z' => Unary::Empty,
        b'T' => Unary::True,
        b'd' => Unary::File(FileTest::Directory),
        b'e' => Unary::File(FileTest::Exists),
        b'f' => Unary::File(FileTest::File),
        b's' => Unary::File(FileTest::NotEmpty),
        b'L' | b'h' => Unary::File(FileTest::Link),
        b'x' => Unary::File(FileTest::Executable),
        b'F' => Unary::Served,
        b'U' | b'A' => Unary::Uri,
        b'R' => return network_of("R", &word).map(Test::Client),
        _ => return Err(format!("Unary operator '{}' does not exist", letter as char)),
    };
    Ok(Test::Unary(operator, word))
}

fn binary<P>(name: &str, left: Word, right: Word) -> Result<Test<P>, String> {
    let globs = |options| Ok(Test::Glob { text: left.clone(), pattern: right.clone(), options });
    match name.to_ascii_lowercase().as_str() {
        "ipmatch" => network_of("ipmatch", &right).map(|network| Test::Address(left, network)),
        "fnmatch" => globs(glob::Options { is_path: true, ignores_case: false }),
        "strmatch" => globs(glob::Options::default()),
        "strcmatch" => globs(glob::Options { is_path: false, ignores_case: true }),
        _ => Err(format!("Binary operator '{name}' does not exist")),
    }
}

fn network_of(operator: &str, word: &Word) -> Result<brisk_conf::cidr::Cidr, String> {
    let Word::Literal(text) = word else {
        return Err(format!("-{operator} requires subnet/netmask as constant argument"));
    };
    let network = std::str::from_utf8(text).ok().and_then(network::parse);
    network.ok_or_else(|| format!("-{operator}: parsing of subnet/netmask failed"))
}

impl Comparison {
    /// Whether two texts compare so.
    pub(super) fn holds(self, left: &[u8], right: &[u8]) -> bool {
        let order: Order = self.order;
        if self.is_numeric {
            order.holds(leading_number(left).cmp(&leading_number(right)))
        } else {
            order.holds(left.cmp(right))
        }
    }
}

/// The number that a text begins with, 0 if there is none, as C's `atoll`.
pub fn leading_number(text: &[u8]) -> i64 {
    let text = text.trim_ascii_start();
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let value = digits
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .fold(0_i64, |value, byte| value.saturating_mul(10).saturating_add(i64::from(byte - b'0')));
    if is_negative { -value } else { value }
}
