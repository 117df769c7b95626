//! What the server is asked, by what: URLs, clients, locations, back ends, PHP pools, caches, and what waits now.

use crate::model::{Model, Sample, number, word};
use crate::numbers::{bytes, count, percent, time};
use brisk_http::date::civil_from_days;
use serde_json::Value;

/// Which table is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum View {
    /// The costliest URLs of the last minute.
    #[default]
    Urls,
    /// The costliest clients of the last minute.
    Clients,
    /// Servers and their locations.
    Locations,
    /// Servers of upstreams.
    BackEnds,
    /// Servers of `stream`.
    Streams,
    /// PHP pools.
    Php,
    /// Caches.
    Caches,
    /// Certificates and when they end.
    Certificates,
    /// The slowest requests in flight.
    Flights,
}

impl View {
    /// In the order of their keys, from 1.
    pub const ALL: [View; 9] = [
        View::Urls,
        View::Clients,
        View::Locations,
        View::BackEnds,
        View::Streams,
        View::Php,
        View::Caches,
        View::Certificates,
        View::Flights,
    ];

    /// The name on the tab.
    pub fn title(self) -> &'static str {
        match self {
            View::Urls => "URLs",
            View::Clients => "Clients",
            View::Locations => "Locations",
            View::BackEnds => "Back ends",
            View::Streams => "Streams",
            View::Php => "PHP",
            View::Caches => "Caches",
            View::Certificates => "Certificates",
            View::Flights => "In flight",
        }
    }

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            View::Urls => "urls",
            View::Clients => "clients",
            View::Locations => "locations",
            View::BackEnds => "backends",
            View::Streams => "streams",
            View::Php => "php",
            View::Caches => "caches",
            View::Certificates => "certificates",
            View::Flights => "flights",
        }
    }

    /// Why the table may be empty.
    pub fn when_empty(self) -> &'static str {
        match self {
            View::Urls | View::Clients => "no request has ended in the last minute, or since this began",
            View::Locations => "no request has ended yet",
            View::BackEnds => "no upstream with a name is configured",
            View::Streams => "no server of stream is configured",
            View::Php => "no PHP pool is configured",
            View::Caches => "no cache is configured",
            View::Certificates => "no certificate is read with the configuration",
            View::Flights => "no request waits",
        }
    }

    /// The columns.
    pub fn columns(self) -> &'static [Column] {
        match self {
            View::Urls => &COST[..],
            View::Clients => &COST_OF_CLIENT[..],
            View::Locations => &LOCATIONS[..],
            View::BackEnds => &BACK_ENDS[..],
            View::Streams => &STREAMS[..],
            View::Php => &PHP[..],
            View::Caches => &CACHES[..],
            View::Certificates => &CERTIFICATES[..],
            View::Flights => &FLIGHTS[..],
        }
    }

    /// The column by which it is sorted at first; the largest come first.
    pub fn sorted_by(self) -> usize {
        match self {
            View::Urls | View::Clients => 4,
            View::Locations => 2,
            View::BackEnds => 4,
            View::Streams => 2,
            View::Php => 3,
            View::Caches => 2,
            View::Certificates | View::Flights => 2,
        }
    }
}

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Above it.
    pub title: &'static str,
    /// What is worth looking at is small.
    pub smallest_first: bool,
}

const fn column(title: &'static str) -> Column {
    Column { title, smallest_first: false }
}

const NAME: Column = Column { title: "", smallest_first: true };
const COST: [Column; 6] = [
    Column { title: "URL", ..NAME },
    column("Requests"),
    column("Failed"),
    column("Each"),
    column("In all"),
    column("Sent"),
];
const COST_OF_CLIENT: [Column; 6] =
    [Column { title: "Client", ..NAME }, COST[1], COST[2], COST[3], COST[4], COST[5]];
const LOCATIONS: [Column; 6] = [
    Column { title: "Server and location", ..NAME },
    column("Requests"),
    column("Per second"),
    column("Failed"),
    column("Each"),
    column("Sent/s"),
];
const BACK_ENDS: [Column; 9] = [
    Column { title: "Upstream and server", ..NAME },
    Column { title: "State", ..NAME },
    column("Weight"),
    column("Active"),
    column("Per second"),
    column("5xx"),
    column("Failed"),
    column("Each"),
    column("Received"),
];
const STREAMS: [Column; 7] = [
    Column { title: "Server of stream", ..NAME },
    column("Active"),
    column("Per second"),
    column("4xx"),
    column("5xx"),
    column("Received/s"),
    column("Sent/s"),
];
const PHP: [Column; 9] = [
    Column { title: "Pool", ..NAME },
    column("Workers"),
    column("Busy"),
    column("Per second"),
    column("Wait"),
    column("Refused"),
    column("Crashes"),
    column("CPUs"),
    column("Memory"),
];
const CACHES: [Column; 7] = [
    Column { title: "Cache", ..NAME },
    column("Hits"),
    column("Look-ups/s"),
    column("Entries"),
    column("Memory"),
    column("Disk"),
    column("Evicted"),
];
const FLIGHTS: [Column; 5] = [
    Column { title: "Request", ..NAME },
    Column { title: "Waits for", ..NAME },
    column("Age"),
    Column { title: "Client", ..NAME },
    Column { title: "Back end", ..NAME },
];
const CERTIFICATES: [Column; 3] = [
    Column { title: "File", ..NAME },
    Column { title: "Ends", ..NAME },
    Column { title: "Days left", smallest_first: true },
];

/// How a cell is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mood {
    /// As any other.
    #[default]
    Plain,
    /// It is well.
    Good,
    /// It should be looked at.
    Warn,
    /// Something fails.
    Bad,
}

/// A cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// What is shown.
    pub text: String,
    /// What it is sorted by; `None`: by its text.
    pub value: Option<f64>,
    /// How.
    pub mood: Mood,
}

impl Cell {
    fn name(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), ..Cell::default() }
    }

    fn of(value: f64, shown: impl Fn(f64) -> String) -> Cell {
        Cell { text: shown(value), value: Some(value), mood: Mood::Plain }
    }

    /// A number that should be 0.
    fn failures(value: f64) -> Cell {
        Cell { mood: if value > 0.0 { Mood::Bad } else { Mood::Plain }, ..Cell::of(value, count) }
    }

    /// What there is none of yet.
    fn none() -> Cell {
        Cell { text: "–".into(), value: Some(-1.0), mood: Mood::Plain }
    }
}

/// A row; the first cell is its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Row(pub Vec<Cell>);

impl Row {
    /// What filters look at.
    pub fn name(&self) -> &str {
        self.0.first().map_or("", |cell| &cell.text)
    }
}

/// The rows of a view.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Their columns.
    pub columns: &'static [Column],
    /// In no order.
    pub rows: Vec<Row>,
}

impl Model {
    /// The table of a view.
    pub fn table(&self, view: View) -> Table {
        let rows = match view {
            View::Urls => costs(&self.now().own()["tops"]["urls"]),
            View::Clients => costs(&self.now().own()["tops"]["clients"]),
            View::Locations => locations(self),
            View::BackEnds => back_ends(self),
            View::Streams => streams(self),
            View::Php => php(self),
            View::Caches => caches(self),
            View::Certificates => certificates(self),
            View::Flights => flights(self),
        };
        Table { columns: view.columns(), rows }
    }
}

fn costs(list: &Value) -> Vec<Row> {
    let row = |cost: &Value| {
        let of = |name: &str| number(&cost[name]);
        Row(vec![
            Cell::name(word(&cost["name"])),
            Cell::of(of("requests"), count),
            Cell::failures(of("errors")),
            Cell::of(of("time_us") / of("requests").max(1.0), time),
            Cell::of(of("time_us"), time),
            Cell::of(of("sent_bytes"), bytes),
        ])
    };
    list.as_array().into_iter().flatten().map(row).collect()
}

fn locations(model: &Model) -> Vec<Row> {
    const DURATION: &str = "brisk_http_request_duration_seconds";
    let mut places: Vec<(&str, &str)> = model
        .now()
        .family(DURATION)
        .map(|(labels, _)| (word(&labels["server"]), word(&labels["location"])))
        .collect();
    places.sort_unstable();
    places.dedup();
    let row = |(server, location): (&str, &str)| {
        let of = |sample: &Sample, field: &str, status: Option<&str>| -> f64 {
            let fits = |labels: &Value| {
                labels["server"] == *server
                    && labels["location"] == *location
                    && status.is_none_or(|status| labels["status"] == *status)
            };
            let values = sample.family(DURATION).filter(|(labels, _)| fits(labels));
            values.map(|(_, value)| number(&value[field])).sum()
        };
        let requests = of(model.now(), "count", None);
        let labels = [("server", server), ("location", location)];
        Row(vec![
            Cell::name(format!("{} {location}", if server.is_empty() { "(no name)" } else { server })),
            Cell::of(requests, count),
            Cell::of(model.rate(|sample| of(sample, "count", None)), count),
            Cell::failures(of(model.now(), "count", Some("5xx"))),
            Cell::of(of(model.now(), "sum", None) / requests.max(1.0) * 1e6, time),
            Cell::of(model.rate_of("brisk_http_response_bytes_total", &labels), bytes),
        ])
    };
    places.into_iter().map(row).collect()
}

fn back_ends(model: &Model) -> Vec<Row> {
    let balance = &model.now().own()["balance"];
    let of = |groups: &'_ Value, before: &'static str, counter: &'static str| -> Vec<Row> {
        let groups = groups["upstreams"].as_object().into_iter().flatten();
        let peers = groups.flat_map(|(name, upstream)| {
            upstream["peers"].as_array().into_iter().flatten().map(move |peer| (name, peer))
        });
        peers.map(|(name, peer)| back_end(model, before, counter, name, peer)).collect()
    };
    let of_stream = of(&balance["stream"], "stream: ", "brisk_stream_upstream_sessions_total");
    of(balance, "", "brisk_upstream_requests_total").into_iter().chain(of_stream).collect()
}

fn back_end(model: &Model, before: &str, counter: &str, name: &str, peer: &Value) -> Row {
    let state = word(&peer["state"]);
    let mood = match state {
        "up" => Mood::Good,
        "draining" => Mood::Warn,
        _ => Mood::Bad,
    };
    let server = word(&peer["server"]);
    let labels = [("upstream", name), ("server", server)];
    let backup = if peer["backup"] == true { " (backup)" } else { "" };
    Row(vec![
        Cell::name(format!("{before}{name} {server}{backup}")),
        Cell { mood, ..Cell::name(state) },
        Cell::of(number(&peer["weight"]), count),
        Cell::of(number(&peer["active"]), count),
        Cell::of(model.rate_of(counter, &labels), count),
        // Not added up: an answer with 5xx is a failed attempt as well where proxy_next_upstream names it.
        peer["responses"]["5xx"].as_f64().map_or_else(Cell::none, Cell::failures),
        Cell::failures(number(&peer["fails"])),
        peer["response_time"].as_f64().map_or_else(Cell::none, |ms| Cell::of(ms * 1000.0, time)),
        Cell::of(number(&peer["received"]), bytes),
    ])
}

fn streams(model: &Model) -> Vec<Row> {
    let row = |labels: &Value| {
        let (listen, server) = (word(&labels["listen"]), word(&labels["server"]));
        let labels = [("listen", listen), ("server", server)];
        let ended = |class: &'static str| {
            model.sum("brisk_stream_sessions_total", &[labels[0], labels[1], ("status", class)])
        };
        Row(vec![
            Cell::name(format!("{listen} {server}").trim_end()),
            Cell::of(model.sum("brisk_stream_active", &labels), count),
            Cell::of(model.rate_of("brisk_stream_connections_total", &labels), count),
            Cell::of(ended("4xx"), count),
            Cell::failures(ended("5xx")),
            Cell::of(model.rate_of("brisk_stream_received_bytes_total", &labels), bytes),
            Cell::of(model.rate_of("brisk_stream_sent_bytes_total", &labels), bytes),
        ])
    };
    model.now().family("brisk_stream_active").map(|(labels, _)| row(labels)).collect()
}

fn php(model: &Model) -> Vec<Row> {
    let pools = model.now().own()["balance"]["php"].as_object();
    let row = |(name, pool): (&String, &Value)| {
        let labels = [("pool", name.as_str())];
        let (workers, idle) = (number(&pool["workers"]["total"]), number(&pool["workers"]["idle"]));
        let waiting = number(&pool["requests"]["waiting"]);
        let wait =
            Cell { mood: if waiting > 0.0 { Mood::Warn } else { Mood::Plain }, ..Cell::of(waiting, count) };
        Row(vec![
            Cell::name(name.as_str()),
            Cell::of(workers, count),
            Cell::of(workers - idle, count),
            Cell::of(model.rate_of("brisk_php_requests_total", &labels), count),
            wait,
            Cell::failures(number(&pool["requests"]["refused"])),
            Cell::failures(number(&pool["crashes"])),
            Cell::of(model.rate_of("brisk_php_cpu_seconds", &labels), |cpus| format!("{cpus:.2}")),
            Cell::of(number(&pool["worker_bytes"]) * workers, bytes),
        ])
    };
    pools.into_iter().flatten().map(row).collect()
}

fn caches(model: &Model) -> Vec<Row> {
    let row = |zone: &str| {
        let labels = [("zone", zone)];
        let of = |name: &str| model.sum(name, &labels);
        let (hits, misses) = (of("brisk_cache_hits_total"), of("brisk_cache_misses_total"));
        let looks = model.rate_of("brisk_cache_hits_total", &labels)
            + model.rate_of("brisk_cache_misses_total", &labels);
        Row(vec![
            Cell::name(zone),
            if hits + misses > 0.0 { Cell::of(hits / (hits + misses), percent) } else { Cell::none() },
            Cell::of(looks, count),
            Cell::of(of("brisk_cache_entries"), count),
            Cell::of(of("brisk_cache_memory_bytes") + of("brisk_cache_index_bytes"), bytes),
            Cell::of(of("brisk_cache_disk_bytes"), bytes),
            Cell::of(of("brisk_cache_evicted_total"), count),
        ])
    };
    model.now().family("brisk_cache_entries").map(|(labels, _)| row(word(&labels["zone"]))).collect()
}

fn certificates(model: &Model) -> Vec<Row> {
    const DAY: f64 = 86_400.0;
    let now_secs = number(&model.now().own()["now_ms"]) / 1000.0;
    let row = |(labels, value): (&Value, &Value)| {
        let end_secs = number(&value["value"]);
        let days = ((end_secs - now_secs) / DAY).floor();
        let mood = match days {
            _ if days < 7.0 => Mood::Bad,
            _ if days < 21.0 => Mood::Warn,
            _ => Mood::Plain,
        };
        Row(vec![
            Cell::name(word(&labels["certificate"])),
            Cell::name(date((end_secs / DAY).floor() as i64)),
            Cell { mood, ..Cell::of(days, |days| format!("{days:.0}")) },
        ])
    };
    model.now().family("brisk_tls_certificate_not_after_seconds").map(row).collect()
}

fn flights(model: &Model) -> Vec<Row> {
    let row = |one: &Value| {
        let of = |name: &str| word(&one[name]);
        let age_us = number(&one["age_us"]);
        let mood = match age_us {
            // Tunnels are meant to last.
            _ if of("phase") == "tunnel" => Mood::Plain,
            _ if age_us >= 10e6 => Mood::Bad,
            _ if age_us >= 1e6 => Mood::Warn,
            _ => Mood::Plain,
        };
        let name = match of("method") {
            "" => "(not known yet)".to_string(),
            method => format!("{method} {}{}", of("host"), of("path")),
        };
        let upstream = if of("upstream").is_empty() { "–" } else { of("upstream") };
        Row(vec![
            Cell::name(name),
            Cell::name(of("phase")),
            Cell { mood, ..Cell::of(age_us, time) },
            Cell::name(of("client")),
            Cell::name(upstream),
        ])
    };
    model.now().own()["flights"]["list"].as_array().into_iter().flatten().map(row).collect()
}

/// `2026-11-23`, of days since 1970.
fn date(days: i64) -> String {
    let (year, month, day) = civil_from_days(days);
    format!("{year:04}-{month:02}-{day:02}")
}
