//! Compiling directives into a location after the start.
//!
//! They are read as if they stood at the end of the location's block: what the block says is inherited, and a list that they
//! begin anew replaces the block's. What comes of it is a [`Snapshot`] that shares everything with the one that requests came
//! in under, and has one location more. Nothing else of a configuration can be changed in this way: what needs a start (a
//! socket, a log, shared memory, a group of back ends, a file that is read with the configuration) is refused by the name of its
//! directive. Knows neither requests nor files: who compiles what, and when, is [`late`](crate::late)'s.

use super::block;
use super::compiling::{Block, Compiling, Rule};
use super::cx::{Cx, Global, Rows};
use super::ids::LocationId;
use super::snapshot::{Late, Location, Server, Snapshot};
use crate::conf::environment::Environment;
use crate::limits::LATE_LOCATIONS_MAX;
use crate::location::Scope;
use crate::module::Row;
use crate::unusual::Unusual;
use crate::vars::Table;
use brisk_conf::{Context, Diag, Directive, Loader, SourceMap};
use brisk_host::vars::LateNumbers;
use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// What is kept of a configuration so that locations can be compiled later.
pub struct Ground {
    env: Environment,
    rows: Arc<Rows>,
    named: HashMap<(&'static str, String), Arc<dyn Any + Send + Sync>>,
    blocks: HashMap<LocationId, Block>,
    reads_bodies: bool,
    numbers: Arc<LateNumbers>,
    /// The next location's number.
    /// Atomic: several threads may compile at the same time, each for its own requests.
    next: AtomicU32,
    /// See [`Ground::shared`].
    shared: Mutex<Weak<dyn Any + Send + Sync>>,
}

impl Ground {
    /// Of a configuration that is complete; nothing if no block asks for it.
    pub(super) fn of(global: &mut Global<'_>) -> Option<Ground> {
        // Most configurations compile nothing late: they keep neither rows nor blocks.
        (!global.blocks.is_empty()).then(|| Ground {
            env: global.env.clone(),
            rows: global.rows.clone(),
            named: std::mem::take(&mut global.named),
            blocks: std::mem::take(&mut global.blocks),
            reads_bodies: global.reads_bodies,
            numbers: Arc::new(global.vars.late_numbers()),
            // Behind the numbers of the start, so that a number tells which of the two lists a location is in.
            next: AtomicU32::new(global.locations.len() as u32),
            shared: Mutex::new(Weak::<()>::new()),
        })
    }

    /// What all threads have in common that compile for this configuration. It lives as long as one of them holds it: what is
    /// compiled holds the configuration, so that must not hold it in turn.
    pub(crate) fn shared<T: Any + Send + Sync + Default>(&self) -> Arc<T> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(have) = shared.upgrade().and_then(|have| have.downcast().ok()) {
            return have;
        }
        let new = Arc::<T>::default();
        // Weak, or configuration and compiled locations would hold each other for ever.
        let weak: Weak<T> = Arc::downgrade(&new);
        *shared = weak;
        new
    }

    /// Numbers for the locations of one compilation; `None` when all are used up.
    fn take_numbers(&self) -> Option<LocationId> {
        // A whole range at once: how many blocks a text has is known only when it is compiled. Numbers are never used twice, since logs and
        // metrics are kept by them.
        let more = |next: u32| next.checked_add(LATE_LOCATIONS_MAX);
        self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(LocationId)
    }
}

/// Directives from one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// The file's name, for messages.
    pub name: Arc<str>,
    /// Its bytes.
    pub text: Arc<[u8]>,
}

/// What has become of directives.
pub struct Compiled {
    /// With the new location, [`Late::first`].
    pub snap: Arc<Snapshot>,
    /// What is worth a warning, as lines for the error log.
    pub warnings: Vec<String>,
}

type Count = fn(&Global<'_>) -> usize;

/// All of a configuration that is made at a start, and how much of it there is.
/// A late file is written by whoever owns a folder. Without this list it could open a port, grow memory that
/// all share, or make a log anywhere.
const GROWTH: [(Count, &str); 9] = [
    (|global| global.listens.len(), "a listening socket"),
    (|global| global.servers.len() + global.names.len(), "a server"),
    (|global| global.zones.len(), "shared memory"),
    (|global| global.services.len(), "work beside requests"),
    (|global| global.data.len(), "data of the whole configuration"),
    (|global| global.logs.len(), "a log that no other directive names"),
    (|global| global.folders.len() + global.temp_folders.len(), "a folder to write into"),
    (|global| global.read_later.len(), "a file that is read with the configuration"),
    (
        |global| {
            let flags = [
                global.reads_bodies,
                global.records_requests,
                global.measures_lag,
                global.uses_raw_sockets,
                !global.failed_tls.is_empty(),
            ];
            let fields = global.unusual.names.len() + global.unusual.ids.count_ones() as usize;
            fields + flags.iter().filter(|flag| **flag).count()
        },
        "something that the whole server does",
    ),
];

/// What the configuration would have more of than at its start.
fn growth(global: &Global<'_>) -> Option<&'static str> {
    let late = global.late.as_ref()?;
    // By counts and not by directive: a module that is not known here is caught as well.
    // Fewer is growth, too: nothing of the start may go while requests rely on it.
    let grown = GROWTH.iter().zip(&late.before).find(|((count, _), before)| count(global) != **before);
    grown.map(|((_, what), _)| *what)
}

/// Refuses a directive that has changed more than its location.
pub(super) fn check_growth(global: &Global<'_>, directive: &Directive) -> Result<(), Diag> {
    let Some(what) = growth(global) else { return Ok(()) };
    let text = format!("\"{}\" needs {what}, which is made at a start only", directive.name());
    Err(Diag::emerg(directive.span, text).help("put it into the main configuration and reload"))
}

/// Refuses a directive that may not be compiled late.
pub(super) fn check_rule(global: &Global<'_>, row: &Row, directive: &Directive) -> Result<(), Diag> {
    let Some(late) = &global.late else { return Ok(()) };
    if (late.rule.allows)(row, directive) {
        return Ok(());
    }
    let text = format!("\"{}\" directive is not allowed here", directive.name());
    Err(Diag::emerg(directive.span, text).help(late.rule.help))
}

/// No file is read: that is done at a start, by who may read it.
/// The worker has other rights than the master that reads a configuration. What it may read, a file's owner
/// must not be able to name.
struct Closed;

impl Loader for Closed {
    fn resolve(&self, path: &str) -> String {
        path.to_string()
    }

    fn read(&self, _: &str) -> io::Result<Arc<[u8]>> {
        Err(io::Error::other("files are read at a start only"))
    }

    fn glob(&self, _: &str) -> io::Result<Vec<String>> {
        Err(io::Error::other("files are read at a start only"))
    }

    fn addresses(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        Err(io::Error::other("names are looked up at a start only"))
    }
}

/// Compiles the directives of `texts` into the location `into` of a configuration, each text inside of the one before. The
/// error is made of lines for the error log, each with file, line and remedy.
pub fn compile(
    snap: &Snapshot,
    into: LocationId,
    texts: &[Text],
    rule: Rule<'_>,
) -> Result<Compiled, Vec<String>> {
    let fail = |text: &str| vec![text.to_string()];
    let ground =
        snap.ground.as_ref().ok_or_else(|| fail("no location of this configuration can be extended"))?;
    let block = ground.blocks.get(&into).ok_or_else(|| fail("this location cannot be extended"))?;
    let first =
        // The number is used up even if the compilation fails: it is never given to two locations.
        ground.take_numbers().ok_or_else(|| fail("there are no more numbers for locations; reload"))?;
    let mut sources = SourceMap::default();
    let mut diags = Vec::new();
    let mut parse = |text: &Text| {
        let file = sources.add(&*text.name, text.text.clone());
        brisk_conf::parse(&mut sources, file, &Closed, &mut diags)
    };
    // All are parsed, also behind an error: its author sees every mistake at once.
    let trees: Vec<_> = texts.iter().map(&mut parse).collect();
    let mut global = begin(snap, ground, block, first, (&mut sources, &mut diags));
    // The location itself, before the blocks in it.
    let id = global.reserve_location();
    // From here on each directive is measured against these counts.
    global.late = Some(Compiling { rule, before: GROWTH.map(|(count, _)| count(&global)).to_vec() });
    // The modules decide what such a file does not inherit (`ModuleConf::enter`).
    let mut confs = block.confs.enter(Context::LATE);
    let mut scope = Scope::default();
    // Each text inside of the one before: a folder's file begins with what its parent's says.
    for tree in &trees {
        confs = confs.enter(Context::LATE);
        block::directives(&mut Cx::of_location(&mut global, &mut confs, &mut scope), tree);
    }
    let mut cx = Cx::of_location(&mut global, &mut confs, &mut scope);
    let location = block::finished(&mut cx, id, &snap.location(into).name);
    // Before the location is put in its place: a compilation with an error leaves nothing behind.
    check_whole(&mut global, &location);
    global.locations[0] = Some(location);
    let (locations, vars) = (global.locations, global.vars);
    let lines = |errors: bool| {
        let which = diags.iter().filter(move |diag| diag.is_error() == errors);
        which.map(|diag| line(diag, &sources)).collect::<Vec<_>>()
    };
    let errors = lines(true);
    if !errors.is_empty() {
        return Err(errors);
    }
    let built = locations.into_iter().map(|l| Arc::new(l.expect("every reserved location is built")));
    let late = Late { first, locations: built.collect(), into };
    Ok(Compiled { snap: Arc::new(snap.with_late(late, Arc::new(vars))), warnings: lines(false) })
}

/// A message as one line of an error log: what, where, and what can be done.
fn line(diag: &Diag, sources: &SourceMap) -> String {
    let mut line = diag.message.clone();
    if let Some(span) = diag.span {
        // As nginx ends its messages about configurations.
        let _ = write!(line, " in {}:{}", sources.file(span.file).name, sources.end_line(span));
    }
    if let Some(help) = &diag.help {
        let _ = write!(line, " ({})", help.replace('\n', " "));
    }
    line
}

/// Says what is wrong with the whole, and orders all that was said.
fn check_whole(global: &mut Global<'_>, location: &Location) {
    block::report_undefined(global);
    let mut refuse = |text: String| global.diags.push(Diag::global(text));
    // A tree would be looked through before the location is entered; a request is led to this one by another
    // way.
    if location.tree.is_some() || global.servers.iter().any(|server| !server.named.is_empty()) {
        refuse("locations inside of a location are found at a start only".into());
    }
    if global.locations.len() > LATE_LOCATIONS_MAX as usize {
        refuse(format!("there are more than {LATE_LOCATIONS_MAX} blocks"));
    }
    // Variables of files that come and go would add up for ever, so their numbers have a bound.
    if global.vars.is_full() {
        refuse("too many names of variables have come up since the start; a reload forgets them".into());
    }
    if let Some(what) = growth(global) {
        global.diags.push(Diag::global(format!("this needs {what}, which is made at a start only")));
    }
    // In the order of the text, each once.
    brisk_conf::settle(global.diags);
}

/// The configuration as it was started, to be added to.
fn begin<'a>(
    snap: &Snapshot,
    ground: &'a Ground,
    block: &Block,
    first: LocationId,
    (sources, diags): (&'a mut SourceMap, &'a mut Vec<Diag>),
) -> Global<'a> {
    // A server for what asks for the one that is being built.
    // A module may ask for the server that it is in; this one has no names but those of the block.
    let server = Server { name: Box::default(), root: first, named: hashbrown::HashMap::new(), tls: None };
    Global {
        modules: snap.modules,
        env: &ground.env,
        sources,
        // What a setter would read here could be read with the worker's rights only, and while a request waits.
        loader: &Closed,
        diags,
        vars: Table::beside(snap.vars.clone(), ground.numbers.clone()),
        parts: Vec::new(),
        locations: Vec::new(),
        first_location: first,
        servers: vec![server],
        names: vec![block.names.clone()],
        listens: Vec::new(),
        logs: snap.logs.clone(),
        log_places: snap.log_places.clone(),
        failed_tls: Vec::new(),
        folders: snap.folders.clone(),
        temp_folders: snap.temp_folders.clone(),
        reads_bodies: ground.reads_bodies,
        records_requests: snap.records_requests,
        measures_lag: snap.measures_lag,
        uses_raw_sockets: snap.uses_raw_sockets,
        quic_host_key: snap.quic_host_key.clone(),
        unusual: Unusual::clone(&snap.unusual),
        read_later: HashSet::new(),
        // The same zones and groups as at the start: a directive may name them, `GROWTH` sees to it that none is added.
        zones: snap.zones.clone(),
        services: snap.services.clone(),
        data: snap.base.data.clone(),
        named: ground.named.clone(),
        rows: ground.rows.clone(),
        blocks: HashMap::new(),
        late: None,
    }
}
