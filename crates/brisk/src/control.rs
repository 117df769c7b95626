//! `-s`: orders to a running master, over the socket beside its pid file, or by signal.

use crate::bundle::DiskLoader;
use crate::config::{self, Paths};
use crate::limits::{
    ANSWER_TIME_MAX, ANSWER_WRITE_TIME_MAX, CALL_TIME_MAX, END_ANSWER_TIME_MAX, ORDER_BYTES_MAX,
};
use brisk_cache::Purge;
use brisk_cache::purge::hex;
use brisk_load::output;
use brisk_net::fault;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::process::{Pid, Signal, Uid, kill_process};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

/// What may be asked over the control socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    Reload,
    Reopen,
    /// Which configuration is live.
    Generation,
    /// End at once.
    Stop,
    /// Finish the requests under way, then end.
    Quit,
    /// From a new master: a worker that has lost its own is to obey it ([`crate::takeover`]).
    Adopt,
    /// Something goes from a cache: see [`purge`].
    Purge(String),
    /// Other processes take the place of this PHP pool's.
    PhpReload(String),
}

/// `--timeout` where none is given.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// What is done sooner is not worth a line about waiting for it.
const PATIENCE: Duration = Duration::from_secs(2);
/// Before the answer come lines that begin so.
const WAITS: &str = "wait ";
/// The answer of a worker without a master that ends: its files are left to the caller.
pub const ORPHAN_ENDS: &str = "the worker process ends";

pub fn socket_path(pid_path: &str) -> String {
    format!("{pid_path}.sock")
}

/// The socket on which orders come. Master and workers have it; workers accept there only when the master is gone.
pub struct Control {
    listener: UnixListener,
    /// Besides root this user may give orders: the one that has opened the socket.
    owner: Uid,
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Control {
    /// Opens the socket, mode 0600. Without it (the path is too long, the folder is not writable) signals still work.
    pub fn open(pid_path: &str) -> Option<Control> {
        let path = socket_path(pid_path);
        let _ = std::fs::remove_file(&path);
        let mask = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
        let bound = UnixListener::bind(&path);
        rustix::process::umask(mask);
        let listener = bound.ok()?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).ok()?;
        Control::inherited(listener.into(), rustix::process::geteuid())
    }

    /// One that a process of this user has opened.
    pub fn inherited(listener: OwnedFd, owner: Uid) -> Option<Control> {
        let listener = UnixListener::from(listener);
        listener.set_nonblocking(true).ok()?;
        Some(Control { listener, owner })
    }

    /// A copy of the socket.
    pub fn copy(&self) -> io::Result<OwnedFd> {
        Ok(rustix::io::fcntl_dupfd_cloexec(&self.listener, 3)?)
    }

    /// The next caller. One that may not give orders is hung up on.
    pub fn accept(&self) -> Option<Call> {
        let (stream, _) = self.listener.accept().ok()?;
        let caller = rustix::net::sockopt::socket_peercred(&stream).ok()?.uid;
        if !caller.is_root() && caller != self.owner {
            return None;
        }
        stream.set_nonblocking(true).ok()?;
        Some(Call { stream, line: Vec::new(), until: Instant::now() + CALL_TIME_MAX })
    }
}

/// One caller.
pub struct Call {
    stream: UnixStream,
    line: Vec<u8>,
    /// When it is hung up on if it has said no order.
    pub until: Instant,
}

impl AsFd for Call {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// What a caller has said so far.
pub enum Said {
    Order(Order),
    /// Something that is no order.
    Unknown,
    /// Nothing, or a part.
    Incomplete,
    /// It has gone.
    Gone,
}

impl Call {
    /// Reads what has come of the order.
    pub fn read(&mut self) -> Said {
        let mut buf = [0; 4096];
        loop {
            match (&self.stream).read(&mut buf) {
                Ok(0) => return Said::Gone,
                Ok(count) => self.line.extend_from_slice(&buf[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Said::Incomplete,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Said::Gone,
            }
            if let Some(end) = line_end(&self.line) {
                let line = String::from_utf8_lossy(&self.line[..end]).into_owned();
                return order(&line).map_or(Said::Unknown, Said::Order);
            }
            if self.line.len() > ORDER_BYTES_MAX {
                return Said::Unknown;
            }
        }
    }

    /// The connection.
    pub fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// The process that calls, and its user; zeros where the kernel does not say.
    pub fn sender(&self) -> (i32, u32) {
        match rustix::net::sockopt::socket_peercred(&self.stream) {
            Ok(cred) => (cred.pid.as_raw_nonzero().get(), cred.uid.as_raw()),
            Err(_) => (0, 0),
        }
    }

    /// Tells what the answer waits for.
    pub fn waits_for(&self, what: &str) {
        // A caller that is gone is found out with the answer.
        let _ = (&self.stream).write_all(format!("{WAITS}{what}\n").as_bytes());
    }

    /// Answers and hangs up.
    pub fn answer(mut self, answer: &Result<String, String>) {
        let text = match answer {
            Ok(text) => format!("ok {text}\n"),
            Err(text) => format!("error {text}\n"),
        };
        let _ = self.stream.set_nonblocking(false);
        let _ = self.stream.set_write_timeout(Some(ANSWER_WRITE_TIME_MAX));
        let _ = self.stream.write_all(text.as_bytes());
    }
}

fn order(line: &str) -> Option<Order> {
    match line {
        "reload" => Some(Order::Reload),
        "reopen" => Some(Order::Reopen),
        "generation" => Some(Order::Generation),
        "stop" => Some(Order::Stop),
        "quit" => Some(Order::Quit),
        "adopt" => Some(Order::Adopt),
        line => match line.split_once(' ')? {
            ("purge", order) => Some(Order::Purge(order.into())),
            ("php-reload", pool) => Some(Order::PhpReload(pool.into())),
            _ => None,
        },
    }
}

/// `-s SIGNAL`; gives the exit code. What is waited for may take `timeout`.
pub fn send(paths: &Paths, signal: &str, timeout: Option<Duration>) -> i32 {
    let pid_path = pid_path(paths);
    if matches!(signal, "reload" | "reopen")
        && let Ok(stream) = UnixStream::connect(socket_path(&pid_path))
    {
        return ask(stream, signal, timeout.unwrap_or(ANSWER_TIMEOUT), &pid_path);
    }
    if matches!(signal, "stop" | "quit")
        && let Ok(stream) = UnixStream::connect(socket_path(&pid_path))
        && end(stream, signal, &pid_path)
    {
        return 0;
    }
    by_signal(&pid_path, signal)
}

/// Tells the server to end; true if it will. Its worker may be there without a master, which no signal to the master reaches.
fn end(mut stream: UnixStream, order: &str, pid_path: &str) -> bool {
    let asked = stream.set_read_timeout(Some(END_ANSWER_TIME_MAX)).is_ok()
        && stream.write_all(format!("{order}\n").as_bytes()).is_ok();
    let mut answer = String::new();
    if !asked || BufReader::new(&stream).read_line(&mut answer).is_err() {
        return false;
    }
    let Some(("ok", how)) = answer.trim_end().split_once(' ') else { return false };
    if how == ORPHAN_ENDS {
        // It may not be allowed to remove them itself.
        let _ = std::fs::remove_file(pid_path);
        let _ = std::fs::remove_file(socket_path(pid_path));
    }
    true
}

/// Tells the running server to purge something from a cache, at once. Gives how many entries went of which nothing was on
/// disk yet; `Ok(None)`: no server runs. The error says why it could not be told.
pub fn purge(pid_path: &str, zone: &str, order: &Purge) -> Result<Option<u64>, String> {
    let line = format!("purge {} {}", hex(zone.as_bytes()), order.text());
    Ok(tell(pid_path, &line)?.and_then(|count| count.parse().ok()))
}

/// Tells the running server to have other processes take the place of a PHP pool's, and waits until they serve; gives its answer.
/// `Ok(None)`: no server runs.
pub fn reload_php(pid_path: &str, pool: &str) -> Result<Option<String>, String> {
    tell(pid_path, &format!("php-reload {pool}"))
}

/// Sends an order; gives the answer. `Ok(None)`: no server runs.
fn tell(pid_path: &str, order: &str) -> Result<Option<String>, String> {
    let mut stream = match UnixStream::connect(socket_path(pid_path)) {
        Ok(stream) => stream,
        // One without a master has no such socket.
        Err(_) if !std::path::Path::new(pid_path).exists() => return Ok(None),
        Err(error) => return Err(brisk_conf::os_text(&error)),
    };
    let mut answer = String::new();
    let limit = fault::limit("answer", ANSWER_TIME_MAX);
    stream
        .set_read_timeout(Some(limit))
        .and_then(|()| stream.write_all(format!("{order}\n").as_bytes()))
        .and_then(|()| stream.read_to_string(&mut answer))
        .map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => {
                format!("no answer within {} s, waited for {}", limit.as_secs_f64(), master_of(pid_path))
            }
            _ => brisk_conf::os_text(&error),
        })?;
    // Lines about what the master waits for come first.
    let answer = answer.trim_end().lines().find(|line| !line.starts_with(WAITS)).unwrap_or_default();
    match answer.split_once(' ') {
        Some(("ok", text)) => Ok(Some(text.into())),
        Some((_, why)) => Err(why.into()),
        None => Err("no answer from the master".into()),
    }
}

/// Where the running server's pid file is.
pub fn pid_path(paths: &Paths) -> String {
    match &config::load(paths).loaded {
        Some(loaded) => loaded.snap.main.pid.clone(),
        // A broken configuration must not keep us from it.
        None => paths.env.pid_file(&config::parse(paths, &DiskLoader::new(&paths.env.conf_prefix)).0),
    }
}

fn ask(mut stream: UnixStream, order: &str, timeout: Duration, pid_path: &str) -> i32 {
    let answer = stream
        .write_all(format!("{order}\n").as_bytes())
        .and_then(|()| answer(&mut stream, timeout, master_of(pid_path)));
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            let seconds = timeout.as_secs();
            output::note(format_args!(
                "brisk: [error] {order} has not ended within {seconds} s; it goes on, the error log tells how it ends (--timeout SECONDS waits longer)"
            ));
            return 1;
        }
        Err(error) => {
            output::note(format_args!("brisk: [error] no answer from the master ({error})"));
            return 1;
        }
    };
    match answer.trim_end().split_once(' ') {
        Some(("ok", text)) => {
            output::note(format_args!("brisk: {order} done ({text})"));
            0
        }
        Some(("error", text)) => {
            for line in text.lines() {
                output::note(format_args!("brisk: {line}"));
            }
            let stays = if order == "reload" { "; the old configuration stays live" } else { "" };
            output::note(format_args!("brisk: [error] {order} failed{stays}"));
            1
        }
        _ => {
            output::note(format_args!("brisk: [error] the master ended while it carried out \"{order}\""));
            1
        }
    }
}

fn master_of(pid_path: &str) -> String {
    let pid = std::fs::read_to_string(pid_path).unwrap_or_default();
    format!("the master process {} to take the order", pid.trim())
}

/// The master's answer. What it waits for is shown if that takes a while.
fn answer(stream: &mut UnixStream, timeout: Duration, mut waits_for: String) -> io::Result<String> {
    let begin = Instant::now();
    let patience = PATIENCE.min(timeout);
    let mut shown = String::new();
    let mut bytes = Vec::new();
    let mut buf = [0; 4096];
    loop {
        let passed = begin.elapsed();
        if passed >= patience && waits_for != shown {
            output::note(format_args!("brisk: waiting for {waits_for}"));
            shown.clone_from(&waits_for);
        }
        if passed >= timeout {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let next = if passed < patience { patience } else { timeout };
        stream.set_read_timeout(Some(next.saturating_sub(passed).max(Duration::from_millis(1))))?;
        match stream.read(&mut buf) {
            Ok(0) => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Ok(count) => bytes.extend_from_slice(&buf[..count]),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
        while let Some(end) = bytes.strip_prefix(WAITS.as_bytes()).and_then(|_| line_end(&bytes)) {
            let line: Vec<u8> = bytes.drain(..=end).collect();
            waits_for = String::from_utf8_lossy(&line[WAITS.len()..end]).into_owned();
        }
    }
}

/// The end of the first line.
fn line_end(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|&byte| byte == b'\n')
}

fn by_signal(pid_path: &str, name: &str) -> i32 {
    let text = match std::fs::read_to_string(pid_path) {
        Ok(text) => text,
        Err(error) => {
            output::note(format_args!(
                "brisk: [error] open() \"{pid_path}\" failed ({})",
                brisk_conf::os_text(&error)
            ));
            return 1;
        }
    };
    let Some(pid) = text.trim().parse().ok().and_then(Pid::from_raw) else {
        let shown = brisk_conf::escape_controls(text.trim());
        output::note(format_args!("brisk: [error] invalid PID number \"{shown}\" in \"{pid_path}\""));
        return 1;
    };
    let signal = match name {
        "stop" => Signal::TERM,
        "quit" => Signal::QUIT,
        "reopen" => Signal::USR1,
        _ => Signal::HUP,
    };
    match kill_process(pid, signal) {
        Ok(()) => 0,
        Err(error) => {
            let why = brisk_conf::os_text(&error.into());
            output::note(format_args!(
                "brisk: [alert] kill({}, {}) failed ({why})",
                pid.as_raw_nonzero(),
                signal.as_raw()
            ));
            1
        }
    }
}
