//! Which server answers for a host name: exact names, then `*.x`, then `x.*`, then regular expressions.

use crate::names::{HostPattern, Names};
use crate::regex::{MatchError, Regex};
use crate::vars::Context;
use std::sync::Arc;

/// One name of a `server_name` directive.
#[derive(Clone)]
pub enum Name {
    /// Just this name.
    Exact(Box<[u8]>),
    /// `*.example.com`, kept as `example.com`; `.example.com` is this and an exact name.
    Head(Box<[u8]>),
    /// `www.example.*`, kept as `www.example`.
    Tail(Box<[u8]>),
    /// All that match.
    Regex(Arc<Regex>),
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Name::Exact(text) => write!(f, "{}", text.escape_ascii()),
            Name::Head(text) => write!(f, "*.{}", text.escape_ascii()),
            Name::Tail(text) => write!(f, "{}.*", text.escape_ascii()),
            Name::Regex(regex) => write!(f, "~{}", regex.pattern()),
        }
    }
}

/// Whether a client's text can be the name of a host: neither empty nor with a slash, a space, a control character or two dots in a row.
pub fn is_host_name(name: &[u8]) -> bool {
    let is_text = |b: &u8| !matches!(b, b'/' | b'\\' | 0..=b' ' | 0x7f);
    !name.is_empty() && name.iter().all(is_text) && !name.windows(2).any(|pair| pair == b"..")
}

/// The names of one listening address, and what each leads to.
pub struct NameTable<V> {
    names: Names<V>,
    regexes: Vec<(Arc<Regex>, V)>,
}

impl<V> Default for NameTable<V> {
    fn default() -> NameTable<V> {
        NameTable { names: Names::default(), regexes: Vec::new() }
    }
}

impl<V: Copy> NameTable<V> {
    /// Adds a name; false if another server has it already: the first one keeps it.
    pub fn add(&mut self, name: &Name, server: V) -> bool {
        let pattern = match name {
            Name::Exact(key) => HostPattern::Exact(key),
            Name::Head(key) => HostPattern::Head(key),
            Name::Tail(key) => HostPattern::Tail(key),
            Name::Regex(regex) => {
                // Whether two expressions match a common name cannot be told: each is taken, and the first that matches wins.
                self.regexes.push((regex.clone(), server));
                return true;
            }
        };
        self.names.add(pattern, server)
    }

    /// True if the host cannot matter here.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && self.regexes.is_empty()
    }

    /// Whether a name (lower case, without port and final dot) is written out, or below one that is. What stands for names of
    /// any owner, a regular expression or `www.*`, does not count.
    pub fn has_written(&self, host: &[u8]) -> bool {
        self.names.find_owned(host).is_some()
    }

    /// The server for a host name (lower case, without port and final dot).
    pub fn find<C: Context>(&self, of: &C, host: &[u8]) -> Result<Option<V>, MatchError> {
        if let Some(server) = self.names.find(host) {
            return Ok(Some(server));
        }
        // No expression is asked about a missing name, as in nginx (ngx_http_find_virtual_server).
        if host.is_empty() {
            return Ok(None);
        }
        // In the order of the configuration, and last: each costs a match, while names cost one look-up.
        for (regex, server) in &self.regexes {
            if regex.exec(of, host)? {
                return Ok(Some(*server));
            }
        }
        Ok(None)
    }
}
