//! The compressed protocol: after the login all bytes of both sides are in packets, most of which are a zlib stream each. What they carry is
//! the frames of [`packet`](crate::packet) one behind the other, cut anywhere.
//!
//! A packet's header has the length of what follows, a number, and how long that is once it is inflated; 0 says that it is stored as it is.

use crate::error::ProtocolError;
use crate::limits::{
    DEFLATE_LEVEL, DEFLATED_BYTES_MIN, DEFLATED_FRAME_BYTES_MAX, INFLATER_BYTES, INFLATERS_KEPT_MAX,
    PACKED_BYTES_MAX, PACKET_BYTES_MAX,
};
use crate::packet;
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

/// Bytes before what a packet carries.
pub const HEADER_BYTES: usize = 7;

/// What the streams of all connections of a thread are made with: one deflater, and inflaters that are used again. They are large, and needed
/// for a packet at a time.
#[derive(Debug, Default)]
pub struct Zlib {
    deflater: Option<Compress>,
    inflaters: Vec<Decompress>,
}

impl Zlib {
    fn inflater(&mut self) -> Decompress {
        self.inflaters.pop().unwrap_or_else(|| Decompress::new(true))
    }

    fn give_back(&mut self, mut inflater: Decompress) {
        if self.inflaters.len() < INFLATERS_KEPT_MAX {
            inflater.reset(true);
            self.inflaters.push(inflater);
        }
    }

    /// Deflates `bytes` behind what `out` has. False, and nothing there: it does not become smaller.
    fn deflate(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> bool {
        if bytes.len() < DEFLATED_BYTES_MIN {
            return false;
        }
        let level = Compression::new(DEFLATE_LEVEL);
        let deflater = self.deflater.get_or_insert_with(|| Compress::new(level, true));
        deflater.reset();
        let from = out.len();
        out.resize(from + bytes.len() - 1, 0);
        let done = deflater.compress(bytes, &mut out[from..], FlushCompress::Finish);
        let is_smaller = matches!(done, Ok(Status::StreamEnd));
        out.truncate(if is_smaller { from + deflater.total_out() as usize } else { from });
        is_smaller
    }
}

/// A packet's stream on its way.
#[derive(Debug)]
struct Inflating {
    inflater: Decompress,
    /// Bytes of the stream that have not come yet.
    left: usize,
    /// As the header has it.
    announced_bytes: usize,
    /// How many of these were not given yet.
    owed: usize,
}

/// What came of a call.
enum Given {
    /// Bytes that may be looked at.
    Some,
    /// The packet's last ones, if any were missing.
    All,
    /// Nothing, until more comes.
    None,
}

impl Inflating {
    /// Inflates at most `room` bytes. The last ones of a packet are given only with its end, where zlib has compared its checksum.
    fn next(&mut self, input: &mut &[u8], out: &mut Vec<u8>, room: usize) -> Result<Given, ProtocolError> {
        let lie = ProtocolError::Inflated { announced_bytes: self.announced_bytes };
        loop {
            let (from, limit) = (out.len(), room.min(self.owed));
            // Where nothing is owed, one byte more is too many.
            out.resize(from + limit.max(1), 0);
            let (taken, given) = (self.inflater.total_in(), self.inflater.total_out());
            let piece = &input[..self.left.min(input.len())];
            let status = self.inflater.decompress(piece, &mut out[from..], FlushDecompress::None);
            let taken = (self.inflater.total_in() - taken) as usize;
            let given = (self.inflater.total_out() - given) as usize;
            out.truncate(from + given.min(limit));
            *input = &input[taken..];
            self.left -= taken;
            let status = status.map_err(|_| ProtocolError::Deflated)?;
            self.owed = self.owed.checked_sub(given).ok_or(lie)?;
            let is_whole = self.left == 0 && self.owed == 0;
            return match status {
                Status::StreamEnd if is_whole => Ok(Given::All),
                Status::StreamEnd => Err(lie),
                _ if given > 0 && self.owed > 0 => Ok(Given::Some),
                // What is left of it is its end.
                _ if given > 0 => continue,
                _ if self.left == 0 => Err(ProtocolError::Deflated),
                _ if input.is_empty() => Ok(Given::None),
                _ => Err(ProtocolError::Deflated),
            };
        }
    }
}

/// Where in a packet the client's next byte is.
#[derive(Debug)]
enum Place {
    /// So many bytes of the header are there.
    Header([u8; HEADER_BYTES], usize),
    Stored {
        left: usize,
    },
    Deflated(Inflating),
}

const BEFORE: Place = Place::Header([0; HEADER_BYTES], 0);

/// Which number the client's next packet has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// 0: a command begins.
    Command,
    /// This one, which follows that of the packet before.
    Client(u8),
    /// Any: what follows an answer (a file, the answer to a plugin) is numbered in different ways. libmariadb counts packets, as servers do;
    /// PHP's library and Connector/J count the frames in them.
    Server,
}

/// What is on its way to the client.
#[derive(Debug)]
enum Outgoing {
    /// Frames, of which the last one may not be whole.
    Held(Vec<u8>),
    /// A long frame, stored as it is.
    Long {
        /// So many bytes of it are still to come in the present packet,
        left: usize,
        /// and so many behind that.
        behind: usize,
    },
}

/// The server's side of one connection.
#[derive(Debug)]
pub struct Packets {
    place: Place,
    turn: Turn,
    /// Packets of both sides since the command began, the number of our next one.
    count: u8,
    /// The number of our next frame.
    frame: u8,
    outgoing: Outgoing,
}

impl Default for Packets {
    fn default() -> Packets {
        let outgoing = Outgoing::Held(Vec::new());
        Packets { place: BEFORE, turn: Turn::Command, count: 0, frame: 0, outgoing }
    }
}

impl Packets {
    /// Bytes of memory that it has besides itself.
    pub fn held(&self) -> usize {
        let incoming = match self.place {
            Place::Deflated(_) => INFLATER_BYTES,
            Place::Header(..) | Place::Stored { .. } => 0,
        };
        let outgoing = match &self.outgoing {
            Outgoing::Held(frames) => frames.capacity(),
            Outgoing::Long { .. } => 0,
        };
        incoming + outgoing
    }

    /// The next packet that is read is the first one of a command, perhaps behind commands that are in the packet before.
    pub fn begin_command(&mut self) {
        self.turn = Turn::Command;
        // An answer ends with a frame, so nothing is held but room.
        self.outgoing = Outgoing::Held(Vec::new());
    }

    /// The next packet that is read may have any number: the numbers are not checked where the bytes are only looked at.
    pub fn begin_any_packet(&mut self) {
        self.turn = Turn::Server;
    }

    /// Whether nothing of a packet has come that was not given.
    pub fn is_between(&self) -> bool {
        matches!(self.place, Place::Header(_, 0))
    }

    /// Takes bytes of the client from `input`, to the end of a packet at most, and appends at most `room` bytes of what it has sent to `out`,
    /// where all that was appended may be looked at as soon as this is true. False: more must come.
    ///
    /// The next packet is left alone, since its number depends on whether a command begins with it.
    pub fn unpack(
        &mut self,
        zlib: &mut Zlib,
        input: &mut &[u8],
        out: &mut Vec<u8>,
        room: usize,
    ) -> Result<bool, ProtocolError> {
        loop {
            match &mut self.place {
                Place::Header(header, have) => {
                    let count = input.len().min(HEADER_BYTES - *have);
                    header[*have..*have + count].copy_from_slice(&input[..count]);
                    *input = &input[count..];
                    *have += count;
                    if *have < HEADER_BYTES {
                        return Ok(false);
                    }
                    let header = *header;
                    self.place = self.opened(header, zlib)?;
                }
                Place::Stored { left: 0 } => self.place = BEFORE,
                Place::Stored { left } => {
                    let (bytes, rest) = input.split_at(input.len().min(*left).min(room));
                    out.extend_from_slice(bytes);
                    *input = rest;
                    *left -= bytes.len();
                    if *left == 0 {
                        self.place = BEFORE;
                    }
                    return Ok(!bytes.is_empty());
                }
                Place::Deflated(inflating) => match inflating.next(input, out, room)? {
                    Given::Some => return Ok(true),
                    Given::None => return Ok(false),
                    Given::All => {
                        if let Place::Deflated(inflating) = std::mem::replace(&mut self.place, BEFORE) {
                            zlib.give_back(inflating.inflater);
                        }
                        return Ok(true);
                    }
                },
            }
        }
    }

    fn opened(&mut self, header: [u8; HEADER_BYTES], zlib: &mut Zlib) -> Result<Place, ProtocolError> {
        let (left, got, announced_bytes) = (three(&header), header[3], three(&header[4..]));
        let expected = match self.turn {
            Turn::Command => {
                self.count = 0;
                0
            }
            Turn::Client(next) => next,
            Turn::Server => got,
        };
        // An error that the client is told follows this packet, whatever its number.
        self.count = self.count.wrapping_add(1);
        self.turn = Turn::Client(got.wrapping_add(1));
        if got != expected {
            return Err(ProtocolError::PackedSequence { expected, got });
        }
        if announced_bytes == 0 {
            return Ok(Place::Stored { left });
        }
        let inflater = zlib.inflater();
        Ok(Place::Deflated(Inflating { inflater, left, announced_bytes, owed: announced_bytes }))
    }

    /// Writes packets with these bytes of frames for the client. A packet ends where a frame does, so the beginning of one is held until the
    /// rest has come, unless it is long: Connector/Python takes a frame from no more than two packets, and no header from two, which servers'
    /// packets hardly ever ask of it. Frames get the numbers that servers give them: on from that of the packet that the first one is in.
    pub fn pack(&mut self, zlib: &mut Zlib, mut bytes: &[u8], out: &mut Vec<u8>) {
        // How much of what is held is whole frames.
        let mut whole = 0;
        while !bytes.is_empty() {
            let count = match &mut self.outgoing {
                Outgoing::Long { left, .. } => {
                    let count = bytes.len().min(*left);
                    out.extend_from_slice(&bytes[..count]);
                    *left -= count;
                    count
                }
                Outgoing::Held(held) => {
                    let missing = missing_bytes(&held[whole..]);
                    let count = bytes.len().min(missing);
                    held.extend_from_slice(&bytes[..count]);
                    if held.len() == whole + packet::HEADER_BYTES {
                        if std::mem::replace(&mut self.turn, Turn::Server) != Turn::Server {
                            self.frame = self.count;
                        }
                        held[whole + packet::HEADER_BYTES - 1] = self.frame;
                        self.frame = self.frame.wrapping_add(1);
                    }
                    count
                }
            };
            bytes = &bytes[count..];
            whole = self.advance(whole, zlib, out);
        }
        self.put_held(whole, zlib, out);
    }

    /// Goes on to the next frame, or to the next packet of a long one, where the present one has ended. Gives how much of what is held is
    /// whole frames.
    fn advance(&mut self, whole: usize, zlib: &mut Zlib, out: &mut Vec<u8>) -> usize {
        match &mut self.outgoing {
            Outgoing::Long { left: 0, behind: 0 } => self.outgoing = Outgoing::Held(Vec::new()),
            Outgoing::Long { left: 0, behind } => {
                let left = std::mem::take(behind);
                self.outgoing = Outgoing::Long { left, behind: 0 };
                out.extend_from_slice(&self.header(left, 0));
            }
            Outgoing::Long { .. } => {}
            Outgoing::Held(held) => match missing_bytes(&held[whole..]) {
                0 if held.len() < PACKED_BYTES_MAX => return held.len(),
                0 => {
                    let whole = held.len();
                    self.put_held(whole, zlib, out);
                    return 0;
                }
                // The header has just come.
                missing if missing > DEFLATED_FRAME_BYTES_MAX => {
                    let header = held.split_off(whole);
                    self.put_held(whole, zlib, out);
                    let frame_bytes = header.len() + missing;
                    let packet_bytes = frame_bytes.min(PACKET_BYTES_MAX);
                    out.extend_from_slice(&self.header(packet_bytes, 0));
                    out.extend_from_slice(&header);
                    let (left, behind) = (packet_bytes - header.len(), frame_bytes - packet_bytes);
                    self.outgoing = Outgoing::Long { left, behind };
                    return 0;
                }
                _ => {}
            },
        }
        whole
    }

    /// Writes a packet with so much of what is held.
    fn put_held(&mut self, whole: usize, zlib: &mut Zlib, out: &mut Vec<u8>) {
        let Outgoing::Held(held) = &mut self.outgoing else { return };
        if whole == 0 {
            return;
        }
        let from = out.len();
        out.extend_from_slice(&[0; HEADER_BYTES]);
        let is_deflated = zlib.deflate(&held[..whole], out);
        if !is_deflated {
            out.extend_from_slice(&held[..whole]);
        }
        held.drain(..whole);
        let header = self.header(out.len() - from - HEADER_BYTES, if is_deflated { whole } else { 0 });
        out[from..from + HEADER_BYTES].copy_from_slice(&header);
    }

    fn header(&mut self, length: usize, announced_bytes: usize) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[..3].copy_from_slice(&(length as u32).to_le_bytes()[..3]);
        header[3] = self.count;
        header[4..].copy_from_slice(&(announced_bytes as u32).to_le_bytes()[..3]);
        self.count = self.count.wrapping_add(1);
        header
    }
}

/// How many bytes a frame lacks, as far as its beginning tells; at first those of its header.
fn missing_bytes(frame: &[u8]) -> usize {
    match frame.split_at_checked(packet::HEADER_BYTES) {
        Some((header, body)) => three(header) - body.len(),
        None => packet::HEADER_BYTES - frame.len(),
    }
}

/// The length that a header begins with, or has in its last bytes.
fn three(header: &[u8]) -> usize {
    header.iter().take(3).rev().fold(0, |length, byte| length << 8 | usize::from(*byte))
}

#[cfg(test)]
mod tests;
