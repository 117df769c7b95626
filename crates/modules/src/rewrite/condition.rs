//! `if`: its condition, and what becomes of its block.

use super::script::{FileKind, Test};
use super::{Conf, Item};
use brisk_conf::{Context, Diag, Directive, Token};
use brisk_server::conf::Cx;
use brisk_server::core::CoreConf;
use brisk_server::vars::VarId;
use std::sync::{Arc, OnceLock};

/// In its place among the other directives.
pub fn open(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let test = condition(cx, &words(d)?)?;
    cx.conf::<Conf>().items.push(Item::If { test, span: d.span, body: Vec::new(), location: None });
    Ok(())
}

/// When the block's simple directives are done: resolves the block and puts its items into the `if`.
pub fn fill(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let in_server = cx.block == Context::SERVER;
    let kind = if in_server { Context::SERVER_IF } else { Context::LOCATION_IF };
    // Before the block is resolved: inner blocks get higher numbers, as in the file.
    let id = cx.global.reserve_location();
    let name: Box<[u8]> = cx.conf_of::<CoreConf>().location_text[..].into();
    // The block is resolved like any location, and its items come out by way of this cell (`install`).
    let cell = Arc::new(OnceLock::new());
    let given = cell.clone();
    cx.child(id, d, kind, &name, |inner| inner.conf_of_mut::<Conf>().handed_to = Some(given));
    let inner = cell.get().cloned().unwrap_or_default();
    let mut items = cx.conf::<Conf>().items.iter_mut();
    let found = items.find_map(|item| match item {
        // Items may stand between this one and the end by now: the place in the text tells which it is.
        Item::If { span, body, location, .. } if *span == d.span => Some((body, location)),
        _ => None,
    });
    // There is none if the condition was refused.
    if let Some((body, location)) = found {
        *body = inner;
        *location = (!in_server).then_some(id);
    }
    Ok(())
}

fn invalid(token: &Token) -> Diag {
    Diag::emerg(token.span, format!("invalid condition \"{}\"", token.text()))
        .help("write ($variable), ($variable = value), ($variable ~ regex) or (-f path)")
}

/// The words between the parentheses, which may stand alone or stick to the first and last word.
fn words(d: &Directive) -> Result<Vec<Token>, Diag> {
    let mut words = d.args.clone();
    // nginx splits words at spaces alone, so a parenthesis may stick to the first and to the last.
    let first = words.first_mut().expect("the row's arity was checked");
    first.value = first.value.strip_prefix(b"(").ok_or_else(|| invalid(d.arg(0)))?.into();
    if first.value.is_empty() {
        words.remove(0);
    }
    let end = d.args.last().expect("the row's arity was checked");
    let last = words.last_mut().ok_or_else(|| invalid(end))?;
    last.value = last.value.strip_suffix(b")").ok_or_else(|| invalid(last))?.into();
    // An empty quoted value is followed by a parenthesis of its own.
    if last.value.is_empty() {
        words.pop();
    }
    if words.is_empty() { Err(invalid(end)) } else { Ok(words) }
}

fn condition(cx: &mut Cx<'_, '_>, words: &[Token]) -> Result<Test, Diag> {
    let first = &words[0];
    match first.bytes() {
        [b'$', _, ..] => match words {
            [token] => Ok(Test::IsSet(variable(cx, token))),
            // Three words and never more: a value with spaces must be quoted.
            [token, operator, value] => {
                let var = variable(cx, token);
                comparison(cx, var, operator, value)
            }
            _ => Err(invalid(first)),
        },
        [b'-', kind] => file(cx, words, *kind, false),
        [b'!', b'-', kind] => file(cx, words, *kind, true),
        _ => Err(invalid(first)),
    }
}

/// The whole rest of the word is the name, as in nginx.
fn variable(cx: &mut Cx<'_, '_>, token: &Token) -> VarId {
    cx.global.vars.refer(&String::from_utf8_lossy(&token.bytes()[1..]), Some(token.span))
}

fn comparison(cx: &mut Cx<'_, '_>, var: VarId, operator: &Token, value: &Token) -> Result<Test, Diag> {
    let (negate, base) = match operator.bytes() {
        [b'!', base @ ..] => (true, base),
        base => (false, base),
    };
    match base {
        // Compared as bytes, in their case.
        b"=" => Ok(Test::Equal { var, value: Arc::new(cx.template(value)?), negate }),
        b"~" | b"~*" => {
            let regex = cx.regex(value, value.bytes(), base == b"~*")?;
            Ok(Test::Match { var, regex: Arc::new(regex), negate })
        }
        _ => Err(Diag::emerg(operator.span, format!("unexpected \"{}\" in condition", operator.text()))
            .help("the operators are =, !=, ~, ~*, !~ and !~*")),
    }
}

fn file(cx: &mut Cx<'_, '_>, words: &[Token], kind: u8, negate: bool) -> Result<Test, Diag> {
    let [operator, path] = words else { return Err(invalid(&words[0])) };
    let kind = match kind {
        b'f' => FileKind::Plain,
        b'd' => FileKind::Directory,
        b'e' => FileKind::Any,
        b'x' => FileKind::Executable,
        _ => return Err(invalid(operator)),
    };
    Ok(Test::File { kind, path: Arc::new(cx.template(path)?), negate })
}
