//! The value of an expression for a request.

use super::{Condition, Function, Test, Text, Unary, Word};
use crate::limits::{EXPR_RESULT_BYTES_MAX, LINE_WORK_BYTES};
use crate::{Captures, Facts, Pattern, Stop, Value, glob, network};
use std::borrow::Cow;

/// What an evaluation looks at, and what it leaves.
pub struct Evaluation<'f> {
    facts: &'f dyn Facts,
    /// What the last pattern with groups has captured: `$0` to `$9`. A caller may set it before.
    pub captures: Captures,
    /// Names of the request's fields that the result depends on, for `Vary`. `Host` is not among them.
    pub vary: Vec<Vec<u8>>,
}

impl<'f> Evaluation<'f> {
    /// An evaluation for one request.
    pub fn new(facts: &'f dyn Facts) -> Evaluation<'f> {
        Evaluation { facts, captures: Captures::default(), vary: Vec::new() }
    }

    /// Whether a condition holds.
    ///
    /// # Errors
    /// [`Stop::Wait`] if a fact is to come; else the request is not to be served.
    pub fn holds<P: Pattern>(&mut self, condition: &Condition<P>) -> Result<bool, Stop> {
        self.test(&condition.root)
    }

    /// The value of a text.
    ///
    /// # Errors
    /// As [`Evaluation::holds`].
    pub fn text(&mut self, text: &Text) -> Result<Vec<u8>, Stop> {
        self.word(&text.root).map(Cow::into_owned)
    }

    fn test<P: Pattern>(&mut self, test: &Test<P>) -> Result<bool, Stop> {
        Ok(match test {
            Test::Constant(value) => *value,
            Test::Not(test) => !self.test(test)?,
            Test::All(list) => {
                for test in list {
                    if !self.test(test)? {
                        return Ok(false);
                    }
                }
                true
            }
            Test::Any(list) => {
                for test in list {
                    if self.test(test)? {
                        return Ok(true);
                    }
                }
                false
            }
            Test::Compare(how, left, right) => {
                let left = self.word(left)?.into_owned();
                how.holds(&left, &self.word(right)?)
            }
            Test::Match { subject, pattern, is_negated } => {
                let subject = self.word(subject)?.into_owned();
                self.facts.spend(subject.len() + LINE_WORK_BYTES)?;
                let found = pattern.find(&subject)?;
                let is_match = found.is_some();
                // A pattern without groups leaves what an earlier one has captured.
                if pattern.groups() > 0 {
                    match found {
                        Some(spans) => self.captures.set(&subject, spans),
                        None => self.captures.clear(),
                    }
                }
                is_match != *is_negated
            }
            Test::In(word, list) => {
                let word = self.word(word)?.into_owned();
                for one in list {
                    if *self.word(one)? == *word {
                        return Ok(true);
                    }
                }
                false
            }
            Test::Unary(operator, word) => {
                let word = self.word(word)?.into_owned();
                self.unary(*operator, &word)?
            }
            Test::Client(network) => network::contains(*network, self.facts.client()),
            Test::Address(word, network) => {
                let text = self.word(word)?;
                network::address(&text).is_some_and(|address| network::contains(*network, address))
            }
            Test::Glob { text, pattern, options } => {
                let text = self.word(text)?.into_owned();
                glob::matches(&self.word(pattern)?, &text, *options)
            }
        })
    }

    fn unary(&self, operator: Unary, word: &[u8]) -> Result<bool, Stop> {
        Ok(match operator {
            Unary::NotEmpty => !word.is_empty(),
            Unary::Empty => word.is_empty(),
            Unary::True => {
                let falses: [&[u8]; 5] = [b"", b"0", b"off", b"false", b"no"];
                !falses.iter().any(|value| value.eq_ignore_ascii_case(word))
            }
            Unary::File(test) => self.facts.file(word, test)?,
            Unary::Served => self.facts.status_of_file(word)? < 400,
            Unary::Uri => self.facts.status_of_uri(word)? < 400,
        })
    }

    /// The value of a word, which counts as work.
    fn word<'w>(&mut self, word: &'w Word) -> Result<Value<'w>, Stop>
    where
        'f: 'w,
    {
        let value = self.value(word)?;
        self.facts.spend(value.len() + 1)?;
        Ok(value)
    }

    fn value<'w>(&mut self, word: &'w Word) -> Result<Value<'w>, Stop>
    where
        'f: 'w,
    {
        match word {
            Word::Literal(text) => Ok(text.as_slice().into()),
            Word::Capture(group) => Ok(self.captures.get(*group).to_vec().into()),
            Word::Variable(variable) => {
                if let Some(field) = variable.field() {
                    self.varies_by(field.as_bytes());
                }
                self.facts.variable(variable)
            }
            Word::Call(function, argument) => {
                let argument = self.word(argument)?;
                if *function == Function::RequestField && !argument.eq_ignore_ascii_case(b"host") {
                    self.varies_by(&argument);
                }
                function.call(&argument, self.facts)
            }
            Word::Concat(words) => {
                let mut out = Vec::new();
                for word in words {
                    out.extend_from_slice(&self.word(word)?);
                    if out.len() > EXPR_RESULT_BYTES_MAX {
                        return Err(Stop::Failed("the value of an expression is too long".into()));
                    }
                }
                Ok(out.into())
            }
        }
    }

    fn varies_by(&mut self, field: &[u8]) {
        if !self.vary.iter().any(|known| known.eq_ignore_ascii_case(field)) {
            self.vary.push(field.to_vec());
        }
    }
}
