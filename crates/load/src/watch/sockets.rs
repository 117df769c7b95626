//! Queues of listening sockets, and how many of their connections somebody has accepted: what the kernel knows of any pool.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use crate::limits::SHORT_TABLE_LINES_MAX;

/// A listening socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listener {
    /// Of TCP.
    Tcp {
        /// Its inode.
        inode: u64,
        /// Its port.
        port: u16,
    },
    /// A unix socket.
    Unix {
        /// Its inode.
        inode: u64,
        /// Where it is.
        path: String,
    },
}

/// Connections of listening sockets at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Connections {
    /// Made, and not accepted yet.
    pub queued: u32,
    /// Accepted and open; `None`: nobody counted.
    pub accepted: Option<u32>,
}

/// A line of `/proc/net/tcp`.
#[derive(Debug, PartialEq, Eq)]
struct TcpLine {
    port: u16,
    listens: bool,
    /// Of one that listens: connections that wait to be accepted.
    received: u32,
    /// 0: nobody has accepted it.
    inode: u64,
}

/// A line of `/proc/net/unix`.
#[derive(Debug, PartialEq, Eq)]
struct UnixLine<'a> {
    listens: bool,
    /// 0: nobody has accepted it.
    inode: u64,
    path: &'a str,
}

fn tcp_line(line: &str) -> Option<TcpLine> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let hex = |text: &str| u32::from_str_radix(text, 16).ok();
    Some(TcpLine {
        port: u16::from_str_radix(fields.get(1)?.rsplit_once(':')?.1, 16).ok()?,
        listens: *fields.get(3)? == "0A",
        received: hex(fields.get(4)?.split_once(':')?.1)?,
        inode: fields.get(9)?.parse().ok()?,
    })
}

/// `Num RefCount Protocol Flags Type St Inode Path`.
fn unix_line(line: &str) -> Option<UnixLine<'_>> {
    // __SO_ACCEPTCON of the kernel's include/linux/net.h.
    const LISTENS: u32 = 1 << 16;
    let (numbers, path) = line.split_at(line.find(" /").or_else(|| line.find(" @"))?);
    let fields: Vec<&str> = numbers.split_whitespace().collect();
    let listens = u32::from_str_radix(fields.get(3)?, 16).ok()? & LISTENS != 0;
    Some(UnixLine { listens, inode: fields.get(6)?.parse().ok()?, path: &path[1..] })
}

/// The lines of sockets that listen. The kernel tells them first, so that thousands of connections cost nothing.
fn listening_tcp(table: impl BufRead) -> Vec<TcpLine> {
    let lines = table.lines().skip(1).map_while(Result::ok);
    lines.map_while(|line| tcp_line(&line)).take_while(|line| line.listens).collect()
}

fn tcp_tables() -> impl Iterator<Item = BufReader<File>> {
    ["/proc/net/tcp", "/proc/net/tcp6"]
        .into_iter()
        .filter_map(|path| Some(BufReader::new(File::open(path).ok()?)))
}

/// What these processes listen on. Others' sockets are only seen by root.
pub fn listeners_of(pids: &[u32]) -> Vec<Listener> {
    let mut inodes = BTreeSet::new();
    for pid in pids {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let open = files.filter_map(|file| fs::metadata(file.path()).ok());
        inodes.extend(open.filter(|file| file.file_type().is_socket()).map(|file| file.ino()));
    }
    let mut found: Vec<Listener> = tcp_tables()
        .flat_map(listening_tcp)
        .filter(|line| inodes.contains(&line.inode))
        .map(|line| Listener::Tcp { inode: line.inode, port: line.port })
        .collect();
    let text = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let lines = text.lines().skip(1).filter_map(unix_line);
    found.extend(
        lines
            .filter(|line| line.listens && inodes.contains(&line.inode))
            .map(|line| Listener::Unix { inode: line.inode, path: line.path.to_owned() }),
    );
    found
}

/// The inodes of sockets that listen on a TCP port.
pub fn inodes_of_port(port: u16) -> BTreeSet<u64> {
    let lines = tcp_tables().flat_map(listening_tcp);
    lines.filter(|line| line.port == port).map(|line| line.inode).collect()
}

/// The inodes of the sockets that listen at a path.
pub fn inodes_of_path(path: &Path) -> BTreeSet<u64> {
    let text = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let lines = text.lines().skip(1).filter_map(unix_line);
    lines.filter(|line| line.listens && Path::new(line.path) == path).map(|line| line.inode).collect()
}

/// The kernel's tables at one moment, as far as the listeners need them.
#[derive(Debug, Default)]
pub struct Tables {
    /// By inode: connections that wait.
    queued: BTreeMap<u64, u32>,
    /// By port: connections that were accepted.
    accepted: BTreeMap<u16, u32>,
    /// By path: waiting, and accepted.
    unix: BTreeMap<String, (u32, u32)>,
    /// Lines of TCP's tables, if they were read as a whole.
    lines: usize,
}

impl Tables {
    /// Reads them, as far as the listeners need. Accepted connections of TCP are counted only if `deeply`: there may be thousands.
    pub fn read<'a>(listeners: impl Iterator<Item = &'a Listener> + Clone, deeply: bool) -> Self {
        let mut found = Self::default();
        let is_tcp = |listener: &&Listener| matches!(listener, Listener::Tcp { .. });
        if listeners.clone().any(|listener| is_tcp(&listener)) {
            for table in tcp_tables() {
                if deeply {
                    found.all_tcp(table);
                } else {
                    found.queued.extend(listening_tcp(table).iter().map(|line| (line.inode, line.received)));
                }
            }
        }
        if listeners.clone().any(|listener| !is_tcp(&listener)) {
            found.all_unix(&fs::read_to_string("/proc/net/unix").unwrap_or_default());
        }
        found
    }

    fn all_tcp(&mut self, table: impl BufRead) {
        for line in table.lines().skip(1).map_while(Result::ok).filter_map(|line| tcp_line(&line)) {
            self.lines += 1;
            if line.listens {
                self.queued.insert(line.inode, line.received);
            } else if line.inode != 0 {
                *self.accepted.entry(line.port).or_default() += 1;
            }
        }
    }

    /// Whether TCP's tables are so short that they can be read as a whole each time.
    pub fn are_short(&self) -> bool {
        (1..SHORT_TABLE_LINES_MAX).contains(&self.lines)
    }

    fn all_unix(&mut self, text: &str) {
        for line in text.lines().skip(1).filter_map(unix_line).filter(|line| !line.listens) {
            let (waiting, accepted) = self.unix.entry(line.path.to_owned()).or_default();
            *(if line.inode == 0 { waiting } else { accepted }) += 1;
        }
    }

    /// The connections of these listeners together.
    pub fn of(&self, listeners: &[Listener], deeply: bool) -> Connections {
        let mut sum = Connections { queued: 0, accepted: Some(0) };
        let mut ports = BTreeSet::new();
        for listener in listeners {
            let accepted = match listener {
                Listener::Tcp { inode, port } => {
                    sum.queued += self.queued.get(inode).copied().unwrap_or(0);
                    // Several sockets may share a port.
                    let accepted = self.accepted.get(port).copied().unwrap_or(0);
                    deeply.then_some(if ports.insert(*port) { accepted } else { 0 })
                }
                Listener::Unix { path, .. } => {
                    let (waiting, accepted) = self.unix.get(path).copied().unwrap_or_default();
                    sum.queued += waiting;
                    Some(accepted)
                }
            };
            sum.accepted = sum.accepted.zip(accepted).map(|(sum, more)| sum + more);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TCP: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   6: 0100007F:477B 00000000:0000 0A 00000000:00000002 00:00000000 00000000     0        0 4711 3 0 100 0 0 10 0
  62: 0100007F:477B 0100007F:880A 01 00000000:00000000 00:00000000 00000000     0        0 0 1 0 20 0 0 10 -1
3890: 0100007F:87FA 0100007F:477B 01 00000000:00000000 00:00000000 00000000     0        0 4713 2 0 20 0 0 10 -1
3891: 0100007F:477B 0100007F:87FA 01 00000000:00000000 00:00000000 00000000     0        0 4714 1 0 20 0 0 10 -1
";
    const UNIX: &str = "Num       RefCount Protocol Flags    Type St Inode Path
0000000098562117: 00000003 00000000 00000000 0001 03 42339902 /run/t.sock
00000000b96f09f6: 00000003 00000000 00000000 0001 02     0 /run/t.sock
00000000f5bbd702: 00000003 00000000 00000000 0001 02     0 /run/t.sock
00000000f5bbd703: 00000003 00000000 00000000 0001 03 42339903
000000006a520b6e: 00000002 00000000 00010000 0001 01 42339897 /run/t.sock
";

    #[test]
    fn tables_of_the_kernel() {
        let (mut tables, port) = (Tables::default(), 0x477b);
        tables.all_tcp(TCP.as_bytes());
        tables.all_unix(UNIX);
        let tcp = Listener::Tcp { inode: 4711, port };
        let unix = Listener::Unix { inode: 42_339_897, path: "/run/t.sock".to_owned() };
        assert_eq!(tables.of(std::slice::from_ref(&tcp), true), Connections { queued: 2, accepted: Some(1) });
        assert_eq!(tables.of(std::slice::from_ref(&tcp), false), Connections { queued: 2, accepted: None });
        assert_eq!(
            tables.of(std::slice::from_ref(&unix), false),
            Connections { queued: 2, accepted: Some(1) }
        );
        assert_eq!(tables.of(&[tcp.clone(), tcp, unix], true), Connections { queued: 6, accepted: Some(2) });
        assert_eq!(listening_tcp(TCP.as_bytes()).len(), 1);
        assert_eq!((tcp_line("x"), unix_line("")), (None, None));
        let spaced = "00000000d1a1e2f3: 00000002 00000000 00010000 0001 01  4712 /run/a b.sock";
        assert_eq!(unix_line(spaced), Some(UnixLine { listens: true, inode: 4712, path: "/run/a b.sock" }));
    }

    #[test]
    fn this_process_s_own_queues() {
        let path = std::env::temp_dir().join(format!("brisk-load-queue-{}", std::process::id()));
        let unix = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = tcp.local_addr().unwrap().port();
        let mut listeners = listeners_of(&[std::process::id()]);
        // Other tests of this process listen, too.
        listeners.retain(|listener| match listener {
            Listener::Tcp { port: found, .. } => *found == port,
            Listener::Unix { path: found, .. } => path.to_str() == Some(found),
        });
        assert_eq!(listeners.len(), 2, "{listeners:?}");
        let _clients: Vec<_> =
            (0..3).map(|_| std::os::unix::net::UnixStream::connect(&path).unwrap()).collect();
        let _others: Vec<_> =
            (0..2).map(|_| std::net::TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
        let _accepted = (unix.accept().unwrap(), tcp.accept().unwrap());
        let found = Tables::read(listeners.iter(), true).of(&listeners, true);
        assert_eq!(found, Connections { queued: 3, accepted: Some(2) });
        assert_eq!(Tables::read(listeners.iter(), false).of(&listeners, false).queued, 3);
        fs::remove_file(path).unwrap();
    }
}
