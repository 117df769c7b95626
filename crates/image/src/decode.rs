//! From the bytes of an image to its pixels: the first picture, if there are several.

use crate::error::Error;
use crate::exif;
use crate::format::Format;
use crate::limits::{ICC_BYTES_MAX, JPEG_SCANS_MAX};
use crate::pixels::Pixels;
use std::io::Cursor;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

/// Decodes an image of at most `pixels_max` pixels.
pub fn decode(bytes: &[u8], format: Format, pixels_max: u64) -> Result<Pixels, Error> {
    // What a decoder may take besides the picture itself is in proportion to it.
    let memory = usize::try_from(pixels_max.saturating_mul(8)).unwrap_or(usize::MAX).saturating_add(1 << 20);
    let image = match format {
        Format::Jpeg => jpeg(bytes, pixels_max)?,
        Format::Gif => gif(bytes, memory)?,
        Format::Png => png(bytes, memory)?,
        Format::WebP => webp(bytes, memory)?,
        Format::Avif => return Err(Error::Codec("AVIF cannot be read".into())),
    };
    check(image.width, image.height, pixels_max)?;
    Ok(image)
}

fn check(width: u32, height: u32, pixels_max: u64) -> Result<(), Error> {
    if width == 0 || height == 0 {
        return Err(Error::NoSize);
    }
    if u64::from(width) * u64::from(height) > pixels_max {
        return Err(Error::TooLarge { width, height });
    }
    Ok(())
}

fn jpeg(bytes: &[u8], pixels_max: u64) -> Result<Pixels, Error> {
    let options = DecoderOptions::default()
        .set_max_width(65_535)
        .set_max_height(65_535)
        .jpeg_set_max_scans(JPEG_SCANS_MAX)
        .jpeg_set_out_colorspace(ColorSpace::RGBA);
    let mut decoder = zune_jpeg::JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(Error::codec)?;
    let info = decoder.info().ok_or(Error::NoSize)?;
    let (width, height) = (u32::from(info.width), u32::from(info.height));
    check(width, height, pixels_max)?;
    let data = decoder.decode().map_err(Error::codec)?;
    if data.len() as u64 != u64::from(width) * u64::from(height) * 4 {
        return Err(Error::Codec("the colours of the JPEG are not known".into()));
    }
    let mut image = Pixels::new(width, height, data);
    image.make_opaque();
    image.icc = decoder.icc_profile().filter(|profile| profile.len() <= ICC_BYTES_MAX);
    let orientation = decoder.exif().and_then(|data| exif::orientation(data));
    Ok(match orientation {
        Some(orientation) => orientation.upright(image),
        None => image,
    })
}

fn gif(bytes: &[u8], memory: usize) -> Result<Pixels, Error> {
    let mut options = gif::DecodeOptions::new();
    options.set_color_output(gif::ColorOutput::RGBA);
    let limit = std::num::NonZeroU64::new(memory as u64).ok_or(Error::NoSize)?;
    options.set_memory_limit(gif::MemoryLimit::Bytes(limit));
    let mut decoder = options.read_info(Cursor::new(bytes)).map_err(Error::codec)?;
    let (width, height) = (usize::from(decoder.width()), usize::from(decoder.height()));
    if (width * height).saturating_mul(4) > memory {
        return Err(Error::TooLarge { width: width as u32, height: height as u32 });
    }
    let frame = decoder.next_frame_info().map_err(Error::codec)?;
    let frame = frame.ok_or_else(|| Error::Codec("the GIF has no picture".into()))?;
    let (left, top) = (usize::from(frame.left), usize::from(frame.top));
    let (frame_width, frame_height) = (usize::from(frame.width), usize::from(frame.height));
    let interlaced = frame.interlaced;
    let size = decoder.buffer_size();
    if size > memory {
        return Err(Error::TooLarge { width: frame_width as u32, height: frame_height as u32 });
    }
    // All at once: row by row the decoder loses the end of some interlaced pictures.
    let mut rows = vec![0; size];
    if size > 0 && !decoder.fill_buffer(&mut rows).map_err(Error::codec)? {
        return Err(Error::Codec("the GIF ends early".into()));
    }
    // The picture need not fill the screen.
    let mut data = vec![0; width * height * 4];
    let columns = frame_width.min(width.saturating_sub(left));
    for (row, y) in rows.chunks_exact((frame_width * 4).max(4)).zip(row_order(frame_height, interlaced)) {
        if top + y < height && columns > 0 {
            let at = ((top + y) * width + left) * 4;
            data[at..at + columns * 4].copy_from_slice(&row[..columns * 4]);
        }
    }
    let mut image = Pixels::new(width as u32, height as u32, data);
    image.is_indexed = true;
    Ok(image)
}

/// The order in which a GIF has its rows (GIF89a, appendix E).
pub fn row_order(height: usize, interlaced: bool) -> impl Iterator<Item = usize> {
    let passes: &[(usize, usize)] = if interlaced { &[(0, 8), (4, 8), (2, 4), (1, 2)] } else { &[(0, 1)] };
    passes.iter().flat_map(move |(start, step)| (*start..height).step_by(*step))
}

fn png(bytes: &[u8], memory: usize) -> Result<Pixels, Error> {
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), png::Limits { bytes: memory });
    decoder.set_transformations(png::Transformations::EXPAND | png::Transformations::STRIP_16);
    decoder.set_ignore_text_chunk(true);
    let is_indexed = decoder.read_header_info().map_err(Error::codec)?.color_type == png::ColorType::Indexed;
    let mut reader = decoder.read_info().map_err(Error::codec)?;
    let size = reader.output_buffer_size().filter(|size| *size <= memory);
    let mut data = vec![0; size.ok_or(Error::NoSize)?];
    let info = reader.next_frame(&mut data).map_err(Error::codec)?;
    data.truncate(info.buffer_size());
    let data = rgba(data, info.color_type)?;
    if data.len() as u64 != u64::from(info.width) * u64::from(info.height) * 4 {
        return Err(Error::Codec("the PNG has another size than it says".into()));
    }
    let mut image = Pixels::new(info.width, info.height, data);
    image.is_indexed = is_indexed;
    let icc = reader.info().icc_profile.as_deref().map(<[u8]>::to_vec);
    image.icc = icc.filter(|profile| profile.len() <= ICC_BYTES_MAX);
    Ok(image)
}

fn rgba(data: Vec<u8>, colours: png::ColorType) -> Result<Vec<u8>, Error> {
    Ok(match colours {
        png::ColorType::Rgba => data,
        png::ColorType::Rgb => data.chunks_exact(3).flat_map(|p| [p[0], p[1], p[2], 255]).collect(),
        png::ColorType::Grayscale => data.iter().flat_map(|g| [*g, *g, *g, 255]).collect(),
        png::ColorType::GrayscaleAlpha => {
            data.chunks_exact(2).flat_map(|p| [p[0], p[0], p[0], p[1]]).collect()
        }
        png::ColorType::Indexed => return Err(Error::Codec("the PNG's palette was not expanded".into())),
    })
}

fn webp(bytes: &[u8], memory: usize) -> Result<Pixels, Error> {
    let mut decoder = image_webp::WebPDecoder::new(Cursor::new(bytes)).map_err(Error::codec)?;
    decoder.set_memory_limit(memory);
    let (width, height) = decoder.dimensions();
    let size = decoder.output_buffer_size().filter(|size| *size <= memory);
    let mut data = vec![0; size.ok_or(Error::TooLarge { width, height })?];
    decoder.read_image(&mut data).map_err(Error::codec)?;
    if !decoder.has_alpha() {
        data = data.chunks_exact(3).flat_map(|p| [p[0], p[1], p[2], 255]).collect();
    }
    let mut image = Pixels::new(width, height, data);
    let icc = decoder.icc_profile().ok().flatten();
    image.icc = icc.filter(|profile| profile.len() <= ICC_BYTES_MAX);
    Ok(image)
}
