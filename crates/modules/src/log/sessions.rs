//! The access log of `stream`.

use super::{Conf, Target};
use crate::log::target::To;
use brisk_host::log::ErrorLogs;
use brisk_server::conf::Cx;
use brisk_server::log::{NamedCache, NamedLine};
use brisk_stream::Session;
use brisk_stream::conf::AccessLog;
use std::sync::Arc;

struct SessionLog {
    target: Target,
    cache: Option<Arc<NamedCache>>,
}

/// The access logs of the present block.
pub fn of_sessions(cx: &Cx<'_, '_>) -> Vec<Arc<dyn AccessLog>> {
    let conf = cx.conf_of::<Conf>();
    let one = |target: &Target| -> Arc<dyn AccessLog> {
        Arc::new(SessionLog { target: target.clone(), cache: conf.cache.clone() })
    };
    conf.logs.iter().flat_map(|logs| logs.iter()).map(one).collect()
}

impl AccessLog for SessionLog {
    fn log(&self, session: &Session) {
        let Target { to, format, condition } = &self.target;
        if condition.as_ref().is_some_and(|condition| !condition.holds(session)) {
            return;
        }
        match to {
            To::Log { log, buffering } => {
                let log = &session.live.logs[log.0 as usize];
                session.origin.thread.logs.append(log, buffering.as_ref(), |out| format.line(session, out));
            }
            To::Named(name) => {
                let mut line = Vec::new();
                format.line(session, &mut line);
                let errors = || ErrorLogs::new(&session.server().error_log, &session.live.logs);
                if let Some(path) = name.name(session) {
                    let line = NamedLine { path: &path, text: &line, needs: None };
                    name.append(session, &session.origin.thread.logs, self.cache.as_deref(), line, errors);
                }
            }
        }
    }
}
