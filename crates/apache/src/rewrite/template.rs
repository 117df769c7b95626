//! Substitutions and inputs of conditions: texts with `$1`, `%1`, `%{VARIABLE}` and `${map:key|default}` in them.

use super::context::Context;
use super::rule::Escapes;
use crate::limits::TEMPLATE_DEPTH_MAX;
use crate::{Stop, Variable, escape};

/// A text that was read once. What a request brings is never read as part of it.
#[derive(Clone, Debug, Default)]
pub struct Template {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug)]
enum Piece {
    Text(Vec<u8>),
    /// A character behind a backslash.
    Escaped(u8),
    /// `$1`: of the rule's pattern.
    RuleGroup(usize),
    /// `%1`: of the last condition's pattern.
    CondGroup(usize),
    Lookup(Lookup),
    Map {
        name: Vec<u8>,
        key: Template,
        default: Option<Template>,
    },
}

/// What stands between `%{` and `}`.
#[derive(Clone, Debug)]
pub(super) enum Lookup {
    Variable(Variable),
    Env(Vec<u8>),
    Ssl(Variable),
    Field(Vec<u8>),
    Ahead {
        is_file: bool,
        variable: Option<Variable>,
    },
    /// No variable has this name: empty, as in Apache.
    Unknown,
}

/// The value of a substitution.
pub(super) struct Expanded {
    pub text: Vec<u8>,
    /// The question mark that begins the query came with the request, not from the substitution.
    pub has_foreign_query: bool,
}

impl Template {
    /// Reads a text.
    ///
    /// # Errors
    /// Maps are nested too deeply.
    pub fn parse(text: &[u8]) -> Result<Template, String> {
        Template::parse_at(text, 0)
    }

    fn parse_at(text: &[u8], depth: usize) -> Result<Template, String> {
        if depth > TEMPLATE_DEPTH_MAX {
            return Err("maps inside of each other: too deep".into());
        }
        let mut pieces = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let plain = rest.iter().position(|byte| b"\\$%".contains(byte)).unwrap_or(rest.len());
            if plain > 0 {
                push_text(&mut pieces, &rest[..plain]);
                rest = &rest[plain..];
                continue;
            }
            let (piece, length) = special(rest, depth)?;
            match piece {
                Some(piece) => pieces.push(piece),
                None => push_text(&mut pieces, &rest[..length]),
            }
            rest = &rest[length..];
        }
        Ok(Template { pieces })
    }

    /// The text for a request.
    ///
    /// # Errors
    /// Those of [`crate::Facts`].
    pub(super) fn expand(&self, context: &mut Context<'_>) -> Result<Vec<u8>, Stop> {
        self.expand_substitution(context, None, false).map(|expanded| expanded.text)
    }

    /// The same with escapes of what was captured; `is_last` says that the query begins at the last question mark.
    pub(super) fn expand_substitution(
        &self,
        context: &mut Context<'_>,
        escapes: Option<&Escapes>,
        is_last: bool,
    ) -> Result<Expanded, Stop> {
        let mut text = Vec::new();
        // Whether the question mark that counts was seen, and came with the request.
        let mut foreign = None;
        for piece in &self.pieces {
            let start = text.len();
            piece.expand(context, escapes, &mut text)?;
            // A piece is at most a few times as long as what was counted before.
            context.facts.spend(text.len() - start + 1)?;
            let is_foreign = match piece {
                Piece::Text(_) => false,
                Piece::Escaped(_) => continue,
                _ => true,
            };
            if text[start..].contains(&b'?') && (is_last || foreign.is_none()) {
                foreign = Some(is_foreign);
            }
        }
        Ok(Expanded { text, has_foreign_query: foreign == Some(true) })
    }
}

fn push_text(pieces: &mut Vec<Piece>, text: &[u8]) {
    match pieces.last_mut() {
        Some(Piece::Text(last)) => last.extend_from_slice(text),
        _ => pieces.push(Piece::Text(text.to_vec())),
    }
}

/// What begins with a backslash, a dollar sign or a percent sign, and its length. `None`: it stands for itself.
fn special(text: &[u8], depth: usize) -> Result<(Option<Piece>, usize), String> {
    Ok(match text {
        [b'\\', escaped, ..] => (Some(Piece::Escaped(*escaped)), 2),
        [b'$', digit @ b'0'..=b'9', ..] => (Some(Piece::RuleGroup(usize::from(digit - b'0'))), 2),
        [b'%', digit @ b'0'..=b'9', ..] => (Some(Piece::CondGroup(usize::from(digit - b'0'))), 2),
        [sign @ (b'%' | b'$'), b'{', inside @ ..] => {
            let Some(end) = closing_brace(inside) else { return Ok((None, 2)) };
            let inside = &inside[..end];
            let piece = match sign {
                b'%' => Some(Piece::Lookup(lookup(inside))),
                _ => map(inside, depth)?,
            };
            // A map without a key is no map: its beginning stands for itself.
            let length = if piece.is_some() { end + 3 } else { 2 };
            (piece, length)
        }
        _ => (None, 1),
    })
}

fn closing_brace(text: &[u8]) -> Option<usize> {
    let mut depth = 1;
    text.iter().position(|byte| {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        depth == 0
    })
}

/// Where a character is that no braces hold.
fn outside_braces(text: &[u8], wanted: u8) -> Option<usize> {
    let mut depth = 0;
    text.iter().position(|&byte| {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        depth == 0 && byte == wanted
    })
}

fn map(text: &[u8], depth: usize) -> Result<Option<Piece>, String> {
    let Some(colon) = outside_braces(text, b':') else { return Ok(None) };
    let (name, rest) = (text[..colon].to_vec(), &text[colon + 1..]);
    let (key, default) = match outside_braces(rest, b'|') {
        Some(bar) => (&rest[..bar], Some(&rest[bar + 1..])),
        None => (rest, None),
    };
    let default = default.map(|text| Template::parse_at(text, depth + 1)).transpose()?;
    Ok(Some(Piece::Map { name, key: Template::parse_at(key, depth + 1)?, default }))
}

fn lookup(name: &[u8]) -> Lookup {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let starts =
        |with: &str| name.len() > with.len() && name[..with.len()].eq_ignore_ascii_case(with.as_bytes());
    if starts("ENV:") {
        return Lookup::Env(name[4..].to_vec());
    }
    if starts("SSL:") {
        return Lookup::Ssl(Variable::Ssl(text(&name[4..]).into()));
    }
    if starts("HTTP:") {
        return Lookup::Field(name[5..].to_vec());
    }
    if starts("LA-U:") || starts("LA-F:") {
        let is_file = name[3].eq_ignore_ascii_case(&b'F');
        return Lookup::Ahead { is_file, variable: Variable::of_rule(&text(&name[5..])) };
    }
    Variable::of_rule(&text(name)).map_or(Lookup::Unknown, Lookup::Variable)
}

impl Piece {
    fn expand(
        &self,
        context: &mut Context<'_>,
        escapes: Option<&Escapes>,
        out: &mut Vec<u8>,
    ) -> Result<(), Stop> {
        let mut group = |text: &[u8]| match escapes {
            Some(escapes) => escaped(text, escapes, out),
            None => out.extend_from_slice(text),
        };
        match self {
            Piece::Text(text) => out.extend_from_slice(text),
            Piece::Escaped(byte) => out.push(*byte),
            Piece::RuleGroup(number) => group(context.rule_captures.get(*number)),
            Piece::CondGroup(number) => group(context.cond_captures.get(*number)),
            Piece::Lookup(lookup) => {
                let value = context.look_up(lookup)?;
                out.extend_from_slice(&value);
            }
            Piece::Map { name, key, default } => {
                let key = key.expand_substitution(context, escapes, false)?.text;
                match (context.facts.map(name, &key)?, default) {
                    (Some(value), _) => out.extend_from_slice(&value),
                    (None, Some(default)) => {
                        out.extend(default.expand_substitution(context, escapes, false)?.text);
                    }
                    (None, None) => {}
                }
            }
        }
        Ok(())
    }
}

/// What was captured, escaped as the flags B, BNE, BNP and BCTLS say.
fn escaped(text: &[u8], escapes: &Escapes, out: &mut Vec<u8>) {
    for &byte in text {
        let is_listed = escapes.only.as_ref().is_some_and(|list| list.contains(&byte));
        let is_wanted = if escapes.has_controls {
            byte == b' ' || byte.is_ascii_control()
        } else {
            escapes.only.is_none()
        };
        let is_word = byte.is_ascii_alphanumeric() || byte == b'_';
        if !(is_listed || is_wanted) || escapes.never.contains(&byte) || is_word {
            out.push(byte);
        } else if byte == b' ' && !escapes.has_no_plus {
            out.push(b'+');
        } else {
            escape::percent(byte, out);
        }
    }
}
