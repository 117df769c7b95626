//! What is collected while lines are read: one draft per host, and what all hosts know.

use super::build::statement;
use super::files::Files;
use super::remote::Remote;
use super::users::Users;
use crate::syntax::{Mistake, Node};
use brisk_conf::{Directive, FileId, Span};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// What a reader of directives says: `None`, the directive is another's.
pub(super) type Done = Option<Result<(), String>>;

/// The main server, or a virtual host, as far as it is read.
#[derive(Default)]
pub(super) struct Draft {
    /// The line of its `<VirtualHost>`; 0 for the main server.
    pub line: u32,
    /// Directives of which the last one counts.
    pub single: BTreeMap<&'static str, Directive>,
    pub access_logs: Vec<Directive>,
    pub error_log: Option<(u32, String)>,
    pub log_level: Option<&'static str>,
    pub name: Option<String>,
    pub aliases: Vec<String>,
    pub mappings: Vec<Mapping>,
    /// What back ends get as `Host` (`ProxyPreserveHost`).
    pub proxy_host: Option<&'static str>,
    pub tls: Tls,
    pub remote: Remote,
    pub users: Users,
    /// `ProxyPassReverseCookieDomain`, `ProxyPassReverseCookiePath`.
    pub cookies: Vec<Directive>,
    /// Types that `AddOutputFilterByType` has compressed.
    pub compressed: Vec<Vec<u8>>,
    /// What is about requests.
    pub site: Vec<Node>,
}

/// Finds a pattern in a path: the text of its groups, or nothing.
pub(super) type Find<'f> = &'f dyn Fn(&str, &str) -> Option<Vec<String>>;

/// What all hosts know.
pub(super) struct Translator<'f, 'a> {
    pub files: &'f Files<'a>,
    pub mistakes: Vec<Mistake>,
    pub notices: Vec<(u32, String)>,
    /// Of the main level: `user`, `pid`.
    pub main: BTreeMap<&'static str, Directive>,
    pub user: Option<(u32, String)>,
    pub group: Option<String>,
    pub formats: Formats,
    pub balancers: Balancers,
    pub listens: Vec<Listen>,
    pub types: Option<Directive>,
    /// Finds patterns in paths.
    pub find: Find<'f>,
}

/// What a path leads to.
#[derive(Clone, Debug)]
pub(super) enum Target {
    /// A file or a folder.
    File(String),
    /// A back end, with `timeout=` in seconds.
    Proxy { url: String, timeout_secs: Option<u64> },
    /// A group of back ends, with the path there: which protocol they speak is known when all lines are read.
    Group { name: String, path: String, timeout_secs: Option<u64> },
    /// A script behind FastCGI, by its path there, with `timeout=` in seconds.
    Script { address: String, path: String, timeout_secs: Option<u64> },
    /// `ProxyPass /path !`: no back end, whatever lines about shorter paths say.
    Own,
}

/// One line.
#[derive(Clone, Debug)]
pub(super) struct Mapping {
    pub line: u32,
    /// A path's beginning, or a regular expression.
    pub from: From,
    pub target: Target,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum From {
    Prefix(String),
    Pattern(String),
}

/// A `Listen`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listen {
    /// `None`: all addresses.
    pub address: Option<IpAddr>,
    pub port: u16,
    /// Its protocol is `https`, as that of port 443 without one.
    pub is_https: bool,
    pub line: u32,
}

/// Formats by their text, with the names that Brisk knows them by.
#[derive(Default)]
pub(super) struct Formats {
    /// Nicknames of `LogFormat`.
    pub nicknames: BTreeMap<String, Vec<u8>>,
    /// `LogFormat` without a nickname, for `TransferLog`.
    pub transfer: Option<Vec<u8>>,
    /// In Brisk's language, with the line that first used each.
    pub used: Vec<(String, u32)>,
    /// Variables of the environment that must not be set, with the line that first names each.
    pub without: BTreeMap<String, u32>,
}

/// What lines say of TLS.
#[derive(Default)]
pub(super) struct Tls {
    /// `SSLEngine`. Without it there is TLS where a host with a certificate listens for `https`.
    pub engine: Option<bool>,
    /// Of Brisk's directives the one that counts.
    pub single: BTreeMap<&'static str, (u32, Vec<String>)>,
    pub certificates: Vec<(u32, String)>,
    pub keys: Vec<(u32, String)>,
    /// `SSLCertificateChainFile`.
    pub chain: Option<(u32, String)>,
}

impl<'f, 'a> Translator<'f, 'a> {
    /// Nothing is read yet.
    pub fn new(files: &'f Files<'a>, find: Find<'f>) -> Translator<'f, 'a> {
        Translator {
            files,
            mistakes: Vec::new(),
            notices: files.take_notices(),
            main: BTreeMap::new(),
            user: None,
            group: None,
            formats: Formats::default(),
            balancers: Balancers::default(),
            listens: Vec::new(),
            types: None,
            find,
        }
    }
}

impl Translator<'_, '_> {
    pub fn span(&self, line: u32) -> Span {
        self.files.span(line).unwrap_or(Span { file: FileId(0), start: 0, end: 0 })
    }

    pub fn notice(&mut self, line: u32, text: impl Into<String>) {
        self.notices.push((line, text.into()));
    }

    /// A directive where a line stands.
    pub fn make<A: AsRef<[u8]>>(&self, node: &Node, name: &str, args: &[A]) -> Directive {
        statement(self.span(node.line), name, args)
    }
}

/// Groups by their names.
#[derive(Default)]
pub(super) struct Balancers {
    pub defined: BTreeMap<String, (u32, Vec<Directive>)>,
    /// With the line that first asks each.
    pub asked: BTreeMap<String, u32>,
    pub conflicts: BTreeSet<String>,
    /// Those whose members speak FastCGI.
    pub of_scripts: BTreeSet<String>,
}
