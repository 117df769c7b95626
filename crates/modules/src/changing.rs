//! A handler that shows the server's state, and may be allowed to change it with `write=on`: `api`, `dashboard`.

use brisk_conf::{Arity, Context, Diag, Directive, Risk};
use brisk_server::conf::{Cx, invalid_parameter, invalid_value};
use brisk_server::directive::directive;
use brisk_server::module::{ModuleConf, Row};
use std::sync::Arc;

/// Whether a location has the handler. `T` is the module's own type: it tells the modules' configurations apart.
#[derive(Clone, Default)]
pub struct Changing<T> {
    /// `Some`: the location is the handler's; whether it may change things.
    pub write: Option<bool>,
    _of: std::marker::PhantomData<T>,
}

impl<T: Clone + Send + Sync + 'static> ModuleConf for Changing<T> {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }

    fn must_enter(&self, _: Context) -> bool {
        self.write.is_some()
    }

    /// An inner location has its own handler; `if` and `limit_except` blocks are still the same location.
    fn enter(&mut self, into: Context) -> bool {
        if !Context::SAME_LOCATION.has(into) {
            self.write = None;
        }
        true
    }
}

/// The row of such a directive.
pub const fn row(
    name: &'static str,
    doc: &'static str,
    example: &'static str,
    set: fn(&mut Cx<'_, '_>, &Directive) -> Result<(), Diag>,
) -> Row {
    directive(name)
        .doc(doc)
        .in_(Context::LOCATION)
        .arity(Arity::between(0, 1))
        .takes("[write=on|off]")
        .not_inherited()
        .risk(Risk::Security)
        .example(example)
        .set(set)
}

/// Gives the location its handler.
pub fn set<T>(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag>
where
    T: Clone + Default + Send + Sync + 'static,
{
    let write = match d.args.first().map(|token| (token, token.str().split_once('='))) {
        None | Some((_, Some(("write", "off")))) => false,
        Some((_, Some(("write", "on")))) => true,
        Some((token, Some(("write", _)))) => return Err(invalid_value(d, token, "write=on or write=off")),
        Some((token, _)) => return Err(invalid_parameter(token)),
    };
    cx.conf::<Changing<T>>().write = Some(write);
    Ok(())
}
