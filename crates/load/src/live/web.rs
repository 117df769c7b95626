//! The picture in a browser: a small server on this machine, for as long as the run lasts.

use crate::limits::WEB_HEAD_BYTES_MAX;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use crate::engine::Outcome;
use crate::report::{Body, RunReport, Section, fragment, page, series_charts, tiles};
use crate::stats::{Slice, Stats};

/// A client that takes longer than this gets nothing.
const PATIENCE: Duration = Duration::from_secs(2);
/// What fetches the picture again. A page without scripts could only reload itself, and would lose its place.
const SCRIPT: &str = "<script>setInterval(async()=>{try{const r=await fetch('live');\
    document.querySelector('main').innerHTML=await r.text()}catch(e){document.title='ended'}},1000)</script>";

/// See the module's head.
#[derive(Debug)]
pub struct Web {
    address: SocketAddr,
    shown: Arc<Mutex<String>>,
}

impl Web {
    /// Listens on `address`, which is of this machine alone unless the user says otherwise.
    pub fn start(address: &str) -> io::Result<Self> {
        let listener = TcpListener::bind(address)
            .map_err(|error| io::Error::other(format!("cannot listen on {address}: {error}")))?;
        let address = listener.local_addr()?;
        let shown = Arc::new(Mutex::new(String::new()));
        let content = Arc::clone(&shown);
        std::thread::Builder::new().name("web".to_owned()).spawn(move || {
            for client in listener.incoming().flatten() {
                // Whoever breaks off is no concern of ours.
                let _ = answer(&client, &content);
            }
        })?;
        Ok(Self { address, shown })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Shows the course of the run under way.
    pub fn show(&self, label: &str, slices: &[Slice]) {
        let mut stats = Stats::default();
        for slice in slices {
            stats.latency.merge_sparse(&slice.latency);
            stats.refused.merge_sparse(&slice.refused);
            stats.errors.merge(&slice.errors);
            for (count, more) in stats.by_class.iter_mut().zip(slice.by_class) {
                *count += more;
            }
        }
        let elapsed = slices.last().map_or(Duration::ZERO, |slice| slice.at + slice.width);
        let outcome = Outcome {
            stats,
            elapsed,
            started_at: SystemTime::now(),
            series: slices.to_vec(),
            records: Vec::new(),
            records_dropped: 0,
            heads: Vec::new(),
            users: None,
            is_local: true,
        };
        let label = label.to_owned();
        let run = RunReport {
            label,
            users: 1,
            depth: 1,
            threads: 1,
            rate: None,
            outcome,
            steady: None,
            watched: None,
        };
        let stats = &run.outcome.stats;
        let title = if run.label.is_empty() { "Under way".to_owned() } else { run.label.clone() };
        let mut kinds: Vec<String> =
            stats.errors.seen().map(|(kind, n)| format!("{}: {n}", kind.name())).collect();
        if stats.refusals() > 0 {
            kinds.push(format!("4xx and 5xx: {}", stats.refusals()));
        }
        let errors = if kinds.is_empty() { "no errors".to_owned() } else { kinds.join(", ") };
        let text = format!("{:.0} s, {} responses; {errors}", run.seconds(), stats.responses());
        let section = |title: &str, text: String, body| Section { title: title.to_owned(), text, body };
        let charts = Body::Charts(series_charts(&run, run.span()));
        self.put(fragment(&[
            section(&title, text, Body::Tiles(tiles(&run))),
            section("Course", String::new(), charts),
        ]));
    }

    /// Shows sections, until there is something newer.
    pub fn put(&self, html: String) {
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = html;
    }
}

fn answer(client: &TcpStream, content: &Mutex<String>) -> io::Result<()> {
    client.set_read_timeout(Some(PATIENCE))?;
    client.set_write_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(client.take(WEB_HEAD_BYTES_MAX));
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut rest = String::new();
    while reader.read_line(&mut rest)? > 2 {
        rest.clear();
    }
    let content = content.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let (status, body) = match line.split(' ').nth(1) {
        Some("/") => (
            "200 OK",
            page("Load", &[])
                .replace("<main>", &format!("<main>{content}"))
                .replace("</body>", &format!("{SCRIPT}</body>")),
        ),
        Some("/live") => ("200 OK", content),
        _ => ("404 Not Found", String::new()),
    };
    let mut client = client;
    write!(
        client,
        "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(web: &Web, path: &str) -> String {
        let mut client = TcpStream::connect(web.address()).unwrap();
        write!(client, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn the_page_and_its_picture() {
        let web = Web::start("127.0.0.1:0").unwrap();
        let mut stats = Stats::default();
        (0..10).for_each(|_| {
            stats.response(200, 1_000_000);
        });
        let slice = |at: u64| Slice::of(&stats, Duration::from_secs(at), Duration::from_secs(1));
        web.show("20 users", &[slice(0), slice(1), slice(2)]);
        let (whole, part) = (get(&web, "/"), get(&web, "/live"));
        assert!(
            whole.starts_with("HTTP/1.1 200") && whole.contains("<script>") && whole.contains("20 users")
        );
        assert!(
            part.contains("30 responses; no errors")
                && part.contains("good answers per second")
                && part.contains("<svg")
                && !part.contains("<script>"),
            "{part}"
        );
        // What is turned away has failed, too.
        stats.response(503, 1_000_000);
        web.show("20 users", &[Slice::of(&stats, Duration::ZERO, Duration::from_secs(1))]);
        let refused = get(&web, "/live");
        assert!(
            refused.contains("4xx and 5xx: 1") && refused.contains("<div class=\"no\"><b>9.09 %</b>failed"),
            "{refused}"
        );
        assert!(get(&web, "/etc/passwd").starts_with("HTTP/1.1 404"));
    }
}
