//! `-s`: orders to a running master, over the socket beside its pid file, or by signal.

use crate::bundle::DiskLoader;
use crate::config::{self, Paths};
use crate::launch::pid_file;
use brisk_cache::Purge;
use brisk_cache::purge::hex;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::process::{Pid, Signal, kill_process};
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
    /// Something goes from a cache: see [`purge`].
    Purge(String),
}

/// A stranger at the socket (root, or our user) must not hold the master up.
const CALL_TIMEOUT: Duration = Duration::from_secs(2);
/// `--timeout` where none is given.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// What is done sooner is not worth a line about waiting for it.
const PATIENCE: Duration = Duration::from_secs(2);
/// Before the answer come lines that begin so.
const WAITS: &str = "wait ";
/// The longest order, in bytes: one with the longest key that can be stored.
const ORDER_BYTES_MAX: u64 = 1 << 20;

pub fn socket_path(pid_path: &str) -> String {
    format!("{pid_path}.sock")
}

/// The master's end.
pub struct Control {
    listener: UnixListener,
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
        listener.set_nonblocking(true).ok()?;
        Some(Control { listener })
    }

    pub fn accept(&self) -> Option<Call> {
        let (stream, _) = self.listener.accept().ok()?;
        stream.set_nonblocking(false).ok()?;
        stream.set_read_timeout(Some(CALL_TIMEOUT)).ok()?;
        stream.set_write_timeout(Some(CALL_TIMEOUT)).ok()?;
        Some(Call { stream })
    }
}

/// One caller.
pub struct Call {
    stream: UnixStream,
}

impl Call {
    pub fn order(&self) -> Option<Order> {
        let mut line = String::new();
        BufReader::new((&self.stream).take(ORDER_BYTES_MAX)).read_line(&mut line).ok()?;
        match line.trim_end_matches('\n') {
            "reload" => Some(Order::Reload),
            "reopen" => Some(Order::Reopen),
            "generation" => Some(Order::Generation),
            line => line.strip_prefix("purge ").map(|order| Order::Purge(order.into())),
        }
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
        let _ = self.stream.write_all(text.as_bytes());
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
    by_signal(&pid_path, signal)
}

/// Tells the running server to purge something from a cache, at once. Gives how many entries went of which nothing was on
/// disk yet; `Ok(None)`: no server runs. The error says why it could not be told.
pub fn purge(pid_path: &str, zone: &str, order: &Purge) -> Result<Option<u64>, String> {
    let mut stream = match UnixStream::connect(socket_path(pid_path)) {
        Ok(stream) => stream,
        // One without a master has no such socket.
        Err(_) if !std::path::Path::new(pid_path).exists() => return Ok(None),
        Err(error) => return Err(brisk_conf::os_text(&error)),
    };
    let line = format!("purge {} {}\n", hex(zone.as_bytes()), order.text());
    let mut answer = String::new();
    stream
        .write_all(line.as_bytes())
        .and_then(|()| stream.read_to_string(&mut answer))
        .map_err(|error| brisk_conf::os_text(&error))?;
    match answer.trim_end().split_once(' ') {
        Some(("ok", count)) => Ok(count.parse().ok()),
        Some((_, why)) => Err(why.into()),
        None => Err("no answer from the master".into()),
    }
}

/// Where the running server's pid file is. A broken configuration must not keep us from it.
pub fn pid_path(paths: &Paths) -> String {
    match &config::load(paths).loaded {
        Some(loaded) => pid_file(paths, &loaded.snap.main),
        None => broken_pid_file(paths).unwrap_or_else(|| format!("{}brisk.pid", paths.env.places.run)),
    }
}

/// The `pid` directive of a configuration that has errors elsewhere.
fn broken_pid_file(paths: &Paths) -> Option<String> {
    let (tree, ..) = config::parse(paths, &DiskLoader::new(&paths.env.conf_prefix));
    let pid = tree.iter().find(|directive| directive.name() == "pid")?;
    Some(paths.env.full(pid.args.first()?.str()))
}

fn ask(mut stream: UnixStream, order: &str, timeout: Duration, pid_path: &str) -> i32 {
    let answer = stream
        .write_all(format!("{order}\n").as_bytes())
        .and_then(|()| answer(&mut stream, timeout, master_of(pid_path)));
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            let seconds = timeout.as_secs();
            eprintln!(
                "brisk: [error] {order} has not ended within {seconds} s; it goes on, the error log tells how it ends (--timeout SECONDS waits longer)"
            );
            return 1;
        }
        Err(error) => {
            eprintln!("brisk: [error] no answer from the master ({error})");
            return 1;
        }
    };
    match answer.trim_end().split_once(' ') {
        Some(("ok", text)) => {
            eprintln!("brisk: {order} done ({text})");
            0
        }
        Some(("error", text)) => {
            for line in text.lines() {
                eprintln!("brisk: {line}");
            }
            eprintln!("brisk: [error] {order} failed; the old configuration stays live");
            1
        }
        _ => {
            eprintln!("brisk: [error] the master ended while it carried out \"{order}\"");
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
            eprintln!("brisk: waiting for {waits_for}");
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
            eprintln!("brisk: [error] open() \"{pid_path}\" failed ({})", brisk_conf::os_text(&error));
            return 1;
        }
    };
    let Some(pid) = text.trim().parse().ok().and_then(Pid::from_raw) else {
        eprintln!("brisk: [error] invalid PID number \"{}\" in \"{pid_path}\"", text.trim());
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
            eprintln!("brisk: [alert] kill({}, {}) failed ({why})", pid.as_raw_nonzero(), signal.as_raw());
            1
        }
    }
}
