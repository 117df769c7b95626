//! What a directive's setter may see and do.

use super::compiling::{Block, Compiling};
use super::confs::Confs;
use crate::conf::environment::{Environment, Places};
use crate::conf::ids::{LocationId, ServerId};
use crate::conf::listen_spec::ListenSpec;
use crate::conf::snapshot::{HostKey, Location, Server};
use crate::module::Modules;
use crate::regex::{Jit, Regex};
use crate::unusual::Unusual;
use crate::vars::Table;
use brisk_conf::{Context, Diag, Directive, Loader, SourceMap, Span, Token, value};
use brisk_host::log::{LogId, LogTarget};
use brisk_host::main_conf::MainConf;
use brisk_host::module::ModuleConf;
use brisk_host::snapshot::Part;
use brisk_host::temp_file::TempPath;
use brisk_host::vars::{Names, Template};
use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What belongs to the whole configuration while it is built.
pub struct Global<'a> {
    /// All modules, in the order in which they install themselves.
    pub modules: Modules,
    /// What paths and names are resolved against.
    pub env: &'a Environment,
    /// The files read so far: what spans point into.
    pub sources: &'a mut SourceMap,
    /// How files are read and names looked up.
    pub loader: &'a dyn Loader,
    /// Errors and notices so far. One error, and the configuration is not applied.
    pub diags: &'a mut Vec<Diag>,
    /// The variables of requests.
    pub vars: Table,
    /// The parts of other protocols.
    pub parts: Vec<Box<dyn Part>>,
    /// Locations by their number; `None` while a block is being read.
    pub locations: Vec<Option<Location>>,
    /// The number of the first of them.
    pub(super) first_location: LocationId,
    /// `server` blocks of `http`, by their number.
    pub servers: Vec<Server>,
    /// The names of each server.
    pub names: Vec<Vec<crate::server_name::Name>>,
    /// What `listen` asks for, in the order of the configuration.
    pub listens: Vec<ListenSpec>,
    /// Logs by their number, each target once.
    pub logs: Vec<LogTarget>,
    /// Where each log was named first.
    pub log_places: Vec<Option<Span>>,
    /// Servers whose certificates could not be loaded, which was told.
    /// Without it each of them would report the missing certificate once more.
    pub failed_tls: Vec<ServerId>,
    /// See [`Cx::writes_into`].
    pub folders: Vec<PathBuf>,
    /// See [`Cx::keeps_temporary`].
    pub temp_folders: Vec<PathBuf>,
    /// See [`Cx::reads_bodies`].
    pub(super) reads_bodies: bool,
    /// See [`Cx::records_requests`].
    pub(super) records_requests: bool,
    /// See [`Cx::measures_lag`].
    pub(super) measures_lag: bool,
    /// See [`Cx::uses_raw_sockets`].
    pub(super) uses_raw_sockets: bool,
    /// `quic_host_key`.
    pub(crate) quic_host_key: Option<HostKey>,
    /// See [`Cx::is_unusual`].
    pub(super) unusual: Unusual,
    /// See [`Cx::reads_later`].
    // With the number of the part whose variables are in it; `None`: HTTP's.
    pub(super) read_later: HashSet<(Option<usize>, Template)>,
    /// Shared memory by name, which a reload keeps.
    /// By name: a zone that the new configuration names again is the old one, with what it has counted.
    pub zones: Vec<std::sync::Arc<crate::zone::Zone>>,
    /// What goes on beside requests while the configuration is live.
    pub services: Vec<std::sync::Arc<dyn brisk_host::service::Service>>,
    /// What modules look up by type at run time ([`brisk_host::snapshot::Snapshot::data`]).
    pub data: Vec<std::sync::Arc<dyn Any + Send + Sync>>,
    /// Log formats, zones and other things that modules name once and use elsewhere, by module and name.
    pub named: HashMap<(&'static str, String), std::sync::Arc<dyn Any + Send + Sync>>,
    pub(super) rows: std::sync::Arc<Rows>,
    /// Blocks into which more may be compiled after the start.
    pub(super) blocks: HashMap<LocationId, Block>,
    /// What holds while a location is compiled after the start.
    pub(super) late: Option<Compiling<'a>>,
}

/// The rows of all modules by name, each with the module's place in the list.
pub type Rows = HashMap<&'static str, Vec<(usize, &'static crate::module::Row)>>;

impl Global<'_> {
    /// Whether a file of a folder is compiled, whose writer may do less than that of the configuration.
    pub fn is_late(&self) -> bool {
        self.late.is_some()
    }

    /// A location of the configuration that is being built, if it is complete.
    pub(super) fn location(&self, id: LocationId) -> Option<&Location> {
        self.locations[(id.0 - self.first_location.0) as usize].as_ref()
    }

    /// Refuses what can be made at a start alone, such as shared memory.
    pub fn only_at_start(&self, token: &Token, what: &str) -> Result<(), Diag> {
        if self.late.is_none() {
            return Ok(());
        }
        Err(Diag::emerg(
            token.span,
            format!("\"{}\" needs {what}, which is made at a start only", token.text()),
        )
        .help("put it into the main configuration and reload"))
    }

    /// Reserves a location's number; [`Cx::child`] fills it.
    pub fn reserve_location(&mut self) -> LocationId {
        self.locations.push(None);
        LocationId(self.first_location.0 + self.locations.len() as u32 - 1)
    }

    /// The number of a log, shared by all who name the same target.
    /// Two directives with one path write through one descriptor. Two descriptors would rotate twice and mix
    /// their lines.
    pub fn log(&mut self, target: LogTarget, place: Option<Span>) -> LogId {
        let index = self.logs.iter().position(|have| *have == target).unwrap_or_else(|| {
            self.logs.push(target);
            self.log_places.push(place);
            self.logs.len() - 1
        });
        LogId(index as u32)
    }
}

/// A directive of the current block that has been carried out.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    /// The directive's name.
    pub name: &'static str,
    /// Where it stands.
    pub span: Span,
    /// Its first parameter is `off`.
    /// `gzip off` and no `gzip` are the same to checks that ask whether somebody wanted it.
    pub is_off: bool,
}

/// The context of a setter: one block of the configuration.
pub struct Cx<'b, 'a: 'b> {
    /// What belongs to the whole configuration.
    pub global: &'b mut Global<'a>,
    /// The modules' configurations of this block.
    pub confs: &'b mut Confs,
    /// The kind of block (one bit).
    pub block: Context,
    /// Locations defined directly in this block.
    pub scope: &'b mut crate::location::Scope,
    /// True if this is the directive's first occurrence in this block: lists start anew, they are not extended.
    pub first: bool,
    /// This block's own simple directives so far; all of them when [`Module::finish`](crate::module::Module::finish) is called.
    pub written: Vec<Written>,
    pub(super) module: usize,
}

impl<'b, 'a> Cx<'b, 'a> {
    /// For directives that stand in a location.
    pub(super) fn of_location(
        global: &'b mut Global<'a>,
        confs: &'b mut Confs,
        scope: &'b mut crate::location::Scope,
    ) -> Cx<'b, 'a> {
        let block = Context::LOCATION;
        Cx { global, confs, block, scope, first: true, written: Vec::new(), module: 0 }
    }
}

impl Cx<'_, '_> {
    /// The configuration of the module that owns the current directive, to be changed.
    pub fn conf<T: ModuleConf>(&mut self) -> &mut T {
        // By the row's module and not by type: two modules may share a type of configuration.
        let module = self.module;
        self.confs.get_mut(module)
    }

    /// Another module's configuration.
    pub fn conf_of<T: ModuleConf>(&self) -> &T {
        self.confs.find_for(self.module)
    }

    /// Another module's configuration, shared, to be kept by a handler.
    pub fn shared<T: ModuleConf>(&self) -> std::sync::Arc<T> {
        self.confs.shared_for(self.module)
    }

    /// Another module's configuration, to be changed.
    pub fn conf_of_mut<T: ModuleConf>(&mut self) -> &mut T {
        self.confs.find_mut()
    }

    /// The variables that may be named in this block.
    /// In `stream` a name such as `$remote_addr` is another variable than in `http`, with another number.
    pub fn names(&mut self) -> &mut dyn Names {
        let block = self.block;
        match self.global.parts.iter().position(|part| part.contexts().has(block)) {
            Some(at) => self.global.parts[at].names(),
            None => &mut self.global.vars,
        }
    }

    /// The part of another protocol.
    ///
    /// # Panics
    /// If no module begins such a part.
    pub fn part_mut<T: Part>(&mut self) -> &mut T {
        let found = self.global.parts.iter_mut().find_map(|part| {
            let part: &mut dyn Any = &mut **part;
            part.downcast_mut()
        });
        found.expect("a module begins this part")
    }

    /// Text with variables. The error is that of a name that cannot be one.
    pub fn template(&mut self, token: &Token) -> Result<Template, Diag> {
        Template::parse(self.names(), token)
    }

    /// A regular expression, without regard to case if `caseless`; its named groups become variables. The error shows the pattern.
    pub fn regex(&mut self, token: &Token, pattern: &[u8], caseless: bool) -> Result<Regex, Diag> {
        let text = std::str::from_utf8(pattern)
            .map_err(|_| Diag::emerg(token.span, "the pattern is not valid UTF-8"))?;
        let jit = if self.conf_of::<MainConf>().pcre_jit { Jit::On } else { Jit::Off };
        Regex::compile(self.names(), text, caseless, jit, token)
    }

    /// Whether a directive has this name, in whatever block.
    pub fn knows(&self, name: &str) -> bool {
        self.global.rows.contains_key(name)
    }

    /// Words that are bits of a set, as nginx reads them: several directives of a block add up to the `before` of the others, and
    /// a word twice is worth a warning.
    pub fn bits(&mut self, d: &Directive, words: &[(&str, u32)], before: u32) -> Result<u32, Diag> {
        // The first line of a block begins anew, as nginx does with inherited lists.
        let mut set = if self.first { 0 } else { before };
        for token in &d.args {
            let bit = brisk_conf::value::choice(token, words)?;
            if set & bit != 0 {
                self.warn(Diag::warn(token.span, format!("duplicate value \"{}\"", token.text())));
            }
            set |= bit;
        }
        Ok(set)
    }

    /// Adds a message that is no reason to refuse the configuration.
    pub fn warn(&mut self, diag: Diag) {
        self.global.diags.push(diag);
    }

    /// Says that workers write into a folder: it is created for their user before they start.
    /// It is made before privileges are dropped: a worker could not create it below a folder of root's.
    pub fn writes_into(&mut self, folder: &Path) {
        if !self.global.folders.iter().any(|have| have == folder) {
            self.global.folders.push(folder.to_owned());
        }
    }

    /// The same of a folder for temporary files: what a killed process has left there is removed at start.
    pub fn keeps_temporary(&mut self, folder: &Path) {
        self.writes_into(folder);
        if !self.global.temp_folders.iter().any(|have| have == folder) {
            self.global.temp_folders.push(folder.to_owned());
        }
    }

    /// Arguments of a directive that names a folder for temporary files: `PATH [LEVEL…]`, each level from 1 to 3.
    pub fn temp_path(&mut self, d: &Directive) -> Result<Arc<TempPath>, Diag> {
        let mut levels = Vec::new();
        for token in &d.args[1..] {
            match value::number(token)? {
                level @ 1..=3 => levels.push(level as u8),
                _ => return Err(invalid_value(d, token, "from 1 to 3")),
            }
        }
        let path = self.full_path(d.arg(0).str());
        self.keeps_temporary(path.as_ref());
        Ok(Arc::new(TempPath { path, levels }))
    }

    /// Says that workers need CAP_NET_RAW, whatever user they are.
    /// The worker keeps the one capability when it gives up root. Nothing else needs it, so nobody has it
    /// without such a directive.
    pub fn uses_raw_sockets(&mut self) {
        self.global.uses_raw_sockets = true;
    }

    /// Says that request bodies are read, which may need the folder of `client_body_temp_path`.
    pub fn reads_bodies(&mut self) {
        self.global.reads_bodies = true;
    }

    /// Says that the numbers of requests are given out somewhere, so that they must be recorded.
    pub fn records_requests(&mut self) {
        self.global.records_requests = true;
    }

    /// Says that it must be known how long requests have been waiting for the event loop.
    pub fn measures_lag(&mut self) {
        self.global.measures_lag = true;
    }

    /// Says that answers to requests with this field are others than those without: it gets no prepared one.
    /// Prepared answers are found by host and target alone. A field that changes the answer and is not
    /// recorded must be named here.
    pub fn is_unusual(&mut self, field: &'static str) {
        self.global.unusual.add(field);
    }

    /// Says that files of this name are read while connections are served: certificates and keys. Where the worker may not
    /// read them, the master does.
    pub fn reads_later(&mut self, name: &Template) {
        let part = self.global.parts.iter().position(|part| part.contexts().has(self.block));
        self.global.read_later.insert((part, name.clone()));
    }

    /// Where the server keeps what no directive has a place for.
    pub fn places(&self) -> &Places {
        &self.global.env.places
    }

    /// A relative path starts at the prefix.
    pub fn full_path(&self, path: &str) -> String {
        self.global.env.full(path)
    }

    /// Reads a file that a directive names (keys, tables), relative to the main file's folder.
    pub fn read_file(&mut self, token: &Token) -> Result<std::sync::Arc<[u8]>, Diag> {
        self.try_file(token).map_err(|error| self.unreadable(token, &error))
    }

    /// As [`Cx::read_file`], for a file with passwords: others than its owner must not be able to read it.
    pub fn read_secret(&mut self, token: &Token) -> Result<std::sync::Arc<[u8]>, Diag> {
        let path = self.global.loader.resolve(token.str());
        self.global.loader.read_secret(&path).map_err(|error| {
            let diag = self.unreadable(token, &error);
            let is_mode =
                error.kind() == std::io::ErrorKind::PermissionDenied && error.raw_os_error().is_none();
            if is_mode { diag.help(format!("chmod 600 {path}")) } else { diag }
        })
    }

    /// As [`Cx::read_file`], for what need not be there.
    // Through the loader: a worker that builds the same configuration gets the bytes that the master has
    // read.
    pub fn try_file(&mut self, token: &Token) -> std::io::Result<std::sync::Arc<[u8]>> {
        let path = self.global.loader.resolve(token.str());
        self.global.loader.read(&path)
    }

    /// The error for a file that cannot be read, in nginx's words.
    pub fn unreadable(&self, token: &Token, error: &std::io::Error) -> Diag {
        let path = self.global.loader.resolve(token.str());
        let (path, why) = (Path::new(&path).display(), brisk_conf::os_text(error));
        Diag::emerg(token.span, format!("open() \"{path}\" failed ({why})"))
    }
}

/// The error for a value that is none of the allowed ones.
pub fn invalid_value(directive: &Directive, token: &Token, allowed: &str) -> Diag {
    Diag::emerg(token.span, format!("invalid value \"{}\"", token.text()))
        .help(format!("\"{}\" must be {allowed}", directive.name()))
}

/// The error for a parameter nobody knows.
pub fn invalid_parameter(token: &Token) -> Diag {
    Diag::emerg(token.span, format!("invalid parameter \"{}\"", token.text()))
}
