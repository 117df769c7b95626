//! `SetEnvIf`, `SetEnvIfNoCase`, `BrowserMatch`, `SetEnvIfExpr`: variables by what a request is.

use crate::expr::{Condition, Evaluation, Place};
use crate::limits::LINE_WORK_BYTES;
use crate::syntax::Words;
use crate::{Captures, EnvChange, Facts, Pattern, Patterns, Stop, Variable};

/// One line.
#[derive(Debug)]
pub struct Line<P> {
    subject: Subject<P>,
    test: Test<P>,
    /// Names with values; `None` removes the variable.
    changes: Vec<EnvChange>,
}

#[derive(Debug)]
enum Subject<P> {
    Variable(Variable),
    /// A field of the request, else a variable of the environment.
    Name(Vec<u8>),
    /// The last field whose name matches.
    Fields(P),
    /// An expression needs none.
    None,
}

#[derive(Debug)]
enum Test<P> {
    Pattern(P),
    Expression(Condition<P>),
}

/// Which directive it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `SetEnvIf`
    If,
    /// `SetEnvIfNoCase`
    IfNoCase,
    /// `SetEnvIfExpr`
    IfExpr,
    /// `BrowserMatch`
    Browser,
    /// `BrowserMatchNoCase`
    BrowserNoCase,
}

impl<P> Line<P> {
    /// The arguments of a line.
    ///
    /// # Errors
    /// What is wrong with them, in Apache's words.
    pub fn parse(
        kind: Kind,
        args: &[u8],
        place: Place,
        patterns: &impl Patterns<Pattern = P>,
    ) -> Result<Line<P>, String> {
        let ignores_case = matches!(kind, Kind::IfNoCase | Kind::BrowserNoCase);
        let mut words = Words(args);
        let subject = match kind {
            Kind::IfExpr => Subject::None,
            Kind::Browser | Kind::BrowserNoCase => Subject::Name(b"User-Agent".to_vec()),
            Kind::If | Kind::IfNoCase => {
                let name = words.next().ok_or("Missing header-field name")?;
                subject(name, ignores_case, patterns)?
            }
        };
        let text = words.next().ok_or("Missing regular expression")?;
        let test = if kind == Kind::IfExpr {
            Test::Expression(Condition::parse(&text, place, patterns)?)
        } else {
            let compiled = patterns.compile(&text, ignores_case);
            Test::Pattern(compiled.map_err(|why| format!("regex could not be compiled: {why}"))?)
        };
        let changes: Vec<_> = words.map(|word| change(&word)).collect();
        if changes.is_empty() {
            return Err("Missing envariable expression".into());
        }
        Ok(Line { subject, test, changes })
    }
}

fn subject<S: Patterns>(
    name: Vec<u8>,
    ignores_case: bool,
    patterns: &S,
) -> Result<Subject<S::Pattern>, String> {
    let variable = match name.to_ascii_lowercase().as_slice() {
        b"remote_addr" => Variable::RemoteAddr,
        b"remote_host" => Variable::RemoteHost,
        b"request_uri" => Variable::RequestUri,
        b"request_method" => Variable::RequestMethod,
        b"request_protocol" => Variable::ServerProtocol,
        b"server_addr" => Variable::ServerAddr,
        // What no name of a field may have makes it a pattern for names.
        _ if name.iter().any(|byte| !(byte.is_ascii_alphanumeric() || b"_-".contains(byte))) => {
            let compiled = patterns.compile(&name, ignores_case);
            return compiled
                .map(Subject::Fields)
                .map_err(|why| format!("Header name regex could not be compiled: {why}"));
        }
        _ => return Ok(Subject::Name(name)),
    };
    Ok(Subject::Variable(variable))
}

/// `name`, `name=value` or `!name`.
fn change(word: &[u8]) -> EnvChange {
    match word.iter().position(|&byte| byte == b'=') {
        Some(equals) if equals + 1 < word.len() => {
            let value = &word[equals + 1..];
            (word[..equals].to_vec(), (!value.starts_with(b"!")).then(|| value.to_vec()))
        }
        equals => match &word[..equals.unwrap_or(word.len())] {
            [b'!', name @ ..] => (name.to_vec(), None),
            name => (name.to_vec(), Some(b"1".to_vec())),
        },
    }
}

impl<P: Pattern> Line<P> {
    /// The changes that the line makes for a request: none if it does not apply. `request` gives the fields of the request, which few
    /// lines read.
    ///
    /// # Errors
    /// A fact is to come, or a pattern cannot be tried.
    pub fn changes(
        &self,
        request: &dyn Fn() -> Vec<(Vec<u8>, Vec<u8>)>,
        facts: &dyn Facts,
    ) -> Result<Vec<EnvChange>, Stop> {
        facts.spend(LINE_WORK_BYTES)?;
        let mut captures = Captures::default();
        match &self.test {
            Test::Expression(condition) => {
                let mut evaluation = Evaluation::new(facts);
                if !evaluation.holds(condition)? {
                    return Ok(Vec::new());
                }
                captures = evaluation.captures;
            }
            Test::Pattern(pattern) => {
                let value = self.subject.value(request, facts)?;
                facts.spend(value.len())?;
                match pattern.find(&value)? {
                    Some(spans) => captures.set(&value, spans),
                    None => return Ok(Vec::new()),
                }
            }
        }
        let one = |(name, value): &EnvChange| {
            facts.spend(name.len() + LINE_WORK_BYTES)?;
            if !captures.is_set() {
                // Where no pattern has matched, dollar signs mean themselves, as in Apache.
                return Ok((name.clone(), value.clone()));
            }
            let value = value.as_ref().map(|value| captures.substituted(value, facts)).transpose()?;
            Ok((name.clone(), value))
        };
        self.changes.iter().map(one).collect()
    }
}

impl<P: Pattern> Subject<P> {
    fn value(
        &self,
        request: &dyn Fn() -> Vec<(Vec<u8>, Vec<u8>)>,
        facts: &dyn Facts,
    ) -> Result<Vec<u8>, Stop> {
        Ok(match self {
            Subject::None => Vec::new(),
            Subject::Variable(variable) => facts.variable(variable)?.into_owned(),
            Subject::Name(name) => {
                let value = facts.request_field(name).or_else(|| facts.env(name));
                value.unwrap_or_default().into_owned()
            }
            Subject::Fields(pattern) => {
                let mut found = Vec::new();
                for (name, value) in request() {
                    facts.spend(name.len() + value.len())?;
                    if pattern.find(&name)?.is_some() {
                        found = value;
                    }
                }
                found
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Request, Rust};

    fn changes(kind: Kind, line: &str) -> Result<String, String> {
        let line = Line::parse(kind, line.as_bytes(), Place::Override, &Rust)?;
        let mut request = Request::default();
        request.fields.push(("User-Agent".into(), "Mozilla/4.0".into()));
        request.env.push(("SET".into(), "yes".into()));
        request.variables.push((Variable::RequestUri, "/a.gif".into()));
        let fields = || vec![(b"TS-One".to_vec(), b"1".to_vec()), (b"TS-Two".to_vec(), b"2".to_vec())];
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let shown = |(name, value): &EnvChange| match value {
            Some(value) => format!("{}={}", text(name), text(value)),
            None => format!("!{}", text(name)),
        };
        let changes = line.changes(&fields, &request).map_err(|stop| format!("{stop:?}"))?;
        Ok(changes.iter().map(shown).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn lines() {
        for (kind, line, wanted) in [
            (Kind::If, "Request_URI \\.(gif)$ image=$1 !html", "image=gif !html"),
            (Kind::If, "Request_URI \\.png$ image", ""),
            (Kind::If, "user-agent Mozilla moz=1 old", "moz=1 old=1"),
            (Kind::If, "User-Agent mozilla moz", ""),
            (Kind::IfNoCase, "User-Agent mozilla moz", "moz=1"),
            (Kind::If, "SET yes again", "again=1"),
            (Kind::If, "None ^$ empty", "empty=1"),
            (Kind::If, "^TS. (.) last=$1", "last=2"),
            (Kind::Browser, "^Mozilla/4 nokeepalive !gzip", "nokeepalive=1 !gzip"),
            (Kind::IfExpr, "\"%{REQUEST_URI} =~ /a.(.)/\" a=$1", "a=g"),
            (Kind::IfExpr, "\"%{REQUEST_URI} =~ /b/\" a", ""),
        ] {
            assert_eq!(changes(kind, line).as_deref(), Ok(wanted), "{line}");
        }
        for line in ["", "a", "a b", "a ( c", "( b c"] {
            changes(Kind::If, line).expect_err(line);
        }
        assert!(changes(Kind::If, "a FAIL b").expect_err("no verdict").contains("Failed"));
    }

    #[test]
    fn what_lines_make_is_bounded() {
        let line = format!("SET (.*) {}", "A=$1$1$1$1$1$1$1$1 ".repeat(400));
        let line = Line::parse(Kind::If, line.as_bytes(), Place::Override, &Rust).expect("a line");
        let mut request = Request::default();
        request.env.push(("SET".into(), "x".repeat(1 << 14)));
        let stop = line.changes(&Vec::new, &request).expect_err("too much");
        assert!(matches!(stop, Stop::Failed(_)), "{stop:?}");
    }
}
