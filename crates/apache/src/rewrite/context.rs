//! One pass over the rules: what was captured, what has changed, and variables as they are by now.

use super::outcome::{Effects, Target};
use super::template::Lookup;
use crate::{Captures, Facts, FileTest, Measure, Stop, Value, Variable};
use std::net::IpAddr;

/// See the module's head.
pub(super) struct Context<'f> {
    pub facts: &'f dyn Facts,
    pub target: Target,
    pub effects: Effects,
    /// The folder with a slash at its end, for the rules of a directory.
    pub folder: Option<&'f [u8]>,
    /// What the present rule's pattern is held against.
    pub subject: Vec<u8>,
    pub rule_captures: Captures,
    pub cond_captures: Captures,
    /// The substitution that made the path, as it was written.
    pub literal_prefix: Vec<u8>,
    /// It was a URL of this server.
    pub is_reduced: bool,
    /// Fields that the present condition has read.
    pub read: Vec<Vec<u8>>,
}

impl<'f> Context<'f> {
    pub fn new(facts: &'f dyn Facts, target: Target, folder: Option<&'f [u8]>) -> Context<'f> {
        Context {
            facts,
            target,
            effects: Effects::default(),
            folder,
            subject: Vec::new(),
            rule_captures: Captures::default(),
            cond_captures: Captures::default(),
            literal_prefix: Vec::new(),
            is_reduced: false,
            read: Vec::new(),
        }
    }

    /// The value of what stands between `%{` and `}`.
    pub fn look_up(&mut self, lookup: &Lookup) -> Result<Vec<u8>, Stop> {
        Ok(match lookup {
            Lookup::Unknown => Vec::new(),
            Lookup::Env(name) => {
                self.facts.spend(self.effects.env.len())?;
                let found = self.facts.note(name).or_else(|| self.env(name));
                found.or_else(|| self.facts.process_env(name)).unwrap_or_default().into_owned()
            }
            Lookup::Ssl(variable) => self.facts.variable(variable)?.into_owned(),
            Lookup::Field(name) => {
                let value = self.facts.request_field(name);
                if value.is_some() && !name.eq_ignore_ascii_case(b"host") {
                    self.read.push(name.clone());
                }
                value.unwrap_or_default().into_owned()
            }
            Lookup::Ahead { variable: None, .. } => Vec::new(),
            Lookup::Ahead { is_file, variable: Some(variable) } => {
                let (target, is_file) = match self.folder {
                    // The rules of a directory do not know the file that a path from the root is, nor the URI of its folder.
                    Some(_) if self.subject.starts_with(b"/") => (self.subject.clone(), false),
                    Some(folder) => ([folder, &self.subject].concat(), true),
                    None => (self.subject.clone(), *is_file),
                };
                self.facts.look_ahead(&target, is_file, variable)?.into_owned()
            }
            Lookup::Variable(variable) => {
                let value = self.variable(variable)?.into_owned();
                if let Some(field) = variable.field().filter(|_| !value.is_empty()) {
                    self.read.push(field.as_bytes().to_vec());
                }
                value
            }
        })
    }

    /// What rules have set, else what was set before.
    fn env(&self, name: &[u8]) -> Option<Value<'_>> {
        let changed = self.effects.env.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        match changed {
            Some((_, value)) => value.as_deref().map(Value::Borrowed),
            None => self.facts.env(name),
        }
    }
}

/// The request as rules have changed it so far: expressions in conditions see it, too.
impl Facts for Context<'_> {
    fn spend(&self, bytes: usize) -> Result<(), Stop> {
        self.facts.spend(bytes)
    }

    fn variable(&self, variable: &Variable) -> Result<Value<'_>, Stop> {
        Ok(match variable {
            Variable::RequestFilename | Variable::ScriptFilename => self.target.path.as_slice().into(),
            Variable::QueryString => self.target.query.as_deref().unwrap_or_default().into(),
            Variable::PathInfo => self.target.path_info.as_slice().into(),
            _ => self.facts.variable(variable)?,
        })
    }

    fn request_field(&self, name: &[u8]) -> Option<Value<'_>> {
        self.facts.request_field(name)
    }

    fn response_field(&self, name: &[u8]) -> Option<Value<'_>> {
        self.facts.response_field(name)
    }

    fn note(&self, name: &[u8]) -> Option<Value<'_>> {
        self.facts.note(name)
    }

    fn env(&self, name: &[u8]) -> Option<Value<'_>> {
        Context::env(self, name)
    }

    fn process_env(&self, name: &[u8]) -> Option<Value<'_>> {
        self.facts.process_env(name)
    }

    fn client(&self) -> IpAddr {
        self.facts.client()
    }

    fn measure(&self, measure: Measure) -> Value<'_> {
        self.facts.measure(measure)
    }

    fn client_host(&self) -> Result<Option<Value<'_>>, Stop> {
        self.facts.client_host()
    }

    fn is_address_of(&self, host: &[u8]) -> Result<bool, Stop> {
        self.facts.is_address_of(host)
    }

    fn is_in_group(&self, group: &[u8]) -> Result<bool, Stop> {
        self.facts.is_in_group(group)
    }

    fn file(&self, path: &[u8], test: FileTest) -> Result<bool, Stop> {
        self.facts.file(path, test)
    }

    fn content(&self, path: &[u8]) -> Result<Value<'_>, Stop> {
        self.facts.content(path)
    }

    fn size(&self, path: &[u8]) -> Result<u64, Stop> {
        self.facts.size(path)
    }

    fn status_of_uri(&self, uri: &[u8]) -> Result<u16, Stop> {
        self.facts.status_of_uri(uri)
    }

    fn status_of_file(&self, path: &[u8]) -> Result<u16, Stop> {
        self.facts.status_of_file(path)
    }

    fn is_own_host(&self, host: &[u8], port: u16) -> bool {
        self.facts.is_own_host(host, port)
    }

    fn map(&self, map: &[u8], key: &[u8]) -> Result<Option<Value<'_>>, Stop> {
        self.facts.map(map, key)
    }

    fn look_ahead(&self, target: &[u8], is_file: bool, variable: &Variable) -> Result<Value<'_>, Stop> {
        self.facts.look_ahead(target, is_file, variable)
    }
}
