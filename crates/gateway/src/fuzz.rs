//! Invariants of the parsers as plain functions over arbitrary bytes: they panic if one is broken.

use crate::fastcgi::{
    Demux, EndRequest, Event, Kind, Pairs, Peer, PeerEvent, RecordError, RequestWriter, stdin_end,
    stdin_head, write_end, write_pair, write_stream,
};
use crate::{Params, scgi, uwsgi};

/// A small limit, so that short inputs meet it.
const PARAMS_BYTES_MAX: usize = 64;

/// FastCGI records in both directions: pieces do not matter, and what was read can be written again.
pub fn fuzz_fastcgi(data: &[u8]) {
    let whole = demux(data, data.len().max(1));
    let served = serve(data, data.len().max(1));
    for step in [1, 3, 7] {
        assert_eq!(demux(data, step), whole);
        assert_eq!(serve(data, step), served);
    }
    if let Ok(answer) = &whole {
        check_answer(data, answer);
    }
    if let Ok(requests) = served {
        requests.iter().for_each(check_request);
    }
    check_pairs(data);
}

/// What an application said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Answer {
    stdout: Vec<u8>,
    stderr: Vec<Vec<u8>>,
    ends_of_stdout: usize,
    end: Option<EndRequest>,
    consumed: usize,
}

fn demux(data: &[u8], step: usize) -> Result<Answer, RecordError> {
    let mut demux = Demux::default();
    let mut answer = Answer::default();
    let mut text = Vec::new();
    while answer.consumed < data.len() && !demux.is_done() {
        let piece = &data[answer.consumed..data.len().min(answer.consumed + step)];
        let (event, used) = demux.next(piece)?;
        assert!(used > 0 && used <= piece.len());
        match event {
            Event::NeedMore => assert_eq!(used, piece.len()),
            Event::Stdout(range) => {
                assert!(!range.is_empty() && range.end == used);
                answer.stdout.extend_from_slice(&piece[range]);
            }
            Event::Stderr { text: range, complete } => {
                assert!(!range.is_empty() && range.end == used);
                text.extend_from_slice(&piece[range]);
                if complete {
                    answer.stderr.push(std::mem::take(&mut text));
                }
            }
            Event::StdoutEnd => answer.ends_of_stdout += 1,
            Event::End(end) => {
                assert!(demux.is_done());
                answer.end = Some(end);
            }
        }
        answer.consumed += used;
    }
    Ok(answer)
}

fn check_answer(data: &[u8], answer: &Answer) {
    assert!(answer.stdout.len() + answer.stderr.iter().map(Vec::len).sum::<usize>() <= data.len());
    let mut again = Vec::new();
    answer.stderr.iter().for_each(|text| write_stream(Kind::Stderr, text, &mut again));
    write_stream(Kind::Stdout, &answer.stdout, &mut again);
    if let Some(end) = answer.end {
        write_end(end, &mut again);
    }
    let read = demux(&again, 5).expect("what we write is valid");
    assert_eq!((&read.stdout, &read.stderr), (&answer.stdout, &answer.stderr));
    assert_eq!(read.end, answer.end);
}

/// What a web server asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Asked {
    keep_conn: bool,
    params: Option<Vec<u8>>,
    stdin: Vec<u8>,
    complete: bool,
    aborted: bool,
}

fn serve(data: &[u8], step: usize) -> Result<Vec<Asked>, RecordError> {
    let mut peer = Peer::new(PARAMS_BYTES_MAX);
    let mut requests: Vec<Asked> = Vec::new();
    let mut at = 0;
    while at < data.len() {
        let piece = &data[at..data.len().min(at + step)];
        let (event, used) = peer.next(piece)?;
        assert!(used > 0 && used <= piece.len());
        at += used;
        if let PeerEvent::Begin { keep_conn, .. } = event {
            requests.push(Asked { keep_conn, ..Asked::default() });
            continue;
        }
        if event == PeerEvent::NeedMore {
            assert_eq!(used, piece.len());
            continue;
        }
        let request = requests.last_mut().expect("nothing comes before a request begins");
        match event {
            PeerEvent::Params(params) => {
                assert!(params.len() <= PARAMS_BYTES_MAX && request.params.is_none());
                request.params = Some(params);
            }
            PeerEvent::Stdin(range) => {
                assert!(request.params.is_some() && !range.is_empty());
                request.stdin.extend_from_slice(&piece[range]);
            }
            PeerEvent::StdinEnd => request.complete = true,
            _ => request.aborted = true,
        }
    }
    Ok(requests)
}

fn check_request(asked: &Asked) {
    let Some(params) = asked.params.as_ref().filter(|_| asked.complete) else { return };
    let pairs: Vec<_> = Pairs(params).map_while(Result::ok).collect();
    let mut again = Vec::new();
    let mut writer = RequestWriter::new(asked.keep_conn, &mut again);
    pairs.iter().for_each(|(name, value)| writer.pair(name, &[value]));
    writer.finish().expect("short pairs fit");
    for piece in asked.stdin.chunks(11) {
        let (head, padding) = stdin_head(piece.len() as u16);
        again.extend_from_slice(&head);
        again.extend_from_slice(piece);
        again.resize(again.len() + padding, 0);
    }
    again.extend_from_slice(&stdin_end());
    let read = serve(&again, 9).expect("what we write is valid");
    assert_eq!(read.len(), 1);
    assert_eq!((&read[0].stdin, read[0].keep_conn, read[0].complete), (&asked.stdin, asked.keep_conn, true));
    let params = read[0].params.as_ref().expect("parameters were written");
    let got: Vec<_> = Pairs(params).map(|pair| pair.expect("pairs are not cut")).collect();
    assert_eq!(got, pairs);
}

fn check_pairs(data: &[u8]) {
    let mut again = Vec::new();
    let mut count = 0;
    for (name, value) in Pairs(data).map_while(Result::ok) {
        write_pair(name, &[value], &mut again);
        count += 1;
    }
    assert!(again.len() <= data.len());
    assert_eq!(Pairs(&again).flatten().count(), count);
}

/// SCGI and uwsgi requests: what was read can be written again.
pub fn fuzz_cgi_requests(data: &[u8]) {
    if let Ok(Some(request)) = scgi::parse(data, PARAMS_BYTES_MAX) {
        assert!(request.len <= data.len());
        let mut again = Vec::new();
        let mut writer = scgi::RequestWriter::new(request.body_bytes, &mut again);
        request.params[1..].iter().for_each(|(name, value)| writer.pair(name, &[value]));
        writer.finish();
        let read = scgi::parse(&again, again.len()).expect("what we write is valid").expect("and complete");
        assert_eq!((read.body_bytes, read.len), (request.body_bytes, again.len()));
        assert_eq!(read.params[1..], request.params[1..]);
    }
    if let Ok(Some(request)) = uwsgi::parse(data) {
        assert!(request.len <= data.len());
        let mut again = Vec::new();
        let mut writer = uwsgi::RequestWriter::new(request.modifier1, request.modifier2, &mut again);
        request.params.iter().for_each(|(name, value)| writer.pair(name, &[value]));
        assert_eq!(writer.finish(), Ok(()));
        assert_eq!(again, data[..request.len]);
    }
}
