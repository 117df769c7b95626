//! Exit codes: 0, 1 wrong usage, 2 no result, 3 a broken promise; the same of every command that has promises.

use super::*;
use brisk_testkit::wait;

/// What a command line ends with. On a machine that is busy with other tests its figures may be INVALID: then it is asked again.
fn ends_with(words: &[&str], code: i32) {
    let output = wait::until("figures that mean something", || {
        let output = run(words);
        let text = [&output.stdout[..], &output.stderr].concat();
        let is_late = String::from_utf8_lossy(&text).contains("the generator itself was late");
        (!is_late || output.status.code() == Some(code)).then_some(output)
    });
    assert_eq!(output.status.code(), Some(code), "{words:?}: {output:?}");
}

/// Rows of a command's arguments and of its exit code. Words are separated by spaces; `~` stands for one within a word.
fn check(command: &str, rows: &[(&str, i32)]) {
    for (row, code) in rows {
        let words: Vec<String> =
            command.split(' ').chain(row.split(' ')).map(|word| word.replace('~', " ")).collect();
        ends_with(&words.iter().map(String::as_str).collect::<Vec<_>>(), *code);
    }
}

#[test]
fn loads_and_probes_end_with_the_same_codes() {
    let server = server();
    let well = format!("http://127.0.0.1:{}/a.txt", server.port());
    let down = format!("http://127.0.0.1:{}/down", server.port());
    let nobody = "http://127.0.0.1:1/";
    check(
        "bench -q -n 40 -c 2",
        &[
            (&well, 0),
            (&format!("--slo rate>1,p99<30s,errors<1% {well}"), 0),
            (&format!("--slo rate~>~1,p99~<~30s {well}"), 0),
            (&format!("--slo p50<1us {well}"), 3),
            (&format!("--slo rate>1000000000 {well}"), 3),
            (&format!("--slo rate>1 {down}"), 3),
            (&down, 2),
            (nobody, 2),
            (&format!("--slo rate>1 {nobody}"), 2),
            (&format!("--rate 100 --slo rate>1 {nobody}"), 2),
            (&format!("--slo rate>fast {well}"), 1),
            (&format!("--slo nonsense<1 {well}"), 1),
            ("http://nobody.invalid/", 1),
        ],
    );
    check(
        &format!("bench -q -c 4 -d 200ms --find-max {well}"),
        &[("--slo rate>1000000000", 3), ("--slo p50<1us", 3), ("--slo p50", 1), ("--json", 1)],
    );
    // Each run of a sweep is judged.
    check(
        &format!("bench -q -d 200ms --users 1,2 {well}"),
        &[
            ("--slo rate>1,p99<30s,errors<1%", 0),
            ("--slo rate>1,p50<1us", 3),
            (&format!("--slo errors<1% {down}"), 3),
        ],
    );
    check(
        "probe --store -",
        &[
            (&well, 0),
            (&format!("--slower 60s --contains aaa {well} {well}"), 0),
            (&format!("--slower 0s {well}"), 3),
            (&format!("--contains bbb {well}"), 3),
            (&format!("{well} {down}"), 3),
            (nobody, 3),
            (&format!("--fails 2 {down}"), 0),
            (&format!("--fails 2 --count 2 --every 100ms {down}"), 3),
            (&format!("--for 0s {well}"), 1),
            (&format!("--slower soon {well}"), 1),
            ("--count 1", 1),
        ],
    );
}

#[test]
fn scenarios_end_with_the_codes_of_loads() {
    let server = server();
    let dir = TempDir::new();
    let target = format!("http://127.0.0.1:{}", server.port());
    let file = |name: &str, threshold: &str, path: &str| {
        let text = format!(
            "iterations = 5\nthresholds = [{threshold}]\n[[user]]\nthink = \"1ms\"\n[[user.step]]\nname = \"one\"\n\
             request = \"GET {path}\"\n"
        );
        scenario::write(dir.path(), name, &text)
    };
    let row = |name: &str, threshold: &str, path: &str| format!("{target} {}", file(name, threshold, path));
    check(
        "bench run -q -u 2 -d 1m --target",
        &[
            (&row("none.toml", "", "/a.txt"), 0),
            (&row("kept.toml", "\"errors < 1%\", \"one: p99 < 30s\", \"rate > 0.1\"", "/a.txt"), 0),
            (&row("spaces.toml", "\"p99<30s\"", "/a.txt"), 0),
            (&row("slow.toml", "\"p50 < 1us\"", "/a.txt"), 3),
            (&row("step.toml", "\"one: count > 1000\"", "/a.txt"), 3),
            (&row("errors.toml", "\"errors < 1%\"", "/down"), 3),
            (&row("down.toml", "", "/down"), 2),
            (&format!("http://127.0.0.1:1 {}", file("nobody.toml", "\"p50 < 1s\"", "/a.txt")), 2),
            (&row("word.toml", "\"p50 < soon\"", "/a.txt"), 1),
            (&row("other.toml", "\"two: p50 < 1s\"", "/a.txt"), 1),
            (&format!("{target} /no/such/file.toml"), 1),
        ],
    );
}

#[test]
fn comparisons_end_with_the_codes_of_loads() {
    let server = server();
    server.write("html/big.txt", vec![b'x'; 1 << 20]);
    let url = |path: &str| format!("http://127.0.0.1:{}{path}", server.port());
    let (small, big, nobody) = (url("/a.txt"), url("/big.txt"), "http://127.0.0.1:1/");
    check(
        "bench compare --by latency --others 100 -d 50ms -w 0 -c 2",
        &[
            (&format!("{small} {big}"), 0),
            (&format!("--slo slower<10% {big} {small}"), 0),
            (&format!("--slo slower~<~10% {big} {small}"), 0),
            (&format!("--slo slower<10% {small} {big}"), 3),
            (&format!("{small} {nobody}"), 2),
            (&format!("--slo slower<10% {nobody} {small}"), 2),
            (&format!("--slo p99<1s {small} {big}"), 1),
            (&small, 1),
        ],
    );
}

/// Where a run's results went, and whether it was watched on the screen, makes no other command of it.
#[test]
fn commands_that_differ_in_their_outputs_are_the_same() {
    let server = server();
    let dir = TempDir::new();
    let file = |name: &str| dir.path().join(name).display().to_string();
    let url = format!("http://127.0.0.1:{}/a.txt", server.port());
    let stored = |name: &str, more: &[&str]| {
        let json = format!("--json={}", file(name));
        run(&[&["bench", "-n", "20", "-c", "1", &json][..], more, &[&url]].concat());
        file(name)
    };
    let (html, csv) = (file("a.html"), format!("--csv={}", file("a.csv")));
    let one = stored("one.json", &["-q", "--html", &html, "--web=127.0.0.1:0"]);
    let two = stored("two.json", &[&csv, "--raw", &file("raw"), "--prometheus", &file("prom")]);
    let other = stored("other.json", &["-q", "--no-keepalive"]);
    let text = printed(&["bench", "diff", &one, &two], 0);
    assert!(text.contains("proves little") && !text.contains("Not the same"), "{text}");
    let text = printed(&["bench", "diff", &one, &other], 0);
    assert!(text.contains("Not the same command:") && text.contains("--no-keepalive"), "{text}");
}
