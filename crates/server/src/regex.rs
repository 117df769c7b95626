//! Regular expressions as nginx means them: PCRE's syntax, leftmost-first.
//!
//! What the linear-time engine can express runs on it; look-around and back-references go to PCRE2 with its JIT
//! compiler and a match limit.

use crate::limits::{PCRE_MATCH_LIMIT, REGEX_SET_BYTES_MAX, REGEX_SET_MIN};
use crate::request::Request;
use crate::vars::{Table, VarId};
use brisk_conf::{Diag, Token};
use std::rc::Rc;

enum Engine {
    Linear(regex::bytes::Regex),
    Pcre(pcre2::bytes::Regex),
}

/// A compiled expression with the variables that its named groups fill.
pub struct Regex {
    engine: Engine,
    pattern: Box<str>,
    caseless: bool,
    named: Box<[(usize, VarId)]>,
    groups: usize,
}

/// Several expressions that are tried in one pass, to skip those that cannot match.
pub struct RegexSet {
    set: regex::bytes::RegexSet,
    /// For each expression its place in the set; `None`: it runs on PCRE and is always tried.
    places: Vec<Option<usize>>,
}

/// Which expressions of a [`RegexSet`] are worth trying on one subject.
pub struct Candidates<'s> {
    set: &'s RegexSet,
    matches: Option<regex::bytes::SetMatches>,
}

impl RegexSet {
    /// `None` if the set would be too large or too small to pay.
    pub fn new<'r>(list: impl Iterator<Item = &'r Regex>) -> Option<RegexSet> {
        let mut patterns = Vec::new();
        let mut places = Vec::new();
        for regex in list {
            places.push(matches!(regex.engine, Engine::Linear(_)).then(|| {
                let flags = if regex.caseless { "(?i-u:" } else { "(?-u:" };
                patterns.push(format!("{flags}{})", regex.pattern));
                patterns.len() - 1
            }));
        }
        if patterns.len() < REGEX_SET_MIN {
            return None;
        }
        let built = regex::bytes::RegexSetBuilder::new(&patterns)
            .size_limit(REGEX_SET_BYTES_MAX)
            .dfa_size_limit(REGEX_SET_BYTES_MAX)
            .build();
        built.ok().map(|set| RegexSet { set, places })
    }

    pub fn candidates(&self, subject: &[u8]) -> Candidates<'_> {
        let matches = self.set.is_match(subject).then(|| self.set.matches(subject));
        Candidates { set: self, matches }
    }
}

impl Candidates<'_> {
    /// Whether expression `index` can match.
    pub fn has(&self, index: usize) -> bool {
        match self.set.places[index] {
            Some(place) => self.matches.as_ref().is_some_and(|m| m.matched(place)),
            None => true,
        }
    }
}

/// The groups of the last match in a request.
#[derive(Clone, Default)]
pub struct Captures {
    subject: Vec<u8>,
    /// Start and end per group, group 0 first; `usize::MAX` for a group that took no part.
    spans: Vec<(usize, usize)>,
}

impl Captures {
    pub fn clear(&mut self) {
        self.subject.clear();
        self.spans.clear();
    }

    pub fn group(&self, index: u8) -> &[u8] {
        match self.spans.get(usize::from(index)) {
            Some(&(start, end)) if start <= end && end <= self.subject.len() => &self.subject[start..end],
            _ => b"",
        }
    }

    pub fn append(&self, index: u8, out: &mut Vec<u8>) {
        out.extend_from_slice(self.group(index));
    }
}

impl Regex {
    /// Compiles `pattern`, found in `token`. Named groups become variables.
    pub fn compile(vars: &mut Table, pattern: &str, caseless: bool, token: &Token) -> Result<Regex, Diag> {
        let (engine, names) = compile(pattern, caseless).map_err(|(message, at)| {
            let place =
                at.map_or(String::new(), |at| format!(" at \"{}\"", pattern.get(at..).unwrap_or_default()));
            Diag::emerg(token.span, format!("pcre2_compile() failed: {message} in \"{pattern}\"{place}"))
                .help("the pattern is not a valid regular expression; quote it if it holds \"{\" or \";\"")
        })?;
        let groups = names.len().max(1) - 1;
        let mut named = Vec::new();
        for (index, name) in names.into_iter().enumerate() {
            let Some(name) = name else { continue };
            let id = vars.define_slot(&name).ok_or_else(|| {
                Diag::emerg(token.span, format!("the duplicate \"{name}\" variable"))
                    .help("a named group cannot be called like a built-in variable")
            })?;
            named.push((index, id));
        }
        Ok(Regex { engine, pattern: pattern.into(), caseless, named: named.into(), groups })
    }

    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// Number of capturing groups.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// Matches without recording groups. A runaway match counts as none and is logged by [`Regex::exec`] only.
    pub fn is_match(&self, subject: &[u8]) -> bool {
        match &self.engine {
            Engine::Linear(re) => re.is_match(subject),
            Engine::Pcre(re) => re.is_match(subject).unwrap_or(false),
        }
    }

    /// Matches and, if there are groups, records them in the request and sets the named ones' variables.
    pub fn exec(&self, r: &Request, subject: &[u8]) -> bool {
        if self.groups == 0 {
            return self.matched_whole(r, subject);
        }
        let Some(spans) = self.spans(r, subject) else { return false };
        for &(group, id) in &*self.named {
            let value = match spans.get(group) {
                Some(&(start, end)) if start <= end => Some(Rc::from(&subject[start..end])),
                _ => Some(Rc::from(&b""[..])),
            };
            r.vars.set(id, value);
        }
        let mut captures = r.captures.borrow_mut();
        captures.subject.clear();
        captures.subject.extend_from_slice(subject);
        captures.spans = spans;
        true
    }

    /// The bounds of all groups of a match, group 0 first, which are recorded nowhere; the end lies before the start of a
    /// group that took no part.
    pub fn spans(&self, r: &Request, subject: &[u8]) -> Option<Vec<(usize, usize)>> {
        let mut spans = Vec::with_capacity(self.groups + 1);
        let found = match &self.engine {
            Engine::Linear(re) => {
                let mut locations = re.capture_locations();
                let found = re.captures_read(&mut locations, subject).is_some();
                let group = |i| locations.get(i).unwrap_or((usize::MAX, 0));
                spans.extend((0..=self.groups).map(group));
                found
            }
            Engine::Pcre(re) => {
                let mut locations = re.capture_locations();
                match re.captures_read(&mut locations, subject) {
                    Ok(found) => {
                        let group = |i| locations.get(i).unwrap_or((usize::MAX, 0));
                        spans.extend((0..=self.groups).map(group));
                        found.is_some()
                    }
                    Err(error) => self.failed(r, &error),
                }
            }
        };
        found.then_some(spans)
    }

    fn matched_whole(&self, r: &Request, subject: &[u8]) -> bool {
        let (start, end) = match &self.engine {
            Engine::Linear(re) => match re.find(subject) {
                Some(found) => (found.start(), found.end()),
                None => return false,
            },
            Engine::Pcre(re) => match re.find(subject) {
                Ok(Some(found)) => (found.start(), found.end()),
                Ok(None) => return false,
                Err(error) => return self.failed(r, &error),
            },
        };
        let mut captures = r.captures.borrow_mut();
        captures.subject.clear();
        captures.subject.extend_from_slice(subject);
        captures.spans.clear();
        captures.spans.push((start, end));
        true
    }

    fn failed(&self, r: &Request, error: &pcre2::Error) -> bool {
        crate::rlog!(r, Alert, "pcre2_match() failed: {error} on \"{}\"", self.pattern);
        false
    }
}

/// An expression that comes up while requests are answered, as in SSI. Its groups are the caller's.
pub struct Adhoc {
    engine: Engine,
    names: Names,
}

impl Adhoc {
    /// Compiles `pattern`; the error is a message for the log.
    pub fn compile(pattern: &str) -> Result<Adhoc, String> {
        let (engine, names) = compile(pattern, false)
            .map_err(|(message, _)| format!("pcre2_compile() failed: {message} in \"{pattern}\""))?;
        Ok(Adhoc { engine, names })
    }

    /// The names of the groups, the whole match first.
    pub fn names(&self) -> &[Option<String>] {
        &self.names
    }

    /// The groups of the first match, the whole match first; `None`: there is none. The error is a runaway match.
    pub fn groups<'s>(&self, subject: &'s [u8]) -> Result<Option<Vec<Option<&'s [u8]>>>, String> {
        let count = self.names.len().max(1);
        let groups = |get: &dyn Fn(usize) -> Option<(usize, usize)>| {
            let group = |i| get(i).and_then(|(start, end)| subject.get(start..end));
            (0..count).map(group).collect()
        };
        match &self.engine {
            Engine::Linear(re) => {
                let mut locations = re.capture_locations();
                let found = re.captures_read(&mut locations, subject);
                Ok(found.map(|_| groups(&|i| locations.get(i))))
            }
            Engine::Pcre(re) => {
                let mut locations = re.capture_locations();
                let found = re.captures_read(&mut locations, subject);
                let found = found.map_err(|error| format!("pcre2_match() failed: {error}"))?;
                Ok(found.map(|_| groups(&|i| locations.get(i))))
            }
        }
    }
}

type Names = Vec<Option<String>>;

fn compile(pattern: &str, caseless: bool) -> Result<(Engine, Names), (String, Option<usize>)> {
    if linear_means_the_same(pattern)
        && let Ok(re) = regex::bytes::RegexBuilder::new(pattern)
            .case_insensitive(caseless)
            .unicode(false)
            .size_limit(4 << 20)
            .build()
    {
        let names = re.capture_names().map(|n| n.map(str::to_string)).collect();
        return Ok((Engine::Linear(re), names));
    }
    let limited = format!("(*LIMIT_MATCH={PCRE_MATCH_LIMIT}){pattern}");
    match pcre2::bytes::RegexBuilder::new().caseless(caseless).jit_if_available(true).build(&limited) {
        Ok(re) => {
            let names = re.capture_names().to_vec();
            Ok((Engine::Pcre(re), names))
        }
        Err(error) => {
            let at = error.offset().map(|at| at.saturating_sub(limited.len() - pattern.len()));
            let text = error.to_string();
            let text = text.rsplit(": ").next().unwrap_or(&text).to_string();
            Err((text, at))
        }
    }
}

/// Constructs that both engines accept but understand differently go to PCRE2.
fn linear_means_the_same(pattern: &str) -> bool {
    // `$` matches before a final newline in PCRE; a URI may end with one (%0a), so only `$` at the very end matters,
    // and there the difference is a newline that a file name hardly has: still PCRE's reading is the contract.
    // Classes: `[[`, `&&`, `--`, `~~` are set operations here and plain characters there.
    // `\<`, `\>`, `\z` and friends differ as well, and an unescaped `{` that is no counter is an error only here.
    let differs =
        ["[[", "&&", "--", "~~", "\\<", "\\>", "\\h", "\\R", "\\K", "\\Z", "\\N", "(?#", "\\e", "\\G", "\\Q"];
    pattern.is_ascii() && !differs.iter().any(|d| pattern.contains(d))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, subject: &str) -> bool {
        let (engine, _) = compile(pattern, false).unwrap();
        match engine {
            Engine::Linear(re) => re.is_match(subject.as_bytes()),
            Engine::Pcre(re) => re.is_match(subject.as_bytes()).unwrap(),
        }
    }

    #[test]
    fn both_engines_answer_alike() {
        assert!(matches(r"\.php$", "/a.php"));
        assert!(matches(r"^/(?!private)", "/public"));
        assert!(!matches(r"^/(?!private)", "/private"));
        assert!(matches(r"^/(\w)\1$", "/aa"));
        assert!(compile("(", false).is_err());
    }

    #[test]
    fn groups_of_both_engines() {
        for pattern in [r"(?P<a>x+)(y)?", r"(?P<a>x+)(?=y|$)(y)?"] {
            let regex = Adhoc::compile(pattern).unwrap();
            assert_eq!(regex.names()[1].as_deref(), Some("a"));
            let groups = regex.groups(b"-xxy").unwrap().unwrap();
            assert_eq!(groups, [Some(&b"xxy"[..]), Some(b"xx"), Some(b"y")]);
            assert_eq!(regex.groups(b"-xx").unwrap().unwrap()[2], None);
            assert_eq!(regex.groups(b"-").unwrap(), None);
        }
        assert!(Adhoc::compile("(").is_err_and(|error| error.starts_with("pcre2_compile() failed: ")));
    }

    #[test]
    fn a_runaway_match_ends() {
        let (engine, _) = compile(r"^(?=(a+)+$)(a+)+$", false).unwrap();
        let Engine::Pcre(re) = engine else { panic!("look-ahead needs PCRE") };
        let _ = re.is_match(&[b'a'; 40].iter().copied().chain(*b"!").collect::<Vec<_>>());
    }
}
