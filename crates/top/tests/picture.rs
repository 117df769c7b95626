//! The picture at several sizes, of figures that are made up.
#![forbid(unsafe_code)]

use brisk_top::{Act, Key, Model, Sample, Screen, View, text};
use serde_json::{Value, json};

const LONG: &str = "example.org/products/with/a/very/long/path/that/nobody/would/type/by/hand/ever/42.html";

/// What a server said at a second; its counters grow by 10 requests per second at the back end, by 20 at a location.
fn answer(secs: i64, pid: u64) -> Value {
    let cost = |name: &str, requests: u64, errors: u64, time_us: u64| json!({"name": name, "requests": requests, "errors": errors, "time_us": time_us, "sent_bytes": 123_456});
    let labelled = |labels: Value, value: i64| json!({"values": [{"labels": labels, "value": value}]});
    json!({
        "own": {
            "now_ms": secs * 1000, "version": "0.1.0", "pid": pid, "generation": 3, "threads": 2,
            "history": {"seconds": {
                "unix_secs": [secs - 1], "length_ms": [1000], "classes": [[0, 95, 0, 3, 2]],
                "p50_us": [800], "p95_us": [4000], "p99_us": [null], "sent_bytes": [1_500_000], "received_bytes": [2048],
                "accepted": [4], "connections": [12], "cpu_us": [250_000], "memory_bytes": [33_000_000],
            }},
            "tops": {
                "urls": [cost("example.org/", 900, 0, 90_000), cost(LONG, 2, 1, 3_000_000), cost("例え.jp/\u{1b}[31m/x", 1, 0, 10)],
                "clients": [cost("192.0.2.7", 3, 0, 20)],
            },
            "flights": {"total": 2, "silent_threads": [], "list": [
                {"age_us": 12_000_000, "phase": "first byte", "method": "GET", "host": "example.org", "path": "/slow", "client": "192.0.2.7", "upstream": "http://10.0.0.1:80/slow"},
                {"age_us": 900, "phase": "reading head", "method": "", "host": "", "path": "", "client": "192.0.2.8", "upstream": ""},
            ]},
            "balance": {
                "upstreams": {"app": {"peers": [
                    {"server": "10.0.0.1:80", "state": "up", "weight": 1, "active": 2, "responses": {"5xx": 0}, "fails": 0, "received": 10},
                    {"server": "10.0.0.2:80", "state": "unavail", "weight": 1, "active": 0, "responses": {"5xx": 4}, "fails": 3,
                     "received": 0, "response_time": 12, "backup": true},
                ]}},
                "php": {"www": {"workers": {"total": 5, "idle": 1}, "requests": {"waiting": 2, "refused": 0}, "crashes": 0, "worker_bytes": 1_048_576}},
            },
        },
        "status": {
            "brisk_upstream_requests_total": labelled(json!({"upstream": "app", "server": "10.0.0.1:80"}), secs * 10),
            "brisk_http_request_duration_seconds": {"values": [
                {"labels": {"server": "", "location": "/", "status": "2xx"}, "count": secs * 20, "sum": secs as f64 * 0.02},
                {"labels": {"server": "", "location": "/", "status": "5xx"}, "count": 7, "sum": 0.0},
            ]},
            "brisk_cache_entries": labelled(json!({"zone": "pages"}), 5),
            "brisk_cache_hits_total": labelled(json!({"zone": "pages"}), 3),
            "brisk_cache_misses_total": labelled(json!({"zone": "pages"}), 1),
            "brisk_tls_certificate_not_after_seconds": labelled(json!({"certificate": "/etc/ssl/a.pem"}), secs + 3 * 86_400 + 60),
        },
    })
}

fn model() -> Model {
    let mut model = Model::new(Sample::new(answer(1_000_000, 7)).unwrap());
    model.next(Sample::new(answer(1_000_002, 7)).unwrap());
    model
}

fn shown(model: &Model, view: View, width: u16, height: u16) -> String {
    text(model, &Screen { view, ..Screen::default() }, width, height).unwrap()
}

/// The line that begins so.
fn line<'t>(text: &'t str, start: &str) -> Vec<&'t str> {
    let line =
        text.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("no {start} in\n{text}"));
    line[start.len()..].split("  ").map(str::trim).filter(|word| !word.is_empty()).collect()
}

#[test]
fn figures_and_tables_are_what_the_server_says() {
    let model = model();
    let urls = shown(&model, View::Urls, 120, 40);
    assert!(urls.starts_with("Brisk 0.1.0, generation 3, process 7, 2 threads\n"), "{urls}");
    assert!(urls.contains("100 requests/s   2.0 % failed   p50 800 µs   p95 4.0 ms   p99 –\n"), "{urls}");
    assert!(
        urls.contains("12 open   4 new/s   0.25 CPUs   31.5 MiB   1.4 MiB/s sent   2.0 KiB/s received\n"),
        "{urls}"
    );
    assert_eq!(line(&urls, "example.org/ "), ["900", "0", "100 µs", "90 ms", "121 KiB"]);
    let place = shown(&model, View::Locations, 120, 40);
    assert_eq!(line(&place, "(no name) /"), ["20,000,047", "20", "7", "1.0 ms", "0 B"]);
    let peers = shown(&model, View::BackEnds, 120, 40);
    assert_eq!(line(&peers, "app 10.0.0.1:80"), ["up", "1", "2", "10", "0", "0", "–", "10 B"]);
    assert_eq!(
        line(&peers, "app 10.0.0.2:80 (backup)"),
        ["unavail", "1", "0", "0", "4", "3", "12 ms", "0 B"]
    );
    assert_eq!(
        line(&shown(&model, View::Php, 120, 40), "www"),
        ["5", "4", "0", "2", "0", "0", "0.00", "5.0 MiB"]
    );
    assert_eq!(line(&shown(&model, View::Caches, 120, 40), "pages"), ["75.0 %", "0", "5", "0 B", "0 B", "0"]);
    let waits = shown(&model, View::Flights, 140, 40);
    assert_eq!(
        line(&waits, "GET example.org/slow"),
        ["first byte", "12.0 s", "192.0.2.7", "http://10.0.0.1:80/slow"]
    );
    assert_eq!(line(&waits, "(not known yet)"), ["reading head", "900 µs", "192.0.2.8", "–"]);
    assert_eq!(line(&shown(&model, View::Certificates, 120, 40), "/etc/ssl/a.pem"), ["1970-01-15", "3"]);
}

#[test]
fn a_refused_reload_is_in_the_first_line() {
    let mut answer = answer(1_000_000, 7);
    answer["status"]["brisk_configuration_last_reload_successful"] =
        json!({"values": [{"labels": {}, "value": 0}]});
    answer["status"]["brisk_configuration_reload_refused_seconds"] =
        json!({"values": [{"labels": {"reason": "unknown directive \"x\""}, "value": 999_999}]});
    let refused = Model::new(Sample::new(answer.clone()).unwrap());
    let text = shown(&refused, View::Urls, 120, 10);
    assert!(text.contains("2 threads – reload refused: unknown directive \"x\"\n"), "{text}");
    answer["status"]["brisk_configuration_last_reload_successful"]["values"][0]["value"] = json!(1);
    let text = shown(&Model::new(Sample::new(answer).unwrap()), View::Urls, 120, 10);
    assert!(!text.contains("refused"), "{text}");
}

#[test]
fn every_line_fits_at_every_size() {
    let model = model();
    for (width, height) in [(200, 60), (120, 40), (80, 24), (60, 19), (40, 12), (20, 5), (1, 1)] {
        for view in View::ALL {
            let text = shown(&model, view, width, height);
            assert!(text.lines().count() <= usize::from(height), "{width}x{height}: {text}");
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
            assert!(widest <= usize::from(width), "{width}x{height}: {text}");
        }
    }
    let narrow = shown(&model, View::Urls, 60, 24);
    assert!(narrow.contains("example.org…ver/42.html"), "both ends of a name stay: {narrow}");
    assert!(narrow.contains(" 1 URLs  2  3  4 "), "the tabs' numbers stay: {narrow}");
    // Whole columns are left out, never a part of a number.
    assert!(narrow.contains("In all") && !narrow.contains("Sent"), "{narrow}");
    assert!(!narrow.contains('\u{1b}'), "what clients send does not reach the terminal");
}

#[test]
fn rows_are_sorted_and_filtered_by_keys() {
    let model = model();
    let table = model.table(View::Urls);
    let names = |screen: &Screen| -> Vec<String> {
        screen.rows(&table).iter().map(|row| row.name().chars().take(4).collect()).collect()
    };
    let mut screen = Screen::default();
    assert_eq!(names(&screen), ["exam", "exam", "例え.j"]);
    assert_eq!(screen.rows(&table)[0].name(), LONG, "the costliest in all come first");
    assert_eq!(screen.key(Key::Char('r')), Act::Draw);
    assert_eq!(names(&screen)[0], "例え.j");
    (0..2).for_each(|_| assert_eq!(screen.key(Key::Char('s')), Act::Draw));
    assert_eq!((screen.column(), names(&screen)[2].as_str()), (0, "例え.j"), "names ascend");
    for key in "/PRODUCTSq".chars().map(Key::Char).chain([Key::Backspace, Key::Enter]) {
        assert_eq!(screen.key(key), Act::Draw);
    }
    assert_eq!(screen.rows(&table).len(), 1, "{}", screen.filter);
    screen.key(Key::Escape);
    assert_eq!(screen.rows(&table).len(), 3);
    screen.key(Key::Char('4'));
    assert_eq!((screen.view, screen.column()), (View::BackEnds, 4));
    screen.key(Key::Left);
    assert_eq!(screen.view, View::Locations);
    assert_eq!((screen.key(Key::Char('q')), screen.key(Key::Interrupt)), (Act::Quit, Act::Quit));
}

#[test]
fn another_process_begins_anew() {
    let mut model = model();
    model.next(Sample::new(answer(1_000_003, 8)).unwrap());
    let peers = shown(&model, View::BackEnds, 120, 40);
    assert_eq!(line(&peers, "app 10.0.0.1:80")[3], "0", "{peers}");
    assert!(Sample::new(json!({"error": 1})).is_err());
}

#[test]
fn what_is_empty_says_why() {
    let mut answer = answer(5, 1);
    answer["own"]["tops"] = json!({});
    answer["own"]["history"] = json!({});
    let model = Model::new(Sample::new(answer).unwrap());
    let text = shown(&model, View::Urls, 80, 24);
    assert!(text.contains("no request has ended in the last minute") && text.contains("p50 –"), "{text}");
    let screen = Screen { view: View::Caches, filter: "x".into(), ..Screen::default() };
    assert!(brisk_top::text(&model, &screen, 80, 24).unwrap().contains("no name contains"));
}
