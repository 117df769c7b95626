//! What a decoder expects of a block, from its neighbours (RFC 6386 §12).

/// A plane with what a decoder sees beyond its edges: 127 above, 129 to the left.
pub struct Plane {
    data: Vec<u8>,
    stride: usize,
}

impl Plane {
    /// A plane of whole macroblocks; sizes are in pixels.
    pub fn new(width: usize, height: usize) -> Plane {
        // Small blocks look four pixels further to the right.
        let stride = width + 5;
        let mut data = vec![127; stride * (height + 1)];
        data.iter_mut().skip(stride).step_by(stride).for_each(|pixel| *pixel = 129);
        Plane { data, stride }
    }

    fn at(&self, x: usize, y: usize) -> usize {
        (y + 1) * self.stride + x + 1
    }

    /// The row above a place, from one pixel before it on.
    fn above(&self, x: usize, y: usize, length: usize) -> &[u8] {
        let at = self.at(x, y) - self.stride - 1;
        &self.data[at..=at + length]
    }

    fn left(&self, x: usize, y: usize) -> u8 {
        self.data[self.at(x, y) - 1]
    }

    /// Puts a block of 4×4 pixels at a place.
    pub fn put(&mut self, x: usize, y: usize, block: &[u8; 16]) {
        for (row, pixels) in block.chunks_exact(4).enumerate() {
            let at = self.at(x, y + row);
            self.data[at..at + 4].copy_from_slice(pixels);
        }
    }
}

/// Modes of whole macroblocks, in the order of the tree.
pub const DC: u8 = 0;
pub const VERTICAL: u8 = 1;
pub const HORIZONTAL: u8 = 2;

/// Predicts the small block at `dx`, `dy` of a square of `size` pixels at `x`, `y`.
pub fn square(
    plane: &Plane,
    (x, y): (usize, usize),
    size: usize,
    mode: u8,
    (dx, dy): (usize, usize),
) -> [u8; 16] {
    let above = plane.above(x, y, size);
    let corner = i16::from(above[0]);
    let above = &above[1..];
    match mode {
        DC => [dc(plane, (x, y), size); 16],
        VERTICAL => std::array::from_fn(|n| above[dx + n % 4]),
        HORIZONTAL => std::array::from_fn(|n| plane.left(x, y + dy + n / 4)),
        _ => std::array::from_fn(|n| {
            let left = i16::from(plane.left(x, y + dy + n / 4));
            (left + i16::from(above[dx + n % 4]) - corner).clamp(0, 255) as u8
        }),
    }
}

/// The mean of what there is of neighbours.
fn dc(plane: &Plane, (x, y): (usize, usize), size: usize) -> u8 {
    let (mut sum, mut count) = (0, 0);
    if y > 0 {
        sum += plane.above(x, y, size)[1..].iter().map(|p| u32::from(*p)).sum::<u32>();
        count += size as u32;
    }
    if x > 0 {
        sum += (0..size).map(|row| u32::from(plane.left(x, y + row))).sum::<u32>();
        count += size as u32;
    }
    (sum + count / 2).checked_div(count).unwrap_or(128) as u8
}

/// Modes of small blocks, in the order of RFC 6386 §8.1.
pub const SUBMODES: u8 = 10;
pub const SUB_DC: u8 = 0;
const SUB_TRUE_MOTION: u8 = 1;
const SUB_VERTICAL: u8 = 2;
const SUB_HORIZONTAL: u8 = 3;
const LEFT_DOWN: u8 = 4;
const RIGHT_DOWN: u8 = 5;
const VERTICAL_RIGHT: u8 = 6;
const VERTICAL_LEFT: u8 = 7;
const HORIZONTAL_DOWN: u8 = 8;

/// The mode of small blocks that a macroblock's mode counts as.
pub fn as_submode(mode: u8) -> u8 {
    match mode {
        DC => SUB_DC,
        VERTICAL => SUB_VERTICAL,
        HORIZONTAL => SUB_HORIZONTAL,
        _ => SUB_TRUE_MOTION,
    }
}

/// Whether a mode looks at pixels above and to the right.
pub fn looks_right(submode: u8) -> bool {
    matches!(submode, SUB_VERTICAL | LEFT_DOWN | VERTICAL_LEFT)
}

/// What surrounds a small block: left from below, corner, above, above right.
pub struct Edge([u8; 13]);

impl Edge {
    /// Of the block at `x`, `y`; `right_y` is the row whose upper neighbour has what is above to the right.
    pub fn new(plane: &Plane, x: usize, y: usize, right_y: usize) -> Edge {
        let mut edge = [0; 13];
        for row in 0..4 {
            edge[3 - row] = plane.left(x, y + row);
        }
        edge[4..9].copy_from_slice(plane.above(x, y, 4));
        edge[9..].copy_from_slice(&plane.above(x + 4, right_y, 4)[1..]);
        Edge(edge)
    }

    fn two(&self, at: usize) -> u8 {
        u16::from(self.0[at]).midpoint_up(self.0[at + 1])
    }

    /// Around the pixel at `at`.
    fn three(&self, at: usize) -> u8 {
        let pixel = |at: usize| u16::from(self.0[at.min(12)]);
        ((pixel(at - 1) + 2 * pixel(at) + pixel(at + 1) + 2) >> 2) as u8
    }

    /// Predicts the block.
    pub fn predict(&self, submode: u8) -> [u8; 16] {
        let edge = &self.0;
        let (left, corner, above) = (|row: usize| edge[3 - row], edge[4], |column: usize| edge[5 + column]);
        let block = |pixel: &dyn Fn(usize, usize) -> u8| std::array::from_fn(|n| pixel(n / 4, n % 4));
        match submode {
            SUB_DC => {
                let sum: u16 = edge[..4].iter().chain(&edge[5..9]).map(|p| u16::from(*p)).sum();
                [((sum + 4) >> 3) as u8; 16]
            }
            SUB_TRUE_MOTION => block(&|r, c| {
                (i16::from(left(r)) + i16::from(above(c)) - i16::from(corner)).clamp(0, 255) as u8
            }),
            SUB_VERTICAL => block(&|_, c| self.three(5 + c)),
            SUB_HORIZONTAL => block(&|r, _| match r {
                3 => ((u16::from(edge[1]) + 3 * u16::from(edge[0]) + 2) >> 2) as u8,
                _ => self.three(3 - r),
            }),
            LEFT_DOWN => block(&|r, c| self.three(6 + r + c)),
            RIGHT_DOWN => block(&|r, c| self.three(4 + c - r)),
            VERTICAL_RIGHT => block(&|r, c| match (r, 2 * c + 1 >= r) {
                (_, false) => self.three(5 - r),
                (0 | 2, true) => self.two(4 + c - r / 2),
                (_, true) => self.three(4 + c - r / 2),
            }),
            VERTICAL_LEFT => block(&|r, c| match (r, c) {
                (3, 3) => self.three(11),
                (2, 3) => self.three(10),
                (0 | 2, _) => self.two(5 + c + r / 2),
                _ => self.three(6 + c + r / 2),
            }),
            HORIZONTAL_DOWN => block(&|r, c| match (c, 2 * r + 1 >= c) {
                (_, false) => self.three(3 + c - 2 * r),
                (0 | 2, true) => self.two(3 - r + c / 2),
                (_, true) => self.three(4 - r + c / 2),
            }),
            _ => block(&|r, c| match 2 * r + c {
                n @ (0 | 2 | 4) => self.two(2 - n / 2),
                n @ (1 | 3) => self.three(2 - n / 2),
                5 => ((u16::from(edge[1]) + 3 * u16::from(edge[0]) + 2) >> 2) as u8,
                _ => edge[0],
            }),
        }
    }
}

trait MidpointUp {
    fn midpoint_up(self, other: u8) -> u8;
}

impl MidpointUp for u16 {
    /// The mean, halves rounded up.
    fn midpoint_up(self, other: u8) -> u8 {
        ((self + u16::from(other) + 1) >> 1) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tables of RFC 6386 §12.3, by hand: `E` is the edge, two or three of which are averaged.
    #[test]
    fn slanted_modes_follow_the_tables() {
        let edge = Edge(std::array::from_fn(|n| (n * n * 3 % 251) as u8));
        let two = |at: usize| edge.two(at);
        let three = |at: usize| edge.three(at);
        let check =
            |mode: u8, want: [[u8; 4]; 4]| assert_eq!(edge.predict(mode), *want.as_flattened(), "{mode}");
        check(
            RIGHT_DOWN,
            [
                [three(4), three(5), three(6), three(7)],
                [three(3), three(4), three(5), three(6)],
                [three(2), three(3), three(4), three(5)],
                [three(1), three(2), three(3), three(4)],
            ],
        );
        check(
            VERTICAL_RIGHT,
            [
                [two(4), two(5), two(6), two(7)],
                [three(4), three(5), three(6), three(7)],
                [three(3), two(4), two(5), two(6)],
                [three(2), three(4), three(5), three(6)],
            ],
        );
        check(
            VERTICAL_LEFT,
            [
                [two(5), two(6), two(7), two(8)],
                [three(6), three(7), three(8), three(9)],
                [two(6), two(7), two(8), three(10)],
                [three(7), three(8), three(9), three(11)],
            ],
        );
        check(
            HORIZONTAL_DOWN,
            [
                [two(3), three(4), three(5), three(6)],
                [two(2), three(3), two(3), three(4)],
                [two(1), three(2), two(2), three(3)],
                [two(0), three(1), two(1), three(2)],
            ],
        );
        let last = ((u16::from(edge.0[1]) + 3 * u16::from(edge.0[0]) + 2) >> 2) as u8;
        check(
            9,
            [
                [two(2), three(2), two(1), three(1)],
                [two(1), three(1), two(0), last],
                [two(0), last, edge.0[0], edge.0[0]],
                [edge.0[0]; 4],
            ],
        );
    }
}
