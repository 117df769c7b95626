//! `Header` and `RequestHeader`.

use crate::expr::{Condition, Evaluation, Place, Text};
use crate::syntax::Words;
use crate::{Captures, Facts, Measure, Origin, Pattern, Patterns, Stop, Variable};
use std::sync::Arc;

/// Names and values in their order; names have no case.
pub type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// Which fields a line changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Table {
    /// `Header`: those of a response that is no error of the server's own.
    OnSuccess,
    /// `Header always`: those of every response.
    Always,
    /// `RequestHeader`: those of the request.
    Request,
}

/// One line.
#[derive(Debug)]
pub struct Line<P> {
    /// What it changes.
    pub table: Table,
    /// It is carried out before all else (`early`), which is for tests.
    pub is_early: bool,
    name: Vec<u8>,
    action: Action<P>,
    when: When<P>,
    origin: Origin,
}

#[derive(Debug)]
enum Action<P> {
    Set(Content),
    SetIfEmpty(Content),
    Add(Content),
    Append(Content),
    Merge(Content),
    Unset,
    Echo(P),
    Edit { pattern: P, content: Content, is_each: bool },
    Note(Content),
}

#[derive(Debug)]
enum When<P> {
    Always,
    Env(Vec<u8>),
    NotEnv(Vec<u8>),
    Expr(Condition<P>),
}

/// What a field gets.
#[derive(Debug)]
enum Content {
    Format(Vec<Piece>),
    Expression(Text),
}

#[derive(Debug)]
enum Piece {
    Text(Vec<u8>),
    Env(Vec<u8>),
    Ssl(Variable),
    Measure(Measure),
}

impl<P> Action<P> {
    /// What it does to a field, as `brisk why` prints it.
    fn verb(&self) -> &'static str {
        match self {
            Action::Set(_) => "set",
            Action::SetIfEmpty(_) => "set if it is not there",
            Action::Add(_) => "added",
            Action::Append(_) => "appended to",
            Action::Merge(_) => "appended to if the value is not in it",
            Action::Unset => "taken away",
            Action::Echo(_) => "sent back as it came",
            Action::Edit { .. } => "edited",
            Action::Note(_) => "noted",
        }
    }
}

impl<P> Line<P> {
    /// The same, read from there.
    #[must_use]
    pub fn from(self, origin: Origin) -> Line<P> {
        Line { origin, ..self }
    }

    /// The arguments of `Header` (`is_request`: of `RequestHeader`).
    ///
    /// # Errors
    /// What is wrong with them, in Apache's words.
    pub fn parse(
        args: &[u8],
        is_request: bool,
        place: Place,
        patterns: &impl Patterns<Pattern = P>,
    ) -> Result<Line<P>, String> {
        let mut words = Words(args);
        let mut verb = word(&mut words);
        let mut table = if is_request { Table::Request } else { Table::OnSuccess };
        if !is_request && (verb == "always" || verb == "onsuccess") {
            table = if verb == "always" { Table::Always } else { Table::OnSuccess };
            verb = word(&mut words);
        }
        let name = words.next().unwrap_or_default();
        let name = name.strip_suffix(b":").unwrap_or(&name).to_vec();
        if !is_token(&name) && verb != "echo" {
            return Err(format!("'{}' is no name of a header field", String::from_utf8_lossy(&name)));
        }
        let mut rest: Vec<_> = words.collect();
        let takes = match verb.as_str() {
            "unset" | "echo" => 0,
            "edit" | "edit*" => 2,
            _ => 1,
        };
        if rest.len() < takes {
            return Err(if takes == 2 {
                "Header edit requires a match and a substitution"
            } else {
                "Header requires three arguments"
            }
            .into());
        }
        if rest.len() > takes + 1 {
            return Err("Too many arguments to directive".into());
        }
        let clause = (rest.len() > takes).then(|| rest.pop()).flatten();
        let content = |text: Option<&Vec<u8>>| Content::parse(text.map_or(&[], Vec::as_slice), place);
        let pattern = |text: &[u8]| {
            patterns
                .compile(text, false)
                .map_err(|why| format!("Header {verb} regex could not be compiled: {why}"))
        };
        let action = match verb.as_str() {
            "set" => Action::Set(content(rest.first())?),
            "setifempty" => Action::SetIfEmpty(content(rest.first())?),
            "add" => Action::Add(content(rest.first())?),
            "append" => Action::Append(content(rest.first())?),
            "merge" => Action::Merge(content(rest.first())?),
            "unset" => Action::Unset,
            "echo" if is_request => return Err("Header echo only valid on Header directives".into()),
            "echo" => Action::Echo(pattern(&name)?),
            "note" if is_request => return Err("RequestHeader does not support the 'note' action".into()),
            "note" => Action::Note(content(rest.first())?),
            "edit" | "edit*" => Action::Edit {
                pattern: pattern(&rest[0])?,
                content: content(rest.get(1))?,
                is_each: verb == "edit*",
            },
            _ => {
                return Err("first argument must be 'add', 'set', 'setifempty', 'append', 'merge', 'unset', 'echo', 'note', 'edit', or 'edit*'.".into());
            }
        };
        let is_early = clause.as_ref().is_some_and(|clause| clause.eq_ignore_ascii_case(b"early"));
        let when = match clause.filter(|_| !is_early) {
            Some(clause) => When::parse(&clause, place, patterns)?,
            None => When::Always,
        };
        Ok(Line { table, is_early, name, action, when, origin: Origin::default() })
    }
}

fn word(words: &mut Words<'_>) -> String {
    String::from_utf8_lossy(&words.next().unwrap_or_default()).to_ascii_lowercase()
}

fn is_token(name: &[u8]) -> bool {
    !name.is_empty()
        && name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte))
}

impl<P> When<P> {
    fn parse(clause: &[u8], place: Place, patterns: &impl Patterns<Pattern = P>) -> Result<When<P>, String> {
        let starts = |with: &str| {
            clause.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with.as_bytes()))
        };
        if starts("env=") {
            return match &clause[4..] {
                [] | [b'!'] => Err(
                    "error: missing environment variable name. envclause should be in the form env=envar "
                        .into(),
                ),
                [b'!', name @ ..] => Ok(When::NotEnv(name.to_vec())),
                name => Ok(When::Env(name.to_vec())),
            };
        }
        if starts("expr=") {
            let read = Condition::parse(&clause[5..], place, patterns);
            return read.map(When::Expr).map_err(|why| format!("Can't parse envclause/expression: {why}"));
        }
        Err(format!("Unknown parameter: {}", String::from_utf8_lossy(clause)))
    }
}

impl<P: Pattern> When<P> {
    fn holds(&self, facts: &dyn Facts) -> Result<bool, Stop> {
        Ok(match self {
            When::Always => true,
            When::Env(name) => facts.env(name).is_some(),
            When::NotEnv(name) => facts.env(name).is_none(),
            When::Expr(condition) => Evaluation::new(facts).holds(condition)?,
        })
    }
}

impl Content {
    fn parse(text: &[u8], place: Place) -> Result<Content, String> {
        if let Some(expression) = text.strip_prefix(b"expr=") {
            let read = Text::parse(expression, place).map(Content::Expression);
            return read.map_err(|why| format!("Can't parse value expression : {why}"));
        }
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(at) = memchr::memchr(b'%', rest) {
            pieces.push(Piece::Text(rest[..at].to_vec()));
            let (piece, length) = tag(&rest[at + 1..])?;
            pieces.push(piece);
            rest = &rest[at + 1 + length..];
        }
        pieces.push(Piece::Text(rest.to_vec()));
        pieces.retain(|piece| !matches!(piece, Piece::Text(text) if text.is_empty()));
        Ok(Content::Format(pieces))
    }

    /// The text for a request.
    fn of(&self, facts: &dyn Facts) -> Result<Vec<u8>, Stop> {
        match self {
            Content::Expression(text) => Evaluation::new(facts).text(text),
            Content::Format(pieces) => {
                let mut out = Vec::new();
                for piece in pieces {
                    let start = out.len();
                    piece.write(facts, &mut out)?;
                    facts.spend(out.len() - start + 1)?;
                }
                Ok(out)
            }
        }
    }
}

/// What stands behind a percent sign, and its length.
fn tag(text: &[u8]) -> Result<(Piece, usize), String> {
    let (argument, letter_at) = match text {
        [] => return Ok((Piece::Text(b"%".to_vec()), 0)),
        [b'%', ..] => return Ok((Piece::Text(b"%".to_vec()), 1)),
        [b'{', rest @ ..] => {
            let end = memchr::memchr(b'}', rest).ok_or("Unrecognized header format %{")?;
            (&rest[..end], end + 2)
        }
        _ => (&[][..], 0),
    };
    let measure = |measure| Ok((Piece::Measure(measure), letter_at + 1));
    match text.get(letter_at) {
        Some(b't') => measure(Measure::RequestTime),
        Some(b'D') => measure(Measure::Duration),
        Some(b'l') => measure(Measure::Load),
        Some(b'i') => measure(Measure::Idle),
        Some(b'b') => measure(Measure::Busy),
        Some(b'e') => Ok((Piece::Env(argument.to_vec()), letter_at + 1)),
        Some(b's') => {
            let name = String::from_utf8_lossy(argument).into_owned();
            Ok((Piece::Ssl(Variable::Ssl(name.into())), letter_at + 1))
        }
        other => Err(format!("Unrecognized header format %{}", other.map_or(' ', |&byte| byte as char))),
    }
}

impl Piece {
    fn write(&self, facts: &dyn Facts, out: &mut Vec<u8>) -> Result<(), Stop> {
        match self {
            Piece::Text(text) => out.extend_from_slice(text),
            Piece::Env(name) => out.extend_from_slice(&facts.env(name).unwrap_or(b"(null)"[..].into())),
            Piece::Ssl(variable) => {
                let value = facts.variable(variable)?;
                if value.is_empty() {
                    out.extend_from_slice(b"(null)");
                } else {
                    // A certificate has lines; a field is one.
                    out.extend(
                        value.iter().map(|&byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }),
                    );
                }
            }
            Piece::Measure(measure) => {
                let letter = match measure {
                    Measure::RequestTime => b't',
                    Measure::Duration => b'D',
                    Measure::Load => b'l',
                    Measure::Idle => b'i',
                    Measure::Busy => b'b',
                };
                out.extend_from_slice(&[letter, b'=']);
                out.extend_from_slice(&facts.measure(*measure));
            }
        }
        Ok(())
    }
}

/// What lines do besides: notes for other modules.
pub type Notes = Vec<(Vec<u8>, Vec<u8>)>;

/// Carries out the lines of one table in their order. `request` gives the fields of the request, which few lines read.
///
/// # Errors
/// A fact is to come, or a line cannot be judged.
pub fn apply<P: Pattern>(
    lines: &[Arc<Line<P>>],
    table: Table,
    is_early: bool,
    fields: &mut Fields,
    request: &dyn Fn() -> Fields,
    facts: &dyn Facts,
) -> Result<Notes, Stop> {
    let mut notes = Notes::new();
    for line in lines.iter().filter(|line| line.table == table && line.is_early == is_early) {
        facts.spend(fields.len() + crate::limits::LINE_WORK_BYTES)?;
        if line.when.holds(facts)? {
            line.apply(fields, request, facts, &mut notes)?;
            if facts.is_asked_why() {
                let name = String::from_utf8_lossy(&line.name);
                let of = if table == Table::Request { " of the request" } else { "" };
                facts.tell(
                    &line.origin,
                    table != Table::Request,
                    format_args!("{name}: {}{of}", line.action.verb()),
                );
            }
        }
    }
    Ok(notes)
}

fn find<'a>(fields: &'a Fields, name: &[u8]) -> Option<&'a Vec<u8>> {
    fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

/// Whether a field's value has a byte that none may have (RFC 9110 §5.5). Apache answers with 500 then.
pub fn has_control(value: &[u8]) -> bool {
    value.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t')
}

impl<P: Pattern> Line<P> {
    /// A value for a request. What that brings must not begin a field: in a request to a back end line ends become spaces.
    fn value(&self, content: &Content, facts: &dyn Facts) -> Result<Vec<u8>, Stop> {
        let mut value = content.of(facts)?;
        if self.table == Table::Request {
            value.iter_mut().filter(|byte| matches!(byte, b'\r' | b'\n' | 0)).for_each(|byte| *byte = b' ');
        } else if has_control(&value) {
            let name = String::from_utf8_lossy(&self.name);
            return Err(Stop::Failed(format!("the value of {name} has a control character")));
        }
        Ok(value)
    }

    fn apply(
        &self,
        fields: &mut Fields,
        request: &dyn Fn() -> Fields,
        facts: &dyn Facts,
        notes: &mut Notes,
    ) -> Result<(), Stop> {
        let is_it = |(known, _): &(Vec<u8>, Vec<u8>)| known.eq_ignore_ascii_case(&self.name);
        match &self.action {
            Action::Unset => fields.retain(|field| !is_it(field)),
            Action::Set(content) => {
                let value = self.value(content, facts)?;
                fields.retain(|field| !is_it(field));
                fields.push((self.name.clone(), value));
            }
            Action::SetIfEmpty(content) => {
                if find(fields, &self.name).is_none() {
                    fields.push((self.name.clone(), self.value(content, facts)?));
                }
            }
            Action::Add(content) => fields.push((self.name.clone(), self.value(content, facts)?)),
            Action::Append(content) => self.append(fields, self.value(content, facts)?),
            Action::Merge(content) => {
                let value = self.value(content, facts)?;
                let list = find(fields, &self.name);
                facts.spend(list.map_or(0, Vec::len))?;
                if !list.is_some_and(|list| has_element(list, &value)) {
                    self.append(fields, value);
                }
            }
            Action::Echo(pattern) => {
                for (name, value) in request() {
                    facts.spend(name.len() + value.len())?;
                    if pattern.find(&name)?.is_some() {
                        fields.push((name, value));
                    }
                }
            }
            Action::Edit { pattern, content, is_each } => {
                for (_, value) in fields.iter_mut().filter(|field| is_it(field)) {
                    *value = edited(value, pattern, &self.value(content, facts)?, *is_each, facts)?;
                }
            }
            Action::Note(content) => {
                if let Some(value) = find(fields, &self.name) {
                    facts.spend(value.len())?;
                    notes.push((self.value(content, facts)?, value.clone()));
                }
            }
        }
        Ok(())
    }

    /// Behind the first field of the name, with a comma; else as a new one.
    fn append(&self, fields: &mut Fields, value: Vec<u8>) {
        match fields.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(&self.name)) {
            Some((_, old)) => {
                old.extend_from_slice(b", ");
                old.extend_from_slice(&value);
            }
            None => fields.push((self.name.clone(), value)),
        }
    }
}

/// Whether a list with commas has an element; commas in quotation marks separate nothing.
fn has_element(list: &[u8], wanted: &[u8]) -> bool {
    let mut is_quoted = false;
    let parts = list.split(|&byte| {
        is_quoted ^= byte == b'"';
        byte == b',' && !is_quoted
    });
    parts.map(<[u8]>::trim_ascii_start).any(|part| part == wanted)
}

/// A value with the first match replaced, or each.
fn edited(
    value: &[u8],
    pattern: &impl Pattern,
    content: &[u8],
    is_each: bool,
    facts: &dyn Facts,
) -> Result<Vec<u8>, Stop> {
    let mut out = Vec::new();
    let mut rest = value;
    facts.spend(rest.len())?;
    while let Some(spans) = pattern.find(rest)? {
        let Some(whole) = spans[0].clone() else { break };
        let mut captures = Captures::default();
        captures.set(rest, spans);
        out.extend_from_slice(&rest[..whole.start]);
        out.extend(captures.substituted(content, facts)?);
        // A match without length would be found again and again.
        let step = usize::from(whole.is_empty() && whole.end < rest.len());
        out.extend_from_slice(&rest[whole.end..whole.end + step]);
        rest = &rest[whole.end + step..];
        if !is_each || rest.is_empty() {
            break;
        }
        facts.spend(rest.len())?;
    }
    out.extend_from_slice(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Request, Rust};

    fn applied(lines: &[&str], table: Table) -> Result<String, String> {
        let is_request = table == Table::Request;
        let read =
            |line: &&str| Line::parse(line.as_bytes(), is_request, Place::Override, &Rust).map(Arc::new);
        let lines = lines.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let mut request = Request::default();
        request.env.push(("A".into(), "x\r\nSet-Cookie: y".into()));
        request.fields.push(("Host".into(), "example.org".into()));
        let fields = |text: &str| -> Fields {
            text.split('|')
                .filter_map(|field| field.split_once('='))
                .map(|(n, v)| (n.into(), v.into()))
                .collect()
        };
        let mut own = fields("Vary=Accept, Cookie|X-Old=a-b-a|Server=b");
        apply(&lines, table, false, &mut own, &|| fields("X-One=1|X-Two=2|Other=3"), &request)
            .map_err(|stop| format!("{stop:?}"))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(own
            .iter()
            .map(|(name, value)| format!("{}={}", text(name), text(value)))
            .collect::<Vec<_>>()
            .join("|"))
    }

    #[test]
    fn lines() {
        let rest = "Vary=Accept, Cookie|X-Old=a-b-a|Server=b";
        for (line, wanted) in [
            ("set X-New \"a b\"", format!("{rest}|X-New=a b")),
            ("set x-old: c", "Vary=Accept, Cookie|Server=b|x-old=c".into()),
            ("setifempty Server c", rest.into()),
            ("add Server c", format!("{rest}|Server=c")),
            ("append Server c", format!("{rest}, c")),
            ("merge Vary Cookie", rest.into()),
            ("merge Vary Origin", "Vary=Accept, Cookie, Origin|X-Old=a-b-a|Server=b".into()),
            ("unset x-old", "Vary=Accept, Cookie|Server=b".into()),
            ("echo ^X-", format!("{rest}|X-One=1|X-Two=2")),
            ("edit X-Old a (c)", "Vary=Accept, Cookie|X-Old=(c)-b-a|Server=b".into()),
            ("edit* X-Old (a) <$1>", "Vary=Accept, Cookie|X-Old=<a>-b-<a>|Server=b".into()),
            ("edit* X-Old x* .", "Vary=Accept, Cookie|X-Old=.a.-.b.-.a|Server=b".into()),
            ("set N %%%t", format!("{rest}|N=%t=17")),
            ("set N expr=%{HTTP:Host}", format!("{rest}|N=example.org")),
            ("set N a env=A", format!("{rest}|N=a")),
            ("set N a env=!A", rest.into()),
            ("set N a env=B", rest.into()),
            ("set N a \"expr=%{HTTP:Host} == 'example.org'\"", format!("{rest}|N=a")),
            ("unset Server \"expr=-z %{HTTP:Host}\"", rest.into()),
            ("always set N a", rest.into()),
            ("set N a early", rest.into()),
        ] {
            assert_eq!(applied(&[line], Table::OnSuccess), Ok(wanted), "{line}");
        }
        // A line end that a request has brought.
        let refused = applied(&["set N %{A}e"], Table::OnSuccess).unwrap_err();
        assert!(refused.contains("N has a control character"), "{refused}");
        assert_eq!(
            applied(&["unset Vary", "unset X-Old", "set A %{A}e"], Table::Request),
            Ok("Server=b|A=x  Set-Cookie: y".into())
        );
        assert_eq!(
            applied(&["unset Vary", "unset X-Old", "set A b"], Table::Request),
            Ok("Server=b|A=b".into())
        );
        for (line, wanted) in [
            ("set", "'' is no name"),
            ("set A", "Header requires three arguments"),
            ("set \"A B\" c", "'A B' is no name"),
            ("sett A b", "first argument must be"),
            ("edit A b", "Header edit requires a match and a substitution"),
            ("edit A ( b", "Header edit regex could not be compiled"),
            ("set A b c d", "Too many arguments to directive"),
            ("set A b often", "Unknown parameter: often"),
            ("set A b env=", "error: missing environment variable name."),
            ("set A b expr=(", "Can't parse envclause/expression"),
            ("set A %q", "Unrecognized header format %q"),
        ] {
            let error = applied(&[line], Table::OnSuccess).expect_err(line);
            assert!(error.starts_with(wanted), "{line}: {error}");
        }
    }

    /// Each line makes a value of what lines before it have made.
    #[test]
    fn what_lines_make_is_bounded() {
        let start = ["set A x"];
        for line in ["edit* A \"x\" \"xx\"", "edit A (.*) $1$1x", "edit* A \"\" xx"] {
            let lines: Vec<&str> = start.into_iter().chain(std::iter::repeat_n(line, 40)).collect();
            let error = applied(&lines, Table::OnSuccess).expect_err(line);
            assert!(error.contains("rules make and look at more than"), "{line}: {error}");
        }
    }
}
