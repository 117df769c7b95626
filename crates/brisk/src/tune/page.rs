//! The tuner's result as a page of one file.

use super::outcome::{change, differences, settings, verdict};
use brisk_load::chart::{Line, Series};
use brisk_load::report::{Body, Section, Tile, page};
use serde_json::Value;

/// The whole page. `command`: what repeats it.
pub fn html(result: &Value, command: &str) -> String {
    let mut sections = vec![tiles(result), limit("What limited before", &result["limit"])];
    for seen in items(&result["limits"]) {
        sections.push(limit(&format!("What limited with {}", differences(&seen["with"]).join(", ")), seen));
    }
    sections.extend(steps("What was changed", result, |verdict| verdict == "kept"));
    sections.extend(steps("What was tried without gain, or not tried", result, |verdict| verdict != "kept"));
    sections.extend(curves(result));
    sections.extend(tiers(result));
    if result["after"].is_object() {
        sections.push(limit("What limits now", &result["after"]["limit"]));
    }
    sections.extend(pairs(result));
    for patch in items(&result["patches"]) {
        let title = format!("Change of {}", text(&patch["file"]));
        sections.push(Section { title, text: String::new(), body: Body::Pre(text(&patch["patch"])) });
    }
    sections.push(Section {
        title: "To repeat it".to_owned(),
        text: stopped(result),
        body: Body::Pre(command.to_owned()),
    });
    page(&format!("brisk tune: {}", text(&result["goal"])), &sections)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn stopped(result: &Value) -> String {
    result["stopped"].as_str().map_or_else(String::new, |why| format!("It ended before its time: {why}."))
}

fn tiles(result: &Value) -> Section {
    let tile = |name: &str, value: String, is_bad| Tile { name: name.to_owned(), value, is_bad };
    let found = &result["final"];
    let mut all = vec![tile("before", text(&result["before"]["shown"]), false)];
    if result["after"].is_object() {
        let is_broken = !items(&result["after"]["broken"]).is_empty();
        all.push(tile("with what was found", text(&result["after"]["shown"]), is_broken));
    }
    let (title, said) = match found["outcome"].as_str() {
        Some("kept") => {
            all.push(tile("change of the cost", change(found), false));
            (
                "Better",
                format!("Confirmed against the original after restarts: {}.", settings(result).join(", ")),
            )
        }
        Some("no gain") => ("No gain", "Nothing is better than what is there.".to_owned()),
        Some(_) => {
            let (why, change) = (text(&found["why"]), change(found));
            ("Not confirmed", format!("The cost changed by {change}, but {why}. What is there stays."))
        }
        None => ("Nothing was changed", stopped(result)),
    };
    Section { title: title.to_owned(), text: said, body: Body::Tiles(all) }
}

fn limit(title: &str, limit: &Value) -> Section {
    let evidence: Vec<String> = items(&limit["evidence"]).iter().map(text).collect();
    Section { title: title.to_owned(), text: text(&limit["sentence"]), body: Body::Pre(evidence.join("\n")) }
}

fn steps(title: &str, result: &Value, is_meant: impl Fn(&str) -> bool) -> Option<Section> {
    let all: Vec<&Value> =
        items(&result["steps"]).iter().filter(|step| is_meant(&text(&step["verdict"]))).collect();
    let notes = items(&result["notes"]).iter().map(text);
    let notes: Vec<String> = if is_meant("kept") { Vec::new() } else { notes.collect() };
    if all.is_empty() && notes.is_empty() {
        return None;
    }
    let row = |step: &&Value| {
        let values = [text(&step["knob"]), text(&step["from"]), text(&step["to"]), verdict(step)];
        let detectable = step["detectable"].as_f64().filter(|_| step["verdict"] == "no gain");
        let seen = detectable.map_or_else(String::new, |share| format!("{:.1} %", share * 100.0));
        let cost = step["why"].as_str().map_or_else(|| change(step), |why| format!("not tried: {why}"));
        values.into_iter().chain([cost, seen]).collect::<Vec<_>>()
    };
    let head = ["Setting", "From", "To", "Verdict", "Cost (interval)", "Gain that would have been seen"];
    let head = head.map(str::to_owned).to_vec();
    let said = if notes.is_empty() { String::new() } else { format!("Not tried: {}.", notes.join("; ")) };
    Some(Section {
        title: title.to_owned(),
        text: said,
        body: Body::Table(head, all.iter().map(row).collect()),
    })
}

/// Throughput and waiting time over the number of users, before and after.
fn curves(result: &Value) -> Option<Section> {
    let points = items(&result["curves"]);
    if points.is_empty() {
        return None;
    }
    let series = |side: &str, figure: &str, name: &str| Series {
        name: name.to_owned(),
        points: points
            .iter()
            .filter_map(|point| Some((point["users"].as_f64()?, point[side][figure].as_f64()?)))
            .collect(),
        only_marks: false,
    };
    let chart = |title: &str, figure: &str, unit: &str| {
        Line {
            title: title.to_owned(),
            x_label: "users".to_owned(),
            y_label: unit.to_owned(),
            series: vec![series("before", figure, "before"), series("after", figure, "after")],
            ..Line::default()
        }
        .svg()
    };
    let charts = vec![chart("Good answers", "rate", "per second"), chart("95 % wait less", "p95_ms", "ms")];
    let said = "One short run for each point: the course counts, not the single figure.".to_owned();
    Some(Section { title: "Over the number of users".to_owned(), text: said, body: Body::Charts(charts) })
}

fn tiers(result: &Value) -> Option<Section> {
    let rows = |when: &str, figures: &Value| -> Vec<Vec<String>> {
        let row = |tier: &Value| {
            let number = |name: &str, digits: usize| {
                tier[name].as_f64().map_or_else(String::new, |n| format!("{n:.digits$}"))
            };
            vec![
                text(&tier["name"]),
                when.to_owned(),
                number("cores", 2),
                number("cpu_us", 0),
                number("memory_mib", 0),
            ]
        };
        items(&figures["tiers"]).iter().map(row).collect()
    };
    let all = [rows("before", &result["before"]), rows("after", &result["after"])].concat();
    let head =
        ["Tier", "When", "CPUs in use", "CPU µs per answer", "Memory, MiB"].map(str::to_owned).to_vec();
    (!all.is_empty()).then(|| Section {
        title: "What each tier used".to_owned(),
        text: String::new(),
        body: Body::Table(head, all),
    })
}

/// The confirmation's raw pairs.
fn pairs(result: &Value) -> Option<Section> {
    let pairs = items(&result["final"]["pairs"]);
    if pairs.is_empty() {
        return None;
    }
    let side = |pair: &Value, index: usize| pair[index].as_f64();
    let series = |name: &str, figure: &dyn Fn(&Value) -> Option<f64>| Series {
        name: name.to_owned(),
        points: pairs
            .iter()
            .zip(1..)
            .filter_map(|(pair, number)| Some((f64::from(number), figure(pair)?)))
            .collect(),
        only_marks: false,
    };
    let chart = |title: &str, unit: &str, series: Vec<Series>| {
        let (title, x_label, y_label) = (title.to_owned(), "pair".to_owned(), unit.to_owned());
        Line { title, x_label, y_label, series, ..Line::default() }.svg()
    };
    let both = vec![series("original", &|pair| side(pair, 0)), series("found", &|pair| side(pair, 1))];
    let ratio = |pair: &Value| Some((side(pair, 1)? / side(pair, 0)? - 1.0) * 100.0);
    let charts = vec![
        chart("Cost in each pair", &text(&result["unit"]), both),
        chart("Change of the cost", "%", vec![series("found against original", &ratio)]),
    ];
    let said = "Both sides of a pair are measured one right after the other in random order, after new starts of all programs.";
    Some(Section {
        title: "The pairs of the confirmation".to_owned(),
        text: said.to_owned(),
        body: Body::Charts(charts),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_page_has_all_of_it() {
        let result = json!({
            "goal": "max rate", "unit": "µs", "limit": { "sentence": "The pool is too small.", "evidence": ["5 of 5 <busy>"] },
            "before": { "shown": "50.0 answers per second", "tiers": [{ "name": "php", "cores": 0.5, "cpu_us": 900.0, "memory_mib": 80.0 }] },
            "steps": [
                { "knob": "pm.max_children", "from": "2", "to": "8", "verdict": "kept", "ratio": 0.5, "low": 0.4, "high": 0.6 },
                { "knob": "gzip", "from": "on", "to": "off", "verdict": "no gain", "ratio": 1.0, "low": 0.9, "high": 1.1, "detectable": 0.05 },
            ],
            "limits": [{ "sentence": "The CPUs are full.", "evidence": [], "with": [{ "knob": "pm.max_children", "from": "2", "to": "8" }] }],
            "curves": [{ "users": 5, "before": { "rate": 50.0, "p95_ms": 9.0 }, "after": { "rate": 99.0, "p95_ms": 5.0 } }],
            "final": { "outcome": "kept", "ratio": 0.5, "low": 0.4, "high": 0.6, "pairs": [[2.0, 1.0], [2.1, 1.0]], "settings": [] },
            "after": { "shown": "99.0 answers per second", "limit": { "sentence": "All CPUs are busy.", "evidence": [] }, "broken": [] },
            "patches": [{ "file": "/a", "patch": "--- /a" }],
        });
        let page = html(&result, "brisk tune http://x/");
        for part in [
            "50.0 answers per second",
            "99.0 answers per second",
            "The pool is too small.",
            "5 of 5 &lt;busy&gt;",
            "pm.max_children",
            "What was tried without gain",
            "All CPUs are busy.",
            "Cost in each pair",
            "Over the number of users",
            "--- /a",
            "brisk tune http://x/",
        ] {
            assert!(page.contains(part), "{part}");
        }
    }
}
