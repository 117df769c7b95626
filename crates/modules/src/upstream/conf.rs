//! The blocks that have been read so far, and what a location says of its group.

use super::draft::Draft;
use super::health::check::Check;
use super::health::session::SessionCheck;
use brisk_conf::Context;
use brisk_server::conf::Cx;
use brisk_server::module::ModuleConf;
use std::sync::Arc;
use std::time::Duration;

/// See the module's head.
#[derive(Clone)]
pub(super) struct Conf {
    /// The last one is the one that is being read.
    pub drafts: Vec<Draft>,
    /// Of this location alone.
    pub check: Option<Arc<Check>>,
    /// Of this server of `stream` alone.
    pub session_check: Option<Arc<SessionCheck>>,
    /// `health_check_timeout`.
    pub session_check_timeout: Duration,
}

impl Default for Conf {
    fn default() -> Conf {
        let session_check_timeout = Duration::from_secs(5);
        Conf { drafts: Vec::new(), check: None, session_check: None, session_check_timeout }
    }
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }

    fn must_enter(&self, into: Context) -> bool {
        // Groups have been made of the drafts by then: servers need not carry copies of them.
        Context::SERVER.has(into) && !self.drafts.is_empty() || self.check.is_some()
    }

    fn enter(&mut self, _: Context) -> bool {
        self.drafts.clear();
        self.check = None;
        true
    }
}

/// The block that is being read.
pub(super) fn draft<'c>(cx: &'c mut Cx<'_, '_>) -> &'c mut Draft {
    cx.conf::<Conf>().drafts.last_mut().expect("these directives stand in an upstream block")
}
