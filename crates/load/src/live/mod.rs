//! A run as it goes: in the terminal, as plain lines where there is none, and in a browser.

mod web;

pub use web::Web;

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _, stderr};
use std::time::{Duration, Instant};

use crate::chart::{short, sparkline};
use crate::engine::Run;
use crate::histogram::Histogram;
use crate::output;
use crate::plan::{Plan, Stop};
use crate::stats::{Errors, Slice};
use crate::system;
use brisk_cli::terminal;

/// How often the picture is drawn anew.
const REDRAW: Duration = Duration::from_millis(200);
/// How often a plain line is written.
const LINE: Duration = Duration::from_secs(1);
/// Columns of a terminal that does not say.
const COLUMNS: usize = 80;
/// What stands before the values of a line.
const NAME_COLUMNS: usize = 9;

/// Where a run is shown.
#[derive(Debug, Default)]
pub struct Live {
    /// Nothing is written to the terminal.
    pub is_quiet: bool,
    /// The browser's view.
    pub web: Option<Web>,
}

/// How a run came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// As planned.
    Planned,
    /// The user wanted it.
    Interrupted,
    /// Nothing but errors came.
    Hopeless,
}

/// What is shown of something under way.
#[derive(Debug)]
pub struct View<'a> {
    /// What distinguishes it; empty: nothing.
    pub label: &'a str,
    /// Since its beginning.
    pub elapsed: Duration,
    /// How much of it is done, for the terminal.
    pub bar: String,
    /// What went wrong so far, for the terminal.
    pub errors: String,
    /// Its course so far.
    pub slices: &'a [Slice],
}

/// Where views are drawn, one over the other, at its own pace.
#[derive(Debug)]
pub struct Screen<'a> {
    live: &'a Live,
    is_terminal: bool,
    lines: usize,
    said_at: Duration,
    /// Since when users are waited for, or when that was last shown.
    waits_since: Option<Instant>,
}

impl<'a> Screen<'a> {
    /// Nothing is drawn yet.
    pub fn new(live: &'a Live) -> Self {
        let is_terminal = stderr().is_terminal() && !live.is_quiet;
        Self { live, is_terminal, lines: 0, said_at: Duration::ZERO, waits_since: None }
    }

    /// Whether it is time for another view.
    pub fn is_due(&self, elapsed: Duration) -> bool {
        elapsed >= self.said_at + if self.is_terminal { REDRAW } else { LINE }
    }

    /// Draws it in the place of the last one.
    pub fn show(&mut self, view: &View<'_>) {
        self.said_at = view.elapsed;
        if let Some(web) = &self.live.web {
            web.show(view.label, view.slices);
        }
        if self.is_terminal {
            let look = Look {
                columns: terminal::of_terminal(&stderr()).unwrap_or(COLUMNS),
                has_color: terminal::has_color(&stderr()),
            };
            self.lines = redraw(&picture(view, look), self.lines);
        } else if !self.live.is_quiet {
            output::note(plain(view.label, view.elapsed, view.slices));
        }
    }

    /// Before the clock starts: how many users are there. Most runs are never seen to wait for them.
    fn show_coming(&mut self, there: u64, wanted: usize) {
        let since = *self.waits_since.get_or_insert_with(Instant::now);
        let is_due = since.elapsed() >= if self.is_terminal { REDRAW } else { LINE };
        if !is_due || self.live.is_quiet {
            return;
        }
        self.waits_since = Some(Instant::now());
        let text = format!("connecting: {there} of {wanted} users are there");
        if self.is_terminal {
            self.lines = redraw(&format!("{text}\n"), self.lines);
        } else {
            output::note(text);
        }
    }

    /// Takes the last view away.
    pub fn clear(&mut self) {
        if self.lines > 0 {
            self.lines = redraw("", self.lines);
        }
    }
}

impl Live {
    /// Shows a run until it is over; stops it if the user wants that, or if there is no hope.
    pub fn follow(&self, run: &Run, plan: &Plan, label: &str) -> Ended {
        let mut screen = Screen::new(self);
        let mut ended = Ended::Planned;
        while !run.is_over() {
            std::thread::sleep(if run.elapsed() < REDRAW { Duration::from_millis(10) } else { REDRAW / 4 });
            if system::interrupted() {
                run.stop();
                ended = Ended::Interrupted;
                break;
            }
            let (progress, elapsed) = (run.progress(), run.elapsed());
            if !run.has_started() {
                screen.show_coming(progress.users, plan.connections);
                continue;
            }
            if progress.is_hopeless(elapsed) {
                run.stop();
                ended = Ended::Hopeless;
                break;
            }
            if screen.is_due(elapsed) {
                screen.show(&view(plan, label, elapsed, progress.responses, &run.slices()));
            }
        }
        screen.clear();
        if let Some(web) = &self.web {
            web.show(label, &run.slices());
        }
        ended
    }
}

/// Replaces the last picture; gives how many lines the new one has.
fn redraw(picture: &str, lines: usize) -> usize {
    let mut out = String::new();
    if lines > 0 {
        let _ = write!(out, "\x1b[{lines}A\x1b[J");
    }
    out.push_str(picture);
    let _ = stderr().write_all(out.as_bytes());
    picture.lines().count()
}

/// Of the slices of the last second: the rate of successful responses and what users waited for these, and failures.
fn recent(slices: &[Slice], last: Duration) -> (f64, Histogram, u64) {
    let from = slices.last().map_or(Duration::ZERO, |slice| (slice.at + slice.width).saturating_sub(last));
    let part: Vec<&Slice> = slices.iter().filter(|slice| slice.at >= from).collect();
    let mut latency = Histogram::default();
    part.iter().for_each(|slice| latency.merge_sparse(&slice.latency));
    let seconds: f64 = part.iter().map(|slice| slice.width.as_secs_f64()).sum();
    let failures = part.iter().map(|slice| slice.failures()).sum();
    (latency.count() as f64 / seconds.max(1e-9), latency, failures)
}

fn plain(label: &str, elapsed: Duration, slices: &[Slice]) -> String {
    let (rate, latency, failures) = recent(slices, LINE);
    let ms = |share: f64| latency.quantile(share) as f64 / 1e6;
    let label = if label.is_empty() { String::new() } else { format!("{label}: ") };
    format!(
        "{:>5.0}s {label}{} /s, p50 {:.2} ms, p99 {:.2} ms, failed {failures}",
        elapsed.as_secs_f64(),
        short(rate),
        ms(0.5),
        ms(0.99)
    )
}

fn view<'a>(plan: &Plan, label: &'a str, elapsed: Duration, responses: u64, slices: &'a [Slice]) -> View<'a> {
    let mut errors = Errors::default();
    let mut refusals = 0;
    for slice in slices {
        errors.merge(&slice.errors);
        refusals += slice.by_class[4] + slice.by_class[5];
    }
    let mut kinds: Vec<String> =
        errors.seen().map(|(kind, count)| format!("{} {count}", kind.name())).collect();
    if refusals > 0 {
        kinds.push(format!("4xx and 5xx {refusals}"));
    }
    if kinds.is_empty() {
        kinds.push("none".to_owned());
    }
    View { label, elapsed, bar: bar(plan, elapsed, responses), errors: kinds.join(", "), slices }
}

/// What a terminal can show.
#[derive(Debug, Clone, Copy)]
struct Look {
    columns: usize,
    has_color: bool,
}

impl Look {
    /// A text behind so many columns, broken at words if it is too long.
    fn fitted(self, text: &str, before: usize) -> String {
        let room = self.columns.saturating_sub(1).max(before + 1);
        if before + text.chars().count() <= room {
            return text.to_owned();
        }
        terminal::wrap(text, room, before).trim().to_owned()
    }

    /// A text in a colour of the terminal's (SGR), if it has some.
    fn paint(self, code: u8, text: &str) -> String {
        if self.has_color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

const BOLD: u8 = 1;
const RED: u8 = 31;
const GREEN: u8 = 32;
const CYAN: u8 = 36;

fn picture(view: &View<'_>, look: Look) -> String {
    let (rate, latency, _) = recent(view.slices, LINE);
    let ms = |share: f64| latency.quantile(share) as f64 / 1e6;
    let rates: Vec<f64> = view.slices.iter().map(Slice::good_rate).collect();
    let label = if view.label.is_empty() { String::new() } else { format!("{}  ", view.label) };
    let mut out = String::new();
    let line = |out: &mut String, name: &str, text: &str, code: u8| {
        // Words that do not fit stand below, so that nothing is clipped and what is drawn over is known.
        let text = look.fitted(text, NAME_COLUMNS);
        let _ = writeln!(out, "{name:<NAME_COLUMNS$}{}", look.paint(code, &text));
    };
    let _ = writeln!(out, "{}", look.paint(BOLD, &look.fitted(&format!("{label}{}", view.bar), 0)));
    let rate = format!("{:>8} /s  ", short(rate));
    // A block is a slice of a tenth of a second: the last ones, as many as there is room for.
    let room = look.columns.saturating_sub(NAME_COLUMNS + rate.len() + 1);
    line(&mut out, "rate", &format!("{rate}{}", sparkline(&rates, room)), GREEN);
    let latency = format!(
        "p50 {:.2}  p90 {:.2}  p99 {:.2}  max {:.2} ms",
        ms(0.5),
        ms(0.9),
        ms(0.99),
        latency.max() as f64 / 1e6
    );
    line(&mut out, "latency", &latency, CYAN);
    line(&mut out, "errors", &view.errors, if view.errors == "none" { GREEN } else { RED });
    out
}

/// How much is done, and how long the rest takes.
fn bar(plan: &Plan, elapsed: Duration, responses: u64) -> String {
    let (share, left) = match plan.stop {
        Stop::After(duration) => {
            let all = plan.warmup + duration;
            let share = elapsed.as_secs_f64() / all.as_secs_f64().max(1e-9);
            (share, all.saturating_sub(elapsed))
        }
        Stop::Requests(count) => estimate(count, elapsed, responses),
        Stop::RequestsWithin(count, time) => {
            let (share, left) = estimate(count, elapsed, responses);
            let all = plan.warmup + time;
            let part = elapsed.as_secs_f64() / all.as_secs_f64().max(1e-9);
            (share.max(part), left.min(all.saturating_sub(elapsed)))
        }
        Stop::RequestsPerConnection(count) => {
            estimate(count.saturating_mul(plan.connections as u64), elapsed, responses)
        }
        Stop::Told => return format!("{:.0} s", elapsed.as_secs_f64()),
    };
    let is_over = plan.stop.time().is_some_and(|time| elapsed > plan.warmup + time);
    let doing = match is_over {
        _ if elapsed < plan.warmup => " (warm-up)",
        true => " (waiting for the last answers)",
        false => "",
    };
    progress_bar(share, left) + doing
}

/// The share that is done, and how long the rest takes.
pub fn progress_bar(share: f64, left: Duration) -> String {
    const WIDTH: usize = 30;
    let share = share.clamp(0.0, 1.0);
    let full = (share * WIDTH as f64).round() as usize;
    format!(
        "[{}{}] {:>3.0} %, {:.0} s left",
        "#".repeat(full),
        ".".repeat(WIDTH - full),
        share * 100.0,
        left.as_secs_f64().ceil()
    )
}

fn estimate(count: u64, elapsed: Duration, responses: u64) -> (f64, Duration) {
    let share = responses as f64 / count.max(1) as f64;
    let left = elapsed.as_secs_f64() * (1.0 - share).max(0.0) / share.max(1e-6);
    (share, Duration::try_from_secs_f64(left).unwrap_or(Duration::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{ErrorKind, Stats};

    fn slices() -> Vec<Slice> {
        let slice = |index: u64| {
            let mut stats = Stats::default();
            (0..50).for_each(|_| {
                stats.response(200, 2_000_000);
            });
            stats.response(503, 9_000_000);
            stats.error(ErrorKind::Reset, 1);
            Slice::of(&stats, Duration::from_millis(100 * index), Duration::from_millis(100))
        };
        (0..20).map(slice).collect()
    }

    #[test]
    fn what_is_drawn_is_what_happened() {
        let plan = Plan::new(Vec::new(), 1, Stop::After(Duration::from_secs(4)));
        let slices = slices();
        let plain_look = Look { columns: 80, has_color: false };
        let text = picture(&view(&plan, "10 users", Duration::from_secs(2), 1020, &slices), plain_look);
        assert!(text.contains("[###############...............]  50 %, 2 s left"), "{text}");
        assert!(text.contains("500 /s") && text.contains("reset 20, 4xx and 5xx 20"), "{text}");
        assert!(text.contains("p50 2.0"), "{text}");
        let line = plain("", Duration::from_secs(2), &slices);
        assert!(line.contains("500 /s") && line.contains("failed 20"), "{line}");
    }

    #[test]
    fn a_server_that_only_refuses_has_errors() {
        let mut stats = Stats::default();
        stats.response(503, 1_000_000);
        let plan = Plan::new(Vec::new(), 1, Stop::After(Duration::from_secs(4)));
        let slice = |stats: &Stats| [Slice::of(stats, Duration::ZERO, Duration::from_millis(100))];
        let said = |stats: &Stats| view(&plan, "", Duration::from_secs(1), 1, &slice(stats)).errors;
        assert_eq!(said(&stats), "4xx and 5xx 1");
        assert_eq!(said(&Stats::default()), "none");
    }

    #[test]
    fn a_bar_is_never_longer_than_it_is() {
        let plan = Plan::new(Vec::new(), 1, Stop::Requests(10));
        assert!(bar(&plan, Duration::from_secs(1), 50).contains("100 %"));
        assert!(bar(&plan, Duration::from_secs(1), 0).contains("  0 %"));
        let look = Look { columns: 80, has_color: false };
        assert!(!picture(&view(&plan, "", Duration::ZERO, 0, &[]), look).contains("NaN"));
    }

    #[test]
    fn a_picture_has_the_width_and_the_colours_of_its_terminal() {
        let plan = Plan::new(Vec::new(), 1, Stop::After(Duration::from_secs(4)));
        let many: Vec<Slice> = (0..30).flat_map(|_| slices()).collect();
        let mut shown = view(&plan, "10 users", Duration::from_secs(2), 1020, &many);
        shown.errors =
            "connect timeout 5, stream reset 17, truncated 3, protocol 99, refused 12345, 4xx and 5xx 20"
                .to_owned();
        for columns in [60, 80, 120, 200] {
            let plain = picture(&shown, Look { columns, has_color: false });
            let widest = plain.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(widest < columns, "{columns}: {widest}\n{plain}");
            assert!(!plain.contains('\x1b') && plain.contains("12345, 4xx"), "{plain}");
            let colored = picture(&shown, Look { columns, has_color: true });
            assert!(colored.contains("\x1b[31m") && colored.contains("\x1b[32m"), "{colored}");
            assert_eq!(colored.lines().count(), plain.lines().count());
        }
        let wide = |columns| {
            picture(&shown, Look { columns, has_color: false }).lines().nth(1).unwrap().chars().count()
        };
        assert!(wide(200) > wide(80), "{} and {}", wide(200), wide(80));
    }
}
