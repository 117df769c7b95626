//! What a module is: rows of directives, variables, a piece of configuration per block, and what it installs.
//!
//! Modules know this crate; this crate names no module. The list of modules is handed to
//! [`build`](crate::conf::build()) by the program.

use crate::conf::cx::Cx;
use crate::metrics::Scrape;
use crate::plan::Plan;
use crate::vars::Variable;
use brisk_conf::{Diag, Directive, value};
pub use brisk_host::module::ModuleConf;
use brisk_host::snapshot::Part;
use brisk_host::thread::Thread;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// What carries a directive out.
///
/// A block's simple directives are all carried out before its inner blocks are entered, so that an inner block
/// inherits whatever its parent says, wherever it says it.
#[derive(Clone, Copy)]
/// The setter's type tells what was checked before it is called: a flag is a flag, a number lies within the
/// row's range.
pub enum Set {
    /// A directive that is `on` or `off`.
    Flag(fn(&mut Cx<'_, '_>, bool)),
    /// A directive whose value is a number, a size or a time in seconds.
    Number(fn(&mut Cx<'_, '_>, u64)),
    /// A directive whose value is a number that may be negative.
    Signed(fn(&mut Cx<'_, '_>, i64)),
    /// A directive whose value is a time in milliseconds.
    Time(fn(&mut Cx<'_, '_>, Duration)),
    /// A directive without a block, or whose block is data (`map`, `types`).
    Simple(fn(&mut Cx<'_, '_>, &Directive) -> Result<(), Diag>),
    /// A directive whose block holds directives.
    Block(fn(&mut Cx<'_, '_>, &Directive) -> Result<(), Diag>),
    /// First in its place among the simple ones, then as a block (`if`).
    Both(
        fn(&mut Cx<'_, '_>, &Directive) -> Result<(), Diag>,
        fn(&mut Cx<'_, '_>, &Directive) -> Result<(), Diag>,
    ),
    /// Accepted for compatibility: does nothing here, and `-t` says why.
    Ignored(&'static str),
}

impl Set {
    /// Checks the parameter's type and range, and carries out what belongs in its place among the simple directives.
    /// Nothing for what is only a block or ignored.
    pub(crate) fn run(self, row: &Row, cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
        if matches!(self, Set::Block(_) | Set::Ignored(_)) {
            // They are carried out at the end of the block, or not at all.
            return Ok(());
        }
        // Type and range first: setters take what they get.
        row.takes.check(d)?;
        match self {
            Set::Flag(set) => set(cx, value::flag(d.name(), d.arg(0))?),
            Set::Number(set) => set(cx, row.takes.number(d.arg(0))?),
            Set::Signed(set) => set(cx, value::signed(d.arg(0))?),
            Set::Time(set) => set(cx, value::msec(d.arg(0))?),
            Set::Simple(set) | Set::Both(set, _) => set(cx, d)?,
            Set::Block(_) | Set::Ignored(_) => {}
        }
        Ok(())
    }
}

/// A directive's row.
pub type Row = brisk_conf::Row<Set>;

/// How many rows several tables have.
/// In a `const fn` there is no iterator, so the loops are written out.
pub const fn rows_in(tables: &[&[Row]]) -> usize {
    let (mut count, mut table) = (0, 0);
    while table < tables.len() {
        count += tables[table].len();
        table += 1;
    }
    count
}

/// The rows of several tables as one, for a module whose directives are in several files. `N` is [`rows_in`] them.
pub const fn joined<const N: usize>(tables: &[&[Row]]) -> [Row; N] {
    let mut all = [tables[0][0]; N];
    let (mut count, mut table) = (0, 0);
    while table < tables.len() {
        let mut row = 0;
        while row < tables[table].len() {
            all[count] = tables[table][row];
            count += 1;
            row += 1;
        }
        table += 1;
    }
    // A table that is joined wrongly does not compile.
    assert!(count == N);
    all
}

/// Works on one block while the configuration is built.
pub type BlockHook = fn(&mut Cx<'_, '_>) -> Result<(), Diag>;

/// A protocol beside HTTP.
pub struct Beside {
    /// Its part of a configuration, while that is built.
    pub part: fn() -> Box<dyn Part>,
    /// Makes a thread able to serve it.
    pub install: fn(&Rc<Thread>),
}

/// One module.
pub struct Module {
    /// As in nginx's documentation, without `ngx_http_` and `_module`.
    pub name: &'static str,
    /// Its directives.
    pub rows: &'static [Row],
    /// Its variables.
    pub variables: &'static [Variable],
    /// The configuration before any directive, defaults of rows not yet applied.
    pub conf: fn() -> Arc<dyn ModuleConf>,
    /// Runs when a block's simple directives are done: checks that concern several of them.
    /// In the order of the list, for every block, also where none of the module's directives stands.
    pub finish: Option<BlockHook>,
    /// Puts handlers and filters into a location's plan, if the module is configured there.
    /// A handler that is not installed costs nothing per request.
    pub install: Option<fn(&Cx<'_, '_>, &mut Plan)>,
    /// With the configuration that its rows' defaults make, `finish` and `install` do nothing, and so they are not called, in most blocks of
    /// most configurations. A build with debug assertions calls them all the same, and stops where that is not true.
    pub idle_by_default: bool,
    /// The protocol that the module speaks, if that is not HTTP.
    pub beside: Option<&'static Beside>,
    /// Tells the module's numbers to somebody who reads them, away from the event loops.
    pub metrics: Option<fn(&mut Scrape)>,
}

/// The modules of a program, core modules first.
pub type Modules = &'static [&'static Module];

/// For modules without configuration of their own.
#[derive(Clone)]
pub struct NoConf;

impl ModuleConf for NoConf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(NoConf)
    }
}

impl Module {
    /// A module that has nothing yet; for struct update syntax in statics.
    pub const EMPTY: Module = Module {
        name: "",
        rows: &[],
        variables: &[],
        conf: || Arc::new(NoConf),
        finish: None,
        install: None,
        idle_by_default: false,
        beside: None,
        metrics: None,
    };
}
