//! Which tiers are watched: how their processes are found, and where they tell of themselves.

use std::path::PathBuf;

use super::inside::Source;
use super::mysql::{Database, DatabasePlace};
use super::proc;
use crate::plan::{Place, Url};

/// How a tier's processes are found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Who {
    /// This process and all below it.
    Tree(u32),
    /// Workers of a PHP-FPM pool.
    Pool(String),
    /// Processes of this command name.
    Command(String),
    /// Processes of a control group.
    Group(PathBuf),
    /// Those that listen at this place, or some of them.
    Listening(Door, Which),
}

/// Where a server listens on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Door {
    /// A TCP port.
    Port(u16),
    /// A unix socket.
    Socket(PathBuf),
}

/// Which processes of those that listen at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// They and all below them.
    All,
    /// They without those below them.
    Own,
    /// Those with a parent among them: each serves one request at a time.
    Workers,
    /// Below them, those whose command name begins with one of these, as their parent's does.
    Named(&'static [&'static str]),
}

/// One tier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tier {
    /// What the report calls it.
    pub name: String,
    /// Its processes; `None`: they are on another machine, or what it says of itself tells which they are.
    pub who: Option<Who>,
    /// What tells more of it.
    pub source: Option<Source>,
}

/// Reads `server=4711,php=pool:www,db=mariadbd,app=cgroup:/system.slice/app.service,edge=port:443`, and tiers that tell of themselves:
/// `php=fpm:URL`, `web=apache:URL`, `edge=brisk:URL`, `db=mysql:/run/mysqld/mysqld.sock`.
pub fn parse(text: &str) -> Result<Vec<Tier>, String> {
    text.split(',').map(|part| tier(part.trim())).collect()
}

fn tier(part: &str) -> Result<Tier, String> {
    let bad = || {
        format!(
            "\"{part}\" is not name=PID, name=COMMAND, name=pool:POOL, name=cgroup:PATH, name=port:N, name=fpm:URL, name=apache:URL, \
             name=brisk:URL or name=mysql:[USER[:PASSWORD]@]SOCKET"
        )
    };
    let (name, what) = part.split_once('=').ok_or_else(bad)?;
    if name.is_empty() || what.is_empty() {
        return Err(bad());
    }
    let url = |text: &str| Url::parse(text).map_err(|error| error.to_string());
    let (who, source) = match what.split_once(':') {
        Some(("pool", pool)) => (Some(Who::Pool(pool.to_owned())), None),
        Some(("cgroup", path)) => (Some(Who::Group(proc::group_folder(path))), None),
        Some(("port", port)) => (Some(all_at(Door::Port(port.parse().map_err(|_| bad())?))), None),
        Some(("command", command)) => (Some(Who::Command(command.to_owned())), None),
        Some(("fpm", page)) => (None, Some(Source::Fpm(url(page)?))),
        Some(("apache", page)) => (local(&url(page)?.origin.place), Some(Source::Apache(url(page)?))),
        Some(("brisk", api)) => (local(&url(api)?.origin.place), Some(Source::Brisk(url(api)?))),
        Some(("mysql", place)) => {
            let database = Database::parse(place).ok_or_else(bad)?;
            let who = match &database.place {
                DatabasePlace::Unix(path) => Some(all_at(Door::Socket(path.clone()))),
                DatabasePlace::Tcp(host, port) => local(&Place::Name(host.clone(), *port)),
            };
            (who, Some(Source::Database(database)))
        }
        _ => (Some(what.parse().map_or_else(|_| Who::Command(what.to_owned()), Who::Tree)), None),
    };
    Ok(Tier { name: name.to_owned(), who, source })
}

/// Who listens there, if it is this machine.
fn local(place: &Place) -> Option<Who> {
    match place {
        Place::Unix(path) => Some(all_at(Door::Socket(path.clone()))),
        Place::Name(host, port) => {
            let is_own = host.parse::<std::net::IpAddr>().map_or(host == "localhost", |ip| ip.is_loopback());
            is_own.then_some(all_at(Door::Port(*port)))
        }
    }
}

fn all_at(door: Door) -> Who {
    Who::Listening(door, Which::All)
}

impl Who {
    /// Its processes, now.
    pub fn processes(&self) -> Vec<u32> {
        match self {
            Self::Tree(pid) => proc::tree(*pid),
            Self::Pool(pool) => proc::with_title(&format!("php-fpm: pool {pool}")),
            Self::Command(name) => proc::with_command(name),
            Self::Group(path) => proc::in_group(path),
            Self::Listening(door, which) => which.of(door.listeners()),
        }
    }
}

impl Door {
    /// Processes that listen there, now. Others' are only seen by root.
    pub fn listeners(&self) -> Vec<u32> {
        match self {
            Self::Port(port) => proc::listening_on(*port),
            Self::Socket(path) => proc::listening_at(path),
        }
    }
}

impl Which {
    fn of(self, listeners: Vec<u32>) -> Vec<u32> {
        match self {
            Self::All => with_those_below(listeners),
            Self::Own => listeners,
            Self::Workers => proc::workers(&listeners),
            Self::Named(names) => {
                let mut named = with_those_below(listeners);
                named.retain(|pid| names.iter().any(|name| proc::command_of(*pid).starts_with(name)));
                proc::workers(&named)
            }
        }
    }
}

fn with_those_below(pids: Vec<u32>) -> Vec<u32> {
    let mut all: Vec<u32> = pids.into_iter().flat_map(proc::tree).collect();
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiers() {
        let read = |text: &str| {
            parse(text).map(|tiers| tiers.into_iter().filter_map(|tier| tier.who).collect::<Vec<_>>())
        };
        let want = vec![
            Who::Tree(4711),
            Who::Pool("www".to_owned()),
            Who::Command("mariadbd".to_owned()),
            Who::Group("/sys/fs/cgroup/a.slice".into()),
            all_at(Door::Port(443)),
        ];
        assert_eq!(read("server=4711,php=pool:www,db=mariadbd,g=cgroup:/a.slice,e=port:443"), Ok(want));
        for bad in ["", "x", "=1", "x=", "x=port:y"] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn tiers_that_tell_of_themselves() {
        let read =
            |text: &str| parse(text).map(|mut tiers| tiers.remove(0)).map(|tier| (tier.who, tier.source));
        let url = |text: &str| Url::parse(text).unwrap();
        let page = "http://127.0.0.1:8080/status";
        assert_eq!(read(&format!("php=fpm:{page}")), Ok((None, Some(Source::Fpm(url(page))))));
        assert_eq!(
            read(&format!("web=apache:{page}")),
            Ok((Some(all_at(Door::Port(8080))), Some(Source::Apache(url(page)))))
        );
        let far = "http://far.example/api/9";
        assert_eq!(read(&format!("edge=brisk:{far}")), Ok((None, Some(Source::Brisk(url(far))))));
        let (who, source) = read("db=mysql:/run/m.sock").unwrap();
        assert_eq!(who, Some(all_at(Door::Socket("/run/m.sock".into()))));
        assert!(matches!(source, Some(Source::Database(_))));
        for bad in ["x=fpm:status", "x=mysql:", "x=apache:ftp://x/"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
