//! What all threads of a run have seen so far, in slices of time: what its live picture, charts and files are made of. A
//! step's end locks it; beside a request made by a [client](crate::client) that is nothing.

use super::line::{Line, count};
use super::model::Scenario;
use crate::client::{Exchange, Failure, Fault};
use crate::limits::{RAW_RECORDS_MAX, WIDTH_TIME_MIN};
use brisk_load::engine::Outcome;
use brisk_load::stats::{ErrorKind, Slice, Stats};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Slices of a run, about: those of a longer one are wider.
const SLICES: u32 = 6000;

/// Why a step or a line of a log did not get what it asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// As plain loads count it.
    pub cause: Cause,
    /// By what it is counted here.
    pub text: String,
}

/// What plain loads would say of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// A response of 4xx or 5xx, which is one, and is apart.
    Refusal,
    /// An error.
    Error(ErrorKind),
}

impl Wrong {
    /// Something came, and it is not what it should be.
    pub fn check(text: impl Into<String>) -> Self {
        Self { cause: Cause::Error(ErrorKind::Check), text: text.into() }
    }

    /// A status of 400 and more that was not asked for.
    pub fn refused(status: u16) -> Self {
        Self { cause: Cause::Refusal, text: format!("status {status}") }
    }

    /// Nothing came in time.
    pub fn timeout() -> Self {
        Self { cause: Cause::Error(ErrorKind::Timeout), text: Fault::Timeout.name().to_owned() }
    }

    /// Counts it with a step, a group or whole sessions.
    pub fn count_in(&self, line: &mut Line) {
        count(&mut line.failures, &self.text, 1);
        line.never += u64::from(self.cause == Cause::Error(ErrorKind::Timeout));
    }

    /// No whole answer came.
    pub fn is_lost(&self) -> bool {
        !matches!(self.cause, Cause::Refusal | Cause::Error(ErrorKind::Check))
    }
}

impl From<&Failure> for Wrong {
    fn from(failure: &Failure) -> Self {
        let kind = match failure.fault {
            Fault::Dns => ErrorKind::Dns,
            Fault::Refused => ErrorKind::Refused,
            Fault::Connect => ErrorKind::Connect,
            Fault::Tls => ErrorKind::Tls,
            Fault::Timeout => ErrorKind::Timeout,
            Fault::Reset => ErrorKind::Reset,
            Fault::Truncated if failure.before_response => ErrorKind::Closed,
            Fault::Truncated => ErrorKind::Truncated,
            Fault::Malformed => ErrorKind::Protocol,
        };
        // Whoever is not trusted wants to know why; of the others the name says it all.
        let text = match failure.fault {
            Fault::Tls => failure.to_string(),
            fault => fault.name().to_owned(),
        };
        Self { cause: Cause::Error(kind), text }
    }
}

/// What became of one step, or of one line of a log. Moments are from the run's beginning.
#[derive(Debug, Clone)]
pub struct Taken {
    /// The user, or the line's number.
    pub user: usize,
    /// When it was due: of users, when it was sent.
    pub due: Duration,
    /// When it was sent.
    pub sent: Duration,
    /// How much later than it was due the generator noticed that.
    pub late: Duration,
    /// When the last answer's first byte came.
    pub first_byte: Option<Duration>,
    /// When it was over.
    pub done: Duration,
    /// The last status; 0: there was none.
    pub status: u16,
    /// Of bodies.
    pub bytes: u64,
    /// Connections made for it.
    pub connects: u64,
    /// Of these, those that resumed a TLS session.
    pub resumed: u64,
    /// Requests that were asked once again.
    pub asked_again: u64,
    /// What was wrong.
    pub wrong: Option<Wrong>,
}

impl Taken {
    /// Nothing yet.
    pub fn begun(user: usize, due: Duration, sent: Duration) -> Self {
        Self {
            user,
            due,
            sent,
            late: Duration::ZERO,
            first_byte: None,
            done: sent,
            status: 0,
            bytes: 0,
            connects: 0,
            resumed: 0,
            asked_again: 0,
            wrong: None,
        }
    }

    /// An answer has come that was asked for at `asked`.
    pub fn saw(&mut self, exchange: &Exchange, asked: Duration) {
        self.status = exchange.status;
        self.first_byte = exchange.phases.first_byte.map(|time| asked + time);
        self.connects += u64::from(!exchange.reused);
        self.asked_again += u64::from(exchange.asked_again);
        self.resumed += u64::from(!exchange.reused && exchange.tls.as_ref().is_some_and(|tls| tls.resumed));
    }
}

/// See the module's head.
#[derive(Debug)]
pub struct Course {
    began: OnceLock<(Instant, SystemTime)>,
    width: Duration,
    is_open: bool,
    keeps_rows: bool,
    seen: Mutex<Seen>,
    /// Responses, those that redirect and those that are bad included.
    pub responses: AtomicU64,
    /// Users that are there.
    pub users: AtomicU64,
    /// Steps and lines under way.
    pub under_way: AtomicU64,
}

#[derive(Debug, Default)]
struct Seen {
    /// Since the present slice's beginning.
    now: Stats,
    begun: Duration,
    sum: Stats,
    series: Vec<Slice>,
    failures: BTreeMap<String, u64>,
    last_good: Duration,
    rows: Vec<(String, Taken)>,
    rows_dropped: u64,
}

impl Seen {
    /// It is this late: what is over is summed up.
    fn tick(&mut self, now: Duration, width: Duration) {
        while now >= self.begun + width {
            self.close(width);
        }
    }

    fn close(&mut self, width: Duration) {
        self.series.push(Slice::of(&self.now, self.begun, width));
        self.sum.merge(&self.now);
        self.now.clear();
        self.begun += width;
    }
}

impl Course {
    /// Of a run of this scenario; whether a row is kept for each request.
    pub fn new(scenario: &Scenario, keeps_rows: bool) -> Self {
        Self {
            began: OnceLock::new(),
            width: (scenario.length() / SLICES).max(WIDTH_TIME_MIN),
            is_open: scenario.replay.is_some() || scenario.arrivals.is_some(),
            keeps_rows,
            seen: Mutex::default(),
            responses: AtomicU64::new(0),
            users: AtomicU64::new(0),
            under_way: AtomicU64::new(0),
        }
    }

    /// The run begins.
    pub fn begin(&self) {
        let _ = self.began.set((Instant::now(), SystemTime::now()));
    }

    /// Since its beginning.
    pub fn elapsed(&self) -> Duration {
        self.began.get().map_or(Duration::ZERO, |(at, _)| at.elapsed())
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A line of a log was noticed so late.
    pub fn noticed(&self, late: Duration) {
        self.seen().now.lateness.record(late.as_nanos() as u64);
    }

    /// So many lines were due and found no connection until the end.
    pub fn unsent(&self, count: u64) {
        self.seen().now.unsent += count;
    }

    /// A thread has used so much CPU.
    pub fn used_cpu(&self, ns: u64) {
        self.seen().now.generator_cpu_ns += ns;
    }

    /// One is over. `step`: its name.
    pub fn record(&self, step: &str, taken: &Taken) {
        let seen = &mut *self.seen();
        seen.tick(taken.done, self.width);
        let ns = |from: Duration| taken.done.saturating_sub(from).as_nanos() as u64;
        let status = match taken.wrong.as_ref().map(|wrong| wrong.cause) {
            // A 404 that was asked for is what it should be.
            None => Some(if taken.status >= 400 { 200 } else { taken.status }),
            Some(Cause::Refusal) => Some(taken.status),
            Some(Cause::Error(kind)) => {
                seen.now.error(kind, 1);
                None
            }
        };
        match status {
            Some(status) if self.is_open => {
                seen.now.open_response(status, ns(taken.due), ns(taken.sent), taken.late.as_nanos() as u64);
            }
            Some(status) => drop(seen.now.response(status, ns(taken.due))),
            None => {}
        }
        match &taken.wrong {
            None => seen.last_good = seen.last_good.max(taken.done),
            Some(wrong) => count(&mut seen.failures, &wrong.text, 1),
        }
        seen.now.bytes += taken.bytes;
        seen.now.connects += taken.connects;
        seen.now.resumed += taken.resumed;
        seen.now.asked_again += taken.asked_again;
        if self.keeps_rows {
            if seen.rows.len() < RAW_RECORDS_MAX {
                seen.rows.push((step.to_owned(), taken.clone()));
            } else {
                seen.rows_dropped += 1;
            }
        }
    }

    /// What can be shown now: finished slices, and failures by kind.
    pub fn so_far(&self) -> (Vec<Slice>, BTreeMap<String, u64>) {
        let elapsed = self.elapsed();
        let mut seen = self.seen();
        seen.tick(elapsed, self.width);
        (seen.series.clone(), seen.failures.clone())
    }

    /// The run is over: it was to end at `planned`, and ended `elapsed` after its beginning. Rates count to the later of
    /// `planned` and the last good answer: users who wait for an answer that never comes do not make others rarer.
    pub fn end(&self, planned: Duration, elapsed: Duration) -> Outcome {
        let seen = &mut *self.seen();
        seen.tick(elapsed, self.width);
        seen.close(elapsed.saturating_sub(seen.begun).max(Duration::from_millis(1)));
        Outcome {
            users: None,
            is_local: true,
            stats: std::mem::take(&mut seen.sum),
            elapsed: planned.min(elapsed).max(seen.last_good),
            started_at: self.began.get().map_or_else(SystemTime::now, |(_, date)| *date),
            series: std::mem::take(&mut seen.series),
            records: Vec::new(),
            records_dropped: seen.rows_dropped,
            heads: Vec::new(),
        }
    }

    /// The raw log: a row per step, redirects included.
    pub fn raw(&self, out: &mut impl Write) -> io::Result<()> {
        let mut out = io::BufWriter::new(out);
        writeln!(out, "due_ns,sent_ns,first_byte_ns,done_ns,bytes,user,step,status,error")?;
        for (step, taken) in &self.seen().rows {
            let ns = |time: Duration| time.as_nanos();
            let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
            writeln!(
                out,
                "{},{},{},{},{},{},{},{},{}",
                ns(taken.due),
                ns(taken.sent),
                ns(taken.first_byte.unwrap_or(taken.done)),
                ns(taken.done),
                taken.bytes,
                taken.user,
                quoted(step),
                taken.status,
                taken.wrong.as_ref().map_or(String::new(), |wrong| quoted(&wrong.text)),
            )?;
        }
        out.flush()
    }
}

/// Counts what is under way for as long as it lives.
pub struct UnderWay<'a>(&'a Course);

impl<'a> UnderWay<'a> {
    /// One more.
    pub fn of(course: &'a Course) -> Self {
        course.under_way.fetch_add(1, Ordering::Relaxed);
        Self(course)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}
