//! Results beside those of others: the same server, measured by wrk, h2load and us.

use super::*;
use brisk_load::sample::median;
use std::time::Duration;

/// Answers after as many microseconds as the path says.
fn delaying() -> u16 {
    const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            stream.set_nodelay(true).unwrap();
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(count @ 1..) = stream.read(&mut buffer) {
                    let head = String::from_utf8_lossy(&buffer[..count]).into_owned();
                    let path = head.split(' ').nth(1).unwrap_or_default();
                    std::thread::sleep(Duration::from_micros(path[1..].parse().unwrap_or(0)));
                    if stream.write_all(OK).is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

/// What a tool says: responses per second, and the median in milliseconds.
#[derive(Debug, Clone, Copy)]
struct Says {
    rate: f64,
    p50: f64,
}

fn brisk(url: &str) -> Says {
    let json: Value =
        serde_json::from_str(&printed(&["bench", "-q", "--json", "-t1", "-c4", "-d1s", url], 0)).unwrap();
    let of = |value: &Value| value.as_f64().unwrap();
    Says { rate: of(&json["responses_per_second"]), p50: of(&json["latency_us"]["p50"]) / 1e3 }
}

fn wrk(url: &str) -> Says {
    let text = old::real("wrk", &["-t1", "-c4", "-d1s", "--latency", url]);
    let found = |pattern: &str| {
        let found = Regex::new(pattern).unwrap().captures(&text).unwrap_or_else(|| panic!("{text}"));
        found[1].parse::<f64>().unwrap()
    };
    Says { rate: found(r"Requests/sec: +([0-9.]+)"), p50: found(r"50% +([0-9.]+)ms") }
}

fn h2load(url: &str) -> Says {
    let dir = TempDir::new();
    let log = dir.path().join("log");
    let file = format!("--log-file={}", log.display());
    let text = old::real("h2load", &["--h1", "-t1", "-c4", "-D1", &file, url]);
    let rate = Regex::new(r"finished in [^,]+, ([0-9.]+) req/s").unwrap();
    let rate = rate.captures(&text).unwrap_or_else(|| panic!("{text}"))[1].parse().unwrap();
    let log = std::fs::read_to_string(log).unwrap();
    let micros = |line: &str| line.split('\t').nth(2).unwrap().parse::<f64>().unwrap();
    Says { rate, p50: median(&log.lines().map(micros).collect::<Vec<_>>()) / 1e3 }
}

/// The medians of several runs differ by no more than runs of one tool do among themselves, or by 3 %.
fn disagreement(name: &str, ours: &[f64], theirs: &[f64]) -> Option<String> {
    let spread = |values: &[f64]| {
        let (low, high) =
            values.iter().fold((f64::MAX, 0.0f64), |(low, high), value| (low.min(*value), high.max(*value)));
        high - low
    };
    let (a, b) = (median(ours), median(theirs));
    let noise = spread(ours).max(spread(theirs)).max(b * 0.03);
    ((a - b).abs() > noise).then(|| format!("{name}: {ours:?} and {theirs:?}"))
}

/// The machine may be busy with other tests: one quiet round of several counts.
#[test]
fn wrk_h2load_and_we_agree() {
    let url = format!("http://127.0.0.1:{}/5000", delaying());
    let mut wrong = Vec::new();
    for _ in 0..4 {
        let tools: [fn(&str) -> Says; 3] = [brisk, wrk, h2load];
        let mut said = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..3 {
            tools.iter().zip(&mut said).for_each(|(tool, said)| said.push(tool(&url)));
        }
        let rates = said.each_ref().map(|said| said.iter().map(|says| says.rate).collect::<Vec<_>>());
        let p50s = said.each_ref().map(|said| said.iter().map(|says| says.p50).collect::<Vec<_>>());
        // Four users, 5 ms each: all of them know that.
        assert!(p50s.iter().flatten().all(|&p50| p50 >= 5.0), "{p50s:?}");
        assert!(rates.iter().flatten().all(|&rate| rate < 820.0), "{rates:?}");
        let faults = [
            disagreement("rate, wrk", &rates[0], &rates[1]),
            disagreement("rate, h2load", &rates[0], &rates[2]),
            disagreement("p50, wrk", &p50s[0], &p50s[1]),
            disagreement("p50, h2load", &p50s[0], &p50s[2]),
        ];
        wrong = faults.into_iter().flatten().collect::<Vec<_>>();
        if wrong.is_empty() {
            return;
        }
    }
    panic!("{wrong:?}");
}

/// On this machine, with its own noise, other tests included: a tenth is found within 20 pairs, in both directions.
#[test]
fn a_real_difference_of_a_tenth_is_found() {
    let port = delaying();
    let (slow, quick) = (format!("http://127.0.0.1:{port}/10000"), format!("http://127.0.0.1:{port}/9000"));
    let verdict = |a: &str, b: &str| {
        let common = [
            "bench", "compare", "--json", "--by", "latency", "--others", "100", "-d", "200ms", "-w", "40ms",
            "-c", "4",
        ];
        let json: Value = serde_json::from_str(&printed(&[&common[..], &[a, b]].concat(), 0)).unwrap();
        assert!(json["pairs"].as_u64() <= Some(20), "{json}");
        (json["verdict"].as_str().unwrap().to_owned(), json)
    };
    for (a, b, want) in [(&slow, &quick, "faster"), (&quick, &slow, "slower")] {
        // What disturbs many pairs may leave it open.
        let all: Vec<_> = (0..3).map(|_| verdict(a, b)).take_while(|(have, _)| have != want).collect();
        assert!(all.len() < 3, "{want}: {all:?}");
        assert!(all.iter().all(|(have, _)| have == "undecided"), "{want}: {all:?}");
    }
}

/// Answers one connection after another; each answer takes so many seconds of CPU, by the thread's own clock: whatever else
/// the machine does, that is what it costs.
const BURNER: &str = r"
import socket, sys, time
listener = socket.create_server(('127.0.0.1', 0))
print(listener.getsockname()[1], flush=True)
while True:
    connection = listener.accept()[0]
    try:
        while connection.recv(4096):
            end = time.thread_time() + float(sys.argv[1])
            while time.thread_time() < end: pass
            connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
    except OSError: pass
";

/// A burner's URL; it ends with the test.
struct Burner(std::process::Child, String);

impl Burner {
    fn start(seconds: f64) -> Self {
        let mut child = Command::new("python3")
            .args(["-c", BURNER, &seconds.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut port)
            .unwrap();
        Self(child, format!("http://127.0.0.1:{}/", port.trim()))
    }
}

impl Drop for Burner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The main figure: a tenth less CPU per request is found within 20 pairs, and nothing else is found by turning it round.
/// Other tests that run meanwhile take CPUs, but nothing of what these servers use; so their pairs count.
#[test]
fn a_tenth_less_cpu_is_found() {
    let (more, less) = (Burner::start(0.002), Burner::start(0.0018));
    for (a, b, want) in [(&more, &less, "faster"), (&less, &more, "slower")] {
        let options =
            ["bench", "compare", "--json", "--others", "100", "-c", "1", "-d", "300ms", "-w", "20ms"];
        let json: Value = serde_json::from_str(&printed(&[&options[..], &[&a.1, &b.1]].concat(), 0)).unwrap();
        assert_eq!(
            (&json["verdict"], &json["by"]),
            (&want.into(), &"server CPU per response".into()),
            "{json}"
        );
        assert!(json["pairs"].as_u64() <= Some(20), "{json}");
        let ratio = json["ratio"].as_f64().unwrap();
        let truth = if want == "faster" { 0.9 } else { 1.0 / 0.9 };
        assert!((ratio / truth - 1.0).abs() < 0.05, "{json}");
    }
}
