//! Regular expressions as nginx means them: PCRE2, of bytes.
//!
//! Patterns of which it is proven that the linear-time engine finds the same run on that (`regex/translate.rs`); all
//! others, and what depends on a newline at the end of the subject, on PCRE2 with limits. Where a
//! limit ends a match, it is neither there nor missing: the caller gets an error.

pub(crate) mod captures;
mod program;
mod translate;

pub mod fuzz;

pub use captures::Captures;
pub use program::{Jit, MatchError};
pub use translate::Dialect;

use crate::limits::{REGEX_SET_BYTES_MAX, REGEX_SET_MIN};
use crate::vars::{Context, Names, VarId};
use brisk_conf::{Diag, Token};
use captures::Span;
use program::Program;
use std::rc::Rc;

/// A compiled expression with the variables that its named groups fill.
pub struct Regex {
    program: Program,
    named: Box<[(usize, VarId)]>,
}

/// Several expressions that are tried in one pass, to skip those that cannot match.
pub struct RegexSet {
    set: regex::bytes::RegexSet,
    places: Vec<Place>,
}

/// One expression of a [`RegexSet`].
#[derive(Clone, Copy)]
enum Place {
    /// In the set, with this index.
    In(usize),
    /// Likewise, but for subjects that end with a newline.
    InUnlessNewline(usize),
    /// It runs on PCRE and is always tried.
    Out,
}

/// Which expressions of a [`RegexSet`] are worth trying on one subject.
pub struct Candidates<'s> {
    set: &'s RegexSet,
    ends_with_newline: bool,
    matches: Option<regex::bytes::SetMatches>,
}

impl RegexSet {
    /// `None` if the set would be too large or too small to pay.
    pub fn new<'r>(list: impl Iterator<Item = &'r Regex>) -> Option<RegexSet> {
        let mut patterns = Vec::new();
        let place = |regex: &'r Regex| {
            let Some(linear) = regex.program.linear() else { return Place::Out };
            patterns.push(&*linear.translated);
            let index = patterns.len() - 1;
            if linear.leaves_to_pcre(b"\n") { Place::InUnlessNewline(index) } else { Place::In(index) }
        };
        let places = list.map(place).collect();
        if patterns.len() < REGEX_SET_MIN {
            return None;
        }
        let built = regex::bytes::RegexSetBuilder::new(&patterns)
            .unicode(false)
            .size_limit(REGEX_SET_BYTES_MAX)
            .dfa_size_limit(REGEX_SET_BYTES_MAX)
            .build();
        built.ok().map(|set| RegexSet { set, places })
    }

    /// Which of the expressions can match `subject`.
    pub fn candidates(&self, subject: &[u8]) -> Candidates<'_> {
        let matches = self.set.is_match(subject).then(|| self.set.matches(subject));
        Candidates { set: self, ends_with_newline: subject.last() == Some(&b'\n'), matches }
    }
}

impl Candidates<'_> {
    /// Whether expression `index` can match.
    pub fn has(&self, index: usize) -> bool {
        match self.set.places[index] {
            Place::Out => true,
            Place::InUnlessNewline(_) if self.ends_with_newline => true,
            Place::In(place) | Place::InUnlessNewline(place) => {
                self.matches.as_ref().is_some_and(|matches| matches.matched(place))
            }
        }
    }
}

impl Regex {
    /// Compiles `pattern`, found in `token`. Named groups become variables.
    pub fn compile(
        vars: &mut dyn Names,
        pattern: &str,
        caseless: bool,
        jit: Jit,
        token: &Token,
    ) -> Result<Regex, Diag> {
        let program = Program::compile(pattern, caseless, Dialect::Nginx, jit).map_err(|(message, at)| {
            let place =
                at.map_or(String::new(), |at| format!(" at \"{}\"", pattern.get(at..).unwrap_or_default()));
            Diag::emerg(token.span, format!("pcre2_compile() failed: {message} in \"{pattern}\"{place}"))
                .help("the pattern is not a valid regular expression; quote it if it holds \"{\" or \";\"")
        })?;
        let mut named = Vec::new();
        for (index, name) in program.names().iter().enumerate() {
            let Some(name) = name else { continue };
            let id = vars.define_slot(name).ok_or_else(|| {
                Diag::emerg(token.span, format!("the duplicate \"{name}\" variable"))
                    .help("a named group cannot be called like a built-in variable")
            })?;
            named.push((index, id));
        }
        Ok(Regex { program, named: named.into() })
    }

    /// As it is written.
    pub fn pattern(&self) -> &str {
        self.program.pattern()
    }

    /// Number of capturing groups.
    pub fn groups(&self) -> usize {
        self.program.names().len().max(1) - 1
    }

    /// Matches without recording groups, and without a request that would fail with it.
    pub fn is_match(&self, subject: &[u8]) -> Result<bool, MatchError> {
        self.program.is_match(subject)
    }

    /// Matches, records the groups and sets the named ones' variables. After an error
    /// [`Store::have_failed`](crate::vars::Store::have_failed) tells that the request must fail, whatever the caller makes of it.
    pub fn exec<C: Context>(&self, of: &C, subject: &[u8]) -> Result<bool, MatchError> {
        if self.groups() == 0 {
            let found = self.program.find(subject).inspect_err(|error| error.fail(of))?;
            let Some(span) = found else { return Ok(false) };
            let mut captures = of.captures().borrow_mut();
            captures.spans.clear();
            captures.spans.push(span);
            captures.subject.clear();
            captures.subject.extend_from_slice(subject);
            return Ok(true);
        }
        let Some(spans) = self.spans(of, subject)? else { return Ok(false) };
        for &(group, id) in &*self.named {
            let value = match spans.get(group) {
                Some(&(start, end)) if start <= end => Some(Rc::from(&subject[start..end])),
                _ => Some(Rc::from(&b""[..])),
            };
            of.store().set(id, value);
        }
        let mut captures = of.captures().borrow_mut();
        captures.subject.clear();
        captures.subject.extend_from_slice(subject);
        captures.spans = spans;
        Ok(true)
    }

    /// The bounds of all groups of a match, group 0 first, which are recorded nowhere; the end lies before the start of a
    /// group that took no part. Errors are those of [`Regex::exec`].
    pub fn spans<C: Context>(&self, of: &C, subject: &[u8]) -> Result<Option<Vec<Span>>, MatchError> {
        self.program.spans(subject).inspect_err(|error| error.fail(of))
    }
}

/// An expression that comes up while requests are answered, as in SSI. Its groups are the caller's.
pub struct Adhoc(Program);

/// The groups of a match, the whole match first; `None` for one that took no part.
pub type Groups<'s> = Vec<Option<&'s [u8]>>;

impl Adhoc {
    /// Compiles `pattern`; the error is a message for the log.
    pub fn compile(pattern: &str) -> Result<Adhoc, String> {
        Adhoc::with_case(pattern, false, Dialect::Nginx)
    }

    /// As [`Adhoc::compile`]; `caseless`: letters match whatever their case.
    pub fn with_case(pattern: &str, caseless: bool, dialect: Dialect) -> Result<Adhoc, String> {
        let program = Program::compile(pattern, caseless, dialect, Jit::Off);
        program
            .map(Adhoc)
            .map_err(|(message, _)| format!("pcre2_compile() failed: {message} in \"{pattern}\""))
    }

    /// Bytes of memory that it takes, without what threads keep to run it.
    pub fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// Whether it takes a time in proportion to its subject's length.
    pub fn is_linear(&self) -> bool {
        self.0.linear().is_some()
    }

    /// The names of the groups, the whole match first.
    pub fn names(&self) -> &[Option<String>] {
        self.0.names()
    }

    /// The bounds of the groups of the first match, the whole match first; the end of one that took no part lies before its start.
    pub fn spans(&self, subject: &[u8]) -> Result<Option<Vec<(usize, usize)>>, MatchError> {
        self.0.spans(subject)
    }

    /// The groups of the first match; `None`: there is none.
    pub fn groups<'s>(&self, subject: &'s [u8]) -> Result<Option<Groups<'s>>, MatchError> {
        let spans = self.0.spans(subject)?;
        Ok(spans.map(|spans| spans.into_iter().map(|(start, end)| subject.get(start..end)).collect()))
    }
}

#[cfg(test)]
mod tests;
