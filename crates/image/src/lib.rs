//! Images as strangers send them: what they are, and smaller ones made of them. No I/O.
//!
//! All decoders are Rust, and are given a picture only when its header names a size that was allowed. What they cannot
//! read is an [`Error`]; a caller that must not fall with them catches panics too.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod decode;
mod encode;
mod error;
mod exif;
mod format;
mod limits;
mod pixels;
mod png_writer;
mod probe;
mod resize;
mod wish;

pub use error::Error;
pub use format::{CAN_AVIF, Format};
pub use pixels::Pixels;
pub use probe::{Probe, probe};
pub use wish::{Shape, Turn, Wish};

/// A result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Made {
    /// The image is what it should be already.
    AsIs,
    /// Another image.
    Image {
        /// What it is in.
        format: Format,
        /// The whole file.
        bytes: Vec<u8>,
    },
}

/// Makes `wish` of an image in `format`.
pub fn transform(bytes: &[u8], format: Format, wish: &Wish) -> Result<Made, Error> {
    let probe = probe(format, bytes).ok_or(Error::NoSize)?;
    let stays = wish.turn == Turn::None && probe.fits(wish.shape);
    let converts = wish.format != format && !probe.is_animated;
    if stays && !probe.is_padded && !converts {
        return Ok(Made::AsIs);
    }
    if u64::from(probe.width) * u64::from(probe.height) > wish.pixels_max {
        return Err(Error::TooLarge { width: probe.width, height: probe.height });
    }
    let mut image = decode::decode(bytes, format, wish.pixels_max)?;
    if !wish.transparency && image.is_indexed {
        image.make_opaque();
    }
    let mut image = reshape(image, wish);
    if wish.sharpen > 0 && !image.is_indexed {
        image.sharpen(wish.sharpen);
    }
    let out = if stays && !converts { format } else { wish.format };
    let made = encode::encode(&image, out, wish)?;
    // Another coding of the same picture is worth while only if it is smaller.
    if stays && converts && made.len() >= bytes.len() {
        return Ok(Made::AsIs);
    }
    Ok(Made::Image { format: out, bytes: made })
}

/// Size and direction, in nginx's order and with its rounding: scaled, turned, cut.
fn reshape(mut image: Pixels, wish: &Wish) -> Pixels {
    let (max_width, max_height) = match wish.shape {
        Shape::Keep => (u32::MAX, u32::MAX),
        Shape::Fit { width, height } | Shape::Fill { width, height } => (width, height),
    };
    let (mut width, mut height) = (image.width, image.height);
    match wish.shape {
        Shape::Keep => {}
        Shape::Fit { .. } => {
            if width > max_width {
                (width, height) = (max_width, in_proportion(height, max_width, width));
            }
            if height > max_height {
                (width, height) = (in_proportion(width, max_height, height), max_height);
            }
        }
        Shape::Fill { .. } => {
            let is_narrow =
                u64::from(width) * u64::from(max_height) < u64::from(max_width) * u64::from(height);
            if is_narrow && width > max_width {
                (width, height) = (max_width, in_proportion(height, max_width, width));
            } else if !is_narrow && height > max_height {
                (width, height) = (in_proportion(width, max_height, height), max_height);
            }
        }
    }
    if (width, height) != (image.width, image.height) {
        image = resize::resize(&image, width, height);
    }
    image = image.turned(wish.turn);
    if matches!(wish.shape, Shape::Fill { .. }) && (image.width > max_width || image.height > max_height) {
        let (width, height) = (image.width.min(max_width), image.height.min(max_height));
        image = image.cropped(width, height);
    }
    image
}

/// `length * part / whole`, at least 1.
fn in_proportion(length: u32, part: u32, whole: u32) -> u32 {
    ((u64::from(length) * u64::from(part) / u64::from(whole)) as u32).max(1)
}

/// Any bytes: probing and making anew end and do not panic, what is made can be read, and is as large as was wished.
pub fn fuzz_image(data: &[u8]) {
    const SIDE: u32 = 20;
    let Some(format) = Format::of(data) else { return };
    let probe = probe(format, data);
    for output in [format, Format::WebP] {
        let wish = Wish {
            shape: Shape::Fit { width: SIDE, height: SIDE },
            turn: Turn::Left,
            format: output,
            jpeg_quality: 50,
            webp_quality: 50,
            avif_quality: 50,
            sharpen: 10,
            transparency: true,
            interlace: true,
            pixels_max: 10_000,
        };
        match transform(data, format, &wish) {
            Ok(Made::Image { format, bytes }) => {
                let made = crate::probe(format, &bytes).expect("what was made has a size");
                assert!(made.width <= SIDE && made.height <= SIDE);
                decode::decode(&bytes, format, 10_000).expect("what was made can be read");
            }
            Ok(Made::AsIs) => panic!("it was to be turned"),
            Err(Error::TooLarge { width, height }) => assert!(u64::from(width) * u64::from(height) > 10_000),
            Err(_) => {}
        }
    }
    assert!(probe.is_none_or(|probe| probe.width > 0 && probe.height > 0));
}
