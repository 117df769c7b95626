//! What a session has written, according to the primary: a replica must have it before it may answer the session's reads.

use crate::limits::{GTID_BYTES_MAX, GTID_DOMAINS_MAX};
use crate::reply::Tracked;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// See the module's head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Written {
    /// Nothing: any replica will do.
    #[default]
    Nothing,
    /// The last transaction of each domain of MariaDB. Those of a domain come in order.
    MariaDb(Vec<(u32, String)>),
    /// A set of MySQL's transactions.
    MySql(Ranges),
    /// It is not known: no replica will do.
    Unknown,
}

impl Written {
    /// Adds what an answer has told.
    pub fn add(&mut self, tracked: &Tracked) {
        let before = std::mem::take(self);
        *self = match (before, tracked) {
            (before, Tracked::Nothing) => before,
            (Written::Nothing, Tracked::MariaDb(list)) => domains(Vec::new(), list),
            (Written::MariaDb(have), Tracked::MariaDb(list)) => domains(have, list),
            (Written::Nothing, Tracked::MySql(set)) => Ranges::default().and(set),
            (Written::MySql(have), Tracked::MySql(set)) => have.and(set),
            _ => Written::Unknown,
        };
    }

    /// The statement that tells whether a replica has all of it, without waiting: see [`Written::is_there`]. `None`: there is
    /// nothing to ask.
    pub fn question(&self) -> Option<String> {
        match self {
            Written::Nothing | Written::Unknown => None,
            Written::MariaDb(domains) => {
                let mut list = String::new();
                for (_, gtid) in domains {
                    let comma = if list.is_empty() { "" } else { "," };
                    let _ = write!(list, "{comma}{gtid}");
                }
                Some(format!("SELECT MASTER_GTID_WAIT('{list}', 0)"))
            }
            Written::MySql(set) => {
                Some(format!("SELECT GTID_SUBSET('{}', @@global.gtid_executed)", set.text()))
            }
        }
    }

    /// Whether a replica's answer to the question is yes.
    pub fn is_there(&self, value: Option<&[u8]>) -> bool {
        match self {
            Written::Nothing => true,
            Written::MariaDb(_) => value == Some(b"0"),
            Written::MySql(_) => value == Some(b"1"),
            Written::Unknown => false,
        }
    }
}

/// With a list of `domain-server-number` added.
fn domains(mut have: Vec<(u32, String)>, list: &str) -> Written {
    for gtid in list.split(',') {
        let mut numbers = gtid.split('-');
        let domain = numbers.next().and_then(|number| number.parse().ok());
        let others = numbers.filter(|number| number.parse::<u64>().is_ok()).count();
        let (Some(domain), 2) = (domain, others) else { return Written::Unknown };
        let count = have.len();
        match have.iter_mut().find(|(of, _)| *of == domain) {
            Some((_, last)) => *last = gtid.to_string(),
            None if count == GTID_DOMAINS_MAX => return Written::Unknown,
            None => have.push((domain, gtid.to_string())),
        }
    }
    Written::MariaDb(have)
}

/// MySQL's transactions: by the server that gave them their numbers, from … to …, in order and apart from each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges(BTreeMap<String, Vec<(u64, u64)>>);

impl Ranges {
    /// With `uuid:1-5:7,uuid:1` added.
    fn and(mut self, set: &str) -> Written {
        let added = set.split(',').try_for_each(|of_server| self.add(of_server));
        if added.is_none() {
            return Written::Unknown;
        }
        if self.text().len() > GTID_BYTES_MAX {
            // Who has executed the last one has nearly always executed those between, too; until then it is not asked for reads.
            for ranges in self.0.values_mut() {
                if let (Some(&(first, _)), Some(&(_, last))) = (ranges.first(), ranges.last()) {
                    *ranges = vec![(first, last)];
                }
            }
        }
        if self.text().len() > GTID_BYTES_MAX { Written::Unknown } else { Written::MySql(self) }
    }

    fn add(&mut self, of_server: &str) -> Option<()> {
        let mut words = of_server.split(':');
        let mut name = words.next().filter(|name| !name.is_empty())?.to_string();
        let (uuid, mut has_range) = (name.len(), false);
        for word in words {
            // A tag (MySQL 8.4) stands before its numbers and holds until the next one.
            if word.starts_with(|first: char| !first.is_ascii_digit()) {
                name.truncate(uuid);
                name = format!("{name}:{word}");
                continue;
            }
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            let (first, last) = (first.parse().ok()?, last.parse().ok()?);
            if first > last {
                return None;
            }
            let ranges = self.0.entry(name.clone()).or_default();
            ranges.push((first, last));
            join(ranges);
            has_range = true;
        }
        has_range.then_some(())
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for (name, ranges) in &self.0 {
            let comma = if text.is_empty() { "" } else { "," };
            let _ = write!(text, "{comma}{name}");
            for (first, last) in ranges {
                let _ =
                    if first == last { write!(text, ":{first}") } else { write!(text, ":{first}-{last}") };
            }
        }
        text
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

#[cfg(test)]
mod tests {
    use super::*;

    fn after(tracked: &[Tracked]) -> Written {
        let mut written = Written::default();
        tracked.iter().for_each(|one| written.add(one));
        written
    }

    #[test]
    fn the_last_of_each_domain_is_asked_for() {
        let gtid = |text: &str| Tracked::MariaDb(text.into());
        let written = after(&[gtid("0-1-5"), Tracked::Nothing, gtid("1-1-2"), gtid("0-2-9")]);
        assert_eq!(written.question().unwrap(), "SELECT MASTER_GTID_WAIT('0-2-9,1-1-2', 0)");
        assert!(written.is_there(Some(b"0")) && !written.is_there(Some(b"-1")) && !written.is_there(None));
        let written = after(&[Tracked::MySql("u:1".into()), Tracked::MySql("u:2".into())]);
        assert_eq!(written.question().unwrap(), "SELECT GTID_SUBSET('u:1-2', @@global.gtid_executed)");
        assert!(written.is_there(Some(b"1")) && !written.is_there(Some(b"0")));
    }

    #[test]
    fn numbers_of_a_server_are_put_together() {
        let check = |sets: &[&str], want: &str| {
            let written = after(&sets.iter().map(|set| Tracked::MySql(set.to_string())).collect::<Vec<_>>());
            let question = written.question().unwrap_or_default();
            assert_eq!(question, format!("SELECT GTID_SUBSET('{want}', @@global.gtid_executed)"), "{sets:?}");
        };
        check(&["u:3", "u:1", "u:2"], "u:1-3");
        check(&["u:1-5:9", "v:1,u:7-8"], "u:1-5:7-9,v:1");
        check(&["u:1:tag:2:4", "u:3:tag:3"], "u:1:3,u:tag:2-4");
        // Others have written between: the list is not longer for that, and covers more.
        let many: Vec<String> = (0..2000).map(|number| format!("u:{}", 2 * number + 1)).collect();
        let written = after(&many.iter().map(|set| Tracked::MySql(set.clone())).collect::<Vec<_>>());
        let question = written.question().unwrap();
        assert!(question.len() < GTID_BYTES_MAX + 60 && question.contains("'u:1-"), "{question}");
        assert!(question.contains(":3999'"), "{question}");
        for wrong in ["", "u", "u:", "u:x-", "u:2-1", ":1", "u:1,", "u:tag"] {
            assert_eq!(after(&[Tracked::MySql(wrong.into())]), Written::Unknown, "{wrong}");
        }
        let many: Vec<_> = (0..GTID_BYTES_MAX).map(|server| Tracked::MySql(format!("u{server}:1"))).collect();
        assert_eq!(after(&many), Written::Unknown);
    }

    #[test]
    fn what_cannot_be_told_is_nowhere() {
        let gtid = |text: &str| Tracked::MariaDb(text.into());
        for wrong in ["", "1", "1-2", "1-2-3-4", "a-1-2", "1-2-x", "1-2-3,"] {
            assert_eq!(after(&[gtid(wrong)]), Written::Unknown, "{wrong}");
        }
        assert_eq!(after(&[Tracked::Unknown, gtid("0-1-5")]), Written::Unknown);
        assert_eq!(after(&[gtid("0-1-5"), Tracked::MySql("u:1".into())]), Written::Unknown);
        let many: Vec<_> = (0..=GTID_DOMAINS_MAX).map(|domain| gtid(&format!("{domain}-1-1"))).collect();
        assert_eq!(after(&many), Written::Unknown);
        assert!(!Written::Unknown.is_there(Some(b"0")));
        assert_eq!((Written::Unknown.question(), Written::Nothing.question()), (None, None));
        assert!(Written::Nothing.is_there(None));
    }
}
