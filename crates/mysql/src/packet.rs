//! Frames and the messages that they make: three bytes of length, a sequence number, so many bytes.
//!
//! A frame of the largest length is followed by another one of the same message, if only by an empty one.

use crate::error::ProtocolError;
use crate::limits::FRAME_BYTES_MAX;

/// Bytes before each frame's own.
pub const HEADER_BYTES: usize = 4;

/// Writes a message in as many frames as it takes. `sequence` is the first one's number, and the next one's afterwards.
pub fn put_message(out: &mut Vec<u8>, sequence: &mut u8, message: &[u8]) {
    let mut rest = message;
    loop {
        let count = rest.len().min(FRAME_BYTES_MAX);
        let (frame, after) = rest.split_at(count);
        out.extend_from_slice(&(count as u32).to_le_bytes()[..3]);
        out.push(*sequence);
        out.extend_from_slice(frame);
        *sequence = sequence.wrapping_add(1);
        rest = after;
        if count < FRAME_BYTES_MAX {
            return;
        }
    }
}

/// Where in a frame the next byte is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// So many bytes of the header are there.
    Header([u8; HEADER_BYTES], usize),
    Body {
        left: usize,
        /// The message goes on in the next frame.
        goes_on: bool,
    },
}

const BEFORE: Place = Place::Header([0; HEADER_BYTES], 0);

/// Bytes of one message, in the order in which they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk<'i> {
    /// Without headers; may be empty.
    pub bytes: &'i [u8],
    /// How long the message is at least, by its headers so far.
    pub announced_bytes: u64,
    /// The message ends with it.
    pub is_last: bool,
}

/// Finds messages in one direction of a connection, and keeps nothing of them.
#[derive(Clone, Debug)]
pub struct Frames {
    place: Place,
    /// The number of the next frame.
    sequence: u8,
    announced_bytes: u64,
}

impl Frames {
    /// The next frame has this number.
    pub fn new(sequence: u8) -> Frames {
        Frames { place: BEFORE, sequence, announced_bytes: 0 }
    }

    /// The number of the next frame, of whichever side.
    pub fn sequence(&self) -> u8 {
        self.sequence
    }

    /// The other side has written frames in between.
    pub fn set_sequence(&mut self, sequence: u8) {
        self.sequence = sequence;
    }

    /// Whether nothing of a message has come that is not whole.
    pub fn is_between(&self) -> bool {
        self.place == BEFORE && self.announced_bytes == 0
    }

    /// Gives frames the numbers that they should have, as far as their message goes and is there. Where packets around them are numbered,
    /// servers do not look at those of frames, and clients count them in ways of their own.
    pub fn renumber(&self, bytes: &mut [u8]) {
        let (mut frames, mut at) = (self.clone(), 0);
        loop {
            if let Place::Header(_, have) = frames.place {
                let Some(number) = bytes.get_mut(at + HEADER_BYTES - 1 - have) else { return };
                *number = frames.sequence;
            }
            let mut rest = &bytes[at..];
            match frames.next(&mut rest) {
                Ok(Some(chunk)) if !chunk.is_last => at = bytes.len() - rest.len(),
                _ => return,
            }
        }
    }

    /// Takes bytes from `input`, to the end of a message at most. `None`: more must come.
    pub fn next<'i>(&mut self, input: &mut &'i [u8]) -> Result<Option<Chunk<'i>>, ProtocolError> {
        if let Place::Header(mut header, have) = self.place {
            let count = input.len().min(HEADER_BYTES - have);
            header[have..have + count].copy_from_slice(&input[..count]);
            *input = &input[count..];
            if have + count < HEADER_BYTES {
                self.place = Place::Header(header, have + count);
                return Ok(None);
            }
            let [a, b, c, sequence] = header;
            if sequence != self.sequence {
                return Err(ProtocolError::Sequence { expected: self.sequence, got: sequence });
            }
            self.sequence = sequence.wrapping_add(1);
            let left = u32::from_le_bytes([a, b, c, 0]) as usize;
            self.announced_bytes += left as u64;
            self.place = Place::Body { left, goes_on: left == FRAME_BYTES_MAX };
        }
        let Place::Body { left, goes_on } = self.place else { return Ok(None) };
        if input.is_empty() && left > 0 {
            return Ok(None);
        }
        let (bytes, rest) = input.split_at(left.min(input.len()));
        *input = rest;
        let is_whole = bytes.len() == left;
        let chunk = Chunk { bytes, announced_bytes: self.announced_bytes, is_last: is_whole && !goes_on };
        self.place = if is_whole { BEFORE } else { Place::Body { left: left - bytes.len(), goes_on } };
        if chunk.is_last {
            self.announced_bytes = 0;
        }
        Ok(Some(chunk))
    }
}

/// Collects messages up to a limit.
#[derive(Clone, Debug)]
pub struct Messages {
    frames: Frames,
    message: Vec<u8>,
    limit_bytes: usize,
}

impl Messages {
    /// Messages of at most so many bytes; the first frame has this number.
    pub fn new(sequence: u8, limit_bytes: usize) -> Messages {
        Messages { frames: Frames::new(sequence), message: Vec::new(), limit_bytes }
    }

    /// The frames.
    pub fn frames(&mut self) -> &mut Frames {
        &mut self.frames
    }

    /// Takes bytes from `input`; a message when it is whole. What follows it stays in `input`.
    pub fn next(&mut self, input: &mut &[u8]) -> Result<Option<Vec<u8>>, ProtocolError> {
        // Its header alone may be there: what it announces is refused before a byte of it is kept.
        while let Some(chunk) = self.frames.next(input)? {
            if chunk.announced_bytes > self.limit_bytes as u64 {
                return Err(ProtocolError::TooLarge { limit_bytes: self.limit_bytes });
            }
            self.message.extend_from_slice(chunk.bytes);
            if chunk.is_last {
                return Ok(Some(std::mem::take(&mut self.message)));
            }
        }
        if self.frames.announced_bytes > self.limit_bytes as u64 {
            return Err(ProtocolError::TooLarge { limit_bytes: self.limit_bytes });
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_do_not_matter(messages: Vec<Vec<u8>>, cuts: Vec<u8>) {
            let mut bytes = Vec::new();
            let mut sequence = 7;
            messages.iter().for_each(|message| put_message(&mut bytes, &mut sequence, message));
            let mut reader = Messages::new(7, 1000);
            let (mut got, mut rest, mut cuts) = (Vec::new(), &bytes[..], cuts.iter().cycle());
            while !rest.is_empty() {
                let count = cuts.next().map_or(1, |&cut| usize::from(cut).clamp(1, rest.len()));
                let (mut piece, after) = rest.split_at(count);
                while let Some(message) = reader.next(&mut piece).unwrap() {
                    got.push(message);
                }
                assert!(piece.is_empty());
                rest = after;
            }
            prop_assert_eq!(got, messages);
            prop_assert!(reader.frames().is_between());
        }
    }

    #[test]
    fn frames_are_numbered_to_the_end_of_their_message() {
        let mut right = Vec::new();
        put_message(&mut right, &mut 254, &vec![b'x'; 2 * FRAME_BYTES_MAX + 1]);
        let second = HEADER_BYTES + FRAME_BYTES_MAX;
        let third = 2 * second;
        let mut wrong = right.clone();
        for at in [0, second, third] {
            wrong[at + 3] = 7;
        }
        // A header in two parts, and a message behind.
        wrong.extend_from_slice(b"\x01\0\0\x07y");
        for cut in [0, 2, 3, 4, second, second + 3, second + 4, third + 2] {
            let mut frames = Frames::new(254);
            let mut bytes = wrong.clone();
            frames.renumber(&mut bytes[..cut]);
            let mut rest = &bytes[..cut];
            while frames.next(&mut rest).unwrap().is_some() {}
            frames.renumber(&mut bytes[cut..]);
            assert!(bytes[..right.len()] == right && bytes[right.len()..] == wrong[right.len()..], "{cut}");
        }
    }

    #[test]
    fn a_message_of_the_largest_frame_has_another_one() {
        for length in [FRAME_BYTES_MAX - 1, FRAME_BYTES_MAX, FRAME_BYTES_MAX + 1, 2 * FRAME_BYTES_MAX] {
            let message = vec![b'x'; length];
            let (mut bytes, mut sequence) = (Vec::new(), 255);
            put_message(&mut bytes, &mut sequence, &message);
            let frames = length / FRAME_BYTES_MAX + 1;
            assert_eq!(bytes.len(), length + frames * HEADER_BYTES);
            assert_eq!(sequence, 255_u8.wrapping_add(frames as u8));
            let mut reader = Messages::new(255, usize::MAX);
            assert_eq!(reader.next(&mut &bytes[..]).unwrap().unwrap().len(), length);
        }
    }

    #[test]
    fn sizes_and_numbers_are_refused_by_the_header_alone() {
        let mut reader = Messages::new(0, 10);
        assert_eq!(reader.next(&mut &b"\x0b\0\0\0"[..]), Err(ProtocolError::TooLarge { limit_bytes: 10 }));
        let mut reader = Messages::new(0, 10);
        let wrong = ProtocolError::Sequence { expected: 0, got: 3 };
        assert_eq!(reader.next(&mut &b"\x01\0\0\x03"[..]), Err(wrong));
        let mut reader = Messages::new(0, 10);
        assert_eq!(reader.next(&mut &b"\0\0\0\0"[..]), Ok(Some(Vec::new())));
    }
}
