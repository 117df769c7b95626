//! `ngx_http_rewrite_module`: a small script per server and location that changes the URI, sets variables and answers.
//!
//! Directives become [`Item`]s in the order in which they are written. The block of an `if` is resolved later, as a
//! location of its own, and hands its items to the block around it. When that is complete, the items are laid out as
//! one list of [`Op`]s with forward jumps. A script is not inherited: each block has its own.

mod compile;
mod condition;
mod script;

use brisk_conf::{Arity, Context, Diag, Risk, Span};
use brisk_server::conf::{Cx, LocationId};
use brisk_server::core::CoreConf;
use brisk_server::directive::directive;
use brisk_server::module::{Module, ModuleConf, Row};
use brisk_server::plan::Plan;
use script::{Op, Script, Test};
use std::sync::{Arc, OnceLock};

/// The module's name.
const NAME: &str = "rewrite";

pub static MODULE: Module = Module {
    name: NAME,
    rows: ROWS,
    conf: || Arc::new(Conf::default()),
    finish: Some(finish),
    install: Some(install),
    idle_by_default: true,
    ..Module::EMPTY
};

const SERVER_LOCATION: Context = Context::SERVER.or(Context::LOCATION);
const SCRIPT: Context = SERVER_LOCATION.or(Context::SERVER_IF).or(Context::LOCATION_IF);

static ROWS: &[Row] = &[
    directive("rewrite")
        .doc("Replaces the URI where it matches a regular expression: last finds a new location, break stays, redirect (302) and permanent (301) tell the client. A final ? drops the request's own arguments.")
        .in_(SCRIPT)
        .arity(Arity::between(2, 3))
        .takes("REGEX URI [last | break | redirect | permanent]")
        .many()
        .not_inherited()
        .example("rewrite ^/old/(.*)$ /new/$1 permanent;")
        .set(compile::rewrite),
    // Not inherited, and of the rewrite phase: access is not asked before (`finish` warns of rules that look as if it were).
    directive("return")
        .doc("Answers with a status and a text, or with a redirect to a URL. 444 closes the connection without an answer.")
        .in_(SCRIPT)
        .arity(Arity::between(1, 2))
        .takes("CODE [TEXT | URL] | URL")
        .many()
        .not_inherited()
        .example("return 301 https://$host$request_uri;")
        .set(compile::answer),
    // Any variable that no module owns becomes one of `set` by this; it is empty in locations that do not run it.
    directive("set")
        .doc("Gives a variable a value, which may contain other variables.")
        .in_(SCRIPT)
        .arity(Arity::TWO)
        .takes("$VARIABLE VALUE")
        .many()
        .not_inherited()
        .example("set $backend app1;")
        .set(compile::set),
    // A block that is a location of its own: nginx's design, with its surprises, which configurations rely on.
    directive("if")
        .doc("Runs its block's rewrite directives, and in a location applies its other directives, if a condition holds: a variable, =, !=, ~, ~*, !~, !~*, -f, -d, -e, -x and their negations.")
        .in_(SERVER_LOCATION)
        .arity(Arity::SOME.block())
        .takes("(CONDITION)")
        .many()
        .not_inherited()
        .example("if ($request_method = POST) { return 405; }")
        .set_and_block(condition::open, condition::fill),
    directive("break")
        .doc("Ends the script and keeps the location.")
        .in_(SCRIPT)
        .arity(Arity::NONE)
        .many()
        .not_inherited()
        .example("break;")
        .set(compile::stop),
    // At level notice, so `error_log` must let that through.
    directive("rewrite_log")
        .doc("Writes what rewrite directives do to the error log at level notice.")
        .in_(Context::HTTP.or(SCRIPT))
        .takes_flag()
        .default("off")
        .risk(Risk::Safe)
        .example("rewrite_log on;")
        .sets(|cx, on| cx.conf::<Conf>().log = on),
    directive("uninitialized_variable_warn")
        .doc("Warns in the error log when a variable is read that set has not assigned yet.")
        .in_(Context::HTTP.or(SCRIPT))
        .takes_flag()
        .default("on")
        .risk(Risk::Safe)
        .example("uninitialized_variable_warn off;")
        // In the core's configuration, since variables are read there.
        .sets(|cx, warn| cx.conf_of_mut::<CoreConf>().uninitialized_variable_warn = warn),
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
    Op(Op, Span),
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
        // An inner block of an `if` hands its items to its own `if`.
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
        Item::Op(Op::Return(answer), _) => answer.status() < 400,
        _ => false,
    });
    // A warning only: nginx accepts it, and the order of phases is documented.
    if cx.block != Context::LOCATION || !answers {
        return Ok(());
    }
    // By what is written in this very block: rules that are inherited may be meant for others.
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
        // A flat list with jumps: a request runs it without recursion.
        lay_out(&conf.items, &mut ops);
        let (ops, spans): (Vec<Op>, Vec<Span>) = ops.into_iter().unzip();
        plan.rewrite = Some(Arc::new(Script { ops: ops.into(), spans: spans.into(), log: conf.log }));
    }
}

/// Appends the items as ops: an `if` is a jump over its body.
fn lay_out(items: &[Item], ops: &mut Vec<(Op, Span)>) {
    for item in items {
        match item {
            Item::Op(op, span) => ops.push((op.clone(), *span)),
            Item::If { test, body, location, span } => {
                let at = ops.len();
                ops.push((Op::Unless { test: test.clone(), to: 0 }, *span));
                // Entered before its own items run: they are to see the block's configuration.
                ops.extend(location.map(|id| (Op::Enter(id), *span)));
                // The body stands behind its test, so jumps only lead forwards: a script ends after as many
                // steps as it has.
                lay_out(body, ops);
                let end = ops.len();
                if let Op::Unless { to, .. } = &mut ops[at].0 {
                    *to = end;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
