//! An access log played again, with its own timing: requests are due when they were, whatever becomes of those before.

use super::course::{Course, Taken, UnderWay, Wrong};
use super::model::{Replay, Scenario};
use super::run::{Done, Effort};
use super::tally::Tally;
use crate::client::{Client, Common, Options, Request, Url, block_on};
use crate::dates::parse_log;
use crate::limits::STEPS_MAX;
use brisk_load::output;
use brisk_load::system;
use brisk_net::{sleep, spawn};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often the end is looked for.
const LOOK: Duration = Duration::from_millis(5);

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

/// Plays a log.
pub fn run(scenario: &Arc<Scenario>, replay: &Replay, course: &Arc<Course>) -> Result<Done, String> {
    let path = replay.log.display();
    let text = std::fs::read(&replay.log).map_err(|error| format!("cannot read {path}: {error}"))?;
    let log = read(&String::from_utf8_lossy(&text), replay.lines_max);
    let Some(last) = log.entries.last() else {
        return Err(format!("{path}: no line of the common or combined format with GET or HEAD"));
    };
    if log.other_methods + log.broken > 0 {
        output::note(format_args!(
            "{path}: left out {} lines of other methods, whose bodies are not in the log, and {} that are not understood",
            log.other_methods, log.broken
        ));
    }
    system::raise_open_files(replay.connections as u64 * 2 + 256).map_err(|error| error.to_string())?;
    let Some(target) = scenario.target.clone() else { return Err("a replay needs a target".to_owned()) };
    let planned = last.at.div_f64(replay.speed);
    let (scenario, replay, player) = (Arc::clone(scenario), replay.clone(), Arc::clone(course));
    // On a thread of its own: what it needs is the generator's.
    let work = move || play(&scenario, &replay, target, log.entries, player);
    let done = std::thread::spawn(work).join().map_err(|_| "the replay panicked".to_owned())?;
    let (tally, effort) = done?;
    Ok(Done { tally, elapsed: course.elapsed(), planned, effort })
}

fn play(
    scenario: &Scenario,
    replay: &Replay,
    target: Url,
    entries: Vec<Entry>,
    course: Arc<Course>,
) -> Result<(Tally, Effort), String> {
    let common = Common::new(Options {
        version: scenario.version,
        insecure: scenario.insecure,
        timeout: scenario.timeout,
        body_max: 0,
        keep_alive: true,
        resume: true,
        early: false,
        resolve: scenario.resolve.clone(),
        proxy: scenario.proxy.clone(),
        network: scenario.network,
    })?;
    let player = Rc::new(Player {
        tally: RefCell::default(),
        idle: RefCell::new((0..replay.connections).map(|_| Client::new(&common)).collect()),
        waiting: RefCell::default(),
        busy: Cell::new(0),
        target,
        entries,
        speed: replay.speed,
        course,
    });
    let (work, timeout) = (Rc::clone(&player), scenario.timeout);
    block_on(async move {
        work.course.begin();
        for index in 0..work.entries.len() {
            work.until_due(index).await;
            if system::interrupted() {
                break;
            }
            let late = work.course.elapsed().saturating_sub(work.due(index));
            work.course.noticed(late);
            work.waiting.borrow_mut().push_back((index, late));
            work.send();
        }
        // What was due finds a connection as soon as one is free, unless that takes longer than an answer may.
        let latest = work.course.elapsed() + timeout;
        while !work.waiting.borrow().is_empty() && work.course.elapsed() < latest && !system::interrupted() {
            sleep(LOOK).await;
        }
        work.course.unsent(work.waiting.take().len() as u64);
        while work.busy.get() > 0 && !system::interrupted() {
            sleep(LOOK).await;
        }
        work.tally.borrow_mut().unfinished = work.busy.get() as u64;
    })
    .map_err(|error| error.to_string())?;
    let tally = player.tally.take();
    Ok((tally, Effort::of_this_thread()))
}

/// What an entry asks of the target. The path is what a client once sent: whatever it looks like, it leads to no other server.
pub(crate) fn request(entry: &Entry, target: &Url) -> Request {
    let mut request = Request::get(Url { origin: target.origin.clone(), path: entry.path.clone() });
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
    /// What was due and has no connection yet, and how much later that was noticed.
    waiting: RefCell<VecDeque<(usize, Duration)>>,
    busy: Cell<usize>,
    target: Url,
    entries: Vec<Entry>,
    speed: f64,
    course: Arc<Course>,
}

impl Player {
    fn due(&self, index: usize) -> Duration {
        self.entries[index].at.div_f64(self.speed)
    }

    async fn until_due(&self, index: usize) {
        let due = self.due(index);
        // The loop's clock counts milliseconds.
        while let Some(left) = due.checked_sub(self.course.elapsed()).filter(|left| !left.is_zero()) {
            if system::interrupted() {
                return;
            }
            sleep(left.min(Duration::from_millis(200)).max(Duration::from_millis(1))).await;
        }
    }

    /// Sends what is due, as far as there are connections.
    fn send(self: &Rc<Self>) {
        loop {
            if self.waiting.borrow().is_empty() {
                return;
            }
            let Some(client) = self.idle.borrow_mut().pop() else { return };
            let Some((index, late)) = self.waiting.borrow_mut().pop_front() else { return };
            self.busy.set(self.busy.get() + 1);
            let player = Rc::clone(self);
            spawn(async move {
                player.ask(&client, index, late).await;
                player.idle.borrow_mut().push(client);
                player.busy.set(player.busy.get() - 1);
                player.send();
            });
        }
    }

    /// One line. Its answer is good if it is none of failure, or the same as then.
    async fn ask(&self, client: &Client, index: usize, late: Duration) {
        let entry = &self.entries[index];
        let sent = self.course.elapsed();
        // Since it was due, not since it was sent: what waits in us is waited for, too.
        let mut taken = Taken { late, ..Taken::begun(index, self.due(index), sent) };
        let under_way = UnderWay::of(&self.course);
        let result = client.exchange(&request(entry, &self.target)).await;
        drop(under_way);
        taken.done = self.course.elapsed();
        match result {
            Ok(exchange) => {
                self.course.responses.fetch_add(1, Ordering::Relaxed);
                taken.saw(&exchange, sent);
                taken.bytes = exchange.body_bytes;
                let is_good = exchange.status < 400 || exchange.status == entry.status;
                taken.wrong = (!is_good).then(|| Wrong::refused(exchange.status));
            }
            Err(failure) => taken.wrong = Some(Wrong::from(&failure)),
        }
        // Steps are paths without queries: else each line would be a step of its own.
        let path = entry.path.split('?').next().unwrap_or("/");
        let mut tally = self.tally.borrow_mut();
        // A log of a large site has more paths than a report has room for.
        let known = tally.steps.len() < STEPS_MAX || tally.steps.iter().any(|(have, _)| have == path);
        tally.took(if known { path } else { "(others)" }, None, &taken);
        self.course.record(path, &taken);
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

    #[test]
    fn no_line_leads_to_another_server() {
        let target = Url::parse("http://h:81/x").unwrap();
        for path in ["//victim.example/", "//victim.example", "///", "//u:p@h/", "/a/../b", "/a#b"] {
            let log = read(&format!("h - - [21/Nov/2026:05:52:57 +0000] \"GET {path} HTTP/1.1\" 200 5\n"), 9);
            let url = request(&log.entries[0], &target).url;
            assert_eq!((&url.origin, url.path.as_str()), (&target.origin, path));
        }
    }
}
