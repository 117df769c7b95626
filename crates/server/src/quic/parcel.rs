//! Packets on their way to another thread, or to another worker process: as bytes, many at a time.
//!
//! What comes from another process is parsed as anything from outside: a parcel that is cut off ends where it is.

use crate::limits::PARCEL_BYTES_MAX;
use brisk_quic::Ecn;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// One packet, with what the socket has told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packet<'a> {
    /// The address that the socket listens on.
    pub listening: SocketAddr,
    /// The sender.
    pub remote: SocketAddr,
    /// The address that it was sent to, if the system tells it.
    pub local: Option<SocketAddr>,
    /// The congestion mark.
    pub ecn: Option<Ecn>,
    /// UDP's payload.
    pub bytes: &'a [u8],
}

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Parcel(Vec<u8>);

// By hand and not by a library: it is one format between two processes of one version, and must not allocate
// per packet.
impl Parcel {
    /// Adds a packet; false, and nothing is added, if it would be more than a parcel may have. Who receives parcels has room
    /// for no more.
    #[must_use]
    pub fn push(&mut self, packet: &Packet<'_>) -> bool {
        // Its payload is one of UDP, so its length has two bytes: one that is longer cannot have come.
        let Ok(len) = u16::try_from(packet.bytes.len()) else { return false };
        let before = self.0.len();
        let out = &mut self.0;
        out.extend_from_slice(&len.to_le_bytes());
        out.push(packet.ecn.map_or(0, |ecn| ecn as u8));
        put_address(out, Some(packet.listening));
        put_address(out, Some(packet.remote));
        put_address(out, packet.local);
        out.extend_from_slice(packet.bytes);
        let fits = out.len() <= PARCEL_BYTES_MAX;
        if !fits {
            out.truncate(before);
        }
        fits
    }

    /// What came from another process.
    pub fn of(bytes: Vec<u8>) -> Parcel {
        Parcel(bytes)
    }

    /// As it travels.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The packets in it.
    pub fn packets(&self) -> Packets<'_> {
        Packets(&self.0)
    }
}

// The kind stands first, so that the length of what follows is known.
fn put_address(out: &mut Vec<u8>, address: Option<SocketAddr>) {
    match address.map(|address| (address.ip(), address.port())) {
        None => out.push(0),
        Some((IpAddr::V4(ip), port)) => {
            out.push(4);
            out.extend_from_slice(&ip.octets());
            out.extend_from_slice(&port.to_le_bytes());
        }
        Some((IpAddr::V6(ip), port)) => {
            out.push(6);
            out.extend_from_slice(&ip.octets());
            out.extend_from_slice(&port.to_le_bytes());
        }
    }
}

/// See [`Parcel::packets`].
/// It ends at the first thing that is wrong: what follows cannot be told apart.
pub(crate) struct Packets<'a>(&'a [u8]);

impl<'a> Packets<'a> {
    fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    /// An address, which may be none.
    fn address(&mut self) -> Result<Option<SocketAddr>, NoAddress> {
        let [kind] = self.array().ok_or(NoAddress)?;
        let ip = match kind {
            0 => return Ok(None),
            4 => IpAddr::V4(Ipv4Addr::from(self.array::<4>().ok_or(NoAddress)?)),
            6 => IpAddr::V6(Ipv6Addr::from(self.array::<16>().ok_or(NoAddress)?)),
            _ => return Err(NoAddress),
        };
        let port = u16::from_le_bytes(self.array().ok_or(NoAddress)?);
        Ok(Some(SocketAddr::new(ip, port)))
    }
}

/// Bytes that are no address.
#[derive(Debug)]
struct NoAddress;

impl<'a> Iterator for Packets<'a> {
    type Item = Packet<'a>;

    fn next(&mut self) -> Option<Packet<'a>> {
        // In the order in which `push` has written them.
        let len = u16::from_le_bytes(self.array()?);
        let [ecn] = self.array()?;
        let (listening, remote) = (self.address().ok()??, self.address().ok()??);
        let local = self.address().ok()?;
        let bytes = self.bytes(len.into())?;
        Some(Packet { listening, remote, local, ecn: Ecn::from_bits(ecn), bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets() -> Vec<Packet<'static>> {
        let (v4, v6) = ("192.0.2.1:443".parse().unwrap(), "[2001:db8::1]:4433".parse().unwrap());
        let ecn = Ecn::from_bits(1);
        vec![
            Packet { listening: v4, remote: v6, local: None, ecn: None, bytes: b"" },
            Packet { listening: v6, remote: v4, local: Some(v6), ecn, bytes: &[7; 1472] },
            Packet { listening: v4, remote: v4, local: Some(v4), ecn, bytes: b"last" },
        ]
    }

    #[test]
    fn packets_arrive_as_they_were() {
        let mut parcel = Parcel::default();
        packets().iter().for_each(|packet| assert!(parcel.push(packet)));
        let came = Parcel::of(parcel.bytes().to_vec());
        assert_eq!(came.packets().collect::<Vec<_>>(), packets());
    }

    #[test]
    fn a_parcel_has_a_bound() {
        let at = "[2001:db8::1]:443".parse().unwrap();
        for len in [0, 1, 1200, 9000, 48_000, 65_507] {
            let payload = vec![7; len];
            let packet = Packet { listening: at, remote: at, local: Some(at), ecn: None, bytes: &payload };
            let (mut parcel, mut count) = (Parcel::default(), 0);
            while parcel.push(&packet) {
                count += 1;
                assert!(parcel.bytes().len() <= PARCEL_BYTES_MAX, "{len}");
            }
            // What was refused has left nothing behind.
            assert_eq!(parcel.packets().count(), count);
            assert!(parcel.packets().all(|one| one == packet));
            assert_eq!(count > 0, len < 49_000, "{len}");
        }
    }

    #[test]
    fn a_parcel_that_is_cut_off_ends_there() {
        let mut parcel = Parcel::default();
        packets().iter().for_each(|packet| assert!(parcel.push(packet)));
        for end in 0..parcel.bytes().len() {
            let came = Parcel::of(parcel.bytes()[..end].to_vec());
            let count = came.packets().count();
            assert!(count < 3, "{end} bytes");
            assert_eq!(came.packets().collect::<Vec<_>>(), packets()[..count]);
        }
        assert_eq!(Parcel::of(vec![0xff; 100]).packets().count(), 0);
    }
}
