//! Rules about documentation: it is derived from the rows, it is current, and what it promises is tested.
#![forbid(unsafe_code)]

use brisk_modules::reference::{coverage, directives, variables};
use brisk_tidy::{source, tree};

fn is_current(path: &str, generated: &str) {
    assert!(tree::read(path) == generated, "{path} is not what the rows say: run `make docs`");
}

#[test]
fn directives_md_is_current() {
    is_current("docs/directives.md", &directives::markdown());
}

#[test]
fn variables_md_is_current() {
    is_current("docs/variables.md", &variables::markdown());
}

#[test]
fn nginx_coverage_is_current() {
    is_current("docs/nginx-coverage.tsv", &coverage::tsv());
}

#[test]
fn apache_coverage_is_current() {
    is_current("docs/apache-coverage.tsv", &coverage::apache_tsv());
}

#[test]
fn every_row_has_a_doc() {
    let is_sentence = |doc: &str| doc.len() > 8 && doc.ends_with(['.', ')']);
    for (module, row) in directives::all() {
        assert!(
            is_sentence(row.doc),
            "{} of {}: its doc is no sentence: {:?}",
            row.name,
            module.name,
            row.doc
        );
    }
    for (module, row) in variables::all() {
        assert!(
            is_sentence(row.doc),
            "${} of {}: its doc is no sentence: {:?}",
            row.name,
            module.name,
            row.doc
        );
    }
}

/// What tests are made of: their code, and the configurations and scenarios beside it.
fn test_texts() -> Vec<String> {
    const DATA: &[&str] = &[".conf", ".scenario", ".txt"];
    let is_data = |path: &str| path.starts_with("crates/") && DATA.iter().any(|end| path.ends_with(end));
    let files = tree::files().into_iter().filter(|file| !file.path.starts_with("crates/tidy/"));
    let texts = files.filter_map(|file| {
        let is_rust = std::path::Path::new(&file.path).extension().is_some_and(|e| e == "rs");
        let text = if is_rust {
            source::tests_of(&file.path, &file.text)
        } else if is_data(&file.path) {
            &file.text
        } else {
            ""
        };
        (!text.is_empty()).then(|| text.to_string())
    });
    texts.collect()
}

/// Whether the directive stands where a statement begins, and ends as one.
fn is_stated(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].trim_end_matches(' ');
        let after = &text[at + name.len()..];
        let begins = before.ends_with(['\n', ';', '{', '}', '"', '\'', '\\']) || before.is_empty();
        let ends = after.starts_with([' ', ';', '\t', '\n']);
        begins && ends && after.lines().next().is_some_and(|line| line.contains([';', '{']))
    })
}

#[test]
fn statements_are_found() {
    assert!(is_stated("check(\"etag off;\")", "etag") && is_stated("{ events {} http {", "http"));
    assert!(!is_stated("let etag = 1;", "etag") && !is_stated("// etag off", "etag"));
    assert!(!is_stated("etags off;", "etag"));
}

#[test]
fn every_directive_is_used_by_a_test() {
    let texts = test_texts();
    let unused: Vec<_> = directives::all()
        .map(|(_, row)| row.name)
        .filter(|name| !texts.iter().any(|text| is_stated(text, name)))
        .collect();
    assert!(unused.is_empty(), "no test uses {unused:?}");
}

#[test]
fn every_variable_is_used_by_a_test() {
    let texts = test_texts();
    let is_used = |name: &str| {
        let name = format!("${}", name.trim_end_matches('*'));
        let braced = format!("${{{}", &name[1..]);
        texts.iter().any(|text| text.contains(&name) || text.contains(&braced))
    };
    let unused: Vec<_> = variables::all().map(|(_, row)| row.name).filter(|name| !is_used(name)).collect();
    assert!(unused.is_empty(), "no test uses {unused:?}");
}

#[test]
fn nothing_waits_for_a_module_that_is_there() {
    for line in tree::read("docs/conformance-waiting.tsv").lines().skip(1) {
        let name = line.split('\t').next().unwrap_or_default();
        let is_there = brisk_modules::MODULES.iter().any(|module| module.name == name);
        assert!(!is_there, "docs/conformance-waiting.tsv: {name} is there");
    }
}

/// Names of metrics in a text, without what a histogram adds to its own.
fn metrics_in(text: &str) -> Vec<&str> {
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let at = text.match_indices("brisk_").map(|(at, _)| at);
    let names = at.map(|at| &text[at..at + text[at..].bytes().take_while(|byte| is_name(*byte)).count()]);
    let without_end =
        |name| ["_bucket", "_sum", "_count"].iter().find_map(|end| str::strip_suffix(name, end));
    names.map(|name| without_end(name).unwrap_or(name)).collect()
}

#[test]
fn boards_and_alerts_use_metrics_that_there_are() {
    let code: String = tree::files()
        .into_iter()
        .filter(|file| file.path.contains("/src/") && file.path.starts_with("crates/"))
        .map(|file| file.text)
        .collect();
    for path in ["packaging/grafana/brisk.json", "packaging/prometheus/brisk.rules.yml"] {
        let text = tree::read(path);
        let names = metrics_in(&text);
        assert!(names.len() > 10, "{path}: {names:?}");
        for name in names {
            assert!(code.contains(&format!("\"{name}\"")), "{path}: no metric is called {name}");
        }
    }
}

#[test]
fn the_changelog_has_room_for_what_comes() {
    assert!(tree::read("CHANGELOG.md").contains("\n## [Unreleased]\n"));
}

#[test]
fn links_between_documents_lead_somewhere() {
    for file in tree::files_with(".md") {
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (at, _) in file.text.match_indices("](") {
            let target = file.text[at + 2..].split([')', '#']).next().unwrap_or_default();
            if target.is_empty() || target.contains("://") || target.contains([' ', '\n']) {
                continue;
            }
            let path = tree::root().join(folder).join(target);
            assert!(path.exists(), "{}: {target} does not exist", file.path);
        }
    }
}
