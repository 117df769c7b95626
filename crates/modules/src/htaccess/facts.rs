//! What Apache's rules may ask of a request. All is read through accessors that record, so an answer is kept for others only if
//! nothing of it depends on the client.

use super::carried::{Carried, Login};
use super::look_up::{self, Question, Told};
use super::pattern;
use super::place::Place;
use super::secure;
use crate::index::StandIn;
use crate::limits::{
    HTACCESS_LOOK_UP_DEPTH_MAX, HTACCESS_LOOK_UP_WORK_BYTES, HTACCESS_LOOKS_MAX, MAP_BYTES_PER_WORK,
};
use brisk_apache::rewrite::map::{self, Map};
use brisk_apache::{EnvChange, Facts, FileTest, Measure, Origin, Stop, Value, Variable};
use brisk_http::Version;
use brisk_http::uri::resolved;
use brisk_net::clock;
use brisk_net::file::{Info, Kind, Symlinks};
use brisk_net::sys::local_time;
use brisk_server::core::AliasOf;
use brisk_server::files::Found;
use brisk_server::flow::Flow;
use brisk_server::log::may_debug;
use brisk_server::purity::Dependencies;
use brisk_server::request::Request;
use brisk_server::{path, rlog, special, trace};
use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::ffi::OsStr;
use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

/// The module whose handlers ask, as notes call it.
pub const OWNER: &str = "directory_overrides";

/// What was looked up outside of the request.
#[derive(Default)]
pub struct Looked {
    infos: HashMap<(Vec<u8>, bool), Option<Info>>,
    texts: HashMap<Vec<u8>, Option<Arc<[u8]>>>,
    told: HashMap<Question, Told>,
    wanted: RefCell<Option<Wanted>>,
}

enum Wanted {
    /// What is at a path; `true`: links are not followed at its end.
    Info(Vec<u8>, bool),
    Text(Vec<u8>),
    /// How another request would be answered.
    Told(Question),
}

/// What was looked up for a request until it is led elsewhere. A look that waits for the disk has the handler begin anew: what was found
/// before is not asked for again.
#[derive(Default)]
struct Shared(Rc<RefCell<Looked>>);

/// Evaluates until all facts are there.
pub fn settled<T>(
    r: &mut Request,
    evaluate: impl Fn(&Request, &Looked) -> Result<T, Stop>,
) -> Result<T, Flow> {
    let looked = r.state.visit.get::<Shared>().map_or_else(Rc::default, |shared| shared.0.clone());
    // What another request's last match has left.
    pattern::take_owed();
    for _ in 0..HTACCESS_LOOKS_MAX {
        let evaluated = evaluate(r, &looked.borrow());
        match evaluated {
            Ok(value) => return Ok(value),
            Err(Stop::Failed(why)) => {
                rlog!(r, Error, "{why}, as .htaccess asks for it");
                return Err(Flow::Status(500));
            }
            Err(Stop::Wait) => {
                let Some(wanted) = looked.borrow().wanted.take() else { break };
                r.state.visit.get_mut::<Shared>().0 = looked.clone();
                match wanted {
                    Wanted::Info(path, is_link) => looked.borrow_mut().look(r, path, is_link)?,
                    Wanted::Text(path) => looked.borrow_mut().read(r, path)?,
                    Wanted::Told(question) => return Err(look_up::ask(question, looked)),
                }
            }
        }
    }
    rlog!(r, Error, ".htaccess looks at more than {HTACCESS_LOOKS_MAX} files for one request");
    Err(Flow::Status(500))
}

impl Looked {
    /// Keeps what another request would be answered.
    pub fn keep(&mut self, question: Question, told: Told) {
        self.told.insert(question, told);
    }

    fn look(&mut self, r: &mut Request, path: Vec<u8>, is_link: bool) -> Result<(), Flow> {
        let parent = memchr::memrchr(b'/', &path).map_or(0, |at| at + 1);
        let symlinks = if is_link { Symlinks::Refuse { from: parent } } else { Symlinks::Follow };
        let found = r.stat_file(Path::new(OsStr::from_bytes(&path)), symlinks)?;
        // ELOOP: the path's end is a link.
        let is_refused = matches!(&found, Found::Missing(error) if error.raw_os_error() == Some(40));
        let info = if is_link && is_refused { Some(LINK) } else { found.info().copied() };
        self.infos.insert((path, is_link), info);
        Ok(())
    }

    fn read(&mut self, r: &mut Request, path: Vec<u8>) -> Result<(), Flow> {
        let found = r.read_text(Path::new(OsStr::from_bytes(&path)), Symlinks::Follow)?;
        let text = match found {
            Found::File(file) => file.bytes().cloned(),
            _ => None,
        };
        self.texts.insert(path, text);
        Ok(())
    }

    fn info(&self, path: &[u8], is_link: bool) -> Result<Option<&Info>, Stop> {
        if !path.starts_with(b"/") || path.contains(&0) {
            return Ok(None);
        }
        let key = (path.to_vec(), is_link);
        if let Some(info) = self.infos.get(&key) {
            return Ok(info.as_ref());
        }
        *self.wanted.borrow_mut() = Some(Wanted::Info(key.0, is_link));
        Err(Stop::Wait)
    }
}

/// What stands for a link that is not followed.
const LINK: Info = Info {
    kind: Kind::Other,
    size: 0,
    mtime: 0,
    mtime_nsec: 0,
    ctime: 0,
    ctime_nsec: 0,
    inode: u64::MAX,
    device: u64::MAX,
    mode: 0,
    owner: u32::MAX,
};

/// A request as rules see it.
#[derive(Clone, Copy)]
pub struct Seen<'a> {
    /// The request.
    pub r: &'a Request,
    /// Where it leads.
    pub place: &'a Place,
    /// What it has brought from before its last redirect.
    pub carried: &'a Carried,
    /// Variables that have changed since.
    pub changes: &'a [EnvChange],
    /// What was looked up for it.
    pub looked: &'a Looked,
    /// `AuthGroupFile`.
    pub group_file: Option<&'a [u8]>,
}

/// Where names of this machine's are.
const HOSTS: &[u8] = b"/etc/hosts";

/// Addresses with their names.
fn hosts_lines(text: &[u8]) -> impl Iterator<Item = (IpAddr, impl Iterator<Item = &[u8]> + Clone)> {
    text.split(|&byte| byte == b'\n').filter_map(|line| {
        let line = line.split(|&byte| byte == b'#').next().unwrap_or_default();
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let address = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
        Some((address, words))
    })
}

/// It cannot be told: what depends on it is 500.
pub fn unsupported<T>(what: &str) -> Result<T, Stop> {
    Err(Stop::Failed(format!("Brisk cannot tell {what}")))
}

/// `DocumentRoot`: the folder of an `alias` is none, which locations inside of the alias's have, too.
pub(super) fn document_root(r: &Request) -> Vec<u8> {
    let mut out = Vec::new();
    if r.core().root.alias.is_none() {
        path::document_root(r, &mut out);
    } else {
        let snap = r.snap();
        let root = &snap.location(snap.server(r.route.server).root).core.root;
        root.path.append(r, &mut out);
    }
    if out.len() > 1 && out.ends_with(b"/") {
        out.pop();
    }
    out
}

fn on(is_on: bool) -> Value<'static> {
    if is_on { b"on"[..].into() } else { b"off"[..].into() }
}

impl Seen<'_> {
    /// Names and values of all fields.
    pub fn fields(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.r.fields().map(|(name, value)| (name.to_vec(), value.to_vec())).collect()
    }

    /// What is in a file; `None`: it cannot be read.
    fn text(&self, path: &[u8]) -> Result<Option<&[u8]>, Stop> {
        let Some(text) = self.looked.texts.get(path) else {
            *self.looked.wanted.borrow_mut() = Some(Wanted::Text(path.to_vec()));
            return Err(Stop::Wait);
        };
        Ok(text.as_deref())
    }

    fn field(&self, name: &str) -> Value<'_> {
        self.request_field(name.as_bytes()).unwrap_or_default()
    }

    fn time(&self, variable: &Variable) -> Value<'static> {
        let t = local_time(self.r.now().unix_secs);
        let text = match variable {
            Variable::TimeYear => format!("{:04}", t.year),
            Variable::TimeMon => format!("{:02}", t.month),
            Variable::TimeDay => format!("{:02}", t.day),
            Variable::TimeHour => format!("{:02}", t.hour),
            Variable::TimeMin => format!("{:02}", t.minute),
            Variable::TimeSec => format!("{:02}", t.second),
            Variable::TimeWday => {
                let days = brisk_http::date::days_from_civil(i64::from(t.year), t.month as u8, t.day as u8);
                // 1970 began with a Thursday.
                (days + 4).rem_euclid(7).to_string()
            }
            _ => {
                format!("{:04}{:02}{:02}{:02}{:02}{:02}", t.year, t.month, t.day, t.hour, t.minute, t.second)
            }
        };
        text.into_bytes().into()
    }

    /// The prefix of the URI that an `alias` stands for, and its folder.
    fn context(&self) -> (&[u8], &[u8]) {
        let root = &self.place.file[..self.place.root_len.min(self.place.file.len())];
        match &self.r.core().root.alias {
            Some(AliasOf::Prefix(length)) => (self.r.route.uri.get(..*length).unwrap_or_default(), root),
            _ => (b"", root),
        }
    }

    fn server_name(&self) -> Value<'_> {
        if self.r.head.host.is_empty() {
            self.r.snap().server(self.r.route.server).name.as_ref().into()
        } else {
            self.r.head.host.as_slice().into()
        }
    }

    fn server_port(&self) -> u16 {
        self.r.head.port.unwrap_or(if self.r.scheme() == "https" { 443 } else { 80 })
    }

    fn of_connection(&self, variable: &Variable) -> Value<'_> {
        match variable {
            Variable::RemoteHost | Variable::RemoteAddr => self.r.client_text().into(),
            Variable::ConnRemoteAddr => self.r.peer_text().into(),
            Variable::RemotePort => match self.r.client_addr() {
                brisk_host::peer::Peer::Ip(addr) => addr.port().to_string().into_bytes().into(),
                brisk_host::peer::Peer::Unix => Value::default(),
            },
            Variable::ServerAddr => {
                self.r.local_addr().map(|addr| addr.ip().to_string().into_bytes()).unwrap_or_default().into()
            }
            Variable::Ipv6 => on(self.client().is_ipv6()),
            _ => Value::default(),
        }
    }

    fn protocol(&self) -> (u8, u8) {
        match self.r.version() {
            Version::Http09 => (0, 9),
            Version::Http10 => (1, 0),
            Version::Http11 => (1, 1),
            Version::Http2 => (2, 0),
            Version::Http3 => (3, 0),
        }
    }

    fn of_protocol(&self, variable: &Variable) -> Value<'_> {
        let (major, minor) = self.protocol();
        let text = match variable {
            Variable::ServerProtocolVersion => format!("{}", u16::from(major) * 1000 + u16::from(minor)),
            Variable::ServerProtocolVersionMajor => major.to_string(),
            Variable::ServerProtocolVersionMinor => minor.to_string(),
            _ => format!("HTTP/{major}.{minor}"),
        };
        text.into_bytes().into()
    }

    fn request_line(&self) -> Value<'_> {
        let target = self.r.unparsed_uri();
        let (major, minor) = self.protocol();
        let version = format!(" HTTP/{major}.{minor}");
        [self.r.sent_method_name(), b" ", &target, version.as_bytes()].concat().into()
    }
}

impl Seen<'_> {
    /// A question about a file as rules write it: relative to the request's own. `None`: no URI leads to it.
    fn about_file(&self, path: &[u8]) -> Option<Question> {
        let path =
            if path.starts_with(b"/") { path.to_vec() } else { look_up::beside(&self.place.file, path) };
        let path = resolved(&path).ok()?;
        Some(Question { uri: self.uri_of(&path)?, args: Vec::new(), file: Some(path), variable: None })
    }

    /// The URI of a file: by the folder of the request's own, by its `alias`, by the server's root.
    fn uri_of(&self, file: &[u8]) -> Option<Vec<u8>> {
        let (place, uri) = (self.place, &self.r.route.uri);
        let own = &uri[..uri.len().saturating_sub(place.path_info.len())];
        // Before there is a location, the request's file is its URI.
        let beside =
            if place.root_len > 0 { look_up::below(file, look_up::folder(&place.file)) } else { None };
        if let Some(name) = beside.filter(|name| !name.contains(&b'/')) {
            return Some(look_up::beside(own, name));
        }
        let (prefix, root) = self.context();
        if !prefix.is_empty()
            && let Some(rest) = look_up::below(file, root)
        {
            return Some([prefix.strip_suffix(b"/").unwrap_or(prefix), b"/", rest].concat());
        }
        look_up::below(file, &document_root(self.r)).map(|rest| [b"/", rest].concat())
    }

    /// What is known of another request. `None`: it is not asked, as it would have to wait for this one, or is one too many inside of
    /// each other.
    fn ask(&self, question: Question) -> Result<Option<&Told>, Stop> {
        let asker = self.carried.look_up.as_ref().map(|look_up| look_up.asker.as_slice());
        if asker == Some(self.r.route.uri.as_slice()) || self.r.route.depth >= HTACCESS_LOOK_UP_DEPTH_MAX {
            return Ok(None);
        }
        if let Some(told) = self.looked.told.get(&question) {
            return Ok(Some(told));
        }
        let env_bytes: usize =
            self.carried.said.env.iter().map(|(name, value)| name.len() + value.len()).sum();
        self.spend(HTACCESS_LOOK_UP_WORK_BYTES + env_bytes)?;
        *self.looked.wanted.borrow_mut() = Some(Wanted::Told(question));
        Err(Stop::Wait)
    }
}

/// Whether Apache would make a subrequest for it, which some rules are not for: a part of another one, or a file that stands for what was
/// asked for.
pub fn is_subrequest(r: &Request) -> bool {
    r.route.depth > 0 || stands_in(r)
}

/// Whether the request is for a file that stands for what was asked for.
pub fn stands_in(r: &Request) -> bool {
    StandIn::holds(r, || Carried::asked(r))
}

/// Whether no rule applies any more (flag END).
pub fn is_rewriting_over(r: &Request) -> bool {
    let is_stand_in = stands_in(r);
    let carried = Carried::of(r);
    let said = &carried.borrow().said;
    if is_stand_in { said.is_over_for_stand_in } else { said.rewriting_is_over }
}

impl Facts for Seen<'_> {
    fn is_asked_why(&self) -> bool {
        may_debug() && trace::is_on()
    }

    fn tell(&self, origin: &Origin, applies: bool, text: fmt::Arguments<'_>) {
        let source = trace::Source::Line(origin.file.clone(), origin.line);
        trace::say(self.r, OWNER, trace::Kind::Rule { applies }, text.to_string(), source);
    }

    fn spend(&self, bytes: usize) -> Result<(), Stop> {
        self.carried.work.spend(bytes.saturating_add(pattern::take_owed()))
    }

    fn variable(&self, variable: &Variable) -> Result<Value<'_>, Stop> {
        let r = self.r;
        Ok(match variable {
            Variable::TimeYear
            | Variable::TimeMon
            | Variable::TimeDay
            | Variable::TimeHour
            | Variable::TimeMin
            | Variable::TimeSec
            | Variable::TimeWday
            | Variable::Time => self.time(variable),
            Variable::ServerSoftware => special::NAME.as_bytes().into(),
            Variable::ApiVersion => b"20120211:141"[..].into(),
            Variable::HttpUserAgent => self.field("User-Agent"),
            Variable::HttpProxyConnection => self.field("Proxy-Connection"),
            Variable::HttpReferer => self.field("Referer"),
            Variable::HttpCookie => self.field("Cookie"),
            Variable::HttpForwarded => self.field("Forwarded"),
            Variable::HttpHost => self.field("Host"),
            Variable::HttpAccept => self.field("Accept"),
            Variable::RequestMethod => r.method_name().into(),
            Variable::RequestScheme => r.scheme().as_bytes().into(),
            Variable::RequestUri | Variable::DocumentUri => {
                self.carried.said.asked.as_deref().unwrap_or(&r.route.uri).into()
            }
            Variable::RequestFilename | Variable::ScriptFilename => self.place.file.as_slice().into(),
            Variable::PathInfo => self.place.path_info.as_slice().into(),
            Variable::QueryString => r.route.args.as_slice().into(),
            Variable::RemoteUser => self.carried.said.user.as_deref().unwrap_or_default().into(),
            Variable::RemoteIdent | Variable::ServerAdmin => Value::default(),
            Variable::AuthType => match (&self.carried.said.user, self.carried.said.login) {
                (None, _) => Value::default(),
                (_, Login::Basic) => b"Basic"[..].into(),
                (_, Login::Digest) => b"Digest"[..].into(),
            },
            Variable::ServerName => self.server_name(),
            Variable::ServerPort => self.server_port().to_string().into_bytes().into(),
            Variable::ServerProtocol
            | Variable::ServerProtocolVersion
            | Variable::ServerProtocolVersionMajor
            | Variable::ServerProtocolVersionMinor => self.of_protocol(variable),
            Variable::RemoteHost
            | Variable::RemoteAddr
            | Variable::ConnRemoteAddr
            | Variable::RemotePort
            | Variable::ServerAddr
            | Variable::Ipv6 => self.of_connection(variable),
            Variable::IsSubreq => if is_subrequest(r) { &b"true"[..] } else { b"false" }.into(),
            Variable::DocumentRoot => document_root(self.r).into(),
            Variable::ContextPrefix => self.context().0.into(),
            Variable::ContextDocumentRoot => self.context().1.into(),
            Variable::TheRequest => self.request_line(),
            Variable::ContentType => r.resp.content_type.as_deref().unwrap_or_default().into(),
            Variable::RequestStatus if r.resp.status == 0 => Value::default(),
            Variable::RequestStatus => r.resp.status.to_string().into_bytes().into(),
            Variable::Https => on(r.scheme() == "https"),
            Variable::Http2 => on(r.version() == Version::Http2),
            Variable::Handler => return unsupported("a request's handler (HANDLER)"),
            Variable::LastModified => return unsupported("when a file was changed (LAST_MODIFIED)"),
            Variable::RequestLogId | Variable::ConnLogId => return unsupported("names in the error log"),
            Variable::ScriptUser | Variable::ScriptGroup => return unsupported("who owns a file"),
            Variable::Ssl(name) => return secure::value(self, name),
        })
    }

    fn request_field(&self, name: &[u8]) -> Option<Value<'_>> {
        let values: Vec<&[u8]> = self.r.headers_named(name).map(|value| value as &[u8]).collect();
        match values.as_slice() {
            [] => None,
            _ => Some(values.join(&b", "[..]).into()),
        }
    }

    fn response_field(&self, name: &[u8]) -> Option<Value<'_>> {
        let resp = &self.r.resp;
        let own = match name.to_ascii_lowercase().as_slice() {
            b"content-type" => {
                let mut out = Vec::new();
                return resp.write_content_type(&mut out).then(|| out.into());
            }
            b"location" => resp.location.as_deref(),
            b"etag" => resp.etag.as_deref(),
            b"content-encoding" => resp.content_encoding.as_deref(),
            b"vary" => resp.vary.as_deref(),
            _ => None,
        };
        own.or_else(|| resp.header(name).map(|text| &**text)).map(Value::Borrowed)
    }

    fn note(&self, _: &[u8]) -> Option<Value<'_>> {
        None
    }

    fn env(&self, name: &[u8]) -> Option<Value<'_>> {
        let is_name = |known: &[u8]| known.eq_ignore_ascii_case(name);
        if let Some((_, value)) = self.changes.iter().rev().find(|(known, _)| is_name(known)) {
            return value.as_deref().map(Value::Borrowed);
        }
        let found = self.carried.said.env.iter().find(|(known, _)| is_name(known));
        if found.is_none() && is_name(b"SSL_TLS_SNI") {
            return secure::asked_name(self);
        }
        found.map(|(_, value)| Value::Borrowed(value.as_slice()))
    }

    fn process_env(&self, _: &[u8]) -> Option<Value<'_>> {
        None
    }

    fn client(&self) -> IpAddr {
        // A unix socket's peer has no address: no rule that names one lets it in.
        self.r.client_addr().ip().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
    }

    fn measure(&self, measure: Measure) -> Value<'_> {
        let text = match measure {
            Measure::RequestTime => {
                let now = self.r.now();
                let us = now.unix_secs * 1_000_000 + i64::from(now.unix_millis) * 1000;
                us.to_string()
            }
            Measure::Duration => {
                self.r.now();
                clock::precise_us().saturating_sub(self.r.progress.started.mono_us).to_string()
            }
            Measure::Load | Measure::Idle | Measure::Busy => "-".into(),
        };
        text.into_bytes().into()
    }

    fn client_host(&self) -> Result<Option<Value<'_>>, Stop> {
        let hosts = self.text(HOSTS)?.unwrap_or_default();
        let client = self.client();
        match hosts_lines(hosts).find(|(address, _)| *address == client) {
            Some((_, mut names)) => Ok(names.next().map(Value::Borrowed)),
            None => unsupported("a client's host name, which is not in /etc/hosts: write addresses"),
        }
    }

    fn is_address_of(&self, host: &[u8]) -> Result<bool, Stop> {
        let hosts = self.text(HOSTS)?.unwrap_or_default();
        let mut known = hosts_lines(hosts)
            .filter(|(_, names)| names.clone().any(|name| name.eq_ignore_ascii_case(host)))
            .map(|(address, _)| address)
            .peekable();
        if known.peek().is_none() {
            return unsupported("the addresses of a host that is not in /etc/hosts: write them");
        }
        let client = self.client();
        Ok(known.any(|address| address == client))
    }

    fn is_in_group(&self, group: &[u8]) -> Result<bool, Stop> {
        let Some(file) = self.group_file else { return unsupported("groups without AuthGroupFile") };
        if !file.starts_with(b"/") {
            return unsupported("AuthGroupFile: the path must begin with a slash");
        }
        let Some(text) = self.text(file)? else {
            return unsupported("what is in AuthGroupFile: it cannot be read");
        };
        let user = self.carried.said.user.as_deref().unwrap_or_default();
        Ok(!user.is_empty()
            && text.split(|&b| b == b'\n').any(|line| {
                let Some(colon) = memchr::memchr(b':', line) else { return false };
                let members = line[colon + 1..].split(u8::is_ascii_whitespace);
                line[..colon].trim_ascii() == group && members.into_iter().any(|member| member == user)
            }))
    }

    fn file(&self, path: &[u8], test: FileTest) -> Result<bool, Stop> {
        if test == FileTest::Link {
            return Ok(self.looked.info(path, true)?.is_some_and(|info| *info == LINK));
        }
        let Some(info) = self.looked.info(path, false)? else { return Ok(false) };
        Ok(match test {
            FileTest::Directory => info.kind == Kind::Directory,
            FileTest::Exists => true,
            FileTest::File => info.kind == Kind::File,
            FileTest::NotEmpty => info.kind == Kind::File && info.size > 0,
            FileTest::Executable => info.mode & 0o111 != 0,
            FileTest::Link => false,
        })
    }

    fn content(&self, path: &[u8]) -> Result<Value<'_>, Stop> {
        if !path.starts_with(b"/") || path.contains(&0) {
            return Ok(Value::default());
        }
        Ok(self.text(path)?.unwrap_or_default().into())
    }

    fn size(&self, path: &[u8]) -> Result<u64, Stop> {
        let info = self.looked.info(path, false)?;
        Ok(info.filter(|info| info.kind == Kind::File).map_or(0, |info| info.size))
    }

    fn status_of_uri(&self, uri: &[u8]) -> Result<u16, Stop> {
        let Some(question) = Question::of_uri(self.r, uri) else { return Ok(400) };
        Ok(self.ask(question)?.map_or(500, |told| told.status))
    }

    fn status_of_file(&self, path: &[u8]) -> Result<u16, Stop> {
        let Some(question) = self.about_file(path) else { return Ok(403) };
        if !self.file(question.file.as_deref().unwrap_or_default(), FileTest::Exists)? {
            return Ok(404);
        }
        Ok(self.ask(question)?.map_or(500, |told| told.status))
    }

    fn is_own_host(&self, host: &[u8], port: u16) -> bool {
        self.server_name().eq_ignore_ascii_case(host) && port == self.server_port()
    }

    fn map(&self, map: &[u8], key: &[u8]) -> Result<Option<Value<'_>>, Stop> {
        let name = || String::from_utf8_lossy(map).into_owned();
        let known = self.carried.maps.as_ref().and_then(|maps| maps.get(map));
        match known {
            // As in Apache, a host that has no such map finds nothing in it.
            None if self.carried.maps.is_some() => Ok(None),
            None => unsupported(&format!("what is in the RewriteMap {}: there is none", name())),
            Some(Map::Program) => {
                unsupported(&format!("what a program says (RewriteMap {}): it is not started", name()))
            }
            Some(Map::Internal(function)) => Ok(Some(function.of(key).into())),
            Some(Map::File { path, is_random }) => {
                let Some(text) = self.text(path)? else {
                    return unsupported(&format!("what is in the RewriteMap {}: it cannot be read", name()));
                };
                self.spend(text.len() / MAP_BYTES_PER_WORK)?;
                let Some(value) = map::find(text, key) else { return Ok(None) };
                if *is_random {
                    self.r.depends_on(Dependencies::RANDOM);
                    return Ok(Some(map::one_of(value, RandomState::new().build_hasher().finish()).into()));
                }
                Ok(Some(value.into()))
            }
        }
    }

    fn look_ahead(&self, target: &[u8], is_file: bool, variable: &Variable) -> Result<Value<'_>, Stop> {
        let about = if is_file { self.about_file(target) } else { Question::of_uri(self.r, target) };
        let Some(question) = about else { return Ok(Value::default()) };
        let told = self.ask(Question { variable: Some(variable.clone()), ..question })?;
        Ok(told.map(|told| told.value.as_slice().into()).unwrap_or_default())
    }
}
