//! Figures against what is known to be true: a server that delays by known amounts, and the raw log.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use brisk_h2::conn::{HeadKind, HeadSink};
use brisk_h2::hpack::write_status;
use brisk_h2::{Config, Connection, Event, Field, FieldSink, Role};
use brisk_load::arrivals::Rate;
use brisk_load::engine::{self, Outcome};
use brisk_load::plan::{Plan, RequestOptions, Stop, Url, Version, sites};
use brisk_load::report::{Environment, Report, RunReport, csv, html, json, prometheus, raw, text};
use brisk_load::rng::Rng;
use brisk_load::stats::{Part, Slice};
use brisk_load::watch::proc::Account;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
const LAST: &[u8] = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello";
const UNTIL_CLOSED: &[u8] = b"HTTP/1.1 200 OK\r\n\r\nhello";

/// Answers take 2 to 62 ms, most of them a few; what each really took is noted. No time stands out: where many take 4 ms and
/// others 15, one that comes late would move the percentile between them by the whole gap.
fn delaying() -> (SocketAddr, Arc<Mutex<Vec<u64>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let truth = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&truth);
    thread::spawn(move || {
        for (index, mut socket) in listener.incoming().flatten().enumerate() {
            socket.set_nodelay(true).unwrap();
            let (notes, mut rng) = (Arc::clone(&notes), Rng::new(index as u64));
            thread::spawn(move || {
                let mut buffer = [0; 4096];
                while socket.read(&mut buffer).is_ok_and(|count| count > 0) {
                    let begun = Instant::now();
                    thread::sleep(Duration::from_secs_f64(0.002 + 0.06 * rng.unit().powi(3)));
                    // Noted before it is sent: the client may be done as soon as it is.
                    notes.lock().unwrap().push(begun.elapsed().as_nanos() as u64);
                    if socket.write_all(OK).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, truth)
}

/// The same over HTTP/2: each stream is answered by itself.
fn delaying_streams() -> (SocketAddr, Arc<Mutex<Vec<u64>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let truth = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&truth);
    thread::spawn(move || {
        for (index, socket) in listener.incoming().flatten().enumerate() {
            socket.set_nodelay(true).unwrap();
            let (notes, rng) = (Arc::clone(&notes), Rng::new(index as u64));
            let (sender, pieces) = mpsc::channel();
            let mut reader = socket.try_clone().unwrap();
            thread::spawn(move || {
                let mut buffer = [0; 16_384];
                while let Ok(count) = reader.read(&mut buffer)
                    && count > 0
                    && sender.send((Instant::now(), buffer[..count].to_vec())).is_ok()
                {}
            });
            thread::spawn(move || answer_streams(socket, &pieces, &notes, rng));
        }
    });
    (address, truth)
}

/// Heads are all the same.
struct Nothing;

impl FieldSink for Nothing {
    fn tag(&mut self, _: &[u8]) -> u8 {
        0
    }

    fn field(&mut self, _: Field<'_>) {}
}

impl HeadSink for Nothing {
    fn begin(&mut self, _: u64, _: HeadKind) {}
}

/// When an answer is due, when it was asked for, and its stream.
type Due = (Instant, Instant, u32);

/// Answers what comes in pieces, each stream when it is due.
fn answer_streams(
    mut socket: TcpStream,
    pieces: &mpsc::Receiver<(Instant, Vec<u8>)>,
    notes: &Mutex<Vec<u64>>,
    mut rng: Rng,
) {
    let (mut out, mut input, mut due) = (Vec::new(), Vec::new(), BinaryHeap::<Reverse<Due>>::new());
    let mut conn: Connection<()> = Connection::new(Role::Server, Config::default(), 0, &mut out);
    loop {
        if socket.write_all(&out).is_err() {
            return;
        }
        out.clear();
        let now = Instant::now();
        let first = due.peek().map(|Reverse((at, ..))| *at);
        if first.is_some_and(|at| at <= now)
            && let Some(Reverse((_, begun, stream))) = due.pop()
        {
            let mut block = Vec::new();
            write_status(204, &mut block);
            conn.send_head(stream, &block, true, &mut out).unwrap();
            notes.lock().unwrap().push(begun.elapsed().as_nanos() as u64);
            continue;
        }
        let wait = first.map_or(Duration::from_mins(1), |at| at - now);
        let (begun, piece) = match pieces.recv_timeout(wait) {
            Ok(piece) => piece,
            Err(mpsc::RecvTimeoutError::Timeout) => continue,
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
        };
        input.extend_from_slice(&piece);
        loop {
            let received = conn.receive(&input, &mut Nothing, &mut out).unwrap();
            if received.used == 0 && received.event.is_none() {
                break;
            }
            if let Some(Event::Head { stream, .. }) = received.event {
                let delay = Duration::from_secs_f64(0.002 + 0.06 * rng.unit().powi(3));
                due.push(Reverse((begun + delay, begun, stream)));
            }
            let used = received.used;
            input.drain(..used);
        }
    }
}

/// One test at a time: what others do would be in the figures.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn plan(address: SocketAddr, connections: usize, stop: Stop) -> Plan {
    let url = Url::parse(&format!("http://{address}/")).unwrap();
    Plan::new(sites(&[url], &RequestOptions::default()).unwrap(), connections, stop)
}

fn exact(sorted: &[u64], share: f64) -> f64 {
    sorted[((share * sorted.len() as f64).ceil() as usize).max(1) - 1] as f64
}

fn report(outcome: Outcome, users: usize) -> Report {
    let label = String::new();
    let run =
        RunReport { label, users, depth: 1, threads: 1, rate: None, outcome, steady: None, watched: None };
    Report {
        command: "brisk bench".to_owned(),
        targets: vec!["http://127.0.0.1/<x>".to_owned()],
        environment: Environment::here(),
        runs: vec![run],
        sweep: None,
        search: None,
        promises: Vec::new(),
        is_judged: false,
        is_cut_short: false,
    }
}

/// A run, and how long this process's threads (the generator's and the server's) were ready meanwhile and had no CPU.
fn watched(plan: Plan) -> (Outcome, Duration) {
    let (own, mut account) = ([std::process::id()], Account::default());
    let begun = account.look(&own, false).waited_ns;
    let run = engine::start(plan).unwrap();
    // What a thread has waited since the last look is lost when it ends.
    while !run.is_over() {
        account.look(&own, false);
        thread::park_timeout(Duration::from_millis(5));
    }
    let waited = account.look(&own, false).waited_ns - begun;
    (run.join().unwrap(), Duration::from_nanos(waited))
}

/// Every half percentile is within 1 % or 0.2 ms. Where this process had to wait for CPUs, what it waited is in the figures: no percentile is
/// lower than the truth, and together they are higher by at most what was waited. One run of several counts.
fn assert_agree(count: u64, run: impl Fn() -> (Outcome, Duration, Arc<Mutex<Vec<u64>>>)) {
    let _alone = alone();
    let mut worst = Vec::new();
    for _ in 0..20 {
        let (outcome, waited, truth) = run();
        assert_eq!((outcome.stats.responses(), outcome.stats.errors()), (count, 0));
        let mut truth = truth.lock().unwrap().clone();
        truth.sort_unstable();
        let (mut most, mut lowest, mut more, mut allowed) = ((0f64, 0f64), 0f64, 0.0, 0.0);
        for share in (1..=199).map(|step| f64::from(step) / 200.0) {
            let (want, have) = (exact(&truth, share), outcome.stats.latency.quantile(share) as f64);
            let may_be_off = (want * 0.01).max(200_000.0);
            let off = (have - want) / may_be_off;
            if off.abs() > most.0 {
                most = (off.abs(), share);
            }
            lowest = lowest.min(off);
            more += (have - want) / 199.0;
            allowed += may_be_off / 199.0;
        }
        let explained = waited.as_nanos() as f64 / count as f64;
        if most.0 <= 1.0 || (lowest >= -1.0 && more <= allowed + explained) {
            return;
        }
        worst.push((most, lowest, more / 1e6, explained / 1e6));
    }
    panic!(
        "times the allowed error, and where; below; too much in the mean, and what waiting explains, in ms: {worst:?}"
    );
}

#[test]
fn percentiles_agree_with_a_server_that_delays_by_known_amounts() {
    assert_agree(800, || {
        let (address, truth) = delaying();
        let (outcome, waited) = watched(plan(address, 8, Stop::Requests(800)));
        (outcome, waited, truth)
    });
}

#[test]
fn percentiles_of_many_streams_agree_with_a_server_that_delays_by_known_amounts() {
    assert_agree(4000, || {
        let (address, truth) = delaying_streams();
        let plan = Plan { version: Version::H2, pipeline: 16, ..plan(address, 2, Stop::Requests(4000)) };
        let (outcome, waited) = watched(plan);
        (outcome, waited, truth)
    });
}

/// The figures of a report are those of its raw log.
#[test]
fn reports_say_what_the_raw_log_says() {
    let _alone = alone();
    for is_open in [false, true] {
        let (address, _) = delaying();
        let mut plan = plan(address, 8, Stop::Requests(400));
        plan.record = Some(1000);
        plan.series = Some(Duration::from_millis(100));
        plan.rate = is_open.then(|| Rate::constant(500.0));
        let (outcome, waited) = watched(plan);
        let report = report(outcome, 8);
        let mut log = Vec::new();
        raw(&report.runs[0], &mut log).unwrap();
        let log = String::from_utf8(log).unwrap();
        let mut waits: Vec<u64> = Vec::new();
        let (mut bytes, mut last) = (0, 0);
        for line in log.lines().skip(1) {
            let fields: Vec<&str> = line.split(',').collect();
            let number = |at: usize| fields[at].parse::<u64>().unwrap();
            let moments = [number(0), number(1), number(2), number(3)];
            assert!(moments.is_sorted(), "{line}");
            assert_eq!((fields[9], fields[10]), ("200", ""));
            bytes += number(6);
            last = last.max(number(3));
            waits.push(number(3) - number(0));
        }
        waits.sort_unstable();
        let figures = json(&report);
        assert_eq!((waits.len(), &figures["responses"]), (400, &serde_json::json!(400)));
        assert_eq!(figures["bytes"], serde_json::json!(bytes));
        let (rate, true_rate) = (figures["responses_per_second"].as_f64().unwrap(), 400e9 / last as f64);
        // The log's clock begins before the generator's thread runs, and ends before it is asked.
        let late = waited.as_nanos() as f64 / last as f64;
        assert!((rate / true_rate - 1.0).abs() < 0.02 + late, "{rate}/s for {true_rate}, waited {late}");
        for (name, share) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)] {
            let (have, want) = (figures["latency_us"][name].as_f64().unwrap(), exact(&waits, share) / 1e3);
            assert!((have / want - 1.0).abs() < 0.01, "{name}: {have} for {want}");
        }
        let mean = waits.iter().sum::<u64>() as f64 / 400e3;
        assert!((figures["latency_us"]["mean"].as_f64().unwrap() / mean - 1.0).abs() < 1e-6);
        // The course adds up to the whole.
        let course: u64 =
            csv(&report).lines().skip(1).map(|l| l.split(',').nth(3).unwrap().parse::<u64>().unwrap()).sum();
        assert_eq!(course, 400);
        assert!(prometheus(&report).contains("brisk_bench_responses{run=\"\"} 400"));
        assert!(text(&report).starts_with("400 responses in"));
    }
}

/// What was under way when the time was over counts with what it took, but not towards the rate. Nobody is forgotten: the
/// server knows how many it has answered.
#[test]
fn answers_after_the_end_have_a_latency_and_no_part_in_the_rate() {
    let _alone = alone();
    for rate in [None, Some(Rate::constant(300.0))] {
        let (address, truth) = delaying();
        let time = Duration::from_millis(300);
        let plan = Plan {
            record: Some(9999),
            series: Some(Duration::from_millis(100)),
            rate,
            ..plan(address, 12, Stop::After(time))
        };
        let (mut outcome, waited) = watched(plan);
        let stats = &outcome.stats;
        assert_eq!(stats.responses(), truth.lock().unwrap().len() as u64);
        assert_eq!((stats.errors(), stats.unsent, stats.tail.left), (0, 0, 0));
        assert!(rate.is_some() || stats.tail.under_way > 0);
        assert_eq!(stats.tail.responses(), stats.tail.under_way);
        let end = outcome.elapsed.as_nanos() as u64;
        // The thread begins a little later than the log's clock.
        let within = |end: u64| outcome.records.iter().filter(|record| record.done_ns <= end).count() as u64;
        let (in_time, waited) = (stats.responses_in_time(), waited.as_nanos() as u64);
        let may_be = within(end.saturating_sub(waited)).saturating_sub(2)..=within(end + waited) + 2;
        assert!(may_be.contains(&in_time), "{in_time}, not in {may_be:?}");
        let late = outcome.series.iter().filter(|slice| slice.part == Part::Tail);
        assert_eq!(late.map(Slice::responses).sum::<u64>(), stats.tail.responses());
        let latency_ns: u64 = outcome.records.iter().map(|record| record.done_ns - record.due_ns).sum();
        assert_eq!(stats.latency.sum(), u128::from(latency_ns));
        // Cutting the warm-up off leaves that as it is.
        let late = outcome.stats.tail;
        brisk_load::sweep::trim(&mut outcome);
        assert_eq!(outcome.stats.tail, late);
        let seconds = outcome.elapsed.as_secs_f64();
        let figures = json(&report(outcome, 12));
        let (all, in_time) = (&figures["responses"], &figures["responses_in_time"]);
        assert_eq!(all.as_u64().unwrap() - in_time.as_u64().unwrap(), late.responses());
        let have = figures["responses_per_second"].as_f64().unwrap();
        assert!((have * seconds / in_time.as_f64().unwrap() - 1.0).abs() < 1e-6, "{figures}");
    }
}

/// Whoever follows a run looks at it now and then, and notices late that it is over.
#[test]
fn a_run_is_over_with_its_last_response_and_not_when_somebody_looks() {
    let _alone = alone();
    let (address, _) = delaying();
    let run = engine::start(Plan { record: Some(100), threads: 2, ..plan(address, 4, Stop::Requests(20)) });
    let run = run.unwrap();
    while !run.is_over() {
        thread::yield_now();
    }
    let over = run.elapsed();
    while run.elapsed() < over + Duration::from_millis(300) {
        thread::yield_now();
    }
    let outcome = run.join().unwrap();
    let last = Duration::from_nanos(outcome.records.last().unwrap().done_ns);
    let after = outcome.elapsed.saturating_sub(last);
    let waited = Duration::from_nanos(outcome.stats.generator_waited_ns);
    assert!(after < Duration::from_millis(150) + waited, "{after:?} after {last:?}, waited {waited:?}");
}

/// Three requests in 5 ms are not due on whole milliseconds. Half a millisecond is what waiting for those would cost on the average; what
/// the generator waits for a CPU at each of its turns comes on top. One run of several counts.
#[test]
fn an_open_loop_is_not_late_by_itself() {
    let _alone = alone();
    let (address, _) = delaying();
    let mut late = Vec::new();
    for _ in 0..20 {
        let mut plan = plan(address, 64, Stop::After(Duration::from_millis(250)));
        plan.rate = Some(Rate::constant(600.0));
        let stats = engine::run(plan).unwrap().stats;
        let half = Duration::from_nanos(stats.lateness.quantile(0.5));
        let waited = Duration::from_nanos(stats.generator_waited_ns / stats.generator_turns.max(1));
        if half < Duration::from_micros(250) + waited {
            return;
        }
        late.push((half, waited));
    }
    panic!("half of the requests were later than, and waited for a CPU: {late:?}");
}

#[test]
fn a_page_is_one_file_and_says_it_all() {
    let _alone = alone();
    let (address, _) = delaying();
    let mut plan = plan(address, 8, Stop::After(Duration::from_millis(700)));
    plan.series = Some(Duration::from_millis(100));
    let page = html(&report(engine::run(plan).unwrap(), 8));
    assert!(page.contains("127.0.0.1/&lt;x&gt;") && page.contains("width=device-width"));
    assert_eq!(page.matches("<svg").count(), 4);
    // Without an icon of its own a browser asks the server of the page for one.
    let page = page.replace("<link rel=\"icon\" href=\"data:,\">", "");
    for outside in ["http-equiv", "<link", "<script", "src=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(!page.contains("NaN") && page.matches("<svg").count() == page.matches("</svg>").count());
}

#[test]
fn pauses_and_ramps_take_their_time() {
    let _alone = alone();
    let (address, _) = delaying();
    let mut slow = plan(address, 5, Stop::RequestsPerConnection(3));
    slow.think = Some(brisk_load::plan::Think::Constant(Duration::from_millis(50)));
    slow.dial_rate = Some(Rate::constant(20.0));
    let begun = SystemTime::now();
    let outcome = engine::run(slow).unwrap();
    assert_eq!((outcome.stats.responses(), outcome.stats.connects, outcome.stats.errors()), (15, 5, 0));
    // The last connection begins after 200 ms and pauses twice.
    let took = begun.elapsed().unwrap();
    let waited = Duration::from_nanos(outcome.stats.generator_waited_ns);
    assert!(took >= Duration::from_millis(300) && took < Duration::from_secs(3) + waited, "{took:?}");
}

/// Gives this answer at once, and closes each connection a little later.
fn impatient(answer: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            thread::spawn(move || {
                if socket.read(&mut [0; 4096]).is_ok_and(|count| count > 0)
                    && socket.write_all(answer).is_ok()
                {
                    thread::sleep(Duration::from_millis(20));
                }
            });
        }
    });
    address
}

/// Whoever closes a connection, and when: the user pauses before the next request. Three requests have two pauses between them.
#[test]
fn pauses_outlive_their_connections() {
    let _alone = alone();
    let closed_by_us = |plan: Plan| Plan { per_connection: Some(1), ..plan };
    let share = Stop::RequestsPerConnection(3);
    for (what, plan) in [
        ("HTTP/1.1", closed_by_us(plan(delaying().0, 5, share))),
        ("HTTP/2", Plan { version: Version::H2, ..closed_by_us(plan(delaying_streams().0, 5, share)) }),
        ("closed in the pause", plan(impatient(OK), 5, share)),
        ("closed as announced", plan(impatient(LAST), 5, share)),
        ("closed at the end of the answer", plan(impatient(UNTIL_CLOSED), 5, share)),
    ] {
        let pause = Duration::from_millis(250);
        let think = Some(brisk_load::plan::Think::Constant(pause));
        let begun = Instant::now();
        let stats = engine::run(Plan { think, ..plan }).unwrap().stats;
        let took = begun.elapsed();
        assert_eq!((stats.responses(), stats.connects, stats.errors()), (15, 15, 0), "{what}");
        assert!(took >= 2 * pause, "{what}: {took:?}");
    }
}

#[test]
fn connections_are_closed_after_their_share() {
    let _alone = alone();
    let (address, _) = delaying();
    let closing = Plan { per_connection: Some(2), ..plan(address, 2, Stop::Requests(20)) };
    let outcome = engine::run(closing).unwrap();
    assert_eq!((outcome.stats.responses(), outcome.stats.closes), (20, 0));
    // The last request may be left to a connection of its own.
    assert!((10..=11).contains(&outcome.stats.connects), "{}", outcome.stats.connects);
}

#[test]
fn a_large_upload_arrives_as_a_whole() {
    let _alone = alone();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    const BODY: usize = 3_000_000;
    thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            thread::spawn(move || {
                let (mut seen, mut buffer) = (Vec::new(), vec![0; 65_536]);
                loop {
                    match socket.read(&mut buffer) {
                        Ok(count) if count > 0 => seen.extend_from_slice(&buffer[..count]),
                        _ => return,
                    }
                    let Some(head) = seen.windows(4).position(|window| window == b"\r\n\r\n") else {
                        continue;
                    };
                    if seen.len() == head + 4 + BODY {
                        socket.write_all(OK).unwrap();
                        seen.clear();
                    }
                }
            });
        }
    });
    let url = Url::parse(&format!("http://{address}/")).unwrap();
    let options =
        RequestOptions { method: "PUT".to_owned(), body: vec![7; BODY].into(), ..RequestOptions::default() };
    let plan = Plan::new(sites(&[url], &options).unwrap(), 2, Stop::Requests(6));
    let outcome = engine::run(plan).unwrap();
    assert_eq!((outcome.stats.responses(), outcome.stats.errors()), (6, 0));
}
