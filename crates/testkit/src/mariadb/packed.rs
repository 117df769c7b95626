//! The compressed protocol as a strict client has it: every packet of the server must have its number and hold what it announces.

use super::{Carrier, Connection, Refused};
use crate::wait;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// In a client's capabilities, and in a server's greeting.
pub(super) const COMPRESS: u32 = 0x20;

/// A connection on which both sides compress from now on.
pub(super) struct Packed {
    stream: Box<dyn Carrier>,
    /// Of the next packet, of either side.
    number: u8,
    unread: io::Cursor<Vec<u8>>,
    /// What one packet carries at most.
    cut_bytes: usize,
}

impl Packed {
    pub(super) fn new(stream: Box<dyn Carrier>, cut_bytes: usize) -> Packed {
        Packed { stream, number: 0, unread: io::Cursor::default(), cut_bytes }
    }

    fn refill(&mut self) -> io::Result<()> {
        let mut header = [0; 7];
        self.stream.read_exact(&mut header)?;
        let three = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], 0]) as usize;
        let mut content = vec![0; three(0)];
        self.stream.read_exact(&mut content)?;
        if header[3] != self.number {
            return Err(io::Error::other(format!("packet {} in place of {}", header[3], self.number)));
        }
        self.number = self.number.wrapping_add(1);
        if three(4) > 0 {
            let mut plain = Vec::new();
            ZlibDecoder::new(&*content).read_to_end(&mut plain)?;
            if plain.len() != three(4) {
                return Err(io::Error::other(format!("{} bytes in place of {}", plain.len(), three(4))));
            }
            content = plain;
        }
        self.unread = io::Cursor::new(content);
        Ok(())
    }
}

impl Read for Packed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.unread.position() == self.unread.get_ref().len() as u64 {
            self.refill()?;
        }
        self.unread.read(buffer)
    }
}

/// What is written at once is a frame. Every other packet is stored as it is.
impl Write for Packed {
    fn write(&mut self, frame: &[u8]) -> io::Result<usize> {
        if frame.get(3) == Some(&0) {
            self.number = 0;
        }
        let mut packets = Vec::new();
        for piece in frame.chunks(self.cut_bytes) {
            let (content, announced) = if self.number.is_multiple_of(2) {
                let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(piece)?;
                (encoder.finish()?, piece.len())
            } else {
                (piece.to_vec(), 0)
            };
            packets.extend(&(content.len() as u32).to_le_bytes()[..3]);
            packets.push(self.number);
            packets.extend(&(announced as u32).to_le_bytes()[..3]);
            packets.extend(content);
            self.number = self.number.wrapping_add(1);
        }
        self.stream.write_all(&packets)?;
        Ok(frame.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl Connection {
    /// As [`Connection::tracking`], for a client that compresses: a packet of it carries at most so many bytes.
    pub fn packed(
        to: SocketAddr,
        user: &str,
        password: &str,
        database: &str,
        cut_bytes: usize,
    ) -> Result<Connection, Refused> {
        let stream = TcpStream::connect_timeout(&to, wait::DEADLINE)?;
        stream.set_read_timeout(Some(wait::DEADLINE))?;
        stream.set_nodelay(true)?;
        Connection::packed_over(stream, user, password, database, cut_bytes)
    }

    /// The same over a connection that is there already. Whoever has a clone of it may send what no client sends.
    pub fn packed_over(
        stream: TcpStream,
        user: &str,
        password: &str,
        database: &str,
        cut_bytes: usize,
    ) -> Result<Connection, Refused> {
        let more = super::SESSION_TRACK | COMPRESS;
        let mut connection = Connection::log_in(Box::new(stream), user, password, database, more)?;
        let stream = std::mem::replace(&mut connection.stream, Box::new(io::empty()));
        connection.stream = Box::new(Packed::new(stream, cut_bytes));
        Ok(connection)
    }
}
