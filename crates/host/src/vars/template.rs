//! Text with variables in it, cut up once.

use super::context::Context;
use super::table::{Names, VarId};
use brisk_conf::{Diag, Token};

/// A piece of a template.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// Plain text.
    Text(Box<[u8]>),
    /// A variable's value.
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
    pub fn parse(vars: &mut dyn Names, token: &Token) -> Result<Template, Diag> {
        Template::parse_bytes(vars, token.bytes(), token)
    }

    /// As [`Template::parse`], for text that is only part of the token.
    pub fn parse_bytes(vars: &mut dyn Names, text: &[u8], token: &Token) -> Result<Template, Diag> {
        vars.spelled().note(text);
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

    /// Its pieces, in order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Whether it is a condition that holds, see [`is_set`].
    pub fn holds<C: Context>(&self, of: &C) -> bool {
        is_set(&self.eval(of))
    }

    /// The text, if there are no variables in it.
    pub fn as_literal(&self) -> Option<&[u8]> {
        match &*self.parts {
            [] => Some(b""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Whether it has no variables.
    pub fn is_literal(&self) -> bool {
        self.as_literal().is_some()
    }

    /// Whether it is the empty text.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// True if a `$1` … `$9` occurs.
    pub fn has_captures(&self) -> bool {
        self.parts.iter().any(|p| matches!(p, Part::Capture(_)))
    }

    /// Appends the text with all values filled in.
    #[inline]
    pub fn append<C: Context>(&self, of: &C, out: &mut Vec<u8>) {
        for part in &*self.parts {
            part.append(of, out);
        }
    }

    /// The text with all values filled in.
    pub fn eval<C: Context>(&self, of: &C) -> Vec<u8> {
        let mut out = Vec::new();
        self.append(of, &mut out);
        out
    }
}

impl Part {
    /// Appends the text or the value.
    #[inline]
    pub fn append<C: Context>(&self, of: &C, out: &mut Vec<u8>) {
        match self {
            Part::Text(text) => out.extend_from_slice(text),
            Part::Var(id) => {
                of.var(*id, out);
            }
            Part::Capture(group) => of.captures().borrow().append(*group, out),
        }
    }
}

/// What follows a `$`: its part and length.
fn variable(vars: &mut dyn Names, rest: &[u8], token: &Token) -> Result<(Part, usize), Diag> {
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
