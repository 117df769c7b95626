//! Whole runs against small servers.

use super::course::Course;
use super::model::Scenario;
use super::report::Report;
use super::{read, replay, run};
use brisk_load::rng::Rng;
use brisk_load::sweep::slo::Judged;
use brisk_load::system;
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A server that gives each connection, with its number, to `serve`.
fn server(serve: impl Fn(usize, TcpStream) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().flatten().enumerate() {
            let serve = Arc::clone(&serve);
            std::thread::spawn(move || serve(number, stream));
        }
    });
    port
}

/// Answers each request after `pause` says to.
fn answer(mut stream: TcpStream, pause: impl Fn()) {
    let mut buffer = [0; 4096];
    while let Ok(1..) = stream.read(&mut buffer) {
        pause();
        if stream.write_all(OK).is_err() {
            return;
        }
    }
}

fn scenario(text: &str) -> Arc<Scenario> {
    let scenario = read::text(text, Path::new(""));
    Arc::new(scenario.map_err(|faults| read::show("s.toml", text, &faults)).unwrap())
}

fn report(scenario: &Arc<Scenario>) -> Report {
    let course = Arc::new(Course::new(scenario, true));
    let done = match &scenario.replay {
        Some(replay) => replay::run(scenario, replay, &course),
        None => run::run(scenario, 2, &course),
    };
    Report::new("brisk bench run".to_owned(), scenario, done.unwrap(), &course, None)
}

const STEP: &str = "[[user]]\n[[user.step]]\nrequest = \"GET /\"\n";

#[test]
fn what_is_under_way_at_the_end_is_waited_for_and_counts() {
    // Every second connection is never answered.
    let port = server(|number, stream| {
        if number % 2 == 0 {
            answer(stream, || {});
        } else {
            let _ = { stream }.read_to_end(&mut Vec::new());
        }
    });
    let text = format!(
        "target = \"http://127.0.0.1:{port}\"\nusers = 8\nduration = \"300ms\"\ntimeout = \"500ms\"\nthresholds = [\"errors < 1%\"]\n{STEP}"
    );
    let report = report(&scenario(&text));
    let all = report.done.tally.all();
    assert_eq!(all.failures.get("timeout"), Some(&4), "{:?}", all.failures);
    // They are few among many, and still half of the users have got nothing. A generator that has to wait for CPUs asks less.
    let waited = Duration::from_nanos(report.done.effort.waited_ns);
    let is_quiet = waited < Duration::from_millis(60);
    assert!(!is_quiet || all.latency.count() > 400, "{}", report.text());
    assert!(all.latency.count() > 0 && report.exit_code() == 3, "{}", report.text());
    assert!(report.text().contains("DOES NOT HOLD: errors < 1%"), "{}", report.text());
    let lost = report.done.tally.lost_share();
    assert!((0.45..0.55).contains(&lost) || !is_quiet && (0.3..0.6).contains(&lost), "{lost}");
    // Waiting for them does not make the others rarer.
    assert!(report.done.elapsed >= Duration::from_millis(500), "{:?}", report.done);
    let seconds = report.outcome.elapsed.as_secs_f64();
    assert!((0.3..0.5 + waited.as_secs_f64()).contains(&seconds), "{seconds}, waited {waited:?}");
    let in_series: u64 = report.outcome.series.iter().map(brisk_load::stats::Slice::responses).sum();
    assert_eq!(in_series, all.latency.count());
    assert_eq!(report.outcome.stats.errors(), 4);
}

/// As plain loads do. All reports say what the exit code does.
#[test]
fn nothing_but_failures_is_no_success() {
    for thresholds in ["", "\"p50 < 1s\""] {
        let text = format!(
            "target = \"http://127.0.0.1:1\"\nduration = \"100ms\"\nthresholds = [{thresholds}]\n{STEP}"
        );
        let report = report(&scenario(&text));
        assert_eq!((report.exit_code(), &report.json()["verdict"]), (2, &"no result".into()));
        assert!(report.prometheus().contains("brisk_bench_verdict{verdict=\"no result\"} 1"));
        assert!(report.html().contains("no result"));
    }
}

#[test]
fn names_of_promises_are_escaped() {
    let port = server(|_, stream| answer(stream, || {}));
    let text = format!(
        "target = \"http://127.0.0.1:{port}\"\niterations = 1\nthresholds = ['a\"b: p50 < 1m']\n[[user]]\n\
         [[user.step]]\nname = 'a\"b'\nrequest = \"GET /\"\n"
    );
    let figures = report(&scenario(&text)).prometheus();
    assert!(figures.contains(r#"brisk_bench_promise_holds{promise="a\"b: p50 < 1m"} 1"#), "{figures}");
}

#[test]
fn a_generator_without_time_to_spare_says_so() {
    let port = server(|_, stream| answer(stream, || {}));
    let text = format!("target = \"http://127.0.0.1:{port}\"\niterations = 3\n{STEP}");
    let mut report = report(&scenario(&text));
    assert_eq!(report.exit_code(), 0);
    report.done.effort = run::Effort { threads: 2, cpu_ns: 900_000_000, waited_ns: 950_000_000 };
    report.done.elapsed = Duration::from_secs(1);
    assert!(report.text().contains("note: the generator was busy for 92 % of the time"), "{}", report.text());
    report.done.effort.waited_ns = 100_000_000;
    assert!(!report.text().contains("the generator was busy"), "{}", report.text());
}

/// A log of so many lines per second, in a folder that goes with it.
struct Log(PathBuf);

impl Log {
    fn new(name: &str, seconds: &[usize]) -> Self {
        let folder = std::env::temp_dir().join(format!("brisk-replay-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut text = String::new();
        for (second, &lines) in seconds.iter().enumerate() {
            let line = format!("h - - [21/Nov/2026:05:52:{second:02} +0000] \"GET /a?b HTTP/1.1\" 200 5\n");
            text.push_str(&line.repeat(lines));
        }
        std::fs::write(folder.join("a.log"), text).unwrap();
        Self(folder)
    }

    fn scenario(&self, port: u16, more: &str) -> Arc<Scenario> {
        let log = self.0.join("a.log");
        scenario(&format!(
            "target = \"http://127.0.0.1:{port}\"\ntimeout = \"150ms\"\n[replay]\nlog = \"{}\"\n{more}\n",
            log.display()
        ))
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Off by 15 ms at most, and by what generator and server waited for CPUs. One round of several counts.
#[test]
fn replayed_requests_come_when_they_are_due_at_every_speed() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let moments = Arc::clone(&seen);
    let port = server(move |_, stream| {
        answer(stream, || moments.lock().unwrap().push((Instant::now(), system::thread_waited().0)));
    });
    let log = Log::new("timing", &[2, 0, 1]);
    for (speed, dues) in [("2.0", [0, 250, 1000]), ("10.0", [0, 50, 200]), ("0.8", [0, 625, 2500])] {
        let mut offs = Vec::new();
        let is_right = (0..5).any(|_| {
            seen.lock().unwrap().clear();
            let report = report(&log.scenario(port, &format!("speed = {speed}")));
            assert_eq!(report.done.tally.all().requests(), 3);
            let moments = std::mem::take(&mut *seen.lock().unwrap());
            let served_ns: u64 = moments.iter().map(|(_, waited)| *waited).sum();
            let waited = (report.done.effort.waited_ns + served_ns) as f64 / 1e6;
            let off = |((moment, _), due): (&(Instant, u64), u64)| {
                (moment.duration_since(moments[0].0).as_secs_f64() * 1e3 - due as f64).abs()
            };
            offs = moments.iter().zip(dues).map(off).collect();
            offs.iter().all(|off| *off < 15.0 + waited)
        });
        assert!(is_right, "speed {speed}: off by {offs:?} ms");
    }
}

#[test]
fn a_replay_tells_waiting_from_service_and_what_could_not_be_sent() {
    let port = server(|_, stream| answer(stream, || std::thread::sleep(Duration::from_millis(50))));
    // Twenty requests in half a second over one connection that takes a whole one for them.
    let log = Log::new("stall", &[20]);
    let patient = log.scenario(port, "speed = 2.0\nconnections = 1");
    let patient = Arc::new(Scenario {
        timeout: Duration::from_secs(20),
        ..Arc::try_unwrap(patient).unwrap_or_else(|_| panic!("nobody else has it"))
    });
    let report_of = report(&patient);
    let stats = &report_of.outcome.stats;
    assert_eq!((stats.latency.count(), stats.service.count(), stats.lateness.count()), (20, 20, 20));
    let ms = |ns: u64| ns as f64 / 1e6;
    assert!(ms(stats.service.quantile(0.5)) < 250.0, "{}", report_of.text());
    // The last was due after 475 ms and was the twentieth to take 50.
    assert!(ms(stats.latency.max()) >= 520.0, "{}", report_of.text());
    assert_eq!(stats.unsent, 0);
    assert!(report_of.text().contains("service, since it was sent"), "{}", report_of.text());
    // Who does not wait so long does not send them all, and says that the figures are not what users would see.
    let report = report(&log.scenario(port, "speed = 2.0\nconnections = 1"));
    let (stats, text) = (&report.outcome.stats, report.text());
    assert!(stats.unsent > 0 && stats.unsent + stats.latency.count() == 20, "{text}");
    assert!(text.contains("INVALID") && report.exit_code() == 2, "{text}");
    assert!(report.html().contains("INVALID") && report.json()["invalid"].is_string());
}

/// One step per round, by weight, and nothing else.
#[test]
fn steps_are_drawn_by_their_weights() {
    let port = server(|_, stream| answer(stream, || {}));
    let text = format!(
        "target = \"http://127.0.0.1:{port}\"\nusers = 4\niterations = 250\nduration = \"1m\"\n[[user]]\norder = \"random\"\n\
         [[user.step]]\nname = \"often\"\nweight = 3\nrequest = \"GET /a\"\n[[user.step]]\nname = \"seldom\"\nrequest = \"GET /b\"\n"
    );
    let report = report(&scenario(&text));
    let of = |name: &str| report.done.tally.find(name).unwrap().requests();
    let (often, seldom) = (of("often"), of("seldom"));
    assert_eq!(often + seldom, 1000);
    // Of a thousand, 750 with a deviation of 14.
    assert!((650..850).contains(&often), "{often} and {seldom}");
}

#[test]
fn a_form_with_a_file_arrives_whole() {
    let (sender, got) = std::sync::mpsc::channel();
    let sender = Mutex::new(sender);
    let port = server(move |_, mut stream| {
        let mut request = Vec::new();
        let mut buffer = [0; 4096];
        while !request.ends_with(b"--\r\n") {
            let Ok(count @ 1..) = stream.read(&mut buffer) else { return };
            request.extend_from_slice(&buffer[..count]);
        }
        stream.write_all(OK).unwrap();
        sender.lock().unwrap().send(String::from_utf8(request).unwrap()).unwrap();
    });
    let log = Log::new("upload", &[1]);
    let text = format!(
        "target = \"http://127.0.0.1:{port}\"\niterations = 1\n[[user]]\n[[user.step]]\nrequest = \"POST /up\"\n\
         form = {{ who = \"{{{{user.number}}}}\" }}\nfiles = {{ log = \"a.log\" }}\n"
    );
    let scenario = read::text(&text, &log.0).map_err(|faults| read::show("s.toml", &text, &faults)).unwrap();
    let report = report(&Arc::new(scenario));
    assert_eq!(report.done.tally.all().latency.count(), 1, "{}", report.text());
    let request = got.recv().unwrap();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let boundary = head.split("Content-Type: multipart/form-data; boundary=").nth(1).unwrap();
    let boundary = boundary.lines().next().unwrap();
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    assert_eq!(body.matches(boundary).count(), 3, "{body}");
    assert!(body.contains("name=\"who\"\r\n\r\n0\r\n") && body.contains("GET /a?b HTTP/1.1"), "{body}");
}

/// Users arrive whatever becomes of those before: a server that answers after 300 ms has many at a time, and each session took as long
/// since it was due. A closed loop of one user would have asked four times.
#[test]
fn users_arrive_although_nobody_has_gone() {
    let port = server(|_, stream| answer(stream, || std::thread::sleep(Duration::from_millis(300))));
    for distribution in ["constant", "poisson"] {
        let text = format!(
            "target = \"http://127.0.0.1:{port}\"\nduration = \"1s\"\ntimeout = \"20s\"\nthresholds = [\"sessions: p50 > 590ms\", \"errors < 1%\"]\n\
             arrivals = {{ rate = 50, distribution = \"{distribution}\" }}\n\
             [[user]]\n[[user.step]]\nname = \"a\"\nrequest = \"GET /\"\n[[user.step]]\nname = \"b\"\nrequest = \"GET /\"\n"
        );
        let report = report(&scenario(&text));
        let tally = &report.done.tally;
        let sessions = tally.sessions.as_ref().unwrap();
        let count = sessions.line.latency.count();
        // 50 are due, or 50 with a deviation of 7.
        assert!(if distribution == "constant" { count == 50 } else { (15..100).contains(&count) }, "{count}");
        assert_eq!((sessions.line.failed(), sessions.cut_off.len()), (0, 0));
        assert_eq!(report.outcome.stats.unsent, 0);
        assert_eq!(tally.find("a").unwrap().requests(), count);
        assert_eq!(tally.find("b").unwrap().requests(), count);
        assert!(sessions.line.latency.min() >= 600_000_000, "{}", report.text());
        assert!(report.text().contains("(sessions)") && report.text().contains("lateness of the generator"));
        assert_eq!(report.json()["sessions"]["requests"], count, "{}", report.json());
        assert!(report.judged.iter().all(|judged| judged.holds), "{}", report.text());
    }
}

/// A failed step fails its session, what is not done in time is at no end, and who finds no place is not sent.
#[test]
fn sessions_that_fail_or_find_no_place_are_told() {
    let port = server(|number, stream| {
        if number % 2 == 0 {
            answer(stream, || {});
        } else {
            let _ = { stream }.read_to_end(&mut Vec::new());
        }
    });
    let arrivals = |more: &str| {
        format!(
            "target = \"http://127.0.0.1:{port}\"\nduration = \"1s\"\ntimeout = \"300ms\"\narrivals = {{ rate = 20{more} }}\n\
             thresholds = [\"p90 < 1m\", \"sessions: p90 < 1m\"]\n{STEP}"
        )
    };
    let whole = report(&scenario(&arrivals("")));
    let sessions = whole.done.tally.sessions.as_ref().unwrap();
    let (good, failed) = (sessions.line.latency.count(), sessions.line.failed());
    let cut_off = sessions.cut_off.len() as u64;
    assert_eq!(good + failed + cut_off, 20, "{}", whole.text());
    assert!(good >= 8 && failed + cut_off >= 8, "{}", whole.text());
    assert_eq!(whole.done.tally.all().failures.get("timeout").copied(), Some(20 - good), "{}", whole.text());
    // They took longer than any that was answered.
    let is_told = |judged: &Judged| !judged.holds && judged.seen.contains("were never answered");
    assert!(whole.judged.iter().all(is_told), "{}", whole.text());
    let crowded = report(&scenario(&arrivals(", users_max = 1")));
    assert!(crowded.outcome.stats.unsent > 0 && crowded.exit_code() == 2, "{}", crowded.text());
}

/// The pause between two steps is longer than the time after the end: users who come late have not taken the second one by then.
#[test]
fn sessions_that_the_end_cuts_off_are_neither_answered_nor_failed() {
    let port = server(|_, stream| answer(stream, || {}));
    let report = report(&scenario(&format!(
        "target = \"http://127.0.0.1:{port}\"\nduration = \"1s\"\ntimeout = \"400ms\"\narrivals = {{ rate = 20 }}\n\
         thresholds = [\"sessions: p95 < 1m\", \"sessions: errors < 1%\"]\n\
         [[user]]\n[[user.step]]\nname = \"a\"\nthink = \"700ms\"\nrequest = \"GET /\"\n[[user.step]]\nname = \"b\"\nrequest = \"GET /\"\n"
    )));
    let sessions = report.done.tally.sessions.as_ref().unwrap();
    assert!(!sessions.cut_off.is_empty(), "{}", report.text());
    assert!(report.judged.iter().all(|judged| judged.holds), "{}", report.text());
    assert_eq!(report.json()["sessions"]["unfinished"], sessions.cut_off.len(), "{}", report.json());
}

/// A session whose step has failed is a bad one, also where the end meets it in its pause.
#[test]
fn sessions_that_have_failed_are_counted_where_the_end_cuts_them_off() {
    let port = server(|_, stream| answer(stream, || {}));
    let report = report(&scenario(&format!(
        "target = \"http://127.0.0.1:{port}\"\nduration = \"1s\"\narrivals = {{ rate = 20 }}\nthresholds = [\"sessions: errors < 1%\"]\n\
         [[user]]\n[[user.step]]\nname = \"a\"\nthink = \"10s\"\nrequest = \"GET /\"\ncheck = {{ status = 404 }}\n"
    )));
    let sessions = report.done.tally.sessions.as_ref().unwrap();
    assert!(sessions.line.failed() > 10 && sessions.cut_off.is_empty(), "{}", report.text());
    assert!(report.judged.iter().all(|judged| !judged.holds), "{}", report.text());
}

/// Every second user is never answered, all of them on one of two threads: there is room for them, wherever they are.
#[test]
fn users_have_the_places_of_all_threads() {
    let port = server(|number, stream| {
        if number % 2 == 0 {
            let _ = { stream }.read_to_end(&mut Vec::new());
        } else {
            answer(stream, || {});
        }
    });
    let report = report(&scenario(&format!(
        "target = \"http://127.0.0.1:{port}\"\nduration = \"1s\"\ntimeout = \"2s\"\n\
         arrivals = {{ rate = 20, users_max = 16 }}\n{STEP}"
    )));
    assert_eq!(report.outcome.stats.unsent, 0, "{}", report.text());
    assert!(report.done.tally.all().failures.get("timeout") >= Some(&9), "{}", report.text());
}

/// Branches by what was saved and by chance, and steps in a row; a user without anything to do does not spin.
#[test]
fn steps_are_repeated_left_out_and_drawn() {
    let port = server(|_, stream| answer(stream, || {}));
    let text = format!(
        "target = \"http://127.0.0.1:{port}\"\nusers = 2\niterations = 50\nduration = \"1m\"\nvariables = {{ role = \"guest\" }}\n[[user]]\n\
         [[user.step]]\nname = \"in\"\nrequest = \"GET /\"\nsave = {{ code = \"status\" }}\n\
         [[user.step]]\nname = \"thrice\"\nrepeat = 3\nwhen = {{ code = 200 }}\nrequest = \"GET /\"\n\
         [[user.step]]\nname = \"admin\"\nwhen = {{ role = \"admin\" }}\nrequest = \"GET /\"\n\
         [[user.step]]\nname = \"seldom\"\nchance = 20\nrequest = \"GET /\"\n"
    );
    let found = report(&scenario(&text));
    let of = |name: &str| found.done.tally.find(name).map_or(0, |line| line.requests());
    assert_eq!((of("in"), of("thrice"), of("admin")), (100, 300, 0), "{}", found.text());
    // Of a hundred, 20 with a deviation of 4.
    assert!((2..45).contains(&of("seldom")), "{}", found.text());
    let idle = format!(
        "target = \"http://127.0.0.1:{port}\"\nduration = \"300ms\"\nvariables = {{ a = 1 }}\n{STEP}when = {{ a = 2 }}\n"
    );
    assert_eq!(report(&scenario(&idle)).done.tally.all().requests(), 0);
    let unknown = format!("target = \"http://h\"\n{STEP}when = {{ b = 2 }}\n");
    assert!(
        read::text(&unknown, Path::new("")).unwrap_err()[0].text.contains("nothing gives the value {{b}}")
    );
}

/// Remembers what was asked for, and answers with JSON that tells the path.
fn recording() -> (u16, Arc<Mutex<Vec<String>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let lines = Arc::clone(&seen);
    let port = server(move |_, mut stream| {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            let text = String::from_utf8_lossy(&buffer[..count]).into_owned();
            let path = text.split(' ').nth(1).unwrap_or_default().to_owned();
            let left = lines.lock().unwrap().iter().filter(|have| **have == path).count();
            lines.lock().unwrap().push(path);
            let body = format!("{{\"more\":{}}}", left < 2);
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            if stream.write_all(head.as_bytes()).is_err() {
                return;
            }
        }
    });
    (port, seen)
}

/// Answers that say `Content-Encoding: gzip`: `/large` is longer than what is kept of a body, `/broken` is none, and the others have no body.
fn zipping() -> u16 {
    let mut rng = Rng::new(4);
    let mut text = b"needle".to_vec();
    text.extend((0..6 << 20).map(|_| rng.next_u64() as u8));
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&text).unwrap();
    let large = gzip.finish().unwrap();
    server(move |_, mut stream| {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            let asked = String::from_utf8_lossy(&buffer[..count]).into_owned();
            let (status, body, length) = match asked.split(' ').nth(1) {
                Some("/large") => ("200 OK", &large[..], large.len()),
                Some("/broken") => ("200 OK", &b"xx"[..], 2),
                Some("/head") => ("200 OK", &b""[..], 500),
                _ => ("204 No Content", &b""[..], 0),
            };
            let length = if length > 0 { format!("Content-Length: {length}\r\n") } else { String::new() };
            let head = format!("HTTP/1.1 {status}\r\nContent-Encoding: gzip\r\n{length}\r\n");
            if stream.write_all(&[head.as_bytes(), body].concat()).is_err() {
                return;
            }
        }
    })
}

/// A coding is undone where something is looked for in the body, and as far as the body was kept.
#[test]
fn bodies_are_decoded_where_they_are_looked_into() {
    let port = zipping();
    let step = |asked: &str, more: &str| format!("[[user.step]]\nrequest = \"{asked}\"\n{more}\n");
    let text = format!(
        "target = \"http://127.0.0.1:{port}\"\niterations = 1\n[[user]]\n{}{}{}{}{}{}",
        step("HEAD /head", ""),
        step("HEAD /head", "check = { status = 200, lacks = \"x\" }"),
        step("GET /none", "check = { status = 204, lacks = \"x\" }"),
        step("GET /large", ""),
        step("GET /large", "check = { contains = \"needle\" }"),
        step("GET /broken", "save = { status = \"status\" }"),
    );
    let good = report(&scenario(&text));
    let all = good.done.tally.all();
    assert_eq!((all.latency.count(), &all.failures), (6, &BTreeMap::new()), "{}", good.text());
    let broken = step("GET /broken", "check = { contains = \"x\" }");
    let broken = format!("target = \"http://127.0.0.1:{port}\"\niterations = 1\n[[user]]\n{broken}");
    let failures = report(&scenario(&broken)).done.tally.all().failures;
    assert_eq!(failures, BTreeMap::from([("broken content coding".to_owned(), 1)]));
}

/// Whatever a step's path looks like, its author meant the target. A value may be a reference of a page.
#[test]
fn paths_of_steps_stay_on_the_target() {
    let ((port, seen), (other, foreign)) = (recording(), recording());
    let text = format!(
        "target = \"http://127.0.0.1:{port}\"\nusers = 1\niterations = 1\n\
         variables = {{ path = \"/127.0.0.1:{other}/b\", link = \"//127.0.0.1:{other}/c\" }}\n[[user]]\n\
         [[user.step]]\nrequest = \"GET //127.0.0.1:{other}/a\"\n[[user.step]]\nrequest = \"GET /{{{{path}}}}\"\n\
         [[user.step]]\nrequest = \"GET ///\"\n[[user.step]]\nrequest = \"GET {{{{link}}}}\"\n"
    );
    let report = report(&scenario(&text));
    assert_eq!(report.done.tally.all().latency.count(), 4, "{}", report.text());
    let paths = [format!("//127.0.0.1:{other}/a"), format!("//127.0.0.1:{other}/b"), "///".to_owned()];
    assert_eq!(
        (&seen.lock().unwrap()[..], &foreign.lock().unwrap()[..]),
        (&paths[..], &["/c".to_owned()][..])
    );
}

#[test]
fn blocks_hold_steps_and_blocks_and_are_repeated_and_left_out_as_one() {
    let (port, seen) = recording();
    let text = format!(
        r#"
        target = "http://127.0.0.1:{port}"
        iterations = 1
        variables = {{ role = "guest", more = "true" }}
        thresholds = ["shop: errors < 1%", "reads: errors < 1%"]
        [[user]]
        [[user.step]]
        name = "shop"
        repeat = 2
        tags = ["reads"]
        [[user.step.step]]
        request = "GET /a"
        [[user.step.step]]
        unless = {{ role = "guest" }}
        [[user.step.step.step]]
        request = "GET /admin"
        [[user.step.step]]
        when = {{ role = "guest" }}
        repeat = 2
        [[user.step.step.step]]
        request = "GET /b"
        group = "own"
        [[user.step]]
        name = "while"
        repeat = 1000000
        when = {{ more = "true" }}
        [[user.step.step]]
        request = "GET /page"
        save = {{ more = "json:$.more", none = "json:$.none" }}
        otherwise = {{ none = "nothing" }}
        check = {{ contains = ["more", "{{{{none.x}}}}"], lacks = "less" }}
        [[user.step]]
        request = "GET /{{{{none}}}}"
        "#
    );
    let text = text.replace(", \"{{none.x}}\"", "");
    let report = report(&scenario(&text));
    assert_eq!(report.exit_code(), 0, "{}", report.text());
    let paths = seen.lock().unwrap().join(" ");
    assert_eq!(paths, "/a /b /b /a /b /b /page /page /page /nothing");
    let tally = &report.done.tally;
    assert_eq!((tally.find("shop").unwrap().requests(), tally.find("own").unwrap().requests()), (2, 4));
    assert_eq!(tally.find("reads").unwrap().requests(), 6);
    let json = report.json();
    assert_eq!(json["tags"]["reads"]["requests"], 6, "{json}");
    assert!(report.text().contains("#reads"), "{}", report.text());
}

#[test]
fn a_draw_is_between_blocks_and_steps_and_tags_choose() {
    let (port, seen) = recording();
    let text = format!(
        r#"
        target = "http://127.0.0.1:{port}"
        iterations = 60
        [[user]]
        order = "random"
        [[user.step]]
        weight = 3
        [[user.step.step]]
        request = "GET /a"
        tags = ["read"]
        [[user.step.step]]
        request = "POST /b"
        tags = ["write"]
        [[user.step]]
        request = "GET /c"
        tags = ["read", "slow"]
        "#
    );
    report(&scenario(&text));
    let count = |path: &str| seen.lock().unwrap().iter().filter(|have| *have == path).count();
    assert_eq!((count("/a"), count("/a") + count("/c")), (count("/b"), 60));
    assert!(count("/a") > count("/c"), "{} and {}", count("/a"), count("/c"));
    let tags = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let chosen = |only: &[&str], without: &[&str]| {
        let mut scenario = read::text(&text, Path::new("")).map_err(|_| ()).unwrap();
        scenario.choose(&tags(only), &tags(without))?;
        seen.lock().unwrap().clear();
        report(&Arc::new(scenario));
        let mut paths = seen.lock().unwrap().clone();
        paths.sort();
        paths.dedup();
        Ok::<String, String>(paths.join(" "))
    };
    assert_eq!(chosen(&["read"], &["slow"]).unwrap(), "/a");
    assert_eq!(chosen(&[], &["write"]).unwrap(), "/a /c");
    assert!(chosen(&["reed"], &[]).unwrap_err().contains("no step has the tag \"reed\""));
    assert!(chosen(&["read"], &["read"]).unwrap_err().contains("no step is left"));
}

#[test]
fn some_are_there_and_others_arrive() {
    let (port, seen) = recording();
    let text = format!(
        "target = \"http://127.0.0.1:{port}\"\n[[stage]]\nusers = 2\nhold = \"300ms\"\n[[stage]]\nrate = 40\nhold = \"500ms\"\n[[user]]\nthink = \"50ms\"\n[[user.step]]\nrequest = \"GET /\"\n"
    );
    let report = report(&scenario(&text));
    let sessions = report.done.tally.sessions.as_ref().unwrap();
    assert_eq!((sessions.line.requests(), sessions.cut_off.len()), (20, 0), "{}", report.text());
    // Two users with a pause of 50 ms have asked up to six times each before the others came.
    let asked = seen.lock().unwrap().len();
    assert!((22..=34).contains(&asked), "{asked}");
}

#[test]
fn kinds_of_users_may_have_stages_and_rounds_of_their_own() {
    let (port, seen) = recording();
    let text = format!(
        r#"
        target = "http://127.0.0.1:{port}"
        [[user]]
        iterations = 2
        stage = [{{ users = 3, hold = "5s" }}]
        [[user.step]]
        request = "GET /three"
        [[user]]
        iterations = 4
        stage = [{{ users = 1, hold = "5s" }}]
        [[user.step]]
        request = "GET /one"
        "#
    );
    report(&scenario(&text));
    let count = |path: &str| seen.lock().unwrap().iter().filter(|have| *have == path).count();
    assert_eq!((count("/three"), count("/one")), (6, 4));
}

#[test]
fn what_makes_no_sense_of_blocks_and_stages() {
    let user = "[[user]]\n[[user.step]]\nrequest = \"GET /\"\n";
    for (text, want) in [
        (
            "[[user]]\n[[user.step]]\nbody = \"x\"\n[[user.step.step]]\nrequest = \"/\"\n",
            "\"body\" has no meaning in a block",
        ),
        ("[[user]]\n[[user.step]]\nrequest = \"/\"\norder = \"random\"\n", "\"order\" is of a block"),
        ("[[user]]\n[[user.step]]\nname = \"x\"\n", "a step without a request"),
        (
            &format!("users = 3\n{user}[[user.stage]]\nusers = 2\nhold = 1\n"),
            "\"users\" has no meaning beside stages of [[user]]",
        ),
        (&format!("{user}[[user.stage]]\nusers = 2\nhold = 1\n{user}"), "has no stages, and others have"),
        (&format!("{user}[[user.stage]]\nrate = 2\nhold = 1\n"), "a kind of users has stages of users"),
        (&format!("{user}[[user.stage]]\nusers = 0\nhold = 1\n"), "stages without a user"),
        (
            "[[user]]\n[[user.step]]\nrequest = \"/\"\nunless = { x = \"1\" }\n",
            "nothing gives the value {{x}}",
        ),
    ] {
        let faults = read::text(&format!("target = \"http://h\"\n{text}"), Path::new("")).unwrap_err();
        assert!(faults.iter().any(|fault| fault.text.contains(want)), "{text}: {faults:?}");
    }
}
