//! Tests with the decoder of `image-webp`, which shares no code with this encoder.

use super::*;
use image_webp::WebPDecoder;
use std::io::Cursor;

/// Pixels with planes, edges, waves and noise, and with transparency where asked for.
fn pixels(width: u32, height: u32, transparent: bool) -> Vec<u8> {
    let pixel = |n: u32| {
        let (x, y) = ((n % width) as f32, (n / width) as f32);
        let wave = ((x / 17.0).sin() * 50.0 + (y / 11.0).cos() * 50.0 + 128.0) as u8;
        let edge = if (x - y).abs() < 20.0 || x > 60.0 { 200 } else { wave };
        let noise = (n.wrapping_mul(2_654_435_761) >> 29) as u8;
        let alpha = if transparent && y > 20.0 { (x * 3.0) as u8 } else { 255 };
        [wave, edge, wave / 2 + noise, alpha]
    };
    (0..width * height).flat_map(pixel).collect()
}

/// The picture of a file as RGBA.
fn decode(file: &[u8], width: u32, height: u32) -> Vec<u8> {
    let mut decoder = WebPDecoder::new(Cursor::new(file)).expect("a head that can be read");
    assert_eq!(decoder.dimensions(), (width, height));
    let mut data = vec![0; decoder.output_buffer_size().expect("a size that fits into memory")];
    decoder.read_image(&mut data).expect("a picture that can be read");
    if decoder.has_alpha() {
        return data;
    }
    data.chunks_exact(3).flat_map(|p| [p[0], p[1], p[2], 255]).collect()
}

/// The mean squared error of colours.
fn error(a: &[u8], b: &[u8]) -> f64 {
    let pairs = a.chunks_exact(4).zip(b.chunks_exact(4));
    let sum: u64 = pairs.flat_map(|(a, b)| (0..3).map(move |n| u64::from(a[n].abs_diff(b[n])).pow(2))).sum();
    sum as f64 / (a.len() as f64 * 0.75)
}

fn alphas(rgba: &[u8]) -> Vec<u8> {
    rgba.iter().skip(3).step_by(4).copied().collect()
}

#[test]
fn a_decoder_gets_the_picture() {
    for (width, height) in [(1, 1), (16, 16), (17, 31), (100, 75), (160, 5)] {
        for transparent in [false, true] {
            let source = pixels(width, height, transparent);
            let mut last = (0, f64::MAX);
            for quality in [0, 5, 40, 80, 95, 100] {
                let file = encode(&Picture::new(width, height, &source).unwrap(), quality).unwrap();
                let back = decode(&file, width, height);
                assert!(alphas(&back) == alphas(&source), "{width}x{height}");
                let error = error(&back, &source);
                assert!(file.len() >= last.0 || width * height < 1000, "{width}x{height} {quality}");
                assert!(error < last.1 * 1.5 + 3.0 && (quality < 95 || error < 60.0), "{quality}: {error}");
                last = (file.len(), error);
            }
        }
    }
}

#[test]
fn a_profile_comes_back() {
    let source = pixels(20, 10, false);
    for profile in [&b"odd"[..], b"even"] {
        let picture = Picture::new(20, 10, &source).unwrap().with_icc(profile);
        let file = encode(&picture, 50).unwrap();
        let mut decoder = WebPDecoder::new(Cursor::new(&file[..])).unwrap();
        assert_eq!(decoder.icc_profile().unwrap().as_deref(), Some(profile));
        decode(&file, 20, 10);
    }
}

#[test]
fn what_a_file_cannot_hold_is_refused() {
    let size = |width, height| Picture::new(width, height, &[]).map(drop).unwrap_err();
    assert_eq!(size(0, 1), Error::Size { width: 0, height: 1 });
    assert_eq!(size(1, SIDE_MAX + 1), Error::Size { width: 1, height: SIDE_MAX + 1 });
    assert_eq!(size(1, 1), Error::Pixels);
    let picture = Picture::new(1, 1, &[1, 2, 3, 4]).unwrap();
    assert_eq!(encode(&picture, 101), Err(Error::Quality(101)));
}

/// Details that need more modes than the head of a frame can say are given up, and then the picture is.
#[test]
fn a_first_partition_never_grows_beyond_its_length_field() {
    let mut state = 1u32;
    let mut random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    let noise: Vec<u8> = (0..128 * 128 * 4).map(|n| if n % 4 == 3 { 255 } else { random() }).collect();
    let picture = Picture::new(128, 128, &noise).unwrap();
    let partition = |frame: &[u8]| {
        let tag = u32::from_le_bytes([frame[0], frame[1], frame[2], 0]);
        (tag >> 5) as usize
    };
    let any = encoder::frame(&picture, 90, limits::MODES_BYTES_MAX).unwrap();
    let whole = encoder::frame(&picture, 90, partition(&any) - 1).unwrap();
    assert!(partition(&whole) < partition(&any));
    assert_eq!(encoder::frame(&picture, 90, 10), Err(encoder::TooManyModes));
    let mut body = b"WEBP".to_vec();
    chunk(&mut body, *b"VP8 ", &whole).unwrap();
    let mut file = Vec::new();
    chunk(&mut file, *b"RIFF", &body).unwrap();
    decode(&file, 128, 128);
}
