//! `experiments`: the articles' experiments, run as `make experiment-…` runs them.

use brisk_testkit::{TempDir, wait};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

fn experiments() -> PathBuf {
    fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments")).unwrap()
}

fn experiment(arguments: &[&str]) -> Command {
    let mut command = Command::new("/usr/bin/python3");
    command.arg(experiments().join("run.py")).args(["--brisk", BIN]).args(arguments);
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The rows of the first table below a heading, without its head.
fn table<'a>(page: &'a str, heading: &str) -> Vec<Vec<&'a str>> {
    let (_, rest) = page.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("{page}"));
    let lines =
        rest.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cells = |line: &'a str| line.trim_matches('|').split(" | ").map(str::trim).collect::<Vec<_>>();
    lines.skip(2).map(cells).collect()
}

#[test]
fn a_slow_back_end_is_measured_and_judged() {
    let out = TempDir::new();
    let output = experiment(&["002", "--quick", "--out"]).arg(out.path()).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let page = fs::read_to_string(out.path().join("002.md")).unwrap();
    assert!(page.starts_with("# 002: ") && page.contains("QUICK=1"), "{page}");
    for software in ["nginx 1.", "Apache 2.", "load average was "] {
        assert!(page.contains(software), "{software}: {page}");
    }

    let advice = table(&page, "Advice, and what came of it");
    let verdicts = ["**gain** ", "**loss** ", "**no gain** ", "**undecided** "];
    for row in &advice {
        assert!(row.len() == 5 && verdicts.iter().any(|verdict| row[4].starts_with(verdict)), "{row:?}");
    }
    // A cache before an application that takes 50 ms: whatever else the machine does, that is a gain.
    let cached = advice.iter().find(|row| row[0] == "cache what is static (Brisk)").unwrap();
    assert!(cached[4].starts_with("**gain** ×"), "{cached:?}");

    let measured = table(&page, "50 users who ask again at once");
    let settings: Vec<&str> = measured.iter().map(|row| row[0]).collect();
    for setting in ["the application itself", "Apache, proxying", "nginx, cached", "Brisk, cached"] {
        assert!(settings.contains(&setting), "{settings:?}");
    }
    for row in &measured {
        let rate: f64 = row[2].replace(',', "").parse().unwrap();
        // Apache closes connections that were kept when it is busy: some requests meet that.
        let failed: f64 = row[5].trim_end_matches(" %").parse().unwrap();
        assert!(rate > 10.0 && failed < 5.0, "{row:?}");
    }
    assert_eq!(table(&page, "The tools' commands").len(), 3);
}

#[test]
fn the_library_is_tested() {
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-B", "-m", "unittest", "discover", "-s"]).arg(experiments());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    // It says so too if it has found none.
    assert!(
        stderr(&output).contains("\nOK") && !stderr(&output).contains("Ran 0 tests"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn missing_software_is_named_with_the_remedy() {
    let output = experiment(&["002", "--quick"]).env("BRISK_EXPERIMENTS_PATH", "/nowhere").output().unwrap();
    let said = stderr(&output);
    assert!(output.status.code() == Some(1), "{said}");
    assert!(said.contains("nginx is missing: run `scripts/setup.sh experiments`"), "{said}");
}

#[test]
fn nothing_is_left_of_an_experiment_that_is_interrupted() {
    let scratch = TempDir::new();
    let err = fs::File::create(scratch.path().join("err")).unwrap();
    let mut running =
        experiment(&["002", "--quick"]).env("TMPDIR", scratch.path()).stderr(err).spawn().unwrap();
    wait::holds("a round has begun", || {
        fs::read_to_string(scratch.path().join("err")).is_ok_and(|said| said.contains("round 1 of"))
    });
    let folders = || {
        fs::read_dir(scratch.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with("brisk-experiment-"))
            .collect::<Vec<_>>()
    };
    let stage = folders().pop().expect("the stage's folder");
    assert!(Command::new("kill").arg(running.id().to_string()).status().unwrap().success());
    assert_eq!(running.wait().unwrap().code(), Some(1));
    assert!(folders().is_empty());
    // No process names the folder that is gone.
    let left = fs::read_dir("/proc").unwrap().filter_map(Result::ok).filter(|entry| {
        fs::read_to_string(entry.path().join("cmdline")).is_ok_and(|command| command.contains(&stage))
    });
    assert_eq!(left.count(), 0);
}
