//! httperf's report.

use brisk_load::engine::Outcome;
use brisk_load::stats::{ErrorKind, Record};
use std::fmt::Write as _;
use std::fs;

/// Reply rates are sampled over this many seconds.
const SAMPLE_SECONDS: f64 = 5.0;
/// Connections begun within this many nanoseconds of each other were begun at once.
const BURST_GAP_NS: u64 = 20_000;

/// One connection's life, in nanoseconds from the run's start.
#[derive(Debug, Clone, Copy)]
struct Life {
    from: u64,
    to: u64,
    replies: u64,
    failed: bool,
    connect: u64,
}

/// CPU seconds of this process: user, system.
pub fn cpu_times() -> [f64; 2] {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    // Fields 14 and 15, of which two stand before the name's end; a tick is 10 ms on every Linux.
    [ticks(11) / 100.0, ticks(12) / 100.0]
}

/// Connections from the raw log: the first request of each has its connect time.
fn lives(records: &[Record]) -> Vec<Life> {
    let mut by_connection: Vec<&Record> = records.iter().collect();
    by_connection.sort_by_key(|record| (record.connection, record.sent_ns));
    let mut lives: Vec<Life> = Vec::new();
    let mut last = None;
    for record in by_connection {
        let begins = record.connect_ns > 0 || last != Some(record.connection);
        last = Some(record.connection);
        if begins {
            let from = record.sent_ns.saturating_sub(record.connect_ns + record.tls_ns);
            lives.push(Life {
                from,
                to: record.done_ns,
                replies: 0,
                failed: false,
                connect: record.connect_ns,
            });
        }
        if let Some(life) = lives.last_mut() {
            life.to = life.to.max(record.done_ns);
            life.failed |= record.error.is_some();
            life.replies += u64::from(record.error.is_none());
        }
    }
    lives.sort_by_key(|life| life.from);
    lives
}

/// The most that were open at a time.
fn concurrent(lives: &[Life]) -> usize {
    let mut ends: Vec<(u64, i64)> = lives.iter().flat_map(|life| [(life.from, 1), (life.to, -1)]).collect();
    ends.sort_unstable();
    let mut open = 0i64;
    let mut most = 0;
    for (_, change) in ends {
        open += change;
        most = most.max(open);
    }
    most.max(i64::from(!lives.is_empty())) as usize
}

/// The most that were begun at once.
fn burst(lives: &[Life]) -> usize {
    let (mut most, mut here, mut last) = (usize::from(!lives.is_empty()), 0, None);
    for life in lives {
        here = if last.is_some_and(|last| life.from - last < BURST_GAP_NS) { here + 1 } else { 1 };
        last = Some(life.from);
        most = most.max(here);
    }
    most
}

/// Smallest, mean, largest and deviation.
fn spread(values: &[f64]) -> [f64; 4] {
    if values.is_empty() {
        return [0.0; 4];
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let deviation = if values.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 };
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    [least, mean, values.iter().copied().fold(0.0, f64::max), deviation]
}

/// What is behind the first line.
pub fn text(outcome: &Outcome, request_bytes: usize, cpu: [f64; 2]) -> String {
    let lives = lives(&outcome.records);
    let replies: Vec<&Record> = outcome.records.iter().filter(|record| record.error.is_none()).collect();
    let connected =
        lives.iter().filter(|life| life.connect > 0 && (life.replies > 0 || !life.failed)).count();
    // Requests that failed on a connection were sent as well.
    let sent = replies.len() + outcome.records.iter().filter(|r| r.error.is_some_and(was_sent)).count();
    let time = outcome.elapsed.as_secs_f64().max(1e-9);
    let mut out = format!("Maximum connect burst length: {}\n\n", burst(&lives));
    let _ = writeln!(
        out,
        "Total: connections {} requests {sent} replies {} test-duration {time:.3} s\n",
        lives.len(),
        replies.len()
    );
    connections(&mut out, &lives, time, connected, replies.len());
    let count = |number: usize| number.max(1) as f64;
    let _ = writeln!(
        out,
        "Request rate: {:.1} req/s ({:.1} ms/req)",
        sent as f64 / time,
        if sent > 0 { time * 1e3 / sent as f64 } else { 0.0 }
    );
    let _ = writeln!(out, "Request size [B]: {:.1}\n", if sent > 0 { request_bytes as f64 } else { 0.0 });
    reply_rate(&mut out, &replies, time);
    let sum = |figure: fn(&Record) -> u64| replies.iter().map(|record| figure(record)).sum::<u64>() as f64;
    let response = sum(|r| r.first_byte_ns.saturating_sub(r.sent_ns)) / 1e6 / count(replies.len());
    let transfer = sum(|r| r.done_ns.saturating_sub(r.first_byte_ns)) / 1e6 / count(replies.len());
    let _ = writeln!(out, "Reply time [ms]: response {response:.1} transfer {transfer:.1}");
    let (all, head) =
        (sum(|r| r.bytes) / count(replies.len()), sum(|r| u64::from(r.head_bytes)) / count(replies.len()));
    let _ = writeln!(
        out,
        "Reply size [B]: header {head:.1} content {:.1} footer 0.0 (total {all:.1})",
        all - head
    );
    let class = &outcome.stats.by_class;
    let _ = writeln!(
        out,
        "Reply status: 1xx={} 2xx={} 3xx={} 4xx={} 5xx={}\n",
        class[1], class[2], class[3], class[4], class[5]
    );
    let share = |seconds: f64| 100.0 * seconds / time;
    let _ = writeln!(
        out,
        "CPU time [s]: user {:.2} system {:.2} (user {:.1}% system {:.1}% total {:.1}%)",
        cpu[0],
        cpu[1],
        share(cpu[0]),
        share(cpu[1]),
        share(cpu[0] + cpu[1])
    );
    let rate = (outcome.stats.bytes as f64 + (sent * request_bytes) as f64) / time;
    let _ = writeln!(out, "Net I/O: {:.1} KB/s ({:.1}*10^6 bps)\n", rate / 1024.0, rate * 8.0 / 1e6);
    errors(&mut out, outcome);
    out
}

/// A failure that came after the request had left.
fn was_sent(kind: ErrorKind) -> bool {
    use ErrorKind::{Connect, ConnectTimeout, Dns, Refused, Tls};
    !matches!(kind, Dns | Connect | Refused | ConnectTimeout | Tls)
}

fn connections(out: &mut String, lives: &[Life], time: f64, connected: usize, replies: usize) {
    let rate = lives.len() as f64 / time;
    let each = if lives.is_empty() { 0.0 } else { 1e3 / rate };
    let _ = writeln!(
        out,
        "Connection rate: {rate:.1} conn/s ({each:.1} ms/conn, <={} concurrent connections)",
        concurrent(lives)
    );
    let whole: Vec<f64> =
        lives.iter().filter(|life| !life.failed).map(|life| (life.to - life.from) as f64 / 1e6).collect();
    let [min, avg, max, deviation] = spread(&whole);
    let mut sorted = whole;
    sorted.sort_by(f64::total_cmp);
    // httperf knows times to the millisecond and gives the middle of it.
    let median = sorted.get(sorted.len() / 2).map_or(0.0, |median| median.floor() + 0.5);
    let _ = writeln!(
        out,
        "Connection time [ms]: min {min:.1} avg {avg:.1} max {max:.1} median {median:.1} stddev {deviation:.1}"
    );
    let connects: Vec<f64> =
        lives.iter().filter(|life| life.connect > 0).map(|life| life.connect as f64 / 1e6).collect();
    let _ = writeln!(out, "Connection time [ms]: connect {:.1}", spread(&connects)[1]);
    let length = replies as f64 / connected.max(1) as f64;
    let _ = writeln!(out, "Connection length [replies/conn]: {length:.3}\n");
}

fn reply_rate(out: &mut String, replies: &[&Record], time: f64) {
    let samples = (time / SAMPLE_SECONDS) as usize;
    let mut rates = vec![0.0; samples];
    for record in replies {
        let at = (record.done_ns as f64 / 1e9 / SAMPLE_SECONDS) as usize;
        if let Some(rate) = rates.get_mut(at) {
            *rate += 1.0 / SAMPLE_SECONDS;
        }
    }
    let [min, avg, max, deviation] = spread(&rates);
    let _ = writeln!(
        out,
        "Reply rate [replies/s]: min {min:.1} avg {avg:.1} max {max:.1} stddev {deviation:.1} ({samples} samples)"
    );
}

fn errors(out: &mut String, outcome: &Outcome) {
    use ErrorKind::{Closed, ConnectTimeout, Refused, Reset, Stream, Timeout, Truncated, Write};
    let stats = &outcome.stats;
    let of = |kinds: &[ErrorKind]| kinds.iter().map(|&kind| stats.errors_of(kind)).sum::<u64>();
    let (client, socket) = (of(&[Timeout]), of(&[ConnectTimeout]));
    let (refused, reset) = (of(&[Refused]), of(&[Reset, Closed, Truncated, Write, Stream]));
    let other = stats.errors() - client - socket - refused - reset;
    let _ = writeln!(
        out,
        "Errors: total {} client-timo {client} socket-timo {socket} connrefused {refused} connreset {reset}",
        stats.errors()
    );
    let _ = writeln!(out, "Errors: fd-unavail 0 addrunavail 0 ftab-full 0 other {other}");
}
