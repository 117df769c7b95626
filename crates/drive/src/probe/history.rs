//! The history: a file with a line of JSON per look, only ever appended to. A line that was cut off is left out.

use crate::dates::{parse_rfc3339, rfc3339};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, Write as _};

/// Of a long history, the last so many looks at each page are shown.
const SHOWN: usize = 60;

/// One look at one page.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// Milliseconds since the epoch.
    pub at: i64,
    /// The page.
    pub url: String,
    /// 0: no answer.
    pub status: u16,
    /// Until everything had come, in milliseconds.
    pub ms: f64,
    /// Until the first byte, likewise.
    pub first_byte_ms: f64,
    /// Of the body.
    pub bytes: u64,
    /// What is wrong, if something is.
    pub wrong: Option<String>,
}

impl Look {
    fn line(&self) -> String {
        let mut line = json!({ "at": rfc3339(self.at), "url": self.url, "status": self.status, "ms": self.ms,
            "first_byte_ms": self.first_byte_ms, "bytes": self.bytes, "wrong": self.wrong })
        .to_string();
        line.push('\n');
        line
    }

    fn parse(line: &str) -> Option<Self> {
        let json: Value = serde_json::from_str(line).ok()?;
        Some(Self {
            at: parse_rfc3339(json["at"].as_str()?)?,
            url: json["url"].as_str()?.to_owned(),
            status: json["status"].as_u64()? as u16,
            ms: json["ms"].as_f64()?,
            first_byte_ms: json["first_byte_ms"].as_f64()?,
            bytes: json["bytes"].as_u64()?,
            wrong: json["wrong"].as_str().map(str::to_owned),
        })
    }
}

/// Appends looks, each in one write.
pub fn append(path: &str, looks: &[Look]) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    let text: String = looks.iter().map(Look::line).collect();
    file.write_all(text.as_bytes())
}

/// Reads a history; none is an empty one.
pub fn read(path: &str) -> io::Result<Vec<Look>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text.lines().filter_map(Look::parse).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Drops what is older than `since` (milliseconds since the epoch), in one step.
pub fn forget(path: &str, since: i64) -> io::Result<()> {
    let looks = read(path)?;
    let kept: Vec<Look> = looks.iter().filter(|look| look.at >= since).cloned().collect();
    if kept.len() == looks.len() {
        return Ok(());
    }
    let new = format!("{path}.new");
    std::fs::write(&new, kept.iter().map(Look::line).collect::<String>())?;
    std::fs::rename(&new, path)
}

/// A page's history as a few lines: a bar per look, × where something was wrong.
pub fn chart(looks: &[Look]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let mut urls: Vec<&str> = Vec::new();
    for look in looks {
        if !urls.contains(&look.url.as_str()) {
            urls.push(&look.url);
        }
    }
    let mut out = String::new();
    for url in urls {
        let own: Vec<&Look> = looks.iter().filter(|look| look.url == url).collect();
        let good = own.iter().filter(|look| look.wrong.is_none()).count();
        // A page that came too late, or without its text, took its time all the same.
        let came = own.iter().filter(|look| (1..400).contains(&look.status));
        let mut times: Vec<f64> = came.map(|look| look.ms).collect();
        times.sort_by(f64::total_cmp);
        let at = |share: f64| {
            times
                .get(((times.len() as f64 * share) as usize).min(times.len().saturating_sub(1)))
                .copied()
                .unwrap_or(0.0)
        };
        let last = &own[own.len().saturating_sub(SHOWN)..];
        let most = last.iter().map(|look| look.ms).fold(1e-9, f64::max);
        let bar = |look: &&Look| match look.wrong {
            Some(_) => '×',
            None => BARS[((look.ms / most * 7.0).round() as usize).min(7)],
        };
        let bars: String = last.iter().map(bar).collect();
        let _ = writeln!(
            out,
            "{url}\n  {bars}  {} looks, {:.2} % good, p50 {:.1} ms, p95 {:.1} ms, top of the chart {most:.1} ms",
            own.len(),
            100.0 * good as f64 / own.len() as f64,
            at(0.5),
            at(0.95)
        );
        if let Some(look) = own.iter().rev().find(|look| look.wrong.is_some()) {
            let _ = writeln!(
                out,
                "  last wrong at {}: {}",
                rfc3339(look.at),
                look.wrong.as_deref().unwrap_or_default()
            );
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_survives_being_cut_off_and_forgets() {
        let folder = std::env::temp_dir().join(format!("brisk-history-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("h.jsonl");
        let path = path.to_str().unwrap();
        let look = |at, wrong: Option<&str>| Look {
            at,
            url: "http://a/".into(),
            status: 200,
            ms: 10.0,
            first_byte_ms: 5.5,
            bytes: 100,
            wrong: wrong.map(str::to_owned),
        };
        assert_eq!(read(path).unwrap(), []);
        append(path, &[look(1000, None), look(2000, Some("status 500"))]).unwrap();
        OpenOptions::new().append(true).open(path).unwrap().write_all(b"{\"at\":\"2026-").unwrap();
        assert_eq!(read(path).unwrap(), [look(1000, None), look(2000, Some("status 500"))]);
        forget(path, 1500).unwrap();
        assert_eq!(read(path).unwrap(), [look(2000, Some("status 500"))]);
        let chart = chart(&[look(1000, None), look(2000, Some("status 500"))]);
        assert!(chart.contains("█×  2 looks, 50.00 % good, p50 10.0 ms"), "{chart}");
        std::fs::remove_dir_all(folder).unwrap();
    }

    /// What is too slow is wrong, and as slow as it is; what never came has no time.
    #[test]
    fn slow_pages_keep_their_figure() {
        let look = |status, ms, wrong: Option<&str>| Look {
            at: 1000,
            url: "http://a/".into(),
            status,
            ms,
            first_byte_ms: 1.0,
            bytes: 1,
            wrong: wrong.map(str::to_owned),
        };
        let slow = Some("900 ms, more than 500");
        let looks = [
            look(200, 10.0, None),
            look(200, 900.0, slow),
            look(0, 30_000.0, Some("no answer")),
            look(200, 900.0, slow),
        ];
        let chart = chart(&looks);
        assert!(chart.contains("4 looks, 25.00 % good, p50 900.0 ms, p95 900.0 ms"), "{chart}");
    }
}
