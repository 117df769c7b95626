//! Text with variables in it, cut up once.

use super::{Table, VarId};
use crate::request::Request;
use brisk_conf::{Diag, Token};

/// A piece of a template.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    Text(Box<[u8]>),
    Var(VarId),
    /// `$1` … `$9`: a group of the last regular expression that matched.
    Capture(u8),
}

/// Text with variables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Template {
    parts: Box<[Part]>,
}

impl Template {
    /// Cuts `token` up.
    pub fn parse(vars: &mut Table, token: &Token) -> Result<Template, Diag> {
        Template::parse_bytes(vars, token.bytes(), token)
    }

    /// As [`Template::parse`], for text that is only part of the token.
    pub fn parse_bytes(vars: &mut Table, text: &[u8], token: &Token) -> Result<Template, Diag> {
        vars.spelled.note(text);
        let mut parts = Vec::new();
        let mut plain = Vec::new();
        let mut rest = text;
        while let Some(at) = memchr::memchr(b'$', rest) {
            plain.extend_from_slice(&rest[..at]);
            rest = &rest[at + 1..];
            let (part, len) = variable(vars, rest, token)?;
            if !plain.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut plain).into()));
            }
            parts.push(part);
            rest = &rest[len..];
        }
        plain.extend_from_slice(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain.into()));
        }
        Ok(Template { parts: parts.into() })
    }

    /// A template that is only text.
    pub fn literal(text: &[u8]) -> Template {
        let part = (!text.is_empty()).then(|| Part::Text(text.into()));
        Template { parts: part.into_iter().collect() }
    }

    /// The template with literal text before it.
    #[must_use]
    pub fn after(self, text: &[u8]) -> Template {
        let mut parts = self.parts.into_vec();
        match parts.first_mut() {
            Some(Part::Text(first)) => *first = [text, first].concat().into(),
            _ => parts.insert(0, Part::Text(text.into())),
        }
        Template { parts: parts.into() }
    }

    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Whether it is a condition that holds, see [`is_set`].
    pub fn holds(&self, r: &Request) -> bool {
        is_set(&self.eval(r))
    }

    /// The text, if there are no variables in it.
    pub fn as_literal(&self) -> Option<&[u8]> {
        match &*self.parts {
            [] => Some(b""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    pub fn is_literal(&self) -> bool {
        self.as_literal().is_some()
    }

    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// True if a `$1` … `$9` occurs.
    pub fn has_captures(&self) -> bool {
        self.parts.iter().any(|p| matches!(p, Part::Capture(_)))
    }

    /// Appends the text with all values filled in.
    pub fn append(&self, r: &Request, out: &mut Vec<u8>) {
        for part in &*self.parts {
            part.append(r, out);
        }
    }

    pub fn eval(&self, r: &Request) -> Vec<u8> {
        let mut out = Vec::new();
        self.append(r, &mut out);
        out
    }

    /// As [`Template::append`], for text that becomes a target (a path with arguments) or a URL. A `?` or `#` that was encoded
    /// in the request's path, and is decoded in `$uri`, captures and what is made of them, is encoded again: it must not
    /// begin the arguments of another request. nginx sends it as it is.
    pub fn append_target(&self, r: &Request, out: &mut Vec<u8>) {
        if !r.has_decoded_delimiter {
            return self.append(r, out);
        }
        self.parts.iter().for_each(|part| part.append_target(r, out));
    }

    /// See [`Template::append_target`].
    pub fn eval_target(&self, r: &Request) -> Vec<u8> {
        let mut out = Vec::new();
        self.append_target(r, &mut out);
        out
    }

    /// The text as a decoded path and the arguments behind its first `?`. A `?` of [`Template::append_target`] is part of the path.
    pub fn split_target(&self, r: &Request) -> (Vec<u8>, Option<Vec<u8>>) {
        let mut out = Vec::new();
        let mut at = None;
        for part in &*self.parts {
            let start = out.len();
            part.append(r, &mut out);
            if at.is_none() && !(r.has_decoded_delimiter && part.may_have_decoded(r)) {
                at = memchr::memchr(b'?', &out[start..]).map(|found| start + found);
            }
        }
        let Some(at) = at else { return (out, None) };
        let args = out[at + 1..].to_vec();
        out.truncate(at);
        (out, Some(args))
    }
}

impl Part {
    fn append(&self, r: &Request, out: &mut Vec<u8>) {
        match self {
            Part::Text(text) => out.extend_from_slice(text),
            Part::Var(id) => {
                r.var(*id, out);
            }
            Part::Capture(group) => r.captures.borrow().append(*group, out),
        }
    }

    /// See [`Template::append_target`].
    pub fn append_target(&self, r: &Request, out: &mut Vec<u8>) {
        let start = out.len();
        self.append(r, out);
        if r.has_decoded_delimiter && self.may_have_decoded(r) {
            let value = out.split_off(start);
            escape_delimiters(&value, out);
        }
    }

    /// Whether the value may have been decoded. Only what is part of the target as it was sent surely has not.
    pub fn may_have_decoded(&self, r: &Request) -> bool {
        match self {
            Part::Text(_) => false,
            Part::Capture(_) => true,
            Part::Var(id) => {
                let name = &*r.snap().vars.get(*id).name;
                !matches!(name, "args" | "query_string" | "is_args" | "request_uri")
                    && !name.starts_with("arg_")
            }
        }
    }
}

/// Appends `value` with `?` and `#` as `%HH`.
fn escape_delimiters(value: &[u8], out: &mut Vec<u8>) {
    for &b in value {
        match b {
            b'?' => out.extend_from_slice(b"%3F"),
            b'#' => out.extend_from_slice(b"%23"),
            _ => out.push(b),
        }
    }
}

/// What follows a `$`: its part and length.
fn variable(vars: &mut Table, rest: &[u8], token: &Token) -> Result<(Part, usize), Diag> {
    if let Some(&digit @ b'1'..=b'9') = rest.first() {
        return Ok((Part::Capture(digit - b'0'), 1));
    }
    let (name, len) = match rest.first() {
        Some(b'{') => {
            let end = rest.iter().position(|&b| b == b'}').ok_or_else(|| {
                let start = String::from_utf8_lossy(&rest[1..]).into_owned();
                Diag::emerg(token.span, format!("the closing bracket in \"{start}\" variable is missing"))
            })?;
            (&rest[1..end], end + 1)
        }
        _ => {
            let len = rest.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
            (&rest[..len], len)
        }
    };
    if name.is_empty() {
        return Err(Diag::emerg(token.span, "invalid variable name")
            .help("a \"$\" begins a variable; nginx has no escape for it, put it into a variable with `geo` or `map`"));
    }
    if let [digit @ b'1'..=b'9'] = name {
        return Ok((Part::Capture(digit - b'0'), len));
    }
    let name = std::str::from_utf8(name).map_err(|_| Diag::emerg(token.span, "invalid variable name"))?;
    Ok((Part::Var(vars.refer(name, Some(token.span))), len))
}
/// What nginx takes for true where a directive wants a condition: neither empty nor "0".
pub fn is_set(value: &[u8]) -> bool {
    !matches!(value, b"" | b"0")
}
