//! What the doctor has found, as a page of one file.

use super::part_name;
use brisk_load::report::{Body, Section, Tile, page};
use serde_json::Value;

/// The whole page. `command`: what repeats it.
pub fn html(found: &Value, command: &str) -> String {
    let mut sections = Vec::new();
    sections.extend(limit(found));
    sections.extend(evidence(found));
    sections.extend(budget(found));
    sections.extend(tiers(found));
    sections.extend(queries(found));
    sections.extend(audit(found));
    let files: Vec<String> = items(&found["files"]).iter().map(text).collect();
    sections.push(Section {
        title: "What was read".to_owned(),
        text: missing(found),
        body: Body::Pre(files.join("\n")),
    });
    sections.push(Section {
        title: "To repeat it".to_owned(),
        text: String::new(),
        body: Body::Pre(command.to_owned()),
    });
    page("brisk doctor", &sections)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn missing(found: &Value) -> String {
    let names: Vec<String> = items(&found["missing"]).iter().map(text).collect();
    if names.is_empty() { String::new() } else { format!("Not there: {}.", names.join(", ")) }
}

fn limit(found: &Value) -> Option<Section> {
    let limit = &found["limit"];
    let cause = limit["cause"].as_str()?;
    let tile = |name: &str, value: String, is_bad| Tile { name: name.to_owned(), value, is_bad };
    let load = &found["load"];
    let mut tiles = vec![tile("what limits", cause.to_owned(), true)];
    if let Some(gain) = limit["gain_max"].as_f64() {
        tiles.push(tile("times the rate, at most, when it is mended", format!("{gain:.1}"), false));
    }
    let number = |name: &str| load[name].as_f64().filter(|number| *number > 0.0);
    tiles.extend(number("rate").map(|rate| tile("responses per second", format!("{rate:.1}"), false)));
    tiles
        .extend(number("wall_us").map(|wall| tile("ms for a response", format!("{:.1}", wall / 1e3), false)));
    tiles.extend(
        number("errors").map(|share| tile("errors", format!("{:.1} %", share * 100.0), share > 0.01)),
    );
    Some(Section {
        title: "What limits".to_owned(),
        text: text(&limit["sentence"]),
        body: Body::Tiles(tiles),
    })
}

fn evidence(found: &Value) -> Option<Section> {
    let lines: Vec<String> = items(&found["limit"]["evidence"]).iter().map(text).collect();
    (!lines.is_empty()).then(|| Section {
        title: "What was seen".to_owned(),
        text: String::new(),
        body: Body::Pre(lines.join("\n")),
    })
}

fn budget(found: &Value) -> Option<Section> {
    let parts = found["budget"].as_object()?;
    let mut parts: Vec<(&str, f64)> =
        parts.iter().filter_map(|(name, part)| Some((name.strip_suffix("_us")?, part.as_f64()?))).collect();
    parts.sort_by(|left, right| right.1.total_cmp(&left.1));
    let wall: f64 = parts.iter().map(|(_, part)| part).sum();
    parts.retain(|(_, part)| *part >= wall / 1e3);
    let is_known = found["load"]["wall_us"].as_f64().is_some_and(|wall| wall > 0.0);
    let row = |&(name, part): &(&str, f64)| {
        let ms = if is_known { format!("{:.2}", part / 1e3) } else { String::new() };
        vec![part_name(name).to_owned(), ms, format!("{:.0} %", part / wall.max(1e-9) * 100.0)]
    };
    let head = ["Of a response's time", "ms", "share"].map(str::to_owned).to_vec();
    Some(Section {
        title: "Where the time goes".to_owned(),
        text: String::new(),
        body: Body::Table(head, parts.iter().map(row).collect()),
    })
}

fn tiers(found: &Value) -> Option<Section> {
    let number =
        |value: &Value, digits: usize| value.as_f64().map_or_else(String::new, |n| format!("{n:.digits$}"));
    let row = |tier: &Value| {
        vec![
            text(&tier["name"]),
            number(&tier["cores"], 2),
            number(&tier["cpu_us"], 0),
            number(&tier["memory_mib"], 0),
        ]
    };
    let rows: Vec<Vec<String>> = items(&found["tiers"]).iter().map(row).collect();
    let head = ["Tier", "CPUs in use", "CPU µs per response", "Memory, MiB"].map(str::to_owned).to_vec();
    (!rows.is_empty()).then(|| Section {
        title: "What each tier used".to_owned(),
        text: String::new(),
        body: Body::Table(head, rows),
    })
}

fn queries(found: &Value) -> Option<Section> {
    let row = |query: &Value| {
        let plan = &query["plan"];
        let yes = |name: &str| if plan[name] == true { "yes" } else { "" }.to_owned();
        let rows = plan["rows"].as_u64().map_or_else(String::new, |rows| rows.to_string());
        let share = query["share"].as_f64().unwrap_or(0.0);
        vec![
            text(&query["query"]),
            format!("{:.0} %", share * 100.0),
            text(&plan["table"]),
            rows,
            yes("scan"),
            yes("temporary"),
        ]
    };
    let rows: Vec<Vec<String>> = items(&found["queries"]).iter().map(row).collect();
    let head = ["Query", "of all that ran", "Table", "Rows looked at", "No index", "Temporary table"];
    (!rows.is_empty()).then(|| Section {
        title: "Queries that ran most".to_owned(),
        text: "What users wrote is left out. The plan is what EXPLAIN says.".to_owned(),
        body: Body::Table(head.map(str::to_owned).to_vec(), rows),
    })
}

fn audit(found: &Value) -> Vec<Section> {
    let titles = [
        ("danger", "Dangerous, before any tuning"),
        ("large", "Worth most"),
        ("small", "Worth less, or on some sites only"),
        ("sight", "To see what limits the site"),
    ];
    let section = |(weight, title): &(&str, &str)| {
        let all: Vec<&Value> =
            items(&found["audit"]).iter().filter(|finding| finding["weight"] == *weight).collect();
        let lines: Vec<String> = all.iter().map(|finding| of_finding(finding)).collect();
        (!lines.is_empty()).then(|| Section {
            title: (*title).to_owned(),
            text: String::new(),
            body: Body::Pre(lines.join("\n\n")),
        })
    };
    titles.iter().filter_map(section).collect()
}

fn of_finding(finding: &Value) -> String {
    let place = |seen: &Value| {
        let at = seen["file"].as_str().map_or_else(String::new, |file| format!("{file}:{}: ", seen["line"]));
        format!("  {at}{}", text(&seen["what"]))
    };
    let mut lines = vec![format!("{} ({})", text(&finding["slug"]), text(&finding["tier"]))];
    lines.extend(items(&finding["seen"]).iter().map(place));
    lines.push(format!("  {}", text(&finding["why"])));
    lines.extend(finding["gain"].as_str().map(|gain| format!("  Measured: {gain}.")));
    lines.push(format!("  Write: {}", text(&finding["line"])));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_page_has_all_of_it() {
        let found = json!({
            "limit": { "cause": "pool-too-small", "sentence": "The <pool> is too small.", "evidence": ["5 of 5"], "gain_max": 3.2 },
            "load": { "rate": 40.0, "wall_us": 5000.0, "errors": 0.02 },
            "budget": { "queue_us": 4000.0, "cpu_us": 1000.0 },
            "tiers": [{ "name": "php", "cores": 0.5, "cpu_us": 900.0, "memory_mib": 80 }],
            "queries": [{ "query": "SELECT ?", "share": 0.9, "plan": { "table": "t", "rows": 9000, "scan": true } }],
            "audit": [{ "slug": "opcache-off", "tier": "php", "weight": "large", "why": "Why.", "line": "opcache.enable = 1",
                "seen": [{ "file": "/a", "line": 3, "what": "opcache.enable = 0" }] }],
            "files": ["/etc/x"], "missing": ["php.ini"],
        });
        let page = html(&found, "brisk doctor http://x/");
        for part in [
            "The &lt;pool&gt; is too small.",
            "5 of 5",
            "waiting for a PHP process",
            "80 %",
            "9000",
            "/a:3: opcache.enable = 0",
            "Write: opcache.enable = 1",
            "Not there: php.ini.",
            "brisk doctor http://x/",
        ] {
            assert!(page.contains(part), "{part}");
        }
    }
}
