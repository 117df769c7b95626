//! Help for the tests of modules: a configuration from text.

use brisk_conf::{Diag, NoFiles, SourceMap};
use brisk_server::conf::{Environment, Snapshot, build};
use brisk_server::module::Module;

/// Builds a configuration whose `http` block holds `text`. The error is the first message, without its place.
/// The whole of the modules, since a directive may belong to several.
pub fn http(text: &str) -> Result<Snapshot, String> {
    let (snap, diags) = build_with(crate::MODULES, text);
    snap.ok_or_else(|| diags.into_iter().find(Diag::is_error).map_or_else(String::new, |diag| diag.message))
}

/// As [`http`], with all messages and chosen modules.
pub fn build_with(modules: &[&'static Module], text: &str) -> (Option<Snapshot>, Vec<Diag>) {
    whole(modules, &format!("events {{}} http {{ {text} }}"))
}

/// A whole configuration and its messages.
pub fn config(text: &str) -> (Option<Snapshot>, Vec<String>) {
    let (snap, diags) = whole(crate::MODULES, text);
    (snap, diags.into_iter().map(|diag| diag.message).collect())
}

/// The messages about a whole configuration as a person sees them.
pub fn shown(text: &str) -> Vec<String> {
    let (_, diags, sources) = with_sources(crate::MODULES, text);
    diags.iter().map(|diag| diag.render(&sources)).collect()
}

/// The errors of a whole configuration.
pub fn errors(text: &str) -> Vec<String> {
    let (_, diags) = whole(crate::MODULES, text);
    diags.into_iter().filter(Diag::is_error).map(|diag| diag.message).collect()
}

fn whole(modules: &[&'static Module], text: &str) -> (Option<Snapshot>, Vec<Diag>) {
    let (snap, diags, _) = with_sources(modules, text);
    (snap, diags)
}

fn with_sources(modules: &[&'static Module], text: &str) -> (Option<Snapshot>, Vec<Diag>, SourceMap) {
    // (No files of the machine that runs the tests are read.)
    let env = Environment::nowhere();
    let mut sources = SourceMap::default();
    let mut diags = Vec::new();
    let file = sources.add("test.conf", text.as_bytes().to_vec());
    let tree = brisk_conf::parse(&mut sources, file, &NoFiles, &mut diags);
    // Leaked: modules are for ever in the server, and tests are short.
    let snap = build(modules.to_vec().leak(), &env, &mut sources, &NoFiles, &tree, &mut diags);
    (snap, diags, sources)
}

/// Asserts that an `http` block gives these messages, warnings included.
#[track_caller]
pub fn messages(text: &str, want: &[&str]) {
    let (_, diags) = build_with(crate::MODULES, text);
    assert_eq!(diags.into_iter().map(|diag| diag.message).collect::<Vec<_>>(), want, "{text}");
}

/// As [`messages`], for directives in a location.
#[track_caller]
pub fn messages_in_location(directives: &str, want: &[&str]) {
    messages(&format!("server {{ location / {{ {directives} }} }}"), want);
}

/// Asserts that each text is refused with its message.
pub fn refused(cases: &[(&str, &str)]) {
    for (text, want) in cases {
        match http(text) {
            Ok(_) => panic!("accepted: {text}"),
            Err(message) => assert_eq!(message, *want, "{text}"),
        }
    }
}

/// Asserts that each text is accepted.
pub fn accepted(cases: &[&str]) {
    for text in cases {
        if let Err(message) = http(text) {
            panic!("{message}: {text}");
        }
    }
}
