//! Invariants of the parsers as plain functions over arbitrary bytes: they panic if one is broken.
//!
//! `crates/fuzz` replays the corpora through them and explores from there.

use crate::chunked::{
    ChunkError, ChunkEvent, ChunkLimits, ChunkedDecoder, write_chunk_head, write_last_chunk,
};
use crate::framing::{BodyFraming, request_framing, validate_host};
use crate::h1::{Client, Event, Incoming, IncomingError, Rules};
use crate::head::{HeadError, HeadOptions, HeaderId, Parsed, RequestHead, Version, parse_request};
use crate::response::{
    CgiStart, RequestKind, ResponseError, ResponseHead, cgi_framing, parse_cgi, parse_response,
    response_framing,
};
use crate::uri::{
    Escape, Target, TargetForm, Unescape, UriOptions, escape, parse_target, unescape, unsafe_uri,
};

/// Small limits, so that short inputs meet them.
const TIGHT: HeadOptions = HeadOptions {
    ignore_invalid_headers: false,
    underscores_in_headers: true,
    first_buffer: 24,
    line_max: 48,
    buffers_max: 2,
    headers_max: 5,
};

/// Requests and responses: the same result whether the bytes come at once or in pieces, and nothing in the result
/// that could be read differently by somebody else.
pub fn fuzz_head(data: &[u8]) {
    for opts in [HeadOptions::default(), TIGHT] {
        let mut head = RequestHead::default();
        let whole = parse_request(data, &opts, &mut head);
        if whole == Ok(Parsed::Complete) {
            check_request(data, &head, &opts);
        }
        for step in [1, 2, 7] {
            let mut pieces = RequestHead::default();
            let result = in_pieces(data, step, |buf| parse_request(buf, &opts, &mut pieces));
            assert_eq!(result.as_ref().map_err(HeadError::status), whole.as_ref().map_err(HeadError::status));
            if result == Ok(Parsed::Complete) {
                assert_eq!(format!("{pieces:?}"), format!("{head:?}"));
            }
        }
    }
    check_response(data);
}

/// Feeds growing prefixes until there is a result other than `Partial`, or no more data.
fn in_pieces<E>(
    data: &[u8],
    step: usize,
    mut parse: impl FnMut(&[u8]) -> Result<Parsed, E>,
) -> Result<Parsed, E> {
    let mut len = 0;
    loop {
        let result = parse(&data[..len]);
        if len == data.len() || !matches!(result, Ok(Parsed::Partial)) {
            return result;
        }
        len = (len + step).min(data.len());
    }
}

fn check_request(data: &[u8], head: &RequestHead, opts: &HeadOptions) {
    assert!(head.len <= data.len());
    let line = head.request_line.of(data);
    assert!(!line.iter().any(|b| matches!(b, b'\r' | b'\n' | 0)));
    assert!(!head.target.is_empty() && !head.target.of(data).contains(&b' '));
    assert!(head.headers.len() <= opts.headers_max);
    assert!(head.version != Version::Http09 || head.headers.is_empty());
    check_fields(data, &head.headers);
    let framing = request_framing(data, head);
    match framing {
        Ok(BodyFraming::Chunked) => {
            assert!(!head.has(HeaderId::ContentLength) && head.version == Version::Http11);
        }
        Ok(BodyFraming::Length(_)) => assert_eq!(head.all(HeaderId::ContentLength).count(), 1),
        Ok(BodyFraming::None) => {
            assert!(!head.has(HeaderId::ContentLength) && !head.has(HeaderId::TransferEncoding));
        }
        Err(error) => assert!(matches!(error.status(), 400 | 501)),
    }
    if let Some(host) = head.find(HeaderId::Host)
        && let Ok(host) = validate_host(host.value.of(data))
    {
        assert!(!host.name.is_empty() && !host.name.iter().any(|b| b"/\\ \"<>@".contains(b) || *b < b' '));
    }
    fuzz_uri(head.target.of(data));
}

fn check_fields(data: &[u8], fields: &[crate::Header]) {
    for field in fields {
        let (name, value) = (field.name.of(data), field.value.of(data));
        assert!(!name.is_empty() && !name.iter().any(|&b| b <= b' ' || b == b':' || b == 0x7f));
        assert!(!value.iter().any(|b| matches!(b, b'\r' | b'\n' | 0)));
        let edges = [value.first(), value.last()];
        assert!(!edges.contains(&Some(&b' ')) && !edges.contains(&Some(&b'\t')));
        assert_eq!(field.id, HeaderId::from_name(name));
    }
}

fn check_response(data: &[u8]) {
    let mut head = ResponseHead::default();
    let whole = parse_response(data, &mut head);
    let mut pieces = ResponseHead::default();
    let result = in_pieces(data, 1, |buf| parse_response(buf, &mut pieces));
    let kind =
        |result: &Result<Parsed, ResponseError>| result.as_ref().map_err(std::mem::discriminant).copied();
    assert_eq!(kind(&result), kind(&whole));
    if whole == Ok(Parsed::Complete) {
        assert_eq!(format!("{pieces:?}"), format!("{head:?}"));
        assert!(head.len <= data.len() && head.status <= 999);
        check_fields(data, &head.headers);
        let _ = response_framing(data, &head, RequestKind::Other);
    }
}

/// Heads of gateways: pieces do not matter, and there is always a status.
pub fn fuzz_cgi_head(data: &[u8]) {
    for start in [CgiStart::Fields, CgiStart::StatusLine] {
        let mut head = ResponseHead::default();
        let whole = parse_cgi(data, &mut head, start);
        let mut pieces = ResponseHead::default();
        let result = in_pieces(data, 1, |buf| parse_cgi(buf, &mut pieces, start));
        let kind =
            |result: &Result<Parsed, ResponseError>| result.as_ref().map_err(std::mem::discriminant).copied();
        assert_eq!(kind(&result), kind(&whole));
        if whole != Ok(Parsed::Complete) {
            continue;
        }
        assert_eq!(format!("{pieces:?}"), format!("{head:?}"));
        assert!(head.len <= data.len() && head.status <= 999);
        assert!(head.status_text.is_empty() || head.status_text.end as usize <= head.len);
        check_fields(data, &head.headers);
        let _ = cgi_framing(data, &head, RequestKind::Other);
    }
}

/// Chunked bodies: pieces do not matter, no byte of framing becomes data, and what was decoded can be encoded again.
pub fn fuzz_chunked(data: &[u8]) {
    let limits =
        ChunkLimits { extension_bytes_max: 32, trailer_bytes_max: 64, trailers_max: 3, padded_sizes: false };
    let whole = decode(data, data.len().max(1), limits);
    for step in [1, 3] {
        assert_eq!(decode(data, step, limits), whole);
    }
    let Ok(whole) = whole else { return };
    assert!(whole.body.len() <= data.len() && whole.consumed <= data.len());
    if !whole.done {
        assert_eq!(whole.consumed, data.len());
        return;
    }
    let mut again = Vec::new();
    for piece in whole.body.chunks(5) {
        write_chunk_head(piece.len() as u64, &mut again);
        again.extend_from_slice(piece);
        again.extend_from_slice(crate::chunked::CHUNK_END);
    }
    write_last_chunk(whole.trailers.iter().map(|(n, v)| (n.as_slice(), v.as_slice())), &mut again);
    let len = again.len();
    again.extend_from_slice(b"GET / HTTP/1.1\r\n");
    let limits = ChunkLimits { trailer_bytes_max: 256, ..limits };
    let decoded = decode(&again, 2, limits).expect("what we encode is valid");
    assert_eq!(decoded, Decoded { consumed: len, ..whole });
}

#[derive(Debug, PartialEq, Eq)]
struct Decoded {
    body: Vec<u8>,
    trailers: Vec<(Vec<u8>, Vec<u8>)>,
    consumed: usize,
    done: bool,
}

fn decode(data: &[u8], step: usize, limits: ChunkLimits) -> Result<Decoded, ChunkError> {
    let mut decoder = ChunkedDecoder::new(limits);
    let mut body = Vec::new();
    let mut at = 0;
    while at < data.len() && !decoder.is_done() {
        let piece = &data[at..data.len().min(at + step)];
        let (event, used) = decoder.next(piece)?;
        assert!(used <= piece.len() && used > 0);
        match event {
            ChunkEvent::Data(range) => {
                assert!(!range.is_empty() && range.end == used);
                body.extend_from_slice(&piece[range]);
            }
            ChunkEvent::NeedMore => assert_eq!(used, piece.len()),
            ChunkEvent::End => assert!(decoder.is_done()),
        }
        at += used;
    }
    let (fields, bytes) = decoder.trailers();
    let trailers = fields.iter().map(|f| (f.name.of(bytes).to_vec(), f.value.of(bytes).to_vec())).collect();
    Ok(Decoded { body, trailers, consumed: at, done: decoder.is_done() })
}

/// What a server receives on one connection, given so many bytes at a time: per request its target, its body and the bytes
/// received for that; then how it ends, if not between two requests.
pub(crate) fn requests_of(data: &[u8], step: usize) -> Vec<String> {
    let (mut found, mut buf, mut fed) = (Vec::new(), Vec::new(), 0);
    let mut feed = |buf: &mut Vec<u8>| {
        let next = data.len().min(fed + step);
        buf.extend_from_slice(&data[fed..next]);
        std::mem::replace(&mut fed, next) < next
    };
    loop {
        let mut head = RequestHead::default();
        loop {
            match parse_request(&buf, &HeadOptions::default(), &mut head) {
                Ok(Parsed::Complete) => break,
                Ok(Parsed::Partial) if feed(&mut buf) => {}
                Ok(Parsed::Partial) => {
                    if !buf.iter().all(|b| matches!(b, b'\r' | b'\n')) {
                        found.push("more".into());
                    }
                    return found;
                }
                Err(error) => {
                    found.push(error.status().to_string());
                    return found;
                }
            }
        }
        let framing = match request_framing(&buf, &head) {
            Ok(framing) => framing,
            Err(error) => {
                found.push(error.status().to_string());
                return found;
            }
        };
        let mut incoming = Incoming::new(&buf, &head, framing, 1 << 20);
        let target = String::from_utf8_lossy(head.target.of(&buf)).into_owned();
        buf.drain(..head.len);
        let mut body = Vec::new();
        loop {
            match incoming.take(&buf, &mut body) {
                Ok(used) => drop(buf.drain(..used)),
                Err(IncomingError::Chunk(error)) => {
                    found.push(format!("broken: {error}"));
                    return found;
                }
                Err(IncomingError::TooLarge { .. }) => {
                    found.push("too large".into());
                    return found;
                }
            }
            if incoming.is_done() || !feed(&mut buf) {
                break;
            }
        }
        let end = if incoming.is_done() { "" } else { " more" };
        found.push(format!("{target} {} {}{end}", body.escape_ascii(), incoming.received()));
        if !incoming.is_done() {
            return found;
        }
    }
}

/// What a client receives of one response, given so many bytes at a time; data that follows data is one.
pub(crate) fn responses_of(rules: Rules, kind: RequestKind, data: &[u8], step: usize) -> Vec<String> {
    let (mut client, mut found, mut body) = (Client::new(rules, kind), Vec::new(), Vec::new());
    let (mut at, mut end) = (0, 0);
    loop {
        let received = match client.receive(&data[at..end]) {
            Ok(received) => received,
            Err(error) => {
                push_data(&mut found, &mut body);
                found.push(error.to_string());
                return found;
            }
        };
        let from = at;
        at += received.used;
        assert!(at <= end, "no more is used than was given");
        match received.event {
            Event::NeedMore if client.is_tunnel() => {
                found.push("tunnel".into());
                return found;
            }
            Event::NeedMore if end < data.len() => end = data.len().min(end + step),
            Event::NeedMore => {
                push_data(&mut found, &mut body);
                found.push(if client.closed() { "closed" } else { "cut short" }.into());
                return found;
            }
            Event::Interim => found.push(format!("interim {}", client.head().status)),
            Event::Head => {
                let known = client.known().expect("a head was received");
                found.push(format!(
                    "{} {}",
                    known.status,
                    if known.persists { "persists" } else { "closes" }
                ));
            }
            Event::Data(range) => body.extend_from_slice(&data[from..][range]),
            Event::Trailers => {
                push_data(&mut found, &mut body);
                found.push(format!("trailers {}", client.trailers().0.len()));
            }
            Event::End => {
                push_data(&mut found, &mut body);
                found.push("end".into());
                return found;
            }
        }
    }
}

fn push_data(found: &mut Vec<String>, body: &mut Vec<u8>) {
    if !body.is_empty() {
        found.push(format!("data {}", std::mem::take(body).escape_ascii()));
    }
}

/// Both sides of a connection: pieces do not matter.
pub fn fuzz_h1(data: &[u8]) {
    let whole = requests_of(data, data.len().max(1));
    for step in [1, 3, 7] {
        assert_eq!(requests_of(data, step), whole, "requests, {step} bytes at a time");
    }
    for rules in [Rules::Strict, Rules::Tolerant] {
        for kind in [RequestKind::Other, RequestKind::Head, RequestKind::Connect] {
            let whole = responses_of(rules, kind, data, data.len().max(1));
            for step in [1, 3, 7] {
                let found = responses_of(rules, kind, data, step);
                // Of a wrong head the line at fault is shown as far as it has come.
                assert_eq!(
                    found.len(),
                    whole.len(),
                    "responses, {step} bytes at a time: {found:?}, {whole:?}"
                );
                let certain = whole.len().saturating_sub(1);
                assert_eq!(found[..certain], whole[..certain], "responses, {step} bytes at a time");
            }
        }
    }
}

/// Targets: the path never leaves the root and is a fixed point of normalisation.
pub fn fuzz_uri(data: &[u8]) {
    let mut target = Target::default();
    for merge_slashes in [true, false] {
        for form in [TargetForm::Any, TargetForm::Origin, TargetForm::Authority] {
            let opts = UriOptions { merge_slashes, form, asterisk: false };
            if parse_target(data, opts, &mut target).is_ok() {
                check_target(data, &target, opts);
            }
        }
    }
    if let Ok(uri) = unsafe_uri(data) {
        assert!(!uri.path.is_empty() && !uri.path.contains(&0));
        assert!(uri.path.split(|&b| b == b'/').all(|segment| segment != b".."));
    }
    for kind in [Escape::Uri, Escape::Args, Escape::UriComponent, Escape::Html, Escape::MemcachedKey] {
        let (mut escaped, mut back) = (Vec::new(), Vec::new());
        escape(kind, data, &mut escaped);
        unescape(Unescape::All, &escaped, &mut back);
        assert_eq!(back, data);
    }
    let mut redirect = Vec::new();
    assert!(unescape(Unescape::Redirect, data, &mut redirect) <= data.len());
}

fn check_target(data: &[u8], target: &Target, opts: UriOptions) {
    let path = &target.path;
    assert!(path.starts_with(b"/") && !path.contains(&0));
    assert!(path[1..].split(|&b| b == b'/').all(|segment| segment != b".." && segment != b"."));
    assert!(!opts.merge_slashes || !path.windows(2).any(|pair| pair == b"//"));
    if let Some(ext) = target.ext {
        assert!(path[ext.start as usize - 1] == b'.' && ext.end as usize == path.len());
        assert!(!ext.of(path).contains(&b'/') && !ext.of(path).contains(&b'.'));
    }
    assert!(!target.args.of(data).contains(&b'#') && (target.has_args || target.args.is_empty()));
    assert!(target.unparsed(data).starts_with(b"/") || target.asterisk);
    if let Some(host) = target.host
        && let Ok(host) = validate_host(host.of(data))
    {
        assert!(host.name.iter().all(|b| !b.is_ascii_uppercase()));
    }
    let mut escaped = Vec::new();
    escape(Escape::Uri, path, &mut escaped);
    let mut again = Target::default();
    parse_target(&escaped, UriOptions { form: TargetForm::Origin, ..opts }, &mut again)
        .expect("an escaped path is a valid target");
    assert_eq!(&again.path, path);
}
