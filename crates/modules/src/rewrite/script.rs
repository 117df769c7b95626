//! Running a script.
//!
//! A script waits for nothing but news of files, and keeps its place then. It changes the request as it goes, so no
//! step may be carried out twice.

use super::NAME;
use brisk_conf::Span;
use brisk_http::uri::{Escape, Unescape, escape, escape_target, unescape};
use brisk_net::file::Kind;
use brisk_server::conf::LocationId;
use brisk_server::files::{Found, reason};
use brisk_server::flow::Flow;
use brisk_server::log::may_debug;
use brisk_server::path::{self, Mapped};
use brisk_server::phases;
use brisk_server::plan::{Declared, Effects, Handler};
use brisk_server::regex::{MatchError, Regex};
use brisk_server::request::Request;
use brisk_server::trace::{self, Kind as Note, Source};
use brisk_server::vars::{Part, Target as _, Template, VarId, append_part, is_set};
use std::rc::Rc;
use std::sync::Arc;

/// What a block's rewrite directives have become.
pub struct Script {
    pub ops: Box<[Op]>,
    /// Where the directive of each step stands.
    pub spans: Box<[Span]>,
    /// `rewrite_log`.
    pub log: bool,
}

/// One step.
#[derive(Clone)]
pub enum Op {
    Rewrite(Arc<Rewrite>),
    Return(Arc<Answer>),
    Set {
        var: VarId,
        value: Arc<Template>,
    },
    Break,
    /// `if`: goes on at `to` unless the test holds.
    Unless {
        test: Test,
        to: usize,
    },
    /// The request is served by the block of an `if` from here on.
    Enter(LocationId),
}

/// `rewrite`.
pub struct Rewrite {
    pub regex: Arc<Regex>,
    pub target: Target,
    /// The request's arguments are added to those of the replacement.
    pub keeps_args: bool,
    pub then: Then,
}

/// What a rewrite leads to.
pub enum Target {
    Uri { path: Template, args: Option<Template> },
    Redirect { status: u16, url: Template, has_args: bool },
}

/// How the script goes on after a rewrite that matched.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Then {
    GoOn,
    /// `last`, and redirects.
    End,
    /// `break`: the location is kept.
    Stay,
}

/// `return`.
pub struct Answer {
    status: u16,
    text: Template,
    /// Text without variables, ready to be sent.
    constant: Option<Arc<[u8]>>,
}

impl Answer {
    pub fn status(&self) -> u16 {
        self.status
    }
}

/// The condition of an `if`.
#[derive(Clone)]
pub enum Test {
    /// Neither empty nor `0`.
    IsSet(VarId),
    Equal {
        var: VarId,
        value: Arc<Template>,
        negate: bool,
    },
    Match {
        var: VarId,
        regex: Arc<Regex>,
        negate: bool,
    },
    File {
        kind: FileKind,
        path: Arc<Template>,
        negate: bool,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    Plain,
    Directory,
    Any,
    Executable,
}

/// Where a script waits for news of a file.
#[derive(Clone, Copy)]
struct Place {
    at: usize,
    quote: bool,
    location: LocationId,
}

/// The place in the request's slot; `None` while no script waits.
#[derive(Default)]
struct Waiting(Option<Place>);

/// What a step decides.
enum Step {
    Next,
    Jump(usize),
    End(Flow),
}

impl Handler for Script {
    /// Whoever watches (`rewrite_log`) wants a line for each request.
    fn declares(&self) -> Declared {
        if self.log { Declared::RECORDED.does(Effects::TELLS) } else { Declared::RECORDED }
    }

    fn handle(&self, r: &mut Request) -> Flow {
        let start = Place { at: 0, quote: true, location: r.route.loc };
        // Asked again after a file was fetched: the steps before this place have been carried out.
        // Looked at without making the slot: most scripts never wait.
        let waiting = r.state.visit.get::<Waiting>().is_some_and(|waiting| waiting.0.is_some());
        let place =
            if waiting { r.state.visit.get_mut::<Waiting>().0.take().unwrap_or(start) } else { start };
        // The block of an `if` may have been entered before the wait.
        r.route.loc = place.location;
        let mut run = Run { script: self, quote: place.quote };
        let mut at = place.at;
        while let Some(op) = self.ops.get(at) {
            let step = run.step(r, op);
            if may_debug() {
                self.tell(r, at, &step);
            }
            match step {
                Step::Next => at += 1,
                Step::Jump(to) => at = to,
                Step::End(flow @ Flow::Disk(..)) => {
                    r.state.visit.get_mut::<Waiting>().0 =
                        Some(Place { at, quote: run.quote, location: r.route.loc });
                    // It is this location's handler that is asked again.
                    r.route.loc = start.location;
                    return flow;
                }
                Step::End(flow) => return flow,
            }
        }
        Flow::Next
    }
}

impl Script {
    /// Says what a step has come to to whom asks why.
    #[cold]
    fn tell(&self, r: &Request, at: usize, step: &Step) {
        let text = match (&self.ops[at], step) {
            (Op::Enter(_), _) | (_, Step::End(Flow::Disk(_))) => return,
            (Op::Unless { .. }, Step::Next) => "the condition holds".to_string(),
            (Op::Unless { .. }, Step::Jump(_)) => "the condition does not hold".into(),
            (Op::Rewrite(_), Step::End(Flow::Status(status))) => format!("matches: redirects with {status}"),
            (Op::Rewrite(_), Step::End(_)) => {
                format!("matches: the path is {} now, and the script ends", Shown(&r.route.uri))
            }
            (Op::Rewrite(_), _) => format!("the script goes on with the path {}", Shown(&r.route.uri)),
            (Op::Return(answer), _) => format!("answers with {}", answer.status),
            (Op::Set { .. }, _) => "is carried out".into(),
            (Op::Break, _) => "ends the script".into(),
            (Op::Unless { .. }, Step::End(_)) => "cannot be decided".into(),
        };
        let applies = match self.ops[at] {
            Op::Return(_) => true,
            Op::Rewrite(_) => matches!(step, Step::End(_)),
            _ => false,
        };
        trace::say(r, NAME, Note::Rule { applies }, text, Source::Span(self.spans[at]));
    }
}

/// A script at work.
struct Run<'s> {
    script: &'s Script,
    /// Captures in values are escaped if the URI came escaped. So it is until a rewrite has matched: nginx's rule.
    quote: bool,
}

impl Run<'_> {
    fn step(&mut self, r: &mut Request, op: &Op) -> Step {
        match op {
            Op::Rewrite(rewrite) => self.rewrite(r, rewrite),
            Op::Return(answer) => Step::End(answer.give(r)),
            Op::Set { var, value } => {
                let value = eval(r, value, self.quote);
                brisk_server::dlog!(
                    r,
                    "http script set ${}: \"{}\"",
                    &r.snap().vars.get(*var).name,
                    String::from_utf8_lossy(&value)
                );
                assign(r, *var, &value);
                Step::Next
            }
            Op::Break => {
                stay(r);
                Step::End(Flow::Next)
            }
            Op::Unless { test, to } => match self.test(r, test) {
                Ok(true) => {
                    brisk_server::dlog!(r, "http script if: true");
                    Step::Next
                }
                Ok(false) => {
                    brisk_server::dlog!(r, "http script if: false");
                    Step::Jump(*to)
                }
                Err(flow) => Step::End(flow),
            },
            Op::Enter(location) => {
                let live = r.live.clone();
                let (before, after) = (live.snap.location(r.route.loc), live.snap.location(*location));
                // As in nginx: the first block's handler would run with the second block's configuration.
                if before.anonymous && before.plan.content.is_some() && after.plan.content.is_none() {
                    brisk_server::rlog!(
                        r,
                        Error,
                        "a second \"if\" has nothing of what the first one passes to"
                    );
                    return Step::End(Flow::Status(500));
                }
                phases::set_location(&live.snap, r, *location);
                Step::Next
            }
        }
    }

    fn rewrite(&mut self, r: &mut Request, rewrite: &Rewrite) -> Step {
        match self.matches(r, &rewrite.regex, &r.route.uri) {
            Ok(true) => {}
            Ok(false) => return Step::Next,
            // An expression that gave up must not count as "does not match": what it guards would be open.
            Err(error) => return Step::End(error.into()),
        }
        // nginx: ngx_http_script_regex_start_code. A location that is `internal` may be reached from here on.
        r.route.internal = true;
        r.route.unparsed_uri_valid = false;
        self.quote = false;
        match &rewrite.target {
            Target::Redirect { status, url, has_args } => {
                self.redirect(r, rewrite.keeps_args, url, *has_args);
                Step::End(Flow::Status(*status))
            }
            Target::Uri { path, args } => {
                // With `break` the location stays, but its prefix need not be the URI's beginning any more.
                r.route.uri_changed = rewrite.then != Then::Stay;
                r.route.location_valid &= rewrite.then != Then::Stay;
                self.change(r, rewrite.keeps_args, path, args.as_ref());
                if r.route.uri.is_empty() {
                    brisk_server::rlog!(r, Error, "the rewritten URI has a zero length");
                    return Step::End(Flow::Status(500));
                }
                if rewrite.then == Then::GoOn { Step::Next } else { Step::End(Flow::Next) }
            }
        }
    }

    fn redirect(&self, r: &mut Request, keeps_args: bool, url: &Template, has_args: bool) {
        let mut location =
            if r.route.has_decoded_delimiter { decoded_redirect(r, url) } else { redirect_to(r, url) };
        if keeps_args && !r.route.args.is_empty() {
            location.push(if has_args { b'&' } else { b'?' });
            location.extend_from_slice(&r.route.args);
        }
        self.tell(r, format_args!("rewritten redirect: \"{}\"", Shown(&location)));
        r.resp.location = Some(location.into());
    }

    fn change(&self, r: &mut Request, keeps_args: bool, path: &Template, args: Option<&Template>) {
        // Before the arguments are replaced: the path may contain `$args`.
        let uri = eval(r, path, false);
        match args {
            Some(args) => {
                // Arguments are not decoded, the path is: captures of decoded text are escaped where they become
                // arguments.
                let mut new = eval(r, args, true);
                if keeps_args && !r.route.args.is_empty() {
                    new.push(b'&');
                    new.extend_from_slice(&r.route.args);
                }
                r.route.args = new;
            }
            None if !keeps_args => r.route.args.clear(),
            None => {}
        }
        r.route.uri = uri;
        let (uri, args) = (&r.route.uri, &r.route.args);
        let (uri, args) = (Shown(uri), Shown(args));
        self.tell(r, format_args!("rewritten data: \"{uri}\", args: \"{args}\""));
    }

    /// For those who follow rewrites (`rewrite_log`), or debug.
    fn tell(&self, r: &Request, message: std::fmt::Arguments<'_>) {
        if self.script.log {
            brisk_server::rlog!(r, Notice, "{message}");
        } else {
            brisk_server::dlog!(r, "{message}");
        }
    }

    /// Matches, and forgets the groups of an earlier match if it fails.
    fn matches(&self, r: &Request, regex: &Regex, subject: &[u8]) -> Result<bool, MatchError> {
        let matched = regex.exec(r, subject)?;
        if !matched {
            // nginx's rule; groups of another expression would otherwise turn up in `$1`.
            r.state.captures.borrow_mut().clear();
        }
        let verb = if matched { "matches" } else { "does not match" };
        self.tell(r, format_args!("\"{}\" {verb} \"{}\"", regex.pattern(), Shown(subject)));
        Ok(matched)
    }

    /// The error is what the handler returns: the test cannot be made yet.
    fn test(&self, r: &mut Request, test: &Test) -> Result<bool, Flow> {
        let value = |r: &Request, var| {
            let mut out = Vec::new();
            r.var(var, &mut out);
            out
        };
        match test {
            Test::IsSet(var) => Ok(is_set(&value(r, *var))),
            Test::Equal { var, value: other, negate } => {
                Ok((value(r, *var) == eval(r, other, self.quote)) != *negate)
            }
            Test::Match { var, regex, negate } => {
                let subject = value(r, *var);
                Ok(self.matches(r, regex, &subject)? != *negate)
            }
            Test::File { kind, path, negate } => {
                let bytes = eval(r, path, self.quote);
                Ok(is_kind(r, bytes, *kind)? != *negate)
            }
        }
    }
}

/// Bytes as messages show them, made only for those that are written.
struct Shown<'b>(&'b [u8]);

impl std::fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.0))
    }
}

/// What is left of a changed URI is served here.
fn stay(r: &mut Request) {
    if r.route.uri_changed {
        r.route.location_valid = false;
        r.route.uri_changed = false;
    }
}

fn assign(r: &mut Request, var: VarId, value: &[u8]) {
    match r.snap().vars.get(var).assign {
        Some(assign) => assign(r, value),
        None => r.state.shared.vars.set(var, Some(Rc::from(value))),
    }
}

/// Fills in a template. With `quote`, captures are escaped as arguments if the client escaped anything in the URI:
/// they were decoded with it.
fn eval(r: &Request, template: &Template, quote: bool) -> Vec<u8> {
    if !quote || !(r.head.target.quoted || r.head.target.plus) || !template.has_captures() {
        return template.eval(r);
    }
    let mut out = Vec::new();
    for part in template.parts() {
        match part {
            Part::Text(text) => out.extend_from_slice(text),
            Part::Var(id) => {
                r.var(*id, &mut out);
            }
            Part::Capture(group) => escape(Escape::Args, r.state.captures.borrow().group(*group), &mut out),
        }
    }
    out
}

/// The URL of a redirect, escaped and unescaped as nginx does it.
fn redirect_to(r: &Request, url: &Template) -> Vec<u8> {
    let raw = eval(r, url, true);
    let mut location = Vec::with_capacity(raw.len() + r.route.args.len() + 1);
    let read = unescape(Unescape::Redirect, &raw, &mut location);
    location.extend_from_slice(&raw[read..]);
    location
}

/// The same for a request whose path has a decoded `?` or `#`. nginx's way would make delimiters of them.
fn decoded_redirect(r: &Request, url: &Template) -> Vec<u8> {
    let mut location = Vec::new();
    for part in url.parts() {
        let mut value = Vec::new();
        append_part(part, r, &mut value);
        if matches!(part, Part::Text(_)) {
            let read = unescape(Unescape::Redirect, &value, &mut location);
            location.extend_from_slice(&value[read..]);
        } else {
            location.extend_from_slice(&escape_target(value.into()));
        }
    }
    location
}

fn is_kind(r: &mut Request, bytes: Vec<u8>, kind: FileKind) -> Result<bool, Flow> {
    // A path that the kernel would cut off at the NUL is another path.
    if bytes.is_empty() || bytes.contains(&0) {
        return Ok(false);
    }
    let file = Mapped { bytes, root_len: 0 };
    let symlinks = path::symlinks(r, &file);
    let found = r.stat_file(file.path(), symlinks)?;
    if let Found::Missing(error) = &found {
        // ENOENT, ENOTDIR, ENAMETOOLONG are answers; others are worth a line.
        if !matches!(error.raw_os_error(), Some(2 | 20 | 36)) {
            brisk_server::rlog!(r, Crit, "stat() \"{}\" failed ({})", file.path().display(), reason(error));
        }
    }
    let Some(info) = found.info() else { return Ok(false) };
    Ok(match kind {
        FileKind::Plain => info.kind == Kind::File,
        FileKind::Directory => info.kind == Kind::Directory,
        FileKind::Any => info.kind != Kind::Other,
        // The owner's bit, as nginx looks at it, whoever the server runs as.
        FileKind::Executable => info.mode & 0o100 != 0,
    })
}

impl Answer {
    pub fn new(status: u16, text: Template) -> Answer {
        let constant = text.as_literal().map(Arc::from);
        Answer { status, text, constant }
    }

    /// Where a redirect leads. What variables bring along is made fit for a URI: they may hold decoded text.
    fn location(&self, r: &Request) -> Vec<u8> {
        let text = self.text.eval_target(r);
        if self.constant.is_some() { text } else { escape_target(text.into()).into_owned() }
    }

    fn give(&self, r: &mut Request) -> Flow {
        let is_redirect = matches!(self.status, 301 | 302 | 303 | 307 | 308);
        // Without a text it is an error as any other, for which `error_page` may have a page.
        if self.status >= 400 && self.text.is_empty() {
            return Flow::Status(self.status);
        }
        if is_redirect {
            r.resp.location = Some(self.location(r).into());
            return Flow::Status(self.status);
        }
        // The text may name it: `return 200 $status;`.
        r.resp.status = self.status;
        let text = match &self.constant {
            Some(text) => text.clone().into(),
            None => brisk_server::text::Text::Owned(self.text.eval(r)),
        };
        if r.resp.content_type.is_none() {
            r.set_content_type_by_extension();
        }
        let content_type = r.resp.content_type.take().unwrap_or_default();
        r.resp.text(self.status, content_type, text);
        Flow::Done
    }
}
