//! The encoders of all codings behind one interface: bytes in, bytes out, no I/O.
//!
//! Encoders are large (a megabyte and more for Brotli and zstd): those that can begin anew are kept per thread,
//! up to a limit, and found by their parameters.

use crate::limits::{ENCODER_ZSTD_WINDOW_LOG_MAX, IDLE_ENCODERS_MAX};
use brisk_http::negotiate::Coding;
use brotlic::encode::BrotliOperation;
use brotlic::{BrotliEncoder, BrotliEncoderOptions, Quality, WindowSize};
use flate2::{Compress, Compression, FlushCompress, Status};
use std::cell::RefCell;
use std::io;
use zstd::stream::raw::{self, CParameter, InBuffer, Operation as _, OutBuffer};

/// What an encoder is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    pub coding: Coding,
    pub level: u8,
    /// Base-two logarithm of the window; not for zstd, whose level implies one.
    /// (Zstandard has 0 there, so that equal parameters are found equal.)
    pub window: u8,
}

impl Params {
    /// The same for a body of which the length may be known: a client needs memory for all of a Brotli window, and a
    /// short body has no use for it.
    pub fn for_length(self, length: Option<u64>) -> Params {
        let Some(length) = length.filter(|_| self.coding == Coding::Br) else { return self };
        // RFC 7932 §9.1: a window is 16 bytes less than a power of two.
        let enough = (u64::BITS - length.saturating_add(15).leading_zeros()) as u8;
        Params { window: self.window.min(enough.max(BROTLI_WINDOW_SHORT)), ..self }
    }
}

/// What follows the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// More bytes.
    Run,
    /// For now nothing: what was given so far must be decodable.
    Flush,
    /// Nothing.
    Finish,
}

/// An encoder in the middle of its work. It may move between threads.
pub struct Encoder {
    params: Params,
    state: State,
}

enum State {
    Gzip(Compress),
    Brotli(BrotliEncoder),
    Zstd(raw::Encoder<'static>),
}

/// What the library calls its first level codes with a fixed table, and makes 18 to 36 % more bytes of text than level 1 of zlib, which
/// configurations mean. With the second one there are 2 to 6 % fewer than zlib's, for 7 % fewer instructions.
const GZIP_LOWEST_LEVEL: u8 = 2;
/// The lowest level that would have a larger one.
const ZSTD_LEVEL_LARGE: u8 = 20;
/// With less than this the library looks for repetitions in another way, which takes a third longer and finds no more.
const BROTLI_WINDOW_SHORT: u8 = 17;
/// Room that is made for output at a time.
/// (As much as a page of text comes to: most bodies need one step.)
const OUT_STEP_BYTES: usize = 8 * 1024;

thread_local! {
    /// Per thread, since an encoder is used by one at a time; the pool's jobs take theirs along.
    static IDLE: RefCell<Vec<Encoder>> = const { RefCell::new(Vec::new()) };
}

impl Encoder {
    /// An encoder at the start of a body, new or used before.
    pub fn take(params: Params) -> io::Result<Encoder> {
        let idle = IDLE.with_borrow_mut(|idle| {
            // By swapping: the order says nothing.
            let at = idle.iter().position(|encoder| encoder.params == params)?;
            Some(idle.swap_remove(at))
        });
        idle.map_or_else(|| Encoder::new(params), Ok)
    }

    fn new(params: Params) -> io::Result<Encoder> {
        let level = params.level;
        let state = match params.coding {
            Coding::Gzip => {
                let level = Compression::new(level.max(GZIP_LOWEST_LEVEL).into());
                State::Gzip(Compress::new_gzip(level, params.window))
            }
            Coding::Br => {
                let quality = Quality::new(level).map_err(io::Error::other)?;
                let window = WindowSize::new(params.window).map_err(io::Error::other)?;
                let mut options = BrotliEncoderOptions::new();
                State::Brotli(options.quality(quality).window_size(window).build().map_err(io::Error::other)?)
            }
            Coding::Zstd => {
                let mut encoder = raw::Encoder::new(level.into())?;
                // RFC 8878 §3.1.1.1.2 asks decoders for 8 MiB; RFC 9659 makes that the most for this coding on
                // the web.
                if level >= ZSTD_LEVEL_LARGE {
                    encoder.set_parameter(CParameter::WindowLog(ENCODER_ZSTD_WINDOW_LOG_MAX))?;
                }
                State::Zstd(encoder)
            }
        };
        Ok(Encoder { params, state })
    }

    /// Gives a finished encoder back for the next body.
    pub fn put(mut self) {
        let reusable = match &mut self.state {
            State::Gzip(compress) => {
                compress.reset();
                true
            }
            // The library has no way to begin anew.
            State::Brotli(_) => false,
            State::Zstd(encoder) => encoder.reinit().is_ok(),
        };
        IDLE.with_borrow_mut(|idle| {
            // Only encoders of bodies that ended well come here: one that was dropped in its work may hold
            // another client's bytes.
            if reusable && idle.len() < IDLE_ENCODERS_MAX {
                idle.push(self);
            }
        });
    }

    /// Encodes `input` and appends what comes of it.
    pub fn encode(&mut self, input: &[u8], op: Op, out: &mut Vec<u8>) -> io::Result<()> {
        match &mut self.state {
            State::Gzip(compress) => deflate(compress, input, op, out),
            State::Brotli(encoder) => brotli(encoder, input, op, out),
            State::Zstd(encoder) => zstandard(encoder, input, op, out),
        }
    }
}

fn deflate(compress: &mut Compress, mut input: &[u8], op: Op, out: &mut Vec<u8>) -> io::Result<()> {
    let flush = match op {
        Op::Run => FlushCompress::None,
        Op::Flush => FlushCompress::Sync,
        Op::Finish => FlushCompress::Finish,
    };
    loop {
        // The library writes into what is reserved and does not grow it.
        // Half of a step: with less, every call would write a few bytes.
        if out.capacity() - out.len() < OUT_STEP_BYTES / 2 {
            out.reserve(OUT_STEP_BYTES);
        }
        let before = compress.total_in();
        let status = compress.compress_vec(input, out, flush).map_err(io::Error::other)?;
        input = &input[(compress.total_in() - before) as usize..];
        let is_done = match status {
            Status::StreamEnd => true,
            // Room that is left over says that there was nothing more to write.
            _ => op != Op::Finish && input.is_empty() && out.len() < out.capacity(),
        };
        if is_done {
            return Ok(());
        }
    }
}

fn brotli(encoder: &mut BrotliEncoder, mut input: &[u8], op: Op, out: &mut Vec<u8>) -> io::Result<()> {
    let operation = match op {
        Op::Run => BrotliOperation::Process,
        Op::Flush => BrotliOperation::Flush,
        Op::Finish => BrotliOperation::Finish,
    };
    loop {
        let at = out.len();
        out.resize(at + OUT_STEP_BYTES, 0);
        let result = encoder.compress(input, &mut out[at..], operation);
        // Before the error is looked at: zeros that were never written must not be sent.
        out.truncate(at + result.map_or(0, |result| result.bytes_written));
        input = &input[result?.bytes_read..];
        if input.is_empty() && !encoder.has_output() && (op != Op::Finish || encoder.is_finished()) {
            return Ok(());
        }
    }
}

fn zstandard(encoder: &mut raw::Encoder<'static>, input: &[u8], op: Op, out: &mut Vec<u8>) -> io::Result<()> {
    // It counts what it was given; the caller's slice is never cut.
    let mut input = InBuffer::around(input);
    loop {
        out.reserve(OUT_STEP_BYTES);
        let at = out.len();
        let mut room = OutBuffer::around_pos(out, at);
        let rest = if input.pos < input.src.len() {
            encoder.run(&mut input, &mut room)?;
            // All input may be taken while the flush or the end is still to come: one more turn.
            usize::from(op != Op::Run || input.pos < input.src.len())
        } else {
            match op {
                Op::Run => 0,
                Op::Flush => encoder.flush(&mut room)?,
                Op::Finish => encoder.finish(&mut room, true)?,
            }
        };
        if rest == 0 {
            return Ok(());
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::io::Read as _;

    /// What a client makes of a coded body.
    pub fn decode(coding: Coding, coded: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        match coding {
            Coding::Gzip => flate2::read::GzDecoder::new(coded).read_to_end(&mut plain),
            Coding::Br => brotli::Decompressor::new(coded, 4096).read_to_end(&mut plain),
            Coding::Zstd => zstd::stream::read::Decoder::new(coded).unwrap().read_to_end(&mut plain),
        }
        .unwrap();
        plain
    }

    pub fn params(coding: Coding) -> Params {
        let (level, window) = match coding {
            Coding::Gzip => (6, 15),
            Coding::Br => (4, 19),
            Coding::Zstd => (3, 0),
        };
        Params { coding, level, window }
    }

    /// Text that compresses somewhat.
    pub fn text(length: usize) -> Vec<u8> {
        let mut seed = 1u32;
        let mut words = std::iter::repeat_with(move || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            format!("word{} ", seed >> 20)
        });
        let mut text = Vec::new();
        while text.len() < length {
            text.extend_from_slice(words.next().unwrap().as_bytes());
        }
        text.truncate(length);
        text
    }

    #[test]
    fn bodies_in_pieces_come_back() {
        for coding in Coding::ALL {
            for length in [0, 1, 100, 70_000, 400_000] {
                let text = text(length);
                for piece in [7_000, 100_000] {
                    let mut encoder = Encoder::take(params(coding)).unwrap();
                    let mut out = Vec::new();
                    for part in text.chunks(piece) {
                        encoder.encode(part, Op::Run, &mut out).unwrap();
                    }
                    encoder.encode(b"", Op::Finish, &mut out).unwrap();
                    encoder.put();
                    assert!(decode(coding, &out) == text, "{coding:?} {length} {piece}");
                    assert!(length < 1000 || out.len() < length / 2, "{coding:?} {length}: {}", out.len());
                }
            }
        }
    }

    /// A site that comes from nginx, where the level is 1 unless it says otherwise, sends no more bytes than before.
    #[test]
    fn the_first_level_makes_no_more_bytes_than_zlib() {
        // By zlib 1.2.13 at level 1.
        for (what, text, zlib) in [("words", text(50_000), 15_670), ("markup", markup(50_000), 10_323)] {
            let mut encoder = Encoder::new(Params { coding: Coding::Gzip, level: 1, window: 15 }).unwrap();
            let mut out = Vec::new();
            encoder.encode(&text, Op::Finish, &mut out).unwrap();
            assert!(
                decode(Coding::Gzip, &out) == text && out.len() <= zlib,
                "{what}: {} bytes, zlib {zlib}",
                out.len()
            );
        }
    }

    /// Rules of a style sheet.
    fn markup(length: usize) -> Vec<u8> {
        let mut text = Vec::new();
        for n in 0u32.. {
            let hash = n.wrapping_mul(2_654_435_761) >> 12;
            let rule = format!(
                ".block-{} .item-{} {{ margin: {}px {}px; color: #{:06x}; }}\n",
                n % 7,
                hash % 90,
                hash % 33,
                hash % 5,
                hash & 0xff_ffff
            );
            text.extend_from_slice(rule.as_bytes());
            if text.len() >= length {
                break;
            }
        }
        text.truncate(length);
        text
    }

    #[test]
    fn a_flush_makes_all_decodable() {
        for coding in Coding::ALL {
            let mut encoder = Encoder::take(params(coding)).unwrap();
            let mut out = Vec::new();
            encoder.encode(b"", Op::Flush, &mut out).unwrap();
            encoder.encode(b"DA", Op::Flush, &mut out).unwrap();
            encoder.encode(b"", Op::Flush, &mut out).unwrap();
            let mut plain = [0; 2];
            match coding {
                Coding::Gzip => flate2::read::GzDecoder::new(&*out).read_exact(&mut plain),
                Coding::Br => brotli::Decompressor::new(&*out, 16).read_exact(&mut plain),
                Coding::Zstd => zstd::stream::read::Decoder::new(&*out).unwrap().read_exact(&mut plain),
            }
            .unwrap();
            assert_eq!(&plain, b"DA", "{coding:?}");
            encoder.encode(b"TA", Op::Finish, &mut out).unwrap();
            assert_eq!(decode(coding, &out), b"DATA", "{coding:?}");
        }
    }

    #[test]
    fn short_bodies_have_short_windows() {
        let check = |window, length, want| {
            let params = Params { coding: Coding::Br, level: 5, window }.for_length(length);
            assert_eq!(params.window, want, "{window} {length:?}");
        };
        check(19, None, 19);
        check(19, Some(0), 17);
        check(19, Some((1 << 17) - 16), 17);
        check(19, Some((1 << 17) - 15), 18);
        check(19, Some(1 << 30), 19);
        check(24, Some(u64::MAX), 24);
        check(10, Some(20_000), 10);
        let zstd = params(Coding::Zstd);
        assert_eq!(zstd.for_length(Some(5)), zstd);
    }

    #[test]
    fn levels_and_windows() {
        let text = text(50_000);
        let check = |coding, level, window| {
            let mut encoder = Encoder::new(Params { coding, level, window }).unwrap();
            let mut out = Vec::new();
            encoder.encode(&text, Op::Finish, &mut out).unwrap();
            assert!(decode(coding, &out) == text, "{coding:?} {level} {window}");
        };
        (1..=9).for_each(|level| check(Coding::Gzip, level, 15));
        (9..=15).for_each(|window| check(Coding::Gzip, 6, window));
        (0..=11).for_each(|level| check(Coding::Br, level, 19));
        [10, 24].into_iter().for_each(|window| check(Coding::Br, 5, window));
        [1, 3, 19, 22].into_iter().for_each(|level| check(Coding::Zstd, level, 0));
    }
}
