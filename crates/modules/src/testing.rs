//! Configurations from text, for tests of directives.

use crate::MODULES;
use brisk_conf::{NoFiles, SourceMap};
use brisk_server::conf::{Environment, Snapshot, build};

/// Builds a configuration; the messages are nginx's lines.
pub fn config(text: &str) -> (Option<Snapshot>, Vec<String>) {
    let env = Environment {
        prefix: "/srv/".into(),
        conf_prefix: "/srv/conf/".into(),
        error_log: "stderr".into(),
        hostname: "test".into(),
        test: true,
    };
    let mut sources = SourceMap::default();
    let file = sources.add("f", text.as_bytes().to_vec());
    let mut diags = Vec::new();
    let tree = brisk_conf::parse(&mut sources, file, &NoFiles, &mut diags);
    let snapshot = build(MODULES, &env, &mut sources, &NoFiles, &tree, &mut diags);
    (snapshot, diags.iter().map(|diag| diag.headline(&sources)).collect())
}

/// Checks the messages of directives that stand in a location; each is without level and place.
#[track_caller]
pub fn check_location(directives: &str, want: &[&str]) {
    let text = format!("events {{}} http {{ server {{ location / {{ {directives} }} }} }}");
    let (_, messages) = config(&text);
    let bare = |line: &String| {
        let line = line.split_once("] ").map_or(&**line, |(_, rest)| rest);
        line.rsplit_once(" in f:").map_or(line, |(message, _)| message).to_string()
    };
    assert_eq!(messages.iter().map(bare).collect::<Vec<_>>(), want, "{directives}");
}
