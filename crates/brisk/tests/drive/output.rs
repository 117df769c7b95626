//! Whoever reads may stop, and a disk may be full: nothing panics, and the files that were asked for are written.

use super::*;
use brisk_testkit::wait;
use std::fs::File;
use std::process::Child;

/// The panic that `println!` ends with would show here, as would any other.
fn unharmed(child: Child, args: &[&str]) -> (Option<i32>, String) {
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() != Some(101) && !errors.contains("panicked"), "{args:?}: {errors}");
    (output.status.code(), errors)
}

fn spawn(args: &[&str], stdout: impl Into<Stdio>, stderr: impl Into<Stdio>) -> Child {
    Command::new(BIN).args(args).stdin(Stdio::null()).stdout(stdout).stderr(stderr).spawn().unwrap()
}

/// A pipe that nobody reads.
fn closed() -> std::io::PipeWriter {
    std::io::pipe().unwrap().1
}

fn full() -> File {
    File::options().write(true).open("/dev/full").unwrap()
}

/// A full disk ends a command with 1 and a line. What `is_timed` may count nothing, and has nothing to print then.
fn said_once(args: &[&str], is_timed: bool) {
    wait::holds("an output that cannot be written", || {
        let (code, errors) = unharmed(spawn(args, full(), Stdio::piped()), args);
        let said = errors.matches("cannot write to the standard output: No space left on device").count();
        let is_said = (code, said) == (Some(1), 1);
        assert!(is_said || is_timed && said == 0, "{args:?}: {code:?}: {errors}");
        is_said
    });
}

#[test]
fn a_closed_pipe_is_quiet_and_a_full_disk_is_said() {
    let server = server();
    let dir = TempDir::new();
    let url = format!("http://127.0.0.1:{}/a.txt", server.port());
    let port = server.port().to_string();
    let write = |name: &str, text: &str| {
        std::fs::write(dir.path().join(name), text).unwrap();
        dir.path().join(name).display().to_string()
    };
    let result = dir.path().join("r.json").display().to_string();
    printed(&["bench", "-q", "-n", "5", &format!("--json={result}"), &url], 0);
    let scenario = write(
        "s.toml",
        &format!(
            "target = \"http://127.0.0.1:{port}\"\nduration = \"100ms\"\n[[user]]\n[[user.step]]\nrequest = \"GET /a.txt\"\n"
        ),
    );
    let locust = write(
        "l.py",
        "from locust import HttpUser, task\nclass U(HttpUser):\n    @task\n    def t(self):\n        self.client.get(\"/\")\n",
    );
    let conf = write("b.conf", "events { }\nhttp { }\n");
    for args in [
        &["bench", "-n", "10", &url][..],
        &["bench", "-q", "-n", "10", "--json", &url],
        &["bench", "--help"],
        &["bench", "page", &url],
        &["bench", "page", "--json", &url],
        &["bench", "compare", "--help"],
        &["bench", "compare", "--by", "latency", "--pairs", "6", "-d", "20ms", "-w", "0", &url, &url],
        &["bench", "diff", &result, &result],
        &["bench", "schema"],
        &["bench", "import", &locust],
        &["bench", "run", &scenario],
        &["bench", "run", "--json", &scenario],
        &["bench", "run", "--check", &scenario],
        &["siege", "-j", "-b", "-c", "1", "-r", "2", &url],
        &["siege", "-v", "-b", "-c", "1", "-r", "2", &url],
        &["ab", "-n", "10", &url],
        &["ab", "-h"],
        &["wrk", "-c1", "-t1", "-d1s", &url],
        &["httperf", "--server", "127.0.0.1", "--port", &port, "--uri", "/a.txt"],
        &["probe", "--store", "-", &url],
        &["get", &url],
        &["directives"],
        &["variables"],
        &["coverage"],
        &["cache", "--help"],
        &["serve", "--help"],
        &["-T", "-c", &conf],
    ] {
        let well = spawn(args, Stdio::null(), Stdio::piped());
        let (code, _) = unharmed(well, args);
        let (with_closed, errors) = unharmed(spawn(args, closed(), Stdio::piped()), args);
        // Busy machines make the generator late, and a comparison may count nothing.
        let is_load = args.contains(&"-n") || args.contains(&"--by") || args.starts_with(&["bench", "run"]);
        let is_timed = is_load || ["siege", "wrk", "httperf"].contains(&args[0]);
        assert!(with_closed == code || is_timed, "{args:?}: {with_closed:?}, not {code:?}: {errors}");
        assert!(!errors.contains("Broken pipe") && !errors.contains("standard output"), "{args:?}: {errors}");
        said_once(args, is_timed);
        if args.contains(&"bench") || args.contains(&"ab") || args.contains(&"siege") {
            // Nobody hears of progress or errors: the work is done all the same.
            unharmed(spawn(args, Stdio::null(), closed()), args);
            unharmed(spawn(args, Stdio::null(), full()), args);
        }
    }
}

#[test]
fn files_are_written_whatever_becomes_of_the_output() {
    let server = server();
    let url = format!("http://127.0.0.1:{}/a.txt", server.port());
    for stdout in [|| Stdio::from(closed()), || Stdio::from(full())] {
        let dir = TempDir::new();
        let path = |name: &str| dir.path().join(name).display().to_string();
        let options: Vec<String> = ["json", "html", "csv", "prometheus", "raw"]
            .into_iter()
            .map(|kind| format!("--{kind}={}", path(kind)))
            .collect();
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let page = (path("har"), path("svg"));
        let (dat, store) = (path("dat"), path("store"));
        for args in [
            &[&["bench", "-n", "10"], &options[..], &[&url]].concat()[..],
            &["bench", "page", "--har", &page.0, "--svg", &page.1, &url],
            &["ab", "-n", "10", "-g", &dat, &url],
            &["probe", "--store", &store, &url],
        ] {
            unharmed(spawn(args, stdout(), Stdio::piped()), args);
        }
        for name in ["json", "html", "csv", "prometheus", "raw", "har", "svg", "dat", "store"] {
            let length =
                std::fs::metadata(path(name)).unwrap_or_else(|error| panic!("{name}: {error}")).len();
            assert!(length > 50, "{name} has {length} bytes");
        }
    }
}

/// Whoever looks for ever does not go on for a reader who has gone.
#[test]
fn a_probe_ends_with_its_reader() {
    let server = server();
    let url = format!("http://127.0.0.1:{}/a.txt", server.port());
    let args = ["probe", "--store", "-", "--every", "100ms", "--for", "1h", &url];
    let (code, errors) = unharmed(spawn(&args, closed(), Stdio::piped()), &args);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
}

/// Nobody runs a load of an hour for a report that cannot be kept.
#[test]
fn a_file_that_cannot_be_written_is_known_before_the_run() {
    let server = server();
    let dir = TempDir::new();
    let url = format!("http://127.0.0.1:{}/a.txt?file", server.port());
    let scenario = dir.path().join("s.toml").display().to_string();
    let text = format!(
        "target = \"http://127.0.0.1:{}\"\nduration = \"1h\"\n[[user]]\n[[user.step]]\nrequest = \"GET /a.txt?file\"\n",
        server.port()
    );
    std::fs::write(&scenario, text).unwrap();
    const NOWHERE: &str = "/no/such/folder/x";
    let check = |args: &[&str]| {
        let output = run(args);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && errors.contains(NOWHERE), "{args:?}: {errors}");
    };
    for kind in ["--json", "--html", "--csv", "--prometheus", "--raw"] {
        check(&["bench", "-d", "1h", &format!("{kind}={NOWHERE}"), &url]);
    }
    check(&["bench", "run", "--html", NOWHERE, &scenario]);
    check(&["bench", "page", "--har", NOWHERE, &url]);
    check(&["bench", "page", "--svg", NOWHERE, &url]);
    check(&["probe", "--for", "1h", "--store", NOWHERE, &url]);
    check(&["get", "-o", NOWHERE, &url]);
    check(&["siege", "-t1H", &format!("--log={NOWHERE}"), &url]);
    check(&["ab", "-g", NOWHERE, &url]);
    assert!(!server.access_log().contains("?file"), "nothing was asked for");
    // What an earlier run has left stays until there is something new.
    let kept = dir.path().join("kept");
    std::fs::write(&kept, "an earlier report").unwrap();
    let output = run(&["bench", "-n", "1", "--html", kept.to_str().unwrap(), "--csv", NOWHERE, &url]);
    assert_eq!(
        (output.status.code(), std::fs::read_to_string(&kept).unwrap()),
        (Some(1), "an earlier report".into())
    );
}
