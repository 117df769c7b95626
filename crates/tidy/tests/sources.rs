//! Rules about source files: heads, sizes, `unsafe`, unfinished marks.
#![forbid(unsafe_code)]

use brisk_tidy::source;
use brisk_tidy::tree::{self, File};

/// The files that may say `unsafe`: two wrap the system calls, the other AWS-LC's functions for certificates.
const UNSAFE: [&str; 3] = ["crates/net/src/sys.rs", "crates/net/src/sys/udp.rs", "crates/x509/src/sys.rs"];

const FILE_LINES_MAX: usize = 700;

const FUNCTION_LINES_MAX: usize = 70;

/// Where the head and the connection of a request are read directly. Elsewhere the accessors of `reads.rs` record what an
/// answer depends on.
const RAW_READERS: &[(&str, &str)] = &[
    ("h1/", "framing, target, host, the end of the connection; the answer is written there, not made"),
    ("h2/", "the same"),
    ("h3/", "the same"),
    ("stream/head.rs", "the same, for HTTP/2 and HTTP/3"),
    ("stream/encode.rs", "the same"),
    ("stream/answer.rs", "the same"),
    ("body.rs", "the connection that a body is read from, as in h1/"),
    ("reads.rs", "the accessors"),
    ("request/", "owns them"),
    ("subrequest.rs", "copies them; what a subrequest reads makes its parent's answer one for nobody else"),
    ("stream/serve.rs", "notes what a request came by"),
    ("prepared.rs", "the key, and the fields with which nothing is prepared"),
    ("tls/", "the handshake, before there is an answer; what is asked of a request is recorded"),
    ("vars/", "rows that say nothing are taken to depend on anything"),
    ("log/", "messages: a request that has one is never prepared"),
    ("metrics/", "numbers, when the answer has left"),
    ("phases.rs", "the debug log, which is one"),
    ("trace/told.rs", "notes, in a process that prepares nothing"),
    ("interim/learned.rs", "what is learned is no part of the answer"),
    ("thread.rs", "the memory of a request"),
    ("service.rs", "requests of our own"),
    ("flights.rs", "what waits, for whoever looks at the server"),
    ("lies.rs", "lies, for the test that finds them"),
];

/// Where modules read the clock directly; elsewhere `Request::now` and `Request::this_second` record it.
const CLOCK_READERS: &[(&str, &str)] = &[
    ("api/", "says nothing, so its answers are for nobody else"),
    ("auth_jwt/", "likewise"),
    ("autoindex/", "what is listed is awaited"),
    ("cache/", "what is given out from memory is good for the present second"),
    ("compress_static/", "when the store works again"),
    ("db/link.rs", "databases are asked beside requests: whether a certificate is valid"),
    ("db/pgsql.rs", "likewise: what a login begins with"),
    ("directory_overrides/files.rs", "when a file may be read; what it says holds at any time"),
    ("htaccess/facts.rs", "beside `Request::now`, which records it"),
    ("limit_req/", "says nothing"),
    ("otel/", "who is traced is served for himself alone; its end, for the span"),
    ("overload.rs", "how often it complains"),
    ("upstream/", "back ends are awaited"),
    ("userid/", "says nothing"),
    ("htaccess/login.rs", "the key of nonces is the process's"),
];

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
fn unsafe_is_in_three_files() {
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
    assert!(long.is_empty(), "over {FUNCTION_LINES_MAX} lines: split them: {long:#?}");
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

/// Files below a folder whose code (without tests) has one of these texts and that are not on the list.
fn strays(folder: &str, marks: &[&str], list: &[(&str, &str)]) -> Vec<String> {
    let files = rust().into_iter().filter(|file| file.path.starts_with(folder));
    let is_listed = |path: &str| list.iter().any(|(start, _)| path[folder.len()..].starts_with(start));
    let files = files.filter(|file| !file.path.ends_with("tests.rs") && !is_listed(&file.path));
    let has_any = |file: &File| {
        let code = source::code(&file.text);
        let code = code.split("#[cfg(test)]").next().unwrap_or_default();
        // A chain of calls may be broken anywhere.
        let code: String = code.split_whitespace().collect();
        marks.iter().any(|mark| code.contains(mark))
    };
    files.filter(has_any).map(|file| file.path).collect()
}

#[test]
fn what_answers_depend_on_is_read_where_it_is_recorded() {
    let raw =
        ["head.parsed", "head.buf", ".conn()", "client.connection()", "client.carrier", "shared.sender"];
    let strays_of = strays("crates/server/src/", &raw, RAW_READERS);
    assert!(strays_of.is_empty(), "use the accessors of crates/server/src/reads.rs: {strays_of:#?}");
    let strays_of = strays("crates/modules/src/", &["clock::now", "getrandom"], CLOCK_READERS);
    assert!(strays_of.is_empty(), "use Request::now or Request::this_second: {strays_of:#?}");
}
