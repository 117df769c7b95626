//! The three codecs, fed by hand, and what configurations are refused.

use super::{plain, records};
use crate::check::{accepted, messages_in_location, refused};
use brisk_gateway::fastcgi::{EndRequest, Kind, ProtocolStatus, write_end, write_stream};
use brisk_upstream::codec::{Codec, Event};
use std::sync::Arc;

/// What a codec makes of bytes that come in pieces, in a short form; ends with `error …`, `end` or `more`.
fn told(codec: &mut dyn Codec, data: &[u8], step: usize, eof: bool) -> Vec<String> {
    let (mut out, mut told) = (Vec::new(), Vec::new());
    codec.begin(&mut out);
    let (mut shown, mut have) = (Vec::new(), 0);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    loop {
        let read = match codec.read(&shown, &mut out) {
            Ok(read) => read,
            Err(error) => {
                told.push(format!("error {}", error.text()));
                return told;
            }
        };
        assert!(read.used <= shown.len());
        let event = match read.event {
            Event::NeedMore if have < data.len() => {
                shown.drain(..read.used);
                let next = data.len().min(have + step);
                shown.extend_from_slice(&data[have..next]);
                have = next;
                continue;
            }
            Event::NeedMore if eof => match codec.eof() {
                Ok(event) => event,
                Err(error) => {
                    told.push(format!("error {}", error.text()));
                    return told;
                }
            },
            event => event,
        };
        match event {
            Event::NeedMore => {
                told.push("more".into());
                return told;
            }
            Event::Head(head) => {
                let fields = head.fields().map(|field| format!("{}={}", text(field.name), text(field.value)));
                told.push(format!("head {} {}", head.status, fields.collect::<Vec<_>>().join(",")));
            }
            Event::Data(range) => {
                assert!(range.end <= read.used && !range.is_empty());
                let piece = text(&shown[range]);
                match told.last_mut() {
                    Some(last) if last.starts_with("data ") => last.push_str(&piece),
                    _ => told.push(format!("data {piece}")),
                }
            }
            Event::Log(_, message) => told.push(text(&message)),
            Event::End => {
                told.push(if codec.persists() { "end, kept".into() } else { "end".into() });
                return told;
            }
            Event::Interim(head) => {
                let fields = head.fields().map(|field| format!("{}={}", text(field.name), text(field.value)));
                told.push(format!("interim {} {}", head.status, fields.collect::<Vec<_>>().join(",")));
            }
            Event::Trailers(_) => unreachable!("no such thing in CGI"),
        }
        shown.drain(..read.used);
    }
}

fn question() -> records::Question {
    records::Question {
        head: b"HEAD".to_vec(),
        keep_conn: false,
        is_head: false,
        cacheable: false,
        head_bytes_max: 64,
        catch: Arc::default(),
    }
}

/// Records from `out:`, `err:`, `outend` and `end`.
fn answer(parts: &[&str]) -> Vec<u8> {
    let mut data = Vec::new();
    for part in parts {
        match part.split_once(':') {
            Some(("out", text)) => write_stream(Kind::Stdout, text.as_bytes(), &mut data),
            Some(("err", text)) => write_stream(Kind::Stderr, text.as_bytes(), &mut data),
            _ if *part == "outend" => data.extend_from_slice(&[1, 6, 0, 1, 0, 0, 0, 0]),
            _ => {
                let end =
                    EndRequest { app_status: 0, protocol_status: ProtocolStatus::Complete, goes_on: false };
                write_end(end, &mut data);
            }
        }
    }
    data
}

#[track_caller]
fn check_records(change: impl Fn(&mut records::Question), parts: &[&str], eof: bool, want: &[&str]) {
    let data = answer(parts);
    for step in [1, 5, 13, data.len().max(1)] {
        let mut question = question();
        change(&mut question);
        let mut codec = records::FastCgi::new(question);
        assert_eq!(told(&mut codec, &data, step, eof), want, "{parts:?} in pieces of {step}");
    }
}

#[test]
fn fastcgi_answers() {
    let plain = |_: &mut records::Question| {};
    let check = |parts: &[&str], want: &[&str]| check_records(plain, parts, false, want);
    check(&["out:A: b\n\nhello", "end"], &["head 200 A=b", "data hello", "end"]);
    check(
        &["out:Sta", "out:tus: 404\r", "out:\n\r\nx", "out:y", "end"],
        &["head 404 Status=404", "data xy", "end"],
    );
    check(&["out:\n\n", "outend"], &["head 200 ", "data \n", "more"]);
    check_records(plain, &["out:\n\n", "outend"], true, &["head 200 ", "data \n", "end"]);
    check(&["out:\nx", "outend", "end"], &["head 200 ", "data x", "end"]);
    check(&["out:A: b\n", "end"], &["error upstream sent unexpected FastCGI record: 3"]);
    check(&["out:A: b\n", "outend"], &["error upstream prematurely closed FastCGI stdout"]);
    check(&["end"], &["error upstream sent unexpected FastCGI record: 3"]);
    check(&["out:A b\n\n"], &["error upstream sent invalid header: \"A\\x20...\""]);
    let long = format!("out:A: {}", "x".repeat(80));
    check(&[&long], &["error upstream sent too big header"]);
    check(&["out:A: b\n"], &["more"]);
    check_records(plain, &["out:A: b\n\nhello"], true, &["head 200 A=b", "data hello", "more"]);
}

#[test]
fn fastcgi_answers_may_have_early_hints_before_them() {
    let plain = |_: &mut records::Question| {};
    let check = |parts: &[&str], want: &[&str]| check_records(plain, parts, false, want);
    let want = ["interim 103 Status=103,Link=x", "head 200 A=b", "data hello", "end"];
    check(&["out:Status: 103\nLink: x\n\n", "out:A: b\n\nhello", "end"], &want);
    check(&["out:Status: 103\nLink: x\n\nA: b\n\nhello", "end"], &want);
    check(&["out:Status: 103\nLink: x\n\nA: ", "out:b\n\nhel", "out:lo", "end"], &want);
    check(
        &["out:Status: 103\n\nStatus: 103\n\n\nx", "end"],
        &["interim 103 Status=103", "interim 103 Status=103", "head 200 ", "data x", "end"],
    );
    check(
        &["out:Status: 103\n\n", "end"],
        &["interim 103 Status=103", "error upstream sent unexpected FastCGI record: 3"],
    );
}

#[test]
fn fastcgi_lengths_are_kept() {
    let plain = |_: &mut records::Question| {};
    let check = |parts: &[&str], want: &[&str]| check_records(plain, parts, false, want);
    let head = "head 200 Content-Length=5";
    check(&["out:Content-Length: 5\n\nhello", "end"], &[head, "data hello", "end"]);
    check(
        &["out:Content-Length: 5\n\nhello", "out:, all", "end"],
        &[head, "data hello", records::TOO_MUCH, "end"],
    );
    check(&["out:Content-Length: 5\n\nhell", "out:o, all"], &[head, "data hello", records::TOO_MUCH, "end"]);
    check(
        &["out:Content-Length: 5\n\nhell", "end"],
        &[head, "data hell", "error upstream prematurely closed FastCGI request"],
    );
    check(
        &["out:Content-Length: 5\n\nhell", "outend"],
        &[head, "data hell", "error upstream prematurely closed FastCGI stdout"],
    );
    check(&["out:Status: 304\n\n", "out:x"], &["head 304 Status=304", records::TOO_MUCH, "end"]);
    check_records(plain, &["out:Content-Length: 5\n\nhello"], true, &[head, "data hello", "end"]);
    check_records(plain, &["out:Content-Length: 5\n\nhell"], true, &[head, "data hell", "more"]);
}

#[test]
fn fastcgi_connections_are_kept_if_asked() {
    let keep = |question: &mut records::Question| question.keep_conn = true;
    check_records(
        keep,
        &["out:\nx", "outend", "err:bye", "end"],
        false,
        &["head 200 ", "data x", "FastCGI sent in stderr: \"bye\"", "end, kept"],
    );
    check_records(keep, &["out:\nx", "outend"], true, &["head 200 ", "data x", "end"]);
    check_records(
        keep,
        &["out:Content-Length: 1\n\nxx", "end"],
        false,
        &["head 200 Content-Length=1", "data x", records::TOO_MUCH, "end"],
    );
}

#[test]
fn fastcgi_answers_to_head() {
    let head = |question: &mut records::Question| question.is_head = true;
    let stored = |question: &mut records::Question| (question.is_head, question.cacheable) = (true, true);
    let line = "head 200 Content-Length=5";
    check_records(head, &["out:Content-Length: 5\n\nhello", "end"], false, &[line, "end"]);
    check_records(stored, &["out:Content-Length: 5\n\nhello", "end"], false, &[line, "data hello", "end"]);
    check_records(stored, &["out:Content-Length: 5\n\n", "end"], false, &[line, "error "]);
    check_records(stored, &["out:\n", "end"], false, &["head 200 ", "end"]);
}

#[test]
fn fastcgi_messages_go_to_the_log() {
    let plain = |_: &mut records::Question| {};
    check_records(
        plain,
        &["err:PHP message: x\n", "err:", "out:\n\ny", "err:.. ", "end"],
        false,
        &[
            "FastCGI sent in stderr: \"PHP message: x\"",
            "head 200 ",
            "data \ny",
            "FastCGI sent in stderr: \"\"",
            "end",
        ],
    );
    let catch = |question: &mut records::Question| question.catch = Arc::new(vec![b"Fatal".to_vec().into()]);
    check_records(
        catch,
        &["err:a Fatal error", "out:\n"],
        false,
        &["FastCGI sent in stderr: \"a Fatal error\"", "error "],
    );
    check_records(
        catch,
        &["out:\n", "err:a Fatal error", "end"],
        false,
        &["head 200 ", "FastCGI sent in stderr: \"a Fatal error\"", "end"],
    );
    // A long one comes in parts, and is never held as a whole.
    let long = format!("err:{}", "x".repeat(5000));
    let mut codec = records::FastCgi::new(question());
    let told = told(&mut codec, &answer(&[&long]), 7, false);
    assert_eq!(told.len(), 4);
    assert!(told.iter().all(|line| line.len() < 2100), "{told:?}");
}

#[test]
fn fastcgi_refuses_what_is_none() {
    let refuse = |bytes: &[u8], want: &str| {
        let mut codec = records::FastCgi::new(question());
        assert_eq!(told(&mut codec, bytes, 3, false), [format!("error {want}")]);
    };
    refuse(b"HTTP/1.1 200 OK\r\n", "upstream sent unsupported FastCGI protocol version: 72");
    refuse(&[1, 4, 0, 1], "upstream sent invalid FastCGI record type: 4");
    refuse(&[1, 6, 0, 7], "upstream sent unexpected FastCGI request id low byte: 7");
}

#[test]
fn fastcgi_bodies_are_records() {
    let mut codec = records::FastCgi::new(question());
    let mut out = Vec::new();
    codec.begin(&mut out);
    codec.body(&vec![b'x'; 40_000], &mut out);
    codec.end(&mut out);
    assert_eq!(out.len(), 4 + 8 + 32_768 + 8 + 7232 + 8);
    assert_eq!(out[4..12], [1, 5, 0, 1, 0x80, 0, 0, 0]);
    assert_eq!(out[out.len() - 8..], [1, 5, 0, 1, 0, 0, 0, 0]);
}

#[track_caller]
fn check_plain(is_head: bool, cacheable: bool, data: &str, eof: bool, want: &[&str]) {
    for step in [1, 5, data.len().max(1)] {
        let question = plain::Question { head: b"HEAD".to_vec(), is_head, cacheable, upgrade: false };
        let mut codec = plain::Plain::new(question);
        assert_eq!(told(&mut codec, data.as_bytes(), step, eof), want, "{data:?} in pieces of {step}");
        assert_eq!(told(&mut codec, data.as_bytes(), step, eof), want, "{data:?} again");
    }
}

#[test]
fn plain_answers_end_with_the_connection() {
    let check = |data, eof, want: &[&str]| check_plain(false, false, data, eof, want);
    check("Status: 201 Made\n\nhello", true, &["head 201 Status=201 Made", "data hello", "end"]);
    check("HTTP/1.0 404 No\r\nA: b\r\n\r\n", true, &["head 404 A=b", "end"]);
    check("A: b\n\nhello", false, &["head 200 A=b", "data hello", "more"]);
    check("A: b\n", true, &["more"]);
    check("A b\n", true, &["error upstream sent invalid header: \"A\\x20...\""]);
    let head = "head 200 Content-Length=5";
    check("Content-Length: 5\n\nhello", false, &[head, "data hello", "end"]);
    // What comes with the rest is told; what comes later is not waited for.
    let question = plain::Question { head: Vec::new(), is_head: false, cacheable: false, upgrade: false };
    let told = told(&mut plain::Plain::new(question), b"Content-Length: 5\n\nhello!", 100, false);
    assert_eq!(told, [head, "data hello", records::TOO_MUCH, "end"]);
    check("Content-Length: 5\n\nhell", true, &[head, "data hell", "more"]);
    check("Status: 204\n\n", false, &["head 204 Status=204", "end"]);
    check_plain(true, false, "Content-Length: 5\n\nhello", false, &[head, "end"]);
    check_plain(true, true, "Content-Length: 5\n\nhello", false, &[head, "data hello", "end"]);
    check_plain(true, true, "Content-Length: 5\n\n", true, &[head, "error "]);
}

#[test]
fn plain_upgrades_become_tunnels() {
    let question = plain::Question { head: Vec::new(), is_head: false, cacheable: false, upgrade: true };
    let mut codec = plain::Plain::new(question);
    let data = b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n";
    assert_eq!(told(&mut codec, data, 3, false), ["head 101 Upgrade=x", "end"]);
    assert!(codec.is_tunnel());
}

#[test]
fn parameters_and_patterns_are_checked() {
    messages_in_location("fastcgi_param A b; fastcgi_param C $uri if_not_empty;", &[]);
    messages_in_location("fastcgi_param A b often;", &["invalid parameter \"often\""]);
    messages_in_location("scgi_param A;", &["invalid number of arguments in \"scgi_param\" directive"]);
    messages_in_location("fastcgi_split_path_info ^(.+)$;", &["pattern \"^(.+)$\" must have 2 captures"]);
    messages_in_location("uwsgi_modifier1 256;", &["value must be between 0 and 255"]);
    messages_in_location("uwsgi_modifier2 5; uwsgi_string x;", &[]);
    refused(&[("fastcgi_pass 127.0.0.1:1;", "\"fastcgi_pass\" directive is not allowed here")]);
    accepted(&[
        "server { location / { fastcgi_pass 127.0.0.1:9000; fastcgi_index i.php; fastcgi_keep_conn on; } }",
        "server { location / { fastcgi_pass unix:/run/php.sock; if ($arg_a) { fastcgi_pass [::1]:1; } } }",
        "server { location / { scgi_pass 127.0.0.1:4000; } location /b { uwsgi_pass uwsgi://127.0.0.1:1; } }",
        "upstream php { server 127.0.0.1:9000; } server { location / { fastcgi_pass php; } }",
        "server { location / { fastcgi_pass $arg_to; fastcgi_catch_stderr PHP; } }",
    ]);
}
