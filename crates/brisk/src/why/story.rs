//! What a trace comes to: which step decided, and for each step the lines that made it.

use super::ask::{Answer, Question};
use super::places::{self, Places, is_secret};
use crate::limits::{SECRET_BYTES_MIN, WHY_PLACES_MAX};
use brisk_http::status::wire_status;
use brisk_load::url::Place;
use brisk_modules::MODULES;
use brisk_net::listen::Address;
use brisk_server::conf::{LocationId, Snapshot};
use brisk_server::core::LogLevel;
use brisk_server::request::Phase;
use brisk_server::trace::{self, Decision, Kind, Note, Source};
use serde_json::{Value, json};
use std::collections::HashSet;

/// A step with the lines that made it.
pub struct Step {
    /// Of what it is: `server`, `location`, `access` …
    pub what: &'static str,
    /// The module that took it; empty: the core.
    pub module: &'static str,
    pub text: String,
    /// The lines that said so, the first of which decided.
    pub places: Vec<places::Place>,
    /// The location at that time, as it is written.
    pub location: String,
    /// The step belongs to a part of the answer.
    pub is_part: bool,
    /// It is for those who want every step.
    pub is_detail: bool,
}

/// A field of the answer, with the lines that have added it.
pub struct Field {
    pub name: String,
    pub value: String,
    pub by: &'static str,
    pub places: Vec<places::Place>,
}

/// See the module's head.
pub struct Story {
    /// The request's line.
    pub request: String,
    /// `None`: the connection was closed, or the trace ends before there is an answer.
    pub status: Option<u16>,
    pub reason: String,
    /// The place in `steps` of the one that decided.
    pub because: Option<usize>,
    /// What was told beside it: messages of the step that decided.
    pub reasons: Vec<String>,
    pub steps: Vec<Step>,
    pub fields: Vec<Field>,
    /// The trace ends before there is an answer, and why.
    pub end: Option<String>,
    /// What else a person would want to know.
    pub hints: Vec<String>,
    /// By whose rights files were looked at.
    pub user: String,
    /// The client's address.
    pub from: String,
}

/// Lines that say where files are, for modules that have no directives of their own for it.
const FILES: &[&str] = &["root", "alias"];

impl Story {
    /// Of the notes of a request.
    pub fn of(
        question: &Question<'_>,
        snap: &Snapshot,
        places: &Places<'_>,
        notes: Vec<Note>,
        answer: Option<Answer>,
        user: String,
    ) -> Story {
        let teller = Teller { snap, places };
        let notes = once(notes);
        let because = deciding(&notes, answer.as_ref().map(|answer| answer.status));
        let reasons = because.map(|at| reasons(&notes, at)).unwrap_or_default();
        let steps: Vec<Step> =
            notes.iter().enumerate().map(|(at, note)| teller.step(&notes, at, note)).collect();
        let fields = answer.as_ref().map(|answer| teller.fields(answer, &notes)).unwrap_or_default();
        let end = match (&answer, because.map(|at| &notes[at])) {
            (Some(_), _) => None,
            (None, Some(note)) if note.kind == Kind::LeftOut => Some(format!(
                "{} would make the answer. It was not asked: --run carries the request out",
                note.module
            )),
            (None, _) => Some("the connection was closed without an answer".into()),
        };
        let hints = no_alt_svc(question, snap, &fields).into_iter().collect();
        let (status, reason) = answer.map(|answer| (answer.status, answer.reason)).unzip();
        let mut story = Story {
            request: format!("{} {}", question.method, question.url),
            status,
            reason: reason.unwrap_or_default(),
            because,
            reasons,
            steps,
            fields,
            end,
            hints,
            user,
            from: question.from.to_string(),
        };
        story.hide(&secrets(question));
        story
    }

    /// What was sent as a secret may have been copied anywhere.
    fn hide(&mut self, secrets: &[String]) {
        let steps = self.steps.iter_mut().map(|step| &mut step.text);
        let fields = self.fields.iter_mut().map(|field| &mut field.value);
        for text in steps.chain(fields).chain(&mut self.reasons) {
            for secret in secrets {
                if text.contains(secret.as_str()) {
                    *text = text.replace(secret.as_str(), "(not shown)");
                }
            }
        }
    }

    /// For programs.
    pub fn as_json(&self) -> Value {
        let place =
            |place: &places::Place| json!({ "file": place.file, "line": place.line, "text": place.text });
        let step = |step: &Step| {
            json!({
                "what": step.what, "module": step.module, "text": step.text, "location": step.location,
                "part": step.is_part, "detail": step.is_detail,
                "places": step.places.iter().map(place).collect::<Vec<_>>(),
            })
        };
        let field = |field: &Field| {
            json!({
                "name": field.name, "value": field.value, "by": field.by,
                "places": field.places.iter().map(place).collect::<Vec<_>>(),
            })
        };
        json!({
            "request": self.request, "from": self.from, "files": self.user,
            "status": self.status, "reason": self.reason, "end": self.end, "hints": self.hints,
            "because": self.because.map(|at| step(&self.steps[at])), "messages": self.reasons,
            "steps": self.steps.iter().map(step).collect::<Vec<_>>(),
            "fields": self.fields.iter().map(field).collect::<Vec<_>>(),
        })
    }
}

/// The values of the request's secret fields, the longest parts first.
fn secrets(question: &Question<'_>) -> Vec<String> {
    let values = question.headers.iter().filter(|(name, _)| is_secret(name)).map(|(_, value)| value.as_str());
    let parts = values.flat_map(|value| [value].into_iter().chain(value.split([' ', ';', '='])));
    let mut all: Vec<String> =
        parts.filter(|part| part.len() >= SECRET_BYTES_MIN).map(str::to_string).collect();
    all.sort_by_key(|part| std::cmp::Reverse(part.len()));
    all
}

/// HTTP/3 that nobody learns of: browsers ask for it where an answer over TCP has `Alt-Svc` (RFC 9114 §3.1.1).
fn no_alt_svc(question: &Question<'_>, snap: &Snapshot, fields: &[Field]) -> Option<String> {
    let Place::Name(_, port) = question.url.origin.place else { return None };
    let is_quic = |address: &Address| matches!(address, Address::Quic(address, _) if address.port() == port);
    let is_there = snap.listens.iter().any(|listen| is_quic(&listen.address));
    let is_told = fields.iter().any(|field| field.name.eq_ignore_ascii_case("alt-svc"));
    let is_asked = question.url.origin.secure && is_there && !fields.is_empty() && !is_told;
    is_asked.then(|| {
        format!(
            "HTTP/3 is spoken on port {port}, but the answer has no Alt-Svc, so browsers do not ask for it: \
             add_header Alt-Svc 'h3=\":{port}\"; ma=86400' always;"
        )
    })
}

fn is_rule(note: &Note) -> bool {
    matches!(note.kind, Kind::Rule { .. })
}

/// The notes without those of evaluations that were begun anew when a file was known: the last one counts.
fn once(notes: Vec<Note>) -> Vec<Note> {
    let mut later: HashSet<String> = HashSet::new();
    let mut kept: Vec<Note> = Vec::new();
    for note in notes.into_iter().rev() {
        if matches!(note.kind, Kind::Step(_)) {
            later.clear();
        }
        let can_be_again = is_rule(&note) || matches!(note.kind, Kind::Text | Kind::Message(_));
        if !can_be_again || later.insert(format!("{note:?}")) {
            kept.push(note);
        }
    }
    kept.reverse();
    kept
}

/// The note that decided: what ended the request with the status that was sent, else what made the answer.
fn deciding(notes: &[Note], status: Option<u16>) -> Option<usize> {
    let last = |is: &dyn Fn(&Kind) -> bool| notes.iter().rposition(|note| note.depth == 0 && is(&note.kind));
    if status.is_none()
        && let Some(at) = last(&|kind| *kind == Kind::LeftOut)
    {
        return Some(at);
    }
    let is_sent = |kind: &Kind| matches!(kind, Kind::Refused(code) if status == Some(wire_status(*code)));
    let is_made = |kind: &Kind| matches!(kind, Kind::Step(Decision::Done(_) | Decision::Close));
    let refused = |at: usize| refusing(notes, at);
    last(&is_sent)
        .map(refused)
        .or_else(|| last(&is_made).map(|at| rule_of(notes, at)))
        .or_else(|| last(&|kind| matches!(kind, Kind::Refused(_))).map(refused))
}

/// What has led to a refusal: a handler, or the rule of it that said so; else the core itself.
fn refusing(notes: &[Note], at: usize) -> usize {
    let Kind::Refused(code) = notes[at].kind else { return at };
    let is_step = |note: &Note| note.depth == 0 && note.kind == Kind::Step(Decision::Status(code));
    let is_here = |note: &Note| note.location == notes[at].location;
    match notes[..at].iter().rposition(|note| is_step(note) && is_here(note)) {
        Some(step) => rule_of(notes, step),
        None => at.checked_sub(1).filter(|before| is_rule(&notes[*before])).unwrap_or(at),
    }
}

/// The rule by which a handler has decided, if it has said so since the handler before it.
fn rule_of(notes: &[Note], step: usize) -> usize {
    let is_before = |note: &Note| note.depth == 0 && matches!(note.kind, Kind::Step(_));
    let start = notes[..step].iter().rposition(is_before).map_or(0, |before| before + 1);
    let is_own = |note: &Note| note.module == notes[step].module && note.kind == Kind::Rule { applies: true };
    notes[start..step].iter().rposition(is_own).map_or(step, |at| start + at)
}

/// What the log would have from the step that decided.
fn reasons(notes: &[Note], at: usize) -> Vec<String> {
    let is_step = |note: &Note| matches!(note.kind, Kind::Step(_));
    let start = notes[..at].iter().rposition(is_step).map_or(0, |before| before + 1);
    let end = notes[at..].iter().position(|note| matches!(note.kind, Kind::Refused(_) | Kind::Page));
    let end = end.map_or(at, |more| at + more);
    let messages = notes[start..end].iter().filter_map(|note| match note.kind {
        Kind::Message(level) if level < LogLevel::Debug && note.depth == 0 => Some(note.text.clone()),
        _ => None,
    });
    let mut all: Vec<String> = messages.collect();
    all.dedup();
    all
}

/// Finds lines for notes.
struct Teller<'a> {
    snap: &'a Snapshot,
    places: &'a Places<'a>,
}

impl Teller<'_> {
    fn step(&self, notes: &[Note], at: usize, note: &Note) -> Step {
        let (what, text) = (what(note), text(note));
        // Messages may stand between a rule and what it has led to.
        let before = notes[..at].iter().rfind(|note| !matches!(note.kind, Kind::Message(_)));
        let has_rule = before.is_some_and(|before| is_rule(before) && before.module == note.module);
        Step {
            what,
            module: note.module,
            text,
            places: if has_rule && matches!(note.kind, Kind::Step(_)) {
                Vec::new()
            } else {
                self.lines(note)
            },
            location: self.shown(note.location),
            is_part: note.depth > 0,
            is_detail: match note.kind {
                Kind::Message(level) => level == LogLevel::Debug,
                Kind::Step(Decision::Next) | Kind::Field => true,
                Kind::Refused(code) => {
                    before.is_some_and(|before| before.kind == Kind::Step(Decision::Status(code)))
                }
                _ => false,
            },
        }
    }

    /// The block of a location; of one that was compiled late, of the one around.
    fn block(&self, id: LocationId) -> Option<brisk_conf::Span> {
        trace::block(id)
    }

    fn shown(&self, id: LocationId) -> String {
        match self.block(id) {
            Some(span) => self.places.of(span).text.split(" {").next().unwrap_or_default().to_string(),
            None => String::new(),
        }
    }

    /// The lines behind a note.
    fn lines(&self, note: &Note) -> Vec<places::Place> {
        let block = self.block(note.location);
        match (&note.source, &note.kind) {
            (Source::Span(span), _) => vec![self.places.of(*span)],
            (Source::Line(file, line), _) => vec![line_of(file, *line)],
            (Source::Nth(names, at), _) => {
                let all = block.map(|span| self.places.nearest(span, names)).unwrap_or_default();
                match all.get(*at) {
                    Some(place) => vec![place.clone()],
                    None => all,
                }
            }
            (Source::Unknown, Kind::Server) => {
                let root = self.snap.server(note.server).root;
                self.block(root).map(|span| self.places.of(span)).into_iter().collect()
            }
            (Source::Unknown, Kind::Location | Kind::Candidate | Kind::Rule { .. })
                if note.module.is_empty() =>
            {
                block.map(|span| self.places.of(span)).into_iter().collect()
            }
            (Source::Unknown, Kind::Step(Decision::Next)) => Vec::new(),
            (Source::Unknown, Kind::Step(_) | Kind::LeftOut) => self.of_module(note),
            _ => Vec::new(),
        }
    }

    /// The lines by which a module is configured where the request was.
    fn of_module(&self, note: &Note) -> Vec<places::Place> {
        // Its directives are the blocks themselves, and most of what there is.
        let is_core = note.module == "http_core";
        let Some(span) = self.block(note.location).filter(|_| !is_core) else { return Vec::new() };
        // Pools of PHP are asked by FastCGI, by directives of their own.
        let is_asked = |name: &str| name == note.module || (note.module == "fastcgi" && name == "php");
        let modules = MODULES.iter().filter(|module| is_asked(module.name));
        let mut all = Vec::new();
        for row in modules.flat_map(|module| module.rows) {
            for place in self.places.nearest(span, &[row.name]) {
                if !all.contains(&place) {
                    all.push(place);
                }
            }
        }
        only_asked_pool(&mut all);
        // What asks for the handler itself goes first.
        all.sort_by_key(|place| !place.text.starts_with(note.module) || !place.text.contains("_pass"));
        if all.is_empty() {
            all = self.places.nearest(span, FILES);
        }
        all.truncate(WHY_PLACES_MAX);
        all
    }

    /// The fields of the answer, with who has added each.
    fn fields(&self, answer: &Answer, notes: &[Note]) -> Vec<Field> {
        let field = |(name, value): &(String, String)| {
            let is_it = |note: &&Note| {
                let same =
                    note.text.split_once(": ").is_some_and(|(known, _)| known.eq_ignore_ascii_case(name));
                note.kind == Kind::Field && note.depth == 0 && same
            };
            let note = notes.iter().rev().find(is_it);
            // A line of a folder's file says which field it is about.
            let is_line = |note: &&Note| {
                let (named, _) = note.text.split_once(": ").unwrap_or_default();
                let is_rule = note.kind == Kind::Rule { applies: true } && note.phase == Phase::Filters;
                is_rule && note.depth == 0 && named.eq_ignore_ascii_case(name)
            };
            let line = notes.iter().rev().find(is_line).or(note);
            let places = line.map(|note| self.of_field(note, name)).unwrap_or_default();
            let value = if is_secret(name) { "(not shown)".to_string() } else { value.clone() };
            Field { name: name.clone(), value, by: line.map_or("", |note| note.module), places }
        };
        answer.fields.iter().map(field).collect()
    }

    /// The lines of a module that name a field; else all of them.
    fn of_field(&self, note: &Note, name: &str) -> Vec<places::Place> {
        if let Source::Line(file, line) = &note.source {
            return vec![line_of(file, *line)];
        }
        let all = self.of_module(note);
        let lower = name.to_ascii_lowercase();
        let named: Vec<places::Place> =
            all.iter().filter(|place| place.text.to_ascii_lowercase().contains(&lower)).cloned().collect();
        if named.is_empty() { all } else { named }
    }
}

/// Of the pools of PHP, leaves the one that the location asks.
fn only_asked_pool(all: &mut Vec<places::Place>) {
    let asked = all.iter().find_map(|place| place.text.strip_prefix("php_pass "));
    let asked = asked.map(|rest| rest.trim_end_matches(';').trim().to_string());
    all.retain(|place| {
        let name = place.text.strip_prefix("php_pool ").map(|rest| rest.split([' ', '{']).next());
        name.is_none_or(|name| name == asked.as_deref())
    });
}

/// A line of a file beside those that are served.
fn line_of(file: &str, line: u32) -> places::Place {
    let text = std::fs::read(file).unwrap_or_default();
    let found = text.split(|&byte| byte == b'\n').nth((line as usize).saturating_sub(1));
    let text = String::from_utf8_lossy(found.unwrap_or_default()).trim().to_string();
    places::Place { file: file.to_string(), line: line as usize, text }
}

fn what(note: &Note) -> &'static str {
    match note.kind {
        Kind::Server => "server",
        Kind::Location => "location",
        Kind::Candidate => "other location",
        Kind::Text => "file",
        Kind::Page => "error page",
        Kind::Field => "field",
        Kind::Message(_) => "log",
        Kind::Rule { .. } | Kind::Step(_) | Kind::Refused(_) | Kind::LeftOut => match note.phase {
            Phase::EarlyBody => "body",
            Phase::PostRead => "client",
            Phase::ServerRewrite | Phase::Rewrite => "rewrite",
            Phase::FindConfig => "location",
            Phase::PreAccess => "limits",
            Phase::Access => "access",
            Phase::PreContent => "before content",
            Phase::Content => "content",
            Phase::Filters => "answer",
        },
    }
}

fn text(note: &Note) -> String {
    match &note.kind {
        Kind::Step(Decision::Next) => "has nothing against it".into(),
        Kind::Refused(code) => format!("the request ends with {code}"),
        Kind::Field => {
            let (name, value) = note.text.split_once(": ").unwrap_or((&note.text, ""));
            let value = if is_secret(name) { "(not shown)" } else { value };
            format!("adds {name}: {value}")
        }
        Kind::Message(level) => {
            // Fields of the request, as logs at level debug have them.
            let is_field = note.text.starts_with("http header:");
            let text = if is_field { "http header: (not shown)" } else { &note.text };
            format!("[{}] {text}", level.as_str())
        }
        _ => note.text.clone(),
    }
}
