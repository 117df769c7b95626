//! What a module keeps per block of the configuration.

use brisk_conf::Context;
use std::any::Any;
use std::sync::Arc;

/// A module's configuration in one block. Inner blocks start with a copy of the outer block's.
pub trait ModuleConf: Any + Send + Sync {
    /// A copy for an inner block.
    fn duplicate(&self) -> Arc<dyn ModuleConf>;

    /// Called on the copy that a block of kind `into` starts with: reset what is not inherited. Return false if
    /// nothing would change, and the copy is not made.
    fn enter(&mut self, into: Context) -> bool {
        let _ = into;
        false
    }

    /// Whether it holds what the main level says for every protocol. What does not begins anew in `stream`.
    fn is_for_all_protocols(&self) -> bool {
        false
    }

    /// True if [`enter`](ModuleConf::enter) would change something.
    fn must_enter(&self, into: Context) -> bool {
        let _ = into;
        false
    }
}
