//! `match NAME { … }`: what an answer must be like.

use brisk_conf::{Arity, Diag, Directive, Token};
use brisk_server::conf::Cx;
use brisk_server::regex::Regex;
use brisk_server::request::Request;
use brisk_server::vars::Template;
use brisk_upstream::head::BackendHead;
use std::sync::Arc;

/// Conditions that must all hold. Without any, the status must be 2xx or 3xx.
#[derive(Default)]
pub struct Match {
    tests: Vec<Test>,
    /// Variables, as they were written, that must be neither empty nor 0.
    required: Vec<(Box<str>, Template)>,
}

enum Test {
    Status { not: bool, ranges: Vec<(u16, u16)> },
    Header { name: Box<[u8]>, how: How },
    Body { not: bool, pattern: Regex },
}

/// What is asked of a header.
enum How {
    Present,
    Absent,
    Is(Box<[u8]>),
    IsNot(Box<[u8]>),
    Like(Regex),
    Unlike(Regex),
}

/// Directives that stand in the block: checked here, because the block is data.
fn inner() -> [(&'static str, Arity); 4] {
    [
        ("status", Arity::SOME),
        ("header", Arity::between(1, 3)),
        ("body", Arity::TWO),
        ("require", Arity::SOME),
    ]
}

/// The setter.
pub fn block(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let name = d.arg(0).str().to_string();
    let mut wanted = Match::default();
    for line in d.block.as_deref().unwrap_or_default() {
        condition(cx, line, &mut wanted)?;
    }
    if cx.global.named.insert(("match", name.clone()), Arc::new(Arc::new(wanted))).is_some() {
        return Err(Diag::emerg(d.arg(0).span, format!("duplicate match \"{name}\""))
            .help("give each match block a name of its own"));
    }
    Ok(())
}

fn condition(cx: &mut Cx<'_, '_>, line: &Directive, wanted: &mut Match) -> Result<(), Diag> {
    let name = line.name();
    let Some((_, arity)) = inner().into_iter().find(|(have, _)| *have == name) else {
        return Err(Diag::emerg(line.name.span, format!("unknown directive \"{name}\""))
            .help("a match block holds status, header, body and require"));
    };
    let count = line.args.len();
    if count < usize::from(arity.min) || arity.max != u8::MAX && count > usize::from(arity.max) {
        let text = format!("invalid number of arguments in \"{name}\" directive");
        return Err(Diag::emerg(line.span, text).help(
            "write: status CODE ...; header NAME [OPERATOR VALUE]; body OPERATOR REGEX; or require $VARIABLE ...;",
        ));
    }
    wanted.tests.push(match name {
        "status" => status(&line.args)?,
        "header" => header(cx, &line.args)?,
        "body" => {
            let not = operator(&line.args[0], &[("~", false), ("!~", true)])?;
            let pattern = cx.regex(&line.args[1], line.args[1].bytes(), false)?;
            Test::Body { not, pattern }
        }
        _ => return require(cx, &line.args, wanted),
    });
    Ok(())
}

fn require(cx: &mut Cx<'_, '_>, args: &[Token], wanted: &mut Match) -> Result<(), Diag> {
    for token in args {
        if !token.bytes().starts_with(b"$") {
            return Err(Diag::emerg(token.span, format!("no variable in \"{}\"", token.text()))
                .help("a value of require begins with a variable"));
        }
        wanted.required.push((token.text().into(), cx.template(token)?));
    }
    Ok(())
}

fn operator<T: Copy>(token: &Token, known: &[(&str, T)]) -> Result<T, Diag> {
    let found = known.iter().find(|(word, _)| token.str() == *word).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
        Diag::emerg(token.span, format!("unknown operator \"{}\"", token.text()))
            .help(format!("it is one of: {}", words.join(" ")))
    })
}

fn status(args: &[Token]) -> Result<Test, Diag> {
    let not = args[0].bytes() == b"!";
    let mut ranges = Vec::new();
    for token in &args[usize::from(not)..] {
        let (from, to) = token.str().split_once('-').unwrap_or((token.str(), token.str()));
        let code = |text: &str| text.parse::<u16>().ok().filter(|code| (100..=999).contains(code));
        match (code(from), code(to)) {
            (Some(from), Some(to)) if from <= to => ranges.push((from, to)),
            _ => {
                return Err(Diag::emerg(token.span, format!("invalid status \"{}\"", token.text()))
                    .help("write codes or ranges: status 200 301-303;"));
            }
        }
    }
    if ranges.is_empty() {
        return Err(Diag::emerg(args[0].span, "no status is named").help("write: status ! 500-599;"));
    }
    Ok(Test::Status { not, ranges })
}

fn header(cx: &mut Cx<'_, '_>, args: &[Token]) -> Result<Test, Diag> {
    let text = |token: &Token| Box::<[u8]>::from(token.bytes());
    let (name, how) = match args {
        [name] => (name, How::Present),
        [not, name] if not.bytes() == b"!" => (name, How::Absent),
        [name, sign, value] => {
            let how = match operator(sign, &[("=", 0), ("!=", 1), ("~", 2), ("!~", 3)])? {
                0 => How::Is(text(value)),
                1 => How::IsNot(text(value)),
                2 => How::Like(cx.regex(value, value.bytes(), false)?),
                _ => How::Unlike(cx.regex(value, value.bytes(), false)?),
            };
            (name, how)
        }
        [first, ..] => {
            return Err(Diag::emerg(first.span, "invalid \"header\" of a match block")
                .help("write: header NAME, header ! NAME or header NAME = VALUE"));
        }
        [] => unreachable!("the number of parameters was checked"),
    };
    Ok(Test::Header { name: text(name), how })
}

impl Match {
    /// Whether the body must be read.
    pub fn looks_at_body(&self) -> bool {
        self.tests.iter().any(|test| matches!(test, Test::Body { .. }))
    }

    /// Whether there are variables to be looked at.
    pub fn requires(&self) -> bool {
        !self.required.is_empty()
    }

    /// Whether `require` is content with them; the error names one that is not set. `r` has the answer.
    pub fn check_variables(&self, r: &Request) -> Result<(), &str> {
        let unset = self.required.iter().find(|(_, value)| !value.holds(r));
        unset.map_or(Ok(()), |(name, _)| Err(&**name))
    }

    /// Whether an answer is as wanted, but for its variables; the error says what is not.
    pub fn check(&self, head: &BackendHead, body: &[u8]) -> Result<(), &'static str> {
        // nginx's rule without a `match`.
        if self.tests.is_empty() && !self.requires() {
            return if (200..400).contains(&head.status) { Ok(()) } else { Err("status") };
        }
        for test in &self.tests {
            let (what, holds) = match test {
                Test::Status { not, ranges } => {
                    let is_in = ranges.iter().any(|(from, to)| (*from..=*to).contains(&head.status));
                    ("status", is_in != *not)
                }
                Test::Header { name, how } => ("header", how.holds(head, name)),
                // An answer of which it cannot be said whether it is as wanted is not.
                Test::Body { not, pattern } => {
                    ("body", pattern.is_match(body).is_ok_and(|matches| matches != *not))
                }
            };
            if !holds {
                return Err(what);
            }
        }
        Ok(())
    }
}

impl How {
    fn holds(&self, head: &BackendHead, name: &[u8]) -> bool {
        let mut values = head.named(name);
        match self {
            How::Present => values.next().is_some(),
            How::Absent => values.next().is_none(),
            How::Is(text) => values.any(|value| *value == **text),
            How::IsNot(text) => !values.any(|value| *value == **text),
            // A search that gives up decides against the server in both directions.
            How::Like(pattern) => values.any(|value| pattern.is_match(value).unwrap_or(false)),
            How::Unlike(pattern) => !values.any(|value| pattern.is_match(value).unwrap_or(true)),
        }
    }
}
