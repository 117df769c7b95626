//! What `map`, `geo`, `split_clients` and `set` share: the variable that they define.

use brisk_conf::{Diag, Directive, Token};
use brisk_server::conf::Cx;
use brisk_server::request::Request;
use brisk_server::vars::{Eval, VarId};
use brisk_stream::Session;
use std::sync::Arc;

/// The name in `$name`.
pub fn variable_name(token: &Token) -> Result<&str, Diag> {
    // A name is text: it is shown in messages and in lists.
    let name = token.bytes().strip_prefix(b"$").and_then(|name| std::str::from_utf8(name).ok());
    name.filter(|name| !name.is_empty()).ok_or_else(|| {
        Diag::emerg(token.span, format!("invalid variable name \"{}\"", token.text()))
            .help("a variable's name begins with \"$\"")
    })
}

/// The error for a variable that cannot be defined.
pub fn taken(token: &Token, name: &str) -> Diag {
    Diag::emerg(token.span, format!("the duplicate \"{name}\" variable"))
        .help("this variable is built in and cannot be changed; choose another name")
}

/// Defines the variable that `token` names, for sessions in `stream` and for requests elsewhere.
pub fn define<E: Eval<Request> + Eval<Session> + 'static>(
    cx: &mut Cx<'_, '_>,
    token: &Token,
    eval: Arc<E>,
    volatile: bool,
) -> Result<VarId, Diag> {
    // By where it is written: in `stream` there is no request.
    if crate::stream::part::is_in_stream(cx.block) {
        let name = variable_name(token)?;
        return crate::stream::part::define(cx, name, eval, volatile).ok_or_else(|| taken(token, name));
    }
    define_of_request(cx, token, eval, volatile)
}

/// The same for requests alone.
pub fn define_of_request(
    cx: &mut Cx<'_, '_>,
    token: &Token,
    eval: Arc<dyn Eval<Request>>,
    volatile: bool,
) -> Result<VarId, Diag> {
    let name = variable_name(token)?;
    cx.global.vars.define_eval(name, eval, volatile).ok_or_else(|| taken(token, name))
}

/// The lines of a block that is data. Lines that open a block of their own are refused.
pub fn lines<'d>(cx: &mut Cx<'_, '_>, d: &'d Directive) -> impl Iterator<Item = &'d Directive> + use<'d> {
    let block = d.block.as_deref().unwrap_or_default();
    // Told, not refused at once: all such lines are shown together.
    for line in block.iter().filter(|line| line.block.is_some()) {
        cx.warn(Diag::emerg(line.span, "unexpected \"{\"").help("a \";\" is expected here"));
    }
    block.iter().filter(|line| line.block.is_none())
}
