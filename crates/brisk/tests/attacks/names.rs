//! DNS: answers that are forged, malformed or endless.

use super::BIN;
use brisk_testkit::{Builder, Server};
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A name server that makes an answer from each question; gives its port and the number of questions.
fn name_server(answer: impl Fn(&[u8]) -> Vec<u8> + Send + 'static) -> (u16, Arc<AtomicUsize>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    let asked = Arc::<AtomicUsize>::default();
    let count = asked.clone();
    std::thread::spawn(move || {
        let mut buf = [0; 1500];
        while let Ok((size, from)) = socket.recv_from(&mut buf) {
            count.fetch_add(1, Ordering::SeqCst);
            let _ = socket.send_to(&answer(&buf[..size]), from);
        }
    });
    (port, asked)
}

/// The question's head as an answer with so many records.
fn head(query: &[u8], records: u16) -> Vec<u8> {
    let mut out = query.to_vec();
    (out[2], out[3]) = (0x81, 0x80);
    out[6..8].copy_from_slice(&records.to_be_bytes());
    out[8..12].fill(0);
    // What stood behind the question (EDNS) goes.
    let mut at = 12;
    while out[at] != 0 {
        at += usize::from(out[at]) + 1;
    }
    out.truncate(at + 5);
    out
}

/// A record of type A for an owner.
fn address(owner: &[u8], address: [u8; 4]) -> Vec<u8> {
    [owner, &[0, 1, 0, 1, 0, 0, 0, 60, 0, 4], &address].concat()
}

fn server(port: u16) -> Server {
    let conf = format!(
        "server {{ listen 127.0.0.1:{{{{PORT}}}}; resolver 127.0.0.1:{port} ipv6=off; resolver_timeout 1s;
             location /to/ {{ proxy_pass http://$arg_h:{{{{PORT2}}}}/; proxy_connect_timeout 2s; }} location = /who {{ return 200 who; }} }}
         server {{ listen 127.0.0.1:{{{{PORT2}}}}; return 200 reached; }}"
    );
    Builder::new(BIN).http(&conf).start()
}

/// The answer does not lead anywhere.
fn leads_nowhere(what: &str, answer: impl Fn(&[u8]) -> Vec<u8> + Send + 'static) {
    let (port, asked) = name_server(answer);
    let server = server(port);
    let response = server.get("/to/?h=victim.test");
    assert_eq!(response.status, 502, "{what}: {}", response.text());
    assert!(asked.load(Ordering::SeqCst) < 40, "{what}: {} questions", asked.load(Ordering::SeqCst));
    assert_eq!(server.get("/who").text(), "who");
}

const OWN: [u8; 2] = [0xc0, 12];
const HERE: [u8; 4] = [127, 0, 0, 1];

#[test]
fn an_honest_answer_is_used() {
    let (port, _) = name_server(|query| [head(query, 1), address(&OWN, HERE)].concat());
    assert_eq!(server(port).get("/to/?h=victim.test").text(), "reached");
}

#[test]
fn answers_to_other_questions() {
    leads_nowhere("another id", |query| {
        let mut out = [head(query, 1), address(&OWN, HERE)].concat();
        out[0] ^= 0x55;
        out
    });
    leads_nowhere("another name asked for", |query| {
        let mut out = [head(query, 1), address(&OWN, HERE)].concat();
        out[13] = b'x';
        out
    });
    leads_nowhere("another owner", |query| [head(query, 1), address(b"\x04evil\x04test\0", HERE)].concat());
    leads_nowhere("a question, not an answer", |query| {
        let mut out = [head(query, 1), address(&OWN, HERE)].concat();
        out[2] &= 0x7f;
        out
    });
    leads_nowhere("another class", |query| {
        let mut out = [head(query, 1), address(&OWN, HERE)].concat();
        let at = out.len() - 12;
        out[at + 1] = 3;
        out
    });
}

#[test]
fn names_that_point_at_themselves() {
    // The labels of a name: a pointer to itself, forwards, past the end, and one byte too many.
    for owner in [&[0xc0u8, 29][..], &[0xc0, 0xff], &[0xff, 0xff], &[0xc0], &[63], &[0x41, 0x41]] {
        let owner = owner.to_vec();
        leads_nowhere("a malformed name", move |query| [head(query, 1), address(&owner, HERE)].concat());
    }
    leads_nowhere("a name in itself", |query| {
        let mut out = head(query, 1);
        let at = out.len() as u16 | 0xc000;
        out.extend(address(&at.to_be_bytes(), HERE));
        out
    });
}

#[test]
fn aliases_without_end() {
    leads_nowhere("an alias of itself", |query| {
        [head(query, 1), [&OWN[..], &[0, 5, 0, 1, 0, 0, 0, 60, 0, 2], &OWN].concat()].concat()
    });
    leads_nowhere("two aliases of each other", |query| {
        let one = [&OWN[..], &[0, 5, 0, 1, 0, 0, 0, 60, 0, 6], b"\x04evil\0"].concat();
        let two = [b"\x04evil\0", &[0, 5, 0, 1, 0, 0, 0, 60, 0, 2][..], &OWN].concat();
        [head(query, 2), one, two].concat()
    });
}

#[test]
fn messages_that_are_cut_short() {
    for size in [0, 1, 11, 12, 13, 20, 29] {
        leads_nowhere("a short message", move |query| {
            [head(query, 1), address(&OWN, HERE)].concat()[..size].to_vec()
        });
    }
    leads_nowhere("more records than there are", |query| head(query, 65_535));
    leads_nowhere("a record longer than the message", |query| {
        let mut out = [head(query, 1), address(&OWN, HERE)].concat();
        let at = out.len() - 6;
        out[at..at + 2].copy_from_slice(&[0xff, 0xff]);
        out
    });
}
