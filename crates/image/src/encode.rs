//! From pixels to the bytes of an image.

use crate::error::Error;
use crate::format::Format;
use crate::pixels::Pixels;
use crate::wish::Wish;
use crate::{decode, png_writer};
use std::borrow::Cow;

/// Encodes a picture as `wish` has it.
pub fn encode(image: &Pixels, format: Format, wish: &Wish) -> Result<Vec<u8>, Error> {
    match format {
        Format::Jpeg => jpeg(image, wish),
        Format::Gif => gif(image, wish),
        Format::Png => Ok(png(image, wish)),
        Format::WebP => webp(image, wish),
        Format::Avif => avif(image, wish),
    }
}

fn jpeg(image: &Pixels, wish: &Wish) -> Result<Vec<u8>, Error> {
    let (width, height) = small_size(image)?;
    let mut out = Vec::new();
    let quality = wish.jpeg_quality.clamp(1, 100);
    let mut encoder = jpeg_encoder::Encoder::new(&mut out, quality);
    encoder.set_progressive(wish.interlace);
    encoder.set_optimized_huffman_tables(true);
    // As libgd: from here on colours are as sharp as brightness.
    let sampling = if quality >= 90 {
        jpeg_encoder::SamplingFactor::R_4_4_4
    } else {
        jpeg_encoder::SamplingFactor::R_4_2_0
    };
    encoder.set_sampling_factor(sampling);
    encoder.set_chroma_subsampling_method(jpeg_encoder::ChromaSubsamplingMethod::Average);
    if let Some(icc) = &image.icc {
        encoder.add_icc_profile(icc).map_err(Error::codec)?;
    }
    let data = on_white(image);
    encoder.encode(&data, width, height, jpeg_encoder::ColorType::Rgba).map_err(Error::codec)?;
    comment(&mut out, &format!("CREATOR: Brisk, quality = {quality}\n"));
    Ok(out)
}

/// Puts a comment behind the first segment of a JPEG.
fn comment(jpeg: &mut Vec<u8>, text: &str) {
    let Some(&[0xff, 0xd8, 0xff, 0xe0, high, low]) = jpeg.first_chunk::<6>() else { return };
    let at = 4 + usize::from(u16::from_be_bytes([high, low]));
    let mut segment = vec![0xff, 0xfe];
    segment.extend_from_slice(&(text.len() as u16 + 2).to_be_bytes());
    segment.extend_from_slice(text.as_bytes());
    jpeg.splice(at..at, segment);
}

/// Formats without transparency show what is behind: a white page.
fn on_white(image: &Pixels) -> Cow<'_, [u8]> {
    if image.is_opaque {
        return Cow::Borrowed(&image.data);
    }
    let over = |colour: u8, alpha: u8| {
        let alpha = u32::from(alpha);
        ((u32::from(colour) * alpha + 255 * (255 - alpha) + 127) / 255) as u8
    };
    let pixels = image.data.chunks_exact(4);
    Cow::Owned(pixels.flat_map(|p| [over(p[0], p[3]), over(p[1], p[3]), over(p[2], p[3]), 255]).collect())
}

/// The size, for formats that have 16 bits for it.
fn small_size(image: &Pixels) -> Result<(u16, u16), Error> {
    let small =
        |length: u32| u16::try_from(length).map_err(|_| Error::Codec("too long for the format".into()));
    Ok((small(image.width)?, small(image.height)?))
}

fn gif(image: &Pixels, wish: &Wish) -> Result<Vec<u8>, Error> {
    let (width, height) = small_size(image)?;
    let mut data = image.data.clone();
    sharp_edges(&mut data);
    let mut frame = gif::Frame::from_rgba_speed(width, height, &mut data, 10);
    if wish.interlace {
        frame.interlaced = true;
        let row = usize::from(width).max(1);
        let rows = decode::row_order(height.into(), true);
        frame.buffer = rows.flat_map(|y| &frame.buffer[y * row..(y + 1) * row]).copied().collect();
    }
    let mut out = Vec::new();
    let mut encoder = gif::Encoder::new(&mut out, width, height, &[]).map_err(Error::codec)?;
    encoder.write_frame(&frame).map_err(Error::codec)?;
    drop(encoder);
    Ok(out)
}

/// Half transparent pixels are transparent or not, where a format knows nothing between.
fn sharp_edges(data: &mut [u8]) {
    for pixel in data.chunks_exact_mut(4) {
        if pixel[3] < 128 {
            pixel.fill(0);
        } else {
            pixel[3] = 255;
        }
    }
}

fn png(image: &Pixels, wish: &Wish) -> Vec<u8> {
    if !image.is_indexed {
        return png_writer::colours(image, wish.interlace);
    }
    // A frame of a GIF is just that: up to 256 colours, one of which may be transparent.
    let (Ok(width), Ok(height)) = (u16::try_from(image.width), u16::try_from(image.height)) else {
        return png_writer::colours(image, wish.interlace);
    };
    let mut data = image.data.clone();
    if !image.is_opaque {
        sharp_edges(&mut data);
    }
    let frame = gif::Frame::from_rgba_speed(width, height, &mut data, 10);
    match &frame.palette {
        Some(palette) => {
            png_writer::indexed(image, palette, frame.transparent, &frame.buffer, wish.interlace)
        }
        None => png_writer::colours(image, wish.interlace),
    }
}

fn webp(image: &Pixels, wish: &Wish) -> Result<Vec<u8>, Error> {
    if image.width > brisk_webp::SIDE_MAX || image.height > brisk_webp::SIDE_MAX {
        return Err(Error::Codec("too long for the format".into()));
    }
    if image.is_indexed || wish.webp_quality >= 100 {
        return lossless_webp(image);
    }
    let picture = brisk_webp::Picture::new(image.width, image.height, &image.data).map_err(Error::codec)?;
    let picture = image.icc.iter().fold(picture, |picture, icc| picture.with_icc(icc));
    brisk_webp::encode(&picture, wish.webp_quality.clamp(1, 99)).map_err(Error::codec)
}

#[cfg(feature = "avif")]
fn avif(image: &Pixels, wish: &Wish) -> Result<Vec<u8>, Error> {
    // Slower ones gain little for pictures of this size.
    const SPEED: u8 = 8;
    let pixels: Vec<ravif::RGBA8> =
        image.data.chunks_exact(4).map(|p| ravif::RGBA8::new(p[0], p[1], p[2], p[3])).collect();
    let picture = ravif::Img::new(&pixels[..], image.width as usize, image.height as usize);
    let encoder =
        ravif::Encoder::new().with_quality(wish.avif_quality.clamp(1, 100).into()).with_speed(SPEED);
    encoder.encode_rgba(picture).map(|made| made.avif_file).map_err(Error::codec)
}

#[cfg(not(feature = "avif"))]
fn avif(_: &Pixels, _: &Wish) -> Result<Vec<u8>, Error> {
    Err(Error::Codec("this build writes no AVIF".into()))
}

/// For drawings, and for the best quality.
fn lossless_webp(image: &Pixels) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    let mut encoder = image_webp::WebPEncoder::new(&mut out);
    if let Some(icc) = &image.icc {
        encoder.set_icc_profile(icc.clone());
    }
    let (width, height) = (image.width, image.height);
    if image.is_opaque {
        let rgb: Vec<u8> = image.data.chunks_exact(4).flat_map(|p| [p[0], p[1], p[2]]).collect();
        encoder.encode(&rgb, width, height, image_webp::ColorType::Rgb8).map_err(Error::codec)?;
    } else {
        encoder.encode(&image.data, width, height, image_webp::ColorType::Rgba8).map_err(Error::codec)?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Shape, Turn};

    fn wish(interlace: bool) -> Wish {
        Wish {
            shape: Shape::Keep,
            turn: Turn::None,
            format: Format::Gif,
            jpeg_quality: 80,
            webp_quality: 80,
            avif_quality: 60,
            sharpen: 0,
            transparency: true,
            interlace,
            pixels_max: 1_000_000,
        }
    }

    #[test]
    fn pictures_with_palettes_come_back() {
        for (width, height) in [(1, 1), (1, 9), (3, 2), (20, 13), (16, 24), (16, 17), (20, 17), (64, 64)] {
            for colours in [1, 2, 3, 200] {
                for transparent in [false, true] {
                    let pixel = |n: u32| match n % colours {
                        0 if transparent => [0; 4],
                        n => [n as u8, 100, (n * 3) as u8, 255],
                    };
                    let data = (0..width * height).flat_map(pixel).collect();
                    let mut image = Pixels::new(width, height, data);
                    image.is_indexed = true;
                    for interlace in [false, true] {
                        for format in [Format::Gif, Format::Png] {
                            let bytes = encode(&image, format, &wish(interlace)).unwrap();
                            let back = decode::decode(&bytes, format, 10_000).unwrap_or_else(|e| {
                                panic!("{width}x{height} {colours} {transparent} {interlace} {format:?}: {e}")
                            });
                            assert!(
                                back.data == image.data && back.is_indexed,
                                "{width}x{height} {colours} {format:?}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn avif_is_written_by_builds_that_can() {
        let data = (0..40 * 30u32).flat_map(|n| [n as u8, (n / 40 * 8) as u8, 100, 255]).collect();
        let made = encode(&Pixels::new(40, 30, data), Format::Avif, &wish(false));
        assert_eq!(made.is_ok(), crate::CAN_AVIF, "{made:?}");
        assert!(
            made.is_ok_and(|bytes| bytes[4..12] == *b"ftypavif" && bytes.len() < 2000) == crate::CAN_AVIF
        );
    }
}
