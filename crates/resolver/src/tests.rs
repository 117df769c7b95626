//! The resolver against name servers that behave as told.

use crate::message::tests::answer;
use crate::message::{Kind, parse};
use crate::*;
use brisk_net::{Driver, Loop};
use std::cell::RefCell;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

struct Nothing;

impl Driver for Nothing {
    fn ready(&self, _: &[u64]) {}
    fn timer(&self, _: u64) {}
    fn end_turn(&self) {}
}

/// Runs a future on a loop of this thread.
fn run<T: 'static>(future: impl Future<Output = T> + 'static) -> T {
    let home = Loop::install().unwrap();
    let out = Rc::new(RefCell::new(None));
    let slot = out.clone();
    let stopper = home.clone();
    brisk_net::spawn(async move {
        *slot.borrow_mut() = Some(future.await);
        stopper.stop();
    });
    home.run(&Nothing).unwrap();
    out.take().unwrap()
}

/// What a server makes of a question: flags and records.
type Reply = (u16, Vec<(u16, u32, Vec<u8>)>);

/// A name server on both protocols; `reply` gets name, kind, how many questions came before, and whether it is TCP.
fn server(
    reply: impl Fn(&str, Kind, usize, bool) -> Option<Reply> + Send + Sync + 'static,
) -> (SocketAddr, Arc<AtomicUsize>) {
    let (udp, tcp) = loop {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        if let Ok(tcp) = TcpListener::bind(udp.local_addr().unwrap()) {
            break (udp, tcp);
        }
    };
    let address = udp.local_addr().unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let reply = Arc::new(reply);
    let make = move |asked: &AtomicUsize,
                     bytes: &[u8],
                     is_tcp: bool,
                     reply: &dyn Fn(&str, Kind, usize, bool) -> Option<Reply>| {
        let mut as_answer = bytes.to_vec();
        as_answer[2] |= 0x80;
        let question = parse(&as_answer, false).unwrap();
        let kind = question.kind.unwrap();
        let (flags, records) = reply(&question.name, kind, asked.fetch_add(1, Ordering::SeqCst), is_tcp)?;
        Some(answer(question.id, flags, &question.name, kind, &records))
    };
    let (count, answers, make_udp) = (asked.clone(), reply.clone(), make);
    std::thread::spawn(move || {
        let mut buf = [0; 512];
        while let Ok((count_bytes, from)) = udp.recv_from(&mut buf) {
            if let Some(bytes) = make_udp(&count, &buf[..count_bytes], false, &*answers) {
                let _ = udp.send_to(&bytes, from);
            }
        }
    });
    let count = asked.clone();
    std::thread::spawn(move || {
        for stream in tcp.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 2];
            stream.read_exact(&mut head).unwrap();
            let mut bytes = vec![0; usize::from(u16::from_be_bytes(head))];
            stream.read_exact(&mut bytes).unwrap();
            if let Some(bytes) = make(&count, &bytes, true, &*reply) {
                let mut out = (bytes.len() as u16).to_be_bytes().to_vec();
                out.extend_from_slice(&bytes);
                stream.write_all(&out).unwrap();
            }
        }
    });
    (address, asked)
}

fn resolver(servers: &[SocketAddr]) -> Arc<Resolver> {
    let config = Config { servers: servers.to_vec(), valid_secs: None, ipv4: true, ipv6: false };
    Arc::new(Resolver::new(config))
}

fn quiet() -> Log {
    Rc::new(|_| {})
}

fn lookup(resolver: &Arc<Resolver>, name: &str, ms: u64) -> Result<Vec<String>, ResolveError> {
    let (resolver, name) = (resolver.clone(), name.to_string());
    run(async move {
        let found = resolver.lookup(&name, Duration::from_millis(ms), &quiet()).await?;
        Ok(found.addresses.iter().map(ToString::to_string).collect())
    })
}

const OK: u16 = 0x8180;

#[test]
fn answers_are_kept_and_errors_are_not() {
    let (address, asked) = server(|name, _, _, _| match name {
        "good.example" => Some((OK, vec![(1, 60, vec![10, 0, 0, 1])])),
        "none.example" => Some((0x8183, vec![])),
        "empty.example" => Some((OK, vec![])),
        "alias.example" => Some((OK, vec![(5, 60, b"\x04good\xc0\x12".to_vec())])),
        _ => Some((0x8182, vec![])),
    });
    let resolver = resolver(&[address]);
    assert_eq!(lookup(&resolver, "Good.example.", 2000), Ok(vec!["10.0.0.1".into()]));
    assert_eq!(lookup(&resolver, "good.EXAMPLE", 2000), Ok(vec!["10.0.0.1".into()]));
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    assert_eq!(lookup(&resolver, "alias.example", 2000), Ok(vec!["10.0.0.1".into()]));
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    for (name, want) in [("none.example", 3), ("empty.example", 3), ("broken.example", 2), ("a..b", 3)] {
        assert_eq!(lookup(&resolver, name, 2000), Err(ResolveError(want)), "{name}");
    }
    let before = asked.load(Ordering::SeqCst);
    assert!(lookup(&resolver, "none.example", 2000).is_err());
    assert_eq!(asked.load(Ordering::SeqCst), before + 1);
    assert_eq!(lookup(&resolver, "[::1]", 0), Ok(vec!["::1".into()]));
}

#[test]
fn errors_are_told_in_nginxs_words() {
    assert_eq!(ResolveError(3).to_string(), "could not be resolved (3: Host not found)");
    assert_eq!(ResolveError::TIMED_OUT.to_string(), "could not be resolved (110: Operation timed out)");
}

#[test]
fn what_does_not_fit_a_datagram_is_asked_over_tcp() {
    let (address, _) = server(|_, _, _, tcp| {
        let records = if tcp { vec![(1, 60, vec![10, 0, 0, 7])] } else { Vec::new() };
        Some((if tcp { OK } else { OK | 0x0200 }, records))
    });
    assert_eq!(lookup(&resolver(&[address]), "big.example", 2000), Ok(vec!["10.0.0.7".into()]));
}

#[test]
fn all_wait_for_one_answer_and_each_has_its_time() {
    let (address, asked) = server(|name, _, _, _| {
        if name == "silent.example" {
            return None;
        }
        std::thread::sleep(Duration::from_millis(50));
        Some((OK, vec![(1, 60, vec![10, 0, 0, 1])]))
    });
    let resolver = resolver(&[address]);
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let resolver = resolver.clone();
            std::thread::spawn(move || lookup(&resolver, "one.example", 5000))
        })
        .collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap(), Ok(vec!["10.0.0.1".into()]));
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    assert_eq!(lookup(&resolver, "silent.example", 30), Err(ResolveError::TIMED_OUT));
}

#[test]
fn loops_of_aliases_end() {
    let (address, _) = server(|name, _, _, _| {
        let other = if name == "a.example" { b"\x01b\xc0\x0e" } else { b"\x01a\xc0\x0e" };
        Some((OK, vec![(5, 60, other.to_vec())]))
    });
    assert_eq!(lookup(&resolver(&[address]), "a.example", 5000), Err(ResolveError::NOT_FOUND));
}

#[test]
fn services_are_places_of_their_targets() {
    let (address, _) = server(|name, kind, _, _| match (name, kind) {
        ("_http._tcp.example", Kind::Srv) => {
            let record = |priority: u8, port: u8, target: &[u8]| {
                (33, 60, [&[0, priority, 0, 0, 0, port][..], target].concat())
            };
            Some((
                OK,
                vec![record(2, 81, b"\x01b\x00"), record(1, 80, b"\x01a\x00"), record(1, 82, b"\x01c\x00")],
            ))
        }
        ("a", Kind::A) => Some((OK, vec![(1, 5, vec![10, 0, 0, 1]), (1, 5, vec![10, 0, 0, 2])])),
        ("b", Kind::A) => Some((OK, vec![(1, 5, vec![10, 0, 0, 3])])),
        _ => Some((0x8183, vec![])),
    });
    let resolver = resolver(&[address]);
    let found = run(async move {
        resolver.lookup_service("http", "example", Duration::from_secs(5), &quiet()).await.unwrap()
    });
    let mut places: Vec<_> =
        found.places.iter().map(|p| (p.priority, p.weight, p.address.to_string())).collect();
    assert_eq!(places.last(), Some(&(2, 1, "10.0.0.3:81".into())));
    places.sort();
    assert_eq!(places[0], (1, 1, "10.0.0.1:80".into()));
    assert_eq!(found.failed, [("c".into(), ResolveError::NOT_FOUND)]);
}
