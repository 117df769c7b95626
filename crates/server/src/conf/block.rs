//! Resolving blocks.
//!
//! Order within a block: simple directives as they stand, then the modules' checks of the whole, then inner
//! blocks. An inner block therefore begins with all that its outer block says, wherever it stands in the text,
//! and inheriting is copying.

use super::compiling::Block;
use super::confs::Confs;
use super::cx::{Cx, Global, Rows, Written};
use super::idle;
use super::ids::LocationId;
use super::late;
use super::snapshot::{Location, Snapshot};
use crate::conf::environment::Environment;
use crate::location::Scope;
use crate::module::{Module, Modules, Set};
use crate::plan::{Needs, Plan};
use crate::trace;
use crate::trace::steps::Owners;
use crate::unusual::Unusual;
use crate::vars::Table;
use brisk_conf::hints::{self, Hint};
use brisk_conf::{Context, Default as RowDefault, Diag, Directive, Loader, SourceMap, Span, row};
use brisk_host::snapshot::Socket;
use brisk_host::tls::Allowed;
use brisk_host::vars::Template;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Builds a snapshot from a parsed configuration. Errors and notices are appended to `diags`; `None` if there are
/// errors.
pub fn build(
    modules: Modules,
    env: &Environment,
    sources: &mut SourceMap,
    loader: &dyn Loader,
    tree: &[Directive],
    diags: &mut Vec<Diag>,
) -> Option<Snapshot> {
    let mut rows = Rows::new();
    let mut vars = Table::default();
    for (index, module) in modules.iter().enumerate() {
        // By name, since text is found by name; a name may have rows in several contexts.
        module.rows.iter().for_each(|row| rows.entry(row.name).or_default().push((index, row)));
        vars.add_builtin(module.variables);
    }
    // Made before the first directive is read: those of `stream` may name variables and logs at once.
    let parts = modules.iter().filter_map(|module| module.beside).map(|beside| (beside.part)()).collect();
    let mut global = Global {
        modules,
        env,
        sources,
        loader,
        diags,
        vars,
        parts,
        locations: Vec::new(),
        first_location: LocationId(0),
        servers: Vec::new(),
        names: Vec::new(),
        listens: Vec::new(),
        logs: Vec::new(),
        folders: Vec::new(),
        temp_folders: Vec::new(),
        reads_bodies: false,
        records_requests: false,
        measures_lag: false,
        uses_raw_sockets: false,
        quic_host_key: None,
        unusual: Unusual::default(),
        read_later: HashSet::new(),
        zones: Vec::new(),
        services: Vec::new(),
        data: Vec::new(),
        failed_tls: Vec::new(),
        log_places: Vec::new(),
        named: HashMap::new(),
        rows: Arc::new(rows),
        blocks: HashMap::new(),
        late: None,
    };
    // One set for `main` and `http`: see `Cx::block_here`.
    let mut confs = Confs::new(modules);
    // Before the text: what the text says replaces it.
    defaults(&mut global, &mut confs);
    // Blocks before the directive need it, too.
    confs.find_mut::<brisk_host::main_conf::MainConf>().pid = env.pid_file(tree);
    let mut scope = Scope::default();
    let mut cx = Cx {
        global: &mut global,
        confs: &mut confs,
        block: Context::MAIN,
        scope: &mut scope,
        first: true,
        written: Vec::new(),
        module: 0,
    };
    // All errors of all blocks are collected on the way; the setters never stop the walk.
    directives(&mut cx, tree);
    finish(global, &confs)
}

/// Runs every setter on its row's default, so that there is one definition of it.
fn defaults(global: &mut Global<'_>, confs: &mut Confs) {
    let rows: Vec<_> = global
        // In the order of the modules, as text is carried out. A default may read what a default before it
        // has set.
        .modules
        .iter()
        .enumerate()
        .flat_map(|(index, module)| module.rows.iter().map(move |row| (index, row)))
        .collect();
    for (module, row) in rows {
        // Defaults that are only told follow from other settings, where they are used.
        let RowDefault::Value(value) = row.default else { continue };
        // A default is parsed like text of the user's, so that a unit or a list means the same in both.
        let file = global.sources.add("default", format!("{} {value};", row.name).into_bytes());
        let parsed = brisk_conf::parse(global.sources, file, &brisk_conf::NoFiles, global.diags);
        // Spans of it point nowhere any more; a default raises no error that could show one.
        global.sources.pop();
        let mut scope = Scope::default();
        let mut cx = Cx {
            global,
            confs,
            block: Context::MAIN,
            scope: &mut scope,
            first: true,
            written: Vec::new(),
            module,
        };
        if let Err(diag) = row.set.run(row, &mut cx, &parsed[0]) {
            // A test of the workspace builds the defaults of all rows, so this is met before a release is.
            unreachable!("the default of \"{}\" is refused: {}", row.name, diag.message);
        }
    }
    confs.are_defaults();
    // What a default names stands in no file.
    global.log_places.fill(None);
}

/// Carries out the directives of one block: simple ones, then checks, then inner blocks.
pub(super) fn directives(cx: &mut Cx<'_, '_>, block: &[Directive]) {
    // Of rows and not of names: `server` of `http` and `server` of `upstream` do not meet in one block.
    let mut seen: HashSet<&'static str> = HashSet::new();
    let mut blocks = Vec::new();
    // Inner blocks are entered when this list is back in its place, and each begins with an empty one.
    let outer = std::mem::take(&mut cx.written);
    for (index, directive) in block.iter().enumerate() {
        // Before the directive is judged: the suspicion (a missing semicolon, say) explains the error.
        let hint = hint(cx, directive);
        let (module, row) = match find(cx, directive) {
            Ok(found) => found,
            Err(diag) => {
                let before = index.checked_sub(1).map(|before| &block[before]);
                let diag = refused(cx, directive, before, diag, hint);
                cx.global.diags.push(diag);
                continue;
            }
        };
        // `first` per block: by it setters know whether what they see was inherited.
        cx.first = seen.insert(row.name);
        if !cx.first && !row.many {
            cx.global.diags.push(
                // nginx's words: scripts look for them.
                Diag::emerg(directive.span, format!("\"{}\" directive is duplicate", row.name))
                    .help("it may stand once in a block; remove one of them"),
            );
            continue;
        }
        cx.module = module;
        // Also if the setter refuses it: checks ask what the user wrote.
        cx.written.push(Written { name: row.name, span: directive.span, is_off: is_off(directive) });
        let told = cx.global.diags.len();
        match row.set {
            // Kept for the end: what is written below an inner block counts for it, too.
            Set::Both(_, block) | Set::Block(block) => blocks.push((module, block, directive)),
            Set::Ignored(why) => {
                let text = format!("the \"{}\" directive has no effect here: {why}", row.name);
                cx.global.diags.push(Diag::notice(directive.span, text));
            }
            _ => {}
        }
        // Blocks that are simple directives, too (`upstream`, `if`), do their first half here, in their place.
        let done = row.set.run(row, cx, directive);
        // What is compiled after the start may not add sockets, logs and the like: told with the directive that
        // did.
        let done = done.and_then(|()| late::check_growth(cx.global, directive));
        match done {
            Err(diag) => cx.global.diags.push(row.explain(explained(diag.about(row.name), hint))),
            Ok(()) => suspect(cx.global.diags, told, hint),
        }
    }
    checks(cx);
    // Before inner blocks are entered: each has a list of its own.
    cx.written = outer;
    for (module, set, directive) in blocks {
        cx.module = module;
        if let Err(diag) = set(cx, directive) {
            cx.global.diags.push(diag);
        }
    }
}

/// The modules' checks of a block.
fn checks(cx: &mut Cx<'_, '_>) {
    // Modules whose directives do not stand here are asked, too: a check may be about what was inherited.
    // In the order of the list of modules: one may rely on what those before it have found.
    each_awake(cx, |cx, module| {
        if let Some(finish) = module.finish
            && let Err(diag) = finish(cx)
        {
            cx.global.diags.push(diag);
        }
    });
    if cfg!(debug_assertions) {
        idle::check_finish(cx);
    }
}

/// Does `work` for each module that has something to do in this block.
fn each_awake(cx: &mut Cx<'_, '_>, mut work: impl FnMut(&mut Cx<'_, '_>, &'static Module)) {
    let mut next = 0;
    // Asked each time: a module may change another's configuration.
    while let Some(index) = cx.confs.next_awake(next) {
        cx.module = index;
        work(cx, cx.global.modules[index]);
        next = index + 1;
    }
}

/// Adds the warning about a directive that was taken. What else looked odd about it (from `told` on) has the same cause.
fn suspect(diags: &mut Vec<Diag>, told: usize, hint: Option<Hint>) {
    let Some(diag) = hint.and_then(Hint::warning) else { return };
    // Errors stay; only warnings of the same cause are one too many.
    let others = diags.split_off(told);
    diags.push(diag);
    diags.extend(others.into_iter().filter(Diag::is_error));
}

/// The error for a directive that may not stand where it does, with what was probably meant.
fn refused(
    cx: &Cx<'_, '_>,
    directive: &Directive,
    before: Option<&Directive>,
    diag: Diag,
    hint: Option<Hint>,
) -> Diag {
    // A known name in a wrong place is told where it belongs; only unknown ones may be the rest of a value that was cut in two.
    if cx.knows(directive.name()) {
        return explained(diag, hint);
    }
    match before.and_then(|before| hints::cut_value(before, directive, cx.global.sources)) {
        Some(help) => diag.help(help),
        None => diag,
    }
}

fn is_off(directive: &Directive) -> bool {
    directive.args.first().is_some_and(|token| token.bytes() == b"off")
}

fn explained(diag: Diag, hint: Option<Hint>) -> Diag {
    match hint {
        Some(hint) => hint.explain(diag),
        None => diag,
    }
}

/// What a directive looks suspicious for.
fn hint(cx: &Cx<'_, '_>, directive: &Directive) -> Option<Hint> {
    hints::of(directive, cx.global.sources, &|name| cx.knows(name))
}

/// The row of a directive in this context. Several rows may share a name (`server` in `http` and in `upstream`).
// The nearest context wins: `server` in `upstream` and `server` in `http` are different rows.
fn find(cx: &Cx<'_, '_>, directive: &Directive) -> Result<(usize, &'static crate::module::Row), Diag> {
    let Some(rows) = cx.global.rows.get(directive.name()) else {
        return Err(row::unknown(directive, cx.global.rows.keys().copied()));
    };
    // If none fits, the first row makes the error: its contexts are those that are told.
    let (module, found) = rows.iter().find(|(_, row)| row.contexts.has(cx.block)).unwrap_or(&rows[0]);
    row::check(found, directive, cx.block)?;
    // Before the setter runs: what is not allowed late must leave no trace.
    late::check_rule(cx.global, found, directive)?;
    Ok((*module, found))
}

/// The blocks of a block.
impl<'a> Cx<'_, 'a> {
    /// Resolves an inner block with configurations of its own, of which `done` makes what is wanted.
    pub fn inner<T>(
        &mut self,
        directive: &Directive,
        kind: Context,
        done: impl FnOnce(&mut Cx<'_, 'a>) -> T,
    ) -> T {
        let module = self.module;
        entered(self, kind, |cx| {
            directives(cx, directive.block.as_deref().unwrap_or_default());
            cx.module = module;
            done(cx)
        })
    }

    /// Carries out the block of `directive` with this block's own configurations (`events`, `http`).
    pub fn block_here(&mut self, directive: &Directive) {
        let module = self.module;
        directives(self, directive.block.as_deref().unwrap_or_default());
        self.module = module;
    }

    /// Resolves an inner block and stores it as location `id`.
    pub fn child(
        &mut self,
        id: LocationId,
        directive: &Directive,
        kind: Context,
        name: &[u8],
        prepare: impl FnOnce(&mut Cx<'_, 'a>),
    ) {
        location(self, id, directive, kind, name, prepare);
    }
}

/// Resolves the block of `directive` as location `id`.
fn location<'a>(
    outer: &mut Cx<'_, 'a>,
    id: LocationId,
    directive: &Directive,
    kind: Context,
    name: &[u8],
    prepare: impl FnOnce(&mut Cx<'_, 'a>),
) {
    let location = entered(outer, kind, |cx| {
        prepare(cx);
        directives(cx, directive.block.as_deref().unwrap_or_default());
        finished(cx, id, name)
    });
    if outer.global.late.is_none() {
        trace::keep_block(id, directive.span);
    }
    // What is compiled late counts its locations from a number that no other configuration uses.
    // The place was reserved when the block began, so that locations have the order of the text, inner ones
    // behind outer ones.
    outer.global.locations[(id.0 - outer.global.first_location.0) as usize] = Some(location);
}

/// What has become of a block whose directives are carried out: a location with its plan.
pub(super) fn finished(cx: &mut Cx<'_, '_>, id: LocationId, name: &[u8]) -> Location {
    let mut plan = Plan::default();
    let mut owners = trace::is_on().then(Owners::default);
    // The order of this list is the order of handlers within a phase, as nginx has it.
    each_awake(cx, |cx, module| {
        if let Some(install) = module.install {
            install(cx, &mut plan);
        }
        if let Some(owners) = &mut owners {
            owners.learn(module.name, &plan);
        }
    });
    if cfg!(debug_assertions) {
        idle::check_install(cx);
    }
    if let Some(owners) = owners {
        owners.enclose(&mut plan);
    }
    let core: Arc<crate::core::http_conf::CoreConf> = cx.shared();
    // The core's part: what of its own settings an answer of this location depends on.
    // After all modules: the seal adds up what each handler declares, and a handler that came later would be missing in it.
    plan.seal(core.declares());
    // Blocks of `if` and `limit_except` are locations that no URI leads to.
    let anonymous = !Context::SERVER.or(Context::LOCATION).has(cx.block);
    let global = &mut *cx.global;
    let wants_slash = |id: LocationId| global.location(id).is_some_and(|l| l.plan.auto_redirect);
    // When all inner locations are known: whether `/a` redirects to `/a/` depends on their plans.
    let (tree, named) = std::mem::take(cx.scope).finish(wants_slash);
    if plan.is_extended_later {
        global.blocks.insert(id, Block::new(cx.confs.clone(), global.names.last().cloned()));
    }
    global.servers.last_mut().expect("locations are in a server").named.extend(named);
    Location { name: name.into(), core, plan, tree, anonymous }
}

/// Does `work` in a block of `kind` whose settings begin as those of `outer`.
fn entered<'a, T>(outer: &mut Cx<'_, 'a>, kind: Context, work: impl FnOnce(&mut Cx<'_, 'a>) -> T) -> T {
    // A copy that shares all values; a module's is copied when it is written, or when `ModuleConf::enter` has to reset it.
    let mut confs = outer.confs.enter(kind);
    let mut scope = Scope::default();
    work(&mut Cx {
        // A fresh scope: locations of the inner block belong to it, and its siblings do not see them.
        global: &mut *outer.global,
        confs: &mut confs,
        block: kind,
        scope: &mut scope,
        first: true,
        written: Vec::new(),
        module: outer.module,
    })
}

/// What can be done about a variable that nobody defines.
fn unknown_variable<'n>(name: &str, known: impl Iterator<Item = &'n str> + Clone) -> String {
    // A name that nginx has is no typing error.
    if let Some(module) = brisk_conf::nginx::module_with_variable(name) {
        return format!("nginx has it in {module}; Brisk does not support it (yet)");
    }
    match brisk_conf::diag::did_you_mean(name, known) {
        Some(near) => format!("did you mean \"${near}\"?"),
        None => "no directive defines it (set, map, geo, a named group)".to_string(),
    }
}

/// The errors for variables that are used and that nothing defines.
pub(super) fn report_undefined(global: &mut Global<'_>) {
    // Collected first: reporting writes into the diagnostics of the same value.
    let undefined = global.vars.undefined().map(|(name, span)| (name.to_string(), span)).collect();
    let known: Vec<String> = global.vars.known().map(str::to_string).collect();
    report(global.diags, undefined, &known);
    // Other protocols have variables of their own, under the same names.
    for part in &global.parts {
        report(global.diags, part.undefined(), &part.known());
    }
}

fn report(diags: &mut Vec<Diag>, undefined: Vec<(String, Option<Span>)>, known: &[String]) {
    for (name, span) in undefined {
        let text = format!("unknown \"{name}\" variable");
        let diag =
            span.map_or_else(|| Diag::global(text.clone()), |span| Diag::emerg(span, text.clone()).bare());
        diags.push(diag.help(unknown_variable(&name, known.iter().map(String::as_str))));
    }
}

/// Which files may be read while connections are served. The master makes it, too: by it, it judges which files a worker may ask it for.
fn allowed(global: &mut Global<'_>) -> Allowed {
    // Each once: thousands of servers may name the same pattern of paths.
    let named = std::mem::take(&mut global.read_later);
    let of = |wanted: Option<usize>| -> Vec<Template> {
        named.iter().filter(|(part, _)| *part == wanted).map(|(_, name)| name.clone()).collect()
    };
    let prefix = global.loader.resolve("");
    let mut allowed = Allowed::new(&of(None), &global.vars, &prefix);
    for (number, part) in global.parts.iter_mut().enumerate() {
        allowed.add(part.allowed(&of(Some(number)), &prefix));
    }
    allowed
}

/// The folder for bodies of requests, where a location reads some and names none.
fn add_default_folder(global: &mut Global<'_>) {
    // Only where it is needed: a server that serves files creates no folder that an administrator has to
    // explain.
    let uses_default = |location: &Option<Location>| {
        location.as_ref().is_some_and(|location| location.core.client_body_temp_path.is_none())
    };
    if global.reads_bodies && global.locations.iter().any(uses_default) {
        let folder: std::path::PathBuf =
            brisk_host::temp_file::TempPath::client_body(&global.env.places.state).path.into();
        global.folders.push(folder.clone());
        global.temp_folders.push(folder);
    }
}

/// Refuses plans that lead to a named location which lacks what they rely on. One that is not there is an error of the request.
fn check_needs(global: &mut Global<'_>) {
    let mut mistakes: Vec<Diag> = Vec::new();
    for (at, server) in global.servers.iter().enumerate() {
        let end = global.servers.get(at + 1).map_or(global.locations.len(), |next| next.root.0 as usize);
        for location in global.locations[server.root.0 as usize..end].iter().flatten() {
            let Some(needs) = location.plan.data::<Needs>() else { continue };
            let named = server.named.get(&needs.location).and_then(|&id| global.location(id));
            let is_told = || mistakes.iter().any(|told| told.span == needs.mistake.span);
            if named.is_some_and(|named| !(needs.holds)(&named.plan)) && !is_told() {
                mistakes.push(needs.mistake.clone());
            }
        }
    }
    global.diags.append(&mut mistakes);
}

fn finish(mut global: Global<'_>, confs: &Confs) -> Option<Snapshot> {
    // At the very end: a variable may be defined below its use.
    report_undefined(&mut global);
    check_needs(&mut global);
    let main: Arc<brisk_host::main_conf::MainConf> = confs.shared();
    let threads = brisk_host::threads::count(&main);
    let (mut sockets, listens) = crate::core::listen::resolve(&mut global, threads);
    let allowed = allowed(&mut global);
    let mut debugs = false;
    for part in std::mem::take(&mut global.parts) {
        let finished = part.finish(global.diags);
        debugs |= finished.debugs;
        add_sockets(&mut sockets, finished.sockets, global.diags);
        global.data.push(finished.data);
    }
    brisk_conf::settle(global.diags);
    if global.diags.iter().any(Diag::is_error) {
        // After everything was looked at, so that one attempt tells of all mistakes.
        return None;
    }
    add_default_folder(&mut global);
    // Asked per message, this would be a look at every log's level. The sum is known here, once.
    let debugs = debugs || self::debugs(&main, &global.locations);
    let core: Arc<crate::core::http_conf::CoreConf> = confs.shared();
    let ground = late::Ground::of(&mut global);
    let base = brisk_host::snapshot::Snapshot {
        main,
        error_log: core.error_log.clone(),
        sockets,
        logs: global.logs,
        log_places: global.log_places,
        folders: global.folders,
        temp_folders: global.temp_folders,
        zones: global.zones,
        services: global.services,
        data: global.data,
        hostname: global.env.hostname.as_str().into(),
        prefix: global.env.prefix.as_str().into(),
        state_folder: global.env.places.state.as_str().into(),
        debugs,
        measures_lag: global.measures_lag,
        uses_raw_sockets: global.uses_raw_sockets,
    };
    let locations: Vec<Arc<_>> = global
        .locations
        .into_iter()
        // A location whose block had an error is built all the same; without errors none is missing.
        .map(|location| Arc::new(location.expect("every reserved location is built")))
        .collect();
    // The strictest of all servers: a prepared answer is given before the server is known.
    let fields_max = global.servers.iter().map(|server| locations[server.root.0 as usize].core.max_headers);
    global.unusual.fields_max = fields_max.min().unwrap_or(0);
    global.vars.settle();
    Some(Snapshot {
        base: Arc::new(base),
        core,
        listens: listens.into(),
        servers: global.servers.into_iter().map(Arc::new).collect(),
        locations: locations.into(),
        late: None,
        ground: ground.map(Arc::new),
        vars: Arc::new(global.vars),
        modules: global.modules,
        records_requests: global.records_requests,
        unusual: global.unusual,
        allowed: Arc::new(allowed),
        quic_host_key: global.quic_host_key,
    })
}

/// Whether anything is to be logged for debugging. If not, requests do not ask it per message.
fn debugs(main: &brisk_host::main_conf::MainConf, locations: &[Option<Location>]) -> bool {
    let wants_debug = |location: &Location| location.core.logs(brisk_host::log::LogLevel::Debug);
    !main.debug_clients.is_empty() || locations.iter().flatten().any(wants_debug)
}

/// Adds the sockets of another protocol: an address speaks one.
fn add_sockets(sockets: &mut Vec<Socket>, more: Vec<Socket>, diags: &mut Vec<Diag>) {
    for socket in more {
        // The kernel would refuse the second bind only at the start, and say less.
        if sockets.iter().any(|have| have.address == socket.address) {
            let text = format!("{} is listened on for another protocol already", socket.address);
            diags.push(Diag::emerg(socket.span, text).help("each address belongs to http or to stream"));
        }
        sockets.push(socket);
    }
}
