//! Values that are made of PHP's names of errors, as `E_ALL & ~E_DEPRECATED` of `error_reporting`: in a file of PHP's or FPM's they are
//! numbers, so in a pool's settings they are, too.

use crate::limits::EXPRESSION_PARTS_MAX;
use crate::settings::Problem;

/// PHP's names of errors, one bit each. `E_ALL` is that of PHP 8.0 to 8.3; the one bit that it has lost since means nothing to later ones.
const NAMES: &[(&str, i32)] = &[
    ("E_ALL", 32767),
    ("E_ERROR", 1),
    ("E_WARNING", 2),
    ("E_PARSE", 4),
    ("E_NOTICE", 8),
    ("E_CORE_ERROR", 16),
    ("E_CORE_WARNING", 32),
    ("E_COMPILE_ERROR", 64),
    ("E_COMPILE_WARNING", 128),
    ("E_USER_ERROR", 256),
    ("E_USER_WARNING", 512),
    ("E_USER_NOTICE", 1024),
    ("E_STRICT", 2048),
    ("E_RECOVERABLE_ERROR", 4096),
    ("E_DEPRECATED", 8192),
    ("E_USER_DEPRECATED", 16384),
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    Number(i32),
    Sign(char),
}

/// The number that a value stands for; the value itself if it is not made of such names.
pub(crate) fn number(name: &str, value: String) -> Result<String, Problem> {
    let Some(parts) = parts(&value) else { return Ok(value) };
    let mut rest = parts.as_slice();
    let is_short = parts.len() <= EXPRESSION_PARTS_MAX;
    match is_short.then(|| all(&mut rest)).flatten() {
        Some(number) if rest.is_empty() => Ok(number.to_string()),
        _ => Err(Problem::Error {
            message: format!("invalid value \"{value}\" of \"{name}\""),
            help: "names of errors are combined by |, &, ^, ~ and parentheses: E_ALL & ~E_DEPRECATED".into(),
        }),
    }
}

/// `None`: it has none of the names, or something else, too.
fn parts(text: &str) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    let mut has_name = false;
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let length = rest.bytes().take_while(|byte| is_word(*byte)).count().max(first.len_utf8());
        let (word, behind) = rest.split_at(length);
        let known = NAMES.iter().find(|(name, _)| *name == word).map(|(_, number)| *number);
        has_name |= known.is_some();
        parts.push(match (known.or_else(|| word.parse().ok()), first) {
            (Some(number), _) => Part::Number(number),
            (None, '|' | '&' | '^' | '~' | '!' | '(' | ')') => Part::Sign(first),
            (None, _) => return None,
        });
        rest = behind.trim_start();
    }
    has_name.then_some(parts)
}

/// From left to right, as PHP's ini files have it: no sign binds more than another.
fn all(rest: &mut &[Part]) -> Option<i32> {
    let mut left = one(rest)?;
    while let [Part::Sign(sign @ ('|' | '&' | '^')), behind @ ..] = *rest {
        *rest = behind;
        let right = one(rest)?;
        left = match sign {
            '|' => left | right,
            '&' => left & right,
            _ => left ^ right,
        };
    }
    Some(left)
}

fn one(rest: &mut &[Part]) -> Option<i32> {
    let (first, behind) = rest.split_first()?;
    *rest = behind;
    match first {
        Part::Number(number) => Some(*number),
        Part::Sign('~') => Some(!one(rest)?),
        Part::Sign('!') => Some(i32::from(one(rest)? == 0)),
        Part::Sign('(') => {
            let number = all(rest)?;
            let [Part::Sign(')'), behind @ ..] = *rest else { return None };
            *rest = behind;
            Some(number)
        }
        Part::Sign(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_numbers() {
        for (value, want) in [
            ("E_ALL", "32767"),
            ("E_ALL & ~E_DEPRECATED & ~E_STRICT", "22527"),
            ("E_ALL&~E_NOTICE", "32759"),
            ("~E_ERROR", "-2"),
            ("E_ERROR | E_WARNING ^ 2", "1"),
            ("(E_ALL ^ 1) & 3", "2"),
            ("!E_ALL | 4", "4"),
            // What is something else stays.
            ("E_OTHER", "E_OTHER"),
            ("see E_ALL", "see E_ALL"),
            ("64M", "64M"),
            ("1 | 2", "1 | 2"),
            ("", ""),
            ("E_ALL\u{e9}", "E_ALL\u{e9}"),
        ] {
            assert_eq!(number("x", value.into()).unwrap(), want, "{value}");
        }
        for value in ["E_ALL &", "E_ALL E_NOTICE", "(E_ALL", "E_ALL)", "& E_ALL", "()|E_ALL"] {
            assert!(number("x", value.into()).is_err(), "{value}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let deep = |depth| "(".repeat(depth) + "E_ALL" + &")".repeat(depth);
        assert_eq!(number("x", deep(100)).unwrap(), "32767");
        assert!(number("x", deep(1_000_000)).is_err());
    }
}
