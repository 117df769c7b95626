//! `ngx_http_split_clients_module`: a variable whose value is drawn by a hash of another value.
//!
//! The same text gets the same value on every server and after every restart: the hash has no seed, and is
//! nginx's, so that clients keep their part when a server changes from nginx.

use crate::computed::{define, lines};
use brisk_conf::{Arity, Context, Diag, Directive, Token};
use brisk_server::conf::Cx;
use brisk_server::directive::directive;
use brisk_server::module::{Module, Row};
use brisk_server::vars::{Context as VarContext, Eval, Reads, Template};
use std::sync::Arc;

pub static MODULE: Module = Module { name: "split_clients", rows: ROWS, ..Module::EMPTY };

// Hashed and not drawn: a client stays in its part, without a cookie.
static ROWS: &[Row] = &[directive("split_clients")
    .doc("Defines a variable for tests with parts of all clients: a value (MurmurHash2 of it, as in nginx) is always in the same part. Percentages have up to two decimals; * is the rest.")
    .in_(Context::HTTP.or(Context::STREAM))
    .arity(Arity::TWO.block())
    .takes("VALUE $VARIABLE")
    .many()
    .definition()
    .example("split_clients $remote_addr $variant { 10% new; * old; }")
    .set(split_clients)];

/// One hundred percent, in the unit of the last decimal.
const WHOLE: u32 = 10_000;

struct Split {
    source: Template,
    parts: Box<[Part]>,
}

struct Part {
    /// Hashes below it belong to the part, or to one before it; `None`: all the rest.
    below: Option<u32>,
    value: Box<[u8]>,
}

fn split_clients(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let source = cx.template(d.arg(0))?;
    let mut parts = Vec::new();
    let (mut sum, mut limit) = (0, 0u32);
    for line in lines(cx, d) {
        let [value] = line.args.as_slice() else {
            return Err(Diag::emerg(line.span, "invalid number of the split_clients parameters")
                .help("a line is a percentage and a value; is the \";\" missing at its end?"));
        };
        let percent = percent(&line.name)?;
        // `*` takes what is left; behind it nothing can come.
        sum = percent.map_or(WHOLE, |percent| sum + percent);
        if sum > WHOLE {
            return Err(Diag::emerg(line.span, "percent total is greater than 100%"));
        }
        // The part that reaches 100 % has no bound: rounding in the others must not leave hashes that belong to
        // none.
        let below = percent.filter(|_| sum < WHOLE).map(|percent| {
            // Rounded for each part by itself, as nginx does: the same hash falls into the same part.
            limit += (u64::from(percent) * 0xffff_ffff / u64::from(WHOLE)) as u32;
            limit
        });
        parts.push(Part { below, value: value.bytes().into() });
    }
    define(cx, d.arg(1), Arc::new(Split { source, parts: parts.into() }), false).map(|_| ())
}

/// `12.5%` in hundredths of a percent; `None` for `*`.
fn percent(token: &Token) -> Result<Option<u32>, Diag> {
    if token.bytes() == b"*" {
        return Ok(None);
    }
    let value = token.bytes().strip_suffix(b"%").and_then(hundredths).filter(|&n| n > 0);
    value.map(Some).ok_or_else(|| {
        Diag::emerg(token.span, format!("invalid percent value \"{}\"", token.text()))
            .help("write a number with up to two decimals and a percent sign, or *")
    })
}

fn hundredths(text: &[u8]) -> Option<u32> {
    let (whole, decimals) = match memchr::memchr(b'.', text) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &b""[..]),
    };
    if text.is_empty() || decimals.len() > 2 || whole.len() > 4 {
        return None;
    }
    // Filled up to two decimals: a number without a point, in hundredths.
    let digits = whole.iter().chain(decimals).chain(&b"00"[decimals.len()..]);
    digits.copied().try_fold(0, |sum, b| b.is_ascii_digit().then(|| sum * 10 + u32::from(b - b'0')))
}

impl<C: VarContext> Eval<C> for Split {
    fn eval(&self, r: &C, out: &mut Vec<u8>) -> bool {
        let hash = murmur2(&self.source.eval(r));
        if let Some(part) = self.parts.iter().find(|part| part.below.is_none_or(|below| hash < below)) {
            out.extend_from_slice(&part.value);
        }
        true
    }

    fn values(&self) -> Option<Vec<Template>> {
        let values = self.parts.iter().map(|part| Template::literal(&part.value));
        // Nothing is what a hash gets that no part is left for.
        Some(values.chain([Template::default()]).collect())
    }

    fn reads(&self) -> Reads {
        Reads::Recorded
    }

    fn sources(&self) -> Vec<&Template> {
        vec![&self.source]
    }
}

/// MurmurHash2 for 32 bits with seed 0.
fn murmur2(data: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    // The seed is 0, so that only the length is left to begin with.
    let mut hash = data.len() as u32;
    let (words, tail) = data.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !tail.is_empty() {
        for (at, &byte) in tail.iter().enumerate() {
            hash ^= u32::from(byte) << (8 * at);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ hash >> 15
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{accepted, refused};

    #[test]
    fn percentages() {
        let check = |text: &str, want| assert_eq!(hundredths(text.as_bytes()), want, "{text}");
        check("51.2", Some(5120));
        check("0.05", Some(5));
        check("100", Some(10_000));
        check(".5", Some(50));
        check("1.", Some(100));
        check("", None);
        check("1.234", None);
        check("1.2.3", None);
        check("-1", None);
        check("99999", None);
    }

    #[test]
    fn murmur2_has_its_published_values() {
        // From the reference implementation, seed 0.
        let check = |text: &str, want: u32| assert_eq!(murmur2(text.as_bytes()), want, "{text}");
        check("", 0);
        check("a", 0x9268_5f5e);
        check("ab", 0x1aa1_4063);
        check("abc", 0x1357_7c9b);
        check("abcd", 0x2687_3021);
        check("hello", 0xe561_29cb);
    }

    #[test]
    fn lines_are_checked_in_nginxs_words() {
        refused(&[
            ("split_clients $uri x { }", "invalid variable name \"x\""),
            ("split_clients $uri $x { 10 a; }", "invalid percent value \"10\""),
            ("split_clients $uri $x { 0% a; }", "invalid percent value \"0%\""),
            ("split_clients $uri $x { 60% a; 50% b; }", "percent total is greater than 100%"),
            ("split_clients $uri $x { * a; 1% b; }", "percent total is greater than 100%"),
            ("split_clients $uri $x { 1%; }", "invalid number of the split_clients parameters"),
        ]);
        accepted(&[
            "split_clients $remote_addr$uri $x { 0.01% a; 99.99% b; } split_clients a $y { 5% b; * ''; }",
        ]);
    }
}
