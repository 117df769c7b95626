//! `dashboard`: access to the page, changes of back ends, and the page in a browser.

use brisk_testkit::backend::Backend;
use brisk_testkit::client::Client;
use brisk_testkit::h2::H2Client;
use brisk_testkit::{Builder, Server, TempDir, browser, process, wait};
use rustix::process::Signal;
use serde_json::Value;
use std::process::Command;

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

const CONF: &str = r"
    access_log off;
    upstream u { zone u 64k; server 127.0.0.1:{{PORT2}} weight=2; server 127.0.0.1:{{PORT3}} backup; }
    server {
        listen 127.0.0.1:{{PORT}};
        location /d { dashboard; }
        location /guarded { dashboard; allow all; }
        location /written { dashboard write=on; auth_basic area; auth_basic_user_file users; }
        location /any { dashboard write=on; auth_basic area; auth_basic_user_file users; allow 127.0.0.1; satisfy any; }
        location /rules { dashboard write=on; allow all; }
        location = /status { status; }
        location /p { proxy_pass http://u; }
        location /broken { return 500; }
        location /files { }
    }
    server { listen 127.0.0.1:{{PORT2}}; return 200 first; }
    server { listen 127.0.0.1:{{PORT3}}; return 200 second; }";

fn start() -> Server {
    Builder::new(BIN).http(CONF).file("users", "u:{PLAIN}p\n").file("html/files/a", "x").start()
}

/// The answer to a request with these fields, to `localhost` unless they name a host.
fn ask(server: &Server, line: &str, fields: &str, body: &str) -> (u16, String) {
    let host = if fields.contains("Host:") { "" } else { "Host: localhost\r\n" };
    let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let answer = server.client().request(format!("{line} HTTP/1.1\r\n{host}{fields}{length}\r\n{body}"));
    (answer.status, answer.text())
}

fn data(server: &Server) -> Value {
    let (status, text) = ask(server, "GET /d?data", "", "");
    assert_eq!(status, 200, "{text}");
    serde_json::from_str(&text).unwrap()
}

/// It is closed to requests from elsewhere, through a proxy and by another site's page.
#[test]
fn without_rules_it_is_for_this_machine_alone() {
    let server = start();
    for (fields, want) in [
        ("", 200),
        ("Host: 127.0.0.1:8080\r\n", 200),
        ("Host: rebound.example\r\n", 403),
        ("X-Forwarded-For: 192.0.2.1\r\n", 403),
        ("Forwarded: for=192.0.2.1\r\n", 403),
        ("Via: 1.1 proxy\r\n", 403),
    ] {
        assert_eq!(ask(&server, "GET /d?data", fields, "").0, want, "{fields}");
        // Rules about addresses let a browser in, whosever page it shows: the name must be this server's.
        let guarded = if fields.contains("rebound") { 403 } else { 200 };
        assert_eq!(ask(&server, "GET /guarded?data", fields, "").0, guarded, "{fields}");
    }
    wait::holds("the log names the remedy", || {
        server
            .error_log()
            .contains("the dashboard was refused: its location has no access rule for the client")
    });
    let page = server.client().request("GET /d HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let policy = page.header("Content-Security-Policy").unwrap();
    assert!(
        policy.starts_with("default-src 'none'") && !policy.contains("unsafe") && !policy.contains('*'),
        "{policy}"
    );
    assert!(page.text().contains("<script src=\"?script\" defer>"));
    for part in ["style", "script", "icon"] {
        assert_eq!(ask(&server, &format!("GET /d?{part}"), "", "").0, 200, "{part}");
    }
    assert_eq!(ask(&server, "GET /d?other", "", "").0, 404);
    assert_eq!(ask(&server, "POST /d", "", "x").0, 405);
}

/// A list of clients that are shut out, which may be that of the whole server, opens the dashboard to no other client.
#[test]
fn rules_about_others_are_no_guard() {
    let server = Builder::new(BIN)
        .http(
            "deny 203.0.113.7; map $http_x_off $realm { yes off; default area; }
            server { listen 127.0.0.1:{{PORT}}; set_real_ip_from 127.0.0.1; real_ip_header X-Who;
            location /d { dashboard; }
            location /closed { dashboard; allow 10.0.0.0/8; deny all; }
            location /some { dashboard; allow 10.0.0.0/8; }
            location /nets { dashboard; allow 0.0.0.0/0; allow ::/0; }
            location /four { dashboard; allow 0.0.0.0/0; }
            location /any { dashboard; satisfy any; }
            location /realm { dashboard; auth_basic $realm; auth_basic_user_file users; } }",
        )
        .file("users", "u:{PLAIN}p\n")
        .start();
    for (path, client, fields, want) in [
        ("/d", "127.0.0.1", "", 200),
        ("/d", "192.0.2.1", "", 403),
        ("/d", "2001:db8::1", "", 403),
        ("/d", "203.0.113.7", "", 403),
        ("/closed", "10.1.1.1", "", 200),
        ("/closed", "127.0.0.1", "", 403),
        ("/some", "10.1.1.1", "", 200),
        ("/some", "127.0.0.1", "", 200),
        ("/some", "192.0.2.1", "", 403),
        ("/nets", "192.0.2.1", "", 200),
        ("/nets", "2001:db8::1", "", 200),
        ("/four", "192.0.2.1", "", 200),
        ("/four", "2001:db8::1", "", 403),
        ("/any", "192.0.2.1", "", 403),
        ("/realm", "192.0.2.1", "", 401),
        ("/realm", "192.0.2.1", "Authorization: Basic dTpw\r\n", 200),
        ("/realm", "192.0.2.1", "X-Off: yes\r\n", 403),
        ("/realm", "127.0.0.1", "X-Off: yes\r\n", 200),
    ] {
        let fields = format!("X-Who: {client}\r\n{fields}");
        assert_eq!(
            ask(&server, &format!("GET {path}?data"), &fields, "").0,
            want,
            "{path} {client} {fields}"
        );
    }
}

/// A change needs `write=on`, a user that an authentication module has accepted, and a page of this server.
#[test]
fn back_ends_are_changed_by_its_own_page_alone() {
    const USER: &str = "Authorization: Basic dTpw\r\n";
    const JSON: &str = "Content-Type: application/json\r\n";
    const OWN: &str = "Origin: http://localhost\r\n";
    let server = start();
    let change = |path: &str, fields: &str| {
        ask(&server, &format!("PATCH {path}?upstream=u&server=0"), fields, "{\"down\":true}").0
    };
    for (path, fields, want) in [
        ("/d", format!("{USER}{JSON}{OWN}"), 405),
        ("/guarded", format!("{USER}{JSON}{OWN}"), 405),
        ("/rules", format!("{USER}{JSON}{OWN}"), 405),
        ("/any", format!("{USER}{JSON}{OWN}"), 405),
        ("/written", format!("{JSON}{OWN}"), 401),
        ("/written", format!("{USER}{JSON}"), 403),
        ("/written", format!("{USER}{JSON}Origin: http://evil.example\r\n"), 403),
        ("/written", format!("{USER}{JSON}Origin: null\r\n"), 403),
        ("/written", format!("{USER}Content-Type: text/plain\r\n{OWN}"), 403),
    ] {
        assert_eq!(change(path, &fields), want, "{path} {fields}");
    }
    assert_eq!(server.get("/p").text(), "first");
    assert_eq!(change("/written", &format!("{USER}{JSON}{OWN}")), 200);
    assert_eq!(server.get("/p").text(), "second");
    let unknown = format!("{USER}{JSON}{OWN}");
    assert_eq!(ask(&server, "PATCH /written?upstream=none&server=0", &unknown, "{}").0, 404);
    assert_eq!(ask(&server, "PATCH /written?upstream=u&server=9", &unknown, "{}").0, 404);
    assert_eq!(ask(&server, "PATCH /written?upstream=u&server=0", &unknown, "nonsense").0, 415);
}

/// The history adds up to what `status` counts, and the costliest are named, prepared answers included.
#[test]
fn its_numbers_are_those_of_status() {
    let server = start();
    data(&server);
    let mut client = server.client();
    for _ in 0..20 {
        client.get("/files/a?n=1");
        // Its connection ends with it.
        server.get("/broken");
    }
    server.get("/p");
    let of = |data: &Value, class: usize| -> u64 {
        let classes = data["own"]["history"]["seconds"]["classes"].as_array().unwrap();
        classes.iter().filter_map(|row| row[class].as_u64()).sum()
    };
    wait::holds("the history has the failures", || of(&data(&server), 4) == 20);
    let data = data(&server);
    let counted = |status: &str| -> u64 {
        let rows = data["status"]["brisk_http_request_duration_seconds"]["values"].as_array().unwrap();
        rows.iter()
            .filter(|row| row["labels"]["status"] == status)
            .filter_map(|row| row["count"].as_u64())
            .sum()
    };
    assert_eq!(counted("5xx"), 20);
    assert!(counted("2xx") >= 22);
    let url = |name: &str| {
        let rows = data["own"]["tops"]["urls"].as_array().unwrap();
        rows.iter().find(|row| row["name"] == name).cloned().unwrap_or_else(|| panic!("{name} in {rows:?}"))
    };
    let host = "localhost";
    assert_eq!(url(&format!("{host}/files/a"))["requests"], 20);
    assert_eq!(url(&format!("{host}/broken"))["errors"], 20);
    assert_eq!(data["own"]["tops"]["clients"][0]["name"], "127.0.0.1");
    assert_eq!(data["own"]["balance"]["upstreams"]["u"]["peers"][0]["requests"], 1);
    assert_eq!(data["own"]["write"], false);
}

/// A reload changes the generation and keeps the history; a page knows only of what is new.
#[test]
fn the_history_outlives_a_reload() {
    let server = start();
    let ended = |data: &Value| data["own"]["history"]["seconds"]["unix_secs"].as_array().unwrap().clone();
    wait::holds("two seconds", || ended(&data(&server)).len() >= 2);
    let before = ended(&data(&server));
    server.reload();
    wait::holds("another generation with more seconds", || {
        let data = data(&server);
        data["own"]["generation"] == 2 && ended(&data).len() > before.len()
    });
    assert_eq!(ended(&data(&server))[..before.len()], before[..]);
    let last = before.last().unwrap().as_i64().unwrap();
    let (_, text) = ask(&server, &format!("GET /d?data&since={last}"), "", "");
    let newer = ended(&serde_json::from_str(&text).unwrap());
    assert!(newer.iter().all(|secs| secs.as_i64() > Some(last)), "{newer:?}");
}

/// What is served is not what stands on the disk: the page, `status` and `brisk top` say so until a reload succeeds.
#[test]
fn a_refused_reload_is_told() {
    let site = Builder::new(BIN).http(CONF).file("users", "").file("html/files/a", "x");
    let mut server = site.allow_alerts("exited on signal 9|unknown directive \"nonsense\"").start();
    let of = |data: &Value, name: &str| data["status"][name]["values"][0].clone();
    let successful = "brisk_configuration_last_reload_successful";
    let first = data(&server);
    assert_eq!(of(&first, successful)["value"], 1.0);
    assert!(first["status"]["brisk_configuration_reload_refused_seconds"].is_null());
    server.configure_http("", "server { listen 127.0.0.1:{{PORT}}; location /d { dashboard; nonsense 1; } }");
    server.signal(Signal::HUP);
    wait::holds("the refusal is told", || of(&data(&server), successful)["value"] == 0.0);
    let told = data(&server);
    let last = of(&told, "brisk_configuration_reload_refused_seconds");
    let reason = last["labels"]["reason"].as_str().unwrap();
    assert!(reason.contains("unknown directive \"nonsense\""), "{reason}");
    assert!(
        (last["value"].as_f64().unwrap() - told["own"]["now_ms"].as_f64().unwrap() / 1000.0).abs() < 60.0
    );
    assert_eq!(of(&told, "brisk_configuration_reloads_refused_total")["value"], 1);
    let dir = TempDir::new();
    let url = format!("http://127.0.0.1:{}/d", server.port());
    let seen = browser::visit(&url, 1280, dir.path());
    assert!(
        seen.console.is_empty() && seen.document.contains("The last reload was refused"),
        "{}",
        seen.document
    );
    // A worker that takes the place of another one knows it, too.
    let worker = told["own"]["pid"].as_i64().unwrap();
    process::signal(worker as u32, Signal::KILL);
    process::wait_gone(worker as u32);
    let answer = data(&server);
    assert!(answer["own"]["pid"] != worker && of(&answer, successful)["value"] == 0.0);
    server.configure_http("", CONF);
    server.reload();
    let after = data(&server);
    assert_eq!(of(&after, successful)["value"], 1.0);
    assert_eq!(of(&after, "brisk_configuration_reloads_refused_total")["value"], 1);
}

/// A server with locations in which requests wait, and the back end that hears them and never answers.
fn waiting_site() -> (Server, Backend) {
    let silent = Backend::start(|mut peer| {
        peer.head();
        peer.drain();
    });
    let conf = format!(
        "access_log off; limit_req_zone $binary_remote_addr zone=slow:64k rate=1r/m;
        server {{
            listen 127.0.0.1:{{{{PORT}}}};
            http2 on;
            location /d {{ dashboard; }}
            location /hangs {{ proxy_pass http://127.0.0.1:{port}; proxy_read_timeout 10m; }}
            location /limited {{ limit_req zone=slow burst=5; }}
            location /sent {{ }}
        }}",
        port = silent.port()
    );
    let site = Builder::new(BIN).http(&conf).file("html/limited/a", "x");
    (site.file("html/sent/large", vec![b'x'; 64 << 20]).start(), silent)
}

/// What all threads tell; on a busy machine one may be late.
fn flights(server: &Server) -> Value {
    wait::until("all threads tell", || {
        let flights = data(server)["own"]["flights"].clone();
        (flights["silent_threads"] == serde_json::json!([])).then_some(flights)
    })
}

/// Waits until a request for this path waits for this; what is told of it then.
fn waits(server: &Server, path: &str, phase: &str) -> Value {
    wait::until(phase, || {
        let list = flights(server)["list"].as_array().unwrap().clone();
        list.into_iter().find(|one| one["path"] == path && one["phase"] == phase)
    })
}

/// Requests without a task are told of: one for a back end, and a head that has not come as a whole. Nothing is told that may be a
/// secret, and the oldest comes first.
#[test]
fn requests_in_flight_are_told_of() {
    let (server, _silent) = waiting_site();
    assert_eq!(flights(&server)["total"], 0, "the look itself is not told of");
    let mut parked = server.client();
    parked.send("GET /hangs/parked?password=x HTTP/1.1\r\nHost: example.org\r\n\r\n");
    let told = waits(&server, "/hangs/parked", "first byte");
    let names = ["method", "host", "client"].map(|name| told[name].as_str().unwrap());
    assert_eq!(names, ["GET", "example.org", "127.0.0.1"]);
    assert!(told["age_us"].as_u64().unwrap() > 0);
    let upstream = told["upstream"].as_str().unwrap();
    assert!(upstream.starts_with("http://127.0.0.1:") && upstream.ends_with("/hangs/parked"), "{upstream}");
    let mut head = server.client();
    head.send("GET /secret HTTP/1.1\r\nHo");
    waits(&server, "", "reading head");
    let all = flights(&server);
    assert_eq!(all["total"], 2);
    assert!(!all.to_string().contains("password") && !all.to_string().contains("secret"), "{all}");
    let list = all["list"].as_array().unwrap();
    let ages: Vec<u64> = list.iter().filter_map(|one| one["age_us"].as_u64()).collect();
    assert!(ages.len() == 2 && ages.is_sorted_by(|a, b| a >= b), "{ages:?}");
    drop((parked, head));
    wait::holds("those that are over are not told of", || flights(&server)["total"] == 0);
}

/// What each request in a task waits for is told while it waits, also if it is a stream.
#[test]
fn requests_in_flight_are_told_with_what_they_wait_for() {
    let (server, _silent) = waiting_site();
    let mut body = server.client();
    body.send("POST /hangs/body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nhalf");
    waits(&server, "/hangs/body", "reading body");
    body.send("ofit..");
    waits(&server, "/hangs/body", "first byte");
    let mut limited = server.client();
    assert_eq!(limited.get("/limited/a").status, 200);
    limited.send("GET /limited/a HTTP/1.1\r\nHost: localhost\r\n\r\n");
    waits(&server, "/limited/a", "limits");
    let mut slow = Client::connect_narrow(server.port());
    slow.send("GET /sent/large HTTP/1.1\r\nHost: localhost\r\n\r\n");
    waits(&server, "/sent/large", "sending");
    let mut h2 = H2Client::connect(server.port());
    h2.begin(&H2Client::get_fields("/hangs/stream"), true);
    waits(&server, "/hangs/stream", "first byte");
    assert_eq!(flights(&server)["total"], 4);
    drop((body, limited, slow, h2));
    wait::holds("those that are over are not told of", || flights(&server)["total"] == 0);
}

/// The page says what the doctor would say of the configuration, and says it anew after a reload.
#[test]
fn it_says_what_the_doctor_finds() {
    let mut server = start();
    let finds = |server: &Server, slug: &str| {
        let found = data(server)["own"]["findings"]["audit"].clone();
        found.as_array().is_some_and(|all| all.iter().any(|one| one["slug"] == slug))
    };
    wait::holds("the finding", || finds(&server, "compression-off"));
    let found = data(&server)["own"]["findings"].clone();
    let conf = server.dir().join("brisk.conf");
    let output = Command::new(BIN).args(["doctor", "--json", "--site"]).arg(conf).output().unwrap();
    let doctor: Value = serde_json::from_slice(&output.stdout).unwrap();
    let slugs = |all: &Value| -> Vec<String> {
        all.as_array().unwrap().iter().map(|one| one["slug"].as_str().unwrap().to_string()).collect()
    };
    // The doctor takes this path for nginx's, and has advice that is not for Brisk besides.
    let theirs = slugs(&doctor["audit"]);
    assert!(slugs(&found["audit"]).iter().all(|slug| theirs.contains(slug)), "{found:#} {doctor:#}");
    server.configure_http("", &format!("gzip on; {CONF}"));
    server.reload();
    wait::holds("the finding is gone", || {
        !data(&server)["own"]["findings"].is_null() && !finds(&server, "compression-off")
    });
}

/// The page in a browser, for so many milliseconds of its own time. It gets these answers, one for each look and the last one again and again;
/// for one that is null there is no answer.
fn page_that_gets(server: &Server, answers: &[Value], time_ms: u32) -> String {
    let dir = TempDir::new();
    for (part, name) in [("script", "script.js"), ("style", "style.css")] {
        dir.write(name, ask(server, &format!("GET /d?{part}"), "", "").1);
    }
    let page = ask(server, "GET /d", "", "").1;
    let own = "<script src=\"answers.js\"></script><script src=\"script.js\" defer>";
    let page = page.replace("<script src=\"?script\" defer>", own).replace("\"?style\"", "\"style.css\"");
    let page = dir.write("page.html", page);
    let answers = serde_json::to_string(answers).unwrap();
    let script = format!(
        "const answers = {answers};
        let looks = 0;
        window.fetch = (url, options) => new Promise((give, refuse) => {{
            const answer = answers[Math.min(looks++, answers.length - 1)];
            if (answer) give({{ ok: true, json: async () => answer }});
            else options.signal.addEventListener('abort', () => refuse(options.signal.reason));
        }});"
    );
    dir.write("answers.js", script);
    let url = format!("file://{}", page.display());
    browser::visit_for(time_ms, &url, 1280, &dir.path().join("profile")).document
}

/// Found by reading: the page of a server that hung went on showing what was well before.
#[test]
fn a_server_that_does_not_answer_is_told_of() {
    let server = start();
    let good = data(&server);
    let hung = page_that_gets(&server, &[good.clone(), Value::Null], 8000);
    assert!(hung.contains("No numbers: there was no answer within 5 s"), "{hung}");
    let again = page_that_gets(&server, &[good.clone(), Value::Null, good], 8000);
    assert!(!again.contains("No numbers"), "{again}");
}

/// Found by reading: an upstream that a reload had taken away stayed "up", and what its name was resolved to had buttons that cannot work.
#[test]
fn back_ends_that_are_gone_go_from_the_page() {
    let server = start();
    let mut now = data(&server);
    now["own"]["write"] = true.into();
    let balance = &mut now["own"]["balance"];
    balance["servers"]["u"][1]["parent"] = 0.into();
    balance["upstreams"]["u"]["queue"] = serde_json::json!({ "size": 3, "max_size": 9 });
    balance["upstreams"]["u"]["peers"][0]["fails"] = 7.into();
    balance["upstreams"]["u"]["peers"][0]["responses"]["5xx"] = 5.into();
    let mut before = now.clone();
    let balance = &mut before["own"]["balance"];
    balance["upstreams"]["u"]["queue"]["size"] = 0.into();
    balance["upstreams"]["gone"] = balance["upstreams"]["u"].clone();
    balance["servers"]["gone"] = balance["servers"]["u"].clone();
    let first = page_that_gets(&server, std::slice::from_ref(&before), 3000);
    assert!(first.contains("Back ends: gone, 0 of 9 wait"), "{first}");
    let then = page_that_gets(&server, &[before, now], 5000);
    assert!(!then.contains("Back ends: gone"), "{then}");
    assert!(then.contains("Back ends: u, 3 of 9 wait"), "{then}");
    assert_eq!(then.matches(">Drain</button>").count(), 1, "{then}");
    // One attempt may be both: they are not added up.
    assert!(then.contains("data-label=\"5xx\" class=\"bad\">5<"), "{then}");
    assert!(then.contains("data-label=\"Failed\" class=\"bad\">7<"), "{then}");
}

/// A browser shows the numbers, says nothing in its console, and scrolls to no side, on a phone and on a wide screen.
#[test]
fn a_browser_draws_it() {
    let server = start();
    data(&server);
    let mut client = server.client();
    (0..50).for_each(|_| drop(client.get("/files/a")));
    client.get("/broken");
    wait::holds("a second has ended", || {
        !data(&server)["own"]["history"]["seconds"]["unix_secs"].as_array().unwrap().is_empty()
    });
    let dir = TempDir::new();
    for width in [390, 1280, 2560] {
        let url = format!("http://127.0.0.1:{}/d", server.port());
        let seen = browser::visit(&url, width, &dir.path().join(width.to_string()));
        assert_eq!(seen.console, "", "{width}");
        for text in [
            "requests per second",
            "Costliest URLs",
            "Back ends: u",
            "localhost/broken",
            "configuration generation 1",
        ] {
            assert!(seen.document.contains(text), "{text} at {width}: {}", seen.document);
        }
        assert!(!seen.document.contains("No numbers"), "{width}");
    }
}
