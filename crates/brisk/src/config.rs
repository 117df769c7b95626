//! Loading a configuration, and `-t`.

use crate::bundle::{Bundle, BundleLoader, DiskLoader, folder};
use crate::options::Options;
use crate::{refusal, sockets};
use brisk_conf::source::SourceFile;
use brisk_conf::{Diag, Directive, Level, Loader, SourceMap};
use brisk_load::output;
use brisk_modules::MODULES;
use brisk_modules::htaccess::own_files::{self, Arguments};
use brisk_net::sys;
use brisk_server::conf::{Environment, LogTarget, Places, Snapshot};
use brisk_server::core::LogLevel;
use brisk_server::log::LogFile;
use serde_json::{Value, json};
use std::sync::Arc;

/// The prefix where none is given: `/etc/brisk/`, or what `make install` has written down beside the program.
pub fn system_prefix() -> String {
    installed_prefix().unwrap_or_else(|| "/etc/brisk/".into())
}

/// `PREFIX/share/brisk/sysconfdir`, of the program in `PREFIX/bin`: where the configuration was installed.
fn installed_prefix() -> Option<String> {
    let program = std::env::current_exe().ok()?;
    let note = program.parent()?.parent()?.join("share/brisk/sysconfdir");
    let text = std::fs::read_to_string(note).ok()?;
    let folder = text.trim().trim_end_matches('/');
    folder.starts_with('/').then(|| format!("{folder}/brisk/"))
}

/// What the command line says about files.
#[derive(Clone, Debug)]
pub struct Paths {
    pub env: Environment,
    pub conf: String,
    /// `-g`.
    pub globals: String,
    /// The configuration itself, where there is no file (`brisk serve`).
    pub inline: Option<Inline>,
    /// The file is Apache's (`brisk httpd`): how it is read.
    pub apache: Option<Arc<Arguments>>,
    /// The server runs in the background: its error stream is its own, and leads into its log.
    pub detached: bool,
}

/// A configuration that was made, not written: its text is nothing to point at in messages.
#[derive(Clone, Debug)]
pub struct Inline {
    pub text: String,
    /// What the terminal is told once the server serves.
    pub welcome: String,
}

impl Paths {
    pub fn new(options: &Options) -> Paths {
        let with_slash = |text: &str| format!("{}/", text.trim_end_matches('/'));
        let system = system_prefix();
        let prefix = with_slash(options.prefix.as_deref().unwrap_or(&system));
        let full =
            |path: &str| if path.starts_with('/') { path.to_string() } else { format!("{prefix}{path}") };
        let conf = match &options.conf {
            Some(conf) => full(conf),
            None => {
                let own = full("brisk.conf");
                if std::path::Path::new(&own).exists() { own } else { full("nginx.conf") }
            }
        };
        let error_log = match options.error_log.as_deref() {
            None => String::new(),
            Some("stderr") => String::from("stderr"),
            Some(path) => full(path),
        };
        let env = Environment {
            conf_prefix: folder(&conf),
            places: places(&prefix, &system, |name| std::env::var(name).ok()),
            prefix,
            error_log,
            hostname: sys::hostname().to_ascii_lowercase(),
            test: options.test,
        };
        Paths { env, conf, globals: options.globals.clone(), inline: None, apache: None, detached: false }
    }

    pub fn error_target(&self) -> LogTarget {
        match self.env.error_log.as_str() {
            "" | "stderr" => LogTarget::Stderr,
            path => LogTarget::File(path.to_string()),
        }
    }
}

/// Where a server with this prefix keeps its own folders: where systemd says (`StateDirectory=` and its kin), else where the
/// system's server has them, else below the prefix as nginx does.
fn places(prefix: &str, system: &str, variable: impl Fn(&str) -> Option<String>) -> Places {
    let usual = if prefix == system {
        let of = |place: &str| format!("{place}/brisk/");
        Places { state: of("/var/lib"), cache: of("/var/cache"), logs: of("/var/log"), run: of("/run") }
    } else {
        Places::below(prefix)
    };
    // Of several the first one: they are listed with colons.
    let told = |name: &str, usual: String| match variable(name) {
        Some(list) if list.starts_with('/') => {
            format!("{}/", list.split(':').next().unwrap_or_default().trim_end_matches('/'))
        }
        _ => usual,
    };
    Places {
        state: told("STATE_DIRECTORY", usual.state),
        cache: told("CACHE_DIRECTORY", usual.cache),
        logs: told("LOGS_DIRECTORY", usual.logs),
        run: told("RUNTIME_DIRECTORY", usual.run),
    }
}

/// A loaded configuration.
pub struct Loaded {
    pub snap: Snapshot,
    pub bundle: Bundle,
    /// For messages about what only the running system can refuse.
    pub sources: Arc<SourceMap>,
}

/// What came of loading: messages always, a configuration if there is no error among them.
pub struct Outcome {
    pub loaded: Option<Loaded>,
    pub diags: Vec<Diag>,
    pub sources: Arc<SourceMap>,
}

impl Outcome {
    /// Every message as it is shown to a person.
    pub fn messages(&self) -> impl Iterator<Item = (Level, String)> {
        self.diags.iter().map(|d| (d.level, d.render(&self.sources)))
    }
}

/// Reads and builds the configuration from the disk.
pub fn load(paths: &Paths) -> Outcome {
    load_with_tree(paths).0
}

/// The same with the directives that it was made of.
pub fn load_with_tree(paths: &Paths) -> (Outcome, Vec<Directive>) {
    let loader = DiskLoader::new(&paths.env.conf_prefix);
    let (tree, diags, sources) = parse(paths, &loader);
    let (snap, diags, sources) = build_of(paths, &loader, &tree, diags, sources);
    let sources = Arc::new(sources);
    let loaded = snap.map(|snap| Loaded { snap, bundle: loader.into_bundle(), sources: sources.clone() });
    (Outcome { loaded, diags, sources }, tree)
}

/// Reads the configuration again, for a running server; warnings go to `log`. The error has every reason why it is
/// refused, in full.
pub fn reload(paths: &Paths, log: impl Fn(LogLevel, &str)) -> Result<Loaded, String> {
    let outcome = load(paths);
    for (_, text) in outcome.messages().filter(|(level, _)| *level == Level::Warn) {
        let first = text.lines().next().unwrap_or_default();
        log(LogLevel::Warn, first.split_once("] ").map_or(first, |(_, rest)| rest));
    }
    let errors = outcome.diags.iter().filter(|d| d.is_error()).map(|d| d.render(&outcome.sources));
    let errors = errors.collect::<Vec<String>>().join("\n");
    outcome.loaded.ok_or(errors)
}

/// The first lines of the messages in such an error, without their excerpts and remedies: what belongs in a log.
pub fn headlines(error: &str) -> Vec<&str> {
    let lines: Vec<&str> = error.lines().filter_map(|line| line.strip_prefix("[emerg] ")).collect();
    if lines.is_empty() { vec![error] } else { lines }
}

/// Builds the configuration from a bundle, without disk and names. The texts are for messages about what only the running system can
/// refuse.
pub fn load_bundle(paths: &Paths, bundle: &Bundle) -> Option<(Snapshot, SourceMap)> {
    let loader = BundleLoader { conf_prefix: &paths.env.conf_prefix, bundle };
    let (snap, _, sources) = build(paths, &loader);
    Some((snap?, sources))
}

/// The directives of the file and of `-g`, as far as they can be read.
pub fn parse(paths: &Paths, loader: &dyn Loader) -> (Vec<Directive>, Vec<Diag>, SourceMap) {
    let mut sources = SourceMap::default();
    let mut diags = Vec::new();
    let mut tree = Vec::new();
    if let Some(arguments) = &paths.apache {
        tree.extend(globals(paths, &mut sources, loader, &mut diags));
        tree.extend(own_files::read(Some(&paths.conf), loader, &mut sources, arguments, &mut diags).tree);
        return (tree, diags, sources);
    }
    let text: std::io::Result<Arc<[u8]>> = match &paths.inline {
        Some(inline) => Ok(inline.text.as_bytes().into()),
        None => loader.read(&paths.conf),
    };
    match text {
        Ok(text) => {
            let file = sources.add(paths.conf.clone(), text);
            let parsed = brisk_conf::parse(&mut sources, file, loader, &mut diags);
            tree.extend(globals(paths, &mut sources, loader, &mut diags));
            tree.extend(parsed);
        }
        Err(error) => {
            let why = brisk_conf::os_text(&error);
            diags.push(
                Diag::global(format!("open() \"{}\" failed ({why})", paths.conf))
                    .help("give the configuration file with -c, or its folder with -p"),
            );
        }
    }
    (tree, diags, sources)
}

/// The directives of `-g`.
fn globals(
    paths: &Paths,
    sources: &mut SourceMap,
    loader: &dyn Loader,
    diags: &mut Vec<Diag>,
) -> Vec<Directive> {
    let globals = paths.globals.trim_end();
    if globals.is_empty() {
        return Vec::new();
    }
    let end = if globals.ends_with([';', '}']) { "" } else { ";" };
    let file = sources.add("command line", format!("{globals}{end}").into_bytes());
    brisk_conf::parse(sources, file, loader, diags)
}

fn build(paths: &Paths, loader: &dyn Loader) -> (Option<Snapshot>, Vec<Diag>, SourceMap) {
    let (tree, diags, sources) = parse(paths, loader);
    build_of(paths, loader, &tree, diags, sources)
}

fn build_of(
    paths: &Paths,
    loader: &dyn Loader,
    tree: &[Directive],
    mut diags: Vec<Diag>,
    mut sources: SourceMap,
) -> (Option<Snapshot>, Vec<Diag>, SourceMap) {
    // Syntax errors make what follows from them look wrong too: but the rest of the file is still worth checking.
    let snap = brisk_server::conf::build(MODULES, &paths.env, &mut sources, loader, tree, &mut diags);
    let mut snap = snap.filter(|_| !diags.iter().any(Diag::is_error));
    if let Some(snap) = &mut snap
        && !snap.main.has_events
        && paths.inline.is_none()
    {
        diags.push(Diag::global("no \"events\" section in configuration").help("add: events { }"));
    }
    let snap = snap.filter(|_| !diags.iter().any(Diag::is_error));
    diags.sort_by_key(|d| d.span.map_or((u32::MAX, 0), |s| (s.file.0, s.start)));
    (snap, diags, sources)
}

/// How `-t` says what it has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// As nginx: every message, and what came of it.
    All,
    /// Nothing unless something is wrong.
    Faults,
    /// As one JSON object on the standard output.
    Json,
}

/// `-t` and `-T`; gives the exit code.
pub fn test(paths: &Paths, dump: bool, said: Said) -> i32 {
    let outcome = load(paths);
    let tried = outcome.loaded.as_ref().map(|loaded| try_out(&loaded.snap));
    let is_good = tried.as_ref().is_some_and(Vec::is_empty);
    if said == Said::Json {
        output::line(format_args!("{:#}", as_json(paths, &outcome, tried.as_deref(), dump)));
        return i32::from(!is_good);
    }
    for (level, text) in outcome.messages() {
        if said == Said::All || level <= Level::Warn {
            output::note(format_args!("brisk: {text}"));
        }
    }
    if said == Said::All && tried.is_some() {
        output::note(format_args!("brisk: the configuration file {} syntax is ok", paths.conf));
    }
    for diag in tried.iter().flatten() {
        output::note(format_args!("brisk: {}", diag.render(&outcome.sources)));
    }
    if !is_good {
        output::note(format_args!("brisk: configuration file {} test failed", paths.conf));
        return 1;
    }
    if said == Said::All {
        output::note(format_args!("brisk: configuration file {} test is successful", paths.conf));
    }
    if dump {
        dump_files(&outcome.sources);
    }
    0
}

/// The same for programs.
fn as_json(paths: &Paths, outcome: &Outcome, tried: Option<&[Diag]>, dump: bool) -> Value {
    let sources = &outcome.sources;
    let message = |diag: &Diag| {
        let place = diag.span.map(|span| (sources.file(span.file).name.as_str(), sources.start(span)));
        json!({
            "level": diag.level.as_str(),
            "message": diag.message,
            "file": place.map(|(file, _)| file),
            "line": place.map(|(_, (line, _))| line),
            "column": place.map(|(_, (_, column))| column),
            "text": diag.span.map(|span| String::from_utf8_lossy(sources.line_bytes(span)).into_owned()),
            "help": diag.help,
        })
    };
    let refused = tried.unwrap_or_default();
    let messages: Vec<Value> = outcome.diags.iter().chain(refused).map(message).collect();
    let is_good = tried.is_some_and(<[Diag]>::is_empty);
    let mut all = json!({ "file": paths.conf, "ok": is_good, "messages": messages });
    if dump {
        let text =
            |file: &SourceFile| json!({ "name": file.name, "text": String::from_utf8_lossy(&file.text) });
        all["files"] = configuration_files(sources).map(text).collect();
    }
    all
}

/// What only the running system can tell: logs and sockets can be opened, the user exists.
fn try_out(snap: &Snapshot) -> Vec<Diag> {
    let mut refused = Vec::new();
    for (index, target) in snap.logs.iter().enumerate() {
        refused.extend(LogFile::open(target).err().map(|error| refusal::log(snap, index, &error)));
    }
    refused.extend(sockets::try_bind(snap));
    refused.extend(crate::host::identity(&snap.main).err());
    refused.extend(crate::pools::unknown_accounts(snap));
    refused.extend(crate::pools::missing_programs(snap));
    refused.extend(crate::programs::unknown_accounts(snap));
    refused
}

/// Every file of the configuration, once.
fn configuration_files(sources: &SourceMap) -> impl Iterator<Item = &SourceFile> {
    let mut shown = std::collections::HashSet::new();
    sources.files().iter().filter(move |file| file.name != "command line" && shown.insert(file.name.clone()))
}

fn dump_files(sources: &SourceMap) {
    for file in configuration_files(sources) {
        output::line(format_args!("# configuration file {}:", file.name));
        output::write(&file.text);
        output::line("");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_lie_where_systemd_says_else_in_the_usual_places() {
        let check = |prefix: &str, variables: &[(&str, &str)]| {
            let get =
                |name: &str| variables.iter().find(|(have, _)| *have == name).map(|(_, v)| v.to_string());
            let Places { state, cache, logs, run } = places(prefix, "/etc/brisk/", get);
            [state, cache, logs, run].join(" ")
        };
        assert_eq!(
            check("/etc/brisk/", &[]),
            "/var/lib/brisk/ /var/cache/brisk/ /var/log/brisk/ /run/brisk/"
        );
        assert_eq!(check("/srv/a/", &[]), "/srv/a/ /srv/a/ /srv/a/logs/ /srv/a/logs/");
        let told = [("STATE_DIRECTORY", "/s/one:/s/two"), ("CACHE_DIRECTORY", "/c"), ("LOGS_DIRECTORY", "")];
        assert_eq!(check("/srv/a/", &told), "/s/one/ /c/ /srv/a/logs/ /srv/a/logs/");
    }
}
