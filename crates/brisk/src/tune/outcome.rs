//! The tuner's result for people.

use brisk_cli::terminal;
use brisk_tune::knob::Risk;
use serde_json::Value;
use std::fmt::Write as _;

/// All of it.
pub fn text(result: &Value) -> String {
    let columns = terminal::columns();
    let wrap = |text: &str, indent| terminal::wrap(text, columns, indent);
    let said = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut out = String::from("\n");
    if result["before"].is_object() {
        let (before, limit) = (said(&result["before"]["shown"]), said(&result["limit"]["sentence"]));
        out += &wrap(&format!("Before: {before}. {limit}"), 0);
    }
    for line in result["limit"]["evidence"].as_array().into_iter().flatten() {
        out += &wrap(&format!("- {}", said(line)), 2);
    }
    for limit in result["limits"].as_array().into_iter().flatten() {
        let with = differences(&limit["with"]).join(", ");
        out += &wrap(&format!("With {with}: {}", said(&limit["sentence"])), 0);
    }
    let steps = result["steps"].as_array().map_or(&[][..], Vec::as_slice);
    if !steps.is_empty() {
        out.push('\n');
    }
    for step in steps {
        out += &wrap(&step_text(step), 2);
    }
    for note in result["notes"].as_array().into_iter().flatten() {
        out += &wrap(&format!("Not tried: {}.", said(note)), 2);
    }
    out.push('\n');
    out += &wrap(&last(result), 0);
    if result["after"].is_object() {
        let after = &result["after"];
        out += &wrap(&format!("After: {}. {}", said(&after["shown"]), said(&after["limit"]["sentence"])), 0);
        for broken in after["broken"].as_array().into_iter().flatten() {
            out += &wrap(&format!("What is promised does not hold: {}", said(broken)), 2);
        }
    }
    if result["applied"].is_object() {
        out += &wrap(
            &format!("Applied, and proved on the site itself: cost {}.", change(&result["applied"])),
            0,
        );
        out += &wrap("\"brisk tune undo\" takes it back.", 0);
    }
    if let Some(why) = result["not_applied"].as_str() {
        out += &wrap(&format!("Not applied: {why}."), 0);
    }
    if let Some(why) = result["stopped"].as_str() {
        out += &wrap(&format!("It ended before its time: {why}."), 0);
    }
    let patches = result["patches"].as_array().map_or(&[][..], Vec::as_slice);
    if !patches.is_empty() && !result["applied"].is_object() {
        out += &wrap(
            "What follows is for \"patch -d / -p1\"; \"--apply --found\" applies and proves what --json has printed.",
            0,
        );
    }
    for patch in patches {
        let _ = write!(out, "\n{}", said(&patch["patch"]));
    }
    out
}

/// The same in few lines: what limited, each step, what came of it.
pub fn lines(result: &Value) -> Vec<String> {
    let mut out: Vec<String> = result["limit"]["sentence"].as_str().map(str::to_owned).into_iter().collect();
    out.extend(result["steps"].as_array().into_iter().flatten().map(step_text));
    out.push(last(result));
    for (name, what) in [("not_applied", "Not applied"), ("stopped", "It ended before its time")] {
        out.extend(result[name].as_str().map(|why| format!("{what}: {why}.")));
    }
    if result["applied"].is_object() {
        out.push(format!("Applied, and proved on the site itself: cost {}.", change(&result["applied"])));
    }
    out
}

/// `-37.1 % (-41.0 % to -33.2 %)` of costs.
pub fn change(value: &Value) -> String {
    let percent = |name: &str| value[name].as_f64().map(|ratio| (ratio - 1.0) * 100.0);
    match (percent("ratio"), percent("low"), percent("high")) {
        (Some(ratio), Some(low), Some(high)) => format!("{ratio:+.1} % ({low:+.1} % to {high:+.1} %)"),
        _ => "not known".to_owned(),
    }
}

fn step_text(step: &Value) -> String {
    let text = |name: &str| step[name].as_str().unwrap_or_default();
    let (knob, from, to) = (text("knob"), text("from"), text("to"));
    match text("verdict") {
        "proposal" if text("risk") == Risk::Safe.name() => {
            format!("{knob} {from}: a proposal; it counts for the whole machine and was not tried.")
        }
        "proposal" => format!(
            "{knob} {from}: a proposal; its risk is {} and it was not tried (--allow {} tries it).",
            text("risk"),
            text("risk")
        ),
        "no gain" => {
            let seen = step["detectable"].as_f64().map_or_else(String::new, |share| {
                format!(", and a gain of more than {:.1} % would have been seen", share * 100.0)
            });
            format!("{knob} {from} -> {to}: no gain: {}{seen}.", change(step))
        }
        "undecided" if from == to => match step["why"].as_str() {
            Some(why) => format!("{knob} {from}: not tried: {why} (--knobs {knob} tries it)."),
            None => format!("{knob} {from}: there was no time to try it."),
        },
        _ => format!("{knob} {from} -> {to}: {}: cost {}.", verdict(step), change(step)),
    }
}

/// `kept`, `kept together with gzip`.
pub fn verdict(step: &Value) -> String {
    let with: Vec<&str> =
        step["together"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let verdict = step["verdict"].as_str().unwrap_or_default();
    if with.is_empty() { verdict.to_owned() } else { format!("{verdict} together with {}", with.join(", ")) }
}

/// What was found: `pm.max_children 2 -> 8`.
pub fn settings(result: &Value) -> Vec<String> {
    differences(&result["final"]["settings"])
}

/// The same of settings anywhere in a result.
pub fn differences(settings: &Value) -> Vec<String> {
    let all = settings.as_array().into_iter().flatten();
    all.map(|setting| {
        let text = |name: &str| setting[name].as_str().unwrap_or_default();
        format!("{} {} -> {}", text("knob"), text("from"), text("to"))
    })
    .collect()
}

fn last(result: &Value) -> String {
    let found = &result["final"];
    let pairs = found["pairs"].as_array().map_or(0, Vec::len);
    match found["outcome"].as_str() {
        None => "Nothing was changed.".to_owned(),
        Some("kept") => format!(
            "Confirmed in {pairs} pairs after restarts: {}. Cost {} ({}).",
            settings(result).join(", "),
            change(found),
            result["unit"].as_str().unwrap_or_default()
        ),
        Some("no gain") => "No gain: nothing is better than what is there.".to_owned(),
        Some(outcome) => {
            format!(
                "Not confirmed ({outcome}: {}): cost {} in {pairs} pairs after restarts. What is there stays.",
                found["why"].as_str().unwrap_or_default(),
                change(found)
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_result_is_told() {
        let result = json!({
            "unit": "µs per good answer",
            "limit": { "sentence": "The pool is too small.", "evidence": ["5 of 5 busy"] },
            "before": { "shown": "50.0 answers per second" },
            "steps": [
                { "knob": "pm.max_children", "from": "2", "to": "8", "verdict": "kept", "ratio": 0.5, "low": 0.45, "high": 0.55 },
                { "knob": "sendfile_max_chunk", "from": "0", "to": "2m", "verdict": "kept", "together": ["gzip"], "ratio": 0.9, "low": 0.8, "high": 0.95 },
                { "knob": "pm", "from": "static", "to": "dynamic", "verdict": "no gain", "ratio": 1.0, "low": 0.99, "high": 1.01, "detectable": 0.011 },
                { "knob": "access_log", "from": "a", "verdict": "proposal", "risk": "security" },
                { "knob": "sendfile", "from": "off", "to": "off", "verdict": "undecided", "why": "8 others came first" },
                { "knob": "gzip", "from": "off", "to": "off", "verdict": "undecided" },
                { "knob": "net.core.somaxconn", "from": "128", "verdict": "proposal", "risk": "safe" },
            ],
            "limits": [{ "sentence": "The CPUs are full.", "with": [{ "knob": "pm.max_children", "from": "2", "to": "8" }] }],
            "notes": [], "patches": [{ "file": "/a", "patch": "--- /a\n+++ /a\n" }],
            "final": { "outcome": "kept", "ratio": 0.5, "low": 0.4, "high": 0.6, "pairs": [[1.0, 2.0]],
                "settings": [{ "knob": "pm.max_children", "from": "2", "to": "8" }] },
            "after": { "shown": "99.0 answers per second", "limit": { "sentence": "All CPUs are busy." }, "broken": [] },
        });
        let said = text(&result).split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "Before: 50.0 answers per second. The pool is too small.",
            "With pm.max_children 2 -> 8: The CPUs are full.",
            "pm.max_children 2 -> 8: kept: cost -50.0 % (-55.0 % to -45.0 %).",
            "sendfile_max_chunk 0 -> 2m: kept together with gzip: cost -10.0 % (-20.0 % to -5.0 %).",
            "a gain of more than 1.1 % would have been seen",
            "access_log a: a proposal; its risk is security",
            "sendfile off: not tried: 8 others came first (--knobs sendfile tries it).",
            "gzip off: there was no time to try it.",
            "net.core.somaxconn 128: a proposal; it counts for the whole machine",
            "Confirmed in 1 pairs after restarts: pm.max_children 2 -> 8.",
            "After: 99.0 answers per second. All CPUs are busy.",
            "--- /a +++ /a",
        ] {
            assert!(said.contains(part), "{part}\n{said}");
        }
    }
}
