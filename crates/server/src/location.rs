//! The locations inside one block, and which of them a URI belongs to.

use crate::conf::ids::LocationId;
use crate::limits::REGEX_SET_MIN;
use crate::regex::{Candidates, Regex, RegexSet};
use brisk_conf::{Diag, Token};
use hashbrown::{HashMap, HashSet};
use std::sync::OnceLock;

/// A prefix or exact location.
struct PrefixEntry {
    text: Box<[u8]>,
    /// Index of the longest other prefix that this one starts with.
    shorter: Option<u32>,
    /// `location /x`, if there is one besides `location = /x`.
    prefix: Option<LocationId>,
    exact: Option<LocationId>,
    /// `^~`, or without regular expressions at all: the longest prefix decides.
    no_regex: bool,
    /// `/x/` owned by a handler that wants `/x` redirected to it.
    /// nginx: a location that ends in a slash and passes requests on redirects the same path without it.
    auto_redirect: bool,
}

/// The locations directly inside one block.
pub struct LocationTree {
    /// Sorted by text.
    prefixes: Vec<PrefixEntry>,
    has_auto_redirect: bool,
    pub(crate) regexes: Vec<(Regex, LocationId)>,
    /// All of `regexes` in one, built when it is first needed.
    /// Compiled on first use: a thousand expressions in one cost time at a start that many hosts never make
    /// up for.
    set: OnceLock<Option<RegexSet>>,
}

/// What one level says of a URI.
pub(crate) enum Step {
    None,
    Exact(LocationId),
    Slash(LocationId),
    Prefix { id: LocationId, no_regex: bool },
}

impl LocationTree {
    /// From entries sorted by text.
    fn new(mut prefixes: Vec<PrefixEntry>, regexes: Vec<(Regex, LocationId)>) -> LocationTree {
        // Asked once here, so that sites without such a location pay nothing per request.
        link(&mut prefixes);
        let has_auto_redirect = prefixes.iter().any(|entry| entry.auto_redirect);
        LocationTree { prefixes, has_auto_redirect, regexes, set: OnceLock::new() }
    }

    /// All of them, in the order in which their blocks stand in the text.
    pub(crate) fn written(&self) -> Vec<(LocationId, Written<'_>)> {
        let prefixes = self.prefixes.iter().flat_map(|entry| {
            let prefix = Written::Prefix { text: &entry.text, no_regex: entry.no_regex };
            let exact = entry.exact.map(|id| (id, Written::Exact(&entry.text)));
            exact.into_iter().chain(entry.prefix.map(|id| (id, prefix)))
        });
        let regexes = self.regexes.iter().map(|(regex, id)| (*id, Written::Regex(regex)));
        let mut all: Vec<_> = prefixes.chain(regexes).collect();
        all.sort_by_key(|(id, _)| *id);
        all
    }

    /// Regular expressions that may match, where there are many.
    /// One expression after the other is quicker for a few.
    pub(crate) fn candidates(&self, uri: &[u8]) -> Option<Candidates<'_>> {
        if self.regexes.len() < REGEX_SET_MIN {
            return None;
        }
        let set = self.set.get_or_init(|| RegexSet::new(self.regexes.iter().map(|(regex, _)| regex)));
        set.as_ref().map(|set| set.candidates(uri))
    }

    /// What the prefixes and exact locations say of a URI.
    pub(crate) fn step(&self, uri: &[u8]) -> Step {
        // The greatest text that is not greater than the URI; its chain of shorter ones holds every prefix.
        let after = self.prefixes.partition_point(|entry| *entry.text <= *uri);
        let mut at = after.checked_sub(1);
        // An exact location beats everything, whatever stands elsewhere.
        if let Some(entry) = at.map(|i| &self.prefixes[i]).filter(|entry| *entry.text == *uri) {
            if let Some(id) = entry.exact {
                return Step::Exact(id);
            }
            if let Some(id) = entry.prefix {
                return Step::Prefix { id, no_regex: entry.no_regex };
            }
        }
        if let Some(id) = self.with_slash(uri, after) {
            return Step::Slash(id);
        }
        // Down the chain of shorter texts: the first that the URI begins with is the longest.
        while let Some(index) = at {
            let entry = &self.prefixes[index];
            if uri.starts_with(&entry.text)
                && let Some(id) = entry.prefix
            {
                return Step::Prefix { id, no_regex: entry.no_regex };
            }
            at = entry.shorter.map(|i| i as usize);
        }
        Step::None
    }

    /// The location that is the URI with a slash behind it and wants to be asked with it. `after` is the first text
    /// that is greater than the URI; others may stand between (`-` is less than `/`).
    // A folder's `/x/` sorts behind `/x`, but `/x-y` stands in between, so the list is searched.
    fn with_slash(&self, uri: &[u8], after: usize) -> Option<LocationId> {
        if !self.has_auto_redirect {
            return None;
        }
        let compare = |entry: &PrefixEntry| entry.text.iter().cmp(uri.iter().chain(b"/"));
        let index = self.prefixes[after..].binary_search_by(compare).ok()?;
        let entry = &self.prefixes[after + index];
        // As in nginx, which redirects for both kinds, by the settings of the exact one.
        entry.exact.or(entry.prefix).filter(|_| entry.auto_redirect)
    }
}

/// A location of a tree as it is written.
pub(crate) enum Written<'t> {
    Exact(&'t [u8]),
    Prefix { text: &'t [u8], no_regex: bool },
    Regex(&'t Regex),
}

impl Written<'_> {
    /// Bytes of the text; none of an expression.
    pub fn bytes(&self) -> usize {
        match self {
            Written::Exact(text) | Written::Prefix { text, .. } => text.len(),
            Written::Regex(_) => 0,
        }
    }

    /// It is for this path alone.
    pub fn is(&self, uri: &[u8]) -> bool {
        matches!(self, Written::Exact(text) if *text == uri)
    }

    /// It is a prefix, and the path begins so.
    pub fn is_prefix_of(&self, uri: &[u8]) -> bool {
        matches!(self, Written::Prefix { text, .. } if uri.starts_with(text))
    }

    /// It is an expression that matches. Nothing is captured.
    pub fn is_matched_by(&self, uri: &[u8]) -> bool {
        matches!(self, Written::Regex(regex) if regex.is_match(uri).unwrap_or(false))
    }

    /// As the block begins.
    pub fn shown(&self) -> String {
        let text = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
        match self {
            Written::Exact(path) => format!("= {}", text(path)),
            Written::Prefix { text: path, no_regex: true } => format!("^~ {}", text(path)),
            Written::Prefix { text: path, .. } => text(path),
            Written::Regex(regex) => format!("~ {}", regex.pattern()),
        }
    }
}

/// Named locations by name.
pub type NamedLocations = HashMap<Box<[u8]>, LocationId>;

/// How a location is written.
pub enum Pattern {
    /// `=`: just this URI.
    Exact(Box<[u8]>),
    /// URIs that begin with the text.
    Prefix {
        /// What they begin with.
        text: Box<[u8]>,
        /// `^~`: no regular expression is tried where this is the longest prefix.
        no_regex: bool,
    },
    /// `~` and `~*`: URIs that match.
    Regex(Regex),
    /// `@`: only by name.
    Named(Box<[u8]>),
}

/// Collects the locations of a block while it is built.
#[derive(Default)]
pub struct Scope {
    patterns: Vec<(Pattern, LocationId)>,
    /// What must be unique: how it is written, with the kind of match in front.
    seen: HashSet<(u8, Box<[u8]>)>,
}

impl Scope {
    /// Adds a location; two of the same are an error.
    pub fn add(&mut self, pattern: Pattern, id: LocationId, token: &Token) -> Result<(), Diag> {
        // Regular expressions may repeat.
        // As nginx takes them: the first one that matches counts.
        let key = match &pattern {
            Pattern::Exact(text) => Some((b'=', text.clone())),
            Pattern::Prefix { text, .. } => Some((b' ', text.clone())),
            Pattern::Named(text) => Some((b'@', text.clone())),
            Pattern::Regex(_) => None,
        };
        if key.is_some_and(|key| !self.seen.insert(key)) {
            return Err(Diag::emerg(token.span, format!("duplicate location \"{}\"", token.text()))
                .help("a location may be defined once in a block; merge the two"));
        }
        self.patterns.push((pattern, id));
        Ok(())
    }

    /// The finished tree and the named locations. `wants_slash`: a location whose handler wants `/x` redirected to `/x/`.
    pub(crate) fn finish(
        self,
        wants_slash: impl Fn(LocationId) -> bool,
    ) -> (Option<Box<LocationTree>>, NamedLocations) {
        let mut named = HashMap::new();
        let mut regexes = Vec::new();
        let mut texts: std::collections::BTreeMap<Box<[u8]>, PrefixEntry> = std::collections::BTreeMap::new();
        for (pattern, id) in self.patterns {
            let (text, exact, no_regex) = match pattern {
                Pattern::Named(name) => {
                    named.insert(name, id);
                    continue;
                }
                Pattern::Regex(regex) => {
                    regexes.push((regex, id));
                    continue;
                }
                Pattern::Exact(text) => (text, true, false),
                Pattern::Prefix { text, no_regex } => (text, false, no_regex),
            };
            // `= /x` and `/x` share an entry: one search finds both.
            let entry = texts.entry(text.clone()).or_insert(PrefixEntry {
                text,
                shorter: None,
                prefix: None,
                exact: None,
                no_regex: false,
                auto_redirect: false,
            });
            if exact {
                entry.exact = Some(id);
            } else {
                entry.prefix = Some(id);
                entry.no_regex = no_regex;
            }
            // Known only now, as a handler may be set anywhere in the block.
            entry.auto_redirect |= entry.text.ends_with(b"/") && wants_slash(id);
        }
        let tree = LocationTree::new(texts.into_values().collect(), regexes);
        // A block without locations has no tree, and nothing is searched there.
        let empty = tree.prefixes.is_empty() && tree.regexes.is_empty();
        ((!empty).then(|| Box::new(tree)), named)
    }
}

/// Links each text to the longest one that it starts with. The list is sorted, so a stack of open prefixes does it.
// Each text is pushed and popped once, so linking is linear.
fn link(prefixes: &mut [PrefixEntry]) {
    let mut open: Vec<u32> = Vec::new();
    for index in 0..prefixes.len() {
        while let Some(&top) = open.last() {
            if prefixes[index].text.starts_with(&prefixes[top as usize].text) {
                break;
            }
            open.pop();
        }
        prefixes[index].shorter = open.last().copied();
        open.push(index as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree of `=` exact, `>` auto-redirecting and plain prefixes; each location's number is its place in the list.
    fn tree(texts: &[&str]) -> LocationTree {
        let mut entries: std::collections::BTreeMap<Box<[u8]>, PrefixEntry> =
            std::collections::BTreeMap::new();
        for (index, written) in texts.iter().enumerate() {
            let text: Box<[u8]> = written.trim_start_matches(['=', '>']).as_bytes().into();
            let entry = entries.entry(text.clone()).or_insert(PrefixEntry {
                text,
                shorter: None,
                prefix: None,
                exact: None,
                no_regex: false,
                auto_redirect: written.starts_with('>'),
            });
            let id = Some(LocationId(index as u32));
            if written.starts_with('=') {
                entry.exact = id;
            } else {
                entry.prefix = id;
            }
        }
        LocationTree::new(entries.into_values().collect(), Vec::new())
    }

    fn check(texts: &[&str], uri: &str, want: &str) {
        let text = |id: LocationId| texts[id.0 as usize];
        let got = match tree(texts).step(uri.as_bytes()) {
            Step::None => "nothing".to_string(),
            Step::Exact(id) => text(id).to_string(),
            Step::Slash(id) => format!("redirect to {}", text(id)),
            Step::Prefix { id, .. } => text(id).to_string(),
        };
        assert_eq!(got, want, "{uri} in {texts:?}");
    }

    #[test]
    fn the_longest_prefix_wins() {
        let texts = ["/", "/a", "/ab", "=/a", "/a/b/c", "=/x"];
        check(&texts, "/", "/");
        check(&texts, "/a", "=/a");
        check(&texts, "/aa", "/a");
        check(&texts, "/abc", "/ab");
        check(&texts, "/a/b/d", "/a");
        check(&texts, "/a/b/cd", "/a/b/c");
        check(&texts, "/x", "=/x");
        check(&texts, "/xy", "/");
        check(&["/a"], "/b", "nothing");
    }

    #[test]
    fn a_missing_slash_is_redirected_unless_the_uri_has_a_location() {
        check(&["/", ">/a/", "/a-b", "/a-c"], "/a", "redirect to >/a/");
        check(&["/", ">/a/", "/a-b", "/a-c"], "/a/", ">/a/");
        check(&["/", "/a/"], "/a", "/");
        check(&["/a", ">/a/"], "/a", "/a");
        check(&["=/a", ">/a/"], "/a", "=/a");
        check(&["=/a/", ">/b/"], "/a", "nothing");
    }
}
