//! PNG files (W3C PNG 3rd edition), also interlaced ones, which the usual encoder does not write.

use crate::pixels::Pixels;
use flate2::{Compress, Compression, Crc, FlushCompress, Status};

/// Adam7: where each pass begins, and how far its pixels are apart (§8.1).
const PASSES: [(usize, usize, usize, usize); 7] =
    [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)];

/// A picture in colours, with transparency if it has any.
pub fn colours(image: &Pixels, interlace: bool) -> Vec<u8> {
    let (kind, bytes) = if image.is_opaque { (2, 3) } else { (6, 4) };
    let pixels: Vec<u8> = if image.is_opaque {
        image.data.chunks_exact(4).flat_map(|p| [p[0], p[1], p[2]]).collect()
    } else {
        image.data.clone()
    };
    let mut out = begin(image, kind, interlace);
    if let Some(icc) = &image.icc {
        let mut profile = b"ICC\0\0".to_vec();
        profile.extend(deflate(icc));
        chunk(&mut out, b"iCCP", &profile);
    }
    let shape = Shape { width: image.width as usize, bytes, filters: true };
    chunk(&mut out, b"IDAT", &deflate(&scanlines(&pixels, shape, interlace)));
    chunk(&mut out, b"IEND", b"");
    out
}

/// A picture of which each byte is a colour of `palette` (RGB).
pub fn indexed(
    image: &Pixels,
    palette: &[u8],
    transparent: Option<u8>,
    indices: &[u8],
    interlace: bool,
) -> Vec<u8> {
    let mut out = begin(image, 3, interlace);
    chunk(&mut out, b"PLTE", palette);
    if let Some(index) = transparent {
        let mut alphas = vec![255; usize::from(index) + 1];
        alphas[usize::from(index)] = 0;
        chunk(&mut out, b"tRNS", &alphas);
    }
    let shape = Shape { width: image.width as usize, bytes: 1, filters: false };
    chunk(&mut out, b"IDAT", &deflate(&scanlines(indices, shape, interlace)));
    chunk(&mut out, b"IEND", b"");
    out
}

fn begin(image: &Pixels, kind: u8, interlace: bool) -> Vec<u8> {
    let mut out = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut header = Vec::with_capacity(13);
    header.extend_from_slice(&image.width.to_be_bytes());
    header.extend_from_slice(&image.height.to_be_bytes());
    header.extend_from_slice(&[8, kind, 0, 0, u8::from(interlace)]);
    chunk(&mut out, b"IHDR", &header);
    out
}

fn chunk(out: &mut Vec<u8>, name: &[u8; 4], data: &[u8]) {
    out.extend_from_slice(&(data.len() as u32).to_be_bytes());
    let start = out.len();
    out.extend_from_slice(name);
    out.extend_from_slice(data);
    let mut crc = Crc::new();
    crc.update(&out[start..]);
    out.extend_from_slice(&crc.sum().to_be_bytes());
}

/// A zlib stream.
fn deflate(data: &[u8]) -> Vec<u8> {
    let mut compress = Compress::new(Compression::new(6), true);
    let mut out = Vec::with_capacity(data.len() / 2 + 64);
    loop {
        let rest = &data[compress.total_in() as usize..];
        let status = compress.compress_vec(rest, &mut out, FlushCompress::Finish);
        match status {
            Ok(Status::StreamEnd) | Err(_) => return out,
            Ok(_) => out.reserve(out.capacity().max(64)),
        }
    }
}

#[derive(Clone, Copy)]
struct Shape {
    /// Pixels of a row.
    width: usize,
    /// Of a pixel.
    bytes: usize,
    /// Rows are filtered: that does palettes no good.
    filters: bool,
}

/// The rows with their filters, pass by pass.
fn scanlines(pixels: &[u8], shape: Shape, interlace: bool) -> Vec<u8> {
    let row_bytes = shape.width * shape.bytes;
    let mut out = Vec::with_capacity(pixels.len() + pixels.len() / row_bytes.max(1) + 64);
    if !interlace {
        filter(pixels, row_bytes, shape, &mut out);
        return out;
    }
    for (left, top, across, down) in PASSES {
        let columns = shape.width.saturating_sub(left).div_ceil(across);
        if columns == 0 {
            continue;
        }
        let rows = pixels.chunks_exact(row_bytes).skip(top).step_by(down);
        let pass: Vec<u8> = rows
            .flat_map(|row| row.chunks_exact(shape.bytes).skip(left).step_by(across).flatten().copied())
            .collect();
        filter(&pass, columns * shape.bytes, shape, &mut out);
    }
    out
}

/// Each row with the filter that makes its bytes smallest (§12.7).
fn filter(pixels: &[u8], row_bytes: usize, shape: Shape, out: &mut Vec<u8>) {
    let zero = vec![0; row_bytes];
    let mut before: &[u8] = &zero;
    let mut trial = vec![0; row_bytes];
    let mut best = vec![0; row_bytes];
    for row in pixels.chunks_exact(row_bytes) {
        let mut best_kind = 0;
        best.copy_from_slice(row);
        if shape.filters {
            let mut least = u64::MAX;
            for kind in 0..5u8 {
                apply(kind, row, before, shape.bytes, &mut trial);
                let sum = trial.iter().map(|b| u64::from(b.cast_signed().unsigned_abs())).sum();
                if sum < least {
                    least = sum;
                    best_kind = kind;
                    std::mem::swap(&mut best, &mut trial);
                }
            }
        }
        out.push(best_kind);
        out.extend_from_slice(&best);
        before = row;
    }
}

/// §9.2.
fn apply(kind: u8, row: &[u8], up: &[u8], bytes: usize, out: &mut [u8]) {
    for index in 0..row.len() {
        let left = if index >= bytes { row[index - bytes] } else { 0 };
        let corner = if index >= bytes { up[index - bytes] } else { 0 };
        let guess = match kind {
            0 => 0,
            1 => left,
            2 => up[index],
            3 => u16::midpoint(left.into(), up[index].into()) as u8,
            _ => paeth(left, up[index], corner),
        };
        out[index] = row[index].wrapping_sub(guess);
    }
}

fn paeth(left: u8, up: u8, corner: u8) -> u8 {
    let (a, b, c) = (i16::from(left), i16::from(up), i16::from(corner));
    let guess = a + b - c;
    let (to_left, to_up, to_corner) = ((guess - a).abs(), (guess - b).abs(), (guess - c).abs());
    if to_left <= to_up && to_left <= to_corner {
        left
    } else if to_up <= to_corner {
        up
    } else {
        corner
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(width: u32, height: u32, alpha: u8) -> Pixels {
        let pixel = |n: u32| {
            let n = n.wrapping_mul(2_654_435_761);
            [(n >> 8) as u8, (n >> 16) as u8, (n % 7) as u8, if n.is_multiple_of(3) { alpha } else { 255 }]
        };
        Pixels::new(width, height, (0..width * height).flat_map(pixel).collect())
    }

    fn decoded(png: &[u8]) -> Pixels {
        crate::decode::decode(png, crate::Format::Png, 1_000_000).unwrap()
    }

    #[test]
    fn what_is_written_can_be_read() {
        for (width, height) in [(1, 1), (2, 3), (7, 9), (64, 33), (100, 1)] {
            for interlace in [false, true] {
                for alpha in [0, 255] {
                    let image = image(width, height, alpha);
                    let back = decoded(&colours(&image, interlace));
                    assert!(back.data == image.data, "{width}x{height} {interlace} {alpha}");
                }
            }
        }
    }

    #[test]
    fn palettes_can_be_read() {
        let image = image(5, 4, 255);
        let indices: Vec<u8> = (0..20).map(|n| n % 3).collect();
        for interlace in [false, true] {
            let png = indexed(&image, &[1, 2, 3, 4, 5, 6, 7, 8, 9], Some(1), &indices, interlace);
            let back = decoded(&png);
            assert!(back.is_indexed && !back.is_opaque);
            assert_eq!(back.data[..12], [1, 2, 3, 255, 4, 5, 6, 0, 7, 8, 9, 255]);
        }
    }
}
