//! A thread with a configuration, for tests: nothing is listened on, and log lines go nowhere.

use crate::conf::{Environment, LogTarget, build};
use crate::live::Live;
use crate::log::LogFile;
use crate::module::Module;
use crate::shared::Shared;
use crate::table::Thread;
use brisk_conf::{NoFiles, SourceMap};
use brisk_net::Loop;
use std::rc::Rc;
use std::sync::Arc;

/// A thread that serves this configuration, made of these modules.
pub(crate) fn thread(modules: &'static [&'static Module], text: &str) -> Rc<Thread> {
    let _ = Loop::install().expect("an event loop");
    let env = Environment { error_log: "/dev/null".into(), ..Environment::nowhere() };
    let (mut sources, mut diags) = (SourceMap::default(), Vec::new());
    let file = sources.add("test.conf", text.as_bytes().to_vec());
    let tree = brisk_conf::parse(&mut sources, file, &NoFiles, &mut diags);
    let snap = build(modules, &env, &mut sources, &NoFiles, &tree, &mut diags);
    let snap = snap.unwrap_or_else(|| panic!("{diags:?}"));
    let open = |target: &LogTarget| Arc::new(LogFile::new(target.clone(), LogFile::open(target).unwrap()));
    let logs = snap.logs.iter().map(open).collect();
    let live = Live::new(Arc::new(snap), Arc::new(logs), 1);
    Thread::install(0, Arc::new(Shared::new(1, None).unwrap()), live)
}
