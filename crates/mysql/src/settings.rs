//! What a session has set: commands that another connection is told of, in their order, before it carries out anything for the session.
//!
//! Each has a number of its own, which grows. What a later one replaces is forgotten, so that an application that chooses its database again
//! and again does not fill the list.

use crate::limits::{SETTINGS_BYTES_MAX, SETTINGS_MAX};

/// What a command sets. Two of one kind, but for [`Kind::Other`], set the same thing, and nothing of another kind but `Other` depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The default database.
    Database,
    /// `SET NAMES`.
    Names,
    /// COM_SET_OPTION.
    Option,
    /// Plain values of variables; two of them set the same if they are the same.
    Other,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Later ones have larger numbers. The first one's is 1.
    pub number: u64,
    /// The command.
    pub message: Vec<u8>,
    kind: Kind,
}

impl Setting {
    fn is_replaced_by(&self, later: &Setting) -> bool {
        self.kind == later.kind && (self.kind != Kind::Other || self.message == later.message)
    }
}

/// See the module's head.
#[derive(Debug, Default)]
pub struct Settings {
    kept: Vec<Setting>,
    bytes: usize,
    /// The last number that was given.
    last: u64,
}

impl Settings {
    /// The number of the last one; 0: there was none. A connection that was told of it was told of all.
    pub fn position(&self) -> u64 {
        self.last
    }

    /// Those that a connection lacks that was told of all up to this number.
    pub fn after(&self, told: u64) -> impl Iterator<Item = &Setting> {
        self.kept.iter().filter(move |setting| setting.number > told)
    }

    /// What they occupy.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds one. `needed`: the largest position of a statement that is to be prepared on other connections: what was set up to then must stay
    /// as it was. False: there are too many, and it is not kept.
    pub(crate) fn add(&mut self, message: Vec<u8>, kind: Kind, needed: u64) -> bool {
        self.last += 1;
        let new = Setting { number: self.last, message, kind };
        let mut at = self.kept.len();
        let mut later = vec![at];
        self.kept.push(new);
        while at > 0 {
            at -= 1;
            let setting = &self.kept[at];
            if needed >= setting.number {
                break;
            }
            if later.iter().any(|&later| setting.is_replaced_by(&self.kept[later])) {
                self.kept.remove(at);
                later.iter_mut().for_each(|later| *later -= 1);
            } else if setting.kind == Kind::Other {
                // What came before it may matter to it.
                break;
            } else {
                later.push(at);
            }
        }
        self.count();
        let fits = self.kept.len() <= SETTINGS_MAX && self.bytes <= SETTINGS_BYTES_MAX;
        if !fits {
            self.kept.pop();
            self.count();
        }
        fits
    }

    fn count(&mut self) {
        self.bytes = self.kept.iter().map(|setting| setting.message.len() + size_of::<Setting>()).sum();
    }

    /// Nothing is set any more.
    pub(crate) fn clear(&mut self) {
        self.kept = Vec::new();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(message: &str) -> Kind {
        match &message[..1] {
            "d" => Kind::Database,
            "n" => Kind::Names,
            "m" => Kind::Option,
            _ => Kind::Other,
        }
    }

    /// `|`: a statement is prepared there that is kept.
    fn check(set: &str, want: &str) {
        let (mut settings, mut needed) = (Settings::default(), 0);
        for one in set.split(' ') {
            match one {
                "|" => needed = settings.position(),
                one => assert!(settings.add(one.into(), kind(one), needed)),
            }
        }
        let kept: Vec<_> =
            settings.after(0).map(|setting| String::from_utf8_lossy(&setting.message)).collect();
        assert_eq!(kept.join(" "), want, "{set}");
        let sum: usize = kept.iter().map(|message| message.len() + size_of::<Setting>()).sum();
        assert_eq!(settings.bytes(), sum);
        assert!(settings.kept.is_sorted_by_key(|setting| setting.number));
    }

    #[test]
    fn what_a_later_one_replaces_is_forgotten() {
        check("d1 d2 d3", "d3");
        check("n1 d1 n2 d2 m1 d3 m2", "n2 d3 m2");
        // What is between may depend on it.
        check("d1 s1 d2", "d1 s1 d2");
        check("d1 s1 d1 d2", "d1 s1 d2");
        // The same again.
        check("n1 s1 n1 s1 n1 s1", "n1 s1");
        check("n1 s1 n2 s2 n3 s1", "n1 s1 n2 s2 n3 s1");
        check("s1 s1 s2 s1", "s1 s2 s1");
    }

    #[test]
    fn what_a_statement_was_prepared_with_stays() {
        check("d1 | d2", "d1 d2");
        check("d1 | d2 d3", "d1 d3");
        check("d1 n1 | d2 n2 d3 | d4", "d1 n1 n2 d3 d4");
        check("| d1 d2", "d2");
    }

    #[test]
    fn a_connection_is_told_of_what_came_later() {
        let mut settings = Settings::default();
        for message in ["d1", "s1", "d2", "d3"] {
            settings.add(message.into(), kind(message), 0);
        }
        let after = |told| settings.after(told).map(|setting| setting.number).collect::<Vec<_>>();
        assert_eq!((after(0), after(2), after(3), after(4)), (vec![1, 2, 4], vec![4], vec![4], vec![]));
        assert_eq!(settings.position(), 4);
        settings.clear();
        // Nobody takes what comes now for what was told.
        settings.add(b"d4".to_vec(), Kind::Database, 0);
        assert_eq!((settings.position(), settings.after(4).count()), (5, 1));
    }

    #[test]
    fn there_are_limits() {
        let mut settings = Settings::default();
        let mut fits = (0..).map(|at: u32| settings.add(at.to_le_bytes().to_vec(), Kind::Other, 0));
        assert_eq!(fits.by_ref().take_while(|fits| *fits).count(), SETTINGS_MAX);
        assert!(!Settings::default().add(vec![0; SETTINGS_BYTES_MAX], Kind::Names, 0));
    }
}
