//! What was watched beside a run, in each form of a report: the same for loads and for scenarios.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Map, Value, json as value};

use super::page::{Body, Section};
use crate::chart::{Line, Series};
use crate::watch::proc::{Machine, Usage};
use crate::watch::{self, Generator, MachineSummary, Sample, TierSummary, Verdict, Watched};

/// A watch beside a run. Moments are from the watch's start.
#[derive(Debug, Clone)]
pub struct Beside {
    /// What was seen.
    pub watched: Watched,
    /// When the run began: its series counts from here.
    pub begun: Duration,
    /// When the counted part began.
    pub from: Duration,
    /// When it ended.
    pub to: Duration,
}

impl Beside {
    /// The first and the last second of its course, counted from the run's start.
    pub fn span(&self) -> (f64, f64) {
        let seconds = |sample: &Sample| sample.at.as_secs_f64() - self.begun.as_secs_f64();
        // The first look is what the second is compared with.
        let low = self.watched.samples.get(1).map_or(0.0, seconds);
        (low.min(0.0), self.watched.samples.last().map_or(0.0, seconds).max(0.0))
    }
}

/// A watch, and what it takes to make figures per response of it.
#[derive(Debug, Clone, Copy)]
pub struct Resources<'a> {
    /// The watch.
    pub beside: &'a Beside,
    /// Responses in the counted part.
    pub responses: u64,
    /// What the generator needed.
    pub generator: Generator,
}

impl Resources<'_> {
    /// What the tiers and the machine did during the counted part.
    pub fn tiers(&self) -> (Vec<TierSummary>, MachineSummary) {
        let Beside { watched, from, to, .. } = self.beside;
        watched.summary(*from, *to, self.responses)
    }

    /// Who was the limit.
    pub fn limit(&self) -> Verdict {
        let (tiers, machine) = self.tiers();
        watch::limit(&tiers, &machine, self.generator)
    }

    /// How many times the rate there is room for; `None`: it cannot be told.
    pub fn headroom(&self) -> Option<f64> {
        let verdict = self.limit();
        let can_tell = verdict.full.is_some() || verdict.doubt.is_none();
        (can_tell && self.responses > 0).then(|| verdict.headroom())
    }

    /// For people: a line per tier, the machine, the limit.
    pub fn text(&self) -> String {
        let (tiers, machine) = self.tiers();
        let mut out = String::new();
        for tier in &tiers {
            let each = |text: String| if self.responses > 0 { text } else { String::new() };
            let _ = writeln!(
                out,
                "{}: {}{:.2} CPUs, {:.1} MB in {} processes ({:.1} MB each){}",
                tier.name,
                each(format!("{:.1} µs CPU per response, ", tier.cpu_us_per_response)),
                tier.cores,
                tier.pss_max as f64 / 1e6,
                tier.processes,
                tier.pss_per_process() / 1e6,
                each(format!(", {:.2} switches per response", tier.switches_per_response)),
            );
            let inside = [
                tier.pool.as_ref().map(ToString::to_string),
                tier.database.as_ref().map(ToString::to_string),
            ];
            for what in inside.into_iter().flatten() {
                let _ = writeln!(out, "  {what}");
            }
        }
        let _ = writeln!(out, "machine: {machine}");
        let _ = writeln!(out, "{}", self.limit());
        out
    }

    /// For programs: adds `tiers`, `machine`, `watched` and `limit` to a run's object.
    pub fn put(&self, all: &mut Value) {
        let (tiers, machine) = self.tiers();
        let mut tiers: Map<String, Value> = tiers.into_iter().map(tier).collect();
        if self.responses == 0 {
            // There is nothing that they could be figures of.
            for figures in tiers.values_mut() {
                (figures["cpu_us_per_response"], figures["switches_per_response"]) =
                    (Value::Null, Value::Null);
            }
        }
        all["tiers"] = Value::Object(tiers);
        all["machine"] = value!({
            "cpus": machine.cpus,
            "busy_share": machine.busy_share,
            "steal_share": machine.steal_share,
            "pressure_cpu": machine.pressure[0],
            "pressure_memory": machine.pressure[1],
            "pressure_disk": machine.pressure[2],
            "listen_drops": machine.listen_drops,
            "retransmits": machine.retransmits,
            "resets": machine.resets,
            "failed_connects": machine.failed_connects,
            "disk_busy_share": machine.disk_busy_share,
            "disk_await_ms": machine.disk_await_ms,
        });
        let looks = self.beside.watched.samples.windows(2);
        all["watched"] = Value::Array(looks.map(|pair| look(self.beside, pair)).collect());
        let verdict = self.limit();
        all["limit"] = value!({ "full": verdict.full, "used_share": verdict.used_share, "headroom": self.headroom(), "also_full": verdict.also, "doubt": verdict.doubt });
    }

    /// For a page: a table of tiers, and their course.
    pub fn sections(&self) -> [Section; 2] {
        self.sections_over(self.beside.span())
    }

    /// The same; the course has room for these seconds from the run's start, as other charts of the page have.
    pub fn sections_over(&self, span: (f64, f64)) -> [Section; 2] {
        let head = [
            "tier",
            "CPU µs/response",
            "CPUs",
            "busiest thread %",
            "memory MB",
            "processes",
            "MB each",
            "switches/response",
            "workers busy",
            "requests queued",
        ];
        let each = |text: String| if self.responses > 0 { text } else { "–".to_owned() };
        let row = |tier: TierSummary| {
            vec![
                tier.name.clone(),
                each(format!("{:.1}", tier.cpu_us_per_response)),
                format!("{:.2}", tier.cores),
                format!("{:.0}", tier.busiest_share * 100.0),
                format!("{:.1}", tier.pss_max as f64 / 1e6),
                tier.processes.to_string(),
                format!("{:.1}", tier.pss_per_process() / 1e6),
                each(format!("{:.2}", tier.switches_per_response)),
                tier.pool
                    .as_ref()
                    .map_or("–".to_owned(), |pool| format!("{:.1} of {}", pool.busy, pool.total)),
                tier.pool.as_ref().map_or(tier.queued_max, |pool| pool.queued_max).to_string(),
            ]
        };
        let (tiers, machine) = self.tiers();
        let table = Section {
            title: "Resources".to_owned(),
            text: format!("Verdict: {}. Machine: {machine}.{}", self.limit(), databases(&tiers)),
            body: Body::Table(head.map(str::to_owned).to_vec(), tiers.into_iter().map(row).collect()),
        };
        let course = Section {
            title: "Resources over time".to_owned(),
            text: String::new(),
            body: charts(self.beside, span),
        };
        [table, course]
    }
}

/// What databases said of themselves.
fn databases(tiers: &[TierSummary]) -> String {
    let said = tiers.iter().filter_map(|tier| Some(format!(" {}: {}.", tier.name, tier.database.as_ref()?)));
    said.collect()
}

fn tier(tier: TierSummary) -> (String, Value) {
    let figures = value!({
        "cpu_us_per_response": tier.cpu_us_per_response,
        "cpus": tier.cores,
        "busiest_thread_share": tier.busiest_share,
        "waited_share": tier.waited_share,
        "switches_per_response": tier.switches_per_response,
        "pss_bytes": tier.pss_max,
        "pss_bytes_per_process": tier.pss_per_process(),
        "processes": tier.processes,
        "threads": tier.threads,
        "listen_queue_max": tier.queued_max,
        "workers": tier.pool.map(|pool| value!({
            "busy": pool.busy, "total": pool.total, "queued": pool.queued, "queued_max": pool.queued_max,
            "full_share": pool.full_share, "blocked_share": pool.blocked_share, "limit_hits": pool.limit_hits,
        })),
        "database": tier.database.map(|database| value!({
            "running": database.running, "locked": database.locked, "lock_waits": database.lock_waits,
            "connected_max": database.connected.0, "connections": database.connected.1, "refused": database.refused,
            "buffer_hits": database.buffer_hits, "disk_pending": database.disk_pending, "slow_queries": database.slow,
        })),
    });
    (tier.name, figures)
}

/// What the tiers and the machine did between two looks, on the series' time axis; switches are those since the watch began.
fn look(beside: &Beside, pair: &[Sample]) -> Value {
    let [before, now] = pair else { return Value::Null };
    let seconds = now.at.saturating_sub(before.at).as_secs_f64().max(1e-9);
    let tier = |(index, name): (usize, &String)| {
        let cpus = (now.tiers[index].cpu_ns - before.tiers[index].cpu_ns) as f64 / 1e9 / seconds;
        let Usage { pss, switches, .. } = now.tiers[index];
        (name.clone(), value!({ "cpus": cpus, "pss_bytes": pss, "switches": switches }))
    };
    let grown = |value: Counter| value(&now.machine).saturating_sub(value(&before.machine));
    let waited = PRESSURE.map(|(_, value)| (grown(value) as f64 / 1e6 / seconds).min(1.0));
    let [listen_drops, retransmits, resets, failed_connects] = TROUBLES.map(|(_, value)| grown(value));
    let machine = value!({
        "pressure_cpu": waited[0],
        "pressure_memory": waited[1],
        "pressure_disk": waited[2],
        "listen_drops": listen_drops,
        "retransmits": retransmits,
        "resets": resets,
        "failed_connects": failed_connects,
    });
    let tiers: Map<String, Value> = beside.watched.names.iter().enumerate().map(tier).collect();
    value!({ "at": now.at.as_secs_f64() - beside.begun.as_secs_f64(), "tiers": tiers, "machine": machine })
}

/// What the machine counts.
type Counter = fn(&Machine) -> u64;

const PRESSURE: [(&str, Counter); 3] =
    [("CPU", |m| m.pressure_us[0]), ("memory", |m| m.pressure_us[1]), ("disk", |m| m.pressure_us[2])];

const TROUBLES: [(&str, Counter); 4] = [
    ("listen drops", |m| m.listen_drops),
    ("sent again", |m| m.retransmits),
    ("resets", |m| m.resets),
    ("failed connects", |m| m.failed_connects),
];

fn charts(Beside { watched, begun, .. }: &Beside, span: (f64, f64)) -> Body {
    let seconds = |pair: &[Sample]| pair[1].at.saturating_sub(pair[0].at).as_secs_f64().max(1e-9);
    let line = |name: &str, value: &dyn Fn(&[Sample]) -> f64| {
        let looks = watched.samples.windows(2);
        let point = |pair: &[Sample]| (pair[1].at.as_secs_f64() - begun.as_secs_f64(), value(pair));
        Series { name: name.to_owned(), points: looks.map(point).collect(), only_marks: false }
    };
    let tiers = |value: fn(&[Sample], usize) -> f64| {
        let names = watched.names.iter().enumerate();
        names.map(|(index, name)| line(name, &|pair| value(pair, index))).collect::<Vec<_>>()
    };
    let cpu = tiers(|pair, index| {
        let ran = pair[1].tiers[index].cpu_ns - pair[0].tiers[index].cpu_ns;
        ran as f64 / pair[1].at.saturating_sub(pair[0].at).as_nanos().max(1) as f64
    });
    let memory = tiers(|pair, index| pair[1].tiers[index].pss as f64 / 1e6);
    let machine = |counters: &[(&str, Counter)], unit: f64, most: f64| {
        let of = |&(name, value): &(&str, Counter)| {
            let grown = |pair: &[Sample]| value(&pair[1].machine).saturating_sub(value(&pair[0].machine));
            line(name, &|pair| (grown(pair) as f64 / unit / seconds(pair)).min(most))
        };
        counters.iter().map(of).collect::<Vec<_>>()
    };
    let chart = |title: &str, y_label: &str, series: Vec<Series>| {
        let (title, x_label, y_label) = (title.to_owned(), "seconds".to_owned(), y_label.to_owned());
        Line { title, x_label, y_label, series, x_span: Some(span), ..Line::default() }.svg()
    };
    Body::Charts(vec![
        chart("CPUs in use", "CPUs", cpu),
        chart("Memory (PSS)", "MB", memory),
        chart("Context switches", "per second", switches(watched, *begun)),
        // Microseconds per second, as percent.
        chart("Somebody waited (PSI)", "% of the time", machine(&PRESSURE, 1e4, 100.0)),
        chart("Sockets in trouble", "per second", machine(&TROUBLES, 1.0, f64::INFINITY)),
    ])
}

/// They are looked at less often than the rest: from one look that sees more of them to the next.
fn switches(watched: &Watched, begun: Duration) -> Vec<Series> {
    let of = |(index, name): (usize, &String)| {
        let mut points = Vec::new();
        let mut before: Option<&Sample> = None;
        for sample in &watched.samples {
            let count = |sample: &Sample| sample.tiers[index].switches;
            match before {
                Some(last) if count(sample) > count(last) => {
                    let seconds = sample.at.saturating_sub(last.at).as_secs_f64().max(1e-9);
                    let rate = (count(sample) - count(last)) as f64 / seconds;
                    points.push((sample.at.as_secs_f64() - begun.as_secs_f64(), rate));
                    before = Some(sample);
                }
                Some(_) => {}
                None => before = Some(sample),
            }
        }
        Series { name: name.clone(), points, only_marks: false }
    };
    watched.names.iter().enumerate().map(of).collect()
}
