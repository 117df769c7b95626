//! What loads print, and refuse before they begin.

use super::*;

/// The text of a sweep over 1, 2, 4 and 8 users, with a tier `server`.
pub fn look_at_sweep(text: &str) {
    // One table with a row per run and the tier's columns; what it does not say stands behind it, per run.
    let lines: Vec<&str> = text.lines().collect();
    for part in ["server CPUs", "server µs each", "server MB"] {
        assert!(lines[0].contains(part), "{part:?}: {text}");
    }
    assert!(
        (1..5).all(|row| lines[row].split_whitespace().count() == lines[1].split_whitespace().count()),
        "{text}"
    );
    for part in ["machine: CPUs ", " requests a day, "] {
        assert!(text.contains(part), "{part:?}: {text}");
    }
    // On a machine that is busy with other tests it may be that it cannot be told. What runs have in common is said once.
    let verdicts = ["nobody was full", "nobody was seen to be full", "the limit was"];
    for users in 0..4 {
        let label = format!("{} user", 1 << users);
        let is_of = |line: &&str| {
            let (labels, said) = line.split_once(": ").unwrap_or_default();
            (labels == "each run" || labels.contains(&label))
                && verdicts.iter().any(|verdict| said.contains(verdict))
        };
        assert_eq!(text.lines().filter(is_of).count(), 1, "{label}: {text}");
    }
}

/// Each trial, and what all have in common, stands there once.
#[test]
fn a_quiet_search_repeats_nothing() {
    let server = server();
    let url = format!("http://127.0.0.1:{}/limited", server.port());
    let output = bench(&["--find-max", "-q", "--slo", "errors<10%", "-c", "20", "-d", "300ms", &url]);
    assert!(output.stderr.is_empty(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    // Two trials at the same rate may have the same figures by chance.
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.contains("/s: ")).collect();
    let all = lines.len();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), all, "{text}");
    // Runs beside each other differ in their figures only.
    assert_eq!(text.matches(" requests a day, ").count(), usize::from(text.contains(" holds at ")), "{text}");
}

/// As many users as the hard limit of open files allows are there without a word; more are refused before anything is sent.
#[test]
fn users_beyond_the_limit_of_open_files_are_refused() {
    let server = server();
    let url = format!("http://127.0.0.1:{}/a.txt", server.port());
    // Root may raise the hard limit, too, unless it has no right to.
    let script = "ulimit -Sn 256 && ulimit -Hn 2000 && \
        exec setpriv --bounding-set=-sys_resource \"$0\" bench -q --json -d 200ms -c \"$1\" \"$2\"";
    let run =
        |users: &str, url: &str| Command::new("sh").args(["-c", script, BIN, users, url]).output().unwrap();
    let output = run("1000", &url);
    let all: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    assert!(all["connects"] == 1000 && all["responses"].as_u64() >= Some(1000), "{all}");
    // Lines of the first run may still be written.
    let output = run("40000", &format!("{url}?more"));
    let text = String::from_utf8_lossy(&output.stderr);
    for part in
        ["cannot raise the limit of open files to 40256", "2000 are allowed here", "take fewer connections"]
    {
        assert!(output.status.code() == Some(1) && text.contains(part), "{part:?}: {output:?}");
    }
    assert!(output.stdout.is_empty() && !server.access_log().contains("?more"), "{output:?}");
}
