//! Rules that make sentences of ARCHITECTURE.md and CONTRIBUTING.md true: where limits are, import circles, blocks that
//! stand twice, words that do not come back. Lists of exceptions can only shrink.
#![forbid(unsafe_code)]

use brisk_tidy::imports::Graph;
use brisk_tidy::source;
use brisk_tidy::tree::{self, File};
use std::collections::{BTreeMap, HashMap};

/// The most files that may form a circle of imports.
const CIRCLE_FILES_MAX: usize = 4;

/// From so many equal lines of code on, two places are one.
const EQUAL_LINES_MIN: usize = 12;

/// Files that still share that much, and why.
const SHARED_BLOCKS: &[(&str, &str, &str)] = &[(
    "crates/tls/src/client.rs",
    "crates/tls/src/server.rs",
    "two traits of the library with the same methods",
)];

/// Words that were given up, in two halves so that this file has none, and what is written in their place.
const RETIRED: &[(&str, &str, &str)] = &[
    ("IPv6 clo", "thes", "an IPv4-mapped IPv6 address (RFC 4291 §2.5.5.2)"),
    ("is owed m", "ost", "has the highest current weight"),
    ("guess for nob", "ody", "name who must not guess it"),
    ("settings_r", "ow!", "directive(…) (crates/server/src/directive.rs)"),
    ("usage.", "tsv", "the row's takes and example"),
];

fn crates() -> Vec<String> {
    let files = tree::files();
    let mut names: Vec<String> = files
        .iter()
        .filter_map(|file| file.path.strip_prefix("crates/")?.split_once("/src/"))
        .map(|(name, _)| name.to_string())
        .collect();
    names.dedup();
    names
}

#[test]
fn no_circle_of_imports_is_large() {
    let files = tree::files_with(".rs");
    let mut wrong = Vec::new();
    for name in crates() {
        let circles = Graph::of(&files, &format!("crates/{name}/src/")).circles();
        let large: Vec<_> = circles.into_iter().filter(|circle| circle.len() > CIRCLE_FILES_MAX).collect();
        if !large.is_empty() {
            wrong.push(format!("{name}: {large:#?}"));
        }
    }
    assert!(wrong.is_empty(), "let imports point one way:\n{}", wrong.join("\n"));
}

/// The names of limits that are defined in this source.
fn limits(code: &str) -> Vec<&str> {
    let is_limit =
        |name: &str| name.len() > 3 && name.split('_').any(|word| matches!(word, "MAX" | "MIN" | "LIMIT"));
    let name = |line: &'_ str| -> Option<usize> { line.find("const ").map(|at| at + 6) };
    code.lines()
        .filter(|line| line.starts_with("const ") || line.starts_with("pub"))
        .filter_map(|line| line.get(name(line)?..)?.split(':').next())
        .filter(|name| is_limit(name))
        .collect()
}

#[test]
fn limits_are_in_one_file_per_crate() {
    let mut elsewhere: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in tree::files_with(".rs") {
        let Some((name, path)) = file.path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"))
        else {
            continue;
        };
        // Rules and tests have limits of their own.
        if path == "limits.rs"
            || path.contains("test")
            || path.ends_with("fuzz.rs")
            || matches!(name, "tidy" | "testkit" | "fuzz")
        {
            continue;
        }
        let tests = source::tests_of(&file.path, &file.text).len();
        let code = source::code(&file.text[..file.text.len() - tests]);
        let found = limits(&code).into_iter().map(|limit| format!("{path}: {limit}"));
        elsewhere.entry(name.to_string()).or_default().extend(found);
    }
    let mut wrong = Vec::new();
    for (name, found) in &elsewhere {
        if !found.is_empty() {
            wrong.push(format!("{name}: {found:#?}"));
        }
    }
    assert!(wrong.is_empty(), "limits belong in src/limits.rs of their crate:\n{}", wrong.join("\n"));
}

/// The lines of a file that say something, with their numbers: no blank ones, comments, imports or lone brackets.
fn telling(file: &File) -> Vec<(usize, &str)> {
    let is_telling = |line: &str| {
        !line.starts_with("//")
            && !line.starts_with("use ")
            && !line.starts_with("#[")
            && line.chars().any(char::is_alphanumeric)
    };
    let lines = file.text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    lines.filter(|(_, line)| is_telling(line)).collect()
}

#[test]
fn no_block_stands_twice() {
    let files: Vec<File> =
        tree::files_with(".rs").into_iter().filter(|file| file.path.starts_with("crates/")).collect();
    let lines: Vec<_> = files.iter().map(telling).collect();
    let mut first: HashMap<Vec<&str>, (usize, usize)> = HashMap::new();
    let mut shared: BTreeMap<(&str, &str), (usize, usize)> = BTreeMap::new();
    for (of, lines) in lines.iter().enumerate() {
        for window in lines.windows(EQUAL_LINES_MIN) {
            let block: Vec<&str> = window.iter().map(|(_, line)| *line).collect();
            let (other, at) = *first.entry(block).or_insert((of, window[0].0));
            if other != of {
                let pair = (&*files[other].path, &*files[of].path);
                shared.entry(pair).or_insert((at, window[0].0));
            }
        }
    }
    let is_listed = |a: &str, b: &str| SHARED_BLOCKS.iter().any(|(x, y, _)| (*x, *y) == (a, b));
    let stray: Vec<_> = shared
        .iter()
        .filter(|((a, b), _)| !is_listed(a, b))
        .map(|((a, b), (x, y))| format!("{a}:{x} ~ {b}:{y}"))
        .collect();
    assert!(
        stray.is_empty(),
        "{EQUAL_LINES_MIN} equal lines or more: one piece of code can serve: {stray:#?}"
    );
}

#[test]
fn retired_words_do_not_come_back() {
    for file in tree::files() {
        for (a, b, instead) in RETIRED {
            let word = format!("{a}{b}");
            let line = file.text.lines().position(|line| line.contains(&word));
            assert!(line.is_none(), "{}:{}: \"{word}\": {instead}", file.path, line.unwrap_or(0) + 1);
        }
    }
}
