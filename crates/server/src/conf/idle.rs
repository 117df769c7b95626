//! Whether the modules that say that they are idle by default are so: asked by builds with debug assertions, in every block.

use super::cx::{Cx, Global};
use crate::module::Module;
use crate::plan::Plan;

/// # Panics
/// If the check of a module that is idle here has done something.
pub(super) fn check_finish(cx: &mut Cx<'_, '_>) {
    each_idle(cx, |cx, index, module| {
        let Some(finish) = module.finish else { return };
        let before = amounts(cx.global);
        let is_ok = finish(cx).is_ok();
        let is_same = amounts(cx.global) == before && !cx.confs.is_awake(index);
        assert!(is_ok && is_same, "\"{}\" is not idle by default: its check does something", module.name);
    });
}

/// # Panics
/// If a module that is idle here installs something.
pub(super) fn check_install(cx: &mut Cx<'_, '_>) {
    each_idle(cx, |cx, _, module| {
        let Some(install) = module.install else { return };
        let mut plan = Plan::default();
        install(cx, &mut plan);
        assert!(plan.is_empty(), "\"{}\" is not idle by default: it installs something", module.name);
    });
}

fn each_idle(cx: &mut Cx<'_, '_>, work: impl Fn(&mut Cx<'_, '_>, usize, &'static Module)) {
    let modules = cx.global.modules;
    for (index, module) in modules.iter().enumerate() {
        if !cx.confs.is_awake(index) {
            cx.module = index;
            work(cx, index, module);
        }
    }
}

/// What a module's check might add to.
fn amounts(global: &Global<'_>) -> [usize; 17] {
    [
        global.diags.len(),
        global.locations.len(),
        global.listens.len(),
        global.logs.len(),
        global.folders.len(),
        global.temp_folders.len(),
        global.zones.len(),
        global.services.len(),
        global.data.len(),
        global.named.len(),
        global.read_later.len(),
        global.failed_tls.len(),
        usize::from(global.servers.last().is_some_and(|server| server.tls.is_some())),
        usize::from(global.reads_bodies),
        usize::from(global.records_requests),
        usize::from(global.measures_lag),
        usize::from(global.uses_raw_sockets),
    ]
}
