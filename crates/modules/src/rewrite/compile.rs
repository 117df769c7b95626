//! The setters of `rewrite`, `return`, `set` and `break`.

use super::script::{Answer, Op, Rewrite, Target, Then};
use super::{Conf, Item};
use crate::computed::{taken, variable_name};
use brisk_conf::{Diag, Directive, Token};
use brisk_server::conf::Cx;
use brisk_server::vars::Template;
use std::sync::Arc;

fn push(cx: &mut Cx<'_, '_>, d: &Directive, op: Op) {
    cx.conf::<Conf>().items.push(Item::Op(op, d.span));
}

/// Replacements and return values that begin like this are redirects.
fn is_url(text: &[u8]) -> bool {
    [&b"http://"[..], b"https://", b"$scheme"].iter().any(|start| text.starts_with(start))
}

pub fn rewrite(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let (pattern, token) = (d.arg(0), d.arg(1));
    if token.bytes().is_empty() {
        return Err(
            Diag::emerg(token.span, "empty replacement").help("write the new URI, for example /index.html")
        );
    }
    let regex = Arc::new(cx.regex(pattern, pattern.bytes(), false)?);
    // A final "?" drops the request's own arguments.
    let (text, keeps_args) = match token.bytes() {
        [text @ .., b'?'] => (text, false),
        text => (text, true),
    };
    // nginx's rule by the beginning of the text: `$scheme` is the only variable that counts.
    let mut redirect = is_url(text).then_some(302);
    // A URL ends the script even without a flag, as in nginx.
    let mut then = if redirect.is_some() { Then::End } else { Then::GoOn };
    if let Some(flag) = d.args.get(2) {
        then = Then::End;
        match flag.bytes() {
            b"last" => {}
            // No location is searched for again: the request stays in this one with its new URI.
            b"break" => then = Then::Stay,
            b"redirect" => redirect = Some(302),
            b"permanent" => redirect = Some(301),
            _ => {
                return Err(Diag::emerg(flag.span, format!("invalid parameter \"{}\"", flag.text()))
                    .help("the flags are last, break, redirect and permanent"));
            }
        }
    }
    let target = match redirect {
        Some(status) => Target::Redirect {
            status,
            url: Template::parse_bytes(&mut cx.global.vars, text, token)?,
            // By what is written: whether arguments are added with `?` or `&`.
            has_args: text.contains(&b'?'),
        },
        None => uri(cx, text, token)?,
    };
    push(cx, d, Op::Rewrite(Arc::new(Rewrite { regex, target, keeps_args, then })));
    Ok(())
}

/// A replacement inside the server: the first "?" begins the arguments.
fn uri(cx: &mut Cx<'_, '_>, text: &[u8], token: &Token) -> Result<Target, Diag> {
    let vars = &mut cx.global.vars;
    let (path, args) = match memchr::memchr(b'?', text) {
        Some(at) => (&text[..at], Some(Template::parse_bytes(vars, &text[at + 1..], token)?)),
        None => (text, None),
    };
    Ok(Target::Uri { path: Template::parse_bytes(vars, path, token)?, args })
}

/// `return CODE`, `return CODE text`, `return URL`.
pub fn answer(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let code = d.arg(0);
    // `parse` would take a sign.
    let is_number = !code.bytes().is_empty() && code.bytes().iter().all(u8::is_ascii_digit);
    let (status, text) = match code.str().parse::<u16>() {
        Ok(status @ 0..=999) if is_number => (status, d.args.get(1)),
        _ if d.args.len() == 1 && is_url(code.bytes()) => (302, Some(code)),
        _ => {
            return Err(Diag::emerg(code.span, format!("invalid return code \"{}\"", code.text())).help(
                "write a status from 0 to 999, or a URL that begins with http://, https:// or $scheme",
            ));
        }
    };
    // A code without a text has the built-in page; an empty template stands for that.
    let text = text.map(|token| cx.template(token)).transpose()?.unwrap_or_default();
    push(cx, d, Op::Return(Arc::new(Answer::new(status, text))));
    Ok(())
}

pub fn set(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let name = match variable_name(d.arg(0)) {
        Ok(name) => name,
        Err(diag) => {
            // It is used as it was meant: that is no second error.
            cx.global.vars.define_assigned(d.arg(0).str());
            return Err(diag);
        }
    };
    // A name that a module owns cannot be assigned: its readers would not see the value.
    let var = cx.global.vars.define_assigned(name).ok_or_else(|| taken(d.arg(0), name))?;
    let value = cx.template(d.arg(1))?;
    cx.global.vars.note_assigned(var, &value);
    push(cx, d, Op::Set { var, value: Arc::new(value) });
    Ok(())
}

/// `break`.
pub fn stop(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    push(cx, d, Op::Break);
    Ok(())
}
