//! Values with variables in them, and the expressions of `if`.

use crate::limits::REGEXES_MAX;
pub use crate::limits::VALUE_BYTES_MAX;
use brisk_server::regex::Adhoc;
use std::cell::RefCell;
use std::rc::Rc;

/// Fills in variables: `$name` and `${name}`, which `find` appends; `\` takes a `$`, quote or backslash as it is.
pub fn expand(text: &[u8], mut find: impl FnMut(&str, &mut Vec<u8>)) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'\\' => {
                if let Some((&next, after)) = rest.split_first() {
                    if !matches!(next, b'\\' | b'\'' | b'"' | b'$') {
                        out.push(b'\\');
                    }
                    out.push(next);
                    rest = after;
                }
            }
            b'$' => {
                let (name, after) = variable(rest, text)?;
                rest = after;
                find(name, &mut out);
            }
            _ => out.push(byte),
        }
        if out.len() > VALUE_BYTES_MAX {
            return Err(format!("too long value of \"{}\"", String::from_utf8_lossy(text)));
        }
    }
    Ok(out)
}

/// The name behind a `$`, and what follows it.
fn variable<'t>(rest: &'t [u8], text: &[u8]) -> Result<(&'t str, &'t [u8]), String> {
    let (rest, in_brackets) = rest.strip_prefix(b"{").map_or((rest, false), |rest| (rest, true));
    let length = rest.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
    let (name, mut after) = rest.split_at(length);
    let name = std::str::from_utf8(name).unwrap_or_default();
    if in_brackets {
        after = after
            .strip_prefix(b"}")
            .ok_or_else(|| format!("the closing bracket in \"{name}\" variable is missing"))?;
    }
    if name.is_empty() {
        return Err(format!("invalid variable name in \"{}\"", String::from_utf8_lossy(text)));
    }
    Ok((name, after))
}

/// An expression, variables not yet filled in.
#[derive(Debug, PartialEq, Eq)]
pub struct Condition<'e> {
    /// In lower case, as in nginx.
    pub left: Vec<u8>,
    /// `None`: true if `left` is not empty.
    pub test: Option<Test<'e>>,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Test<'e> {
    pub is_negative: bool,
    pub right: &'e [u8],
    /// `right` is a regular expression.
    pub is_regex: bool,
}

/// Takes an expression apart; `None`: it is invalid.
pub fn condition(text: &[u8]) -> Option<Condition<'_>> {
    let is_left = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'$' | b'{' | b'}' | b'_' | b'"' | b'\'');
    let length = text.iter().take_while(|b| is_left(b)).count();
    let left = text[..length].to_ascii_lowercase();
    let rest = trimmed(&text[length..]);
    if rest.is_empty() {
        return Some(Condition { left, test: None });
    }
    let (is_negative, right) = match rest {
        [b'=', right @ ..] => (false, right),
        [b'!', b'=', right @ ..] => (true, right),
        _ => return None,
    };
    let right = trimmed(right);
    let test = match right {
        [b'/', pattern @ .., b'/'] => Test { is_negative, right: pattern, is_regex: true },
        [b'/', _, ..] => return None,
        [b'\\', b'/', ..] => Test { is_negative, right: &right[1..], is_regex: false },
        _ => Test { is_negative, right, is_regex: false },
    };
    Some(Condition { left, test: Some(test) })
}

fn trimmed(text: &[u8]) -> &[u8] {
    let spaces = text.iter().take_while(|b| **b == b' ').count();
    &text[spaces..]
}

thread_local! {
    static REGEXES: RefCell<Vec<(Box<str>, Rc<Adhoc>)>> = const { RefCell::new(Vec::new()) };
}

/// A regular expression from a page, compiled once for many requests.
pub fn regex(pattern: &[u8]) -> Result<Rc<Adhoc>, String> {
    let pattern = std::str::from_utf8(pattern)
        .map_err(|_| format!("invalid UTF-8 in \"{}\"", String::from_utf8_lossy(pattern)))?;
    let kept =
        REGEXES.with_borrow(|kept| kept.iter().find(|(have, _)| **have == *pattern).map(|k| k.1.clone()));
    if let Some(regex) = kept {
        return Ok(regex);
    }
    let regex = Rc::new(Adhoc::compile(pattern)?);
    REGEXES.with_borrow_mut(|kept| {
        if kept.len() >= REGEXES_MAX {
            kept.remove(0);
        }
        kept.push((pattern.into(), regex.clone()));
    });
    Ok(regex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_filled_in() {
        let check = |text: &str, want: Result<&str, &str>| {
            let find = |name: &str, out: &mut Vec<u8>| {
                if name != "none" {
                    out.extend_from_slice(format!("<{name}>").as_bytes());
                }
            };
            let got = expand(text.as_bytes(), find).map(|out| String::from_utf8(out).unwrap());
            assert_eq!(got.as_deref().map_err(String::as_str), want, "{text}");
        };
        check("", Ok(""));
        check("a$b-${c}d$e_1.", Ok("a<b>-<c>d<e_1>."));
        check("a$none.b", Ok("a.b"));
        check(r#"\$a \" \' \\ \. \"#, Ok(r#"$a " ' \ \. "#));
        check("$", Err("invalid variable name in \"$\""));
        check("a${}", Err("invalid variable name in \"a${}\""));
        check("${a", Err("the closing bracket in \"a\" variable is missing"));
        check("${a-b}", Err("the closing bracket in \"a\" variable is missing"));
    }

    #[test]
    fn values_do_not_grow_without_end() {
        let find = |_: &str, out: &mut Vec<u8>| out.resize(out.len() + 100_000, b'x');
        assert!(expand(b"$a$a", find).is_ok());
        assert!(expand(b"$a$a$a", find).unwrap_err().starts_with("too long value"));
    }

    #[test]
    fn expressions_are_taken_apart() {
        /// Left side, and whether the test is negative, its right side, whether that is a regular expression.
        type Want<'t> = Option<(&'t str, Option<(bool, &'t str, bool)>)>;
        let check = |text: &'static str, want: Want<'static>| {
            let want = want.map(|(left, test)| Condition {
                left: left.into(),
                test: test.map(|(is_negative, right, is_regex)| Test {
                    is_negative,
                    right: right.as_bytes(),
                    is_regex,
                }),
            });
            assert_eq!(condition(text.as_bytes()), want, "{text}");
        };
        check("$arg_v", Some(("$arg_v", None)));
        check("", Some(("", None)));
        check("$A = Text", Some(("$a", Some((false, "Text", false)))));
        check("Equal != $b", Some(("equal", Some((true, "$b", false)))));
        check("$a=/re+/", Some(("$a", Some((false, "re+", true)))));
        check("$a != /x", None);
        check("$a = /", Some(("$a", Some((false, "/", false)))));
        check(r"$a = \/x", Some(("$a", Some((false, "/x", false)))));
        check("$a > b", None);
        check("$a b", None);
        check("$a =", Some(("$a", Some((false, "", false)))));
    }
}
