//! Answers are never given to the wrong client: proof by difference.
//!
//! Random configurations (`difference/sites.rs`) are served twice, by a server as it is and by one that prepares no answers and
//! takes nothing from its caches' memory (`BRISK_FAULTS=no-prepared;no-memory-hits`, in builds with debug assertions). Sequences of
//! requests of several clients (`difference/clients.rs`) go to both, and every answer must be the same, byte for byte but for
//! what must differ (`difference/normal.rs`). The last test proves that the comparison finds what it is for: seven impurities,
//! each planted by an order of its own.
//!
//! `BRISK_SEED` repeats a run, `BRISK_DIFFERENCE_SECONDS` makes it longer (`make fuzz`).
#![cfg(debug_assertions)]

#[path = "difference/clients.rs"]
mod clients;
#[path = "difference/normal.rs"]
mod normal;
#[path = "difference/random.rs"]
mod random;
#[path = "difference/sites.rs"]
mod sites;

use brisk_testkit::{Builder, Client, Server, TempDir, wait};
use clients::{Contexts, MALFORMED, Sequence, Session};
use normal::{Normal, seconds};
use random::Rng;
use sites::Site;
use std::collections::HashSet;
use std::time::{Duration, Instant};

const SECONDS: u64 = 10;
const SITES: usize = 40;
/// Per site.
const SEQUENCES: usize = 3;

/// The seed of the run, which a failure repeats.
fn seed() -> u64 {
    let given = std::env::var("BRISK_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(1, |time| time.as_nanos() as u64)
    });
    println!("BRISK_SEED={seed}");
    seed
}

/// What depends on fields, cookies, arguments and addresses.
const HTACCESS: &str = "SetEnvIf X-Test a seen\nHeader set X-Expression \"expr=%{QUERY_STRING} %{HTTP:X-Test}\" env=seen\n
RewriteEngine On\nRewriteCond %{HTTP_COOKIE} a=b\nRewriteRule ^a\\.txt$ /b.txt [L]\nRewriteRule ^b\\.txt$ - [CO=n:v:example.org]\n
<If \"%{HTTP_USER_AGENT} =~ /a/\">\nHeader set X-If yes\n</If>\n<Files page.html>\nHeader set X-Page yes\n</Files>\n";

const HTACCESS_BELOW: &str =
    "<RequireAll>\nRequire all granted\nRequire not ip 127.0.0.2\n</RequireAll>\nErrorDocument 403 \"closed\"\n
<If \"%{REMOTE_ADDR} == '127.0.0.3'\">\nHeader set X-Third yes\n</If>\nRedirect /d/gone /a.txt\n";

/// What both servers give out.
fn files() -> TempDir {
    let dir = TempDir::new();
    let issued = brisk_testkit::tls::issue("any.test", false, None);
    dir.write("a.crt", issued.certificate_pem());
    dir.write("a.key", issued.key_pem());
    dir.write("passwords", "user:{PLAIN}secret\n");
    dir.write("a.txt", "text a\n");
    dir.write("b.txt", "text b, the other one\n");
    dir.write("page.html", "<html><body>a page of text</body></html>\n");
    dir.write("nf.html", "not found here\n");
    dir.write("x.css", "text { color: red }\n".repeat(50));
    dir.write(
        "ssi.shtml",
        "<!--#echo var=\"http_x_test\" --> and text <!--#include virtual=\"/s/b.txt\" -->\n",
    );
    dir.write("one.html", "one of text\n");
    dir.write("packed.txt", "plain text\n");
    dir.write("packed.txt.gz", gzip(b"packed text\n"));
    dir.write("d/index.html", "text of the index\n");
    dir.write("d/one.html", "text of one\n");
    // Which one is drawn shows in its name alone.
    let drawn = dir.write("d/rnd/1.txt", "one of several\n");
    std::fs::hard_link(&drawn, dir.path().join("d/rnd/2.txt")).expect("a second name");
    dir.write("d/many/x.txt", "x\n");
    dir.write("d/many/.hidden", "x\n");
    dir.write(".late", "add_header X-Late \"$uri $http_x_test\";\n");
    dir.write(".htaccess", HTACCESS);
    dir.write("d/.htaccess", HTACCESS_BELOW);
    dir.write("d/.late", "if ($arg_a) { return 204; }\ndeny 127.0.0.2;\nadd_header X-Late $uri;\n");
    dir.write("one/s/a.txt", "text a of one\n");
    let _ = std::os::unix::fs::symlink(dir.path().join("a.txt"), dir.path().join("link.txt"));
    dir
}

fn gzip(text: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text).expect("a vector takes it");
    encoder.finish().expect("a vector takes it")
}

/// A server with this configuration and these orders, and its ports.
fn start(text: &str, files: &TempDir, orders: &str) -> (Server, Vec<u16>) {
    let mut builder = Builder::new(env!("CARGO_BIN_EXE_brisk")).env("BRISK_FAULTS", orders);
    let text = text.replace("FILES", &files.path().display().to_string());
    let text = text.replace("DIR/", "{{DIR}}/");
    let text = ["PORT1", "PORT2", "PORT3", "PORT4"].iter().enumerate().fold(text, |text, (at, name)| {
        let placeholder = if at == 0 { "{{PORT}}".to_string() } else { format!("{{{{PORT{}}}}}", at + 1) };
        text.replace(name, &placeholder)
    });
    let text = builder.fill(&text);
    let server = builder.conf(&text).start();
    let ports = (1..=4).map(|n| server.port_of(n)).collect();
    (server, ports)
}

/// Two answers that should be one.
struct Difference {
    /// Index of the request.
    at: usize,
    got: String,
    want: String,
}

impl Difference {
    /// Whether the answers differ in lines that begin with one of these (in lower case), and in nothing else.
    fn is_only_in(&self, names: &[&str]) -> bool {
        let rest = |text: &str| {
            let lines = text.lines().map(str::trim_end);
            let other =
                lines.filter(|line| !names.iter().any(|name| line.to_ascii_lowercase().starts_with(name)));
            other.map(str::to_string).collect::<Vec<_>>()
        };
        rest(&self.got) == rest(&self.want)
    }
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Difference { at, got, want } = self;
        write!(f, "request {at}\n--- as it is\n{got}\n--- without prepared answers\n{want}")
    }
}

/// Both servers of one configuration.
struct Pair {
    servers: [(Server, Vec<u16>); 2],
    contexts: Contexts,
    requests: usize,
    /// How the log lines of requests begin that one of them has answered in chunks. Whether it does, and in how many, depends on
    /// when the parts of the body were there: the number of bytes sent is not compared.
    chunked: HashSet<String>,
}

impl Pair {
    /// `orders` are for both.
    fn start(sites: &[Site], files: &TempDir, orders: &str) -> Pair {
        let text = sites::whole(sites);
        let reference = format!("no-prepared;no-memory-hits;{orders}");
        let servers = [start(&text, files, orders), start(&text, files, &reference)];
        Pair { servers, contexts: Contexts::new(), requests: 0, chunked: HashSet::new() }
    }

    /// Plays a sequence on both; the error is where they differ.
    fn compare(&mut self, sequence: &Sequence) -> Result<(), Difference> {
        let mut sides: Vec<(Session<'_>, Normal)> = Vec::new();
        for (server, ports) in &self.servers {
            let normal = Normal::new(ports, &server.dir().display().to_string());
            sides.push((Session::new(sequence, ports, &self.contexts), normal));
        }
        for (at, ask) in sequence.asks.iter().enumerate() {
            let mut answers = sides.iter_mut().map(|(session, normal)| {
                let from = seconds();
                let text = session.ask(ask);
                if text.to_ascii_lowercase().contains("\r\ntransfer-encoding: chunked\r\n") {
                    self.chunked.insert(format!("{}|{} {} ", sequence.host, ask.method, sequence.target));
                }
                (normal.date(&text), normal.answer(&text, from, seconds()))
            });
            let (got, want) = (answers.next().unwrap_or_default(), answers.next().unwrap_or_default());
            drop(answers);
            self.requests += 2;
            let ((made, got), (made_other, want)) = (got, want);
            let normal = &sides[0].1;
            let is_same = got == want
                || made != made_other && normal.of_any_second(&got) == normal.of_any_second(&want);
            if !is_same || got.starts_with(MALFORMED) {
                return Err(Difference { at, got, want });
            }
        }
        Ok(())
    }

    /// What was logged of the requests must be the same, too.
    fn compare_logs(&self) -> Result<(), String> {
        let lines = |at: usize| -> Vec<String> {
            self.servers[at]
                .0
                .access_log()
                .lines()
                .map(|line| {
                    let is_chunked = self.chunked.iter().any(|request| line.starts_with(request));
                    let line = line.rsplit_once('|').filter(|_| is_chunked).map_or(line, |(line, _)| line);
                    line.replace("/rnd/2.txt", "/rnd/1.txt")
                })
                .collect()
        };
        // The line of a request may be written after its last byte was sent, when the next one is answered already.
        let sorted = |at: usize| {
            let mut all = lines(at);
            all.sort_unstable();
            all
        };
        wait::within(wait::DEADLINE, || (sorted(0) == sorted(1)).then_some(()));
        let (got, want) = (sorted(0), sorted(1));
        match got.iter().zip(&want).find(|(got, want)| got != want) {
            Some((got, want)) => Err(format!("--- logged\n{got}\n--- without prepared answers\n{want}")),
            None if got.len() != want.len() => Err(format!("{} lines logged, not {}", got.len(), want.len())),
            None => Ok(()),
        }
    }

    /// How many answers of the server as it is were prepared ones.
    fn prepared(&self) -> usize {
        prepared(&mut self.servers[0].0.client())
    }
}

/// The count of prepared answers that a server tells of.
fn prepared(client: &mut Client) -> usize {
    let metrics = client.request("GET /metrics HTTP/1.1\r\nHost: metrics.test\r\n\r\n").text();
    let line = metrics.lines().find_map(|line| line.strip_prefix("brisk_prepared_answers_total "));
    line.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("no count in\n{metrics}"))
}

/// Random servers and what is asked of them; see [`sites::site`].
fn batch(rng: &mut Rng, count: usize, focus: Option<&str>) -> (Vec<Site>, Vec<Sequence>) {
    let sites: Vec<Site> = (0..count).map(|number| sites::site(rng, number, focus)).collect();
    let sequences = (0..count * SEQUENCES).map(|at| {
        // Half of them where answers are shared most often, half anywhere.
        let is_plain = focus.is_some() || at % 2 == 0;
        let targets = if is_plain { sites::PREPARED_TARGETS } else { sites::TARGETS };
        Sequence::random(rng, at / SEQUENCES, &sites[at / SEQUENCES], targets, focus.is_some())
    });
    let sequences = sequences.collect();
    (sites, sequences)
}

#[test]
fn nobody_gets_an_answer_that_was_made_for_somebody_else() {
    let given = std::env::var("BRISK_DIFFERENCE_SECONDS").ok().and_then(|text| text.parse().ok());
    let until = Instant::now() + Duration::from_secs(given.unwrap_or(SECONDS));
    let files = files();
    let seed = seed();
    let mut rng = Rng::new(seed);
    let (mut configurations, mut requests, mut prepared) = (0, 0, 0);
    while Instant::now() < until {
        let (sites, sequences) = batch(&mut rng, SITES, None);
        let mut pair = Pair::start(&sites, &files, "");
        // Once more: what was kept the first time must not be stale the second time.
        for sequence in sequences.iter().chain(&sequences) {
            if let Err(difference) = pair.compare(sequence) {
                let site = &sites[sequence.site].text;
                panic!("BRISK_SEED={seed}\n{sequence:#?}\n{difference}\n--- the server of it\n{site}");
            }
            if Instant::now() > until + Duration::from_secs(SECONDS) {
                break;
            }
        }
        if let Err(difference) = pair.compare_logs() {
            panic!("BRISK_SEED={seed}\n{difference}");
        }
        configurations += sites.len();
        requests += pair.requests;
        prepared += pair.prepared();
    }
    println!("{configurations} configurations, {requests} requests, {prepared} prepared answers");
    assert!(prepared > 0, "nothing was compared");
}

/// An impurity that is planted.
struct Plant {
    order: &'static str,
    /// How the lines begin that it changes.
    shows_in: &'static [&'static str],
    /// The directive without which it has no effect.
    focus: &'static str,
}

/// Looks for a planted impurity in random configurations; gives in how many requests it was found.
fn finds(rng: &mut Rng, files: &TempDir, plant: &Plant) -> Option<usize> {
    let mut requests = 0;
    let until = Instant::now() + Duration::from_mins(2);
    while Instant::now() < until {
        let (sites, sequences) = batch(rng, 24, Some(plant.focus));
        let mut pair = Pair::start(&sites, files, plant.order);
        for turn in 0..2 {
            for sequence in &sequences {
                if let Err(difference) = pair.compare(sequence) {
                    assert!(difference.is_only_in(plant.shows_in), "{sequence:#?}\n{difference}");
                    return Some(requests + pair.requests);
                }
            }
            if turn == 0 && plant.order == "lie-time" {
                // What follows from the clock shows when the clock has moved on.
                let then = seconds() + 3;
                wait::until("another second", || (seconds() > then).then_some(()));
            }
        }
        requests += pair.requests;
    }
    None
}

#[test]
fn planted_impurities_are_found() {
    let files = files();
    let seed = seed();
    let keepalive = Plant {
        order: "lie-keepalive",
        shows_in: &["connection:", "keep-alive:"],
        focus: "keepalive_disable safari;",
    };
    let lies = ["lie-header", "lie-cookie", "lie-address", "lie-tls", "lie-time", "lie-random"];
    let lies = lies.map(|order| Plant { order, shows_in: &["x-lie:"], focus: "" });
    for plant in std::iter::once(keepalive).chain(lies) {
        let found = finds(&mut Rng::new(seed), &files, &plant);
        assert!(found.is_some(), "BRISK_SEED={seed}: {} was not found", plant.order);
        println!("{}: found after {} requests", plant.order, found.unwrap_or(0));
    }
}

/// The order of the reference does what it says, or the comparison would compare a server with itself.
#[test]
fn the_reference_prepares_nothing() {
    let files = files();
    let count = |orders: &str| {
        let (server, _) = start(&sites::whole(&[]), &files, orders);
        let mut client = server.client();
        (0..6).for_each(|_| assert_eq!(client.get("/").text(), "no site\n"));
        prepared(&mut client)
    };
    assert!(count("") > 0);
    assert_eq!(count("no-prepared"), 0);
}
