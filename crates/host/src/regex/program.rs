//! A pattern made ready for one engine or the other.

use super::captures::Span;
use super::translate::{Dialect, end_only, translate};
use crate::limits::{
    LINEAR_CACHE_BYTES_MAX, LINEAR_REGEX_BYTES_MAX, LINEAR_STRANGERS_CACHE_BYTES_MAX, PCRE_BYTES_MAX,
    PCRE_HEAP_KIB_MAX, PCRE_KEPT_SUBJECT_BYTES_MAX, PCRE_MATCH_LIMIT, PCRE_STEPS_BY_LENGTH,
};
use crate::log::level::LogLevel;
use crate::vars::Context;
use regex_automata::meta::Regex;
use regex_automata::util::syntax;
use std::fmt;
use std::sync::OnceLock;

/// PCRE2's error for a full stack of its compiled code.
const ERROR_JIT_STACKLIMIT: i32 = -46;

/// The names of a pattern's groups, the whole match first.
pub type Names = Vec<Option<String>>;

const NO_PART: Span = (usize::MAX, 0);

/// PCRE2 gave no answer: a limit was reached, or the subject is not what the pattern asks for (`(*UTF)`). Whatever hangs
/// on the match is undecided: the request is answered with 500.
#[derive(Debug)]
pub struct MatchError {
    error: pcre2::Error,
    pattern: Box<str>,
}

impl MatchError {
    /// Logs it, and lets the request or session fail whatever the caller makes of the match.
    pub fn fail<C: Context>(&self, of: &C) {
        of.log(LogLevel::Alert, format_args!("{self}"));
        of.store().fail();
    }
}

impl fmt::Display for MatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pcre2_match() failed: {} using \"{}\"", self.error, self.pattern)
    }
}

/// `pcre_jit`: whether PCRE2 makes machine code of a pattern. Off unless asked for, as in nginx: in a few of a million
/// random cases (PCRE2 10.46: `0?((][ct]{,2}))` on `]`) that finds something else than the interpreter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Jit {
    /// Patterns are interpreted.
    #[default]
    Off,
    /// Patterns are compiled to machine code (`pcre_jit on`).
    On,
}

/// Why a pattern cannot be compiled: PCRE2's words, and where in the pattern.
pub type CompileError = (String, Option<usize>);

/// See the module's head.
pub struct Program {
    pattern: Box<str>,
    caseless: bool,
    dialect: Dialect,
    names: Names,
    engine: Engine,
}

enum Engine {
    Linear(Linear),
    Pcre(Pcre),
}

/// For patterns that [`translate`] accepts.
pub struct Linear {
    regex: Regex,
    /// In the linear engine's syntax.
    pub translated: Box<str>,
    /// What subjects are matched with that end with a newline; `None`: the same.
    before_newline: Option<Pcre>,
}

/// A pattern that runs on PCRE2, with limits.
pub struct Pcre {
    regex: pcre2::bytes::Regex,
    jit: Jit,
    /// The same with lower limits, for longer subjects: PCRE2 counts the steps from each place of the subject anew. They are made when
    /// there is such a subject.
    longer: [OnceLock<Option<Box<pcre2::bytes::Regex>>>; PCRE_STEPS_BY_LENGTH.len()],
}

impl Program {
    /// Compiles a pattern. What PCRE2 refuses is an error, whichever engine would run it.
    pub fn compile(
        pattern: &str,
        caseless: bool,
        dialect: Dialect,
        jit: Jit,
    ) -> Result<Program, CompileError> {
        let mut pcre = Pcre::compile(pattern, caseless, dialect, Jit::Off)?;
        let names = pcre.regex.capture_names().to_vec();
        let linear = translate(pattern, caseless, dialect).and_then(|translated| {
            let regex = linear(&translated.pattern, dialect)?;
            // The number of groups is the same by construction.
            (regex.captures_len() == names.len()).then_some((regex, translated))
        });
        let engine = match linear {
            Some((regex, translated)) => Engine::Linear(Linear {
                regex,
                translated: translated.pattern.into(),
                before_newline: translated.has_dollar.then_some(pcre),
            }),
            None => {
                if jit == Jit::On {
                    pcre = Pcre::compile(pattern, caseless, dialect, jit)?;
                }
                Engine::Pcre(pcre)
            }
        };
        Ok(Program { pattern: pattern.into(), caseless, dialect, names, engine })
    }

    /// Bytes of memory that it takes, without what threads keep to run it: as the linear engine counts them, and at most so many on PCRE2.
    pub fn bytes(&self) -> usize {
        let pcre = || {
            // A class of bytes has 32; what is repeated so many times is copied so often.
            let is_repeated = self.pattern.contains('{');
            if is_repeated { PCRE_BYTES_MAX } else { PCRE_BYTES_MAX.min(256 + 40 * self.pattern.len()) }
        };
        let engine = match &self.engine {
            Engine::Linear(linear) => {
                let before_newline = linear.before_newline.as_ref().map_or(0, |_| pcre());
                linear.regex.memory_usage() + linear.translated.len() + before_newline
            }
            Engine::Pcre(_) => 2 * pcre(),
        };
        size_of::<Program>() + self.pattern.len() + engine
    }

    /// As it is written.
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// The names of its groups.
    pub fn names(&self) -> &[Option<String>] {
        &self.names
    }

    /// What runs it, if that is the linear engine.
    pub fn linear(&self) -> Option<&Linear> {
        match &self.engine {
            Engine::Linear(linear) => Some(linear),
            Engine::Pcre(_) => None,
        }
    }

    /// What is to run with this subject.
    fn engine(&self, subject: &[u8]) -> Run<'_> {
        match &self.engine {
            Engine::Pcre(pcre) => Run::Pcre(pcre),
            Engine::Linear(Linear { before_newline: Some(pcre), .. }) if subject.last() == Some(&b'\n') => {
                Run::Pcre(pcre)
            }
            Engine::Linear(linear) => Run::Linear(&linear.regex),
        }
    }

    /// Whether it matches anywhere.
    pub fn is_match(&self, subject: &[u8]) -> Result<bool, MatchError> {
        match self.engine(subject) {
            Run::Linear(regex) => Ok(regex.is_match(subject)),
            Run::Pcre(_) => Ok(self.find(subject)?.is_some()),
        }
    }

    /// Where the first match is.
    pub fn find(&self, subject: &[u8]) -> Result<Option<Span>, MatchError> {
        match self.engine(subject) {
            Run::Linear(regex) => Ok(regex.find(subject).map(|found| (found.start(), found.end()))),
            Run::Pcre(pcre) => self.backtrack(pcre, |pcre| self.of_length(pcre, subject, find)),
        }
    }

    /// Where the groups of the first match are, the whole match first.
    pub fn spans(&self, subject: &[u8]) -> Result<Option<Vec<Span>>, MatchError> {
        let groups = self.names.len().max(1);
        match self.engine(subject) {
            Run::Linear(regex) => {
                let mut captures = regex.create_captures();
                regex.captures(subject, &mut captures);
                let span = |group| captures.get_group(group).map_or(NO_PART, |span| (span.start, span.end));
                Ok(captures.is_match().then(|| (0..groups).map(span).collect()))
            }
            Run::Pcre(pcre) => {
                let spans = |regex: &pcre2::bytes::Regex, subject: &[u8]| spans(regex, subject, groups);
                self.backtrack(pcre, |pcre| self.of_length(pcre, subject, spans))
            }
        }
    }

    /// Runs a pattern with the limits for so long a subject.
    fn of_length<T>(
        &self,
        pcre: &Pcre,
        subject: &[u8],
        run: impl Fn(&pcre2::bytes::Regex, &[u8]) -> Result<T, pcre2::Error>,
    ) -> Result<T, pcre2::Error> {
        let class = PCRE_STEPS_BY_LENGTH.iter().rposition(|&(longer, _)| subject.len() > longer);
        let Some(class) = class.filter(|_| pcre.jit == Jit::Off && !is_anchored(&self.pattern)) else {
            return run(&pcre.regex, subject);
        };
        let lower = pcre.longer[class].get_or_init(|| {
            let limit = PCRE_STEPS_BY_LENGTH[class].1;
            Pcre::build(&self.pattern, self.caseless, self.dialect, Jit::Off, limit).ok().map(Box::new)
        });
        // What was compiled once is compiled again.
        run(lower.as_deref().unwrap_or(&pcre.regex), subject)
    }

    /// Asks PCRE2. The stack of its machine code is small; where that overflows, its interpreter is asked.
    fn backtrack<T>(
        &self,
        pcre: &Pcre,
        run: impl Fn(&Pcre) -> Result<T, pcre2::Error>,
    ) -> Result<T, MatchError> {
        let result = run(pcre).or_else(|error| {
            if error.code() != ERROR_JIT_STACKLIMIT {
                return Err(error);
            }
            let slow = Pcre::compile(&self.pattern, self.caseless, self.dialect, Jit::Off);
            slow.map_err(|_| error).and_then(|slow| run(&slow))
        });
        result.map_err(|error| MatchError { error, pattern: self.pattern.clone() })
    }
}

/// One of the two engines.
enum Run<'p> {
    Linear(&'p Regex),
    Pcre(&'p Pcre),
}

/// For the linear engine, which may refuse what is too large.
fn linear(translated: &str, dialect: Dialect) -> Option<Regex> {
    let cache_bytes_max = match dialect {
        Dialect::Nginx => LINEAR_CACHE_BYTES_MAX,
        Dialect::Apache => LINEAR_STRANGERS_CACHE_BYTES_MAX,
    };
    let config = Regex::config()
        .utf8_empty(false)
        .nfa_size_limit(Some(LINEAR_REGEX_BYTES_MAX))
        .hybrid_cache_capacity(cache_bytes_max);
    let syntax = syntax::Config::new().unicode(false).utf8(false);
    Regex::builder().configure(config).syntax(syntax).build(translated).ok()
}

impl Linear {
    /// Whether only PCRE2 knows if this subject matches.
    pub fn leaves_to_pcre(&self, subject: &[u8]) -> bool {
        self.before_newline.is_some() && subject.last() == Some(&b'\n')
    }
}

impl Pcre {
    /// The error says what is wrong, and where in the pattern.
    pub fn compile(pattern: &str, caseless: bool, dialect: Dialect, jit: Jit) -> Result<Pcre, CompileError> {
        let regex = Pcre::build(pattern, caseless, dialect, jit, PCRE_MATCH_LIMIT)?;
        Ok(Pcre { regex, jit, longer: [const { OnceLock::new() }; PCRE_STEPS_BY_LENGTH.len()] })
    }

    fn build(
        pattern: &str,
        caseless: bool,
        dialect: Dialect,
        jit: Jit,
        steps_max: u32,
    ) -> Result<pcre2::bytes::Regex, CompileError> {
        let rewritten = (dialect == Dialect::Apache).then(|| end_only(pattern));
        let pattern = rewritten.as_deref().unwrap_or(pattern);
        let (leading, limits) = limits(pattern, steps_max);
        let limited = format!("{}{limits}{}", &pattern[..leading], &pattern[leading..]);
        let mut builder = pcre2::bytes::RegexBuilder::new();
        let built = builder
            .caseless(caseless)
            .dotall(dialect == Dialect::Apache)
            .jit_if_available(jit == Jit::On)
            .build(&limited);
        built.map_err(|error| {
            let at =
                error.offset().map(|at| if at <= leading { at } else { at.saturating_sub(limits.len()) });
            let text = error.to_string();
            (text.rsplit(": ").next().unwrap_or(&text).to_string(), at)
        })
    }

    /// Where so many groups of the first match are. The memory for backtracking is given back.
    pub fn spans(&self, subject: &[u8], groups: usize) -> Result<Option<Vec<Span>>, pcre2::Error> {
        spans(&self.regex, subject, groups)
    }
}

/// Where the first match is.
fn find(regex: &pcre2::bytes::Regex, subject: &[u8]) -> Result<Option<Span>, pcre2::Error> {
    if subject.len() > PCRE_KEPT_SUBJECT_BYTES_MAX {
        return Ok(spans(regex, subject, 1)?.map(|spans| spans[0]));
    }
    Ok(regex.find(subject)?.map(|found| (found.start(), found.end())))
}

fn spans(
    regex: &pcre2::bytes::Regex,
    subject: &[u8],
    groups: usize,
) -> Result<Option<Vec<Span>>, pcre2::Error> {
    let mut locations = regex.capture_locations();
    let found = regex.captures_read(&mut locations, subject)?;
    Ok(found.map(|_| (0..groups).map(|i| locations.get(i).unwrap_or(NO_PART)).collect()))
}

/// Whether a pattern can match at the beginning of its subject only, as far as that is plain to see: it begins with `^`, which is no line's
/// beginning, and has no alternative beside.
fn is_anchored(pattern: &str) -> bool {
    if !pattern.starts_with('^') || pattern.contains("(?") && pattern.contains("m)") {
        return false;
    }
    let (mut depth, mut is_class, mut is_escape) = (0u32, false, false);
    for byte in pattern.bytes() {
        if std::mem::take(&mut is_escape) {
            continue;
        }
        match byte {
            b'\\' => is_escape = true,
            b'[' => is_class = true,
            b']' => is_class = false,
            _ if is_class => {}
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            b'|' if depth == 0 => return false,
            _ => {}
        }
    }
    true
}

/// What may stand before a pattern proper, `(*UTF)` for instance.
const LEADING: &[&str] = &[
    "UTF",
    "UTF8",
    "UCP",
    "NOTEMPTY",
    "NOTEMPTY_ATSTART",
    "NO_AUTO_POSSESS",
    "NO_DOTSTAR_ANCHOR",
    "NO_JIT",
    "NO_START_OPT",
    "CASELESS_RESTRICT",
    "TURKISH_CASING",
    "CR",
    "LF",
    "CRLF",
    "ANY",
    "ANYCRLF",
    "NUL",
    "BSR_ANYCRLF",
    "BSR_UNICODE",
];

/// Our limits as PCRE2 reads them, and where to put them: of several the last one counts. A pattern's own ones can only
/// be lower.
fn limits(pattern: &str, steps_max: u32) -> (usize, String) {
    let (mut matches, mut heap) = (u64::from(steps_max), u64::from(PCRE_HEAP_KIB_MAX));
    let mut at = 0;
    while let Some((item, _)) = pattern[at..].strip_prefix("(*").and_then(|rest| rest.split_once(')')) {
        match item.split_once('=') {
            Some(("LIMIT_MATCH", value)) => matches = value.parse().map_or(matches, |own| matches.min(own)),
            Some(("LIMIT_HEAP", value)) => heap = value.parse().map_or(heap, |own| heap.min(own)),
            Some(("LIMIT_DEPTH" | "LIMIT_RECURSION", _)) => {}
            _ if LEADING.contains(&item) => {}
            _ => break,
        }
        at += item.len() + "(*)".len();
    }
    (at, format!("(*LIMIT_MATCH={matches})(*LIMIT_HEAP={heap})"))
}
