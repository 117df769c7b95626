//! HAR files (version 1.2): one user who does what was recorded, with the pauses between.

use super::{sound, toml_text};
use crate::client::Url;
use crate::dates::parse_rfc3339;
use serde_json::Value;
use std::fmt::Write as _;

/// Fields that follow from the rest, or would tell the server of a recording long ago.
const LEFT_OUT: [&str; 9] = [
    "host",
    "connection",
    "content-length",
    "cookie",
    "accept-encoding",
    "if-none-match",
    "if-modified-since",
    "transfer-encoding",
    "upgrade-insecure-requests",
];

/// Pauses shorter than this are none.
const PAUSE_MS: f64 = 20.0;

/// Makes a scenario.
pub fn convert(text: &str, target: Option<&str>) -> Result<String, String> {
    let har: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    let entries = har["log"]["entries"].as_array().ok_or("not a HAR file: it has no log.entries")?;
    let first = entries
        .first()
        .and_then(|entry| entry["request"]["url"].as_str())
        .ok_or("there are no requests in it")?;
    let base = Url::parse(first).map_err(|error| error.to_string())?;
    let origin = format!("{}://{}", base.origin.scheme(), base.origin.authority());
    let mut out = format!("target = {}\n\n", toml_text(target.unwrap_or(&origin)));
    if text.contains("{{") {
        out.push_str("[variables]\nbraces = \"{{\"\n\n");
    }
    out.push_str("[[user]]\nname = \"recorded\"\n");
    let start = |entry: &Value| entry["startedDateTime"].as_str().and_then(parse_rfc3339);
    for (at, entry) in entries.iter().enumerate() {
        let request = &entry["request"];
        let url = request["url"].as_str().ok_or_else(|| format!("entry {}: no URL", at + 1))?;
        if !url.starts_with("http") {
            continue;
        }
        let parsed = Url::parse(url).map_err(|error| format!("entry {}: {error}", at + 1))?;
        let place = if parsed.origin == base.origin { parsed.path.clone() } else { parsed.to_string() };
        let method = request["method"].as_str().unwrap_or("GET");
        let _ = writeln!(out, "\n[[user.step]]\nrequest = {}", literal(&format!("{method} {place}")));
        headers(&mut out, request);
        if let Some(body) = request["postData"]["text"].as_str().filter(|body| !body.is_empty()) {
            let _ = writeln!(out, "body = {}", literal(body));
        }
        if let Some(status) = entry["response"]["status"]
            .as_u64()
            .filter(|status| (300..600).contains(status) && *status != 304)
        {
            let _ = writeln!(out, "check = {{ status = {status} }}");
        }
        let next = entries.get(at + 1).and_then(start);
        if let (Some(begun), Some(next)) = (start(entry), next) {
            let pause = (next - begun) as f64 - entry["time"].as_f64().unwrap_or(0.0);
            if pause >= PAUSE_MS {
                let _ = writeln!(out, "think = \"{pause:.0}ms\"");
            }
        }
    }
    sound(out)
}

/// A text in which nothing is a place for a value.
fn literal(text: &str) -> String {
    toml_text(&text.replace("{{", "{{braces}}"))
}

fn headers(out: &mut String, request: &Value) {
    let mut pairs: Vec<String> = Vec::new();
    let mut seen: Vec<String> = Vec::new();
    for header in request["headers"].as_array().into_iter().flatten() {
        let (Some(name), Some(value)) = (header["name"].as_str(), header["value"].as_str()) else { continue };
        let lower = name.to_ascii_lowercase();
        if name.starts_with(':') || LEFT_OUT.contains(&lower.as_str()) || seen.contains(&lower) {
            continue;
        }
        seen.push(lower);
        pairs.push(format!("{} = {}", toml_text(name), literal(value)));
    }
    if !pairs.is_empty() {
        let _ = writeln!(out, "headers = {{ {} }}", pairs.join(", "));
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::read;
    use super::*;
    use std::path::Path;

    #[test]
    fn a_recording_becomes_a_scenario() {
        let har = r#"{"log":{"entries":[
            {"startedDateTime":"2026-11-21T05:52:57.000Z","time":100,"request":{"method":"GET","url":"https://a.example/x?y=1",
             "headers":[{"name":":authority","value":"a"},{"name":"Accept","value":"a \"b\""},{"name":"Cookie","value":"s=1"}]},"response":{"status":200}},
            {"startedDateTime":"2026-11-21T05:52:58.600Z","time":10,"request":{"method":"POST","url":"https://b.example/p","headers":[],
             "postData":{"text":"a=1\nb"}},"response":{"status":302}}]}}"#;
        let text = convert(har, None).unwrap();
        let scenario =
            read::text(&text, Path::new("")).map_err(|faults| read::show("x", &text, &faults)).unwrap();
        let steps = &scenario.users[0].steps;
        assert_eq!(
            (steps.len(), steps[0].name.as_str(), steps[1].name.as_str()),
            (2, "GET /x?y=1", "POST https://b.example/p")
        );
        assert_eq!(steps[0].headers.len(), 1);
        assert!(text.contains("think = \"1500ms\"") && text.contains("status = 302"), "{text}");
        for bad in [
            "",
            "{}",
            "{\"log\":{\"entries\":[]}}",
            "{\"log\":{\"entries\":[{\"request\":{\"url\":\"x\"}}]}}",
        ] {
            assert!(convert(bad, None).is_err(), "{bad}");
        }
    }
}
