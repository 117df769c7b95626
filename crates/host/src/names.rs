//! A table of host names: exact ones, then `*.x`, then `x.*`; the longest wildcard wins.

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

/// A host name as it is written, in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostPattern<'a> {
    /// Just this name.
    Exact(&'a [u8]),
    /// `*.example.com`, kept as `example.com`.
    Head(&'a [u8]),
    /// `www.example.*`, kept as `www.example`.
    Tail(&'a [u8]),
    /// `.example.com`: the name itself and everything below it.
    Both(&'a [u8]),
}

impl<'a> HostPattern<'a> {
    /// Reads a name. `None`: an asterisk stands where none may, or a label is empty.
    pub fn parse(text: &'a [u8]) -> Option<HostPattern<'a>> {
        let stars = memchr::memchr_iter(b'*', text).count();
        if stars > 1 || text.contains(&0) || memchr::memmem::find(text, b"..").is_some() {
            return None;
        }
        match text {
            [b'.', rest @ ..] if !rest.is_empty() && stars == 0 => Some(HostPattern::Both(rest)),
            [b'*', b'.', rest @ ..] if !rest.is_empty() => Some(HostPattern::Head(rest)),
            [rest @ .., b'.', b'*'] if !rest.is_empty() => Some(HostPattern::Tail(rest)),
            _ => (stars == 0).then_some(HostPattern::Exact(text)),
        }
    }
}

/// Values by host name.
pub struct Names<V> {
    exact: HashMap<Box<[u8]>, V>,
    head: HashMap<Box<[u8]>, V>,
    tail: HashMap<Box<[u8]>, V>,
}

impl<V> Default for Names<V> {
    fn default() -> Names<V> {
        Names { exact: HashMap::new(), head: HashMap::new(), tail: HashMap::new() }
    }
}

impl<V: Copy> Names<V> {
    /// Adds a name in lower case; false if it is there already, and then the first one stays.
    pub fn add(&mut self, pattern: HostPattern<'_>, value: V) -> bool {
        match pattern {
            HostPattern::Exact(key) => add(&mut self.exact, key, value),
            HostPattern::Head(key) => add(&mut self.head, key, value),
            HostPattern::Tail(key) => add(&mut self.tail, key, value),
            HostPattern::Both(key) => {
                let exact = add(&mut self.exact, key, value);
                add(&mut self.head, key, value) && exact
            }
        }
    }

    /// Whether there are no names.
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.head.is_empty() && self.tail.is_empty()
    }

    /// Gives memory back that is not needed, when all names are in.
    pub fn shrink_to_fit(&mut self) {
        self.exact.shrink_to_fit();
        self.head.shrink_to_fit();
        self.tail.shrink_to_fit();
    }

    /// The value for a name in lower case.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<V> {
        if let Some(value) = self.find_owned(name) {
            return Some(value);
        }
        if !self.tail.is_empty() {
            let mut rest = name;
            while let Some(dot) = memchr::memrchr(b'.', rest) {
                rest = &rest[..dot];
                if let Some(&value) = self.tail.get(rest) {
                    return Some(value);
                }
            }
        }
        None
    }

    /// As [`Names::find`], but for names alone whose end is written: anybody may have a name that `www.*` stands for.
    #[inline]
    pub fn find_owned(&self, name: &[u8]) -> Option<V> {
        if let Some(&value) = self.exact.get(name) {
            return Some(value);
        }
        if !self.head.is_empty() {
            // Labels are cut off the front one by one: the longest rest comes first.
            let mut rest = name;
            while let Some(dot) = memchr::memchr(b'.', rest) {
                rest = &rest[dot + 1..];
                if let Some(&value) = self.head.get(rest) {
                    return Some(value);
                }
            }
        }
        None
    }
}

fn add<V>(map: &mut HashMap<Box<[u8]>, V>, key: &[u8], value: V) -> bool {
    match map.entry(key.into()) {
        Entry::Occupied(_) => false,
        Entry::Vacant(slot) => {
            slot.insert(value);
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_stand_at_an_end() {
        let check = |text: &str, want| assert_eq!(HostPattern::parse(text.as_bytes()), want, "{text}");
        check("a.b", Some(HostPattern::Exact(b"a.b")));
        check("*.a.b", Some(HostPattern::Head(b"a.b")));
        check(".a.b", Some(HostPattern::Both(b"a.b")));
        check("a.*", Some(HostPattern::Tail(b"a")));
        check(".", Some(HostPattern::Exact(b".")));
        check("", Some(HostPattern::Exact(b"")));
        for bad in ["*", "*a", "a*.b", "*.a.*", "a..b", "*.", ".*", "a.*.b", ".a*"] {
            check(bad, None);
        }
    }

    #[test]
    fn exact_then_the_longest_head_then_the_longest_tail() {
        let mut names = Names::default();
        let all = ["a.com", "*.a.com", "*.b.a.com", ".d.org", "www.*", "www.x.*"];
        for (at, text) in all.iter().enumerate() {
            assert!(names.add(HostPattern::parse(text.as_bytes()).unwrap(), at));
        }
        let check = |name: &str, want: Option<&str>| {
            assert_eq!(names.find(name.as_bytes()).map(|at| all[at]), want, "{name}");
        };
        check("a.com", Some("a.com"));
        check("x.a.com", Some("*.a.com"));
        check("b.a.com", Some("*.a.com"));
        check("y.x.b.a.com", Some("*.b.a.com"));
        check("d.org", Some(".d.org"));
        check("e.d.org", Some(".d.org"));
        check("www.a.com", Some("*.a.com"));
        check("www.y", Some("www.*"));
        check("www.x.y.z", Some("www.x.*"));
        check("www", None);
        let owned = |name: &str| names.find_owned(name.as_bytes()).map(|at| all[at]);
        assert_eq!((owned("a.com"), owned("x.a.com")), (Some("a.com"), Some("*.a.com")));
        assert_eq!((owned("www.y"), owned("com")), (None, None));
        check("wwww.y", None);
        check("", None);
        assert!(!names.add(HostPattern::Both(b"a.com"), 9), "the name itself is taken");
        assert!(!names.add(HostPattern::Head(b"d.org"), 9));
    }
}
