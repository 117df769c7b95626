//! One key frame of VP8 (RFC 6386): for each macroblock the mode whose error and bits together cost least, with
//! probabilities that are fitted to the picture. Knows pixels and bits, not the container around them.

use crate::bool_writer::BoolWriter;
use crate::limits::{COEFFICIENT_MAX, MODES_BYTES_MAX};
use crate::predict::{self, Edge, Plane, SUB_DC, SUBMODES};
use crate::tokens::{self, Tokens};
use crate::{Picture, tables, transform};

/// The first partition is longer than a frame's head can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyModes;

/// Encodes a picture as a frame. `quality` is from 0 to 100, on libwebp's scale.
///
/// Where the modes of small blocks do not fit into `modes_bytes_max` bytes, each macroblock gets a single mode.
pub fn frame(picture: &Picture, quality: u8, modes_bytes_max: usize) -> Result<Vec<u8>, TooManyModes> {
    Encoder::new(picture, quality, Modes::Any)
        .encode(modes_bytes_max)
        .or_else(|TooManyModes| Encoder::new(picture, quality, Modes::Whole).encode(modes_bytes_max))
}

/// The modes that an encoder may choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Modes {
    Any,
    /// One for all 16 small blocks of a macroblock: at most seven bits each.
    Whole,
}

/// Quantizer steps (RFC 6386 §9.6 and §14.1), of the first coefficient and the others, and how far numbers are rounded
/// up (in 1/256).
#[derive(Clone, Copy)]
struct Steps {
    steps: [i32; 2],
    bias: [i32; 2],
}

impl Steps {
    fn quantize(&self, block: &[i16; 16]) -> [i16; 16] {
        std::array::from_fn(|n| {
            let (step, bias) = (self.steps[usize::from(n > 0)], self.bias[usize::from(n > 0)]);
            let value = i32::from(block[n]);
            let level = (value.abs() * 256 + bias * step) / (256 * step);
            (level.min(COEFFICIENT_MAX.into()) * value.signum()) as i16
        })
    }

    fn restore(&self, block: &[i16; 16]) -> [i16; 16] {
        std::array::from_fn(|n| (i32::from(block[n]) * self.steps[usize::from(n > 0)]) as i16)
    }
}

/// Which blocks of a macroblock's edge were not empty: four of brightness, two and two of colour, one of means.
type Filled = [bool; 9];

/// The modes and coefficients that were chosen for a macroblock.
#[derive(Clone)]
struct Macroblock {
    luma: Luma,
    chroma_mode: u8,
    is_empty: bool,
}

#[derive(Clone)]
struct Luma {
    /// `None`: each small block has its own.
    mode: Option<u8>,
    submodes: [u8; 16],
    /// The means, where the macroblock has one mode.
    means: [i16; 16],
    blocks: [[i16; 16]; 16],
    pixels: [[u8; 16]; 16],
}

struct Encoder {
    width: usize,
    height: usize,
    /// In macroblocks.
    columns: usize,
    rows: usize,
    /// The source: brightness and two colours, whole macroblocks.
    source: [Vec<u8>; 3],
    /// What the decoder will have.
    planes: [Plane; 3],
    modes: Modes,
    index: u8,
    luma: Steps,
    means: Steps,
    chroma: Steps,
    /// What a bit is worth in squared error.
    lambda: f32,
    above: Vec<Filled>,
    above_modes: Vec<u8>,
    tokens: Tokens,
    trial: Tokens,
}

impl Encoder {
    fn new(picture: &Picture, quality: u8, modes: Modes) -> Encoder {
        let (width, height) = (picture.width as usize, picture.height as usize);
        let (columns, rows) = (width.div_ceil(16), height.div_ceil(16));
        // libwebp's scale, so that its figures mean the same here.
        let linear = f64::from(quality) / 100.0;
        let linear = if linear < 0.75 { linear * 2.0 / 3.0 } else { 2.0 * linear - 1.0 };
        let index = (127.0 * (1.0 - linear.cbrt())).round().clamp(0.0, 127.0) as usize;
        let (dc, ac) = (i32::from(tables::DC_STEPS[index]), i32::from(tables::AC_STEPS[index]));
        Encoder {
            width,
            height,
            columns,
            rows,
            source: yuv(picture, columns, rows),
            planes: [
                Plane::new(columns * 16, rows * 16),
                Plane::new(columns * 8, rows * 8),
                Plane::new(columns * 8, rows * 8),
            ],
            modes,
            index: index as u8,
            luma: Steps { steps: [dc, ac], bias: [96, 108] },
            means: Steps { steps: [dc * 2, (ac * 155 / 100).max(8)], bias: [96, 108] },
            chroma: Steps { steps: [dc.min(132), ac], bias: [110, 115] },
            lambda: 0.06 * (ac * ac) as f32,
            above: vec![[false; 9]; columns],
            above_modes: vec![SUB_DC; columns * 4],
            tokens: Tokens::default(),
            trial: Tokens::default(),
        }
    }

    /// The frame, if its first partition has at most `modes_bytes_max` bytes.
    fn encode(mut self, modes_bytes_max: usize) -> Result<Vec<u8>, TooManyModes> {
        let mut macroblocks = Vec::with_capacity(self.columns * self.rows);
        for row in 0..self.rows {
            let mut left = [false; 9];
            let mut left_modes = [SUB_DC; 4];
            for column in 0..self.columns {
                macroblocks.push(self.macroblock(column, row, &mut left, &mut left_modes));
            }
        }
        let probs = self.tokens.fit();
        let head = self.head(&macroblocks, &probs);
        if head.len() > modes_bytes_max.min(MODES_BYTES_MAX) {
            return Err(TooManyModes);
        }
        let mut body = BoolWriter::new();
        self.tokens.write(&probs, &mut body);
        // RFC 6386 §9.1: a key frame that is shown.
        let tag = (head.len() as u32) << 5 | 1 << 4;
        let mut out = tag.to_le_bytes()[..3].to_vec();
        out.extend_from_slice(&[0x9d, 0x01, 0x2a]);
        out.extend_from_slice(&(self.width as u16).to_le_bytes());
        out.extend_from_slice(&(self.height as u16).to_le_bytes());
        out.extend(head);
        out.extend(body.finish());
        Ok(out)
    }

    /// §9.2 to §9.11, and the modes.
    fn head(&self, macroblocks: &[Macroblock], probs: &[u8; tables::PROBS]) -> Vec<u8> {
        let mut out = BoolWriter::new();
        // Usual colours, clamping needed, no segments, the normal filter.
        out.number(0, 4);
        let step = i32::from(tables::AC_STEPS[usize::from(self.index)]) >> 2;
        out.number(((step * 300) >> 8).min(63) as u32, 6);
        // Sharpness, no changes of the filter, one partition.
        out.number(0, 3 + 1 + 2);
        out.number(self.index.into(), 7);
        // No other quantizers; probabilities are for this frame.
        out.number(0, 5 + 1);
        tokens::write_probs(probs, &mut out);
        let filled = macroblocks.iter().filter(|mb| !mb.is_empty).count();
        let prob = (filled * 255 / macroblocks.len().max(1)).clamp(1, 255) as u8;
        out.bit(true, 128);
        out.number(prob.into(), 8);
        let mut above = vec![SUB_DC; self.columns * 4];
        for row in macroblocks.chunks(self.columns) {
            let mut left = [SUB_DC; 4];
            for (mb, above) in row.iter().zip(above.chunks_exact_mut(4)) {
                out.bit(mb.is_empty, prob);
                modes(&mb.luma, above, &mut left, &mut out);
                put_path(CHROMA_PATHS[usize::from(mb.chroma_mode)], &CHROMA_PROBS, &mut out);
            }
        }
        out.finish()
    }

    fn macroblock(
        &mut self,
        column: usize,
        row: usize,
        left: &mut Filled,
        left_modes: &mut [u8; 4],
    ) -> Macroblock {
        let above_modes = std::array::from_fn(|n| self.above_modes[column * 4 + n]);
        let (whole, whole_cost) = self.whole(column, row, left);
        let luma = match self.modes {
            Modes::Whole => whole,
            Modes::Any => {
                let (parts, parts_cost) = self.parts(column, row, left, (above_modes, *left_modes));
                if whole_cost <= parts_cost { whole } else { parts }
            }
        };
        for (n, pixels) in luma.pixels.iter().enumerate() {
            self.planes[0].put(column * 16 + n % 4 * 4, row * 16 + n / 4 * 4, pixels);
        }
        self.above_modes[column * 4..column * 4 + 4].copy_from_slice(&luma.submodes[12..]);
        *left_modes = std::array::from_fn(|n| luma.submodes[n * 4 + 3]);
        let (chroma_mode, chroma) = self.chroma(column, row);
        let is_zero = |block: &[i16; 16]| block.iter().all(|c| *c == 0);
        let is_empty = is_zero(&luma.means) && luma.blocks.iter().chain(&chroma).all(is_zero);
        let above = &mut self.above[column];
        if is_empty {
            // §9.11 and §13.3: the means of a macroblock that has none count as before.
            let kept = luma.mode.is_none();
            for filled in [above, left] {
                *filled = [false, false, false, false, false, false, false, false, kept && filled[8]];
            }
        } else {
            put_luma(&luma, above, left, &mut self.tokens);
            for (n, block) in chroma.iter().enumerate() {
                let (x, y) = (4 + n / 4 * 2 + n % 2, 4 + n / 4 * 2 + n / 2 % 2);
                let context = usize::from(above[x]) + usize::from(left[y]);
                let filled = self.tokens.block(2, 0, context, block);
                (above[x], left[y]) = (filled, filled);
            }
        }
        Macroblock { luma, chroma_mode, is_empty }
    }

    fn source_block(&self, plane: usize, x: usize, y: usize) -> [u8; 16] {
        let stride = if plane == 0 { self.columns * 16 } else { self.columns * 8 };
        std::array::from_fn(|n| self.source[plane][(y + n / 4) * stride + x + n % 4])
    }

    /// The best of the modes for a whole macroblock, and its cost.
    fn whole(&mut self, column: usize, row: usize, left: &Filled) -> (Luma, f32) {
        let (x, y) = (column * 16, row * 16);
        let source: [[u8; 16]; 16] =
            std::array::from_fn(|n| self.source_block(0, x + n % 4 * 4, y + n / 4 * 4));
        let plane = &self.planes[0];
        let predicted = |mode: u8| -> [[u8; 16]; 16] {
            std::array::from_fn(|n| predict::square(plane, (x, y), 16, mode, (n % 4 * 4, n / 4 * 4)))
        };
        let weight = |mode: u8| -> u32 {
            predicted(mode).iter().zip(&source).map(|(p, s)| transform::weight(&difference(s, p))).sum()
        };
        let mode = (0..4u8).min_by_key(|mode| weight(*mode)).unwrap_or(predict::DC);
        let predicted = predicted(mode);
        let mut blocks: [[i16; 16]; 16] =
            std::array::from_fn(|n| transform::forward(&difference(&source[n], &predicted[n])));
        let means = transform::forward_wht(&std::array::from_fn(|n| blocks[n][0]));
        let means = self.means.quantize(&means);
        let firsts = transform::inverse_wht(&self.means.restore(&means));
        let mut pixels = [[0; 16]; 16];
        for n in 0..16 {
            blocks[n][0] = 0;
            blocks[n] = self.luma.quantize(&blocks[n]);
            let mut restored = self.luma.restore(&blocks[n]);
            restored[0] = firsts[n];
            pixels[n] = sum(&predicted[n], &transform::inverse(&restored));
        }
        let luma =
            Luma { mode: Some(mode), submodes: [predict::as_submode(mode); 16], means, blocks, pixels };
        let bits = path_bits(LUMA_PATHS[usize::from(mode)], &LUMA_PROBS);
        let cost = self.cost(&luma, &source, column, left, bits);
        (luma, cost)
    }

    /// Each small block with the mode that suits it, and the cost of all.
    fn parts(
        &mut self,
        column: usize,
        row: usize,
        left: &Filled,
        (mut above_modes, mut left_modes): ([u8; 4], [u8; 4]),
    ) -> (Luma, f32) {
        let mut luma = Luma {
            mode: None,
            submodes: [SUB_DC; 16],
            means: [0; 16],
            blocks: [[0; 16]; 16],
            pixels: [[0; 16]; 16],
        };
        let mut source = [[0; 16]; 16];
        let mut bits = path_bits(&[(0, false)], &LUMA_PROBS);
        let rate = self.lambda.sqrt() * 1.2;
        for n in 0..16 {
            let (x, y) = (column * 16 + n % 4 * 4, row * 16 + n / 4 * 4);
            source[n] = self.source_block(0, x, y);
            // To the right of a macroblock only the row above it is known.
            let right_y = if n % 4 == 3 { row * 16 } else { y };
            let edge = Edge::new(&self.planes[0], x, y, right_y);
            let ends = n % 4 == 3 && column + 1 == self.columns;
            let mut best = (f32::MAX, SUB_DC, [0; 16], 0.0);
            for submode in (0..SUBMODES).filter(|mode| !ends || !predict::looks_right(*mode)) {
                let predicted = edge.predict(submode);
                let price = submode_bits(submode, above_modes[n % 4], left_modes[n / 4]);
                let weight = transform::weight(&difference(&source[n], &predicted)) as f32;
                let cost = weight + rate * price;
                if cost < best.0 {
                    best = (cost, submode, predicted, price);
                }
            }
            let (_, submode, predicted, price) = best;
            bits += price;
            luma.submodes[n] = submode;
            (above_modes[n % 4], left_modes[n / 4]) = (submode, submode);
            let block = transform::forward(&difference(&source[n], &predicted));
            luma.blocks[n] = self.luma.quantize(&block);
            let restored = transform::inverse(&self.luma.restore(&luma.blocks[n]));
            luma.pixels[n] = sum(&predicted, &restored);
            self.planes[0].put(x, y, &luma.pixels[n]);
        }
        let cost = self.cost(&luma, &source, column, left, bits);
        (luma, cost)
    }

    /// Error and bits together, in squared error.
    fn cost(&mut self, luma: &Luma, source: &[[u8; 16]; 16], column: usize, left: &Filled, bits: f32) -> f32 {
        let error: u32 = luma.pixels.iter().zip(source).map(|(a, b)| squares(a, b)).sum();
        self.trial.clear();
        put_luma(luma, &mut self.above[column].clone(), &mut left.clone(), &mut self.trial);
        error as f32 + self.lambda * (bits + self.trial.bits())
    }

    /// The mode of both colours, and their coefficients.
    fn chroma(&mut self, column: usize, row: usize) -> (u8, [[i16; 16]; 8]) {
        let (x, y) = (column * 8, row * 8);
        let place = |n: usize| (n % 2 * 4, n / 2 % 2 * 4);
        let source: [[u8; 16]; 8] = std::array::from_fn(|n| {
            let (dx, dy) = place(n);
            self.source_block(1 + n / 4, x + dx, y + dy)
        });
        let planes = &self.planes;
        let predicted = |mode: u8| -> [[u8; 16]; 8] {
            std::array::from_fn(|n| predict::square(&planes[1 + n / 4], (x, y), 8, mode, place(n)))
        };
        let weight = |mode: u8| -> u32 {
            predicted(mode).iter().zip(&source).map(|(p, s)| transform::weight(&difference(s, p))).sum()
        };
        let mode = (0..4u8).min_by_key(|mode| weight(*mode)).unwrap_or(predict::DC);
        let predicted = predicted(mode);
        let mut blocks = [[0; 16]; 8];
        for n in 0..8 {
            let block = transform::forward(&difference(&source[n], &predicted[n]));
            blocks[n] = self.chroma.quantize(&block);
            let restored = transform::inverse(&self.chroma.restore(&blocks[n]));
            let (dx, dy) = place(n);
            self.planes[1 + n / 4].put(x + dx, y + dy, &sum(&predicted[n], &restored));
        }
        (mode, blocks)
    }
}

fn difference(a: &[u8; 16], b: &[u8; 16]) -> [i16; 16] {
    std::array::from_fn(|n| i16::from(a[n]) - i16::from(b[n]))
}

fn sum(a: &[u8; 16], b: &[i16; 16]) -> [u8; 16] {
    std::array::from_fn(|n| (i16::from(a[n]) + b[n]).clamp(0, 255) as u8)
}

fn squares(a: &[u8; 16], b: &[u8; 16]) -> u32 {
    a.iter().zip(b).map(|(a, b)| u32::from(a.abs_diff(*b)).pow(2)).sum()
}

/// The tokens of brightness (§13.3): means first, if the macroblock has them.
fn put_luma(luma: &Luma, above: &mut Filled, left: &mut Filled, tokens: &mut Tokens) {
    let (mut kind, mut first) = (3, 0);
    if luma.mode.is_some() {
        let context = usize::from(above[8]) + usize::from(left[8]);
        let filled = tokens.block(1, 0, context, &luma.means);
        (above[8], left[8]) = (filled, filled);
        (kind, first) = (0, 1);
    }
    for (n, block) in luma.blocks.iter().enumerate() {
        let (x, y) = (n % 4, n / 4);
        let context = usize::from(above[x]) + usize::from(left[y]);
        let filled = tokens.block(kind, first, context, block);
        (above[x], left[y]) = (filled, filled);
    }
}

/// A way through a tree: nodes and the bits taken there.
type Path = &'static [(usize, bool)];

/// §11.2 and §11.3, by mode.
const LUMA_PATHS: [Path; 4] = [
    &[(0, true), (1, false), (2, false)],
    &[(0, true), (1, false), (2, true)],
    &[(0, true), (1, true), (3, false)],
    &[(0, true), (1, true), (3, true)],
];
const LUMA_PROBS: [u8; 4] = [145, 156, 163, 128];
const CHROMA_PATHS: [Path; 4] = [
    &[(0, false)],
    &[(0, true), (1, false)],
    &[(0, true), (1, true), (2, false)],
    &[(0, true), (1, true), (2, true)],
];
const CHROMA_PROBS: [u8; 3] = [142, 114, 183];
const SUBMODE_PATHS: [Path; 10] = [
    &[(0, false)],
    &[(0, true), (1, false)],
    &[(0, true), (1, true), (2, false)],
    &[(0, true), (1, true), (2, true), (3, false), (4, false)],
    &[(0, true), (1, true), (2, true), (3, true), (6, false)],
    &[(0, true), (1, true), (2, true), (3, false), (4, true), (5, false)],
    &[(0, true), (1, true), (2, true), (3, false), (4, true), (5, true)],
    &[(0, true), (1, true), (2, true), (3, true), (6, true), (7, false)],
    &[(0, true), (1, true), (2, true), (3, true), (6, true), (7, true), (8, false)],
    &[(0, true), (1, true), (2, true), (3, true), (6, true), (7, true), (8, true)],
];

fn put_path(path: Path, probs: &[u8], out: &mut BoolWriter) {
    path.iter().for_each(|(node, bit)| out.bit(*bit, probs[*node]));
}

fn path_bits(path: Path, probs: &[u8]) -> f32 {
    path.iter().map(|(node, bit)| tokens::cost(*bit, probs[*node])).sum()
}

fn submode_probs(above: u8, left: u8) -> &'static [u8] {
    let at = (usize::from(above) * 10 + usize::from(left)) * 9;
    &tables::SUBMODE_PROBS[at..at + 9]
}

fn submode_bits(submode: u8, above: u8, left: u8) -> f32 {
    path_bits(SUBMODE_PATHS[usize::from(submode)], submode_probs(above, left))
}

/// Writes the modes of a macroblock, by those of its neighbours.
fn modes(luma: &Luma, above: &mut [u8], left: &mut [u8; 4], out: &mut BoolWriter) {
    match luma.mode {
        Some(mode) => put_path(LUMA_PATHS[usize::from(mode)], &LUMA_PROBS, out),
        None => {
            out.bit(false, LUMA_PROBS[0]);
            for (n, submode) in luma.submodes.iter().enumerate() {
                let (x, y) = (n % 4, n / 4);
                let probs = submode_probs(above[x], left[y]);
                put_path(SUBMODE_PATHS[usize::from(*submode)], probs, out);
                (above[x], left[y]) = (*submode, *submode);
            }
        }
    }
    above.copy_from_slice(&luma.submodes[12..]);
    *left = std::array::from_fn(|n| luma.submodes[n * 4 + 3]);
}

/// Brightness and colours of BT.601 as WebP has them, the last row and column repeated up to whole macroblocks.
fn yuv(picture: &Picture, columns: usize, rows: usize) -> [Vec<u8>; 3] {
    let (width, height) = (columns * 16, rows * 16);
    let pixel = |x: usize, y: usize| {
        let (x, y) = (x.min(picture.width as usize - 1), y.min(picture.height as usize - 1));
        let at = (y * picture.width as usize + x) * 4;
        [picture.rgba[at], picture.rgba[at + 1], picture.rgba[at + 2]].map(i32::from)
    };
    let mut luma = Vec::with_capacity(width * height);
    for y in 0..height {
        for x in 0..width {
            let [r, g, b] = pixel(x, y);
            luma.push(((16_839 * r + 33_059 * g + 6420 * b + (16 << 16) + (1 << 15)) >> 16) as u8);
        }
    }
    let (mut blue, mut red) =
        (Vec::with_capacity(width * height / 4), Vec::with_capacity(width * height / 4));
    for y in (0..height).step_by(2) {
        for x in (0..width).step_by(2) {
            let four = [pixel(x, y), pixel(x + 1, y), pixel(x, y + 1), pixel(x + 1, y + 1)];
            let [r, g, b]: [i32; 3] = std::array::from_fn(|channel| four.iter().map(|p| p[channel]).sum());
            let colour = |sum: i32| ((sum + (128 << 18) + (1 << 17)) >> 18).clamp(0, 255) as u8;
            blue.push(colour(-9719 * r - 19_081 * g + 28_800 * b));
            red.push(colour(28_800 * r - 24_116 * g - 4684 * b));
        }
    }
    [luma, blue, red]
}
