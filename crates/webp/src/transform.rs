//! The transforms of RFC 6386 §14.3 and §14.4, and the way back into them.

/// Sums and differences of the outer and the inner two.
fn fold(four: [i32; 4]) -> [i32; 4] {
    [four[0] + four[3], four[1] + four[2], four[1] - four[2], four[0] - four[3]]
}

/// Sums and differences of every other.
fn skip(four: [i32; 4]) -> [i32; 4] {
    [four[0] + four[2], four[1] + four[3], four[1] - four[3], four[0] - four[2]]
}

/// Coefficients of the 4×4 differences.
pub fn forward(block: &[i16; 16]) -> [i16; 16] {
    let mut half = [0i32; 16];
    for i in 0..4 {
        let row = fold(std::array::from_fn(|n| block[i * 4 + n].into()));
        half[i * 4] = (row[0] + row[1]) * 8;
        half[i * 4 + 1] = (row[2] * 2217 + row[3] * 5352 + 1812) >> 9;
        half[i * 4 + 2] = (row[0] - row[1]) * 8;
        half[i * 4 + 3] = (row[3] * 2217 - row[2] * 5352 + 937) >> 9;
    }
    let mut out = [0; 16];
    for i in 0..4 {
        let column = fold(std::array::from_fn(|n| half[n * 4 + i]));
        out[i] = ((column[0] + column[1] + 7) >> 4) as i16;
        let odd = (column[2] * 2217 + column[3] * 5352 + 12_000) >> 16;
        out[4 + i] = (odd + i32::from(column[3] != 0)) as i16;
        out[8 + i] = ((column[0] - column[1] + 7) >> 4) as i16;
        out[12 + i] = ((column[3] * 2217 - column[2] * 5352 + 51_000) >> 16) as i16;
    }
    out
}

/// The differences that a decoder makes of coefficients.
pub fn inverse(block: &[i16; 16]) -> [i16; 16] {
    let cosine = |v: i32| v + ((v * 20_091) >> 16);
    let sine = |v: i32| (v * 35_468) >> 16;
    let butterfly = |d: [i32; 4]| {
        let (a, b) = (d[0] + d[2], d[0] - d[2]);
        let (c, e) = (sine(d[1]) - cosine(d[3]), cosine(d[1]) + sine(d[3]));
        [a + e, b + c, b - c, a - e]
    };
    let mut half = [0i32; 16];
    for i in 0..4 {
        let column = butterfly(std::array::from_fn(|n| block[n * 4 + i].into()));
        (0..4).for_each(|n| half[n * 4 + i] = column[n]);
    }
    let mut out = [0; 16];
    for i in 0..4 {
        let row = butterfly(std::array::from_fn(|n| half[i * 4 + n]));
        (0..4).for_each(|n| out[i * 4 + n] = ((row[n] + 4) >> 3) as i16);
    }
    out
}

/// Coefficients of the first coefficients of 16 blocks.
pub fn forward_wht(block: &[i16; 16]) -> [i16; 16] {
    let mix = |four: [i32; 4]| {
        let [even, odd, odd_difference, even_difference] = skip(four);
        [even + odd, even_difference + odd_difference, even_difference - odd_difference, even - odd]
    };
    let mut half = [0i32; 16];
    for i in 0..4 {
        let row = mix(std::array::from_fn(|n| block[i * 4 + n].into()));
        half[i * 4..i * 4 + 4].copy_from_slice(&row);
    }
    let mut out = [0; 16];
    for i in 0..4 {
        let column = mix(std::array::from_fn(|n| half[n * 4 + i]));
        (0..4).for_each(|n| out[n * 4 + i] = (column[n] >> 1) as i16);
    }
    out
}

/// The way back, as a decoder goes it.
pub fn inverse_wht(block: &[i16; 16]) -> [i16; 16] {
    let butterfly = |four: [i32; 4]| {
        let [outer, inner, inner_difference, outer_difference] = fold(four);
        [
            outer + inner,
            inner_difference + outer_difference,
            outer - inner,
            outer_difference - inner_difference,
        ]
    };
    let mut half = [0i32; 16];
    for i in 0..4 {
        let column = butterfly(std::array::from_fn(|n| block[n * 4 + i].into()));
        (0..4).for_each(|n| half[n * 4 + i] = column[n]);
    }
    let mut out = [0; 16];
    for i in 0..4 {
        let row = butterfly(std::array::from_fn(|n| half[i * 4 + n]));
        (0..4).for_each(|n| out[i * 4 + n] = ((row[n] + 3) >> 3) as i16);
    }
    out
}

/// How much there is in differences: the sum of their Hadamard transform, which tells better than their squares what
/// they will cost.
pub fn weight(block: &[i16; 16]) -> u32 {
    let butterfly = |four: [i32; 4]| {
        let [even, odd, odd_difference, even_difference] = skip(four);
        [even + odd, even - odd, even_difference + odd_difference, even_difference - odd_difference]
    };
    let mut half = [0i32; 16];
    for i in 0..4 {
        let row = butterfly(std::array::from_fn(|n| block[i * 4 + n].into()));
        half[i * 4..i * 4 + 4].copy_from_slice(&row);
    }
    (0..4)
        .map(|i| {
            let column = butterfly(std::array::from_fn(|n| half[n * 4 + i]));
            column.iter().map(|v| v.unsigned_abs()).sum::<u32>()
        })
        .sum::<u32>()
        / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back_is_nearly_the_same() {
        let mut state = 7u32;
        for _ in 0..1000 {
            let block: [i16; 16] = std::array::from_fn(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 16) as i16 % 256
            });
            let back = inverse(&forward(&block));
            assert!(block.iter().zip(&back).all(|(a, b)| (a - b).abs() <= 2), "{block:?} {back:?}");
            let wide = block.map(|v| v * 8);
            let back = inverse_wht(&forward_wht(&wide));
            assert!(wide.iter().zip(&back).all(|(a, b)| (a - b).abs() <= 2), "{wide:?} {back:?}");
        }
    }
}
