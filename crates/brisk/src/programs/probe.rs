//! One question to a program whether it is well: a connection, or a request with the head of its answer. Nothing of it waits: the master looks
//! at the socket when it has become ready, or when the time is over.

use crate::limits::PROGRAM_ANSWER_BYTES_MAX;
use brisk_http::response::{ResponseHead, parse_response};
use brisk_modules::supervise::Check;
use rustix::event::PollFlags;
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, getpeername, recv,
    send, socket_with, sockopt,
};
use std::net::SocketAddr;
use std::time::Instant;

/// A question under way.
#[derive(Debug)]
pub struct Probe {
    socket: OwnedFd,
    stage: Stage,
    /// When its time is over.
    pub until: Instant,
}

#[derive(Debug)]
enum Stage {
    Connecting,
    /// With what has come of the answer.
    Answering(Vec<u8>),
}

impl Probe {
    /// Begins to connect.
    ///
    /// # Errors
    /// Why there is nothing to connect to.
    pub fn begin(check: &Check, until: Instant) -> Result<Probe, String> {
        let told = |error: Errno| brisk_conf::os_text(&error.into());
        let family = match check {
            Check::Unix(_) => AddressFamily::UNIX,
            Check::Tcp(SocketAddr::V4(_)) | Check::Http { address: SocketAddr::V4(_), .. } => {
                AddressFamily::INET
            }
            Check::Tcp(SocketAddr::V6(_)) | Check::Http { address: SocketAddr::V6(_), .. } => {
                AddressFamily::INET6
            }
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, None).map_err(told)?;
        let done = match check {
            Check::Unix(path) => connect(&socket, &SocketAddrUnix::new(path).map_err(told)?),
            Check::Tcp(address) | Check::Http { address, .. } => connect(&socket, address),
        };
        match done {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(Probe { socket, stage: Stage::Connecting, until }),
            Err(error) => Err(told(error)),
        }
    }

    /// What to wait for.
    pub fn interest(&self) -> (BorrowedFd<'_>, PollFlags) {
        let flags = match self.stage {
            Stage::Connecting => PollFlags::OUT,
            Stage::Answering(_) => PollFlags::IN,
        };
        (self.socket.as_fd(), flags)
    }

    /// Goes on as far as it can; `None` while the answer is awaited.
    pub fn proceed(&mut self, check: &Check, now: Instant) -> Option<Result<(), String>> {
        let result = self.step(check);
        let is_late = result.is_none() && now >= self.until;
        if is_late { Some(Err("no answer in time".into())) } else { result }
    }

    fn step(&mut self, check: &Check) -> Option<Result<(), String>> {
        let told = |error: Errno| Some(Err(brisk_conf::os_text(&error.into())));
        if matches!(self.stage, Stage::Connecting) {
            match getpeername(&self.socket) {
                Ok(_) => {}
                Err(Errno::NOTCONN) => {
                    return match sockopt::socket_error(&self.socket) {
                        Ok(Ok(())) => None,
                        Ok(Err(error)) | Err(error) => told(error),
                    };
                }
                Err(error) => return told(error),
            }
            let Check::Http { host, target, .. } = check else { return Some(Ok(())) };
            let request = format!(
                "GET {target} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: brisk (supervise)\r\nConnection: close\r\n\r\n"
            );
            // It fits into an empty socket.
            match send(&self.socket, request.as_bytes(), SendFlags::NOSIGNAL) {
                Ok(count) if count == request.len() => self.stage = Stage::Answering(Vec::new()),
                Ok(_) => return Some(Err("the request could not be sent as a whole".into())),
                Err(error) => return told(error),
            }
        }
        let Stage::Answering(have) = &mut self.stage else { return None };
        let mut buf = [0; 4096];
        loop {
            match recv(&self.socket, &mut buf, RecvFlags::empty()) {
                Ok((_, 0)) => return Some(Err("the connection was closed without an answer".into())),
                Ok((_, count)) => have.extend_from_slice(&buf[..count]),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return None,
                Err(error) => return told(error),
            }
            if let Some(result) = judged(have) {
                return Some(result);
            }
        }
    }
}

/// What the beginning of an answer says; `None` while its head is not whole.
fn judged(have: &[u8]) -> Option<Result<(), String>> {
    let mut head = ResponseHead::default();
    match parse_response(have, &mut head) {
        Err(_) => Some(Err("the answer is no HTTP".into())),
        // Interim responses (RFC 9110 §15.2) come before the answer.
        Ok(_) if head.len > 0 && head.status < 200 => judged(&have[head.len..]),
        Ok(_) if head.len > 0 && head.status < 400 => Some(Ok(())),
        Ok(_) if head.len > 0 => Some(Err(format!("status {}", head.status))),
        Ok(_) if have.len() > PROGRAM_ANSWER_BYTES_MAX => Some(Err("the answer's head has no end".into())),
        Ok(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_judged_by_their_head() {
        let check = |text: &str, want: Option<Result<(), &str>>| {
            assert_eq!(judged(text.as_bytes()), want.map(|r| r.map_err(str::to_string)), "{text}");
        };
        check("", None);
        check("HTTP/1.1 200 OK\r\nContent-Le", None);
        check("HTTP/1.1 200 OK\r\n\r\n", Some(Ok(())));
        check("HTTP/1.0 302 Found\r\nLocation: /\r\n\r\n", Some(Ok(())));
        check("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\n\r\n", Some(Ok(())));
        check("HTTP/1.1 100 Continue\r\n\r\n", None);
        check("HTTP/1.1 503 Busy\r\n\r\n", Some(Err("status 503")));
        check("SSH-2.0-x\r\n\r\n", Some(Err("the answer is no HTTP")));
        check(
            &format!("HTTP/1.1 200 OK\r\nA: {}", "x".repeat(PROGRAM_ANSWER_BYTES_MAX)),
            Some(Err("the answer's head has no end")),
        );
    }
}
