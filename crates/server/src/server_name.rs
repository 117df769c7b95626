//! Which server answers for a host name: exact names, then `*.x`, then `x.*`, then regular expressions.

use crate::conf::ServerId;
use crate::regex::Regex;
use crate::request::Request;
use hashbrown::HashMap;
use std::sync::Arc;

/// One name of a `server_name` directive.
#[derive(Clone)]
pub enum Name {
    Exact(Box<[u8]>),
    /// `*.example.com`, kept as `example.com`; `.example.com` is this and an exact name.
    Head(Box<[u8]>),
    /// `www.example.*`, kept as `www.example`.
    Tail(Box<[u8]>),
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

/// The names of one listening address.
#[derive(Default)]
pub struct NameTable {
    exact: HashMap<Box<[u8]>, ServerId>,
    head: HashMap<Box<[u8]>, ServerId>,
    tail: HashMap<Box<[u8]>, ServerId>,
    regexes: Vec<(Arc<Regex>, ServerId)>,
}

impl NameTable {
    /// Adds a name; false if another server has it already: the first one keeps it.
    pub fn add(&mut self, name: &Name, server: ServerId) -> bool {
        let (map, key) = match name {
            Name::Exact(key) => (&mut self.exact, key),
            Name::Head(key) => (&mut self.head, key),
            Name::Tail(key) => (&mut self.tail, key),
            Name::Regex(regex) => {
                self.regexes.push((regex.clone(), server));
                return true;
            }
        };
        match map.entry(key.clone()) {
            hashbrown::hash_map::Entry::Occupied(_) => false,
            hashbrown::hash_map::Entry::Vacant(slot) => {
                slot.insert(server);
                true
            }
        }
    }

    /// True if the host cannot matter here.
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.head.is_empty() && self.tail.is_empty() && self.regexes.is_empty()
    }

    /// The server for a host name (lower case, without port and final dot).
    pub fn find(&self, r: &Request, host: &[u8]) -> Option<ServerId> {
        if let Some(&server) = self.exact.get(host) {
            return Some(server);
        }
        if !self.head.is_empty() {
            // The longest suffix wins: cut labels off the front one by one.
            let mut rest = host;
            while let Some(dot) = memchr::memchr(b'.', rest) {
                rest = &rest[dot + 1..];
                if let Some(&server) = self.head.get(rest) {
                    return Some(server);
                }
            }
        }
        if !self.tail.is_empty() {
            let mut rest = host;
            while let Some(dot) = memchr::memrchr(b'.', rest) {
                rest = &rest[..dot];
                if let Some(&server) = self.tail.get(rest) {
                    return Some(server);
                }
            }
        }
        if host.is_empty() {
            return None;
        }
        self.regexes.iter().find(|(regex, _)| regex.exec(r, host)).map(|&(_, server)| server)
    }
}
