//! `--allow-external HOST:PORT`: single services of the outside that the copy may reach, and nothing else.
//!
//! The copy has loopback only. A named service gets its address there, with a listener in the copy's network whose connections are
//! taken, and carried on, by this process outside. So there is no route, no rule of a firewall and no setting of the machine that is
//! changed, and everything goes with the process.

use crate::limits::TUNE_START_TIME_MAX;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _};
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(10);

/// A service of the outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct External {
    /// As the application names it.
    pub name: String,
    pub port: u16,
}

impl External {
    /// Reads `HOST:PORT`.
    pub fn parse(text: &str) -> Result<External, String> {
        let parts = text.rsplit_once(':').and_then(|(name, port)| Some((name, port.parse().ok()?)));
        match parts {
            Some((name, port)) if !name.is_empty() && port > 0 => {
                Ok(External { name: name.trim_matches(['[', ']']).to_owned(), port })
            }
            _ => Err(format!("\"{text}\" is no service: write HOST:PORT")),
        }
    }

    /// Its first address, looked up here.
    pub fn address(&self) -> Result<SocketAddr, String> {
        let failed = |why: &str| format!("--allow-external {}:{}: {why}", self.name, self.port);
        let mut found =
            (&*self.name, self.port).to_socket_addrs().map_err(|error| failed(&error.to_string()))?;
        found.next().ok_or_else(|| failed("this name has no address"))
    }
}

/// Puts listeners at these addresses into the network of a process, as soon as it has one of its own, and carries their connections
/// on from here.
pub fn start(process: u32, addresses: Vec<SocketAddr>) -> Result<(), String> {
    if addresses.is_empty() {
        return Ok(());
    }
    let inside = network_of(process)?;
    // The thread that enters the other network ends there.
    let listeners = thread::spawn(move || -> Result<Vec<(TcpListener, SocketAddr)>, String> {
        move_into_link_name_space(inside.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|error| format!("setns() failed ({error})"))?;
        addresses.into_iter().map(|address| Ok((bound(address)?, address))).collect()
    });
    let listeners = listeners.join().map_err(|_| "the relay has ended".to_owned())??;
    for (listener, address) in listeners {
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || carry(&stream, address));
            }
        });
    }
    Ok(())
}

/// The network namespace of a process, once it is not our own.
fn network_of(process: u32) -> Result<File, String> {
    let path = PathBuf::from(format!("/proc/{process}/ns/net"));
    let begun = Instant::now();
    while fs::read_link(&path).ok() == fs::read_link("/proc/self/ns/net").ok() {
        if begun.elapsed() > TUNE_START_TIME_MAX {
            return Err("the copy has no network of its own".to_owned());
        }
        thread::sleep(LOOK);
    }
    File::open(&path)
        .map_err(|error| format!("open() \"{}\" failed ({})", path.display(), brisk_conf::os_text(&error)))
}

/// A listener as soon as the copy has the address.
fn bound(address: SocketAddr) -> Result<TcpListener, String> {
    let begun = Instant::now();
    loop {
        match TcpListener::bind(address) {
            Ok(listener) => return Ok(listener),
            Err(error) if begun.elapsed() > TUNE_START_TIME_MAX => {
                return Err(format!("--allow-external {address}: {}", brisk_conf::os_text(&error)));
            }
            Err(_) => thread::sleep(LOOK),
        }
    }
}

/// Both directions of one connection, until both have ended.
fn carry(inner: &TcpStream, address: SocketAddr) {
    let Ok(outer) = TcpStream::connect(address) else { return };
    thread::scope(|scope| {
        scope.spawn(|| copy(inner, &outer));
        copy(&outer, inner);
    });
}

fn copy(from: &TcpStream, to: &TcpStream) {
    let (mut reader, mut writer) = (from, to);
    let _ = io::copy(&mut reader, &mut writer);
    let _ = to.shutdown(Shutdown::Write);
}

/// Within the copy: names lead to their addresses, and all listeners are there.
pub fn wait(externals: &[External], addresses: &[SocketAddr]) -> Result<(), String> {
    if externals.is_empty() {
        return Ok(());
    }
    let failed = |error: io::Error| {
        format!("\"/etc/hosts\" cannot be written in the copy ({})", brisk_conf::os_text(&error))
    };
    let mut hosts = fs::read_to_string("/etc/hosts").unwrap_or_default();
    for (external, address) in externals.iter().zip(addresses) {
        if external.name.parse::<IpAddr>().is_err() && external.name != "localhost" {
            // The first line of a name counts.
            hosts = format!("{} {}\n{hosts}", address.ip(), external.name);
        }
    }
    fs::write("/etc/hosts", hosts).map_err(failed)?;
    let begun = Instant::now();
    while !addresses.iter().all(|address| is_listened_on(address.port())) {
        if begun.elapsed() > TUNE_START_TIME_MAX {
            return Err("--allow-external: the services cannot be reached from the copy".to_owned());
        }
        thread::sleep(LOOK);
    }
    Ok(())
}

/// Whether a socket of this network listens at a port (proc_net(5): state 0A). To connect would ask the service.
fn is_listened_on(port: u16) -> bool {
    let ending = format!(":{port:04X}");
    let listens = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().take(4).collect();
        matches!(fields[..], [_, local, _, "0A"] if local.ends_with(&ending))
    };
    let tables =
        ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    tables.iter().flat_map(|text| text.lines()).any(listens)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};

    #[test]
    fn services_are_read() {
        let external = |text: &str| External::parse(text).map(|external| (external.name, external.port));
        assert_eq!(external("db.example:3306"), Ok(("db.example".to_owned(), 3306)));
        assert_eq!(external("[::1]:80"), Ok(("::1".to_owned(), 80)));
        for bad in ["db", ":80", "db:", "db:0", "db:x"] {
            assert!(external(bad).is_err(), "{bad}");
        }
        assert_eq!(External::parse("127.0.0.1:9").unwrap().address(), Ok("127.0.0.1:9".parse().unwrap()));
    }

    /// What one side has said reaches the other one after it has closed its half.
    #[test]
    fn a_connection_is_carried_on_in_both_directions() {
        let outside = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = outside.local_addr().unwrap();
        let inside = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(inside.local_addr().unwrap()).unwrap();
        let taken = inside.accept().unwrap().0;
        let relay = thread::spawn(move || carry(&taken, to));
        let mut service = outside.accept().unwrap().0;
        client.write_all(b"question").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut text = String::new();
        service.read_to_string(&mut text).unwrap();
        assert_eq!(text, "question");
        service.write_all(b"answer").unwrap();
        drop(service);
        text.clear();
        client.read_to_string(&mut text).unwrap();
        assert_eq!(text, "answer");
        relay.join().unwrap();
    }
}
