//! Somebody on the way between a client and a server of QUIC who answers in the server's place.

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The first client's first packet is answered by a Retry of its own; everything else is passed on.
pub struct Forger {
    /// Where clients send to.
    pub address: SocketAddr,
    forged: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Forger {
    /// Before the server at `to`; the Retry names this connection ID.
    pub fn before(to: SocketAddr, id: &[u8]) -> Forger {
        let front = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
        front.set_read_timeout(Some(Duration::from_millis(1))).expect("a time-out can be set");
        let address = front.local_addr().expect("it is bound");
        let (forged, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, ends, id) = (forged.clone(), stop.clone(), id.to_vec());
        let thread = std::thread::spawn(move || {
            let mut links: HashMap<SocketAddr, UdpSocket> = HashMap::new();
            let mut room = vec![0; 65_536];
            while !ends.load(Ordering::Relaxed) {
                if let Ok((len, from)) = front.recv_from(&mut room) {
                    if links.is_empty() {
                        front.send_to(&retry(&room[..len], &id), from).expect("the client is there");
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                    let link = links.entry(from).or_insert_with(|| {
                        let link = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
                        link.set_nonblocking(true).expect("a socket need not block");
                        link
                    });
                    let _ = link.send_to(&room[..len], to);
                }
                for (client, link) in &links {
                    while let Ok(len) = link.recv(&mut room) {
                        let _ = front.send_to(&room[..len], client);
                    }
                }
            }
        });
        Forger { address, forged, stop, thread: Some(thread) }
    }

    /// How many it has sent.
    pub fn forged(&self) -> usize {
        self.forged.load(Ordering::Relaxed)
    }
}

impl Drop for Forger {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A Retry (RFC 9000 §17.2.5) in answer to a client's Initial, with a tag as RFC 9001 §5.8 has it.
fn retry(initial: &[u8], id: &[u8]) -> Vec<u8> {
    const KEY: [u8; 16] = *b"\xbe\x0c\x69\x0b\x9f\x66\x57\x5a\x1d\x76\x6b\x54\xe3\x68\xc8\x4e";
    const NONCE: [u8; 12] = *b"\x46\x15\x99\xd3\x5d\x63\x2b\xf2\x23\x98\x25\xbb";
    let cid = |at: usize| &initial[at..at + 1 + usize::from(initial[at])];
    let first = cid(5);
    let own = cid(5 + first.len());
    let packet = [&[0xf0, 0, 0, 0, 1], own, &[id.len() as u8], id, b"a token of nobody's"].concat();
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &KEY).expect("a key of its size"));
    let pseudo = [first, &packet].concat();
    let nonce = Nonce::assume_unique_for_key(NONCE);
    let tag =
        key.seal_in_place_separate_tag(nonce, Aad::from(pseudo), &mut []).expect("nothing can be sealed");
    [&packet, tag.as_ref()].concat()
}
