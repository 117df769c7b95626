//! Structured fields (RFC 9651), as far as a dictionary of cache directives needs them: `CDN-Cache-Control` (RFC 9213).
//!
//! A field that is not well formed as a whole is ignored as a whole.

use crate::directives::{Response, SECONDS_MAX};
use crate::fields::Fields;

/// A member's value; what caches ask for. Strings, byte sequences, dates and inner lists are only told from others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// `?1`, `?0`, or a key alone.
    Boolean(bool),
    /// An integer.
    Integer(i64),
    /// A token.
    Token,
    /// Anything else.
    Other,
}

/// The members of a dictionary in order; a later member replaces an earlier one of the same key. `None`: malformed.
pub fn dictionary(text: &[u8]) -> Option<Vec<(Vec<u8>, Value)>> {
    let mut parser = Parser { rest: text };
    let mut out: Vec<(Vec<u8>, Value)> = Vec::new();
    parser.skip(b" ");
    while !parser.rest.is_empty() {
        let key = parser.key()?;
        let value = if parser.take(b'=') {
            parser.item_or_inner_list()?
        } else {
            parser.parameters()?;
            Value::Boolean(true)
        };
        match out.iter_mut().find(|(have, _)| *have == key) {
            Some(slot) => slot.1 = value,
            None => out.push((key, value)),
        }
        parser.skip(b" \t");
        if parser.rest.is_empty() {
            return Some(out);
        }
        if !parser.take(b',') {
            return None;
        }
        parser.skip(b" \t");
        // A trailing comma is an error.
        if parser.rest.is_empty() {
            return None;
        }
    }
    Some(out)
}

struct Parser<'a> {
    rest: &'a [u8],
}

impl Parser<'_> {
    fn skip(&mut self, set: &[u8]) {
        let count = self.rest.iter().take_while(|byte| set.contains(byte)).count();
        self.rest = &self.rest[count..];
    }

    fn take(&mut self, byte: u8) -> bool {
        match self.rest.split_first() {
            Some((&first, rest)) if first == byte => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    fn next(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    fn key(&mut self) -> Option<Vec<u8>> {
        if !matches!(self.rest.first()?, b'a'..=b'z' | b'*') {
            return None;
        }
        let is_key = |b: &&u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b'*');
        let count = self.rest.iter().take_while(is_key).count();
        let key = self.rest[..count].to_vec();
        self.rest = &self.rest[count..];
        Some(key)
    }

    fn parameters(&mut self) -> Option<()> {
        while self.take(b';') {
            self.skip(b" ");
            self.key()?;
            if self.take(b'=') {
                self.bare_item()?;
            }
        }
        Some(())
    }

    fn item_or_inner_list(&mut self) -> Option<Value> {
        if !self.take(b'(') {
            let value = self.bare_item()?;
            self.parameters()?;
            return Some(value);
        }
        loop {
            self.skip(b" ");
            if self.take(b')') {
                self.parameters()?;
                return Some(Value::Other);
            }
            self.bare_item()?;
            self.parameters()?;
            if !matches!(self.rest.first()?, b' ' | b')') {
                return None;
            }
        }
    }

    fn bare_item(&mut self) -> Option<Value> {
        match self.rest.first()? {
            b'-' | b'0'..=b'9' => self.number(),
            b'"' => self.string(),
            b'*' | b'a'..=b'z' | b'A'..=b'Z' => {
                let is_token = |b: &&u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(b);
                let count = self.rest.iter().take_while(is_token).count();
                self.rest = &self.rest[count..];
                Some(Value::Token)
            }
            b':' => {
                self.next();
                let end = memchr::memchr(b':', self.rest)?;
                let is_base64 = |b: &u8| b.is_ascii_alphanumeric() || b"+/=".contains(b);
                let valid = self.rest[..end].iter().all(is_base64);
                self.rest = &self.rest[end + 1..];
                valid.then_some(Value::Other)
            }
            b'?' => {
                self.next();
                match self.next()? {
                    b'0' => Some(Value::Boolean(false)),
                    b'1' => Some(Value::Boolean(true)),
                    _ => None,
                }
            }
            b'@' => {
                self.next();
                matches!(self.number()?, Value::Integer(_)).then_some(Value::Other)
            }
            b'%' => {
                self.next();
                self.string()
            }
            _ => None,
        }
    }

    /// At most 15 digits, or 12 and up to three decimals.
    fn number(&mut self) -> Option<Value> {
        let negative = self.take(b'-');
        let digits = self.digits();
        if digits.is_empty() || digits.len() > 15 {
            return None;
        }
        if self.take(b'.') {
            let decimals = self.digits().len();
            return (digits.len() <= 12 && (1..=3).contains(&decimals)).then_some(Value::Other);
        }
        let number = digits.iter().fold(0i64, |sum, digit| sum * 10 + i64::from(digit - b'0'));
        Some(Value::Integer(if negative { -number } else { number }))
    }

    fn digits(&mut self) -> Vec<u8> {
        let count = self.rest.iter().take_while(|b| b.is_ascii_digit()).count();
        let digits = self.rest[..count].to_vec();
        self.rest = &self.rest[count..];
        digits
    }

    fn string(&mut self) -> Option<Value> {
        if !self.take(b'"') {
            return None;
        }
        loop {
            match self.next()? {
                b'"' => return Some(Value::Other),
                b'\\' => {
                    if !matches!(self.next()?, b'"' | b'\\') {
                        return None;
                    }
                }
                0x20..=0x7e => {}
                _ => return None,
            }
        }
    }
}

/// `CDN-Cache-Control` in the form of `Cache-Control`. `None` if the field is missing, empty or invalid (RFC 9213 §2.2):
/// then `Cache-Control` and `Expires` count.
pub fn cdn_cache_control(fields: Fields<'_>) -> Option<Response> {
    let members = dictionary(&fields.joined("CDN-Cache-Control")?)?;
    if members.is_empty() {
        return None;
    }
    let mut out = Response::default();
    for (key, value) in members {
        let slot = match &*key {
            b"max-age" => &mut out.max_age,
            b"s-maxage" => &mut out.s_maxage,
            b"stale-while-revalidate" => &mut out.stale_while_revalidate,
            b"stale-if-error" => &mut out.stale_if_error,
            _ => {
                let flag = match &*key {
                    b"no-store" => &mut out.no_store,
                    b"no-cache" => &mut out.no_cache,
                    b"private" => &mut out.private,
                    b"public" => &mut out.public,
                    b"must-revalidate" => &mut out.must_revalidate,
                    b"proxy-revalidate" => &mut out.proxy_revalidate,
                    b"must-understand" => &mut out.must_understand,
                    b"immutable" => &mut out.immutable,
                    _ => continue,
                };
                // A qualified form is taken for the unqualified one, which is the stricter.
                *flag = value != Value::Boolean(false);
                continue;
            }
        };
        let Value::Integer(seconds) = value else { return None };
        *slot = Some(u64::try_from(seconds).unwrap_or(0).min(SECONDS_MAX));
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dictionaries() {
        let check = |text: &str, want: Option<&[(&str, Value)]>| {
            let want = want.map(|w| w.iter().map(|(k, v)| (k.as_bytes().to_vec(), v.clone())).collect());
            assert_eq!(dictionary(text.as_bytes()), want, "{text}");
        };
        check("", Some(&[]));
        check("a", Some(&[("a", Value::Boolean(true))]));
        check(
            "a=1, b=?0,c=x",
            Some(&[("a", Value::Integer(1)), ("b", Value::Boolean(false)), ("c", Value::Token)]),
        );
        check("a=-5;p=1;q, a=2", Some(&[("a", Value::Integer(2))]));
        check(
            "a=\"x\\\"y\", b=:YQ==:, c=(1 \"b\" ?1), d=1.5, e=@12, f=%\"x\"",
            Some(&[
                ("a", Value::Other),
                ("b", Value::Other),
                ("c", Value::Other),
                ("d", Value::Other),
                ("e", Value::Other),
                ("f", Value::Other),
            ]),
        );
        for bad in [
            "A=1",
            "a=",
            "a =1",
            "a= 1",
            "a,",
            ",a",
            "a b",
            "a=1234567890123456",
            "a=\"x",
            "a=?2",
            "a=(1",
            "a=(1x)",
            "a=1.",
            "a=:x",
            "max-age=1, &&&&&",
            "a=@x",
            "1=a",
        ] {
            check(bad, None);
        }
    }

    #[test]
    fn targeted_directives() {
        let of = |value: &str| cdn_cache_control(Fields(&[(b"CDN-Cache-Control", value.as_bytes())]));
        assert_eq!(of("max-age=60, foobar").unwrap().max_age, Some(60));
        assert_eq!(of("max-age=99999999999").unwrap().max_age, Some(SECONDS_MAX));
        assert_eq!(of("max-age=-1").unwrap().max_age, Some(0));
        assert!(of("private").unwrap().private && of("no-cache, no-store").unwrap().no_store);
        for ignored in ["", "max-age=\"60\"", "max-age=60, &&&", "MaX-aGe=60", "max-age"] {
            assert_eq!(of(ignored), None, "{ignored}");
        }
    }
}
