//! A handler that a directive without arguments gives to its own location: `empty_gif`, `flv`, `mp4`.

use brisk_conf::{Arity, Context, Diag, Directive};
use brisk_server::conf::Cx;
use brisk_server::directive::directive;
use brisk_server::module::{ModuleConf, Row};
use std::sync::Arc;

/// Whether a location has the handler, and what else its module is told. `T` is the module's own type, also without any settings:
/// it tells the modules' configurations apart.
#[derive(Clone, Default)]
pub struct OwnHandler<T> {
    /// The directive stands in this location itself.
    pub is_on: bool,
    pub settings: T,
}

impl<T: Clone + Send + Sync + 'static> ModuleConf for OwnHandler<T> {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }

    fn must_enter(&self, into: Context) -> bool {
        self.is_on && into == Context::LOCATION
    }

    /// An inner location has its own handler; `if` and `limit_except` blocks are still the same location.
    fn enter(&mut self, _: Context) -> bool {
        self.is_on = false;
        true
    }
}

/// The row of such a directive.
pub const fn row<T>(name: &'static str, doc: &'static str, example: &'static str) -> Row
where
    T: Clone + Default + Send + Sync + 'static,
{
    directive(name)
        .doc(doc)
        .in_(Context::LOCATION)
        .arity(Arity::NONE)
        .many()
        .not_inherited()
        .example(example)
        .set(switch_on::<T>)
}

fn switch_on<T>(cx: &mut Cx<'_, '_>, _: &Directive) -> Result<(), Diag>
where
    T: Clone + Default + Send + Sync + 'static,
{
    cx.conf::<OwnHandler<T>>().is_on = true;
    Ok(())
}
