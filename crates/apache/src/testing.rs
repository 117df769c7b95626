//! A request and patterns for tests.

use crate::pattern::{GROUPS, Spans};
use crate::{Facts, FileTest, Measure, Pattern, Patterns, Stop, Value, Variable};
use std::net::IpAddr;

/// Patterns of the crate `regex`; one that is called FAIL fails.
pub struct Rust;

#[derive(Clone, Debug)]
pub struct RustPattern(regex::bytes::Regex);

impl Patterns for Rust {
    type Pattern = RustPattern;

    fn compile(&self, pattern: &[u8], ignores_case: bool) -> Result<RustPattern, String> {
        let pattern = std::str::from_utf8(pattern).map_err(|error| error.to_string())?;
        let built = regex::bytes::RegexBuilder::new(pattern).case_insensitive(ignores_case).build();
        built.map(RustPattern).map_err(|error| error.to_string())
    }
}

impl Pattern for RustPattern {
    fn groups(&self) -> usize {
        self.0.captures_len() - 1
    }

    fn find(&self, subject: &[u8]) -> Result<Option<Spans>, Stop> {
        if self.0.as_str() == "FAIL" {
            return Err(Stop::Failed("match limit".into()));
        }
        let Some(captures) = self.0.captures(subject) else { return Ok(None) };
        let mut spans = [const { None }; GROUPS];
        for (span, group) in spans.iter_mut().zip(captures.iter()) {
            *span = group.map(|group| group.range());
        }
        Ok(Some(spans))
    }
}

/// Names and values.
type Table = Vec<(String, String)>;

/// What a test's request is.
#[derive(Default)]
pub struct Request {
    pub fields: Table,
    pub response: Table,
    pub env: Table,
    pub variables: Vec<(Variable, String)>,
    pub files: Vec<(String, FileTest)>,
    /// Paths that were not looked at yet.
    pub unknown: Vec<String>,
    pub map: Table,
    pub statuses: Vec<(String, u16)>,
    pub work: crate::Work,
}

fn find<'a>(table: &'a Table, name: &[u8]) -> Option<Value<'a>> {
    let is_name = |(known, _): &&(String, String)| known.as_bytes().eq_ignore_ascii_case(name);
    table.iter().find(is_name).map(|(_, value)| value.as_bytes().into())
}

impl Facts for Request {
    fn spend(&self, bytes: usize) -> Result<(), Stop> {
        self.work.spend(bytes)
    }

    fn variable(&self, variable: &Variable) -> Result<Value<'_>, Stop> {
        let found = self.variables.iter().find(|(known, _)| known == variable);
        let field = variable.field().or((*variable == Variable::HttpHost).then_some("Host"));
        Ok(match (found, field) {
            (Some((_, value)), _) => value.as_bytes().into(),
            (None, Some(field)) => find(&self.fields, field.as_bytes()).unwrap_or_default(),
            (None, None) => Value::default(),
        })
    }

    fn request_field(&self, name: &[u8]) -> Option<Value<'_>> {
        find(&self.fields, name)
    }

    fn response_field(&self, name: &[u8]) -> Option<Value<'_>> {
        find(&self.response, name)
    }

    fn note(&self, _: &[u8]) -> Option<Value<'_>> {
        None
    }

    fn env(&self, name: &[u8]) -> Option<Value<'_>> {
        find(&self.env, name)
    }

    fn process_env(&self, _: &[u8]) -> Option<Value<'_>> {
        None
    }

    fn client(&self) -> IpAddr {
        [192, 0, 2, 77].into()
    }

    fn measure(&self, _: Measure) -> Value<'_> {
        b"17"[..].into()
    }

    fn client_host(&self) -> Result<Option<Value<'_>>, Stop> {
        Ok(Some(b"pc.example.net"[..].into()))
    }

    fn is_address_of(&self, host: &[u8]) -> Result<bool, Stop> {
        Ok(host == b"home.example.net")
    }

    fn is_in_group(&self, group: &[u8]) -> Result<bool, Stop> {
        Ok(group == b"admins")
    }

    fn file(&self, path: &[u8], test: FileTest) -> Result<bool, Stop> {
        if self.unknown.iter().any(|known| known.as_bytes() == path) {
            return Err(Stop::Wait);
        }
        let is_it = |(known, kind): &(String, FileTest)| {
            known.as_bytes() == path && (*kind == test || test == FileTest::Exists)
        };
        Ok(self.files.iter().any(is_it))
    }

    fn content(&self, path: &[u8]) -> Result<Value<'_>, Stop> {
        Ok(if self.file(path, FileTest::Exists)? { b"hello"[..].into() } else { Value::default() })
    }

    fn size(&self, path: &[u8]) -> Result<u64, Stop> {
        self.content(path).map(|content| content.len() as u64)
    }

    fn status_of_uri(&self, uri: &[u8]) -> Result<u16, Stop> {
        Ok(self.statuses.iter().find(|(known, _)| known.as_bytes() == uri).map_or(404, |(_, status)| *status))
    }

    fn status_of_file(&self, path: &[u8]) -> Result<u16, Stop> {
        Ok(if self.file(path, FileTest::File)? { 200 } else { 404 })
    }

    fn is_own_host(&self, host: &[u8], port: u16) -> bool {
        host == b"example.org" && port == 80
    }

    fn map(&self, map: &[u8], key: &[u8]) -> Result<Option<Value<'_>>, Stop> {
        if map != b"names" {
            return Err(Stop::Failed("no such map".into()));
        }
        Ok(find(&self.map, key))
    }

    fn look_ahead(&self, target: &[u8], _: bool, variable: &Variable) -> Result<Value<'_>, Stop> {
        match variable {
            Variable::RemoteUser => Ok([b"user of ", target].concat().into()),
            _ => Ok(Value::default()),
        }
    }
}
