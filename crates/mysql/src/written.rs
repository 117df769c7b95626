//! What a session has written, according to the primary: a replica must have it before it may answer the session's reads.

use crate::limits::{GTID_BYTES_MAX, GTID_DOMAINS_MAX};
use crate::reply::Tracked;
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
    MySql(String),
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
            (Written::Nothing, Tracked::MySql(set)) => Written::MySql(set.clone()),
            (Written::MySql(have), Tracked::MySql(set)) if have.len() + set.len() < GTID_BYTES_MAX => {
                Written::MySql(format!("{have},{set}"))
            }
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
            Written::MySql(set) => Some(format!("SELECT GTID_SUBSET('{set}', @@global.gtid_executed)")),
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
        assert_eq!(written.question().unwrap(), "SELECT GTID_SUBSET('u:1,u:2', @@global.gtid_executed)");
        assert!(written.is_there(Some(b"1")) && !written.is_there(Some(b"0")));
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
