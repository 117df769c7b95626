//! HAR files (version 1.2): one user who does what was recorded, with the pauses between.

use super::super::template::form;
use super::written::{sound, toml_text};
use crate::client::{Fields, Request, Url};
use crate::dates::parse_rfc3339;
use serde_json::Value;
use std::collections::BTreeMap;
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

/// Begins a comment about a request that cannot be made again.
pub const LEFT_OUT_STEP: &str = "# left out:";

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
        let body = match body(&request["postData"]) {
            Ok(body) => body,
            Err(why) => {
                // One line: whatever is in the recording.
                let place: String = place.chars().filter(|c| !c.is_control()).collect();
                let _ = writeln!(out, "\n{LEFT_OUT_STEP} {} {place}: {why}", method.escape_debug());
                continue;
            }
        };
        let _ = writeln!(out, "\n[[user.step]]\nrequest = {}", literal(&format!("{method} {place}")));
        headers(&mut out, request, &body);
        match &body {
            Body::None => {}
            Body::Text(text, _) => drop(writeln!(out, "body = {}", literal(text))),
            Body::Form(fields) => {
                let fields: Vec<String> = fields
                    .iter()
                    .map(|(name, value)| format!("{} = {}", toml_text(name), literal(value)))
                    .collect();
                let _ = writeln!(out, "form = {{ {} }}\nfiles = {{}}", fields.join(", "));
            }
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

/// A body as a recording has it.
enum Body {
    None,
    /// As it was sent, and its media type if that is known.
    Text(String, Option<String>),
    /// Sent as `multipart/form-data`.
    Form(BTreeMap<String, String>),
}

/// Reads `postData`: its text, or, without one, its `params` (HAR 1.2). What is not in a recording is the error.
fn body(data: &Value) -> Result<Body, String> {
    let kind = data["mimeType"].as_str().filter(|kind| !kind.is_empty()).map(str::to_owned);
    if let Some(text) = data["text"].as_str().filter(|text| !text.is_empty()) {
        return Ok(Body::Text(text.to_owned(), None));
    }
    let params = data["params"].as_array().map(Vec::as_slice).unwrap_or_default();
    if params.is_empty() {
        return Ok(Body::None);
    }
    let pair = |param: &Value| {
        let of = |key: &str| param[key].as_str().unwrap_or_default().to_owned();
        if param["fileName"].is_string() {
            let name: String = of("fileName").chars().filter(|c| !c.is_control()).collect();
            return Err(format!(
                "the file \"{name}\" is not in the recording; write a step with files = {{ … }}"
            ));
        }
        Ok((of("name"), of("value")))
    };
    let pairs: Vec<(String, String)> = params.iter().map(pair).collect::<Result<_, _>>()?;
    if kind.as_ref().is_some_and(|kind| kind.to_ascii_lowercase().starts_with("multipart/form-data")) {
        let fields: BTreeMap<String, String> = pairs.iter().cloned().collect();
        if fields.len() < pairs.len() {
            return Err("fields of one name in one multipart form".to_owned());
        }
        return Ok(Body::Form(fields));
    }
    let pairs: Vec<String> =
        pairs.iter().map(|(name, value)| format!("{}={}", form(name), form(value))).collect();
    Ok(Body::Text(pairs.join("&"), Some("application/x-www-form-urlencoded".to_owned())))
}

/// A text in which nothing is a place for a value.
fn literal(text: &str) -> String {
    toml_text(&text.replace("{{", "{{braces}}"))
}

fn headers(out: &mut String, request: &Value, body: &Body) {
    let mut pairs: Vec<String> = Vec::new();
    let mut seen: Vec<String> = Vec::new();
    for header in request["headers"].as_array().into_iter().flatten() {
        let (Some(name), Some(value)) = (header["name"].as_str(), header["value"].as_str()) else { continue };
        let lower = name.to_ascii_lowercase();
        if name.starts_with(':') || LEFT_OUT.contains(&lower.as_str()) || seen.contains(&lower) {
            continue;
        }
        let is_own_boundary = lower == "content-type" && matches!(body, Body::Form(_));
        seen.push(lower);
        if !is_own_boundary && is_field(name, value) {
            pairs.push(format!("{} = {}", toml_text(name), literal(value)));
        }
    }
    if let Body::Text(_, Some(kind)) = body
        && !seen.iter().any(|name| name == "content-type")
    {
        pairs.push(format!("Content-Type = {}", toml_text(kind)));
    }
    if !pairs.is_empty() {
        let _ = writeln!(out, "headers = {{ {} }}", pairs.join(", "));
    }
}

/// Whether it can be sent.
fn is_field(name: &str, value: &str) -> bool {
    let fields = Fields(vec![(name.to_owned(), value.to_owned())]);
    Url::parse("http://localhost/").is_ok_and(|url| Request { fields, ..Request::get(url) }.fault().is_none())
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

    /// Bodies that a recording has only as their fields; what it does not have is said.
    #[test]
    fn fields_of_forms_are_sent() {
        let entry = |data: &str| {
            format!(
                r#"{{"request":{{"method":"POST","url":"http://a/p","headers":[{{"name":"X y","value":"1"}}],"postData":{data}}}}}"#
            )
        };
        let entries = [
            r#"{"mimeType":"application/x-www-form-urlencoded","params":[{"name":"a","value":"1 2"},{"name":"a","value":"{{"}]}"#,
            r#"{"mimeType":"multipart/form-data; boundary=x","params":[{"name":"b","value":"3"}]}"#,
            r#"{"mimeType":"multipart/form-data","params":[{"name":"c","fileName":"cat.jpg"}]}"#,
        ];
        let entries: Vec<String> = entries.iter().map(|data| entry(data)).collect();
        let har = format!("{{\"log\":{{\"entries\":[{}]}}}}", entries.join(","));
        let text = convert(&har, None).unwrap();
        let scenario =
            read::text(&text, Path::new("")).map_err(|faults| read::show("x", &text, &faults)).unwrap();
        let [urlencoded, multipart] = &scenario.users[0].steps[..] else { panic!("{text}") };
        let braces = |name: &str| (name == "braces").then(|| "{{".to_owned());
        let body = |step: &super::super::super::model::Step| step.body.fill(&braces).unwrap();
        assert_eq!(body(urlencoded), (b"a=1+2&a=%7B%7B".to_vec(), None));
        assert_eq!(urlencoded.headers[0].0, "Content-Type");
        let (bytes, kind) = body(multipart);
        assert!(
            kind.unwrap().starts_with("multipart/") && bytes.windows(5).any(|part| part == b"\r\n3\r\n"),
            "{text}"
        );
        assert!(text.contains("# left out: POST /p: the file \"cat.jpg\" is not in the recording"), "{text}");
    }
}
