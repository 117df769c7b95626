//! Programs of a site that runs: found by where they listen, told to read their files again.

use super::variables::Variables;
use crate::limits::TUNE_RELOAD_TIME_MAX;
use brisk_load::watch::{Who, proc};
use brisk_tune::edit::File;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(10);

/// A program of the site whose settings change, as the journal names it: by where it listens. Names of pools are not unique on a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tier {
    /// The web server at this port, with files in nginx's language.
    Server(u16),
    /// Apache at this port.
    Apache(u16),
    /// PHP-FPM with a pool at this address: a path, or an address with a port.
    Php(String),
    /// A database, whose settings are set while it runs.
    Database(Variables),
}

impl Tier {
    /// As words of the journal.
    pub fn words(&self) -> Vec<Vec<u8>> {
        match self {
            Self::Server(port) => vec![b"server".to_vec(), port.to_string().into_bytes()],
            Self::Apache(port) => vec![b"apache".to_vec(), port.to_string().into_bytes()],
            Self::Php(address) => vec![b"php".to_vec(), address.clone().into_bytes()],
            Self::Database(variables) => {
                [b"database".to_vec()].into_iter().chain(variables.words()).collect()
            }
        }
    }

    /// What these words say.
    pub fn of(words: &[String]) -> Option<Tier> {
        match words {
            [kind, port] if kind == "server" => Some(Self::Server(port.parse().ok()?)),
            [kind, port] if kind == "apache" => Some(Self::Apache(port.parse().ok()?)),
            [kind, address] if kind == "php" => Some(Self::Php(address.clone())),
            [kind, rest @ ..] if kind == "database" => Variables::of(rest).map(Self::Database),
            _ => None,
        }
    }

    /// Its master process: of those that hold the listening socket the one whose parent does not.
    pub fn master(&self) -> Result<u32, String> {
        let (who, what) = match self {
            Self::Server(port) | Self::Apache(port) => {
                (Who::Port(*port), format!("no web server listens at port {port}"))
            }
            Self::Php(address) => {
                let port = address.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
                let who = port.map_or_else(|| Who::Socket(address.into()), Who::Port);
                (who, format!("no PHP-FPM listens at {address}"))
            }
            Self::Database(variables) => {
                let socket = variables.socket();
                (Who::Socket(socket.into()), format!("no MariaDB listens at {socket}"))
            }
        };
        let all: BTreeSet<u32> = who.processes().into_iter().collect();
        let is_top = |pid: &&u32| parent(**pid).is_none_or(|above| !all.contains(&above));
        all.iter().find(is_top).copied().ok_or(what)
    }

    /// Has it read its files again.
    pub fn tell(&self, master: u32) -> Result<(), String> {
        let signal = match self {
            Self::Server(_) => Signal::HUP,
            // Gracefully: by HUP Apache breaks off what is under way.
            Self::Apache(_) if !is_brisk(master) => Signal::USR1,
            Self::Apache(_) => Signal::HUP,
            Self::Php(_) => Signal::USR2,
            Self::Database(_) => return Err("MariaDB reads its option files when it starts only".to_owned()),
        };
        let pid = i32::try_from(master).ok().and_then(Pid::from_raw).ok_or("a process without a number")?;
        kill_process(pid, signal)
            .map_err(|error| format!("process {master} cannot be told to reload ({error})"))
    }

    /// Has it work with its files, which are written; `options`: those of the database.
    pub fn take(&self, options: &[File]) -> Result<(), String> {
        match self {
            Self::Database(variables) => variables.take(options),
            _ => self.reload(),
        }
    }

    /// Has it work with the originals, which are back.
    pub fn take_back(&self) -> Result<(), String> {
        match self {
            Self::Database(variables) => variables.take_back(),
            _ => self.reload(),
        }
    }

    /// Has it read its files again, and waits until those processes are gone that have not.
    fn reload(&self) -> Result<(), String> {
        let master = self.master()?;
        let before = children(master);
        self.tell(master)?;
        let begun = Instant::now();
        // A server that swaps its configuration within its processes keeps them: it is given the time, and no more.
        while begun.elapsed() < TUNE_RELOAD_TIME_MAX {
            must_run(master)?;
            let now = children(master);
            if !now.is_empty() && now.is_disjoint(&before) {
                return Ok(());
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Has the program itself check its files, of which this is the first; what is wrong is the error.
    pub fn check(&self, main: Option<&str>) -> Result<(), String> {
        let options: &[&str] = match self {
            Self::Server(_) => &["-t", "-q", "-c"],
            Self::Apache(_) => &["-t", "-f"],
            Self::Php(_) | Self::Database(_) => return Ok(()),
        };
        let Some(main) = main else { return Ok(()) };
        let master = self.master()?;
        let of_process = format!("/proc/{master}");
        let program = std::fs::read_link(format!("{of_process}/exe")).map_err(|error| error.to_string())?;
        let mut command = Command::new(&program);
        if matches!(self, Self::Apache(_)) && is_brisk(master) {
            command.arg("httpd");
        }
        command.args(options).arg(main).stdin(Stdio::null());
        // Debian's Apache has paths and names from its environment.
        let environment = std::fs::read(format!("{of_process}/environ")).unwrap_or_default();
        for variable in environment.split(|byte| *byte == 0) {
            if let Some(at) = variable.iter().position(|byte| *byte == b'=') {
                command.env(OsStr::from_bytes(&variable[..at]), OsStr::from_bytes(&variable[at + 1..]));
            }
        }
        brisk_net::sys::unblock_signals_in(&mut command);
        let output = command.output().map_err(|error| format!("{}: {error}", program.display()))?;
        if output.status.success() {
            return Ok(());
        }
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}

/// An error if a program of the site has ended.
pub fn must_run(master: u32) -> Result<(), String> {
    // One that has ended and was not waited for is there still.
    let stat = std::fs::read_to_string(format!("/proc/{master}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    match state {
        None | Some('Z' | 'X') => Err(format!("process {master}, a program of the site, has ended")),
        Some(_) => Ok(()),
    }
}

/// Whether it is Brisk, which serves Apache's files, too.
fn is_brisk(pid: u32) -> bool {
    let program = std::fs::read_link(format!("/proc/{pid}/exe"));
    program.is_ok_and(|path| path.file_name().is_some_and(|name| name == "brisk"))
}

fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

fn children(pid: u32) -> BTreeSet<u32> {
    proc::tree(pid).into_iter().filter(|other| *other != pid).collect()
}

/// A pool's `listen` as it can be connected to.
pub fn address_of(listen: &str) -> String {
    match listen.rsplit_once(':') {
        _ if listen.starts_with('/') => listen.to_owned(),
        Some(("0.0.0.0" | "[::]" | "*", port)) => format!("127.0.0.1:{port}"),
        Some(_) => listen.to_owned(),
        None => format!("127.0.0.1:{listen}"),
    }
}
