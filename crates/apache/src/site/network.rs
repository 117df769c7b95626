//! Connections: times, sizes of heads, protocols; and the media types of `TypesConfig`.

use super::build::{block, statement};
use super::draft::{Done, Draft, Listen, Translator};
use super::host::word;
use crate::syntax::Node;
use std::collections::BTreeMap;

pub(super) fn line(this: &mut Translator<'_, '_>, name: &str, node: &Node, draft: &mut Draft) -> Done {
    Some(match name {
        "listen" => Listen::parse(node).map(|listen| this.listens.push(listen)),
        "timeout" => number(node).map(|seconds| {
            for name in ["client_body_timeout", "send_timeout"] {
                let directive = this.make(node, name, &[format!("{seconds}s")]);
                draft.single.entry(name).or_insert(directive);
            }
        }),
        "keepalive" => {
            if is_on(node) {
                return Some(Ok(()));
            }
            one(this, node, draft, "keepalive_timeout", "0")
        }
        "keepalivetimeout" => time(node).and_then(|time| {
            // `KeepAlive Off` stands for all lines.
            let is_off = draft.single.get("keepalive_timeout").is_some_and(|d| d.arg(0).bytes() == b"0");
            if is_off { Ok(()) } else { one(this, node, draft, "keepalive_timeout", &time) }
        }),
        "maxkeepaliverequests" => number(node).and_then(|count| {
            let count = if count == 0 { 1_000_000_000 } else { count };
            one(this, node, draft, "keepalive_requests", &count.to_string())
        }),
        "requestreadtimeout" => read_timeout(this, node, draft),
        "limitrequestline" | "limitrequestfieldsize" => number(node).map(|bytes| {
            let known = draft.single.get("large_client_header_buffers");
            let known: u64 = known.and_then(|d| d.arg(1).text().parse().ok()).unwrap_or(0);
            let size = bytes.max(known).max(1024).to_string();
            let directive = this.make(node, "large_client_header_buffers", &["4", &size]);
            draft.single.insert("large_client_header_buffers", directive);
        }),
        "limitrequestfields" => number(node).and_then(|count| match count {
            0 => Err("Brisk needs a limit: write a number".into()),
            count => one(this, node, draft, "max_headers", &count.to_string()),
        }),
        "servertokens" => {
            let short = word(node, 0).is_ok_and(|word| word.to_ascii_lowercase().starts_with("prod"));
            one(this, node, draft, "server_tokens", if short { "off" } else { "on" })
        }
        "protocols" => protocols(this, node, draft),
        "typesconfig" => word(node, 0).and_then(|path| this.files.text(&path)).map(|text| {
            this.types = Some(types_of(this, node.line, &text));
        }),
        "addoutputfilterbytype" => {
            compression(node, draft);
            // The settings look at the filters' names.
            return None;
        }
        _ => return None,
    })
}

fn one(
    this: &Translator<'_, '_>,
    node: &Node,
    draft: &mut Draft,
    name: &'static str,
    value: &str,
) -> Result<(), String> {
    draft.single.insert(name, this.make(node, name, &[value]));
    Ok(())
}

fn is_on(node: &Node) -> bool {
    node.words().next().is_some_and(|word| word.eq_ignore_ascii_case(b"on"))
}

fn number(node: &Node) -> Result<u64, String> {
    word(node, 0)?.parse().map_err(|_| "takes a number that is not negative".to_string())
}

/// A time in seconds, or with `ms`, as Brisk writes it.
fn time(node: &Node) -> Result<String, String> {
    let text = word(node, 0)?;
    let (digits, unit) = match text.strip_suffix("ms") {
        Some(digits) => (digits, "ms"),
        None => (text.strip_suffix('s').unwrap_or(&text), "s"),
    };
    let time: u64 = digits.parse().map_err(|_| "takes a time in seconds".to_string())?;
    Ok(format!("{time}{unit}"))
}

/// `RequestReadTimeout header=20-40,MinRate=500 body=20`: the first number of each; rates are not asked for.
fn read_timeout(this: &mut Translator<'_, '_>, node: &Node, draft: &mut Draft) -> Result<(), String> {
    for word in node.words() {
        let word = String::from_utf8_lossy(&word).to_ascii_lowercase();
        let (what, rest) = word.split_once('=').ok_or("takes header=… and body=…")?;
        let name = match what {
            "header" => "client_header_timeout",
            "body" => "client_body_timeout",
            "handshake" => "ssl_handshake_timeout",
            _ => return Err(format!("unknown part '{what}'")),
        };
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        let seconds: u64 = digits.parse().map_err(|_| "takes seconds")?;
        // 0 is no limit; handshakes have one of their own.
        if seconds > 0 && name != "ssl_handshake_timeout" {
            one(this, node, draft, name, &format!("{seconds}s"))?;
        }
    }
    Ok(())
}

fn protocols(this: &mut Translator<'_, '_>, node: &Node, draft: &mut Draft) -> Result<(), String> {
    let words: Vec<String> =
        node.words().map(|word| String::from_utf8_lossy(&word).to_ascii_lowercase()).collect();
    if let Some(other) =
        words.iter().find(|word| !matches!(word.as_str(), "h2" | "h2c" | "http/1.1" | "acme-tls/1"))
    {
        return Err(format!("unknown protocol '{other}'"));
    }
    let has = |name: &str| words.iter().any(|word| word == name);
    let flag = |is_on| if is_on { "on" } else { "off" };
    one(this, node, draft, "http2", flag(has("h2") || has("h2c")))?;
    one(this, node, draft, "http2_upgrade", flag(has("h2c")))
}

/// Types that are compressed on the way out.
fn compression(node: &Node, draft: &mut Draft) {
    let mut words = node.words();
    let filters = words.next().unwrap_or_default().to_ascii_lowercase();
    if filters.split(|&byte| byte == b';').any(|filter| filter == b"deflate" || filter == b"brotli_compress")
    {
        for media in words.map(|media| media.to_ascii_lowercase()) {
            if !draft.compressed.contains(&media) {
                draft.compressed.push(media);
            }
        }
    }
}

/// The types of `conf/mime.types`, which Apache reads where no line names another file.
pub(super) fn types(this: &mut Translator<'_, '_>) {
    if this.types.is_none() && this.files.loads("mime") {
        match this.files.text("conf/mime.types") {
            Ok(text) => this.types = Some(types_of(this, 1, &text)),
            Err(why) => {
                this.notice(1, format!("TypesConfig: {why}: files have no media type by their names"));
            }
        }
    }
}

fn types_of(this: &Translator<'_, '_>, line: u32, text: &[u8]) -> brisk_conf::Directive {
    let at = this.span(line);
    // Of several types for an ending the last one counts.
    let mut by_ending: BTreeMap<Vec<u8>, &[u8]> = BTreeMap::new();
    for line in text.split(|&byte| byte == b'\n') {
        let line = line.split(|&byte| byte == b'#').next().unwrap_or_default();
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let Some(media) = words.next() else { continue };
        words.for_each(|ending| _ = by_ending.insert(ending.to_ascii_lowercase(), media));
    }
    let mut by_type: BTreeMap<&[u8], Vec<Vec<u8>>> = BTreeMap::new();
    for (ending, media) in by_ending {
        by_type.entry(media).or_default().push(ending);
    }
    let entries =
        by_type.iter().map(|(media, endings)| statement(at, &String::from_utf8_lossy(media), endings));
    block(at, "types", [""; 0], entries.collect())
}
