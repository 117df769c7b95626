//! A connection's bytes: its socket, with TLS or without.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::secure::{Failed, Secure};
use crate::stats::ErrorKind;

/// What ends a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It is used up: the peer has announced its end, or the plan wants another one.
    Closed {
        /// The peer's wish.
        by_peer: bool,
    },
    /// The requests in flight are lost.
    Lost(ErrorKind),
}

impl From<Failed> for End {
    fn from(_: Failed) -> Self {
        Self::Lost(ErrorKind::Tls)
    }
}

/// What a read came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// So many bytes.
    Some(usize),
    /// Nothing is there.
    None,
    /// The peer has closed.
    Closed,
}

/// See the module's head.
#[derive(Debug)]
pub struct Wire {
    socket: OwnedFd,
    secure: Option<Box<Secure>>,
    /// What the socket did not take yet.
    unsent: Vec<u8>,
}

impl Wire {
    /// A plain connection, for now.
    pub fn new(socket: OwnedFd) -> Self {
        Self { socket, secure: None, unsent: Vec::new() }
    }

    /// Its socket: HTTP/3 sends and receives by itself.
    pub fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Another socket from here on.
    pub fn replace(&mut self, socket: OwnedFd) {
        self.socket = socket;
    }

    /// From here on with TLS; sends what that begins with.
    pub fn start_tls(&mut self, secure: Box<Secure>, hello: &[u8]) -> Result<(), End> {
        self.secure = Some(secure);
        self.put(hello)
    }

    /// Its TLS.
    pub fn secure(&mut self) -> Option<&mut Secure> {
        self.secure.as_deref_mut()
    }

    /// Whether the socket has not taken everything.
    pub fn is_full(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// The socket takes more.
    pub fn writable(&mut self) -> Result<(), End> {
        if self.unsent.is_empty() {
            return Ok(());
        }
        let unsent = std::mem::take(&mut self.unsent);
        self.put(&unsent)
    }

    /// Sends `bytes`, sealed if that is due; `room` is room to do so.
    #[inline]
    pub fn send(&mut self, bytes: &[u8], room: &mut Vec<u8>) -> Result<(), End> {
        match &mut self.secure {
            None => self.put(bytes),
            Some(secure) => {
                room.clear();
                secure.seal(bytes, room)?;
                self.put(room)
            }
        }
    }

    /// Sends bytes as they are, or keeps what the socket does not take.
    #[inline]
    pub fn put(&mut self, mut bytes: &[u8]) -> Result<(), End> {
        if self.unsent.is_empty() {
            match send(&self.socket, bytes, SendFlags::NOSIGNAL) {
                Ok(count) if count == bytes.len() => return Ok(()),
                Ok(count) => bytes = &bytes[count..],
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::CONNRESET) => return Err(End::Lost(ErrorKind::Reset)),
                Err(_) => return Err(End::Lost(ErrorKind::Write)),
            }
        }
        self.unsent.extend_from_slice(bytes);
        Ok(())
    }

    /// Reads what is there, as far as there is room for it.
    #[inline]
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<Read, End> {
        match recv(&self.socket, buffer, RecvFlags::empty()) {
            Ok((0, _)) => Ok(Read::Closed),
            Ok((count, _)) => Ok(Read::Some(count)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(Read::None),
            Err(Errno::CONNRESET) => Err(End::Lost(ErrorKind::Reset)),
            Err(_) => Err(End::Lost(ErrorKind::Read)),
        }
    }
}
