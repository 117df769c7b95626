//! `ngx_http_rewrite_module`: a small script per server and location that changes the URI, sets variables and answers.
//!
//! Directives become [`Item`]s in the order in which they are written. The block of an `if` is resolved later, as a
//! location of its own, and hands its items to the block around it. When that is complete, the items are laid out as
//! one list of [`Op`]s with forward jumps. A script is not inherited: each block has its own.

mod compile;
mod condition;
mod script;

use brisk_conf::{Arity, Context, Default as D, Diag, Span};
use brisk_server::conf::{Cx, LocationId};
use brisk_server::core::CoreConf;
use brisk_server::module::{Module, ModuleConf, Row, Set};
use brisk_server::plan::Plan;
use brisk_server::row;
use script::{Op, Script, Test};
use std::sync::{Arc, OnceLock};

pub static MODULE: Module = Module {
    name: "rewrite",
    rows: ROWS,
    conf: || Arc::new(Conf::default()),
    finish: Some(finish),
    install: Some(install),
    ..Module::EMPTY
};

const SERVER_LOCATION: Context = Context::SERVER.or(Context::LOCATION);
const SCRIPT: Context = SERVER_LOCATION.or(Context::SERVER_IF).or(Context::LOCATION_IF);

static ROWS: &[Row] = &[
    row!(
        "rewrite",
        SCRIPT,
        Arity::between(2, 3),
        D::Nothing,
        No,
        true,
        "Replaces the URI where it matches a regular expression: last finds a new location, break stays, redirect (302) and permanent (301) tell the client. A final ? drops the request's own arguments.",
        Set::Simple(compile::rewrite)
    ),
    row!(
        "return",
        SCRIPT,
        Arity::between(1, 2),
        D::Nothing,
        No,
        true,
        "Answers with a status and a text, or with a redirect to a URL. 444 closes the connection without an answer.",
        Set::Simple(compile::answer)
    ),
    row!(
        "set",
        SCRIPT,
        Arity::TWO,
        D::Nothing,
        No,
        true,
        "Gives a variable a value, which may contain other variables.",
        Set::Simple(compile::set)
    ),
    row!(
        "if",
        SERVER_LOCATION,
        Arity::SOME.block(),
        D::Nothing,
        No,
        true,
        "Runs its block's rewrite directives, and in a location applies its other directives, if a condition holds: a variable, =, !=, ~, ~*, !~, !~*, -f, -d, -e, -x and their negations.",
        Set::Both(condition::open, condition::fill)
    ),
    row!(
        "break",
        SCRIPT,
        Arity::NONE,
        D::Nothing,
        No,
        true,
        "Ends the script and keeps the location.",
        Set::Simple(compile::stop)
    ),
    row!(
        "rewrite_log",
        Context::HTTP.or(SCRIPT),
        Arity::ONE,
        D::Value("off"),
        Replace,
        false,
        "Writes what rewrite directives do to the error log at level notice.",
        Set::Simple(|cx, d| {
            cx.conf::<Conf>().log = brisk_conf::value::flag("rewrite_log", d.arg(0))?;
            Ok(())
        })
    ),
    row!(
        "uninitialized_variable_warn",
        Context::HTTP.or(SCRIPT),
        Arity::ONE,
        D::Value("on"),
        Replace,
        false,
        "Warns in the error log when a variable is read that set has not assigned yet.",
        Set::Simple(|cx, d| {
            let warn = brisk_conf::value::flag("uninitialized_variable_warn", d.arg(0))?;
            cx.conf_of_mut::<CoreConf>().uninitialized_variable_warn = warn;
            Ok(())
        })
    ),
];

/// The module's configuration of one block.
#[derive(Clone, Default)]
struct Conf {
    items: Vec<Item>,
    /// In the block of an `if`: where its items go when the block is complete.
    handed_to: Option<Arc<OnceLock<Vec<Item>>>>,
    log: bool,
}

/// A directive in its place.
#[derive(Clone)]
enum Item {
    Op(Op),
    If {
        test: Test,
        /// Where the directive stands: by this its block finds it again.
        span: Span,
        body: Vec<Item>,
        /// The block as a location; `None` on server level, where a block holds nothing but script.
        location: Option<LocationId>,
    },
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }

    fn must_enter(&self, _: Context) -> bool {
        !self.items.is_empty() || self.handed_to.is_some()
    }

    fn enter(&mut self, _: Context) -> bool {
        self.items = Vec::new();
        self.handed_to = None;
        true
    }
}

/// What a request meets only after the rewrite phase, whose `return` answers it.
const AFTER_RETURN: &[&str] = &["deny", "auth_basic", "auth_jwt", "auth_request", "limit_req", "limit_conn"];

/// Warns of access rules that look as if they guarded the answer beside them.
fn finish(cx: &mut Cx<'_, '_>) -> Result<(), Diag> {
    let answers = cx.conf_of::<Conf>().items.iter().any(|item| match item {
        // A refusal needs no guard.
        Item::Op(Op::Return(answer)) => answer.status() < 400,
        _ => false,
    });
    if cx.block != Context::LOCATION || !answers {
        return Ok(());
    }
    let guards = cx.written.iter().filter(|rule| !rule.is_off && AFTER_RETURN.contains(&rule.name));
    if let Some(rule) = guards.min_by_key(|rule| rule.span.start) {
        let text = format!("\"{}\" does nothing beside \"return\": the answer comes first", rule.name);
        let diag = Diag::warn(rule.span, text).help(
            "\"return\" belongs to the rewrite phase, before access is checked; to have it checked, answer elsewhere:\n\
             try_files \"\" @answer; here, and location @answer { return …; }",
        );
        cx.warn(diag);
    }
    Ok(())
}

fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    let conf = cx.conf_of::<Conf>();
    if let Some(cell) = &conf.handed_to {
        // The cell was made for this block alone.
        let _ = cell.set(conf.items.clone());
    } else if !conf.items.is_empty() {
        let mut ops = Vec::new();
        lay_out(&conf.items, &mut ops);
        plan.rewrite = Some(Arc::new(Script { ops: ops.into(), log: conf.log }));
    }
}

/// Appends the items as ops: an `if` is a jump over its body.
fn lay_out(items: &[Item], ops: &mut Vec<Op>) {
    for item in items {
        match item {
            Item::Op(op) => ops.push(op.clone()),
            Item::If { test, body, location, .. } => {
                let at = ops.len();
                ops.push(Op::Unless { test: test.clone(), to: 0 });
                ops.extend(location.map(Op::Enter));
                lay_out(body, ops);
                let end = ops.len();
                if let Op::Unless { to, .. } = &mut ops[at] {
                    *to = end;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
