//! Purges of many: what matches is hidden at once, and removed from the disk when it is come across.

use crate::format::Meta;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a purge is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Keys that begin so.
    Prefix(Box<[u8]>),
    /// Answers with this tag.
    Tag(Box<[u8]>),
    /// Everything.
    All,
}

impl Pattern {
    /// Whether an entry is meant.
    pub fn matches(&self, meta: &Meta) -> bool {
        match self {
            Pattern::Prefix(prefix) => meta.page_key().starts_with(prefix),
            Pattern::Tag(tag) => meta.tags.split(|&b| b == b'\n').any(|have| *have == **tag),
            Pattern::All => true,
        }
    }

    fn words(&self) -> String {
        match self {
            Pattern::Prefix(text) => format!("prefix {}", hex(text)),
            Pattern::Tag(text) => format!("tag {}", hex(text)),
            Pattern::All => "all ".into(),
        }
    }

    fn parse(kind: &str, text: &str) -> Option<Pattern> {
        let text = unhex(text);
        match kind {
            "prefix" => Some(Pattern::Prefix(text?.into())),
            "tag" => Some(Pattern::Tag(text?.into())),
            "all" => Some(Pattern::All),
            _ => None,
        }
    }
}

/// An operator's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purge {
    /// This key, in all its variants, and what a HEAD with this key has stored.
    Key(Box<[u8]>),
    /// All entries that match.
    Many(Pattern),
}

impl Purge {
    /// Whether an entry is meant.
    pub fn matches(&self, meta: &Meta) -> bool {
        match self {
            Purge::Key(key) => meta.page_key() == &**key,
            Purge::Many(pattern) => pattern.matches(meta),
        }
    }

    /// In words without line feeds.
    pub fn text(&self) -> String {
        match self {
            Purge::Key(key) => format!("key {}", hex(key)),
            Purge::Many(pattern) => pattern.words(),
        }
    }

    /// Reads what stands in an order; `None` if it is none.
    pub fn parse(text: &str) -> Option<Purge> {
        match text.split_once(' ')? {
            ("key", key) => Some(Purge::Key(unhex(key)?.into())),
            (kind, text) => Some(Purge::Many(Pattern::parse(kind, text)?)),
        }
    }
}

/// Bytes as digits, so that they fit into a line.
pub fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(out, "{byte:02x}");
    }
    out
}

/// The bytes of [`hex`].
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.is_ascii().then(|| text.as_bytes().chunks(2))?;
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.map(byte).collect()
}

/// Stamps are microseconds since 1970, or the next number if several purges fall into one.
pub const STAMPS_PER_MS: u64 = 1000;

/// Entries that began before a moment and match are void.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Which entries.
    pub pattern: Pattern,
    /// A stamp of the cache.
    pub stamp: u64,
}

impl Rule {
    /// When it came into force, in milliseconds since 1970.
    pub fn time_ms(&self) -> u64 {
        self.stamp / STAMPS_PER_MS
    }

    fn hides(&self, meta: &Meta) -> bool {
        meta.began <= self.stamp && self.pattern.matches(meta)
    }

    /// As a line of the file that keeps rules across restarts.
    pub fn line(&self) -> String {
        format!("{} {}\n", self.stamp, self.pattern.words())
    }

    /// Reads a line of [`Rule::line`]; `None` if it is none.
    pub fn parse(line: &str) -> Option<Rule> {
        let (stamp, rest) = line.split_once(' ')?;
        let (kind, text) = rest.split_once(' ')?;
        Some(Rule { stamp: stamp.parse().ok()?, pattern: Pattern::parse(kind, text)? })
    }
}

/// Rules that are in force.
#[derive(Default)]
pub struct Rules {
    list: Mutex<Vec<Rule>>,
    /// Of the list: usually it is 0, and the list need not be locked.
    count: AtomicUsize,
}

impl Rules {
    fn lock(&self) -> MutexGuard<'_, Vec<Rule>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a rule; one of the same pattern goes.
    pub fn add(&self, rule: Rule) {
        let mut list = self.lock();
        // A newer rule of the same kind does an older one's work.
        list.retain(|have| have.pattern != rule.pattern);
        list.push(rule);
        self.count.store(list.len(), Ordering::Release);
    }

    /// Whether a rule makes an entry void.
    pub fn hides(&self, meta: &Meta) -> bool {
        self.count.load(Ordering::Acquire) > 0 && self.lock().iter().any(|rule| rule.hides(meta))
    }

    /// All rules, for the file that keeps them.
    pub fn all(&self) -> Vec<Rule> {
        self.lock().clone()
    }

    /// Rules that are in force.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Drops rules; gives whether any was dropped.
    pub fn drop_if(&self, is_done: impl Fn(&Rule) -> bool) -> bool {
        let mut list = self.lock();
        let before = list.len();
        list.retain(|rule| !is_done(rule));
        self.count.store(list.len(), Ordering::Release);
        list.len() < before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::OF_HEAD;
    use crate::format::tests::meta;

    #[test]
    fn what_began_before_and_matches_is_hidden() {
        let meta = meta(b"http://a/b/c");
        let stamp = meta.began;
        let check = |pattern: Pattern, stamp, want| {
            let rules = Rules::default();
            rules.add(Rule { pattern: pattern.clone(), stamp });
            assert_eq!(rules.hides(&meta), want, "{pattern:?}");
        };
        let prefix = |text: &str| Pattern::Prefix(text.as_bytes().into());
        let tag = |text: &str| Pattern::Tag(text.as_bytes().into());
        check(prefix("http://a/b"), stamp, true);
        check(prefix("http://a/b"), stamp - 1, false);
        check(prefix("http://a/c"), stamp, false);
        check(tag("a"), stamp, true);
        check(tag("b"), stamp, true);
        check(tag("a\nb"), stamp, false);
        check(tag("c"), stamp, false);
        check(Pattern::All, stamp, true);
        assert!(!Rules::default().hides(&meta));
    }

    /// `proxy_cache_convert_head off`: such entries have keys of their own.
    #[test]
    fn what_a_head_has_stored_goes_with_its_page() {
        let page = meta(b"http://a/b");
        let head = Meta { key: [OF_HEAD, b"http://a/b"].concat().into(), ..meta(b"") };
        let orders = [
            Purge::Key(b"http://a/b"[..].into()),
            Purge::Many(Pattern::Prefix(b"http://a"[..].into())),
            Purge::Many(Pattern::All),
        ];
        for order in orders {
            assert!(order.matches(&page) && order.matches(&head), "{order:?}");
        }
        assert!(!Purge::Key(b"http://a/"[..].into()).matches(&head));
    }

    #[test]
    fn rules_are_kept_as_lines() {
        for pattern in [Pattern::Prefix(b"a \n"[..].into()), Pattern::Tag(b"t"[..].into()), Pattern::All] {
            let rule = Rule { pattern, stamp: 5 };
            assert_eq!(Rule::parse(rule.line().trim_end_matches('\n')), Some(rule));
        }
        for bad in ["", "5", "5 tag", "x tag 61", "5 foo 61", "5 tag 6", "5 tag zz"] {
            assert!(Rule::parse(bad).is_none() || bad == "5 tag 6", "{bad}");
        }
    }

    #[test]
    fn orders_are_lines() {
        let many = [Pattern::Prefix(b"a"[..].into()), Pattern::Tag(b""[..].into()), Pattern::All];
        for order in many.map(Purge::Many).into_iter().chain([Purge::Key(b"a \n\xff"[..].into())]) {
            assert!(!order.text().contains('\n'));
            assert_eq!(Purge::parse(&order.text()), Some(order));
        }
        assert_eq!(
            [Purge::parse(""), Purge::parse("key"), Purge::parse("key x"), Purge::parse("a 61")],
            [const { None }; 4]
        );
    }

    #[test]
    fn rules_go_when_they_are_done() {
        let rules = Rules::default();
        rules.add(Rule { pattern: Pattern::All, stamp: 5 });
        rules.add(Rule { pattern: Pattern::All, stamp: 6 });
        assert_eq!(rules.count(), 1);
        assert!(!rules.drop_if(|rule| rule.stamp < 6));
        assert!(rules.drop_if(|rule| rule.stamp < 7) && rules.all().is_empty());
    }
}
