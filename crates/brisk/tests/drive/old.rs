//! The old names beside the real tools: the same layout, numbers masked.

use super::*;

/// Runs the real tool.
pub fn real(tool: &str, args: &[&str]) -> String {
    let home = TempDir::new();
    // siege writes this at its first call, and does nothing else then.
    home.write(".siege/siege.conf", "");
    let output = Command::new(tool).args(args).env("HOME", home.path()).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{tool}, which scripts/setup.sh installs: {error}"));
    if tool == "siege" { both(&output) } else { String::from_utf8_lossy(&output.stdout).into_owned() }
}

/// Output and errors: siege's report is among the latter.
fn both(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// Numbers with their units, and the width of columns, are not what is compared.
fn masked(text: &str) -> Vec<String> {
    let number = Regex::new(r"\d+(\.\d+)?(us|ms|[kKMG]?B|[smkKMG])?").unwrap();
    let spaces = Regex::new(r"[ \t]+").unwrap();
    let mask = |line: &str| spaces.replace_all(&number.replace_all(line, "#"), " ").trim().to_owned();
    text.lines().map(mask).collect()
}

/// Lines from the first that begins so.
fn from(text: &str, begin: &str) -> String {
    let at = text.find(begin).unwrap_or_else(|| panic!("no \"{begin}\" in {text}"));
    text[at..].to_owned()
}

fn compare(ours: &str, theirs: &str) {
    // What ab says of the figures themselves.
    let figures = |line: &String| {
        !line.starts_with("WARNING")
            && !line.starts_with("ERROR")
            && !line.contains("NOT reliable")
            && !line.contains("probably not that reliable")
    };
    let keep = |text: &str| masked(text).into_iter().filter(figures).collect::<Vec<_>>();
    assert_eq!(keep(ours), keep(theirs), "ours:\n{ours}\ntheirs:\n{theirs}");
}

#[test]
fn ab_prints_and_writes_what_ab_does() {
    let server = server();
    let dir = TempDir::new();
    let url = format!("http://127.0.0.1:{}/a.txt", server.port());
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let post = path("post");
    std::fs::write(&post, "a=1").unwrap();
    let login = format!("http://127.0.0.1:{}/login", server.port());
    let down = format!("http://127.0.0.1:{}/down", server.port());
    for args in [
        &["-n", "200", "-c", "10", &url][..],
        &["-n", "100", "-c", "5", "-k", "-q", &url],
        &["-n", "20", "-i", "-d", "-S", &url],
        &["-n", "20", "-p", &post, "-T", "text/plain", "-l", &login],
        &["-n", "20", &down],
        &["-n", "20", "-w", "-x", "border=1", &url],
    ] {
        let begin = if args.contains(&"-w") { "<table" } else { "Server Software" };
        let ours = printed(&[&["ab"], args].concat(), 0);
        compare(&from(&ours, begin), &from(&real("ab", args), begin));
    }
    let (ours, theirs) = ([path("o.dat"), path("o.csv")], [path("t.dat"), path("t.csv")]);
    printed(&["ab", "-q", "-n", "50", "-c", "2", "-g", &ours[0], "-e", &ours[1], &url], 0);
    real("ab", &["-q", "-n", "50", "-c", "2", "-g", &theirs[0], "-e", &theirs[1], &url]);
    let shape = |path: &str| {
        let text = std::fs::read_to_string(path).unwrap();
        let number = Regex::new(r"\d+(\.\d+)?").unwrap();
        let day = Regex::new("(Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z]{2}").unwrap();
        text.lines()
            .map(|line| day.replace(&number.replace_all(line, "#"), "DAY").into_owned())
            .collect::<Vec<_>>()
    };
    for at in 0..2 {
        assert_eq!(shape(&ours[at]), shape(&theirs[at]));
    }
    assert_eq!(server.access_log().matches("Brisk").count(), 0, "ab's own User-Agent is sent");
    printed(&["ab", "-n", "5", "http://127.0.0.1:1/"], 111);
}

#[test]
fn wrk_prints_what_wrk_does() {
    let server = server();
    let url = format!("http://127.0.0.1:{}/a.txt", server.port());
    let down = format!("http://127.0.0.1:{}/down", server.port());
    for args in [&["-t2", "-c8", "-d1s", "--latency", &url][..], &["-t", "1", "-c", "2", "-d", "1", &down]] {
        compare(&printed(&[&["wrk"], args].concat(), 0), &real("wrk", args));
    }
    let refused = run(&["wrk", "-s", "x.lua", &url]);
    assert!(refused.status.code() == Some(1) && String::from_utf8_lossy(&refused.stderr).contains("Lua"));
}

#[test]
fn siege_prints_what_siege_does() {
    let server = server();
    let dir = TempDir::new();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (rc, urls) = (path("rc"), path("urls.txt"));
    std::fs::write(&rc, "json_output = false\nverbose = false\nlogging = false\nparser = false\n").unwrap();
    std::fs::write(
        &urls,
        format!(
            "# pages\nHOST=127.0.0.1:{}\nhttp://$(HOST)/a.txt\nhttp://$(HOST)/login POST a=1\n",
            server.port()
        ),
    )
    .unwrap();
    let url = format!("http://127.0.0.1:{}/a.txt", server.port());
    for args in [
        &["-R", &rc, "-b", "-c2", "-r3", &url][..],
        &["-R", &rc, "-b", "-c1", "-r4", "-f", &urls],
        &["-R", &rc, "-b", "-c", "2", "-t", "1s", "-i", "-f", &urls],
    ] {
        let ours = both(&run(&[&["siege"], args].concat()));
        // The banner has a version, and tells of users who prepare.
        let begin = "The server is now under siege...";
        compare(from(&ours, begin).trim_end(), from(&real("siege", args), begin).trim_end());
        assert_eq!(ours.contains("\nLifting the server siege...\n"), args.contains(&"-t"), "{ours}");
    }
    let args = ["-R", &rc, "-b", "-j", "-c2", "-r3", &url];
    let json = |text: &str| from(text, "{")[..=from(text, "{").find('}').unwrap()].to_owned();
    let (ours, theirs) = (printed(&[&["siege"][..], &args].concat(), 0), json(&real("siege", &args)));
    let keys = |text: &str| {
        let json: serde_json::Map<String, Value> = serde_json::from_str(text).unwrap();
        json.keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(keys(&ours), keys(&theirs));
    assert_eq!(masked(ours.trim()), masked(theirs.trim()));
    // Users ask at once, and are delayed from then on.
    let delayed = ["-R", &rc, "-j", "-c20", "-d100", "-t1s", &url];
    for said in [both(&run(&[&["siege"][..], &delayed].concat())), real("siege", &delayed)] {
        let json: Value = serde_json::from_str(&json(&said)).unwrap();
        assert!((20..24).contains(&json["transactions"].as_u64().unwrap()), "{said}");
    }
    // Cookies that answers set are sent back, unless that is turned off.
    let (enter, agent) = (format!("http://127.0.0.1:{}/need", server.port()), "Authorization: Bearer t0k");
    for (cookies, wanted) in [("true", 1), ("false", 0)] {
        let rc = path("cookies");
        std::fs::write(&rc, format!("cookies = {cookies}\nverbose = false\nparser = false\n")).unwrap();
        let json = printed(&["siege", "-R", &rc, "-j", "-b", "-c1", "-r1", "-H", agent, &enter], 0);
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["successful_transactions"], 1 + wanted, "{cookies}: {json}");
    }
    // Glued values, the page parser, a log.
    let log = path("siege.log");
    let page = format!("http://127.0.0.1:{}/", server.port());
    let json: Value =
        serde_json::from_str(&printed(&["siege", "-j", "-b", "-c1", "-r1", &format!("-l{log}"), &page], 0))
            .unwrap();
    assert_eq!((&json["transactions"], &json["successful_transactions"]), (&5.into(), &4.into()));
    assert_eq!(std::fs::read_to_string(log).unwrap().lines().count(), 2);
}

/// The names are those of links as well.
#[test]
fn links_of_the_old_names() {
    let server = server();
    let dir = TempDir::new();
    let url = format!("http://127.0.0.1:{}/a.txt", server.port());
    for (name, args, want, (flag, named)) in [
        ("ab", &["-n", "20", "-c", "2"][..], "Complete requests:      20", ("-J", "'J'")),
        ("wrk", &["-t1", "-c2", "-d1s", "--latency"], "Latency Distribution", ("--frob", "--frob")),
        ("siege", &["-b", "-c2", "-r3"], "Availability:", ("--frob", "--frob")),
    ] {
        let link = dir.path().join(name);
        std::os::unix::fs::symlink(BIN, &link).unwrap();
        let output = Command::new(&link).args(args).arg(&url).env("HOME", dir.path()).output().unwrap();
        let text = both(&output);
        assert!(output.status.success() && text.contains(want), "{name}: {text}");
        let unknown = Command::new(&link).args([flag, &url]).output().unwrap();
        let text = both(&unknown);
        assert!(!unknown.status.success() && text.contains(named), "{name}: {text}");
    }
}

/// Also when the program is called by that name. httperf itself gives up beyond 30,000.
#[test]
fn httperf_prints_what_httperf_does_and_takes_forty_thousand() {
    let server = server();
    let dir = TempDir::new();
    let link = dir.path().join("httperf");
    std::os::unix::fs::symlink(BIN, &link).unwrap();
    let port = server.port().to_string();
    let ours = |args: &[&str]| {
        let output = Command::new(&link).args(args).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let common = [
        "--hog",
        "--server",
        "127.0.0.1",
        "--port",
        &port,
        "--uri",
        "/a.txt",
        "--send-buffer",
        "4096",
        "--recv-buffer",
        "16384",
    ];
    for more in [
        &["--num-conns", "100", "--num-calls", "1"][..],
        &["--num-conns", "100", "--num-calls", "3", "--rate", "400"],
        &["--timeout", "2"],
    ] {
        let args = [&common[..], more].concat();
        compare(&ours(&args), &real("httperf", &args));
    }
    // The second, at a rate: more than a process may have open in many places.
    for (count, rate) in [("40000", &[][..]), ("21000", &["--rate", "2000"])] {
        let text = ours(&[&common[..], &["--num-conns", count, "--num-calls", "1"], rate].concat());
        let total = format!("Total: connections {count} requests {count} replies {count} ");
        assert!(text.contains(&total) && text.contains("Errors: total 0 "), "{text}");
    }
    let refused = run(&["httperf", "--wsess=1,1,1"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--wsess"));
}
