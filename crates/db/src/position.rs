//! How far a server has come, and whether it has what another one, or a session, has written.

use crate::limits::{POSITION_BYTES_MAX, POSITION_PARTS_MAX};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

/// A set of transactions: all that a server has, or those that a session waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Position {
    /// MariaDB's GTIDs: of each domain the last transaction, `0-1-100,2-1-5`.
    MariaDb(MariaDbPosition),
    /// MySQL's GTIDs: of each server the numbers, `UUID:1-5:7,UUID:1`.
    MySql(MySqlPosition),
    /// PostgreSQL's place in the log, `0/16B3748`.
    Wal(u64),
}

/// By domain: the server that wrote the last transaction, and its number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MariaDbPosition(BTreeMap<u32, (u32, u64)>);

/// By server (its UUID, with a tag if there is one): numbers from … to …, in order and apart from each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MySqlPosition(BTreeMap<Box<str>, Vec<(u64, u64)>>);

/// A text that is no position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the server's position cannot be read")
    }
}

impl Position {
    /// Reads what MariaDB writes: one transaction, or several of different domains.
    pub fn mariadb(text: &str) -> Result<Position, Malformed> {
        MariaDbPosition::parse(text).map(Position::MariaDb)
    }

    /// Reads what MySQL writes.
    pub fn mysql(text: &str) -> Result<Position, Malformed> {
        MySqlPosition::parse(text).map(Position::MySql)
    }

    /// Reads what PostgreSQL writes.
    pub fn wal(text: &str) -> Result<Position, Malformed> {
        let (high, low) = text.split_once('/').ok_or(Malformed)?;
        let half = |text: &str| {
            let is_hex = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
            u32::from_str_radix(text, 16).ok().filter(|_| is_hex).map(u64::from).ok_or(Malformed)
        };
        Ok(Position::Wal(half(high)? << 32 | half(low)?))
    }

    /// Whether it says of no transaction: a server that numbers none has none to tell of.
    pub fn is_empty(&self) -> bool {
        match self {
            Position::MariaDb(position) => position.0.is_empty(),
            Position::MySql(position) => position.0.is_empty(),
            Position::Wal(_) => false,
        }
    }

    /// About what it occupies.
    pub fn bytes(&self) -> usize {
        const OF_SERVER: usize = 128;
        const OF_RANGE: usize = size_of::<(u64, u64)>();
        let more = match self {
            Position::MariaDb(position) => position.0.len() * OF_RANGE,
            Position::MySql(position) => {
                position.0.values().map(|ranges| OF_SERVER + ranges.len() * OF_RANGE).sum()
            }
            Position::Wal(_) => 0,
        };
        size_of::<Position>() + more
    }

    /// Whether all of `other` is in this one. Positions of different kinds are never in each other.
    pub fn covers(&self, other: &Position) -> bool {
        match (self, other) {
            (Position::MariaDb(have), Position::MariaDb(wanted)) => have.covers(wanted),
            (Position::MySql(have), Position::MySql(wanted)) => have.covers(wanted),
            (Position::Wal(have), Position::Wal(wanted)) => have >= wanted,
            _ => false,
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Position::MariaDb(position) => position.fmt(f),
            Position::MySql(position) => position.fmt(f),
            Position::Wal(at) => write!(f, "{:X}/{:X}", at >> 32, at & 0xffff_ffff),
        }
    }
}

impl MariaDbPosition {
    fn parse(text: &str) -> Result<MariaDbPosition, Malformed> {
        let mut position = MariaDbPosition::default();
        for part in parts(text)? {
            let mut numbers = part.split('-');
            let mut number = || numbers.next().and_then(digits).ok_or(Malformed);
            let domain = number()?.try_into().map_err(|_| Malformed)?;
            let server = number()?.try_into().map_err(|_| Malformed)?;
            let last = number()?;
            if numbers.next().is_some() || position.0.insert(domain, (server, last)).is_some() {
                return Err(Malformed);
            }
        }
        Ok(position)
    }

    /// Numbers grow within a domain, whichever server writes: a later one includes all before it. If two servers have
    /// given the same number to different transactions, neither includes the other's.
    fn covers(&self, other: &MariaDbPosition) -> bool {
        other.0.iter().all(|(domain, wanted)| {
            self.0.get(domain).is_some_and(|have| have.1 > wanted.1 || have == wanted)
        })
    }

    /// Of each domain the later one of both.
    #[must_use]
    pub fn and(mut self, other: MariaDbPosition) -> MariaDbPosition {
        for (domain, last) in other.0 {
            match self.0.entry(domain) {
                Entry::Vacant(place) => drop(place.insert(last)),
                Entry::Occupied(mut place) if place.get().1 < last.1 => drop(place.insert(last)),
                Entry::Occupied(_) => {}
            }
        }
        self
    }
}

impl fmt::Display for MariaDbPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (domain, (server, last))) in self.0.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            write!(f, "{comma}{domain}-{server}-{last}")?;
        }
        Ok(())
    }
}

impl MySqlPosition {
    fn parse(text: &str) -> Result<MySqlPosition, Malformed> {
        let mut position = MySqlPosition::default();
        for part in parts(text)? {
            let mut words = part.split(':').map(str::trim);
            let uuid = words.next().filter(|uuid| is_uuid(uuid)).ok_or(Malformed)?.to_ascii_lowercase();
            // A tag (MySQL 8.4) stands before its numbers and holds until the next one.
            let mut name = uuid.clone();
            let mut has_numbers = false;
            for word in words {
                if word.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
                    name = format!("{uuid}:{}", word.to_ascii_lowercase());
                    continue;
                }
                let (first, last) = word.split_once('-').unwrap_or((word, word));
                let (first, last) = (digits(first).ok_or(Malformed)?, digits(last).ok_or(Malformed)?);
                if first == 0 || last < first {
                    return Err(Malformed);
                }
                position.0.entry(name.as_str().into()).or_default().push((first, last));
                has_numbers = true;
            }
            if !has_numbers {
                return Err(Malformed);
            }
        }
        position.0.values_mut().for_each(join);
        Ok(position)
    }

    fn covers(&self, other: &MySqlPosition) -> bool {
        let has = |have: &[(u64, u64)], wanted: &(u64, u64)| {
            // The last one that begins at or before it: others are apart from it.
            let at = have.partition_point(|range| range.0 <= wanted.0);
            at.checked_sub(1).is_some_and(|at| have[at].1 >= wanted.1)
        };
        other.0.iter().all(|(name, wanted)| {
            self.0.get(name).is_some_and(|have| wanted.iter().all(|range| has(have, range)))
        })
    }
}

impl fmt::Display for MySqlPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, ranges)) in self.0.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            write!(f, "{comma}{name}")?;
            for (first, last) in ranges {
                if first == last { write!(f, ":{first}")? } else { write!(f, ":{first}-{last}")? }
            }
        }
        Ok(())
    }
}

/// Puts ranges into order, and those together that touch.
fn join(ranges: &mut Vec<(u64, u64)>) {
    ranges.sort_unstable();
    ranges.dedup_by(|next, before| {
        let touches = next.0 <= before.1.saturating_add(1);
        if touches {
            before.1 = before.1.max(next.1);
        }
        touches
    });
}

/// What stands between commas; an empty text has no part.
fn parts(text: &str) -> Result<Vec<&str>, Malformed> {
    let text = text.trim();
    if text.len() > POSITION_BYTES_MAX {
        return Err(Malformed);
    }
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    if parts.len() > POSITION_PARTS_MAX { Err(Malformed) } else { Ok(parts) }
}

/// A number without a sign.
fn digits(text: &str) -> Option<u64> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
    const B: &str = "4e11fa47-71ca-11e1-9e33-c80aa9429562";

    #[test]
    fn mariadb() {
        let read = |text: &str| Position::mariadb(text);
        let covers = |have: &str, wanted: &str| read(have).unwrap().covers(&read(wanted).unwrap());
        assert!(covers("0-1-100", "0-1-100") && covers("0-1-100", "0-1-99") && covers("0-2-101", "0-1-100"));
        assert!(covers("0-1-1,1-1-7", "1-1-7") && covers("0-1-1", "") && covers("", ""));
        assert!(!covers("0-1-99", "0-1-100") && !covers("", "0-1-1") && !covers("1-1-100", "0-1-1"));
        // Both have written a transaction of this number: they have diverged.
        assert!(!covers("0-2-100", "0-1-100"));
        assert_eq!(
            read("2-1-5,0-1-18446744073709551615").unwrap().to_string(),
            "0-1-18446744073709551615,2-1-5"
        );
        for text in
            ["0-1", "0-1-2-3", "0-1-", "a-1-1", "0-1-1,", "0-1-1,0-1-2", "0-1-+1", "4294967296-1-1", "-"]
        {
            assert_eq!(read(text), Err(Malformed), "{text}");
        }
    }

    #[test]
    fn two_positions_of_one_server() {
        let read = |text: &str| MariaDbPosition::parse(text).unwrap();
        assert_eq!(read("0-1-5,1-1-9").and(read("0-2-7,1-1-3,2-1-1")), read("0-2-7,1-1-9,2-1-1"));
    }

    #[test]
    fn mysql() {
        let read = |text: &str| Position::mysql(text);
        let covers = |have: &str, wanted: &str| {
            let fill = |text: &str| text.replace('A', A).replace('B', B);
            read(&fill(have)).unwrap().covers(&read(&fill(wanted)).unwrap())
        };
        assert!(covers("A:1-5", "A:1-5") && covers("A:1-3:4-9", "A:2-8") && covers("A:1-5,\nB:1", "B:1"));
        assert!(covers("A:1-5", "") && covers("A:9:1-3", "A:9") && covers("A:1-5:tag:1-2", "A:tag:2"));
        assert!(!covers("A:1-5", "A:6") && !covers("A:1-5", "B:1") && !covers("A:1-3:5-9", "A:3-5"));
        assert!(!covers("A:1-5", "A:tag:1") && !covers("", "A:1"));
        assert_eq!(read(&format!("{A}:7:1-3:4")).unwrap().to_string(), format!("{A}:1-4:7"));
        for text in [A.to_string(), format!("{A}:"), format!("{A}:0"), format!("{A}:3-1"), "x:1".into()] {
            assert_eq!(read(&text), Err(Malformed), "{text}");
        }
    }

    #[test]
    fn wal() {
        let read = |text: &str| Position::wal(text).unwrap();
        assert!(read("1/0").covers(&read("0/FFFFFFFF")) && !read("0/1").covers(&read("0/2")));
        assert_eq!(read("16/B374D848").to_string(), "16/B374D848");
        for text in ["", "0", "/", "0/+1", "0/123456789", "g/0"] {
            assert_eq!(Position::wal(text), Err(Malformed), "{text}");
        }
    }

    #[test]
    fn kinds_are_not_compared() {
        let (a, b) = (Position::mariadb("").unwrap(), Position::mysql("").unwrap());
        assert!(!a.covers(&b) && !b.covers(&a) && !Position::Wal(1).covers(&a));
    }
}
