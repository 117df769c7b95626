//! Both sides of a connection: the same events in whatever pieces the bytes come.

use super::*;
use crate::framing::BodyFraming;
use crate::fuzz::{requests_of, responses_of};
use crate::head::{HeadOptions, Version, parse_request};
use crate::response::RequestKind;
use proptest::prelude::*;

/// `requests` in one line each: target, body, bytes received; then how it ends.
fn check_requests(stream: &str, want: &[&str]) {
    for step in [stream.len().max(1), 1, 2, 5] {
        assert_eq!(requests_of(stream.as_bytes(), step), want, "{stream:?} by {step}");
    }
}

fn check_responses(rules: Rules, kind: RequestKind, stream: &str, want: &[&str]) {
    for step in [stream.len().max(1), 1, 2, 5] {
        assert_eq!(responses_of(rules, kind, stream.as_bytes(), step), want, "{stream:?} by {step}");
    }
}

const GET: &str = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n";

#[test]
fn requests_follow_each_other() {
    check_requests(GET, &["/a  0"]);
    check_requests(&GET.repeat(3), &["/a  0", "/a  0", "/a  0"]);
    let length = "POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello";
    check_requests(&format!("{length}\r\n{GET}{length}"), &["/b hello 5", "/a  0", "/b hello 5"]);
    let chunked = "POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n1;a\r\n!\r\n0\r\nX: y\r\n\r\n";
    check_requests(&format!("{chunked}{GET}"), &["/c hi! 26", "/a  0"]);
    check_requests("GET /a HT", &["more"]);
    check_requests(&length[..length.len() - 1], &["/b hell 4 more"]);
}

#[test]
fn what_could_be_read_in_two_ways_ends_the_connection() {
    for head in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Content-Length: 5\r\nContent-Length: 5",
        "Content-Length: +5",
        "Transfer-Encoding: chunked, chunked",
    ] {
        check_requests(&format!("POST / HTTP/1.1\r\nHost: h\r\n{head}\r\n\r\nhello{GET}"), &["400"]);
    }
    let chunked = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
    check_requests(&format!("{chunked}x\r\n{GET}"), &["broken: invalid chunk size"]);
    check_requests(&format!("{GET}\x01"), &["/a  0", "400"]);
}

fn incoming(head: &str, framing: BodyFraming, limit: u64) -> Incoming {
    let mut parsed = crate::RequestHead::default();
    parse_request(head.as_bytes(), &HeadOptions::default(), &mut parsed).unwrap();
    Incoming::new(head.as_bytes(), &parsed, framing, limit)
}

#[test]
fn chunks_are_refused_when_their_size_is_known() {
    let mut body = incoming(GET, BodyFraming::Chunked, 4);
    let mut out = Vec::new();
    assert_eq!(body.take(b"3\r\nabc\r\n", &mut out), Ok(8));
    let error = IncomingError::TooLarge { received: 3, chunk: 2 };
    assert_eq!(body.take(b"2\r\n", &mut out), Err(error), "no byte of it has come");
    assert!(body.is_broken() && !body.is_done());
    assert_eq!(body.take(b"de\r\n0\r\n\r\n", &mut out), Ok(0), "nothing behind it is understood");
    // A known length was compared with the limit by whoever knows the location.
    let mut body = incoming(GET, BodyFraming::Length(6), 4);
    assert_eq!(body.take(b"abcdefGET", &mut out), Ok(6));
    assert!(body.is_done());
}

#[test]
fn a_client_that_waits_is_told_once_and_only_before_it_sends() {
    let head = "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\n\r\n";
    let mut body = incoming(head, BodyFraming::Length(2), 0);
    assert!(body.expects() && body.take_expectation() && !body.take_expectation());
    let mut body = incoming(head, BodyFraming::Length(2), 0);
    assert_eq!(body.take(b"a", &mut Vec::new()), Ok(1));
    assert!(!body.expects(), "it has not waited");
    let old = head.replace("1.1", "1.0");
    assert!(!incoming(&old, BodyFraming::Length(2), 0).expects(), "RFC 9110 §10.1.1");
}

#[test]
fn responses() {
    let check = |stream: &str, want: &[&str]| {
        check_responses(Rules::Strict, RequestKind::Other, stream, want);
        check_responses(Rules::Tolerant, RequestKind::Other, stream, want);
    };
    let length = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    check(length, &["200 persists", "data hello", "end"]);
    check(&length.replace('5', "0"), &["200 persists", "end"]);
    check(
        "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
        &["interim 103", "204 persists", "end"],
    );
    check(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\nX: y\r\n\r\n",
        &["200 persists", "data abc", "trailers 1", "end"],
    );
    check("HTTP/1.1 200 OK\r\n\r\nabc", &["200 closes", "data abc", "closed"]);
    check("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", &["200 closes", "end"]);
    check("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", &["200 closes", "end"]);
    check("HTTP/1.1 101 Switching Protocols\r\n\r\nraw", &["101 closes", "tunnel"]);
    check(&length[..length.len() - 1], &["200 persists", "data hell", "cut short"]);
    check("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx", &["200 persists", "invalid chunk size"]);
    check_responses(
        Rules::Strict,
        RequestKind::Head,
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
        &["200 persists", "end"],
    );
    check_responses(
        Rules::Strict,
        RequestKind::Connect,
        "HTTP/1.1 200 OK\r\n\r\nraw",
        &["200 closes", "tunnel"],
    );
}

/// RFC 9112 §6.3: who only looks may read what who passes it on must refuse.
#[test]
fn tolerance_is_for_those_who_pass_nothing_on() {
    let head = |fields: &str| format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n");
    let both = head("Content-Length: 9\r\nTransfer-Encoding: chunked") + "0\r\n\r\n";
    let same = head("Content-Length: 1\r\nContent-Length: 1") + "a";
    let other = head("Transfer-Encoding: gzip") + "a";
    for (stream, why) in
        [(&both, "\"Content-Length\" and \"Transfer-Encoding\""), (&same, "duplicate"), (&other, "unknown")]
    {
        let found = responses_of(Rules::Strict, RequestKind::Other, stream.as_bytes(), 1);
        assert!(found.len() == 1 && found[0].contains(why), "{found:?}");
    }
    let check =
        |stream: &str, want: &[&str]| check_responses(Rules::Tolerant, RequestKind::Other, stream, want);
    check(&both, &["200 persists", "end"]);
    check(&same, &["200 persists", "data a", "end"]);
    check(&other, &["200 closes", "data a", "closed"]);
    check(&head("Content-Length: 1\r\nContent-Length: 2"), &["upstream sent duplicate header line"]);
}

#[test]
fn a_known_head_is_as_good_as_a_parsed_one() {
    let (head, body) = (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n0\r\n\r\n");
    let mut first = Client::new(Rules::Strict, RequestKind::Other);
    assert_eq!(first.receive(head).unwrap().event, Event::Head);
    let mut second = Client::new(Rules::Strict, RequestKind::Other);
    second.begin_known(first.known().unwrap());
    for client in [&mut first, &mut second] {
        assert!(client.is_in_body());
        assert_eq!(client.receive(body).unwrap(), Received { used: 4, event: Event::Data(3..4) });
        assert_eq!(client.receive(&body[4..]).unwrap(), Received { used: 7, event: Event::End });
        assert!(!client.is_in_body() && client.closed());
    }
}

#[test]
fn how_the_end_of_a_response_is_told() {
    let usual = Response {
        version: Version::Http11,
        to_head: false,
        status: 200,
        has_length: false,
        is_empty: false,
        has_trailers: false,
        may_chunk: true,
    };
    let check = |facts: Response, want| assert_eq!(facts.delimiting(), want, "{facts:?}");
    check(usual, Delimiting::Chunked);
    check(Response { has_length: true, ..usual }, Delimiting::Length);
    check(Response { has_length: true, has_trailers: true, ..usual }, Delimiting::Chunked);
    check(Response { is_empty: true, ..usual }, Delimiting::Length);
    check(Response { may_chunk: false, ..usual }, Delimiting::Close);
    check(Response { version: Version::Http10, ..usual }, Delimiting::Close);
    check(
        Response { version: Version::Http10, has_trailers: true, has_length: true, ..usual },
        Delimiting::Length,
    );
    check(Response { to_head: true, ..usual }, Delimiting::Length);
    check(Response { status: 304, has_trailers: true, ..usual }, Delimiting::Length);
}

proptest! {
    /// What is written in any chunks, behind any requests, is received as it was.
    #[test]
    fn pipelined_bodies_arrive(
        bodies in proptest::collection::vec((proptest::collection::vec(1u8..=255, 0..40), any::<bool>(), 1usize..9), 1..5),
        step in 1usize..20,
    ) {
        let (mut stream, mut want) = (Vec::new(), Vec::new());
        for (body, is_chunked, chunk) in &bodies {
            let start = stream.len();
            stream.extend_from_slice(b"POST /x HTTP/1.1\r\nHost: h\r\n");
            if *is_chunked {
                stream.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
            } else {
                stream.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
            }
            let head = stream.len() - start;
            if *is_chunked {
                for piece in body.chunks(*chunk) {
                    crate::chunked::write_chunk_head(piece.len() as u64, &mut stream);
                    stream.extend_from_slice(piece);
                    stream.extend_from_slice(crate::chunked::CHUNK_END);
                }
                stream.extend_from_slice(crate::chunked::LAST_CHUNK);
            } else {
                stream.extend_from_slice(body);
            }
            let received = stream.len() - start - head;
            want.push(format!("/x {} {received}", body.escape_ascii()));
        }
        prop_assert_eq!(requests_of(&stream, step), want);
    }
}
