//! `brisk bench` from its command line, against a server.

#[path = "bench/compare.rs"]
mod compare;
#[path = "bench/http3.rs"]
mod http3;
#[path = "bench/printed.rs"]
mod printed;
#[path = "bench/promises.rs"]
mod promises;
#[path = "bench/proxy.rs"]
mod proxy;
#[path = "bench/terminal.rs"]
mod terminal;
#[path = "bench/watch.rs"]
mod watch;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use brisk_testkit::{Builder, PhpFpm, Server, browser, wait};
use serde_json::Value;

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

fn server() -> Server {
    Builder::new(BIN)
        .http(
            r#"
            limit_req_zone $binary_remote_addr zone=few:1m rate=200r/s;
            limit_req_zone $binary_remote_addr zone=paced:1m rate=200r/s;
            ssl_certificate {{DIR}}/a.crt;
            ssl_certificate_key {{DIR}}/a.key;
            server {
                listen 127.0.0.1:{{PORT}};
                listen 127.0.0.1:{{PORT2}} ssl;
                listen unix:{{DIR}}/s.sock;
                http2 on;
                location /limited { limit_req zone=few burst=20 nodelay; try_files /a.txt =404; }
                location /paced { limit_req zone=paced burst=1000; try_files /a.txt =404; }
                location /upload { client_max_body_size 10m; return 200 "$content_length $http_cookie"; }
                location /slow { limit_rate 100; try_files /k.txt =404; }
                location /login { add_header Set-Cookie "sid=s1; Path=/"; return 200 hello; }
                location /me { if ($http_cookie != "a=1; sid=s1") { return 403; } return 200 hello; }
                location / { }
            }"#,
        )
        .file("html/a.txt", "a".repeat(100))
        .file("html/k.txt", "k".repeat(300))
        .certificate("localhost")
        .start()
}

fn bench(args: &[&str]) -> Output {
    Command::new(BIN).arg("bench").args(args).stdin(Stdio::null()).output().unwrap()
}

/// A run's figures; it must have ended well. On a machine that is busy with other tests the generator may be late, and says
/// so.
fn figures(args: &[&str]) -> Value {
    let output = bench(&[&["-q", "--json"], args].concat());
    let all: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{args:?}: {output:?}"));
    let is_late = all["invalid"].as_str().is_some_and(|why| why.contains("was late"));
    assert!(output.status.success() || is_late, "{args:?}: {output:?}");
    all
}

#[test]
fn every_protocol_and_way_to_connect() {
    let server = server();
    let (plain, secure) = (
        format!("http://127.0.0.1:{}/a.txt", server.port()),
        format!("https://127.0.0.1:{}/a.txt", server.port_of(2)),
    );
    let check = |args: &[&str], connects: u64, resumed: Option<u64>| {
        let all = figures(&[&["-n", "120", "-c", "6", "-t", "2"], args].concat());
        assert_eq!((&all["responses"], &all["non_2xx"]), (&120.into(), &0.into()), "{args:?}: {all}");
        // One that is being made when the last request is sent is not used.
        let made = all["connects"].as_u64().unwrap();
        assert!((connects..=connects + 6).contains(&made), "{args:?}: {made}");
        assert!(all["errors"].as_object().unwrap().values().all(|count| *count == 0), "{args:?}: {all}");
        if let Some(resumed) = resumed {
            assert_eq!(all["resumed"].as_u64() > Some(0), resumed > 0, "{args:?}: {all}");
        }
    };
    check(&[&plain], 6, None);
    check(&["-p", "5", &plain], 6, None);
    check(&["-m", "10", &plain], 6, None);
    check(&["--no-keepalive", &plain], 120, None);
    check(&[&secure], 6, None);
    check(&["--http2", &secure], 6, None);
    check(&["--no-keepalive", &secure], 120, Some(1));
    check(&["--no-keepalive", "--no-resumption", &secure], 120, Some(0));
    check(&["--think", "1ms..2ms", &plain], 6, None);
    check(&["-t", "6", "-p", "3", &plain], 6, None);
    check(&["-t", "3", &format!("http://unix:{}/s.sock:/a.txt", server.dir().display())], 6, None);
    check(&["-t", "3", "--rate", "100..1000/300ms", &plain], 6, None);
    check(&["--rate", "500", "-m", "4", &secure], 6, None);
}

#[test]
fn requests_are_what_was_asked_for() {
    let server = server();
    let file = server.write("up.bin", vec![b'x'; 200_000]);
    let url = format!("http://127.0.0.1:{}/upload", server.port());
    let check = |args: &[&str], method: &str| {
        let all = figures(&[&["-n", "4", "-c", "1", &url], args].concat());
        assert_eq!((&all["responses"], &all["non_2xx"]), (&4.into(), &0.into()), "{args:?}");
        let log = server.access_log();
        let last = log.lines().last().unwrap();
        assert!(last.contains(&format!("\"{method} /upload")), "{last}");
    };
    check(&["-X", "DELETE"], "DELETE");
    check(&["--request", "DELETE"], "DELETE");
    check(&["--data", "a=b"], "POST");
    check(&["--body", "abc", "-H", "Content-Type: text/plain"], "POST");
    check(&["-T", file.to_str().unwrap()], "PUT");
    check(&["-2", "-T", file.to_str().unwrap()], "PUT");
    check(&["-F", "a=1", "-F", &format!("f=@{}", file.display()), "-b", "x=y"], "POST");
}

#[test]
fn cookies_that_answers_set_are_sent_back() {
    let server = server();
    let url = |path: &str| format!("http://127.0.0.1:{}{path}", server.port());
    let secure = |path: &str| format!("https://127.0.0.1:{}{path}", server.port_of(2));
    let refused = |args: &[&str]| {
        let all = figures(&[&["-n", "20", "-c", "1", "-b", "a=1"], args].concat());
        assert_eq!(all["responses"], 20, "{all}");
        all["non_2xx"].as_u64().unwrap()
    };
    let (login, me) = (url("/login"), url("/me"));
    assert_eq!(refused(&[&login, &me]), 10);
    assert_eq!(refused(&["--jar", &login, &me]), 0);
    assert_eq!(refused(&["--jar", "--no-keepalive", &login, &me]), 0, "a user keeps them");
    assert_eq!(refused(&["--jar", "--http2", &secure("/login"), &secure("/me")]), 0);
    let file = server.write("up.bin", vec![b'x'; 200_000]);
    let file = file.to_str().unwrap();
    let upload = format!("http://127.0.0.1:{}/upload", server.port());
    assert_eq!(refused(&["--jar", "-T", file, &upload]), 0, "beside a body that is sent in pieces");
}

/// The course with what the tier `server` did.
fn look_at_rows(csv: &str) {
    let mut rows = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = rows.next().unwrap();
    let column = |name: &str| head.iter().position(|have| *have == name).expect(name);
    let (cpus, cost, memory) =
        (column("server_cpus"), column("server_cpu_us_per_response"), column("server_pss_bytes"));
    let (switches, pressure) = (column("server_switches_per_second"), column("pressure_cpu"));
    column("listen_drops");
    let rows: Vec<_> = rows.collect();
    let number = |row: &[&str], at: usize| row[at].parse::<f64>().unwrap();
    assert!(rows.len() > 10 && rows.iter().all(|row| row.len() == head.len()), "{csv}");
    assert!(rows.iter().any(|row| number(row, cpus) > 0.0 && number(row, cost) > 0.0), "{csv}");
    assert!(rows.iter().all(|row| number(row, memory) > 1e6), "{csv}");
    assert!(rows.iter().any(|row| number(row, switches) > 0.0), "{csv}");
    assert!(rows.iter().all(|row| (0.0..=1.1).contains(&number(row, pressure))), "{csv}");
}

/// All charts that show time show the same.
fn look_at_axes(page: &str) {
    let ticks = |chart: &str| -> Vec<String> {
        let ticks = chart.split("<text class=\"xt\"").skip(1);
        ticks.map(|tick| tick.split_once("</text>").unwrap().0.to_owned()).collect()
    };
    let mut over_time: Vec<_> =
        page.split("<svg").filter(|chart| chart.contains(">seconds<")).map(ticks).collect();
    assert_eq!(over_time.len(), 4 * 7);
    over_time.dedup();
    assert_eq!(over_time.len(), 1, "{over_time:?}");
}

/// There is no number where it cannot be told.
fn look_at_limit(limit: &Value) {
    let is_told = limit["full"].is_string() || limit["doubt"].is_null();
    assert_eq!(limit["headroom"].as_f64() >= Some(1.0), is_told, "{limit}");
}

#[test]
fn a_sweep_with_all_its_reports() {
    let server = server();
    let file = |name: &str| server.dir().join(name).display().to_string();
    let (html, csv, json, prom) = (file("r.html"), file("r.csv"), file("r.json"), file("r.prom"));
    let watch = format!("server={}", server.pid());
    let url = format!("http://127.0.0.1:{}/a.txt", server.port());
    let json_file = format!("--json={json}");
    let output = bench(&[
        "--users",
        "1,2,4,8",
        "-d",
        "400ms",
        "--watch",
        &watch,
        "--html",
        &html,
        "--csv",
        &csv,
        &json_file,
        "--prometheus",
        &prom,
        &url,
    ]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("8 users") && text.contains("highest rate measured"), "{text}");
    printed::look_at_sweep(&text);
    // Not a terminal: plain lines, without escapes.
    assert!(!String::from_utf8_lossy(&output.stderr).contains('\x1b'));
    let all: Value = serde_json::from_str(&server.read("r.json")).unwrap();
    assert_eq!(all["runs"].as_array().unwrap().len(), 4);
    assert_eq!(all["sweep"]["points"].as_array().unwrap().len(), 4);
    for run in all["runs"].as_array().unwrap() {
        let cpu = run["tiers"]["server"]["cpu_us_per_response"].as_f64().unwrap();
        assert!(cpu > 0.0 && run["tiers"]["server"]["pss_bytes"].as_f64().unwrap() > 1e6, "{run}");
        let looks = run["watched"].as_array().unwrap();
        assert!(looks.iter().any(|look| look["tiers"]["server"]["cpus"].as_f64() > Some(0.0)), "{run}");
        assert!(looks.iter().any(|look| look["tiers"]["server"]["switches"].as_u64() > Some(0)), "{run}");
        assert!(looks.iter().all(|look| look["machine"]["pressure_cpu"].is_number()), "{run}");
        // It is lower where the generator itself waits for a CPU between an answer and the next request.
        let little = run["little"].as_f64().unwrap();
        assert!((0.2..=1.3).contains(&little), "rate × latency / users is {little}");
        look_at_limit(&run["limit"]);
        assert!(run["requests_per_day"].as_f64() > Some(0.0), "{run}");
    }
    look_at_rows(&server.read("r.csv"));
    let page = server.read("r.html");
    for part in [" a day, ", "Machine: CPUs", "Context switches", "Somebody waited", "Sockets in trouble"] {
        assert!(page.contains(part), "{part}");
    }
    look_at_axes(&page);
    assert!(server.read("r.prom").contains("brisk_bench_responses_per_second{run=\"4 users\"}"));
    browser::look_at_report(Path::new(&html), &server.dir().join("profile"), 5);
    let diff = bench(&["diff", &json, &json]);
    assert!(String::from_utf8_lossy(&diff.stdout).contains("proves little"), "{diff:?}");
}

/// PHP behind the server, by its pool; and a server that is none of ours, by its port.
#[test]
fn each_tier_is_accounted_for() {
    let php = PhpFpm::tcp(2);
    php.script("work.php", "<?php for ($i = 0; $i < 20000; $i++) { $x = md5($i); } echo 'ok';");
    let params = include_str!("../../../packaging/fastcgi.conf");
    let server = Builder::new(BIN)
        .http(&format!(
            "server {{ listen 127.0.0.1:{{{{PORT}}}}; root {}; location / {{ {params} fastcgi_pass {}; }} }}",
            php.dir().display(),
            php.address()
        ))
        .start();
    let url = format!("http://127.0.0.1:{}/work.php", server.port());
    let watch = format!(
        "server={},php=pool:{},fpm=port:{}",
        server.pid(),
        php.pool(),
        php.address().rsplit(':').next().unwrap()
    );
    let all = figures(&["-c", "2", "-d", "1s", "--watch", &watch, &url]);
    let of = |tier: &str, figure: &str| all["tiers"][tier][figure].as_f64().unwrap();
    assert!(all["responses"].as_u64() > Some(10) && all["non_2xx"] == 0, "{all}");
    // Thousands of sums against one small answer.
    assert!(of("php", "cpu_us_per_response") > 3.0 * of("server", "cpu_us_per_response"), "{all}");
    assert!(of("php", "processes") >= 2.0 && of("php", "pss_bytes_per_process") > 1e6, "{all}");
    // A process counts once: of the listening socket's those that the pool does not have.
    assert!(of("fpm", "processes") >= 1.0, "the one above them: {all}");
    assert!(all["machine"]["busy_share"].as_f64() > Some(0.0), "{all}");
    look_at_limit(&all["limit"]);

    let port = brisk_testkit::ports::claim();
    let mut other = Command::new("python3")
        .args(["-m", "http.server", "--bind", "127.0.0.1", &port.number.to_string()])
        .current_dir(php.dir())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait::holds("another server", || std::net::TcpStream::connect(("127.0.0.1", port.number)).is_ok());
    let url = format!("http://127.0.0.1:{}/work.php", port.number);
    let all = figures(&["-c", "2", "-d", "1s", "--watch", &format!("web=port:{}", port.number), &url]);
    let _ = other.kill();
    let _ = other.wait();
    assert!(all["tiers"]["web"]["cpu_us_per_response"].as_f64() > Some(20.0), "{all}");
}

/// The page is there while the run lasts, and shows how it goes.
#[test]
fn a_run_is_seen_in_a_browser() {
    let server = server();
    let url = format!("http://127.0.0.1:{}/a.txt", server.port());
    let raw = server.dir().join("raw");
    let mut child = Command::new(BIN)
        .args(["bench", "--web=127.0.0.1:0", "--json", "--rate", "100", "-d", "6s", "--raw"])
        .args([raw.to_str().unwrap(), &url])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let said = lines.next().unwrap();
    let address =
        said.strip_prefix("watch it at http://").and_then(|rest| rest.strip_suffix('/')).expect(&said);
    let port: u16 = address.rsplit(':').next().unwrap().parse().unwrap();
    let get = |path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
        brisk_testkit::Client::connect(port).request(request).text()
    };
    assert!(get("/").contains("<script>"));
    wait::holds("the run's course", || get("/live").contains("<svg"));
    let output = child.wait_with_output().unwrap();
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    // A line for each response.
    let log = std::fs::read_to_string(raw).unwrap();
    assert_eq!(log.lines().count() as u64 - 1, all["responses"].as_u64().unwrap());
    assert!(all["responses"].as_u64().unwrap() + all["unsent"].as_u64().unwrap() >= 595, "{all}");
}

/// Answers that are none, from the command line: by kind, and the exit code says that nothing was measured.
#[test]
fn what_is_no_answer_is_no_success() {
    for (answer, kind) in [
        (&b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"[..], "truncated"),
        (b"nonsense\r\n\r\n", "protocol"),
        (b"", "closed"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(answer);
            }
        });
        let output = bench(&["-q", "--json", "-n", "10", "-c", "2", &url]);
        let all: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(
            (output.status.code(), &all["responses"], &all["errors"][kind]),
            (Some(2), &0.into(), &10.into())
        );
    }
    let output = bench(&["-n", "1", "http://nobody.invalid/"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && text.contains("no address for nobody.invalid"), "{text}");
}

/// Whoever asks for more than its connections can carry is told that this is not the server's latency.
#[test]
fn a_generator_that_cannot_keep_up_says_so() {
    let server = server();
    let slow = format!("http://127.0.0.1:{}/slow", server.port());
    let output =
        bench(&["-q", "--json", "--rate", "500", "-c", "1", "-d", "500ms", "--timeout", "1s", &slow]);
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(2), "{all}");
    assert!(all["unsent"].as_u64() > Some(0) && all["invalid"].as_str().is_some(), "{all}");
    let text = bench(&["-q", "--rate", "500", "-c", "1", "-d", "500ms", "--timeout", "1s", &slow]).stdout;
    let text = String::from_utf8_lossy(&text);
    assert!(text.contains("INVALID: ") && !text.contains("could not be sent: 0"), "{text}");
}

/// Half of the users are answered at once, the others never: the promise is not kept, however many the quick ones are.
#[test]
fn who_is_never_answered_is_not_forgotten_at_the_end() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for (number, mut stream) in listener.incoming().flatten().enumerate() {
            std::thread::spawn(move || {
                while stream.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {
                    if number % 2 == 0 && stream.write_all(b"HTTP/1.1 204 No\r\n\r\n").is_err() {
                        return;
                    }
                }
            });
        }
    });
    let slo = ["--slo", "p99<5s,errors<5%", "--timeout", "1s", "-d", "500ms", "-c", "8"];
    let output = bench(&[&["-q", "--json", &url], &slo[..]].concat());
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &all["errors"]["timeout"]), (Some(3), &4.into()), "{all}");
    assert_eq!((&all["verdict"], &all["promises"][1]["holds"]), (&"broken".into(), &false.into()), "{all}");
    assert_eq!(all["under_way_at_end"]["requests"], 8, "{all}");
    let said = all["promises"][1]["seen"].as_str().unwrap();
    assert!(said.contains("% of the users' time") || said.contains("requests failed"), "{said}");
    let notes = all["warnings"].to_string();
    assert!(notes.contains("requests without an answer (timeout 4) took"), "{notes}");
}

/// A number and a time: whichever comes first.
#[test]
fn a_number_and_a_time_both_end_a_run() {
    let server = server();
    let url = format!("http://127.0.0.1:{}/a.txt", server.port());
    for args in [["-n", "20", "-d", "1h"], ["-d", "1h", "-n", "20"]] {
        let all = figures(&[&["-c", "3", "-t", "2", &url], &args[..]].concat());
        assert_eq!(
            (&all["responses"], &all["responses_in_time"]),
            (&20.into(), &20.into()),
            "{args:?}: {all}"
        );
    }
    let all = figures(&["-c", "2", "-d", "300ms", "-n", "1000000000", &url]);
    assert!(all["responses"].as_u64() > Some(0) && all["ended_early"] == false, "{all}");
    // A thread's time begins with its first request, a moment after the run's.
    assert!((0.29..30.0).contains(&all["seconds"].as_f64().unwrap()), "{all}");
    let all = figures(&["-c", "2", "-d", "1h", "-n", "30", "--rate", "300", &url]);
    assert_eq!(all["responses"], 30, "{all}");
}

/// A server that turns everybody away at once is not a quick one.
#[test]
fn refusals_are_no_success() {
    let server = server();
    let url = format!("http://127.0.0.1:{}/me", server.port());
    let check = |args: &[&str], want: &[&str]| {
        let output = bench(&[&["-q", "-c", "2", &url], args].concat());
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        let code = if args.contains(&"--slo") { 3 } else { 2 };
        assert_eq!(output.status.code(), Some(code), "{args:?}: {text}");
        want.iter().for_each(|part| assert!(text.contains(part), "{args:?}: no {part:?} in {text}"));
    };
    check(&["-n", "20"], &["successful: 0 in time, 0/s; answered 4xx or 5xx: 20", "4xx, 5xx  ms: mean "]);
    check(&["-n", "20", "--slo", "p99<5s"], &["DOES NOT HOLD: p99<5s  (nothing was answered with success)"]);
    let nothing = "nothing was answered with success, whatever the number of users";
    check(&["--users", "1,2", "-d", "200ms"], &["good/s", " 0.0 ", "100.00%", nothing]);
    check(&["--json", "-n", "20"], &["\"refusals_us\":{", "\"good_responses_per_second\":0.0"]);
}

/// All was over before the count began: no rate can be made of that.
#[test]
fn a_run_within_its_warm_up_says_that_nothing_was_counted() {
    let server = server();
    let url = format!("http://127.0.0.1:{}/a.txt", server.port());
    let output = bench(&["-q", "-n", "5", "-c", "1", "--warmup", "1h", &url]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("INVALID: nothing was counted") && text.contains("0 responses"), "{text}");
    assert!(text.contains(": 0/s"), "{text}");
}

/// On a terminal the run is drawn: a bar with the time left, the rate with its course, percentiles, errors.
#[test]
fn a_terminal_shows_the_run() {
    let server = server();
    let line = format!("{BIN} bench -d 1s http://127.0.0.1:{}/a.txt", server.port());
    let output = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .env("TERM", "xterm")
        .stdin(Stdio::null())
        .output();
    let output = output.unwrap_or_else(|error| panic!("script, of bsdutils: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for part in
        ["\x1b[32m", "s left", "%", "/s  ", "latency  \x1b[36mp50", "errors   \x1b[32mnone", "responses in"]
    {
        assert!(text.contains(part), "{part:?}: {text}");
    }
    let plain = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let plain = String::from_utf8_lossy(&plain.stdout).into_owned();
    assert!(plain.contains("latency  p50") && !plain.contains("\x1b[3"), "{plain}");
}

/// Each connection answers so many requests, the last of which says nothing of its end, and closes when it is asked again.
fn closes_without_notice(answers: usize) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let mut room = [0; 4096];
                for _ in 0..answers {
                    let Ok(1..) = client.read(&mut room) else { return };
                    let _ = client.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
                }
                // The next request has come, and finds the connection closed.
                let _ = client.read(&mut room);
            });
        }
    });
    port
}

#[test]
fn what_a_closed_connection_has_lost_is_asked_once_again_and_counted() {
    let url = format!("http://127.0.0.1:{}/", closes_without_notice(3));
    let all = figures(&["-n", "60", "-c", "2", &url]);
    assert_eq!((&all["responses"], &all["non_2xx"]), (&60.into(), &0.into()), "{all}");
    assert!(all["errors"].as_object().unwrap().values().all(|count| *count == 0), "{all}");
    // Three answers per connection, then one request that is lost with it; the last of each user may end with the run.
    let again = all["asked_again"].as_u64().unwrap();
    assert!((18..=20).contains(&again), "{all}");
    let text = String::from_utf8_lossy(&bench(&["-q", "-n", "10", "-c", "1", &url]).stdout).into_owned();
    assert!(
        text.contains("asked once again, for the server closed a kept connection without notice: 3"),
        "{text}"
    );
    // What must not be asked twice is an error (RFC 9110 §9.2.2).
    let all = figures(&["-n", "8", "-c", "1", "-X", "POST", &url]);
    assert_eq!((&all["asked_again"], &all["errors"]["closed"]), (&0.into(), &2.into()), "{all}");
}

/// Requests that come independently of each other: as many as the rate says, and not at one distance.
#[test]
fn requests_of_an_open_loop_come_as_they_are_told() {
    let server = server();
    let raw = server.dir().join("raw.csv");
    let url = format!("http://127.0.0.1:{}/a.txt", server.port());
    let due = |how: &str| -> Vec<f64> {
        let file = format!("--raw={}", raw.display());
        // As many connections as a busy machine may need: what finds none is not sent, and not in the log.
        let args = ["--rate", "200", "--arrivals", how, "-d", "2s", "-c", "200", &file, &url];
        let all = figures(&args);
        let count = all["responses"].as_u64().unwrap();
        assert!(
            if how == "poisson" { (300..=500).contains(&count) } else { (398..=402).contains(&count) },
            "{how}: {all}"
        );
        let text = std::fs::read_to_string(&raw).unwrap();
        let times =
            text.lines().skip(1).map(|row| row.split(',').next().unwrap().parse::<f64>().unwrap() / 1e6);
        let mut times: Vec<f64> = times.collect();
        times.sort_by(f64::total_cmp);
        times
    };
    // The deviation of the distances, as a part of their mean: 0 of those that are the same, 1 of a Poisson process.
    let scatter = |times: &[f64]| {
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt() / mean
    };
    let (even, free) = (scatter(&due("constant")), scatter(&due("poisson")));
    assert!(even < 0.05 && (0.75..1.3).contains(&free), "{even} and {free}");
    let wrong = bench(&["--arrivals", "poisson", &url]);
    assert!(
        wrong.status.code() == Some(1) && String::from_utf8_lossy(&wrong.stderr).contains("--rate"),
        "{wrong:?}"
    );
}

#[test]
fn ctrl_c_ends_it_with_the_report_so_far() {
    let server = server();
    let url = format!("http://127.0.0.1:{}/a.txt", server.port());
    let mut child = Command::new(BIN)
        .args(["bench", "--json", "-d", "10m", &url])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut progress = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(progress.next().unwrap().unwrap().contains("p99"));
    let pid = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(all["responses"].as_u64().unwrap() > 0 && all["ended_early"] == true, "{all}");
}

/// The first failure of TLS is told with its reason, by every way to fail.
#[test]
fn tls_failures_have_a_reason() {
    let server = server();
    let check = |args: &[&str], want: &str| {
        let output = bench(&[&["-q", "-n", "5", "-c", "1"], args].concat());
        let text = String::from_utf8_lossy(&output.stdout);
        let line = text
            .lines()
            .find(|line| line.starts_with("  tls: 5 ("))
            .unwrap_or_else(|| panic!("{args:?}: {output:?}"));
        assert!(output.status.code() == Some(2) && line.contains(want), "{args:?}: {line}");
        let output = bench(&[&["-q", "--json", "-n", "5", "-c", "1"], args].concat());
        let all: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(all["tls_failure"].as_str().unwrap().contains(want), "{args:?}: {all}");
    };
    // Plain HTTP where TLS is asked for, and one that closes.
    check(&[&format!("https://127.0.0.1:{}/", server.port())], "SSL: error:");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let closing = format!("https://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
        }
    });
    check(&[&closing], "closed the connection in the handshake");
    let well = figures(&["-n", "5", &format!("https://127.0.0.1:{}/a.txt", server.port_of(2))]);
    assert_eq!(well["tls_failure"], Value::Null);
}

/// Whoever asks for help finds every command, and each has its own.
#[test]
fn help_names_every_command() {
    let help = String::from_utf8(bench(&["--help"]).stdout).unwrap();
    for name in ["compare", "diff", "run", "import", "page"] {
        assert!(help.contains(&format!("\n  {name} ")), "{name}: {help}");
        let own = bench(&[name, "--help"]);
        let text = String::from_utf8_lossy(&own.stdout);
        assert!(own.status.success() && text.contains(&format!("\nUsage: brisk bench {name} ")), "{own:?}");
        assert_eq!(bench(&[name, "--frobnicate"]).status.code(), Some(1), "{name}");
    }
    assert!(help.contains("\n  schema ") && bench(&["schema"]).status.success());
}

#[test]
fn what_cannot_be_done_is_said() {
    let said = |args: &[&str], code: i32, want: &str| {
        let output = bench(args);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(code) && text.contains(want), "{args:?}: {text}");
    };
    // Wrong usage.
    let check = |args: &[&str], want: &str| said(args, 1, want);
    check(&[], "no URL given");
    check(&["ftp://x/"], "only http:// and https://");
    check(&["--frobnicate", "http://127.0.0.1:1/"], "unexpected argument '--frobnicate' found");
    check(&["-d", "soon", "http://127.0.0.1:1/"], "is not a time");
    check(&["-c", "0", "http://127.0.0.1:1/"], "between 1 and");
    check(&["--find-max", "http://127.0.0.1:1/"], "--find-max needs --slo");
    check(&["--slo", "p99", "http://127.0.0.1:1/"], "is not a threshold");
    check(&["-H", "broken", "http://127.0.0.1:1/"], "is not a header line");
    said(&["--watch", "db=no-such-command", "http://127.0.0.1:1/"], 1, "no process to watch");
    check(&["--body", "@/no/such/file", "http://127.0.0.1:1/"], "cannot read /no/such/file");
    let url = "http://127.0.0.1:1/";
    check(&["-n", "0", url], "0 asks for nothing");
    check(&["-d", "0s", url], "0s is no time at all");
    check(&["--timeout", "0", url], "0 is no time at all");
    check(&["-F", "a=1", "-F", "b=2", "--body", "x", url], "--body and -F both make a body");
    check(&["--body", "x", "-T", "/dev/null", url], "--body and -T both make a body");
    check(&["--body", "x", "--body", "y", url], "--body and --body both make a body");
    check(&["--csv", "-", url], "the report is printed there");
    check(&["--json=-", url], "--json alone prints it");
    check(&["--users", "1,2", "--raw", "x", url], "--raw holds the requests of one run");
    check(&["--users", "1,2", "-n", "9", "-d", "1s", url], "-d, not -n");
    check(&["--idle", "--watch", "a=1", url], "--watch looks at loads");
    check(&["--idle", "--slo", "p99<1s", url], "--slo judges loads");
    check(&["-c", "70000", "http://192.0.2.1/"], "need as many local ports");
    check(&["diff", "/no/such/file", "x"], "cannot read");
    check(&["diff", "x"], "two files");
    check(&["compare", "http://127.0.0.1:1/"], "two targets");
    // Nobody is there: errors by kind, and no success.
    let output = bench(&["-q", "--json", "-n", "5", "-c", "2", "http://127.0.0.1:1/"]);
    assert_eq!(output.status.code(), Some(2));
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&all["responses"], &all["errors"]["refused"]), (&0.into(), &5.into()), "{all}");
}
