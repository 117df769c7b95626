//! Invariants of files and rules as plain functions over arbitrary bytes: they panic if one is broken.

use crate::conditional::{self, Defines, Server};
use crate::directives::{Places, Standing};
use crate::limits::OVERRIDE_LINE_BYTES_MAX;
use crate::options::Options;
use crate::overrides::{Compiler, Settings};
use crate::pattern::{GROUPS, Spans};
use crate::rewrite::{self, Action, Directory, Target};
use crate::syntax::{self, Mistake};
use crate::{Facts, FileTest, Measure, Origin, Pattern, Patterns, Stop, Value, Variable, Work};
use std::net::IpAddr;

/// Patterns that are texts: each matches where it stands, and has two groups, which are its halves.
struct Texts;

#[derive(Debug)]
struct TextPattern(Vec<u8>);

impl Patterns for Texts {
    type Pattern = TextPattern;

    fn compile(&self, pattern: &[u8], _: bool) -> Result<TextPattern, String> {
        if pattern.contains(&b'(') {
            return Err("no groups here".into());
        }
        Ok(TextPattern(pattern.iter().copied().filter(|byte| !b"^$.*".contains(byte)).collect()))
    }
}

impl Pattern for TextPattern {
    fn groups(&self) -> usize {
        2
    }

    fn find(&self, subject: &[u8]) -> Result<Option<Spans>, Stop> {
        let Some(start) = memchr::memmem::find(subject, &self.0) else { return Ok(None) };
        let (middle, end) = (start + self.0.len() / 2, start + self.0.len());
        let mut spans = [const { None }; GROUPS];
        (spans[0], spans[1], spans[2]) = (Some(start..end), Some(start..middle), Some(middle..end));
        Ok(Some(spans))
    }
}

/// A request whose facts are all one text.
struct Same<'a>(&'a [u8], Work);

impl Facts for Same<'_> {
    fn spend(&self, bytes: usize) -> Result<(), Stop> {
        self.1.spend(bytes)
    }

    fn variable(&self, variable: &Variable) -> Result<Value<'_>, Stop> {
        Ok(match variable {
            Variable::RequestScheme => b"http"[..].into(),
            Variable::ServerName => b"example.org"[..].into(),
            Variable::ServerPort => b"80"[..].into(),
            Variable::DocumentRoot => b"/srv"[..].into(),
            Variable::ContextPrefix | Variable::ContextDocumentRoot => Value::default(),
            _ => self.0.into(),
        })
    }

    fn request_field(&self, _: &[u8]) -> Option<Value<'_>> {
        Some(self.0.into())
    }

    fn response_field(&self, _: &[u8]) -> Option<Value<'_>> {
        None
    }

    fn note(&self, _: &[u8]) -> Option<Value<'_>> {
        None
    }

    fn env(&self, _: &[u8]) -> Option<Value<'_>> {
        Some(self.0.into())
    }

    fn process_env(&self, _: &[u8]) -> Option<Value<'_>> {
        None
    }

    fn client(&self) -> IpAddr {
        [192, 0, 2, 1].into()
    }

    fn measure(&self, _: Measure) -> Value<'_> {
        Value::default()
    }

    fn client_host(&self) -> Result<Option<Value<'_>>, Stop> {
        Ok(Some(self.0.into()))
    }

    fn is_address_of(&self, _: &[u8]) -> Result<bool, Stop> {
        Ok(false)
    }

    fn is_in_group(&self, _: &[u8]) -> Result<bool, Stop> {
        Ok(false)
    }

    fn file(&self, path: &[u8], _: FileTest) -> Result<bool, Stop> {
        Ok(path == b"/srv")
    }

    fn content(&self, _: &[u8]) -> Result<Value<'_>, Stop> {
        Err(Stop::Wait)
    }

    fn size(&self, _: &[u8]) -> Result<u64, Stop> {
        Ok(0)
    }

    fn status_of_uri(&self, _: &[u8]) -> Result<u16, Stop> {
        Ok(200)
    }

    fn status_of_file(&self, _: &[u8]) -> Result<u16, Stop> {
        Ok(404)
    }

    fn is_own_host(&self, host: &[u8], _: u16) -> bool {
        host == b"example.org"
    }

    fn map(&self, _: &[u8], _: &[u8]) -> Result<Option<Value<'_>>, Stop> {
        Ok(Some(self.0.into()))
    }

    fn look_ahead(&self, _: &[u8], _: bool, _: &Variable) -> Result<Value<'_>, Stop> {
        Ok(self.0.into())
    }
}

struct Everything;

impl Server for Everything {
    fn has_module(&self, name: &str) -> bool {
        name.len() < 12
    }

    fn has_file(&self, _: &[u8]) -> bool {
        false
    }

    fn env(&self, _: &str) -> Option<Vec<u8>> {
        None
    }
}

fn compile(text: &[u8]) -> Result<Settings<TextPattern>, Mistake> {
    let nodes = syntax::read(text, OVERRIDE_LINE_BYTES_MAX)?;
    let nodes = conditional::resolve(nodes, &Everything, &Texts, &mut Defines::new())?;
    let standing = Standing::Override { classes: Places::ALL, list: &[] };
    Compiler { patterns: &Texts, standing, options: Options::ALL, origins: &Origin::unknown }.compile(&nodes)
}

/// A `.htaccess` file: it has settings or a mistake in one of its lines; a line that is unknown leaves no settings; rules come
/// to an end, and lead to paths that begin with a slash and to fields without line ends.
pub fn fuzz_htaccess(data: &[u8]) {
    let lines = data.split(|&byte| byte == b'\n').count();
    let settings = match compile(data) {
        Ok(settings) => settings,
        Err(mistake) => {
            assert!((1..=lines).contains(&(mistake.line as usize)), "{mistake} in {lines} lines");
            return;
        }
    };
    // Not if the last line is continued, or is a comment that is.
    if !data.ends_with(b"\\") && !data.ends_with(b"\\\r") {
        assert!(compile(&[data, b"\nNonsense"].concat()).is_err(), "an unknown line was passed over");
    }
    let text = &data[..data.len().min(40)];
    let facts = Same(text, Work::default());
    if let Some(requirements) = &settings.requirements {
        let _ = requirements.judge(&facts);
    }
    let _ = settings.compat.allows(&facts);
    let mut has_held = false;
    for section in &settings.sections {
        let _ = section.scope.holds(text, &facts, &mut has_held, &mut Vec::new());
    }
    let mut fields = vec![(b"Vary".to_vec(), b"a".to_vec())];
    let table = crate::headers::Table::OnSuccess;
    if crate::headers::apply(&settings.headers, table, false, &mut fields, &Vec::new, &facts).is_ok() {
        let values = || fields.iter().flat_map(|(name, value)| name.iter().chain(value));
        assert!(values().all(|byte| !matches!(byte, b'\r' | b'\n' | 0)), "a field was split: {fields:?}");
    }
    rewritten(&settings, text, &facts);
}

fn rewritten(settings: &Settings<TextPattern>, text: &[u8], facts: &Same<'_>) {
    let rules = &settings.rewriting.rules;
    let target = |folder: &[u8]| Target { path: [folder, text].concat(), ..Target::default() };
    let directory = Directory {
        folder: b"/srv/a/",
        base: settings.rewriting.base.as_deref(),
        allows_no_slash: false,
        ignores_context: false,
        follows_links: true,
    };
    let results = [
        rewrite::per_server(rules, target(b"/"), facts),
        rewrite::per_directory(rules, &directory, target(b"/srv/a/"), facts),
    ];
    for (action, _) in results.into_iter().flatten() {
        match action {
            Action::Path { path, .. } => assert!(path.starts_with(b"/"), "{path:?}"),
            Action::Status(status) => assert!((100..600).contains(&status), "{status}"),
            Action::Continue { .. }
            | Action::Internal { .. }
            | Action::Proxy { .. }
            | Action::Redirect { .. } => {}
        }
    }
}
