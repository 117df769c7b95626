//! `ip_hash`, `hash` and its ketama variant, with nginx's arithmetic: the same key goes to the same server.

use crate::peer::{Clock, SCALE};
use crate::set::{Set, Tried};
use crc32fast::Hasher;
use std::net::IpAddr;
use std::sync::Arc;

/// Points on the circle for one unit of weight.
const POINTS_PER_WEIGHT: usize = 160;

/// The part of a client's address that decides.
pub(crate) fn address_bytes(client: Option<IpAddr>) -> Vec<u8> {
    match client {
        Some(IpAddr::V4(address)) => address.octets()[..3].to_vec(),
        Some(IpAddr::V6(address)) => address.octets().to_vec(),
        None => vec![0; 3],
    }
}

/// One round of `ip_hash`.
pub(crate) fn ip_round(hash: u32, address: &[u8]) -> u32 {
    address.iter().fold(hash, |hash, byte| (hash * 113 + u32::from(*byte)) % 6271)
}

/// One round of `hash`: what is added to the sum. Compatible with Cache::Memcached.
pub(crate) fn key_round(key: &[u8], rehash: u32) -> u32 {
    let mut crc = Hasher::new();
    if rehash > 0 {
        crc.update(rehash.to_string().as_bytes());
    }
    crc.update(key);
    crc.finalize() >> 16 & 0x7fff
}

/// The peer that a number means, each having as many numbers as its weight.
pub(crate) fn by_weight(set: &Set, number: u64) -> usize {
    let mut rest = (number % set.total_weight.max(1)) as i64;
    for (at, peer) in set.peers.iter().enumerate() {
        let weight = peer.weight / SCALE;
        if rest < weight {
            return at;
        }
        rest -= weight;
    }
    0
}

/// The circle of `hash … consistent`.
pub(crate) struct Points(Vec<(u32, Arc<str>)>);

impl Points {
    /// The points of a set of peers, as nginx computes them.
    pub fn new(set: &Set) -> Points {
        let mut points = Vec::new();
        for peer in &set.peers {
            let server = &peer.info.server;
            let (host, port) = host_and_port(server);
            let mut base = Hasher::new();
            for part in [host, b"\0", port] {
                base.update(part);
            }
            let mut previous = 0u32;
            for _ in 0..(peer.weight / SCALE) as usize * POINTS_PER_WEIGHT {
                let mut point = base.clone();
                point.update(&previous.to_le_bytes());
                previous = point.finalize();
                points.push((previous, server.clone()));
            }
        }
        points.sort_by_key(|(hash, _)| *hash);
        points.dedup_by_key(|(hash, _)| *hash);
        Points(points)
    }

    /// Where a key is on the circle.
    pub fn place_of(&self, key: &[u8]) -> usize {
        let hash = crc32fast::hash(key);
        self.0.partition_point(|(point, _)| *point < hash)
    }

    /// The server at a place; places go round.
    pub fn server(&self, place: usize) -> Option<&Arc<str>> {
        (!self.0.is_empty()).then(|| &self.0[place % self.0.len()].1)
    }
}

/// A server's name without and with only its port, as far as it has one in digits.
fn host_and_port(server: &str) -> (&[u8], &[u8]) {
    let text = server.as_bytes();
    if text.len() >= 5 && text[..5].eq_ignore_ascii_case(b"unix:") {
        return (&text[5..], b"");
    }
    let digits = text.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let end = text.len() - digits;
    match end.checked_sub(1).map(|at| (at, text[at])) {
        Some((colon, b':')) => (&text[..colon], &text[end..]),
        _ => (text, b""),
    }
}

/// Round robin among the peers of one server.
pub(crate) fn of_server(set: &mut Set, server: &str, tried: &Tried, now: Clock) -> Option<usize> {
    let mut best: Option<usize> = None;
    let mut total = 0;
    for at in 0..set.peers.len() {
        let peer = &mut set.peers[at];
        if tried.has(peer.info.id) || !peer.is_available(now) || *peer.info.server != *server {
            continue;
        }
        total += peer.step(now);
        if best.is_none_or(|best| set.peers[at].current > set.peers[best].current) {
            best = Some(at);
        }
    }
    let best = best?;
    set.peers[best].current -= total;
    Some(best)
}
