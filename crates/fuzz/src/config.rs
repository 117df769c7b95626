//! Whole configurations: from text to a snapshot, through every setter of every module.

use brisk_conf::{NoFiles, SourceMap};
use brisk_modules::MODULES;
use brisk_server::conf::{Environment, build};

/// Any bytes: building ends and never panics; there is a configuration or an error, and every message can be shown.
pub fn fuzz_config(data: &[u8]) {
    let env = Environment::nowhere();
    let mut sources = SourceMap::default();
    let mut diags = Vec::new();
    let file = sources.add("fuzz.conf", data.to_vec());
    let tree = brisk_conf::parse(&mut sources, file, &NoFiles, &mut diags);
    let snapshot = build(MODULES, &env, &mut sources, &NoFiles, &tree, &mut diags);
    let refused = diags.iter().any(brisk_conf::Diag::is_error);
    assert!(snapshot.is_some() || refused, "refused without a reason");
    for diag in &diags {
        assert!(!diag.render(&sources).is_empty());
    }
}
