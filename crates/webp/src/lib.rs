//! An encoder of lossy WebP in Rust: one key frame of VP8 (RFC 6386) in a WebP container (RFC 9649), with a plane of
//! transparency and a colour profile beside it where the picture has them.
//!
//! Pixels go in, bytes come out: no I/O, no threads, no `unsafe`, and nothing here parses what a stranger sent.
//!
//! ```
//! let rgba = vec![200u8; 64 * 48 * 4];
//! let picture = brisk_webp::Picture::new(64, 48, &rgba).unwrap();
//! let file = brisk_webp::encode(&picture, 80).unwrap();
//! assert_eq!(&file[8..16], b"WEBPVP8X");
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod bool_writer;
mod encoder;
mod limits;
mod predict;
mod tables;
mod tokens;
mod transform;

pub use crate::limits::{QUALITY_MAX, SIDE_MAX};
use std::fmt;

/// A picture to encode, borrowed from the caller.
#[derive(Clone, Copy, Debug)]
pub struct Picture<'a> {
    width: u32,
    height: u32,
    rgba: &'a [u8],
    icc: Option<&'a [u8]>,
}

impl<'a> Picture<'a> {
    /// A picture of sRGB colours: red, green, blue and opacity of each pixel, 8 bits each, row by row from the top.
    ///
    /// # Errors
    /// [`Error::Size`] if a side is 0 or more than [`SIDE_MAX`]; [`Error::Pixels`] if there are not four bytes for
    /// each pixel.
    pub fn new(width: u32, height: u32, rgba: &'a [u8]) -> Result<Picture<'a>, Error> {
        let fits = |side: u32| (1..=SIDE_MAX).contains(&side);
        if !fits(width) || !fits(height) {
            return Err(Error::Size { width, height });
        }
        if rgba.len() as u64 != u64::from(width) * u64::from(height) * 4 {
            return Err(Error::Pixels);
        }
        Ok(Picture { width, height, rgba, icc: None })
    }

    /// The same pixels, whose colours are those of an ICC profile. The profile is copied as it is.
    #[must_use]
    pub fn with_icc(self, profile: &'a [u8]) -> Picture<'a> {
        Picture { icc: Some(profile), ..self }
    }

    /// No pixel lets anything through.
    fn is_opaque(&self) -> bool {
        self.rgba.iter().skip(3).step_by(4).all(|alpha| *alpha == 255)
    }
}

/// Why a picture was not encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A side is 0, or longer than [`SIDE_MAX`].
    Size {
        /// In pixels.
        width: u32,
        /// In pixels.
        height: u32,
    },
    /// The pixels are not four bytes for each place of the picture.
    Pixels,
    /// The quality is above [`QUALITY_MAX`].
    Quality(u8),
    /// The picture has so many details that a VP8 frame cannot say where each of them is: its first partition is
    /// limited to 512 KiB, which is about 600,000 macroblocks of 16×16 pixels.
    TooDetailed,
    /// A part of the file, or the file, has 4 GiB or more.
    TooLong,
    /// The plane of transparency could not be compressed; the message is the lossless encoder's.
    Transparency(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Size { width, height } => {
                write!(f, "a WebP image has 1 to {SIDE_MAX} pixels a side, not {width}x{height}")
            }
            Error::Pixels => f.write_str("the pixels are not as many as the size says"),
            Error::Quality(quality) => write!(f, "the quality is at most {QUALITY_MAX}, not {quality}"),
            Error::TooDetailed => f.write_str("the picture is too large and detailed for a VP8 frame"),
            Error::TooLong => f.write_str("the file would be longer than a WebP container can be"),
            Error::Transparency(message) => write!(f, "the transparency could not be compressed: {message}"),
        }
    }
}

impl std::error::Error for Error {}

/// Encodes a picture as a WebP file.
///
/// `quality` is from 0 to [`QUALITY_MAX`], on libwebp's scale: the same number gives about the same picture. Colours
/// are sampled at half the width and height, as lossy WebP always has them. Opacity is kept exactly. A picture without
/// transparency and profile becomes a simple file (`VP8 ` alone), any other an extended one (`VP8X`).
///
/// It needs about 4 bytes per pixel, and up to 50 more for very detailed ones at a high quality, until it returns.
///
/// # Errors
/// [`Error::Quality`], [`Error::TooDetailed`], [`Error::TooLong`] and [`Error::Transparency`].
pub fn encode(picture: &Picture, quality: u8) -> Result<Vec<u8>, Error> {
    if quality > QUALITY_MAX {
        return Err(Error::Quality(quality));
    }
    let frame = encoder::frame(picture, quality, limits::MODES_BYTES_MAX)
        .map_err(|encoder::TooManyModes| Error::TooDetailed)?;
    let is_opaque = picture.is_opaque();
    let mut body = b"WEBP".to_vec();
    if !is_opaque || picture.icc.is_some() {
        // RFC 9649 §2.7.1: the flags of what follows, and the size less one in 24 bits each.
        let flags = u8::from(!is_opaque) << 4 | u8::from(picture.icc.is_some()) << 5;
        let mut header = vec![flags, 0, 0, 0];
        header.extend_from_slice(&(picture.width - 1).to_le_bytes()[..3]);
        header.extend_from_slice(&(picture.height - 1).to_le_bytes()[..3]);
        chunk(&mut body, *b"VP8X", &header)?;
    }
    if let Some(icc) = picture.icc {
        chunk(&mut body, *b"ICCP", icc)?;
    }
    if !is_opaque {
        chunk(&mut body, *b"ALPH", &transparency(picture)?)?;
    }
    chunk(&mut body, *b"VP8 ", &frame)?;
    let mut file = Vec::with_capacity(body.len() + 8);
    chunk(&mut file, *b"RIFF", &body)?;
    Ok(file)
}

/// Appends a chunk (RFC 9649 §2.3): name, length, data, and a byte more where the length is odd.
fn chunk(out: &mut Vec<u8>, name: [u8; 4], data: &[u8]) -> Result<(), Error> {
    let length = u32::try_from(data.len()).map_err(|_| Error::TooLong)?;
    out.extend_from_slice(&name);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(data);
    if data.len() % 2 == 1 {
        out.push(0);
    }
    Ok(())
}

/// The data of an ALPH chunk (RFC 9649 §2.7.1.2): the opacity as a lossless grey picture without its head, of which a
/// decoder takes the green.
fn transparency(picture: &Picture) -> Result<Vec<u8>, Error> {
    let grey: Vec<u8> = picture.rgba.chunks_exact(4).flat_map(|pixel| [pixel[3]; 3]).collect();
    let mut whole = Vec::new();
    image_webp::WebPEncoder::new(&mut whole)
        .encode(&grey, picture.width, picture.height, image_webp::ColorType::Rgb8)
        .map_err(|error| Error::Transparency(error.to_string()))?;
    // Before the picture: RIFF, WEBP and VP8L with their lengths in 20 bytes, a mark and the sizes in 5.
    let stream = whole.get(25..).ok_or_else(|| Error::Transparency("it has no picture".into()))?;
    // The method: compressed, not filtered.
    Ok([&[1], stream].concat())
}

#[cfg(test)]
mod tests;
