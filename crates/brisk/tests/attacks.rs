//! Attacks in the public record, one test each, named after what the attack must not achieve.
//!
//! docs/security.md lists them with the advisories that describe them and the limits that stop them here;
//! `every_attack_is_listed` holds the two against each other. Most of them are about a server between a client and a back
//! end, so the back end here takes requests exactly as their framing says and keeps what it was sent.

#[path = "attacks/access.rs"]
mod access;
#[path = "attacks/applications.rs"]
mod applications;
#[path = "attacks/back_ends.rs"]
mod back_ends;
#[path = "attacks/caches.rs"]
mod caches;
#[path = "attacks/framing.rs"]
mod framing;
#[path = "attacks/http2.rs"]
mod http2;
#[path = "attacks/names.rs"]
mod names;
#[path = "attacks/resources.rs"]
mod resources;
#[path = "attacks/routing.rs"]
mod routing;
#[path = "attacks/tls.rs"]
mod tls;

use brisk_testkit::backend::Peer;
use brisk_testkit::{Backend, Builder, Client, Server};
use std::path::Path;
use std::sync::{Arc, Mutex};

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

/// A second request inside of a first one: what request smuggling wants to reach.
const SMUGGLED: &str = "GET /admin/smuggled HTTP/1.1\r\nHost: a\r\n\r\n";

/// What ends a connection behind an attack.
const END: &[u8] = b"GET /end HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

/// Whole requests as a back end was sent them.
type Seen = Arc<Mutex<Vec<String>>>;

/// A back end that reads requests as RFC 9112 §6 frames them and answers each with its request line.
fn recording() -> (Backend, Seen) {
    recording_with(|line| {
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nX-Secret: back end\r\n\r\n{line}", line.len())
    })
}

/// The same with answers made from the request line.
fn recording_with(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> (Backend, Seen) {
    let seen = Seen::default();
    let kept = seen.clone();
    let backend = Backend::start(move |mut peer| {
        while let Some(head) = peer.head() {
            let body = body_of(&mut peer, &head);
            let bytes = answer(head.lines().next().unwrap_or_default());
            kept.lock().unwrap().push(head + &body);
            if !peer.send(bytes) {
                return;
            }
        }
    });
    (backend, seen)
}

fn body_of(peer: &mut Peer, head: &str) -> String {
    let head = head.to_ascii_lowercase();
    let mut body = Vec::new();
    if head.contains("\r\ntransfer-encoding:") {
        loop {
            let line = peer.line();
            let size = usize::from_str_radix(line.trim_end(), 16).expect("a chunk's size");
            body.extend(peer.body(size));
            if size == 0 {
                while peer.line() != "\r\n" {}
                break;
            }
            assert_eq!(peer.line(), "\r\n");
        }
    } else if let Some((_, rest)) = head.split_once("\r\ncontent-length: ") {
        let size = rest.split("\r\n").next().and_then(|text| text.parse().ok()).expect("a length");
        body = peer.body(size);
    }
    String::from_utf8_lossy(&body).into_owned()
}

/// A site with a recording back end under `/api/`.
struct Site {
    server: Server,
    seen: Seen,
    _backend: Backend,
}

/// What every [`Site`] has. All requests for `/admin` are denied.
const LOCATIONS: &str = r"
    location /api/ { proxy_pass http://back; proxy_set_header X-Forwarded-For $remote_addr; }
    location /unbuffered/ { proxy_pass http://back; proxy_request_buffering off; }
    location /admin { deny all; }
    location /files/ { alias {{DIR}}/html/; }
    location = /who { return 200 who; }
    location = /end { return 200 end; }
    location = /closed { deny all; }
    location = /missing { error_page 404 /404.html; return 404; }
";

/// [`LOCATIONS`] and `more` in one server.
fn site(more: &str) -> Site {
    site_of("", more)
}

/// The same with directives for `http`.
fn site_of(http: &str, more: &str) -> Site {
    let (backend, seen) = recording();
    let conf = format!(
        "{http} upstream back {{ server 127.0.0.1:{}; keepalive 8; }}
         server {{ listen 127.0.0.1:{{{{PORT}}}}; root {{{{DIR}}}}/html; {LOCATIONS} {more} }}",
        backend.port()
    );
    let server = Builder::new(BIN)
        .http(&conf)
        .file("html/a.txt", "public")
        .file("html/404.html", "not here")
        .file("html/admin/smuggled", "secret")
        .start();
    Site { server, seen, _backend: backend }
}

impl Site {
    /// The statuses of [`Site::bodies`].
    fn statuses(&self, bytes: impl AsRef<[u8]>) -> Vec<u16> {
        self.bodies(bytes).into_iter().map(|(status, _)| status).collect()
    }

    /// Sends bytes on one connection, and a last request that closes it; gives every answer but that one's.
    fn bodies(&self, bytes: impl AsRef<[u8]>) -> Vec<(u16, String)> {
        let mut client = self.server.client();
        let _ = client.try_send([bytes.as_ref(), END].concat());
        let mut all = answers(&mut client);
        if all.last().is_some_and(|(_, body)| body == "end") {
            all.pop();
        }
        all
    }

    /// What the back end was sent.
    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }

    /// The bytes get one answer, one of `wanted`, and then the end; nothing of them reaches the back end.
    fn refuses(&self, wanted: &[u16], bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        let statuses = self.statuses(bytes);
        let text = String::from_utf8_lossy(bytes);
        assert!(statuses.len() == 1 && wanted.contains(&statuses[0]), "{statuses:?} for {text:?}");
        assert!(self.seen().is_empty(), "{:?} for {text:?}", self.seen());
    }

    /// The bytes get so many answers; the back end is never asked for `/admin`, and no answer comes from there.
    fn keeps_apart(&self, count: usize, bytes: impl AsRef<[u8]>) -> Vec<(u16, String)> {
        let bytes = bytes.as_ref();
        let bodies = self.bodies(bytes);
        let text = String::from_utf8_lossy(bytes);
        assert_eq!(bodies.len(), count, "{bodies:?} for {text:?}");
        assert!(bodies.iter().all(|(_, body)| !body.contains("/admin")), "{bodies:?} for {text:?}");
        let lines: Vec<String> = self
            .seen()
            .iter()
            .map(|request| request.lines().next().unwrap_or_default().to_string())
            .collect();
        assert!(lines.iter().all(|line| !line.contains("/admin")), "{lines:?} for {text:?}");
        bodies
    }

    /// Another client is served as ever.
    fn still_serves(&self) {
        assert_eq!(self.server.get("/who").text(), "who");
        assert_eq!(self.server.get("/api/still").text(), "GET /api/still HTTP/1.1");
    }
}

/// All answers until the connection ends.
fn answers(client: &mut Client) -> Vec<(u16, String)> {
    let mut all = Vec::new();
    while let Ok(response) = client.try_response("GET") {
        all.push((response.status, response.text()));
    }
    all
}

/// Bytes that the worker has in memory.
fn resident(server: &Server) -> u64 {
    brisk_testkit::process::rss_kib(server.worker()) << 10
}

#[test]
fn every_attack_is_listed() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(here.join("../../docs/security.md")).unwrap();
    let mut tests = Vec::new();
    for entry in std::fs::read_dir(here.join("tests/attacks")).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for pair in lines.windows(2).filter(|pair| pair[0] == "#[test]") {
            let name = pair[1].strip_prefix("fn ").and_then(|rest| rest.split('(').next()).unwrap();
            tests.push(format!("{file}::{name}"));
        }
    }
    let missing: Vec<&String> = tests.iter().filter(|test| !page.contains(&format!("`{test}`"))).collect();
    assert!(missing.is_empty(), "docs/security.md does not list {missing:#?}");
    let listed = page.split('`').filter(|word| {
        let (file, name) = word.split_once("::").unwrap_or_default();
        !name.is_empty() && here.join(format!("tests/attacks/{file}.rs")).exists()
    });
    let gone: Vec<&str> = listed.filter(|word| !tests.iter().any(|test| test == word)).collect();
    assert!(gone.is_empty(), "docs/security.md lists tests that are not there: {gone:?}");
}
