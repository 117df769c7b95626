//! Scenarios from their files.

use super::*;

pub const SHOP: &str = r#"
users = 6
ramp = "100ms"
duration = "2s"
iterations = 5
thresholds = ["errors < 0.1%", "shop: p99 < 10s", "me: count > 29"]

[[data]]
name = "people"
file = "people.csv"

[[user]]
think = "1ms..5ms"

[[user.start]]
name = "login"
request = "POST /login"
json = { user = "{{people.name}}" }
save = { token = "json:$.token" }
check = { status = 200, equal = { "json:$.ok" = true } }

[[user.step]]
name = "me"
group = "shop"
request = "GET /me?who={{people.name}}"
headers = { Authorization = "Bearer {{token}}" }
check = { contains = "hello {{people.name}}", within = "10s" }

[[user.step]]
name = "moved"
group = "shop"
request = "GET /old"
"#;

pub fn write(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn users_log_in_remember_and_are_checked() {
    let server = server();
    let dir = TempDir::new();
    let file = write(dir.path(), "shop.toml", SHOP);
    write(dir.path(), "people.csv", "name\nann\nbob\n");
    let target = format!("http://127.0.0.1:{}", server.port());
    let json: Value =
        serde_json::from_str(&printed(&["bench", "run", "--json", "-t", "2", "--target", &target, &file], 0))
            .unwrap();
    let steps: Vec<(String, u64, u64)> = json["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| {
            let of = |key: &str| step["figures"][key].as_u64().unwrap();
            (step["name"].as_str().unwrap().to_owned(), of("requests"), of("failed"))
        })
        .collect();
    assert_eq!(steps, [("login".into(), 6, 0), ("me".into(), 30, 0), ("moved".into(), 30, 0)], "{json}");
    assert_eq!(json["groups"]["shop"]["requests"], 60);
    for name in ["ann", "bob"] {
        assert!(server.access_log().contains(&format!("/me?who={name}")));
    }
    // The same over HTTP/2, with a threshold that does not hold.
    let strict = write(
        dir.path(),
        "strict.toml",
        &SHOP.replace("me: count > 29", "me: count > 30").replace("users = 6", "users = 6\ninsecure = true"),
    );
    let secure = format!("https://127.0.0.1:{}", server.port_of(2));
    let text = printed(&["bench", "run", "--target", &secure, &strict], 3);
    assert!(text.contains("DOES NOT HOLD: me: count > 30") && text.contains("holds: errors"), "{text}");
}

/// As plain runs do: in the text, for programs, and on the page.
#[test]
fn tiers_are_watched_beside_a_scenario() {
    let server = server();
    let dir = TempDir::new();
    let steps = "users = 2\nduration = \"1500ms\"\n[[user]]\n[[user.step]]\nrequest = \"GET /a.txt\"\n\
                 [[user.step]]\nrequest = \"GET /old\"\n";
    let file = write(dir.path(), "watched.toml", steps);
    let page = dir.path().join("watched.html");
    let watch = format!("server={},port=port:{}", server.pid(), server.port());
    let target = format!("http://127.0.0.1:{}", server.port());
    let with = |more: &[&str]| -> Vec<String> {
        let args = ["bench", "run", "--target", &target, "--watch", &watch];
        args.iter().chain(more).chain(&[&*file]).map(|&arg| arg.to_owned()).collect()
    };
    let shown = |more: &[&str], code: i32| {
        let args = with(more);
        printed(&args.iter().map(String::as_str).collect::<Vec<_>>(), code)
    };
    let json: Value = serde_json::from_str(&shown(&["--json", "--html", page.to_str().unwrap()], 0)).unwrap();
    let of = |tier: &str, figure: &str| json["tiers"][tier][figure].as_f64().unwrap();
    assert!(of("server", "cpu_us_per_response") > 0.0 && of("server", "pss_bytes") > 1e6, "{json}");
    assert!(of("port", "processes") >= 1.0, "{json}");
    // Redirects are responses: three to two steps.
    let per_response = of("server", "cpus") * json["seconds"].as_f64().unwrap() * 1e6
        / json["all"]["requests"].as_f64().unwrap()
        / 1.5;
    let ratio = of("server", "cpu_us_per_response") / per_response;
    assert!((0.8..1.25).contains(&ratio), "{ratio} {json}");
    let looks = json["watched"].as_array().unwrap();
    assert!(looks.iter().any(|look| look["tiers"]["server"]["cpus"].as_f64() > Some(0.0)), "{json}");
    let limit = &json["limit"];
    let is_told = limit["full"].is_string() || limit["doubt"].is_null();
    assert_eq!(limit["headroom"].as_f64() >= Some(1.0), is_told, "{json}");
    let page = std::fs::read_to_string(page).unwrap();
    for part in ["/old", "CPU µs/response", "Machine: CPUs", "Context switches", "Sockets in trouble"] {
        assert!(page.contains(part), "{part}");
    }
    let text = shown(&[], 0);
    assert!(
        text.contains("server: ")
            && text.contains(" µs CPU per response, ")
            && text.contains("machine: CPUs"),
        "{text}"
    );
    let output = run(&["bench", "run", "--watch", "db=no-such-command", "--target", &target, &file]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no process to watch for \"db\""), "{output:?}");
}

/// What plain loads leave behind, scenarios do.
#[test]
fn a_run_has_the_reports_of_a_plain_load() {
    let server = server();
    let dir = TempDir::new();
    let steps = "users = 2\nduration = \"1500ms\"\nthresholds = [\"errors < 60%\"]\n[[user]]\nthink = \"5ms\"\n\
                 [[user.step]]\nname = \"a,\\\"b\"\nrequest = \"GET /a.txt\"\n[[user.step]]\nrequest = \"GET /down\"\n";
    let file = write(dir.path(), "s.toml", steps);
    let path = |name: &str| dir.path().join(name).display().to_string();
    let read = |name: &str| std::fs::read_to_string(path(name)).unwrap();
    let target = format!("http://127.0.0.1:{}", server.port());
    let watch = format!("server={}", server.pid());
    let json_file = format!("--json={}", path("r.json"));
    let files = [path("r.html"), path("r.csv"), path("r.prom"), path("r.raw")];
    let [html, csv, prom, raw] = files.each_ref().map(String::as_str);
    let args = [
        "bench", "run", "-q", "--target", &target, "--watch", &watch, &json_file, "--html", html, "--csv",
        csv,
    ];
    let output = run(&[&args[..], &["--prometheus", prom, "--raw", raw, &file]].concat());
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let json: Value = serde_json::from_str(&read("r.json")).unwrap();
    let bad = json["statuses"]["503"].as_u64().unwrap();
    let good = json["responses"].as_u64().unwrap() - bad;
    assert!(good > 20 && bad > 20 && json["errors"]["check"] == 0, "{json}");
    assert_eq!(
        (json["all"]["requests"].as_u64(), json["all"]["failed"].as_u64()),
        (Some(good + bad), Some(bad))
    );
    assert!(json["environment"]["processor"].is_string() && json["invalid"].is_null(), "{json}");
    let series = json["series"].as_array().unwrap();
    let sum = |name: &str| series.iter().map(|slice| slice[name].as_u64().unwrap()).sum::<u64>();
    assert_eq!((sum("responses"), sum("failures")), (good + bad, bad), "{json}");
    let rows = read("r.csv");
    let column = |name: &str| rows.lines().next().unwrap().split(',').position(|have| have == name).unwrap();
    let of_csv = |name: &str| {
        let cell = |line: &str| line.split(',').nth(column(name)).unwrap().parse::<f64>().unwrap();
        rows.lines().skip(1).map(cell).sum::<f64>()
    };
    assert_eq!((of_csv("responses") as u64, of_csv("failures") as u64), (good + bad, bad), "{rows}");
    assert!(of_csv("server_cpus") > 0.0, "{rows}");
    let prom = read("r.prom");
    assert!(prom.contains("brisk_bench_step_requests{step=\"a,\\\"b\"} "), "{prom}");
    let raw = read("r.raw");
    assert_eq!(raw.lines().count() as u64, 1 + good + bad);
    assert_eq!(raw.matches(",\"GET /down\",503,\"status 503\"").count() as u64, bad, "{raw}");
    assert!(raw.contains(",\"a,\"\"b\",200,"), "{raw}");
    browser::look_at_report(Path::new(html), &dir.path().join("profile"), 8);
    let page = read("r.html");
    for part in [
        "Rate and failures",
        "Latency over time",
        "Percentiles",
        "Context switches",
        "status 503",
        "processor",
    ] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn a_run_can_be_seen_in_a_browser_and_in_lines() {
    let server = server();
    let dir = TempDir::new();
    let steps = "users = 3\nduration = \"10m\"\n[[user]]\nthink = \"5ms\"\n[[user.step]]\nrequest = \"GET /down\"\n\
                 [[user.step]]\nrequest = \"GET /a.txt\"\n";
    let file = write(dir.path(), "s.toml", steps);
    let errors = dir.path().join("err");
    let mut child = Command::new(BIN)
        .args([
            "bench",
            "run",
            "--web=127.0.0.1:0",
            "--target",
            &format!("http://127.0.0.1:{}", server.port()),
            &file,
        ])
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&errors).unwrap())
        .spawn()
        .unwrap();
    let said = || std::fs::read_to_string(&errors).unwrap();
    let line = Regex::new(r"\d+s 3 users: \d+.* /s, p50 \d.* ms, p99 \d.* ms, failed \d+\n").unwrap();
    wait::holds("there are lines", || line.find_iter(&said()).count() >= 2);
    let url = said().split_once("watch it at ").unwrap().1.lines().next().unwrap().to_owned();
    let seen = browser::document(&url, &dir.path().join("profile"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(
        seen.contains("<h2>3 users</h2>") && seen.contains(" responses; ") && seen.contains("<svg"),
        "{seen}"
    );
}

/// Who is not trusted is told why, and can be trusted all the same.
#[test]
fn nothing_but_failures_is_exit_code_2_and_has_its_reasons() {
    let server = server();
    let dir = TempDir::new();
    let file = write(
        dir.path(),
        "s.toml",
        "duration = \"300ms\"\n[[user]]\nthink = \"5ms\"\n[[user.step]]\nrequest = \"GET /a.txt\"\n",
    );
    let secure = format!("https://localhost:{}", server.port_of(2));
    let text = printed(&["bench", "run", "--target", &secure, &file], 2);
    assert!(
        text.contains("failed, tls: the certificate is not trusted: ") && text.contains("(-k takes any)"),
        "{text}"
    );
    printed(&["bench", "run", "-k", "--target", &secure, &file], 0);
    printed(&["bench", "run", "--target", "http://127.0.0.1:1", &file], 2);
}

/// Values from every place that an answer has, used in every place that a request has; stages that ramp.
#[test]
fn values_are_taken_and_used_everywhere() {
    let server = server();
    let dir = TempDir::new();
    let text = format!(
        r#"
target = "http://127.0.0.1:{}"
iterations = 2
thresholds = ["errors < 1%", "count > 7"]
[variables]
lang = "de"
[[stage]]
users = 2
over = "200ms"
hold = "20s"
[[user]]
think = "exp:2ms"
[[user.step]]
name = "login"
request = "POST /login"
form = {{ user = "a b" }}
save = {{ j = "json:$.token", r = 'regex:"token":"(.)', h = "header:X-Id", c = "cookie:sid", s = "status" }}
[[user.step]]
name = "used"
request = "GET /a.txt?{{{{j}}}}-{{{{r}}}}-{{{{h}}}}-{{{{c}}}}-{{{{s}}}}-{{{{lang}}}}-{{{{user.round}}}}"
headers = {{ User-Agent = "agent {{{{user.number}}}} {{{{h}}}}" }}
check = {{ matches = "^a+$" }}
think = "1ms..3ms"
"#,
        server.port()
    );
    let file = write(dir.path(), "v.toml", &text);
    let json: Value = serde_json::from_str(&printed(&["bench", "run", "--json", &file], 0)).unwrap();
    assert_eq!((&json["all"]["requests"], &json["all"]["failed"]), (&8.into(), &0.into()), "{json}");
    let log = server.access_lines(8).join("\n");
    for round in 0..2 {
        for user in 0..2 {
            let line = Regex::new(&format!(r#"GET /a.txt\?t0k-t-42-s1-200-de-{round} .*"agent {user} 42""#))
                .unwrap();
            assert!(line.is_match(&log), "{line}: {log}");
        }
    }
}

/// What fails is counted by kind and is never a success.
#[test]
fn failures_are_counted_by_kind() {
    let server = server();
    let dir = TempDir::new();
    let step = |name: &str, rest: &str| format!("[[user.step]]\nname = \"{name}\"\n{rest}\n");
    let half = broken_server(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
    let text = format!(
        "target = \"http://127.0.0.1:{}\"\niterations = 1\nthresholds = [\"errors < 50%\"]\n[[user]]\n{}{}{}{}{}{}{}",
        server.port(),
        step("other", "request = \"GET /down\"\ncheck = { contains = \"x\", status = 200 }"),
        step("status", "request = \"GET /down\""),
        step("check", "request = \"GET /a.txt\"\ncheck = { contains = \"zzz\" }"),
        step("save", "request = \"GET /a.txt\"\nsave = { x = \"json:$.x\" }"),
        step("gone", "request = \"GET http://127.0.0.1:1/\""),
        step("half", &format!("request = \"GET http://127.0.0.1:{half}/\"")),
        step("wanted", "request = \"GET /down\"\ncheck = { status = 503 }"),
    );
    let file = write(dir.path(), "f.toml", &text);
    let json: Value = serde_json::from_str(&printed(&["bench", "run", "--json", &file], 3)).unwrap();
    let failures = &json["all"]["failures"];
    for kind in [
        "status 503",
        "check: status 503",
        "check: contains",
        "no value to save as x",
        "refused",
        "truncated",
    ] {
        assert_eq!(failures[kind], 1, "{kind}: {json}");
    }
    assert_eq!((&json["all"]["requests"], &json["all"]["failed"]), (&7.into(), &6.into()));
    // Answers are answers, whether their status was checked or not.
    assert_eq!((&json["statuses"]["503"], &json["errors"]["check"]), (&2.into(), &2.into()), "{json}");
}

/// A plan of JMeter: a login whose answer the next request needs, a loop, a group of its own schedule.
fn plan() -> String {
    let text = |name: &str, value: &str| format!("<stringProp name=\"{name}\">{value}</stringProp>");
    let element = |kind: &str, name: &str, properties: &str, below: &str| {
        format!(
            "<{kind} testclass=\"{kind}\" testname=\"{name}\" enabled=\"true\">{properties}</{kind}><hashTree>{below}</hashTree>"
        )
    };
    let sampler = |name: &str, path: &str, below: &str| {
        let place = [
            text("HTTPSampler.domain", "127.0.0.1"),
            text("HTTPSampler.port", "${__P(port,1)}"),
            text("HTTPSampler.path", path),
            text("HTTPSampler.method", "GET"),
        ];
        element("HTTPSamplerProxy", name, &place.concat(), below)
    };
    let token = [
        text("JSONPostProcessor.referenceNames", "token"),
        text("JSONPostProcessor.jsonPathExprs", "$.token"),
    ];
    let header = format!(
        "<collectionProp name=\"HeaderManager.headers\"><elementProp>{}{}</elementProp></collectionProp>",
        text("Header.name", "Authorization"),
        text("Header.value", "Bearer ${token}")
    );
    let greets = format!(
        "<collectionProp name=\"Asserion.test_strings\">{}</collectionProp>{}{}",
        text("1", "hello ann"),
        text("Assertion.test_field", "Assertion.response_data"),
        text("Assertion.test_type", "16")
    );
    let below = element("HeaderManager", "bearer", &header, "")
        + &element("ResponseAssertion", "greets", &greets, "");
    let login = sampler("login", "/login", &element("JSONPostProcessor", "token", &token.concat(), ""));
    let thrice = element(
        "LoopController",
        "thrice",
        &text("LoopController.loops", "3"),
        &sampler("me", "/me?who=ann", &below),
    );
    let group = [
        text("ThreadGroup.num_threads", "2"),
        text("ThreadGroup.ramp_time", "0"),
        text("LoopController.loops", "2"),
    ];
    let group = element("ThreadGroup", "buyers", &group.concat(), &format!("{login}{thrice}"));
    let plan = element("TestPlan", "plan", "", &group);
    format!("<?xml version=\"1.0\"?><jmeterTestPlan><hashTree>{plan}</hashTree></jmeterTestPlan>")
}

#[test]
fn a_test_plan_of_jmeter_runs_unchanged() {
    let server = server();
    let dir = TempDir::new();
    let file = write(dir.path(), "plan.jmx", &plan());
    let port = format!("port={}", server.port());
    let json: Value =
        serde_json::from_str(&printed(&["bench", "run", "--json", "-q", "-J", &port, &file], 0)).unwrap();
    assert_eq!((&json["all"]["requests"], &json["all"]["failed"]), (&16.into(), &0.into()), "{json}");
    let steps: Vec<&str> =
        json["steps"].as_array().unwrap().iter().filter_map(|step| step["name"].as_str()).collect();
    assert_eq!(steps, ["login", "me"]);
    assert!(printed(&["bench", "import", "-J", &port, &file], 0).contains("repeat = 3"));
    // What cannot be is refused with its line.
    let wrong = write(
        dir.path(),
        "wrong.jmx",
        &std::fs::read_to_string(&file).unwrap().replace("LoopController", "ForeachController"),
    );
    let output = run(&["bench", "run", &wrong]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(1) && error.contains("wrong.jmx:1: ForeachController \"thrice\""),
        "{error}"
    );
}

#[test]
fn mistakes_and_imports() {
    let server = server();
    let dir = TempDir::new();
    let wrong = write(dir.path(), "w.toml", "usrs = 5\n[[user]]\n[[user.step]]\nrequest = \"GET /\"\n");
    let output = run(&["bench", "run", &wrong]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        error.contains("w.toml:1:1: unknown key") && error.contains("did you mean \"users\"?"),
        "{error}"
    );
    let schema: Value = serde_json::from_str(&printed(&["bench", "schema"], 0)).unwrap();
    assert_eq!(schema["properties"]["users"]["minimum"], 1);

    let target = format!("http://127.0.0.1:{}", server.port());
    let locust = "from locust import HttpLocust, TaskSet, task\n\nclass UserBehavior(TaskSet):\n    @task(1)\n    def index(self):\n        self.client.get(\"/\")\n\nclass WebsiteUser(HttpLocust):\n    task_set = UserBehavior\n    min_wait = 300\n    max_wait = 1000\n";
    let log = "1.2.3.4 - - [21/Nov/2026:05:52:57 +0000] \"GET /a.txt HTTP/1.1\" 200 5 \"-\" \"old\"\n1.2.3.4 - - [21/Nov/2026:05:52:59 +0000] \"GET /no HTTP/1.1\" 404 5 \"-\" \"old\"\n";
    let locust = write(dir.path(), "locustfile.py", locust);
    let log = write(dir.path(), "access.log", log);
    let har = dir.path().join("p.har").to_str().unwrap().to_owned();
    printed(&["bench", "page", "--har", &har, &format!("{target}/")], 0);
    for (source, args, requests) in [
        (&locust, &["-u", "2", "-d", "200ms"][..], 2),
        (&log, &["--speed", "10"], 2),
        (&har, &["-u", "1", "-d", "300ms"], 7),
    ] {
        let file = dir.path().join("imported.toml").to_str().unwrap().to_owned();
        printed(&["bench", "import", source, "--target", &target, "-o", &file], 0);
        let output = run(&[&["bench", "run", "--json"], args, &[&file]].concat());
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        // A machine that is busy with other tests makes a replay late, and it says so.
        let code = if json["invalid"].is_string() { 2 } else { 0 };
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert!(
            json["all"]["requests"].as_u64() >= Some(requests) && json["all"]["failed"] == 0,
            "{source}: {json}"
        );
    }
    let bad = write(dir.path(), "bad.py", "import requests\n");
    // A log does not say which server it is of.
    let output = run(&["bench", "import", &log]);
    assert!(
        output.status.code() == Some(1) && String::from_utf8_lossy(&output.stderr).contains("give --target")
    );
    let error = run(&["bench", "import", &bad]).stderr;
    assert!(String::from_utf8_lossy(&error).contains("bad.py:1: \"import requests\""));
}
