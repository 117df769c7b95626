//! Apache's expressions: conditions (`<If>`, `Require expr`, `expr=`), and texts with variables in them (`Header set`).
//!
//! An expression is read once and evaluated for each request. Reading bounds its depth, so that evaluation needs no bound.

mod eval;
mod functions;
mod lexer;
mod parser;

pub(crate) use parser::leading_number;

pub use eval::Evaluation;
pub use functions::Function;

use crate::{Patterns, Variable};
use brisk_conf::cidr::Cidr;

/// Where an expression stands, as far as that decides what it may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the server's own configuration.
    Server,
    /// In a `.htaccess` file: functions that read files are not there.
    Override,
}

/// A condition.
#[derive(Clone, Debug)]
pub struct Condition<P> {
    root: Test<P>,
}

/// A text with variables and functions in it.
#[derive(Clone, Debug)]
pub struct Text {
    root: Word,
}

impl<P> Condition<P> {
    /// Reads a condition.
    ///
    /// # Errors
    /// Why it is none, in Apache's words where it has some.
    pub fn parse(text: &[u8], place: Place, patterns: &impl Patterns<Pattern = P>) -> Result<Self, String> {
        parser::condition(text, place, patterns).map(|root| Condition { root })
    }

    /// Whether its value may depend on who has logged in.
    pub fn reads_user(&self) -> bool {
        self.root.reads(&Variable::RemoteUser)
    }
}

impl Text {
    /// Reads a text: variables `%{NAME}`, calls `%{function:argument}`, and what patterns have captured, `$0` to `$9`.
    ///
    /// # Errors
    /// Why it is none.
    pub fn parse(text: &[u8], place: Place) -> Result<Text, String> {
        parser::text(text, place).map(|root| Text { root })
    }

    /// The text itself, if nothing in it depends on a request.
    pub fn literal(&self) -> Option<&[u8]> {
        match &self.root {
            Word::Literal(text) => Some(text),
            _ => None,
        }
    }
}

/// What is true or false.
#[derive(Clone, Debug)]
enum Test<P> {
    Constant(bool),
    Not(Box<Test<P>>),
    All(Vec<Test<P>>),
    Any(Vec<Test<P>>),
    Compare(Comparison, Word, Word),
    Match {
        subject: Word,
        pattern: P,
        is_negated: bool,
    },
    In(Word, Vec<Word>),
    Unary(Unary, Word),
    /// The client's address is in a network (`-R`).
    Client(Cidr),
    /// `-ipmatch`.
    Address(Word, Cidr),
    Glob {
        text: Word,
        pattern: Word,
        options: crate::glob::Options,
    },
}

impl<P> Test<P> {
    fn reads(&self, variable: &Variable) -> bool {
        match self {
            Test::Constant(_) | Test::Client(_) => false,
            Test::Not(test) => test.reads(variable),
            Test::All(list) | Test::Any(list) => list.iter().any(|test| test.reads(variable)),
            Test::Match { subject: word, .. } | Test::Unary(_, word) | Test::Address(word, _) => {
                word.reads(variable)
            }
            Test::Compare(_, one, other) | Test::Glob { text: one, pattern: other, .. } => {
                one.reads(variable) || other.reads(variable)
            }
            Test::In(word, list) => word.reads(variable) || list.iter().any(|word| word.reads(variable)),
        }
    }
}

/// How two words are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Comparison {
    /// As whole numbers, not as texts.
    is_numeric: bool,
    order: Order,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Order {
    fn holds(self, found: std::cmp::Ordering) -> bool {
        match self {
            Order::Equal => found.is_eq(),
            Order::NotEqual => found.is_ne(),
            Order::Less => found.is_lt(),
            Order::LessOrEqual => found.is_le(),
            Order::Greater => found.is_gt(),
            Order::GreaterOrEqual => found.is_ge(),
        }
    }
}

/// Operators with one argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unary {
    NotEmpty,
    Empty,
    True,
    File(crate::FileTest),
    /// `-F`: a subrequest for the file would be answered.
    Served,
    /// `-U`: a subrequest for the URI would be answered.
    Uri,
}

/// What has a text.
#[derive(Clone, Debug)]
enum Word {
    Literal(Vec<u8>),
    Concat(Vec<Word>),
    Variable(Variable),
    Call(Function, Box<Word>),
    Capture(usize),
}

impl Word {
    fn reads(&self, variable: &Variable) -> bool {
        match self {
            Word::Literal(_) | Word::Capture(_) => false,
            Word::Concat(words) => words.iter().any(|word| word.reads(variable)),
            Word::Variable(own) => own == variable,
            Word::Call(_, argument) => argument.reads(variable),
        }
    }
}

#[cfg(test)]
mod tests;
