//! Rules about source files: heads, sizes, `unsafe`, unfinished marks.
#![forbid(unsafe_code)]

use brisk_tidy::source;
use brisk_tidy::tree::{self, File};

/// The files that may say `unsafe`: one wraps the system calls, the other AWS-LC's functions for certificates.
const UNSAFE: [&str; 2] = ["crates/net/src/sys.rs", "crates/x509/src/sys.rs"];

const FILE_LINES_MAX: usize = 700;

const FUNCTION_LINES_MAX: usize = 70;

/// Longer functions, with the reason.
const LONG_FUNCTIONS: &[(&str, &str, &str)] =
    &[("crates/server/src/core/http_conf.rs", "default", "a table: a line per directive's field")];

/// Marks of what is not finished. In two halves, so that this file has none.
const MARKS: &[(&str, &str)] =
    &[("TO", "DO"), ("FIX", "ME"), ("XX", "X"), ("tod", "o!("), ("unimpl", "emented!("), ("#[ig", "nore")];

fn rust() -> Vec<File> {
    tree::files_with(".rs")
}

/// The files where a crate begins. libFuzzer's macro exports a symbol, which `forbid` counts as unsafe.
fn is_crate_root(path: &str) -> bool {
    if path == "fuzz/src/main.rs" {
        return false;
    }
    ["src/lib.rs", "src/main.rs"].iter().any(|end| path.ends_with(end)) || path.contains("/src/bin/")
}

#[test]
fn every_file_says_what_it_is_for() {
    for file in rust() {
        assert!(file.text.starts_with("//! "), "{}: no //! line at its head", file.path);
    }
}

#[test]
fn unsafe_is_in_two_files() {
    for file in rust().iter().filter(|file| !UNSAFE.contains(&file.path.as_str())) {
        let code = source::code(&file.text);
        let words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
        assert!(
            !words.into_iter().any(|word| word == "unsafe"),
            "{}: unsafe belongs in {UNSAFE:?}",
            file.path
        );
    }
}

#[test]
fn every_other_crate_forbids_it() {
    let forbids = |file: &File| file.text.contains("#![forbid(unsafe_code)]");
    for file in rust().iter().filter(|file| is_crate_root(&file.path)) {
        let holds_the_file = UNSAFE.iter().any(|path| path.replace("sys.rs", "lib.rs") == file.path);
        assert_ne!(forbids(file), holds_the_file, "{}: #![forbid(unsafe_code)] expected", file.path);
    }
}

#[test]
fn each_unsafe_block_has_its_reason() {
    for path in UNSAFE {
        let text = tree::read(path);
        let code = source::code(&text);
        let lines: Vec<&str> = text.lines().collect();
        for (index, line) in code.lines().enumerate().filter(|(_, line)| line.contains("unsafe {")) {
            let before = &lines[index.saturating_sub(6)..=index];
            let has_reason = before.iter().any(|line| line.contains("SAFETY"));
            assert!(has_reason, "{path}:{}: {line}: no SAFETY", index + 1);
        }
    }
}

#[test]
fn files_are_short() {
    let long: Vec<_> =
        rust().into_iter().filter(|f| f.text.lines().count() > FILE_LINES_MAX).map(|f| f.path).collect();
    assert!(long.is_empty(), "over {FILE_LINES_MAX} lines: cut them by concern: {long:?}");
}

#[test]
fn functions_are_short() {
    let mut long = Vec::new();
    for file in rust() {
        let functions = source::functions(&source::code(&file.text));
        let over = functions.into_iter().filter(|function| function.lines > FUNCTION_LINES_MAX);
        long.extend(
            over.map(|function| format!("{} {} ({} lines)", file.path, function.name, function.lines)),
        );
    }
    let is_listed = |entry: &String| {
        LONG_FUNCTIONS.iter().any(|(path, name, _)| entry.starts_with(&format!("{path} {name} ")))
    };
    let stray: Vec<_> = long.iter().filter(|entry| !is_listed(entry)).collect();
    assert!(stray.is_empty(), "over {FUNCTION_LINES_MAX} lines: split, or list with the reason: {stray:#?}");
    assert_eq!(
        long.len(),
        LONG_FUNCTIONS.len(),
        "LONG_FUNCTIONS names functions that are short by now: {long:#?}"
    );
}

#[test]
fn nothing_is_left_unfinished() {
    const ENDS: &[&str] = &[".rs", ".md", ".sh", ".toml", ".conf", ".py", "Makefile", ".ci/run"];
    for file in tree::files().iter().filter(|file| ENDS.iter().any(|end| file.path.ends_with(end))) {
        for (index, line) in file.text.lines().enumerate() {
            let mark = MARKS.iter().map(|(a, b)| format!("{a}{b}")).find(|mark| line.contains(mark.as_str()));
            assert!(mark.is_none(), "{}:{}: {line}", file.path, index + 1);
        }
    }
}
