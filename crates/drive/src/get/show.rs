//! An exchange as text.

use super::cli::Args;
use crate::caching;
use crate::client::{Exchange, Note, Request, decode};
use crate::limits::{PRETTY_CHARS_MAX, SHOW_LINES_MAX};
use brisk_h2::frame::{FrameHead, flag, kind};
use brisk_load::output;
use std::fmt::Write as _;
use std::time::Duration;

/// What was seen on the wire.
#[derive(Default)]
pub(super) struct Wire {
    head: String,
    chunks: Vec<u64>,
    chunks_all: u64,
    frames: Vec<String>,
    frames_all: u64,
}

impl Wire {
    pub(super) fn note(&mut self, note: &Note<'_>) {
        match note {
            Note::RequestHead(text) => (*text).clone_into(&mut self.head),
            Note::Chunk(size) => {
                self.chunks_all += 1;
                if self.chunks.len() < SHOW_LINES_MAX {
                    self.chunks.push(*size);
                }
            }
            Note::Frame { sent, head, payload } => {
                self.frames_all += 1;
                if self.frames.len() < SHOW_LINES_MAX {
                    self.frames.push(frame(*sent, *head, payload));
                }
            }
        }
    }
}

/// One frame in one line.
fn frame(sent: bool, head: FrameHead, payload: &[u8]) -> String {
    let name = match head.kind {
        kind::DATA => "DATA",
        kind::HEADERS => "HEADERS",
        kind::PRIORITY => "PRIORITY",
        kind::RST_STREAM => "RST_STREAM",
        kind::SETTINGS => "SETTINGS",
        kind::PUSH_PROMISE => "PUSH_PROMISE",
        kind::PING => "PING",
        kind::GOAWAY => "GOAWAY",
        kind::WINDOW_UPDATE => "WINDOW_UPDATE",
        kind::CONTINUATION => "CONTINUATION",
        kind::PRIORITY_UPDATE => "PRIORITY_UPDATE",
        _ => "unknown",
    };
    let word =
        |at: usize| payload.get(at..at + 4).map_or(0, |b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]));
    let mut more = String::new();
    match head.kind {
        kind::SETTINGS if head.has(flag::ACK) => more.push_str(" ACK"),
        kind::SETTINGS => {
            for setting in payload.as_chunks::<6>().0 {
                let id = u16::from_be_bytes([setting[0], setting[1]]);
                let value = u32::from_be_bytes([setting[2], setting[3], setting[4], setting[5]]);
                let _ = write!(more, " {}={value}", setting_name(id));
            }
        }
        kind::WINDOW_UPDATE => drop(write!(more, " +{}", word(0))),
        kind::RST_STREAM => drop(write!(more, " {}", brisk_h2::ErrorCode(word(0)).name())),
        kind::GOAWAY => drop(write!(more, " last={} {}", word(0), brisk_h2::ErrorCode(word(4)).name())),
        kind::PING if head.has(flag::ACK) => more.push_str(" ACK"),
        kind::DATA | kind::HEADERS if head.has(flag::END_STREAM) => more.push_str(" END_STREAM"),
        _ => {}
    }
    let arrow = if sent { '>' } else { '<' };
    format!("{arrow} {name} stream {} length {}{more}", head.stream, head.len)
}

fn setting_name(id: u16) -> String {
    match id {
        1 => "HEADER_TABLE_SIZE".to_owned(),
        2 => "ENABLE_PUSH".to_owned(),
        3 => "MAX_CONCURRENT_STREAMS".to_owned(),
        4 => "INITIAL_WINDOW_SIZE".to_owned(),
        5 => "MAX_FRAME_SIZE".to_owned(),
        6 => "MAX_HEADER_LIST_SIZE".to_owned(),
        8 => "ENABLE_CONNECT_PROTOCOL".to_owned(),
        9 => "NO_RFC7540_PRIORITIES".to_owned(),
        other => other.to_string(),
    }
}

/// What was sent, before there was an answer.
pub(super) fn sent(wire: &Wire) -> Vec<u8> {
    let mut out = String::new();
    for line in wire.head.lines().filter(|line| !line.is_empty()) {
        let _ = writeln!(out, "> {}", safe(line));
    }
    for line in &wire.frames {
        let _ = writeln!(out, "* {line}");
    }
    out.into_bytes()
}

/// Everything but the body of the last exchange.
pub(super) fn exchange(
    request: &Request,
    exchange: &Exchange,
    wire: &Wire,
    args: &Args,
    is_last: bool,
) -> Vec<u8> {
    if args.only_body {
        return Vec::new();
    }
    let mut out = String::new();
    let _ = writeln!(out, "* {} ({})", request.url, exchange.peer);
    connection(&mut out, request, exchange, args);
    out += "\n";
    for line in wire.head.lines().filter(|line| !line.is_empty()) {
        let _ = writeln!(out, "> {}", safe(line));
    }
    if !request.body.is_empty() {
        let _ = writeln!(out, "> ({} bytes of body)", request.body.len());
    }
    out += "\n";
    for (status, fields) in &exchange.interim {
        let _ = writeln!(out, "< {} {status}", exchange.version);
        head(&mut out, &fields.0);
    }
    let _ = writeln!(out, "< {} {} {}", exchange.version, exchange.status, safe(&exchange.reason));
    head(&mut out, &exchange.fields.0);
    if !exchange.trailers.0.is_empty() {
        out += "< (trailers)\n";
        head(&mut out, &exchange.trailers.0);
    }
    out += "\n";
    body_facts(&mut out, exchange, wire, args);
    let _ = writeln!(out, "* cache: {}", caching::judge(exchange.status, &exchange.fields).text());
    if let Some(reported) = caching::reported(&exchange.fields) {
        let _ = writeln!(out, "* a cache on the way says {}", safe(&reported));
    }
    let _ = writeln!(out, "* {}", http3(exchange));
    times(&mut out, exchange);
    if is_last || !out.ends_with("\n\n") {
        out += "\n";
    }
    out.into_bytes()
}

fn head(out: &mut String, fields: &[(String, String)]) {
    for (name, value) in fields {
        let _ = writeln!(out, "< {}: {}", safe(name), safe(value));
    }
}

/// One line of what a stranger says.
fn safe(text: &str) -> String {
    output::visible(text).replace(['\n', '\t'], "\u{fffd}")
}

fn connection(out: &mut String, request: &Request, exchange: &Exchange, args: &Args) {
    let phases = &exchange.phases;
    if exchange.reused {
        *out += "* the connection was open already\n";
        return;
    }
    let step = |from: Option<Duration>, to: Option<Duration>| {
        to.map(|to| millis(to.saturating_sub(from.unwrap_or_default())))
    };
    if let Some(time) = step(None, phases.dns) {
        let _ = writeln!(out, "* DNS      {time}  {} is {}", request.url.origin.host(), exchange.peer);
    }
    if let Some(time) = step(phases.dns, phases.connect) {
        let _ = writeln!(out, "* connect  {time}");
    }
    let before = phases.connect.or(phases.dns);
    if let (Some(time), Some(facts)) = (step(before, phases.tls), &exchange.tls) {
        let layer = if exchange.version == "HTTP/3" { "QUIC" } else { "TLS " };
        let agreed = [facts.version, facts.cipher, facts.group].map(str::trim).join(" ");
        let agreed = agreed.trim_end();
        let resumed = match facts.early {
            Some(true) => ", the request went with the first packets (0-RTT) and was taken",
            Some(false) => {
                ", the request went with the first packets (0-RTT); it was not taken and was sent again"
            }
            None if args.options.early => ", no 0-RTT: the server has given no session that allows it",
            None if facts.resumed => ", resumed",
            None => "",
        };
        let chain: Vec<String> = facts.chain.iter().map(usize::to_string).collect();
        let _ = writeln!(
            out,
            "* {layer}     {time}  {agreed}{resumed}; certificates of {} bytes",
            chain.join(" + ")
        );
        let _ = match &facts.alpn {
            Some(alpn) => writeln!(out, "* ALPN     the server chose {}", safe(alpn)),
            None => writeln!(out, "* ALPN     the server chose nothing: HTTP/1.1"),
        };
    }
}

fn body_facts(out: &mut String, exchange: &Exchange, wire: &Wire, args: &Args) {
    let coding = exchange.fields.get("content-encoding");
    let _ = write!(out, "* body: {} bytes", exchange.body_bytes);
    if let Some(coding) = coding {
        let _ = write!(out, ", {}", safe(coding));
        match decode::decode(&exchange.body, coding, 1 << 30) {
            Ok(Some(plain)) => {
                let share = 100.0 * exchange.body_bytes as f64 / (plain.len().max(1)) as f64;
                let _ = write!(out, " of {} bytes ({share:.0} %)", plain.len());
            }
            Ok(None) => *out += " (not a coding that is known here)",
            Err(error) => drop(write!(out, " ({error})")),
        }
    }
    let _ = writeln!(out, "; head: {} bytes", exchange.head_bytes);
    if wire.chunks_all > 0 {
        let shown = if args.frames { wire.chunks.len() } else { wire.chunks.len().min(16) };
        let list: Vec<String> = wire.chunks[..shown].iter().map(u64::to_string).collect();
        let more = if wire.chunks_all > shown as u64 { " …" } else { "" };
        let _ = writeln!(out, "* {} chunks: {}{more}", wire.chunks_all, list.join(" "));
    }
    if wire.frames_all > 0 {
        if args.frames {
            for line in &wire.frames {
                let _ = writeln!(out, "* {line}");
            }
        }
        if !args.frames || wire.frames_all > wire.frames.len() as u64 {
            let _ =
                writeln!(out, "* {} HTTP/2 frames in both directions (--frames shows them)", wire.frames_all);
        }
    }
}

fn http3(exchange: &Exchange) -> String {
    if exchange.version == "HTTP/3" {
        return "HTTP/3: used".to_owned();
    }
    let offer = exchange.fields.all("alt-svc").find(|value| value.contains("h3"));
    match (offer, exchange.tls.is_some()) {
        (Some(offer), _) => {
            format!("HTTP/3: offered (Alt-Svc: {}), not used: it was asked over TCP (--http3)", safe(offer))
        }
        (None, true) => "HTTP/3: not used, the server does not offer it (no Alt-Svc with h3)".to_owned(),
        (None, false) => "HTTP/3: not used, it needs https".to_owned(),
    }
}

fn times(out: &mut String, exchange: &Exchange) {
    let phases = &exchange.phases;
    let ready = phases.tls.or(phases.connect).or(phases.dns).unwrap_or_default();
    let since = |from: Option<Duration>, to: Option<Duration>| {
        millis(to.unwrap_or_default().saturating_sub(from.unwrap_or_default()))
    };
    let _ = writeln!(
        out,
        "* times: ready {}, request sent {}, first byte {}, body {}, in all {}",
        millis(ready),
        since(Some(ready), phases.sent),
        since(phases.sent, phases.first_byte),
        since(phases.first_byte, phases.done),
        millis(phases.done.unwrap_or_default())
    );
}

fn millis(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1e3)
}

/// The body as it is to be shown.
pub(super) fn body(exchange: &Exchange, args: &Args) -> Result<Vec<u8>, String> {
    if args.raw {
        return Ok(exchange.body.clone());
    }
    let coding = exchange.fields.get("content-encoding").unwrap_or("identity");
    let plain = decode::decode(&exchange.body, coding, 1 << 30)?.unwrap_or_else(|| exchange.body.clone());
    if !args.pretty || args.output.is_some() || args.only_body {
        return Ok(plain);
    }
    let mut text = match serde_json::from_slice::<serde_json::Value>(&plain) {
        Ok(json) => serde_json::to_string_pretty(&json).map_err(|error| error.to_string())?,
        Err(_) => match String::from_utf8(plain) {
            Ok(text) => text.chars().filter(|&c| !c.is_control() || matches!(c, '\n' | '\t')).collect(),
            Err(bytes) => format!("({} bytes that are not text; -o FILE keeps them)", bytes.as_bytes().len()),
        },
    };
    if let Some((at, _)) = text.char_indices().nth(PRETTY_CHARS_MAX) {
        let left_out = text.len() - at;
        text.truncate(at);
        let _ = write!(text, "\n… ({left_out} bytes more; --body shows all)");
    }
    text.push('\n');
    Ok(text.into_bytes())
}
