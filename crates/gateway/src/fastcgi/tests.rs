//! Both ends talk to each other, and each alone to what no peer should send.

use super::*;
use crate::Params;
use proptest::prelude::*;

fn records(parts: &[(u8, &[u8], u8)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (kind, content, padding) in parts {
        let [high, low] = (content.len() as u16).to_be_bytes();
        out.extend_from_slice(&[1, *kind, 0, 1, high, low, *padding, 0]);
        out.extend_from_slice(content);
        out.resize(out.len() + usize::from(*padding), b'p');
    }
    out
}

/// Events in a short form, and the error that ended them.
fn events(data: &[u8], step: usize) -> (Vec<String>, Option<String>) {
    let (mut demux, mut out, mut at) = (Demux::default(), Vec::new(), 0);
    while at < data.len() && !demux.is_done() {
        let piece = &data[at..data.len().min(at + step)];
        let (event, used) = match demux.next(piece) {
            Ok(done) => done,
            Err(error) => return (out, Some(error.to_string())),
        };
        let text = |range: std::ops::Range<usize>| String::from_utf8_lossy(&piece[range]).into_owned();
        match event {
            Event::NeedMore => {}
            Event::Stdout(range) => out.push(format!("out {}", text(range))),
            Event::StdoutEnd => out.push("out end".into()),
            Event::Stderr { text: range, complete } => {
                out.push(format!("err {}{}", text(range), if complete { "." } else { "" }));
            }
            Event::End(end) => out.push(format!("end {} {:?}", end.app_status, end.protocol_status)),
        }
        at += used;
    }
    (out, None)
}

#[test]
fn an_answer_is_told_apart() {
    let data = records(&[
        (7, b"warning", 1),
        (6, b"Status: 200\n\n", 3),
        (7, b"", 0),
        (6, b"hello", 0),
        (6, b"", 8),
        (3, &[0, 0, 1, 2, 0, 0, 0, 0], 0),
        (6, b"not of this request", 0),
    ]);
    let want = ["err warning.", "out Status: 200\n\n", "out hello", "out end", "end 258 Complete"];
    assert_eq!(events(&data, data.len()).0, want);
    let (pieces, error) = events(&data, 1);
    assert_eq!((pieces.last().map(String::as_str), error), (Some("end 258 Complete"), None));
    assert_eq!(pieces.iter().filter(|event| event.starts_with("err")).count(), 7);
    assert_eq!(pieces.iter().filter(|event| event.ends_with('.')).count(), 1);
}

#[test]
fn end_request_of_any_size_is_the_end() {
    let check = |content: &[u8], want: &str| {
        for padding in [0, 200] {
            let data = records(&[(3, content, padding)]);
            for step in [1, 5, 300] {
                assert_eq!(events(&data, step).0, [want], "{content:?}");
            }
        }
    };
    check(b"", "end 0 Complete");
    check(&[0, 0, 0, 9, 2], "end 9 Overloaded");
    check(&[0, 0, 0, 0, 1, 0, 0, 0], "end 0 CannotMultiplex");
    check(&[0, 0, 0, 0, 3, 0, 0, 0, 9, 9, 9], "end 0 UnknownRole");
    check(&[0, 0, 0, 0, 77], "end 0 Other(77)");
}

#[test]
fn a_broken_peer_is_known_by_its_first_wrong_byte() {
    let check = |bytes: &[u8], want: &str| {
        assert_eq!(events(bytes, 9).1.as_deref(), Some(want), "{bytes:?}");
    };
    check(b"HTTP/1.1", "upstream sent unsupported FastCGI protocol version: 72");
    check(&[0], "upstream sent unsupported FastCGI protocol version: 0");
    check(&[1, 5], "upstream sent invalid FastCGI record type: 5");
    check(&[1, 0], "upstream sent invalid FastCGI record type: 0");
    check(&[1, 10], "upstream sent invalid FastCGI record type: 10");
    check(&[1, 255], "upstream sent invalid FastCGI record type: 255");
    check(&[1, 6, 1], "upstream sent unexpected FastCGI request id high byte: 1");
    check(&[1, 6, 0, 2], "upstream sent unexpected FastCGI request id low byte: 2");
    check(&[1, 3, 0, 0], "upstream sent unexpected FastCGI request id low byte: 0");
}

#[test]
fn a_request_is_written_as_specified() {
    let mut out = Vec::new();
    let mut writer = RequestWriter::new(true, &mut out);
    writer.pair(b"A", &[b"b", b"c"]);
    writer.pair(b"LONG", &[&[b'x'; 128]]);
    assert_eq!(writer.finish(), Ok(()));
    let mut pairs = b"\x01\x02Abc\x04\x80\x00\x00\x80LONG".to_vec();
    pairs.extend_from_slice(&[b'x'; 128]);
    let mut want = records(&[(1, &[0, 1, 1, 0, 0, 0, 0, 0], 0), (4, &pairs, 2), (4, b"", 0)]);
    let padding = want.len() - 8 - 2..want.len() - 8;
    want[padding].fill(0);
    assert_eq!(out, want);

    out.clear();
    assert_eq!(RequestWriter::new(false, &mut out).finish(), Ok(()));
    assert_eq!(out, records(&[(1, &[0, 1, 0, 0, 0, 0, 0, 0], 0), (4, b"", 0)]));
    assert_eq!(stdin_head(13).1, 3);
    assert_eq!(stdin_end(), *records(&[(5, b"", 0)]));
}

/// What the peer got, in a short form.
fn served(data: &[u8], params_bytes_max: usize) -> Result<Vec<String>, RecordError> {
    let (mut peer, mut out, mut at) = (Peer::new(params_bytes_max), Vec::new(), 0);
    while at < data.len() {
        let (event, used) = peer.next(&data[at..])?;
        match event {
            PeerEvent::NeedMore => {}
            PeerEvent::Begin { role, keep_conn } => out.push(format!("begin {role} {keep_conn}")),
            PeerEvent::Params(params) => out.push(format!("params {}", Pairs(&params).count())),
            PeerEvent::Stdin(range) => out.push(format!("in {}", range.len())),
            PeerEvent::StdinEnd => out.push("in end".into()),
            PeerEvent::Abort => out.push("abort".into()),
        }
        at += used;
    }
    Ok(out)
}

#[test]
fn parameters_go_into_as_many_records_as_they_need() {
    let mut out = Vec::new();
    let mut writer = RequestWriter::new(false, &mut out);
    for _ in 0..5 {
        writer.pair(b"N", &[&vec![b'x'; 30_000]]);
    }
    writer.encoded(b"\x01\x01Ab");
    assert_eq!(writer.finish(), Ok(()));
    out.extend_from_slice(&stdin_end());
    assert_eq!(served(&out, 1 << 20).unwrap(), ["begin 1 false", "params 6", "in end"]);
    // Each of them holds whole pairs.
    let mut at = 16;
    let mut pairs = Vec::new();
    while out[at + 1] == 4 {
        let content = usize::from(u16::from_be_bytes([out[at + 4], out[at + 5]]));
        pairs.push(Pairs(&out[at + 8..at + 8 + content]).map(Result::unwrap).count());
        at += 8 + content + usize::from(out[at + 6]);
    }
    assert_eq!(pairs, [2, 2, 2, 0]);
    assert_eq!(served(&out, 150_000), Err(RecordError::TooLong));

    let mut writer = RequestWriter::new(false, &mut out);
    writer.pair(b"N", &[&vec![b'x'; 65_530]]);
    assert_eq!(writer.finish(), Err(65_536));
}

#[test]
fn requests_follow_each_other() {
    let begin: &[u8] = &[0, 1, 1, 0, 0, 0, 0, 0];
    let one = records(&[(1, begin, 0), (4, b"\x01\x01Ab", 3), (4, b"", 0), (5, b"hello", 3), (5, b"", 0)]);
    let aborted = records(&[(1, begin, 0), (4, b"\x01\x01Ab", 3), (2, b"", 0)]);
    let want = ["begin 1 true", "params 1", "in 5", "in end"];
    let all = [&one[..], &aborted, &one].concat();
    let wanted = [&want[..], &["begin 1 true", "abort"], &want].concat();
    assert_eq!(served(&all, 100).unwrap(), wanted);

    let unexpected = |parts: &[(u8, &[u8], u8)], kind| {
        assert_eq!(served(&records(parts), 100), Err(RecordError::Unexpected(kind)));
    };
    unexpected(&[(4, b"", 0)], Kind::Params);
    unexpected(&[(1, begin, 0), (1, begin, 0)], Kind::BeginRequest);
    unexpected(&[(1, begin, 0), (5, b"x", 0)], Kind::Stdin);
    unexpected(&[(2, b"", 0)], Kind::AbortRequest);
    unexpected(&[(1, begin, 0), (8, b"x", 0)], Kind::Data);
    assert_eq!(served(&records(&[(1, b"short", 0)]), 100), Err(RecordError::Size(Kind::BeginRequest)));
}

#[test]
fn pairs_that_are_cut_are_errors() {
    let count = |bytes: &[u8]| {
        let (good, bad): (Vec<_>, Vec<_>) = Pairs(bytes).partition(Result::is_ok);
        (good.len(), bad.len())
    };
    assert_eq!(count(b""), (0, 0));
    assert_eq!(count(b"\x00\x00"), (1, 0));
    assert_eq!(count(b"\x01\x01Ab\x01"), (1, 1));
    assert_eq!(count(b"\x01\x01A"), (0, 1));
    assert_eq!(count(b"\x80\x00\x00"), (0, 1));
    assert_eq!(count(b"\xff\xff\xff\xff\xff\xff\xff\xffA"), (0, 1));
    assert_eq!(count(b"\x80\x00\x00\x01\x00A"), (1, 0));
}

proptest! {
    /// Whatever is asked arrives, however it is cut.
    #[test]
    fn what_is_asked_arrives(
        pairs in proptest::collection::vec((proptest::collection::vec(any::<u8>(), 0..200),
            proptest::collection::vec(any::<u8>(), 0..300)), 0..20),
        body in proptest::collection::vec(any::<u8>(), 0..500),
        step in 1usize..40,
    ) {
        let mut out = Vec::new();
        let mut writer = RequestWriter::new(true, &mut out);
        for (name, value) in &pairs {
            writer.pair(name, &[value]);
        }
        prop_assert_eq!(writer.finish(), Ok(()));
        for piece in body.chunks(77) {
            let (head, padding) = stdin_head(piece.len() as u16);
            out.extend_from_slice(&head);
            out.extend_from_slice(piece);
            out.resize(out.len() + padding, 0);
        }
        out.extend_from_slice(&stdin_end());
        let (mut peer, mut at, mut got, mut done) = (Peer::new(1 << 20), 0, Vec::new(), false);
        while at < out.len() {
            let piece = &out[at..out.len().min(at + step)];
            let (event, used) = peer.next(piece).unwrap();
            match event {
                PeerEvent::Params(params) => {
                    let read: Vec<_> = Pairs(&params).map(|pair| pair.unwrap()).collect();
                    let want: Vec<_> = pairs.iter().map(|(n, v)| (n.as_slice(), v.as_slice())).collect();
                    prop_assert_eq!(read, want);
                }
                PeerEvent::Stdin(range) => got.extend_from_slice(&piece[range]),
                PeerEvent::StdinEnd => done = true,
                _ => {}
            }
            at += used;
        }
        prop_assert!(done);
        prop_assert_eq!(got, body);
    }

    /// Whatever is answered arrives, however it is cut.
    #[test]
    fn what_is_answered_arrives(
        parts in proptest::collection::vec((any::<bool>(), proptest::collection::vec(any::<u8>(), 1..300)), 0..20),
        step in 1usize..50,
    ) {
        let (mut out, mut stdout, mut stderr) = (Vec::new(), Vec::new(), Vec::new());
        for (is_error, text) in &parts {
            let (kind, all) = if *is_error { (Kind::Stderr, &mut stderr) } else { (Kind::Stdout, &mut stdout) };
            all.extend_from_slice(text);
            write_stream(kind, text, &mut out);
        }
        write_end(EndRequest { app_status: 7, protocol_status: ProtocolStatus::Complete, goes_on: true }, &mut out);
        let (mut demux, mut at) = (Demux::default(), 0);
        let (mut got_out, mut got_err) = (Vec::new(), Vec::new());
        while at < out.len() {
            let piece = &out[at..out.len().min(at + step)];
            let (event, used) = demux.next(piece).unwrap();
            match event {
                Event::Stdout(range) => got_out.extend_from_slice(&piece[range]),
                Event::Stderr { text, .. } => got_err.extend_from_slice(&piece[text]),
                Event::End(end) => prop_assert_eq!(end.app_status, 7),
                _ => {}
            }
            at += used;
        }
        prop_assert!(demux.is_done());
        prop_assert_eq!((got_out, got_err), (stdout, stderr));
    }

    /// Bytes of no sense are an error or nothing; never a panic.
    #[test]
    fn any_bytes_are_survived(data in proptest::collection::vec(any::<u8>(), 0..200)) {
        crate::fuzz::fuzz_fastcgi(&data);
        crate::fuzz::fuzz_cgi_requests(&data);
    }
}
