//! The programs of a site's copy: PHP-FPM and the web server, on the site's own files.

use super::bench::{Restart, Runs};
use super::database::Database;
use super::files::Files;
use super::site::asks_fpm;
use super::tier::address_of;
use super::traffic::Traffic;
use crate::doctor::files::Read;
use crate::limits::{
    TUNE_DATABASE_END_TIME_MAX, TUNE_DATABASE_START_TIME_MAX, TUNE_END_TIME_MAX, TUNE_ERRORS_TIME_MAX,
    TUNE_START_TIME_MAX,
};
use brisk_load::system::interrupted;
use brisk_load::watch::proc;
use brisk_net::sys;
use brisk_tune::edit::{self, File as ConfFile, Language, Wanted};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Where the tuner's own files are within the copy.
const FOLDER: &str = "/tmp/.brisk-tune";
/// Between two looks.
const LOOK: Duration = Duration::from_millis(5);
/// So much of what a program says is shown when it does not start.
const SAID_LINES: usize = 4;

/// Why a copy does not run.
#[derive(Debug, PartialEq, Eq)]
pub struct Refused(pub String);

/// How the programs of a site are started.
pub struct Stack {
    commands: Vec<Program>,
    running: Vec<Running>,
    /// The option files that the database was started with, if it runs.
    options: Option<Vec<ConfFile>>,
}

/// What a site's programs are found by.
pub struct Plan<'a> {
    pub read: &'a Read,
    pub files: &'a Files,
    /// This program.
    pub own: &'a Path,
    /// The web server's program, if it was given.
    pub named: Option<&'a str>,
    /// The database with the folder of its copy, if there is one.
    pub database: Option<(&'a Database, &'a Path)>,
}

/// One of them.
struct Program {
    name: &'static str,
    path: PathBuf,
    args: Vec<String>,
    environment: Vec<(&'static str, String)>,
    /// What must take connections before the next one is started.
    listens: Vec<String>,
}

struct Running {
    name: &'static str,
    child: Child,
}

/// The database as it is named here.
const DATABASE: &str = "database";

/// How long a program may take for its start, and for its end.
fn times(name: &str) -> (Duration, Duration) {
    if name == DATABASE {
        (TUNE_DATABASE_START_TIME_MAX, TUNE_DATABASE_END_TIME_MAX)
    } else {
        (TUNE_START_TIME_MAX, TUNE_END_TIME_MAX)
    }
}

impl Stack {
    /// Finds the programs and writes what they need besides the site's files.
    pub fn plan(plan: &Plan<'_>) -> Result<Stack, String> {
        let Plan { read, files, own, named, database } = *plan;
        fs::create_dir_all(FOLDER)
            .map_err(|error| format!("mkdir() \"{FOLDER}\" failed ({})", brisk_conf::os_text(&error)))?;
        let mut commands: Vec<Program> =
            database.map(|(database, folder)| of_database(database, folder)).into_iter().collect();
        if asks_fpm(read) {
            if read.pools.is_empty() {
                return Err("the site asks PHP-FPM, and no pool is known: --fpm names its file".to_owned());
            }
            commands.push(php_fpm(read, files)?);
            leads_somewhere(read)?;
        }
        commands.push(match files.apache.first() {
            Some(main) => apache(&main.name, named),
            None => server(read, files, own, named)?,
        });
        Ok(Stack { commands, running: Vec::new(), options: None })
    }

    fn wait(&mut self, is_ready: impl FnMut(&Self) -> Result<bool, String>) -> Result<(), String> {
        let (begun, mut is_ready) = (Instant::now(), is_ready);
        loop {
            self.check().map_err(|Refused(why)| why)?;
            if is_ready(self)? {
                return Ok(());
            }
            let name = self.running.last().map_or("the site", |running| running.name);
            if interrupted() || begun.elapsed() > times(name).0 {
                return Err(format!("{name} does not answer{}", said(name)));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Ends all programs.
    pub fn stop(&mut self) {
        self.stop_to(0);
    }

    /// Ends programs, the last one first, until so many are left.
    fn stop_to(&mut self, left: usize) {
        while let Some(mut running) = (self.running.len() > left).then(|| self.running.pop()).flatten() {
            let below = proc::tree(running.child.id());
            send(running.child.id(), Signal::TERM);
            let (begun, (_, most)) = (Instant::now(), times(running.name));
            while matches!(running.child.try_wait(), Ok(None)) && begun.elapsed() < most {
                std::thread::sleep(LOOK);
            }
            // What it has started and left: their parent is this process now, the first one of the namespace.
            below.iter().for_each(|pid| send(*pid, Signal::KILL));
            let _ = running.child.wait();
        }
    }
}

impl Runs for Stack {
    /// Ends what runs, writes the files, and starts all programs until the site answers. A database whose options are the same goes on
    /// running, unless all are to be restarted.
    fn restart(&mut self, files: &Files, traffic: &Traffic, restart: Restart) -> Result<(), Refused> {
        let is_same = self.options.as_ref() == Some(&files.database);
        let has_database = self.running.first().is_some_and(|first| first.name == DATABASE);
        self.stop_to(usize::from(restart == Restart::Changed && is_same && has_database));
        write(files).map_err(Refused)?;
        self.options = Some(files.database.clone());
        for index in self.running.len()..self.commands.len() {
            let running = self.commands[index].start().map_err(Refused)?;
            self.running.push(running);
            self.wait(|stack| Ok(stack.commands[index].takes_connections())).map_err(Refused)?;
        }
        let mut answered = None;
        self.wait(|_| {
            let is_answered = traffic.is_answered()?;
            if !is_answered {
                return Ok(*answered.get_or_insert_with(Instant::now) + TUNE_ERRORS_TIME_MAX < Instant::now());
            }
            Ok(true)
        })
        .map_err(Refused)
    }

    fn check(&mut self) -> Result<(), Refused> {
        for running in &mut self.running {
            if let Ok(Some(status)) = running.child.try_wait() {
                return Err(Refused(format!("{} ended with {status}{}", running.name, said(running.name))));
            }
        }
        Ok(())
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        self.stop();
    }
}

fn send(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

impl Program {
    fn start(&self) -> Result<Running, String> {
        let text = |error: std::io::Error| {
            format!("{} cannot be started: {}", self.path.display(), brisk_conf::os_text(&error))
        };
        let out = File::create(output_of(self.name)).map_err(text)?;
        let mut command = Command::new(&self.path);
        command.args(&self.args).envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(out.try_clone().map_err(text)?).stderr(out);
        sys::unblock_signals_in(&mut command);
        Ok(Running { name: self.name, child: command.spawn().map_err(text)? })
    }

    fn takes_connections(&self) -> bool {
        self.listens.iter().all(|address| match address.strip_prefix('/') {
            Some(_) => UnixStream::connect(address).is_ok(),
            None => TcpStream::connect(address).is_ok(),
        })
    }
}

fn output_of(name: &str) -> String {
    format!("{FOLDER}/{name}.out")
}

/// The last lines that a program has printed.
fn said(name: &str) -> String {
    let text = fs::read_to_string(output_of(name)).unwrap_or_default();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(SAID_LINES)..];
    if last.is_empty() { String::new() } else { format!(": {}", last.join("; ")) }
}

/// Writes what differs from what is there.
fn write(files: &Files) -> Result<(), String> {
    for file in files.all() {
        let failed = |error| {
            format!("\"{}\" cannot be written in the copy ({})", file.name, brisk_conf::os_text(&error))
        };
        if fs::read(&file.name).map_err(failed)? != file.text {
            fs::write(&file.name, &file.text).map_err(failed)?;
        }
    }
    Ok(())
}

/// The database on the folder of its copy.
fn of_database(database: &Database, folder: &Path) -> Program {
    Program {
        name: DATABASE,
        path: database.program().to_owned(),
        args: database.args_on(folder),
        environment: Vec::new(),
        listens: vec![database.socket()],
    }
}

/// PHP-FPM on the pools' files, in the foreground.
fn php_fpm(read: &Read, files: &Files) -> Result<Program, String> {
    let path =
        php_program(files).ok_or("the site asks PHP by fastcgi_pass, and no program php-fpm is installed")?;
    let has_global =
        |text: &[u8]| text.split(|byte| *byte == b'\n').any(|line| line.trim_ascii() == b"[global]");
    let main = match &files.pools[..] {
        [first, ..] if has_global(&first.text) => first.name.clone(),
        pools => {
            let includes: Vec<String> = pools.iter().map(|file| format!("include = {}", file.name)).collect();
            let main = format!("{FOLDER}/php-fpm.conf");
            let text = format!("[global]\nerror_log = {FOLDER}/php-fpm.log\n{}\n", includes.join("\n"));
            fs::write(&main, text).map_err(|error| format!("\"{main}\": {}", brisk_conf::os_text(&error)))?;
            main
        }
    };
    let mut args = vec!["-F".to_owned(), "-y".to_owned(), main];
    let mut environment = Vec::new();
    match &files.php[..] {
        [] => args.push("-n".to_owned()),
        [ini, more @ ..] => {
            args.extend(["-c".to_owned(), ini.name.clone()]);
            let folder = more.first().and_then(|file| Path::new(&file.name).parent());
            environment.push((
                "PHP_INI_SCAN_DIR",
                folder.map_or(String::new(), |folder| folder.display().to_string()),
            ));
        }
    }
    Ok(Program { name: "php-fpm", path, args, environment, listens: listens(read) })
}

/// Of the version that the files belong to, else the newest one.
fn php_program(files: &Files) -> Option<PathBuf> {
    let named = files.pools.iter().chain(&files.php).find_map(|file| {
        let version = file.name.strip_prefix("/etc/php/")?.split('/').next()?;
        Some(PathBuf::from(format!("/usr/sbin/php-fpm{version}"))).filter(|path| path.exists())
    });
    named.or_else(|| {
        let folders = ["/usr/local/sbin", "/usr/sbin", "/usr/bin"];
        let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
        let is_fpm = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("php-fpm"))
        };
        entries.map(|entry| entry.path()).filter(is_fpm).max()
    })
}

/// Where pools listen, as they can be connected to.
fn listens(read: &Read) -> Vec<String> {
    let entries = read.site.pools.entries().iter().filter(|entry| entry.name == "listen");
    entries.map(|entry| address_of(&entry.value)).collect()
}

/// Each `fastcgi_pass` must lead to a pool of the copy, or to a group of servers.
fn leads_somewhere(read: &Read) -> Result<(), String> {
    let Some(site) = &read.site.server else { return Ok(()) };
    let pools = listens(read);
    for args in site.found("fastcgi_pass") {
        let Some(to) = args.first() else { continue };
        let address = to.strip_prefix("unix:").unwrap_or(to);
        let is_address = to.starts_with("unix:")
            || to.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let is_pool = |have: &String| have == address || have.replace("127.0.0.1", "localhost") == address;
        if is_address && !pools.iter().any(is_pool) {
            return Err(format!(
                "fastcgi_pass {to} leads to none of the known pools ({}): --fpm names the file of its pool",
                pools.join(", ")
            ));
        }
    }
    Ok(())
}

/// Apache on its configuration, in the foreground, with what Debian's `envvars` beside the file say.
fn apache(main: &str, named: Option<&str>) -> Program {
    const START: &str = "if [ -r \"$1/envvars\" ]; then . \"$1/envvars\"; mkdir -p \"$APACHE_RUN_DIR\" \"$APACHE_LOCK_DIR\"; fi; \
        exec \"$2\" -D FOREGROUND -f \"$3\"";
    let folder = Path::new(main).parent().map_or_else(String::new, |folder| folder.display().to_string());
    let program = named.unwrap_or("apache2");
    let args = ["-c", START, "sh", &folder, program, main].map(str::to_owned).to_vec();
    Program { name: "server", path: PathBuf::from("sh"), args, environment: Vec::new(), listens: Vec::new() }
}

/// The web server on its configuration, in the foreground.
fn server(read: &Read, files: &Files, own: &Path, named: Option<&str>) -> Result<Program, String> {
    let path = match named {
        Some("brisk") => own.to_owned(),
        Some(name) => PathBuf::from(name),
        None if read.site.is_brisk || read.has_own_pools() => own.to_owned(),
        None => PathBuf::from("nginx"),
    };
    let main = files.server.first().ok_or("there is no configuration of a web server: --site names it")?;
    let mut args = vec!["-c".to_owned(), main.name.clone()];
    let daemon = Wanted { language: Language::Nginx { block: "" }, name: "daemon", pool: "" };
    match edit::read(&files.server, &daemon).map_err(|refused| refused.to_string())?.as_deref() {
        None => args.extend(["-g".to_owned(), "daemon off;".to_owned()]),
        Some("off") => {}
        Some(_) => {
            return Err(format!("{}: leave \"daemon on\" out: the copy runs in the foreground", main.name));
        }
    }
    Ok(Program { name: "server", path, args, environment: Vec::new(), listens: Vec::new() })
}
