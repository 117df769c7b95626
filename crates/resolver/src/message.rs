//! DNS messages (RFC 1035, 2782, 3596): queries are written, answers read. What is read comes from strangers.

use crate::limits::{LABEL_BYTES_MAX, MESSAGE_ALIASES_MAX, NAME_BYTES_MAX, POINTERS_MAX};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const HEAD_BYTES: usize = 12;
const CLASS_IN: u16 = 1;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// An IPv4 address.
    A,
    /// An IPv6 address.
    Aaaa,
    /// Where a service is offered.
    Srv,
}

impl Kind {
    fn number(self) -> u16 {
        match self {
            Kind::A => 1,
            Kind::Aaaa => 28,
            Kind::Srv => 33,
        }
    }
}

const CNAME: u16 = 5;
const DNAME: u16 = 39;

/// An SRV record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Srv {
    /// Lower ones are asked first (RFC 2782).
    pub priority: u16,
    /// The share of requests among those of one priority.
    pub weight: u16,
    /// The port at the target.
    pub port: u16,
    /// The name of the machine, in lower case.
    pub target: String,
}

/// What a server has answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The query's number, which the answer repeats.
    pub id: u16,
    /// RFC 1035 §4.1.1: 0 is success.
    pub code: u8,
    /// There is more: ask over TCP.
    pub truncated: bool,
    /// The question as repeated, lower case.
    pub name: String,
    /// The kind that was asked for; `None`: another one than those known here.
    pub kind: Option<Kind>,
    /// The addresses of the name, and of the names that it is an alias of within this answer.
    pub addresses: Vec<IpAddr>,
    /// Likewise.
    pub services: Vec<Srv>,
    /// Where the aliases of the name lead in the end.
    pub cname: Option<String>,
    /// The shortest of the records that count, in seconds.
    pub ttl: u32,
    /// Whether there are records at all.
    pub has_records: bool,
    /// Records of kinds that were not asked for.
    pub strange: Vec<u16>,
    /// Owners of records that are about other names than the one that was asked for: they do not count.
    pub foreign: Vec<String>,
}

/// Why an answer is not believed. Displays as nginx says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// It ends early.
    Short,
    /// No response to a standard query: the flags.
    Flags {
        /// The message's number.
        id: u16,
        /// As they came.
        flags: u16,
    },
    /// An error that no query causes, or a format error.
    Error {
        /// The message's number.
        id: u16,
        /// RFC 1035 §4.1.1.
        code: u8,
    },
    /// It repeats another number of questions than one.
    Questions,
    /// A compression pointer stands where none may.
    Pointer,
    /// A name is empty that must not be.
    EmptyName,
    /// The question is of another class than IN.
    QueryClass(u16),
    /// The question is of another type than was asked for.
    QueryType(u16),
    /// A record is of another class than IN.
    Class(u16),
    /// A label is of an unknown kind.
    Label,
    /// A pointer leads outside of the message.
    Outside,
    /// Pointers lead in a circle.
    Loop,
    /// A name has bytes that no host name has.
    Name,
    /// An address has the wrong length; holds the record's type.
    Address(&'static str),
    /// A record that such a question cannot have; holds its type.
    Unexpected(&'static str),
    /// A name is too long.
    TooLong,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Malformed::Short => f.write_str("short DNS response"),
            Malformed::Flags { id, flags } => write!(f, "invalid DNS response {id} fl:{flags:04X}"),
            Malformed::Error { id, code } => {
                write!(f, "DNS error ({code}: {}), query id:{id}", code_text(u32::from(code)))
            }
            Malformed::Questions => f.write_str("invalid number of questions in DNS response"),
            Malformed::Pointer => f.write_str("unexpected compression pointer in DNS response"),
            Malformed::EmptyName => f.write_str("zero-length domain name in DNS response"),
            Malformed::QueryClass(class) => write!(f, "unknown query class {class} in DNS response"),
            Malformed::QueryType(kind) => write!(f, "unknown query type {kind} in DNS response"),
            Malformed::Class(class) => write!(f, "unexpected RR class {class} in DNS response"),
            Malformed::Label => f.write_str("invalid label type in DNS response"),
            Malformed::Outside => f.write_str("name is out of DNS response"),
            Malformed::Loop => f.write_str("compression pointers loop in DNS response"),
            Malformed::Name => f.write_str("invalid name in DNS response"),
            Malformed::Address(kind) => write!(f, "invalid {kind} record in DNS response"),
            Malformed::Unexpected(kind) => write!(f, "unexpected {kind} record in DNS response"),
            Malformed::TooLong => f.write_str("too long name in DNS response"),
        }
    }
}

/// nginx's words for an error.
pub fn code_text(code: u32) -> &'static str {
    match code {
        1 => "Format error",
        2 => "Server failure",
        3 => "Host not found",
        4 => "Unimplemented",
        5 => "Operation refused",
        110 => "Operation timed out",
        _ => "Unknown error",
    }
}

/// A query's bytes; `None` if the name cannot be asked for.
pub fn query(id: u16, name: &str, kind: Kind) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(HEAD_BYTES + name.len() + 6);
    out.extend_from_slice(&id.to_be_bytes());
    // A recursive query with one question.
    out.extend_from_slice(&[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.') {
        if label.is_empty() || label.len() > LABEL_BYTES_MAX {
            return None;
        }
        out.push(label.len() as u8);
        out.extend_from_slice(label.as_bytes());
    }
    out.push(0);
    if out.len() - HEAD_BYTES > NAME_BYTES_MAX {
        return None;
    }
    out.extend_from_slice(&kind.number().to_be_bytes());
    out.extend_from_slice(&CLASS_IN.to_be_bytes());
    Some(out)
}

/// Reads an answer. `tcp`: it came over TCP, where nothing may be cut off.
pub fn parse(bytes: &[u8], tcp: bool) -> Result<Answer, Malformed> {
    let word = |at: usize| {
        let pair = bytes.get(at..at + 2).ok_or(Malformed::Short)?;
        Ok(u16::from_be_bytes([pair[0], pair[1]]))
    };
    if bytes.len() < HEAD_BYTES {
        return Err(Malformed::Short);
    }
    let (id, flags) = (word(0)?, word(2)?);
    let truncated = flags & 0x0200 != 0;
    if flags & 0xf870 != 0x8000 || truncated && tcp {
        return Err(Malformed::Flags { id, flags });
    }
    let code = (flags & 0xf) as u8;
    if code == 1 || code > 5 {
        return Err(Malformed::Error { id, code });
    }
    if word(4)? != 1 {
        return Err(Malformed::Questions);
    }
    let (name, at) = question(bytes)?;
    let kind = match word(at)? {
        1 => Kind::A,
        28 => Kind::Aaaa,
        33 => Kind::Srv,
        other => return Err(Malformed::QueryType(other)),
    };
    let class = word(at + 2)?;
    if class != CLASS_IN {
        return Err(Malformed::QueryClass(class));
    }
    let mut answer =
        Answer { id, code, truncated, name, kind: Some(kind), ttl: u32::MAX, ..Answer::default() };
    if code == 0 && !truncated {
        records(bytes, at + 4, word(6)?, kind, &mut answer)?;
    }
    Ok(answer)
}

/// The question's name and where its type is.
fn question(bytes: &[u8]) -> Result<(String, usize), Malformed> {
    let mut at = HEAD_BYTES;
    loop {
        match *bytes.get(at).ok_or(Malformed::Short)? {
            0 => break,
            length if length & 0xc0 != 0 => return Err(Malformed::Pointer),
            length => at += 1 + usize::from(length),
        }
    }
    if at == HEAD_BYTES {
        return Err(Malformed::EmptyName);
    }
    Ok((name(bytes, HEAD_BYTES)?, at + 1))
}

fn records(
    bytes: &[u8],
    start: usize,
    count: u16,
    asked: Kind,
    answer: &mut Answer,
) -> Result<(), Malformed> {
    let mut at = start;
    let mut found = Vec::new();
    answer.has_records = count > 0;
    for _ in 0..count {
        let owner = name(bytes, at)?;
        at = past_name(bytes, at)?;
        let Some(&[k1, k2, c1, c2, t1, t2, t3, t4, l1, l2]) = bytes.get(at..).and_then(|b| b.first_chunk())
        else {
            return Err(Malformed::Short);
        };
        let class = u16::from_be_bytes([c1, c2]);
        if class != CLASS_IN {
            return Err(Malformed::Class(class));
        }
        let ttl = i32::from_be_bytes([t1, t2, t3, t4]).max(0) as u32;
        at += 10;
        let length = usize::from(u16::from_be_bytes([l1, l2]));
        let kind = u16::from_be_bytes([k1, k2]);
        if let Some(data) = record(bytes, at, length, kind, asked, answer)? {
            found.push(Record { owner, ttl, data });
        }
        at += length;
    }
    believe(found, answer);
    Ok(())
}

/// A record that may bear on the question.
struct Record {
    owner: String,
    ttl: u32,
    data: Data,
}

enum Data {
    Address(IpAddr),
    Service(Srv),
    Alias(String),
}

/// Takes what is about the name that was asked for, or about a name that it is an alias of. RFC 5452 §6: whatever else a server
/// adds is not its business. Aliases may stand in any order.
fn believe(found: Vec<Record>, answer: &mut Answer) {
    let mut names = vec![answer.name.clone()];
    while names.len() <= MESSAGE_ALIASES_MAX {
        let last = names.last().cloned().unwrap_or_default();
        let alias = found.iter().rev().find_map(|record| match &record.data {
            Data::Alias(to) if record.owner == last && !names.contains(to) => Some(to.clone()),
            _ => None,
        });
        let Some(alias) = alias else { break };
        names.push(alias);
    }
    answer.cname = names.get(1..).and_then(<[String]>::last).cloned();
    for Record { owner, ttl, data } in found {
        if !names.contains(&owner) {
            answer.foreign.push(owner);
            continue;
        }
        answer.ttl = answer.ttl.min(ttl);
        match data {
            Data::Address(address) => answer.addresses.push(address),
            Data::Service(service) => answer.services.push(service),
            Data::Alias(_) => {}
        }
    }
}

/// Reads a record; `None` if it is of a kind that does not matter.
fn record(
    bytes: &[u8],
    at: usize,
    length: usize,
    kind: u16,
    asked: Kind,
    answer: &mut Answer,
) -> Result<Option<Data>, Malformed> {
    let data = bytes.get(at..at + length);
    Ok(match kind {
        1 | 28 => {
            let (word, wanted, size) = if kind == 1 { ("A", Kind::A, 4) } else { ("AAAA", Kind::Aaaa, 16) };
            if asked != wanted {
                return Err(Malformed::Unexpected(word));
            }
            if length != size {
                return Err(Malformed::Address(word));
            }
            let data = data.ok_or(Malformed::Short)?;
            Some(Data::Address(match <[u8; 4]>::try_from(data) {
                Ok(four) => Ipv4Addr::from(four).into(),
                Err(_) => Ipv6Addr::from(<[u8; 16]>::try_from(data).map_err(|_| Malformed::Short)?).into(),
            }))
        }
        33 if asked == Kind::Srv => {
            let Some(&[p1, p2, w1, w2, o1, o2]) = bytes.get(at..).and_then(|b| b.first_chunk()) else {
                return Err(Malformed::Short);
            };
            Some(Data::Service(Srv {
                priority: u16::from_be_bytes([p1, p2]),
                weight: u16::from_be_bytes([w1, w2]).max(1),
                port: u16::from_be_bytes([o1, o2]),
                target: name(bytes, at + 6)?,
            }))
        }
        CNAME => Some(Data::Alias(name(bytes, at)?)),
        DNAME => None,
        other => {
            answer.strange.push(other);
            None
        }
    })
}

/// Where a record's name ends.
fn past_name(bytes: &[u8], start: usize) -> Result<usize, Malformed> {
    let mut at = start;
    loop {
        match *bytes.get(at).ok_or(Malformed::Short)? {
            length if length & 0xc0 != 0 => return Ok(at + 2),
            0 if at + 1 - start < 2 => return Err(Malformed::Name),
            0 => return Ok(at + 1),
            length => at += 1 + usize::from(length),
        }
    }
}

/// A name in lower case, pointers followed.
fn name(bytes: &[u8], start: usize) -> Result<String, Malformed> {
    let (mut at, mut jumps) = (start, 0);
    let mut out = Vec::new();
    loop {
        let length = usize::from(*bytes.get(at).ok_or(Malformed::Outside)?);
        match length {
            0 => break,
            _ if length & 0xc0 == 0xc0 => {
                let low = usize::from(*bytes.get(at + 1).ok_or(Malformed::Outside)?);
                at = (length & 0x3f) << 8 | low;
                jumps += 1;
                if jumps > POINTERS_MAX {
                    return Err(Malformed::Loop);
                }
            }
            _ if length & 0xc0 != 0 => return Err(Malformed::Label),
            _ => {
                let label = bytes.get(at + 1..at + 1 + length).ok_or(Malformed::Outside)?;
                if !out.is_empty() {
                    out.push(b'.');
                }
                out.extend(label.iter().map(u8::to_ascii_lowercase));
                if out.len() > NAME_BYTES_MAX {
                    return Err(Malformed::TooLong);
                }
                at += 1 + length;
            }
        }
    }
    // Other bytes than letters, digits, '-' and '_' occur; what is not text cannot be asked for again.
    String::from_utf8(out).map_err(|_| Malformed::Name)
}

/// Feeds bytes to [`parse`], for the fuzzer: whatever comes, it is an answer or an error.
pub fn fuzz(bytes: &[u8]) {
    for tcp in [false, true] {
        if let Ok(answer) = parse(bytes, tcp) {
            assert!(answer.name.len() <= NAME_BYTES_MAX);
            assert!(answer.addresses.len() + answer.services.len() < 1 << 16);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An answer with these records: name offset 12, type and data.
    pub(crate) fn answer(
        id: u16,
        flags: u16,
        name: &str,
        kind: Kind,
        records: &[(u16, u32, Vec<u8>)],
    ) -> Vec<u8> {
        let mut out = query(id, name, kind).unwrap();
        out[2..4].copy_from_slice(&flags.to_be_bytes());
        out[6..8].copy_from_slice(&(records.len() as u16).to_be_bytes());
        for (kind, ttl, data) in records {
            out.extend_from_slice(&[0xc0, 12]);
            out.extend_from_slice(&kind.to_be_bytes());
            out.extend_from_slice(&[0, 1]);
            out.extend_from_slice(&ttl.to_be_bytes());
            out.extend_from_slice(&(data.len() as u16).to_be_bytes());
            out.extend_from_slice(data);
        }
        out
    }

    #[test]
    fn queries_are_as_the_rfc_draws_them() {
        let bytes = query(0x1234, "www.example.com", Kind::A).unwrap();
        assert_eq!(
            bytes,
            b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03www\x07example\x03com\x00\x00\x01\x00\x01"
        );
        for bad in ["", "a..b", ".a", "a.", &"x".repeat(64), &["abcdefgh"; 30].join(".")] {
            assert_eq!(query(1, bad, Kind::A), None, "{bad}");
        }
    }

    #[test]
    fn addresses_aliases_and_times_are_read() {
        let records =
            [(CNAME, 60, b"\x01b\xc0\x0e".to_vec()), (1, 300, vec![10, 0, 0, 1]), (1, 20, vec![10, 0, 0, 2])];
        let answer = parse(&answer(7, 0x8180, "A.Example", Kind::A, &records), false).unwrap();
        assert_eq!((answer.id, answer.ttl, answer.name.as_str()), (7, 20, "a.example"));
        assert_eq!(answer.addresses, ["10.0.0.1", "10.0.0.2"].map(|a| a.parse::<IpAddr>().unwrap()));
        assert_eq!(answer.cname.as_deref(), Some("b.example"));
    }

    /// The same with an owner for each record, as it stands in the message.
    fn owned(name: &str, kind: Kind, records: &[(&str, u16, u32, Vec<u8>)]) -> Vec<u8> {
        let plain: Vec<_> = records.iter().map(|(_, kind, ttl, data)| (*kind, *ttl, data.clone())).collect();
        let whole = answer(7, 0x8180, name, kind, &plain);
        let mut at = query(7, name, kind).unwrap().len();
        let mut out = whole[..at].to_vec();
        for (owner, _, _, data) in records {
            out.extend(wire(owner));
            out.extend_from_slice(&whole[at + 2..at + 12 + data.len()]);
            at += 12 + data.len();
        }
        out
    }

    fn wire(name: &str) -> Vec<u8> {
        let labels = name.split('.').flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat());
        labels.chain([0]).collect()
    }

    /// RFC 5452 §6: what a server says about names that it was not asked for does not count.
    #[test]
    fn records_of_other_names_are_not_believed() {
        let a = |last: u8| vec![10, 0, 0, last];
        let check =
            |records: &[(&str, u16, u32, Vec<u8>)], addresses: &[u8], cname: Option<&str>, ttl: u32| {
                let answer = parse(&owned("x.y", Kind::A, records), false).unwrap();
                let want: Vec<IpAddr> = addresses.iter().map(|last| [10, 0, 0, *last].into()).collect();
                assert_eq!((answer.addresses, answer.cname.as_deref(), answer.ttl), (want, cname, ttl));
            };
        check(&[("evil.z", 1, 1, a(9)), ("X.Y", 1, 30, a(1))], &[1], None, 30);
        check(&[("evil.z", 1, 1, a(9))], &[], None, u32::MAX);
        // Aliases are followed from the name that was asked for, in whatever order they stand.
        let chain = [("b.z", 1, 9, a(2)), ("a.z", CNAME, 8, wire("b.z")), ("x.y", CNAME, 7, wire("a.z"))];
        check(&chain, &[2], Some("b.z"), 7);
        check(&[("a.z", CNAME, 1, wire("b.z")), ("b.z", 1, 1, a(3))], &[], None, u32::MAX);
        check(&[("x.y", CNAME, 7, wire("a.z")), ("b.z", 1, 1, a(3))], &[], Some("a.z"), 7);
        // A loop ends, and so does a chain without an end.
        let ring = [("x.y", CNAME, 7, wire("a.z")), ("a.z", CNAME, 7, wire("x.y")), ("a.z", 1, 5, a(4))];
        check(&ring, &[4], Some("a.z"), 5);
        let srv = owned("x.y", Kind::Srv, &[("evil.z", 33, 5, b"\0\x01\0\x01\0\x50\x01a\0".to_vec())]);
        let answer = parse(&srv, false).unwrap();
        assert_eq!((answer.services.len(), answer.foreign), (0, vec!["evil.z".to_string()]));
    }

    #[test]
    fn services_are_read() {
        let data = b"\x00\x01\x00\x00\x1f\x90\x04back\xc0\x0c".to_vec();
        let answer = parse(&answer(7, 0x8180, "x.y", Kind::Srv, &[(33, 5, data)]), false).unwrap();
        let want = Srv { priority: 1, weight: 1, port: 8080, target: "back.x.y".into() };
        assert_eq!(answer.services, [want]);
    }

    #[test]
    fn what_is_malformed_is_an_error() {
        let check = |bytes: &[u8], want: &str| {
            assert_eq!(parse(bytes, false).unwrap_err().to_string(), want);
        };
        let good = answer(7, 0x8180, "x.y", Kind::A, &[(1, 1, vec![1, 2, 3, 4])]);
        for end in 0..good.len() {
            assert!(parse(&good[..end], false).is_err(), "{end}");
        }
        check(&answer(7, 0x0180, "x.y", Kind::A, &[]), "invalid DNS response 7 fl:0180");
        check(&answer(7, 0x8181, "x.y", Kind::A, &[]), "DNS error (1: Format error), query id:7");
        check(&answer(7, 0x8180, "x.y", Kind::A, &[(1, 1, vec![])]), "invalid A record in DNS response");
        check(
            &answer(7, 0x8180, "x.y", Kind::A, &[(28, 1, vec![0; 16])]),
            "unexpected AAAA record in DNS response",
        );
        // The pointer at offset 31, where the data begins, means itself.
        let looped = answer(7, 0x8180, "x.y", Kind::A, &[(CNAME, 1, vec![0xc0, 33])]);
        check(&looped, "compression pointers loop in DNS response");
        check(
            &answer(7, 0x8180, "x.y", Kind::A, &[(CNAME, 1, vec![0xff, 255])]),
            "name is out of DNS response",
        );
        assert!(parse(&answer(7, 0x8380, "x.y", Kind::A, &[]), true).is_err());
        assert!(parse(&answer(7, 0x8380, "x.y", Kind::A, &[]), false).unwrap().truncated);
    }

    #[test]
    fn any_bytes_are_survived() {
        let good = answer(
            7,
            0x8180,
            "abc.def",
            Kind::A,
            &[(1, 1, vec![1, 2, 3, 4]), (CNAME, 1, b"\x01b\xc0\x0c".to_vec())],
        );
        let mut seed = 1u64;
        for _ in 0..200_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let mut bytes = good.clone();
            for shift in [5, 25, 45] {
                let at = (seed >> shift) as usize % bytes.len();
                bytes[at] = (seed >> (shift + 7)) as u8;
            }
            bytes.truncate((seed >> 11) as usize % (bytes.len() + 1));
            fuzz(&bytes);
        }
    }
}
