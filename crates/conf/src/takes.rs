//! What a directive's parameter may be: its type and its range, as data. Errors, documents and tools read the same.

use crate::diag::Diag;
use crate::parser::{Directive, Token};
use crate::value;

/// The values of a number, a size or a time that are taken, both ends included: in the unit of the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The least value.
    pub min: i64,
    /// The greatest value; `i64::MAX` is without limit.
    pub max: i64,
}

impl Range {
    /// From zero on, without limit.
    pub const ANY: Range = Range { min: 0, max: i64::MAX };

    /// Whether all values of the type are taken.
    pub const fn is_any(self) -> bool {
        self.min <= 0 && self.max == i64::MAX
    }

    /// `1 to 9`, `from 1 on`; nothing if there is no limit.
    pub fn describe(self) -> Option<String> {
        match self {
            _ if self.is_any() => None,
            Range { min, max: i64::MAX } => Some(format!("from {min} on")),
            Range { min, max } => Some(format!("{min} to {max}")),
        }
    }

    /// The error for a value beyond the range, in nginx's words.
    fn check(self, token: &Token, value: i64) -> Result<(), Diag> {
        let Range { min, max } = self;
        if (min..=max).contains(&value) {
            return Ok(());
        }
        let text = if max == i64::MAX {
            format!("value must be equal to or greater than {min}")
        } else {
            format!("value must be between {min} and {max}")
        };
        Err(Diag::emerg(token.span, text).help(format!("\"{}\" is not in this range", token.text())))
    }
}

/// The words of a table: what a directive that takes one of them offers.
pub trait Words: Sync {
    /// The words in the order of the table.
    fn words(&self) -> Vec<&'static str>;
}

impl<T: Sync, const N: usize> Words for [(&'static str, T); N] {
    fn words(&self) -> Vec<&'static str> {
        self.iter().map(|(word, _)| *word).collect()
    }
}

/// What a directive's parameters are.
#[derive(Clone, Copy)]
pub enum Takes {
    /// As the documents write it; the setter reads it. Empty where there are no parameters.
    Own(&'static str),
    /// `on` or `off`.
    Flag,
    /// A number without unit.
    Number(Range),
    /// A number without unit that may be negative.
    Signed(Range),
    /// Bytes, with `k` or `m`.
    Size(Range),
    /// Bytes, with `k`, `m` or `g`.
    Offset(Range),
    /// A time in milliseconds.
    Time(Range),
    /// A time in whole seconds.
    Seconds(Range),
    /// One of the words of a table, in any case.
    OneOf(&'static dyn Words),
}

impl Takes {
    /// As the documents write it: what is given is in small letters or symbols, what is meant is in capitals.
    pub fn arguments(&self) -> String {
        match self {
            Takes::Own(text) => (*text).to_string(),
            Takes::Flag => "on | off".to_string(),
            Takes::Number(_) | Takes::Signed(_) => "NUMBER".to_string(),
            Takes::Size(_) | Takes::Offset(_) => "SIZE".to_string(),
            Takes::Time(_) | Takes::Seconds(_) => "TIME".to_string(),
            Takes::OneOf(words) => words.words().join(" | "),
        }
    }

    /// The type in a word, for tools: `flag`, `number`, `size`, `time`, `word`; `other` has a grammar of its own.
    pub fn kind(&self) -> &'static str {
        match self {
            Takes::Own("") => "none",
            Takes::Own(_) => "other",
            Takes::Flag => "flag",
            Takes::Number(_) | Takes::Signed(_) => "number",
            Takes::Size(_) | Takes::Offset(_) => "size",
            Takes::Time(_) | Takes::Seconds(_) => "time",
            Takes::OneOf(_) => "word",
        }
    }

    /// The unit that follows from the type.
    pub const fn unit(&self) -> &'static str {
        match self {
            Takes::Size(_) | Takes::Offset(_) => "bytes",
            Takes::Time(_) => "milliseconds",
            Takes::Seconds(_) => "seconds",
            _ => "",
        }
    }

    /// The values that are taken, for what has an order.
    pub const fn range(&self) -> Option<Range> {
        match *self {
            Takes::Number(range)
            | Takes::Signed(range)
            | Takes::Size(range)
            | Takes::Offset(range)
            | Takes::Time(range)
            | Takes::Seconds(range) => Some(range),
            Takes::Own(_) | Takes::Flag | Takes::OneOf(_) => None,
        }
    }

    /// The same type with another range. What has no order cannot have one.
    #[must_use]
    pub const fn within(self, range: Range) -> Takes {
        match self {
            Takes::Number(_) => Takes::Number(range),
            Takes::Signed(_) => Takes::Signed(range),
            Takes::Size(_) => Takes::Size(range),
            Takes::Offset(_) => Takes::Offset(range),
            Takes::Time(_) => Takes::Time(range),
            Takes::Seconds(_) => Takes::Seconds(range),
            Takes::Own(_) | Takes::Flag | Takes::OneOf(_) => panic!("only what has an order has a range"),
        }
    }

    /// Checks the parameter against type and range. What has a grammar of its own is left to the setter.
    pub fn check(&self, directive: &Directive) -> Result<(), Diag> {
        let Some(token) = directive.args.first() else { return Ok(()) };
        let as_i64 = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        match *self {
            Takes::Own(_) => Ok(()),
            Takes::Flag => value::flag(directive.name(), token).map(drop),
            Takes::OneOf(words) => value::one_of(token, &words.words()).map(drop),
            Takes::Number(range) => range.check(token, as_i64(value::number(token)?)),
            Takes::Signed(range) => range.check(token, value::signed(token)?),
            Takes::Size(range) => range.check(token, as_i64(value::size(token)?)),
            Takes::Offset(range) => range.check(token, as_i64(value::offset(token)?)),
            Takes::Seconds(range) => range.check(token, as_i64(value::seconds(token)?)),
            Takes::Time(range) => {
                let ms = value::msec(token)?.as_millis();
                range.check(token, i64::try_from(ms).unwrap_or(i64::MAX))
            }
        }
    }

    /// The number of a parameter that is a number, a size or a time in seconds.
    pub fn number(&self, token: &Token) -> Result<u64, Diag> {
        match self {
            Takes::Size(_) => value::size(token),
            Takes::Offset(_) => value::offset(token),
            Takes::Seconds(_) => value::seconds(token),
            _ => value::number(token),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NoFiles, SourceMap, parse};

    fn message(takes: Takes, text: &str) -> String {
        let mut sources = SourceMap::default();
        let file = sources.add("f", format!("x {text};").into_bytes());
        let tree = parse(&mut sources, file, &NoFiles, &mut Vec::new());
        takes.check(&tree[0]).err().map_or(String::new(), |diag| diag.message)
    }

    #[test]
    fn parameters_are_held_against_type_and_range() {
        let levels = Takes::Number(Range { min: 1, max: 9 });
        assert_eq!(message(levels, "9"), "");
        assert_eq!(message(levels, "0"), "value must be between 1 and 9");
        assert_eq!(message(levels, "10"), "value must be between 1 and 9");
        assert_eq!(message(levels, "x"), "invalid number");
        let some = Takes::Size(Range { min: 1, max: i64::MAX });
        assert_eq!(message(some, "0"), "value must be equal to or greater than 1");
        assert_eq!(message(some, "1k"), "");
        assert_eq!(message(some, "1g"), "invalid value");
        assert_eq!(message(Takes::Offset(Range::ANY), "1g"), "");
        assert_eq!(message(Takes::Signed(Range { min: -20, max: 20 }), "-20"), "");
        assert_eq!(
            message(Takes::Signed(Range { min: -20, max: 20 }), "-21"),
            "value must be between -20 and 20"
        );
        assert_eq!(message(Takes::Time(Range { min: 1, max: i64::MAX }), "1ms"), "");
        assert_eq!(message(Takes::Seconds(Range::ANY), "1ms"), "invalid value");
        assert_eq!(message(Takes::OneOf(&[("a", 1), ("b", 2)]), "B"), "");
        assert_eq!(message(Takes::OneOf(&[("a", 1), ("b", 2)]), "c"), "invalid value \"c\"");
        assert!(message(Takes::Flag, "maybe").contains("it must be \"on\" or \"off\""));
        assert_eq!(message(Takes::Own("TEXT"), "anything"), "");
    }

    #[test]
    fn types_are_written_as_documents_do() {
        assert_eq!(Takes::OneOf(&[("a", 1), ("b", 2)]).arguments(), "a | b");
        assert_eq!(Range { min: 1, max: 9 }.describe().as_deref(), Some("1 to 9"));
        assert_eq!(Range { min: 1, max: i64::MAX }.describe().as_deref(), Some("from 1 on"));
        assert_eq!(Range::ANY.describe(), None);
    }
}
