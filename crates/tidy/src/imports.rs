//! Which files of a crate refer to which, and the circles that they form.
//!
//! Paths are read as text: `crate::`, `super::`, `self::` and the names of child modules, with their groups in braces.
//! Tests are left out. A reference to what a module defines is one to its file.

use crate::source;
use crate::tree::File;
use std::collections::{BTreeMap, BTreeSet};

/// A module's path from the crate's root; the root itself is empty.
type Path = Vec<String>;

/// The files of one crate and what each refers to.
#[derive(Debug, Default)]
pub struct Graph {
    /// By path of the file, in order: the files that it refers to.
    pub edges: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    /// Of the Rust files below `root`, which ends with `src/`.
    pub fn of(files: &[File], root: &str) -> Graph {
        let own: Vec<&File> =
            files.iter().filter(|file| file.path.starts_with(root) && !is_test(&file.path)).collect();
        let modules: BTreeMap<Path, String> =
            own.iter().map(|file| (module_of(&file.path[root.len()..]), file.path.clone())).collect();
        let mut edges = BTreeMap::new();
        for file in own {
            let module = module_of(&file.path[root.len()..]);
            let tests = source::tests_of(&file.path, &file.text).len();
            let code = source::code(&file.text[..file.text.len() - tests]);
            let mut to: BTreeSet<String> = references(&code, &module, &modules);
            to.remove(&file.path);
            edges.insert(file.path.clone(), to);
        }
        Graph { edges }
    }

    /// Sets of files each of which leads to all others, largest first; files in no circle are left out.
    pub fn circles(&self) -> Vec<Vec<String>> {
        let reach: BTreeMap<&String, BTreeSet<&String>> =
            self.edges.keys().map(|file| (file, self.reached_from(file))).collect();
        let mut seen = BTreeSet::new();
        let mut circles = Vec::new();
        for file in self.edges.keys() {
            if !reach[file].contains(file) || seen.contains(file) {
                continue;
            }
            let circle: Vec<String> = reach[file]
                .iter()
                .filter(|other| reach[*other].contains(file))
                .map(|f| (*f).clone())
                .collect();
            seen.extend(circle.iter().cloned());
            circles.push(circle);
        }
        circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
        circles
    }

    fn reached_from<'g>(&'g self, file: &String) -> BTreeSet<&'g String> {
        let mut reached = BTreeSet::new();
        let mut open: Vec<&String> = self.edges[file].iter().collect();
        while let Some(next) = open.pop() {
            if let Some((next, to)) = self.edges.get_key_value(next)
                && reached.insert(next)
            {
                open.extend(to);
            }
        }
        reached
    }
}

fn is_test(path: &str) -> bool {
    path.ends_with("tests.rs") || path.contains("/tests/") || path.ends_with("fuzz.rs")
}

/// `a/b.rs` and `a/b/mod.rs` are `a::b`.
fn module_of(path: &str) -> Path {
    let stem = path.trim_end_matches(".rs");
    let stem = stem.strip_suffix("/mod").unwrap_or(stem);
    match stem {
        "lib" | "main" | "mod" => Vec::new(),
        _ => stem.split('/').map(str::to_string).collect(),
    }
}

fn references(code: &str, module: &Path, modules: &BTreeMap<Path, String>) -> BTreeSet<String> {
    let tokens = tokens(code);
    let mut found = BTreeSet::new();
    for (at, token) in tokens.iter().enumerate() {
        let follows = at.checked_sub(1).map(|before| tokens[before]);
        if matches!(follows, Some("::" | ".")) || tokens.get(at + 1) != Some(&"::") {
            continue;
        }
        let start: Option<Path> = match *token {
            "crate" => Some(Vec::new()),
            "self" => Some(module.clone()),
            "super" => module.split_last().map(|(_, outer)| outer.to_vec()),
            name => {
                let child: Path = module.iter().cloned().chain([name.to_string()]).collect();
                modules.contains_key(&child).then_some(child)
            }
        };
        if let Some(start) = start {
            paths(&tokens, at + 2, start, &mut |path| {
                let known = (0..=path.len()).rev().find_map(|length| modules.get(&path[..length]));
                found.extend(known.cloned());
            });
        }
    }
    found
}

/// Calls `then` for each path that begins with `start` and goes on at `at`. Returns where it ends.
fn paths(tokens: &[&str], mut at: usize, mut start: Path, then: &mut impl FnMut(&Path)) -> usize {
    loop {
        match tokens.get(at) {
            Some(&"{") => {
                at += 1;
                while let Some(token) = tokens.get(at) {
                    match *token {
                        "}" => return at + 1,
                        "," => at += 1,
                        _ => {
                            let next = paths(tokens, at, start.clone(), then);
                            at = if next == at { at + 1 } else { next };
                        }
                    }
                }
                return at;
            }
            Some(&"super") => drop(start.pop()),
            Some(name) if is_name(name) => start.push((*name).to_string()),
            _ => {
                then(&start);
                return at;
            }
        }
        at += 1;
        if tokens.get(at) != Some(&"::") {
            then(&start);
            return at;
        }
        at += 1;
    }
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

fn tokens(code: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = if is_word(first) {
            rest.find(|c| !is_word(c)).unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        tokens.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: format!("src/{path}"), text: text.to_string() }
    }

    fn circles(files: &[File]) -> Vec<Vec<String>> {
        Graph::of(files, "src/").circles()
    }

    #[test]
    fn circles_are_found_through_all_forms_of_paths() {
        let files = [
            file("lib.rs", "mod a; mod b; mod c;"),
            file("a.rs", "use crate::{b::{self, B}, x};"),
            file("b.rs", "fn f() -> crate::c::C {}"),
            file("c.rs", "use super::a::A;"),
        ];
        assert_eq!(circles(&files), [["src/a.rs", "src/b.rs", "src/c.rs"]]);
    }

    #[test]
    fn what_points_one_way_is_no_circle() {
        let files = [
            file("lib.rs", "mod a; mod b; pub use a::A;"),
            file("a.rs", "use crate::b::B; // crate::a"),
            file("b.rs", "const TEXT: &str = \"crate::a\";\n#[cfg(test)]\nmod tests {\nuse crate::a::A;\n}"),
        ];
        assert!(circles(&files).is_empty());
    }

    #[test]
    fn parents_and_children_may_form_circles() {
        let files =
            [file("lib.rs", ""), file("a/mod.rs", "mod b; use b::B;"), file("a/b.rs", "use super::A;")];
        assert_eq!(circles(&files), [["src/a/b.rs", "src/a/mod.rs"]]);
    }
}
