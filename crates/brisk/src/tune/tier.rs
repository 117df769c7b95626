//! Programs of a site that runs: found by where they listen, told to read their files again.

use super::process::{self, children, conf_of_brisk, conf_of_fpm, is_brisk, must_run};
use super::variables::Variables;
use crate::limits::TUNE_RELOAD_TIME_MAX;
use brisk_load::watch::proc;
use brisk_tune::edit::File;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::path::Path;
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

/// The first of a database's words.
pub const DATABASE: &[u8] = b"database";

impl Tier {
    /// As words of the journal.
    pub fn words(&self) -> Vec<Vec<u8>> {
        match self {
            Self::Server(port) => vec![b"server".to_vec(), port.to_string().into_bytes()],
            Self::Apache(port) => vec![b"apache".to_vec(), port.to_string().into_bytes()],
            Self::Php(address) => vec![b"php".to_vec(), address.clone().into_bytes()],
            Self::Database(variables) => [DATABASE.to_vec()].into_iter().chain(variables.words()).collect(),
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

    /// Whether its program may be called so. Distributions put versions and kinds behind names: `php-fpm8.2`, `httpd-prefork`.
    fn is_called(&self, name: &str) -> bool {
        let begins = |programs: &[&str]| programs.iter().any(|program| name.starts_with(program));
        match self {
            Self::Server(_) => name == "brisk" || begins(&["nginx"]),
            Self::Apache(_) => name == "brisk" || begins(&["apache2", "httpd"]),
            Self::Php(_) => begins(&["php-fpm"]),
            Self::Database(_) => begins(&["mariadbd", "mysqld"]),
        }
    }

    /// Its master process: of those of its program that hold the listening socket the one whose parent is none of them. Others may hold it,
    /// too, as systemd does that has opened it.
    pub fn master(&self) -> Result<u32, String> {
        let (holders, what, place) = match self {
            Self::Server(port) | Self::Apache(port) => {
                (proc::listening_on(*port), "web server", format!("port {port}"))
            }
            Self::Php(address) => {
                let port = address.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
                let holders = port.map_or_else(|| proc::listening_at(Path::new(address)), proc::listening_on);
                (holders, "PHP-FPM", address.clone())
            }
            Self::Database(variables) => {
                let socket = variables.socket();
                (proc::listening_at(Path::new(socket)), "MariaDB", socket.to_owned())
            }
        };
        let is_its = |pid: &u32| process::name(*pid).is_some_and(|name| self.is_called(&name));
        let all: BTreeSet<u32> = holders.iter().copied().filter(is_its).collect();
        let is_top = |pid: &&u32| process::parent(**pid).is_none_or(|above| !all.contains(&above));
        all.iter().find(is_top).copied().ok_or_else(|| {
            match holders.first().and_then(|pid| process::name(*pid)) {
                Some(other) => format!("{other} listens at {place}, and no {what} that is known here"),
                None => format!("no {what} listens at {place}"),
            }
        })
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

    /// Has it read its files again, and waits until those processes are gone that have not. Files that its program refuses are not read: some
    /// programs would end.
    fn reload(&self) -> Result<(), String> {
        let master = self.master()?;
        self.check(master).map_err(|why| format!("not reloaded: {why}"))?;
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

    /// Has the program itself check the files that it would read; what is wrong is the error.
    pub fn check(&self, master: u32) -> Result<(), String> {
        let words = process::words(master);
        let given = |names: &[&str]| -> Vec<String> {
            let pair = |name: &&str| Some([(*name).to_owned(), process::option(&words, name)?]);
            names.iter().filter_map(pair).flatten().collect()
        };
        let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let named = |options: &[&str], file: Option<String>| match file {
            Some(file) => [own(options), vec![file]].concat(),
            None => own(&options[..options.len() - 1]),
        };
        let args = match self {
            Self::Server(_) if is_brisk(master) => named(&["-t", "-q", "-c"], conf_of_brisk(&words)),
            Self::Apache(_) if is_brisk(master) => named(&["httpd", "-t", "-f"], conf_of_brisk(&words)),
            Self::Server(_) => [own(&["-t", "-q"]), given(&["-p", "-c", "-g"])].concat(),
            Self::Apache(_) => {
                // Each names something that sections of its files may hang on.
                let defined = words.windows(2).filter(|pair| pair[0] == "-D").flatten().cloned();
                [own(&["-t"]), given(&["-d", "-f"]), defined.collect()].concat()
            }
            Self::Php(_) => {
                let file = conf_of_fpm(&words).ok_or("PHP-FPM does not say which file it has read")?;
                named(&["-t", "-y"], Some(file))
            }
            Self::Database(_) => return Ok(()),
        };
        process::check(master, &args)
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// No signal is sent to a program that only has the site's port.
    #[test]
    fn another_program_at_the_port_is_no_web_server() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        for tier in [Tier::Server(port), Tier::Apache(port), Tier::Php(format!("127.0.0.1:{port}"))] {
            let why = tier.master().unwrap_err();
            assert!(why.contains("listens at") && why.contains("that is known here"), "{why}");
        }
        drop(listener);
        assert!(Tier::Server(port).master().unwrap_err().starts_with("no web server listens"));
        let php = Tier::Php("/run/none.sock".to_owned());
        assert!(php.is_called("php-fpm8.2") && !php.is_called("python3"));
        assert!(Tier::Apache(1).is_called("httpd") && !Tier::Server(1).is_called("briskly"));
    }
}
