//! All commands alike: help, man pages, completions, and what becomes of output that cannot be written.

use brisk_testkit::TempDir;
use brisk_testkit::server::text;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

/// What a command that the machine lacks is told.
const SETUP: &str = "scripts/setup.sh test installs it";

fn brisk(args: &[&str], env: &[(&str, &str)]) -> Output {
    let mut command = Command::new(BIN);
    command.args(args).env_remove("COLUMNS").envs(env.iter().copied()).stdin(Stdio::null());
    command.output().unwrap()
}

/// Runs a tool on a file; gives what it has to say.
fn tool(program: &str, args: &[&str], file: &Path) -> String {
    let output = Command::new(program).args(args).arg(file).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}: {SETUP}"));
    let said = text(&output.stderr);
    assert!(output.status.success(), "{program} {args:?} {}: {said}{}", file.display(), text(&output.stdout));
    said
}

/// All man pages, in the order of their names.
fn pages(dir: &TempDir) -> Vec<PathBuf> {
    let output = brisk(&["man", "--all", &dir.path().display().to_string()], &[]);
    assert!(output.status.success(), "{output:?}");
    let sections = ["man1", "man8"].map(|section| dir.path().join(section));
    let files = sections.iter().flat_map(|section| std::fs::read_dir(section).unwrap());
    let mut files: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// The words of every command, from the names of the man pages: what has a page is a command.
fn commands() -> Vec<Vec<String>> {
    let dir = TempDir::new();
    let all: Vec<Vec<String>> = pages(&dir)
        .iter()
        .map(|page| {
            page.file_stem().unwrap().to_str().unwrap().split('-').skip(1).map(str::to_owned).collect()
        })
        .collect();
    for known in [&["bench", "run"][..], &["cache", "purge"], &["upstream", "list"], &["ab"], &["man"], &[]] {
        assert!(all.iter().any(|words| words == known), "{known:?} in {all:?}");
    }
    assert!(all.len() > 30, "{all:?}");
    all
}

/// Words and more words.
fn joined<'a>(words: &'a [String], more: &[&'a str]) -> Vec<&'a str> {
    words.iter().map(String::as_str).chain(more.iter().copied()).collect()
}

#[test]
fn every_command_explains_itself_on_the_standard_output() {
    for words in commands() {
        let help = brisk(&[&["help"], &joined(&words, &[])[..]].concat(), &[]);
        for flag in ["--help", "-h"] {
            let own = brisk(&joined(&words, &[flag]), &[]);
            assert_eq!(own.status.code(), Some(0), "{words:?} {flag}: {own:?}");
            assert_eq!(text(&own.stdout), text(&help.stdout), "{words:?} {flag}");
            assert!(own.stderr.is_empty(), "{words:?} {flag}: {own:?}");
        }
        let said = text(&help.stdout);
        assert!(
            help.status.success() && help.stderr.is_empty() && said.contains("Usage: "),
            "{words:?}: {help:?}"
        );
        assert!(said.ends_with('\n') && !said.contains('\x1b'), "{words:?}: {said:?}");
    }
}

#[test]
fn help_fits_the_columns() {
    for words in commands() {
        for columns in [60, 80, 120] {
            let args = [&["help"], &joined(&words, &[])[..]].concat();
            let help = brisk(&args, &[("COLUMNS", &columns.to_string())]);
            for line in text(&help.stdout).lines() {
                // One word may be longer than what the options have left for it.
                let is_one_word = line.split_whitespace().count() == 1;
                let width = line.chars().count();
                assert!(width <= columns || is_one_word, "{words:?} at {columns}: {width}: {line}");
            }
        }
    }
}

#[test]
fn every_man_page_renders() {
    let dir = TempDir::new();
    for page in pages(&dir) {
        assert_eq!(tool("groff", &["-ww", "-man", "-Tutf8", "-z"], &page), "", "{}", page.display());
        tool("mandoc", &["-T", "lint", "-W", "warning"], &page);
        let name = page.file_stem().unwrap().to_str().unwrap().to_owned();
        let words: Vec<&str> = name.split('-').skip(1).collect();
        assert_eq!(
            brisk(&[&["man"], &words[..]].concat(), &[]).stdout,
            std::fs::read(&page).unwrap(),
            "{name}"
        );
    }
    let server = std::fs::read_to_string(dir.path().join("man8/brisk.8")).unwrap();
    for part in [".SH SIGNALS", ".SH FILES", "brisk\\-bench(1)", ".SH NOTES"] {
        assert!(server.contains(part), "{part} in {server}");
    }
    assert_eq!(brisk(&["man", "nonsense"], &[]).status.code(), Some(1));
}

#[test]
fn completions_are_sound_and_know_directives() {
    let dir = TempDir::new();
    let script = |shell: &str| {
        let output = brisk(&["completions", shell], &[]);
        assert!(output.status.success(), "{output:?}");
        dir.write(shell, &output.stdout);
        let file = dir.path().join(shell);
        assert_eq!(tool(shell, &["-n"], &file), "", "{shell}");
        file.display().to_string()
    };
    let run = |shell: &str, code: &str| {
        let output = Command::new(shell).args(["-c", code]).env("HOME", dir.path()).output();
        let output = output.unwrap_or_else(|error| panic!("{shell}: {error}: {SETUP}"));
        assert!(output.status.success(), "{shell}: {output:?}");
        text(&output.stdout)
    };
    let bash = script("bash");
    let complete = |line: &str| {
        let words: Vec<String> = line.split(' ').map(|word| format!("'{word}'")).collect();
        let (at, last) = (words.len() - 1, line.rsplit(' ').next().unwrap());
        run(
            "bash",
            &format!(
                "source {bash}; COMP_WORDS=({}); COMP_CWORD={at}; _brisk brisk '{last}' {}; echo \"${{COMPREPLY[@]}}\"",
                words.join(" "),
                words[at - 1]
            ),
        )
    };
    assert!(complete("brisk directives proxy_pa").contains("proxy_pass "));
    assert!(complete("brisk bench --conn").contains("--connections"));
    assert!(complete("brisk ca").contains("cache"));
    assert!(complete("brisk completions ").contains("fish"));
    let fish = script("fish");
    let fish = |line: &str| run("fish", &format!("source {fish}; complete -C '{line}'"));
    assert!(fish("brisk directives proxy_pa").contains("proxy_pass"));
    assert!(fish("brisk upstream dr").contains("drain"));
    let zsh = std::fs::read_to_string(script("zsh")).unwrap();
    assert!(zsh.starts_with("#compdef brisk") && zsh.contains("proxy_pass"));
    assert_eq!(brisk(&["completions", "tcsh"], &[]).status.code(), Some(1));
}

/// As a terminal sees it: `script` makes one.
fn in_a_terminal(args: &[&str], env: &[(&str, &str)]) -> String {
    let line = std::iter::once(BIN).chain(args.iter().copied()).collect::<Vec<_>>().join(" ");
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm").env_remove("NO_COLOR");
    let output = command.envs(env.iter().copied()).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("script: {error}: {SETUP}"));
    text(&output.stdout)
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    for args in [&["help"][..], &["bench", "--help"], &["bench", "--frobnicate"], &["directives", "root"]] {
        assert!(in_a_terminal(args, &[]).contains("\x1b["), "{args:?}");
        for env in [("NO_COLOR", "1"), ("TERM", "dumb")] {
            let shown = in_a_terminal(args, &[env]);
            assert!(shown.len() > 50 && !shown.contains('\x1b'), "{args:?} with {env:?}: {shown:?}");
        }
        let piped = brisk(args, &[("TERM", "xterm")]);
        assert!(![piped.stdout, piped.stderr].concat().contains(&0x1b), "{args:?}");
    }
}

#[test]
fn wrong_usage_says_what_was_probably_meant() {
    for (args, code, parts) in [
        (&["bench", "--connectons", "5", "http://127.0.0.1:1/"][..], 1, ["brisk bench: ", "--connections"]),
        (&["cache", "lst"], 1, ["brisk cache: ", "'list'"]),
        (&["help", "cach"], 1, ["no command \"cach\"", "did you mean \"cache\"?"]),
        (&["help", "proxy_pass"], 1, ["no command \"proxy_pass\"", "brisk directives proxy_pass"]),
        (&["bnech"], 1, ["invalid option: \"bnech\"", "did you mean \"brisk bench\"?"]),
        (&["--hlep"], 1, ["invalid option: \"--hlep\"", "did you mean \"--help\"?"]),
        (&["--json"], 1, ["\"--json\" goes with -t", "brisk help"]),
        (&["get", "--pretti", "x"], 1, ["brisk get: ", "--pretty"]),
        (&["get", "-d", "a=1", "x"], 1, ["how long a load lasts", "--data"]),
        (&["get", "-m", "3", "x"], 1, ["streams of HTTP/2", "--max-time"]),
    ] {
        let output = brisk(args, &[]);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(code) && output.stdout.is_empty(), "{args:?}: {output:?}");
        assert!(parts.iter().all(|part| said.contains(part)), "{args:?}: {said}");
    }
}

#[test]
fn nothing_panics_where_nothing_can_be_written() {
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let closed = || std::io::pipe().unwrap().1;
    let run = |args: &[&str], stdout: Stdio, stderr: Stdio| {
        let mut command = Command::new(BIN);
        let child = command.args(args).stdin(Stdio::null()).stdout(stdout).stderr(stderr).spawn().unwrap();
        let output = child.wait_with_output().unwrap();
        let said = text(&output.stderr);
        assert!(output.status.code().is_some_and(|code| code != 101), "{args:?}: {output:?}");
        assert!(!said.contains("panicked"), "{args:?}: {said}");
        (output.status.code(), said)
    };
    for words in commands() {
        let args = joined(&words, &["--help"]);
        let (code, said) = run(&args, full().into(), Stdio::piped());
        assert!(code == Some(1) && said.contains("cannot write to the standard output"), "{args:?}: {said}");
        assert_eq!(run(&args, closed().into(), Stdio::piped()), (Some(0), String::new()), "{args:?}");
        // Wrong usage is told to nobody.
        let wrong = joined(&words, &["--frobnicate"]);
        let (code, _) = run(&wrong, Stdio::null(), Stdio::piped());
        assert_eq!(run(&wrong, Stdio::null(), full().into()).0, code, "{wrong:?}");
        assert_eq!(run(&wrong, Stdio::null(), closed().into()).0, code, "{wrong:?}");
    }
    let dir = TempDir::new();
    dir.write("good.conf", "events { } http { }");
    dir.write("bad.conf", "events { use epoll; } http { nonsense; }");
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (good, bad, prefix) = (path("good.conf"), path("bad.conf"), dir.path().display().to_string());
    for (args, code) in [
        (&["-h"][..], 0),
        (&["-?"], 0),
        (&["-v"], 0),
        (&["-V"], 0),
        (&["-t", "-c", &good], 0),
        (&["-t", "-c", &bad], 1),
        (&["-T", "-c", &bad], 1),
        (&["-p", &prefix, "-c", &bad], 1),
        (&["-s", "reload", "-c", &good, "-p", &prefix], 1),
        (&["-s", "stop", "-c", &good, "-p", &prefix], 1),
        (&["cache", "-c", &bad, "list"], 1),
        (&["log", "-c", &good, "-p", &prefix], 1),
        (&["upstream", "-c", &good, "list"], 1),
    ] {
        assert_eq!(run(args, Stdio::null(), full().into()).0, Some(code), "{args:?}");
        assert_eq!(run(args, Stdio::null(), closed().into()).0, Some(code), "{args:?}");
    }
}

#[test]
fn arguments_that_are_no_text_are_refused() {
    use std::os::unix::ffi::OsStrExt as _;
    let odd = std::ffi::OsStr::from_bytes(b"-c\xff");
    let output = Command::new(BIN).arg("-t").arg(odd).output().unwrap();
    assert!(
        output.status.code() == Some(1) && text(&output.stderr).contains("not valid UTF-8"),
        "{output:?}"
    );
}
