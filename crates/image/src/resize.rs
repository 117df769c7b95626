//! Making pictures smaller (or larger): what is more than twice too large is first averaged over whole pixels, the rest
//! is a cubic convolution (Catmull-Rom), first across, then down.

use crate::pixels::Pixels;

/// Weights are in 1/16384.
const ONE: i32 = 1 << 14;

/// The picture with another size.
pub fn resize(image: &Pixels, width: u32, height: u32) -> Pixels {
    let shrunk = shrink(image, width, height);
    let small = shrunk.as_ref();
    let data = match small {
        Some(small) => &small.data,
        None => &image.data,
    };
    let (from_width, from_height) = small.map_or((image.width, image.height), |s| (s.width, s.height));
    // What was averaged may end with a narrower column or row.
    let scale = |old: u32, reduced: u32, new: u32| {
        let factor = old.div_ceil(reduced);
        f64::from(old) / f64::from(factor) / f64::from(new)
    };
    let across = weights(from_width, width, scale(image.width, from_width, width));
    let down = weights(from_height, height, scale(image.height, from_height, height));
    let premultiplied;
    let data = if image.is_opaque {
        data
    } else {
        premultiplied = premultiply(data);
        &premultiplied
    };
    let rows = convolve_across(data, from_width as usize, &across);
    let mut out = convolve_down(&rows, width as usize, &down);
    if !image.is_opaque {
        unpremultiply(&mut out);
    }
    image.like(width, height, out)
}

/// Averages whole pixels as long as twice the size is left.
fn shrink(image: &Pixels, width: u32, height: u32) -> Option<Pixels> {
    let factor = |old: u32, new: u32| (old / new / 2).max(1);
    let (fx, fy) = (factor(image.width, width), factor(image.height, height));
    if fx == 1 && fy == 1 {
        return None;
    }
    let (new_width, new_height) = (image.width.div_ceil(fx), image.height.div_ceil(fy));
    let (fx, fy, row_bytes) = (fx as usize, fy as usize, image.width as usize * 4);
    let mut data = Vec::with_capacity(new_width as usize * new_height as usize * 4);
    let mut sums = vec![[0u64; 4]; new_width as usize];
    for rows in image.data.chunks(row_bytes * fy) {
        sums.fill([0; 4]);
        for row in rows.chunks(row_bytes) {
            for (sum, pixels) in sums.iter_mut().zip(row.chunks(fx * 4)) {
                for pixel in pixels.chunks_exact(4) {
                    // Colours count by how much of them is seen.
                    let alpha = u64::from(pixel[3]);
                    sum[0] += u64::from(pixel[0]) * alpha;
                    sum[1] += u64::from(pixel[1]) * alpha;
                    sum[2] += u64::from(pixel[2]) * alpha;
                    sum[3] += alpha;
                }
            }
        }
        let row_count = (rows.len() / row_bytes) as u64;
        for (index, sum) in sums.iter().enumerate() {
            let columns = (image.width as usize - index * fx).min(fx) as u64;
            let colour = |channel: usize| ((sum[channel] + sum[3] / 2) / sum[3].max(1)) as u8;
            let alpha = (sum[3] + row_count * columns / 2) / (row_count * columns);
            data.extend_from_slice(&[colour(0), colour(1), colour(2), alpha as u8]);
        }
    }
    Some(image.like(new_width, new_height, data))
}

/// Which pixels make up a new one, and how much each counts.
struct Taps {
    start: usize,
    weights: Vec<i32>,
}

fn cubic(x: f64) -> f64 {
    let x = x.abs();
    if x < 1.0 {
        (1.5 * x - 2.5) * x * x + 1.0
    } else if x < 2.0 {
        ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0
    } else {
        0.0
    }
}

/// For each of `new` pixels its taps among `old` ones; `scale` is old pixels per new one.
fn weights(old: u32, new: u32, scale: f64) -> Vec<Taps> {
    let stretch = scale.max(1.0);
    let support = 2.0 * stretch;
    (0..new)
        .map(|index| {
            let centre = (f64::from(index) + 0.5) * scale;
            let start = ((centre - support).floor().max(0.0) as usize).min(old as usize - 1);
            let end = ((centre + support).ceil().max(1.0) as usize).clamp(start + 1, old as usize);
            let exact: Vec<f64> =
                (start..end).map(|at| cubic((at as f64 + 0.5 - centre) / stretch)).collect();
            let sum: f64 = exact.iter().sum();
            let sum = if sum.abs() < 1e-9 { 1.0 } else { sum };
            let mut weights: Vec<i32> =
                exact.iter().map(|weight| (weight / sum * f64::from(ONE)).round() as i32).collect();
            // What rounding has lost goes to the middle: an even plane stays as it is.
            let middle = weights.len() / 2;
            weights[middle] += ONE - weights.iter().sum::<i32>();
            Taps { start, weights }
        })
        .collect()
}

fn round(sum: i32) -> u8 {
    ((sum + ONE / 2) >> 14).clamp(0, 255) as u8
}

fn convolve_across(data: &[u8], width: usize, taps: &[Taps]) -> Vec<u8> {
    let mut out = Vec::with_capacity(data.len() / width * taps.len());
    for row in data.chunks_exact(width * 4) {
        for taps in taps {
            let mut sum = [0i32; 4];
            let pixels = row[taps.start * 4..].chunks_exact(4);
            for (weight, pixel) in taps.weights.iter().zip(pixels) {
                for channel in 0..4 {
                    sum[channel] += weight * i32::from(pixel[channel]);
                }
            }
            out.extend_from_slice(&sum.map(round));
        }
    }
    out
}

fn convolve_down(data: &[u8], width: usize, taps: &[Taps]) -> Vec<u8> {
    let row_bytes = width * 4;
    let mut out = Vec::with_capacity(row_bytes * taps.len());
    let mut sums = vec![0i32; row_bytes];
    for taps in taps {
        sums.fill(0);
        let rows = data[taps.start * row_bytes..].chunks_exact(row_bytes);
        for (weight, row) in taps.weights.iter().zip(rows) {
            for (sum, byte) in sums.iter_mut().zip(row) {
                *sum += weight * i32::from(*byte);
            }
        }
        out.extend(sums.iter().map(|sum| round(*sum)));
    }
    out
}

/// Colours weakened by what lets them through: only so may they be mixed.
fn premultiply(data: &[u8]) -> Vec<u8> {
    let mut out = data.to_vec();
    for pixel in out.chunks_exact_mut(4) {
        let alpha = u32::from(pixel[3]);
        for colour in &mut pixel[..3] {
            *colour = ((u32::from(*colour) * alpha + 127) / 255) as u8;
        }
    }
    out
}

fn unpremultiply(data: &mut [u8]) {
    for pixel in data.chunks_exact_mut(4) {
        let alpha = u32::from(pixel[3]);
        for colour in &mut pixel[..3] {
            *colour = ((u32::from(*colour) * 255 + alpha / 2) / alpha.max(1)).min(255) as u8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plane(width: u32, height: u32, pixel: [u8; 4]) -> Pixels {
        Pixels::new(width, height, pixel.repeat(width as usize * height as usize))
    }

    #[test]
    fn even_planes_stay_even() {
        for (width, height) in [(1, 1), (7, 3), (100, 120), (1000, 10), (37, 501)] {
            for (new_width, new_height) in [(1, 1), (10, 12), (5, 1), (60, 33)] {
                let small = resize(&plane(width, height, [200, 100, 3, 255]), new_width, new_height);
                assert_eq!((small.width, small.height), (new_width, new_height));
                assert!(small.data.chunks(4).all(|pixel| pixel == [200, 100, 3, 255]), "{width} {new_width}");
            }
        }
    }

    #[test]
    fn what_is_not_seen_does_not_colour() {
        let mut image = plane(8, 8, [255, 0, 0, 0]);
        image.data.chunks_mut(4).step_by(2).for_each(|pixel| pixel.copy_from_slice(&[0, 0, 255, 255]));
        let image = Pixels::new(8, 8, image.data);
        for size in [1, 2, 5] {
            let small = resize(&image, size, size);
            assert!(small.data.chunks(4).all(|p| p[0] == 0 && p[2] > 250 && p[3] > 50), "{:?}", small.data);
        }
    }

    #[test]
    fn a_gradient_stays_a_gradient() {
        let data = (0..100u32).flat_map(|_| (0..=255).flat_map(|x| [x, x, x, 255])).collect();
        let small = resize(&Pixels::new(256, 100, data), 32, 20);
        for row in small.data.chunks(32 * 4) {
            let values: Vec<u8> = row.chunks(4).map(|pixel| pixel[0]).collect();
            assert!(values.is_sorted() && values[0] < 8 && values[31] > 247, "{values:?}");
        }
    }
}
