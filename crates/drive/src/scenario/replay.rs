//! An access log played again, with its own timing: requests are due when they were, whatever becomes of those before.

use super::model::{Replay, Scenario};
use super::run::Progress;
use super::tally::Tally;
use crate::client::{Client, Common, Options, Request, block_on};
use crate::dates::parse_log;
use brisk_load::output;
use brisk_load::system;
use brisk_net::{sleep, spawn};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// What a log has told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// From the first line on.
    pub at: Duration,
    /// GET or HEAD.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// What was answered then.
    pub status: u16,
    /// Of the combined format.
    pub referer: Option<String>,
    /// Likewise.
    pub agent: Option<String>,
}

/// A log's entries and how many lines could not be used: of other methods (their bodies are not in the log), and broken.
#[derive(Debug, Default)]
pub struct Log {
    /// In time.
    pub entries: Vec<Entry>,
    /// Lines of other methods.
    pub other_methods: usize,
    /// Lines that are none.
    pub broken: usize,
}

/// Reads the common or combined format.
pub fn read(text: &str, lines_max: usize) -> Log {
    let mut log = Log::default();
    let mut stamped: Vec<(i64, Entry)> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()).take(lines_max) {
        match entry(line) {
            Some((at, entry)) if matches!(entry.method.as_str(), "GET" | "HEAD") => stamped.push((at, entry)),
            Some(_) => log.other_methods += 1,
            None => log.broken += 1,
        }
    }
    // A log is written when answers end: nearly in time, but not quite.
    stamped.sort_by_key(|(at, _)| *at);
    let first = stamped.first().map_or(0, |(at, _)| *at);
    let mut from = 0;
    while from < stamped.len() {
        let second = stamped[from].0;
        let to = from + stamped[from..].iter().take_while(|(at, _)| *at == second).count();
        // Within a second nothing is known: they are spread evenly.
        for (index, (_, entry)) in stamped[from..to].iter_mut().enumerate() {
            let part = index as f64 / (to - from) as f64;
            entry.at = Duration::from_secs((second - first) as u64) + Duration::from_secs_f64(part);
        }
        from = to;
    }
    log.entries = stamped.into_iter().map(|(_, entry)| entry).collect();
    log
}

/// One line: seconds since the epoch, and what was asked.
fn entry(line: &str) -> Option<(i64, Entry)> {
    let open = line.find('[')?;
    let close = line[open..].find(']')? + open;
    let at = parse_log(&line[open + 1..close])?;
    let mut parts = line[close + 1..].split('"').skip(1);
    let mut request = parts.next()?.split(' ');
    let (method, path) = (request.next()?, request.next()?);
    if !path.starts_with('/') || method.is_empty() || path.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return None;
    }
    let status = parts.next()?.split_whitespace().next()?.parse().ok()?;
    let given = |text: Option<&str>| text.filter(|text| !text.is_empty() && *text != "-").map(str::to_owned);
    let referer = given(parts.next());
    let agent = given(parts.nth(1));
    let (method, path) = (method.to_owned(), path.to_owned());
    Some((at, Entry { at: Duration::ZERO, method, path, status, referer, agent }))
}

/// Plays a log; gives what was seen and how long it took.
pub fn run(
    scenario: &Arc<Scenario>,
    replay: &Replay,
    progress: &Arc<Progress>,
) -> Result<(Tally, Duration), String> {
    let path = replay.log.display();
    let text = std::fs::read(&replay.log).map_err(|error| format!("cannot read {path}: {error}"))?;
    let log = read(&String::from_utf8_lossy(&text), replay.lines_max);
    if log.entries.is_empty() {
        return Err(format!("{path}: no line of the common or combined format with GET or HEAD"));
    }
    if log.other_methods + log.broken > 0 {
        output::note(format_args!(
            "{path}: left out {} lines of other methods, whose bodies are not in the log, and {} that are not understood",
            log.other_methods, log.broken
        ));
    }
    system::raise_open_files(replay.connections as u64 * 2 + 256).map_err(|error| error.to_string())?;
    let common = Common::new(Options {
        version: scenario.version,
        insecure: scenario.insecure,
        timeout: scenario.timeout,
        body_max: 0,
        keep_alive: true,
        resume: true,
    })?;
    let Some(target) = scenario.target.clone() else { return Err("a replay needs a target".to_owned()) };
    let player = Rc::new(Player {
        // Names in the log are those of steps, without queries: else each line would be a step of its own.
        tally: RefCell::default(),
        idle: RefCell::new((0..replay.connections).map(|_| Client::new(&common)).collect()),
        busy: Cell::new(0),
        progress: Arc::clone(progress),
        began: Instant::now(),
    });
    let (work, speed) = (Rc::clone(&player), replay.speed);
    let entries = log.entries;
    block_on(async move {
        for entry in entries {
            let due = entry.at.div_f64(speed);
            sleep_precisely(&work, due).await;
            if system::interrupted() {
                break;
            }
            let Some(url) = target.join(&entry.path) else { continue };
            work.send(request(&entry, url), entry.status, due);
        }
        while work.busy.get() > 0 && !system::interrupted() {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .map_err(|error| error.to_string())?;
    let tally = player.tally.borrow().clone();
    Ok((tally, player.began.elapsed()))
}

async fn sleep_precisely(player: &Player, due: Duration) {
    // The loop's clock counts milliseconds.
    while let Some(left) = due.checked_sub(player.began.elapsed()).filter(|left| !left.is_zero()) {
        if left > Duration::from_secs(1) && system::interrupted() {
            return;
        }
        sleep(left.min(Duration::from_millis(200)).max(Duration::from_millis(1))).await;
    }
}

/// What an entry asks for.
pub(crate) fn request(entry: &Entry, url: crate::client::Url) -> Request {
    let mut request = Request::get(url);
    request.method.clone_from(&entry.method);
    request.fields.push("User-Agent", entry.agent.as_deref().unwrap_or("brisk"));
    request.fields.push("Accept", "*/*");
    request.fields.push("Accept-Encoding", "gzip, br");
    if let Some(referer) = &entry.referer {
        request.fields.push("Referer", referer.as_str());
    }
    // What a log has escaped cannot be sent: it stays away.
    request.fields.0.retain(|(_, value)| !value.bytes().any(|byte| matches!(byte, b'\r' | b'\n' | 0)));
    request
}

struct Player {
    tally: RefCell<Tally>,
    idle: RefCell<Vec<Client>>,
    busy: Cell<usize>,
    progress: Arc<Progress>,
    began: Instant,
}

impl Player {
    /// Sends what is due. An answer is good if it is none of failure, or the same as `then`.
    fn send(self: &Rc<Self>, request: Request, then: u16, due: Duration) {
        let late = self.began.elapsed().saturating_sub(due);
        {
            let mut tally = self.tally.borrow_mut();
            tally.late = tally.late.max(late);
        }
        let Some(client) = self.idle.borrow_mut().pop() else {
            self.tally.borrow_mut().unsent += 1;
            self.progress.bad.fetch_add(1, Ordering::Relaxed);
            return;
        };
        self.busy.set(self.busy.get() + 1);
        let player = Rc::clone(self);
        spawn(async move {
            let result = client.exchange(&request).await;
            // Since it was due, not since it was sent: what waits in us is waited for, too.
            let took = player.began.elapsed().saturating_sub(due);
            if result.is_ok() {
                player.progress.responses.fetch_add(1, Ordering::Relaxed);
            }
            let path = request.url.path.split('?').next().unwrap_or("/").to_owned();
            {
                let mut tally = player.tally.borrow_mut();
                // A log of a large site has more paths than a report has room for.
                let known = tally.steps.len() < 50 || tally.steps.iter().any(|(have, _)| *have == path);
                let line = tally.step(if known { &path } else { "(others)" }, None);
                match result {
                    Ok(exchange) if exchange.status < 400 || exchange.status == then => {
                        line.latency.record(took.as_nanos() as u64);
                        line.bytes += exchange.body_bytes;
                        player.progress.good.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(exchange) => {
                        *line.failures.entry(format!("status {}", exchange.status)).or_default() += 1;
                        player.progress.bad.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(failure) => {
                        *line.failures.entry(failure.fault.name().to_owned()).or_default() += 1;
                        player.progress.bad.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
            player.idle.borrow_mut().push(client);
            player.busy.set(player.busy.get() - 1);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_of_both_formats() {
        let text = "1.2.3.4 - - [21/Nov/2026:05:52:57 +0000] \"GET /a?b HTTP/1.1\" 200 5 \"http://r/\" \"agent x\"\n\
                    1.2.3.4 - - [21/Nov/2026:06:52:57 +0100] \"HEAD /c HTTP/1.1\" 200 5\n\
                    1.2.3.4 - - [21/Nov/2026:05:52:59 +0000] \"POST /p HTTP/1.1\" 200 5\n\
                    1.2.3.4 - - [21/Nov/2026:05:52:59 +0000] \"GET /z HTTP/1.1\" 200 5 \"-\" \"-\"\n\
                    \u{fe}nonsense [ \"\n1.2.3.4 [21/Foo/2026:05:52:59 +0000] \"GET / HTTP/1.1\" 200\n";
        let log = read(text, 100);
        assert_eq!((log.entries.len(), log.other_methods, log.broken), (3, 1, 2));
        let seen: Vec<(u128, &str, &str)> =
            log.entries.iter().map(|e| (e.at.as_millis(), e.method.as_str(), e.path.as_str())).collect();
        assert_eq!(seen, [(0, "GET", "/a?b"), (500, "HEAD", "/c"), (2000, "GET", "/z")]);
        assert_eq!(
            (log.entries[0].agent.as_deref(), log.entries[2].referer.as_deref()),
            (Some("agent x"), None)
        );
    }
}
