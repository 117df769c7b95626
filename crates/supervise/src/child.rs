//! A child process that runs a program: as another user, with limits, with its output as lines, and with an end of its own when
//! this process ends.

use crate::Pid;
use crate::limits::{LINE_BYTES_MAX, LINE_READ_BYTES_MAX};
use brisk_net::sys::{self, Confinement};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::process::{Signal, kill_process, kill_process_group};
use std::io::{self, PipeReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

/// A running program.
#[derive(Debug)]
pub struct Child {
    /// Its process id.
    pub pid: Pid,
    /// What it writes, line by line.
    pub output: Output,
}

impl Child {
    /// Starts `command` in a process group of its own, without input, its output and error stream in [`Child::output`]. It gets a
    /// signal when this process ends ([`Confinement::death_signal`]).
    ///
    /// The caller waits for its end (`waitpid`), as for that of any other child.
    pub fn start(mut command: Command, confinement: Confinement) -> io::Result<Child> {
        let (reader, writer) = io::pipe()?;
        rustix::io::ioctl_fionbio(&reader, true)?;
        command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer).process_group(0);
        sys::confine(&mut command, confinement)?;
        // What stands for the process in the library is dropped: numbers are waited for in one place.
        let pid = command.spawn()?.id() as Pid;
        Ok(Child { pid, output: Output { reader, rest: Vec::new(), is_closed: false } })
    }

    /// Sends a signal. A process that has ended needs none.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = rustix::process::Pid::from_raw(self.pid) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Kills what is left of the process group that its process has led. For when that process has ended: others of the group would
    /// keep what it had open, such as the port that the next one wants.
    pub fn kill_group(&self) {
        if let Some(pid) = rustix::process::Pid::from_raw(self.pid) {
            // Most have left nothing.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

/// What a program writes.
#[derive(Debug)]
pub struct Output {
    reader: PipeReader,
    /// The beginning of a line.
    rest: Vec<u8>,
    is_closed: bool,
}

impl AsFd for Output {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}

impl Output {
    /// Whether its end was read: nothing more comes, and there is nothing to wait for.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Gives `each` the lines that have come, without their ends and with control characters escaped. False at the end of the
    /// output: the last line is given then, too.
    pub fn lines(&mut self, mut each: impl FnMut(&str)) -> bool {
        let mut buf = [0; 4096];
        let mut read = 0;
        let is_open = loop {
            match self.reader.read(&mut buf) {
                Ok(0) => break false,
                Ok(count) => {
                    self.rest.extend_from_slice(&buf[..count]);
                    read += count;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break error.kind() == io::ErrorKind::WouldBlock,
            }
            if read >= LINE_READ_BYTES_MAX {
                break true;
            }
        };
        let mut at = 0;
        while let Some(length) = next_line(&self.rest[at..], is_open) {
            each(&shown(self.rest[at..at + length].trim_ascii_end()));
            at += length;
        }
        self.rest.drain(..at);
        self.is_closed = !is_open;
        is_open
    }
}

/// The length of the next line with its end; `None` while it is not whole.
fn next_line(bytes: &[u8], is_open: bool) -> Option<usize> {
    match bytes.iter().take(LINE_BYTES_MAX).position(|&byte| byte == b'\n') {
        Some(end) => Some(end + 1),
        None if bytes.len() >= LINE_BYTES_MAX => Some(LINE_BYTES_MAX),
        None if !is_open && !bytes.is_empty() => Some(bytes.len()),
        None => None,
    }
}

fn shown(line: &[u8]) -> String {
    let mut out = String::new();
    for char in String::from_utf8_lossy(line).chars() {
        if char.is_control() && char != '\t' {
            out.extend(char.escape_default());
        } else {
            out.push(char);
        }
    }
    out
}
