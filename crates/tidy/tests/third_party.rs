//! Rules about code of others that is changed here (third_party/README.md).
#![forbid(unsafe_code)]

use brisk_tidy::tree;

/// The version that the patch was made for.
const QUINN_PROTO: &str = "0.11.19";
/// Lines that may be added to the library.
const LINES_MAX: usize = 155;

#[test]
fn the_library_s_patch_is_small_and_applied() {
    let manifest = tree::read("third_party/quinn-proto/Cargo.toml");
    assert!(
        manifest.contains(&format!("version = \"{QUINN_PROTO}\"")),
        "another version: look whether it has what the patch adds, and drop the copy or renew the patch"
    );
    let patch = tree::read("third_party/quinn-proto/brisk.patch");
    let (mut source, mut added) = (String::new(), 0);
    for line in patch.lines() {
        if let Some(path) = line.strip_prefix("+++ b/") {
            source = tree::read(&format!("third_party/quinn-proto/{path}"));
        } else if let Some(text) = line.strip_prefix('+') {
            assert!(source.lines().any(|have| have == text), "not in the source: {text}");
            added += usize::from(!text.trim().is_empty());
        } else {
            assert!(!line.starts_with('-') || line.starts_with("--- "), "a line is taken away: {line}");
        }
    }
    assert!(added <= LINES_MAX, "{added} lines are added");
}
