//! The program that runs a pool, one per version of PHP, and the php.ini that it reads.

use brisk_conf::Diag;
use brisk_modules::php::{PoolSpec, Pools};
use brisk_php::Settings;
use brisk_server::conf::Snapshot;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

/// The pools of a configuration.
pub(super) fn specs(snap: &Snapshot) -> &[Arc<PoolSpec>] {
    snap.data::<Pools>().map(|pools| pools.0.as_slice()).unwrap_or_default()
}

/// What is missing for pools of a configuration to run.
pub fn missing_programs(snap: &Snapshot) -> Vec<Diag> {
    specs(snap).iter().filter_map(|spec| Program::find(&spec.settings).err()).collect()
}

/// What would run a pool that asks for nothing special, in words; `None`: nothing that is installed.
pub fn available() -> Option<String> {
    let mut settings = Settings::new("serve");
    settings.allows_cgi = true;
    Program::find(&settings).ok().map(|program| program.to_string())
}

/// How a program says that it serves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SaysReady {
    Pipe,
    /// By a line of PHP-FPM's.
    InOutput,
    /// Not at all. One that cannot start ends soon; what goes on is taken to serve.
    ByLasting,
    /// It has.
    Done,
}

/// The beginning of its name; the version of PHP follows.
const NAME: &str = "brisk-php";

/// The dynamic loader's list of libraries that come before a program's own (ld.so(8)).
const PRELOAD: &str = "LD_PRELOAD";

/// What `BRISK_PHP` says for a pool master of our own that PHP-FPM's program is not to run.
const LINKED: &str = "libphp";

/// What runs a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A pool master of our own, which embeds PHP.
    Master,
    /// PHP-FPM, with a pool file that is made for it.
    Fpm,
    /// The oldest way: php-cgi and its children.
    Cgi,
}

/// A program that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// What it is.
    pub kind: Kind,
    /// Where it is.
    pub path: PathBuf,
    /// The version of PHP, as `8.2`; empty where the name does not tell it.
    version: String,
    /// A pool master is best run by this.
    host: Option<Host>,
}

/// PHP-FPM's program, which runs a pool master that it loads as a library: PHP's own code is faster in a program than in a library.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Host {
    program: PathBuf,
    library: PathBuf,
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Master => write!(f, "PHP {}", self.version),
            Kind::Fpm | Kind::Cgi => {
                write!(f, "{} (\"make php\" builds what does it better)", self.path.display())
            }
        }
    }
}

impl Program {
    /// Whether it has a socket for orders and questions.
    pub fn takes_orders(&self) -> bool {
        self.kind == Kind::Master
    }

    /// The program of the pool's version; of the highest version if it does not say. Without one of our own, PHP-FPM, else php-cgi.
    pub fn find(settings: &Settings) -> Result<Program, Diag> {
        let version = settings.version.as_deref();
        let only = wanted();
        let kinds = [
            (Kind::Master, NAME, folders()),
            (Kind::Fpm, "php-fpm", system()),
            (Kind::Cgi, "php-cgi", system()),
        ];
        let may = |kind: Kind, name: &str| {
            // Others have no worker mode.
            (kind == Kind::Master || !settings.has_worker())
                && (kind != Kind::Cgi || settings.allows_cgi)
                && (only.is_empty() || only == name || only == LINKED && kind == Kind::Master)
        };
        let found =
            kinds.iter().filter(|(kind, name, _)| may(*kind, name)).find_map(|(kind, name, folders)| {
                choose(folders.iter().flat_map(|folder| programs(*kind, name, folder)), version)
            });
        found.ok_or_else(|| {
            let name = &settings.pool;
            let wanted = version.map_or_else(String::new, |version| format!(" for PHP {version}"));
            let own = format!("{NAME}{}", version.unwrap_or("VERSION"));
            let text = match &*only {
                "" => format!("php_pool \"{name}\" needs the program {own}, php-fpm or php-cgi, and none is installed"),
                only => {
                    let only = if only == LINKED || only == NAME { &own } else { only };
                    format!("php_pool \"{name}\" needs the program {only}, the only one that BRISK_PHP in the environment allows, and it is not installed")
                }
            };
            let folders: Vec<String> = folders().iter().map(|folder| folder.display().to_string()).collect();
            Diag::global(text).help(format!(
                "build it{wanted} with \"make php\" (Debian: php-dev and libphp-embed), or install php-fpm; it is looked for in {}",
                folders.join(", ")
            ))
        })
    }

    /// What starts it.
    pub fn command(&self) -> Command {
        match &self.host {
            Some(host) => host.command(),
            None => Command::new(&self.path),
        }
    }

    /// The same, run by the system's PHP-FPM of its version if that works. `known` has what was found out for other pools: asking starts a process.
    pub fn hosted(mut self, known: &mut Hosts) -> Program {
        if self.kind == Kind::Master && wanted() != LINKED {
            self.host = known.0.entry(self.path.clone()).or_insert_with(|| self.find_host()).clone();
        }
        self
    }

    fn find_host(&self) -> Option<Host> {
        let library = self.path.with_file_name(format!("lib{NAME}{}.so", self.version));
        let mut programs = system().into_iter().map(|folder| folder.join(format!("php-fpm{}", self.version)));
        let host = Host { program: programs.find(|path| path.is_file())?, library };
        host.works().then_some(host)
    }

    /// The file and folder of settings that PHP reads: the pool's, else those that FPM of this version has.
    pub fn ini(&self, settings: &Settings) -> (Option<String>, Option<String>) {
        if let Some(file) = settings.php_ini() {
            let folder = Path::new(file).with_file_name("conf.d");
            return (Some(file.into()), folder.is_dir().then(|| folder.display().to_string()));
        }
        for kind in ["fpm", "embed", "cgi", "cli"] {
            let base = format!("/etc/php/{}/{kind}", self.version);
            let (file, folder) = (format!("{base}/php.ini"), format!("{base}/conf.d"));
            if Path::new(&file).is_file() {
                return (Some(file), Path::new(&folder).is_dir().then_some(folder));
            }
        }
        (None, None)
    }
}

/// What runs each pool master that was asked for, by its path.
#[derive(Default)]
pub struct Hosts(HashMap<PathBuf, Option<Host>>);

impl Host {
    fn command(&self) -> Command {
        let mut preload = self.library.clone().into_os_string();
        if let Some(others) = std::env::var_os(PRELOAD) {
            preload.push(":");
            preload.push(others);
        }
        let mut command = Command::new(&self.program);
        command.env(PRELOAD, preload);
        command
    }

    /// Whether the program runs the library: it may be another build of PHP, or a security module may not let it.
    fn works(&self) -> bool {
        // The loader takes both as separators.
        let has_separator =
            self.library.as_os_str().as_encoded_bytes().iter().any(|byte| b": ".contains(byte));
        if has_separator || !self.library.is_file() {
            return false;
        }
        let asked = self.command().arg("--hosted").stdin(Stdio::null()).stderr(Stdio::null()).output();
        asked.is_ok_and(|output| output.status.success() && output.stdout == format!("{NAME}\n").as_bytes())
    }
}

/// What `BRISK_PHP` says: which kind of program runs the pools, in place of the usual choice. Tests set it, and administrators may.
fn wanted() -> String {
    std::env::var("BRISK_PHP").unwrap_or_default()
}

/// Beside the server's own program, where it was built, and where packages put it.
fn folders() -> Vec<PathBuf> {
    let mut folders = Vec::new();
    if let Some(own) = std::env::current_exe().ok().and_then(|path| Some(path.parent()?.to_path_buf())) {
        folders.extend([own.clone(), own.join("../php"), own.join("../lib/brisk")]);
    }
    folders.extend([PathBuf::from("/usr/lib/brisk"), PathBuf::from("/usr/local/lib/brisk")]);
    folders
}

/// Where the system has its programs.
fn system() -> Vec<PathBuf> {
    ["/usr/sbin", "/usr/local/sbin", "/usr/bin", "/usr/local/bin"].map(PathBuf::from).into()
}

fn programs(kind: Kind, begin: &str, folder: &Path) -> Vec<Program> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let program = |name: &OsStr| {
        let version = name.to_str()?.strip_prefix(begin)?.to_string();
        // Those of the system may be of the one version that there is.
        let is_one = numbers(&version).is_some() || version.is_empty() && kind != Kind::Master;
        is_one.then(|| Program { kind, path: folder.join(name), version, host: None })
    };
    entries.flatten().filter_map(|entry| program(&entry.file_name())).collect()
}

fn numbers(version: &str) -> Option<(u32, u32)> {
    let (major, minor) = version.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The first of this version, or of the highest.
fn choose(all: impl Iterator<Item = Program>, version: Option<&str>) -> Option<Program> {
    let mut best: Option<Program> = None;
    for program in all.filter(|program| version.is_none_or(|version| program.version == version)) {
        if best.as_ref().is_none_or(|best| numbers(&program.version) > numbers(&best.version)) {
            best = Some(program);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_that_is_asked_for_or_the_highest() {
        let all = || {
            ["a/8.2", "b/8.2", "b/8.10", "b/8.4"].iter().map(|path| {
                let path = PathBuf::from(path);
                Program {
                    kind: Kind::Master,
                    version: path.file_name().unwrap().to_str().unwrap().into(),
                    path,
                    host: None,
                }
            })
        };
        let path = |version| choose(all(), version).map(|program| program.path.display().to_string());
        assert_eq!(path(Some("8.2")).as_deref(), Some("a/8.2"));
        assert_eq!(path(None).as_deref(), Some("b/8.10"));
        assert_eq!(path(Some("7.4")), None);
    }
}
