//! Where and when a part ran: results mean nothing without it.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};

use crate::lab::Options;
use crate::mariadb::{MARIADBD, SYSBENCH};

/// Named facts, in the order in which they are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment(pub Vec<(String, String)>);

impl Environment {
    /// The facts of now and here.
    pub fn read(options: &Options) -> Self {
        let facts = [
            ("date", date()),
            ("cpu", cpu_model()),
            ("cores", std::thread::available_parallelism().map_or(0, usize::from).to_string()),
            ("kernel", file("/proc/sys/kernel/osrelease")),
            ("congestion control", file("/proc/sys/net/ipv4/tcp_congestion_control")),
            ("brisk", brisk_version(options)),
            ("nginx", version(&options.nginx)),
            ("h2o", version(&options.h2o)),
            ("haproxy", version(&options.haproxy)),
            ("varnish", varnish_version(&options.varnish)),
            ("mariadb", long_version(MARIADBD)),
            ("sysbench", long_version(SYSBENCH)),
            ("load average", file("/proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(" ")),
        ];
        Self(facts.map(|(name, value)| (name.to_owned(), value)).to_vec())
    }

    /// Adds how much of the time others kept the servers waiting, if it was measured.
    pub fn add_waiting(&mut self, share: f64) {
        if share > 0.0 {
            self.0.push(("kept waiting".to_owned(), format!("{:.1} %", share * 100.0)));
        }
    }

    /// A fact's value.
    pub fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// As an object.
    pub fn to_json(&self) -> Value {
        let facts = self.0.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str())));
        Value::Object(facts.collect::<Map<_, _>>())
    }

    /// Back from an object, whose members are then in alphabetical order.
    pub fn from_json(value: &Value) -> Option<Self> {
        let facts = value.as_object()?.iter();
        let mut facts: Vec<(String, String)> = facts
            .map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
            .collect::<Option<_>>()?;
        facts.sort_by_key(|(name, _)| ORDER.iter().position(|known| known == name));
        Some(Self(facts))
    }

    /// For tests.
    #[cfg(test)]
    pub fn example() -> Self {
        Self([("date", "2000-01-01"), ("cpu", "none")].map(|(a, b)| (a.to_owned(), b.to_owned())).to_vec())
    }
}

const ORDER: [&str; 14] = [
    "date",
    "cpu",
    "cores",
    "kernel",
    "congestion control",
    "brisk",
    "nginx",
    "h2o",
    "haproxy",
    "varnish",
    "mariadb",
    "sysbench",
    "load average",
    "kept waiting",
];

fn file(path: &str) -> String {
    fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default()
}

fn cpu_model() -> String {
    let info = file("/proc/cpuinfo");
    let field = |name: &str| {
        let line = info.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name));
        line.and_then(|line| line.split_once(": ")).map_or("", |(_, value)| value).to_owned()
    };
    format!("{} (family {}, model {})", field("model name"), field("cpu family"), field("model"))
}

/// The first line that names a version, as `-v` prints it.
fn version(binary: &Path) -> String {
    let Ok(output) = Command::new(binary).arg("-v").output() else { return "missing".to_owned() };
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().find(|line| line.contains("version")).unwrap_or_default();
    line.rsplit(": ").next().unwrap_or(line).trim_start_matches("h2o version ").to_owned()
}

/// `varnishd (varnish-7.1.1 revision …)`, as `-V` prints it.
fn varnish_version(binary: &Path) -> String {
    let Ok(output) = Command::new(binary).arg("-V").output() else { return "missing".to_owned() };
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    let name = text.split(['(', ')', ' ']).find_map(|word| word.strip_prefix("varnish-"));
    name.unwrap_or("unknown").to_owned()
}

/// `mariadbd  Ver 10.11.6-MariaDB-…`, `sysbench 1.0.20`, as `--version` prints it: `-v` would start the database.
fn long_version(binary: &str) -> String {
    let Ok(output) = Command::new(binary).arg("--version").output() else { return "missing".to_owned() };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let number = text.split_whitespace().find(|word| word.starts_with(|first: char| first.is_ascii_digit()));
    number.unwrap_or("unknown").to_owned()
}

/// Brisk's version and, where this is a checkout, its commit.
fn brisk_version(options: &Options) -> String {
    let commit = Command::new("git").args(["describe", "--always", "--dirty"]).output();
    let commit = commit.ok().filter(|output| output.status.success());
    let commit = commit.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let name = options.brisk.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    format!("{} ({name}), commit {}", version(&options.brisk), commit.as_deref().unwrap_or("unknown"))
}

/// Today in UTC.
fn date() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
    let (year, month, day) = civil(seconds / 86_400);
    let minutes = seconds % 86_400 / 60;
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", minutes / 60, minutes % 60)
}

/// The date of a day counted from 1970-01-01, in eras of 400 years that begin in March.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(19_723), (2024, 1, 1));
        assert_eq!(civil(20_453), (2025, 12, 31));
    }
}
