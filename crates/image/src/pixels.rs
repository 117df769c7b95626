//! Pictures in memory.

use crate::wish::Turn;

/// A picture of 8-bit RGBA, row by row.
#[derive(Clone, Debug)]
pub struct Pixels {
    /// In pixels.
    pub width: u32,
    /// In pixels.
    pub height: u32,
    /// Row by row, from the top left.
    pub data: Vec<u8>,
    /// Its source had a palette.
    pub is_indexed: bool,
    /// No pixel lets anything through.
    pub is_opaque: bool,
    /// What the colours mean, if it is not sRGB.
    pub icc: Option<Vec<u8>>,
}

impl Pixels {
    /// A picture without a palette.
    ///
    /// # Panics
    /// If the data is not four bytes for each pixel.
    pub fn new(width: u32, height: u32, data: Vec<u8>) -> Pixels {
        assert_eq!(data.len() as u64, u64::from(width) * u64::from(height) * 4);
        let is_opaque = data.iter().skip(3).step_by(4).all(|alpha| *alpha == 255);
        Pixels { width, height, data, is_indexed: false, is_opaque, icc: None }
    }

    /// Another picture of the same kind.
    #[must_use]
    pub fn like(&self, width: u32, height: u32, data: Vec<u8>) -> Pixels {
        let is_opaque = self.is_opaque;
        Pixels { width, height, data, is_indexed: self.is_indexed, is_opaque, icc: self.icc.clone() }
    }

    /// Gives every pixel the colour it has, let through or not.
    pub fn make_opaque(&mut self) {
        self.data.iter_mut().skip(3).step_by(4).for_each(|alpha| *alpha = 255);
        self.is_opaque = true;
    }

    fn pixel(&self, x: u32, y: u32) -> &[u8] {
        let at = (y as usize * self.width as usize + x as usize) * 4;
        &self.data[at..at + 4]
    }

    /// A picture whose pixels are found in this one.
    fn mapped(&self, width: u32, height: u32, source: impl Fn(u32, u32) -> (u32, u32)) -> Pixels {
        let mut data = Vec::with_capacity(self.data.len());
        for y in 0..height {
            for x in 0..width {
                let (x, y) = source(x, y);
                data.extend_from_slice(self.pixel(x, y));
            }
        }
        self.like(width, height, data)
    }

    /// The same, turned.
    #[must_use]
    pub fn turned(self, turn: Turn) -> Pixels {
        let (width, height) = (self.width, self.height);
        match turn {
            Turn::None => self,
            Turn::Left => self.mapped(height, width, |x, y| (width - 1 - y, x)),
            Turn::Half => self.mapped(width, height, |x, y| (width - 1 - x, height - 1 - y)),
            Turn::Right => self.mapped(height, width, |x, y| (y, height - 1 - x)),
        }
    }

    /// Left is right.
    #[must_use]
    pub fn mirrored(self) -> Pixels {
        let width = self.width;
        self.mapped(width, self.height, |x, y| (width - 1 - x, y))
    }

    /// The middle of the picture.
    #[must_use]
    pub fn cropped(self, width: u32, height: u32) -> Pixels {
        let (left, top) = ((self.width - width) / 2, (self.height - height) / 2);
        self.mapped(width, height, |x, y| (left + x, top + y))
    }

    /// Makes edges stand out, as libgd does: `percent` of 100 takes a quarter of what is beside a pixel from it.
    pub fn sharpen(&mut self, percent: u32) {
        if self.width < 3 || self.height < 3 {
            return;
        }
        // In 1/65536; the limit keeps products within i32.
        let outer = -((percent.min(2000) * 65_536 / 400) as i32);
        let (width, height) = (self.width as usize, self.height as usize);
        for y in 0..height {
            let row = &mut self.data[y * width * 4..(y + 1) * width * 4];
            sharpen_line(row, 4, outer);
        }
        for x in 0..width {
            sharpen_line(&mut self.data[x * 4..], width * 4, outer);
        }
    }
}

/// Sharpens the pixels that lie `step` bytes apart.
fn sharpen_line(line: &mut [u8], step: usize, outer: i32) {
    let inner = 65_536 - 2 * outer;
    let count = line.len().div_ceil(step);
    for channel in 0..3 {
        let mut before = i32::from(line[channel]);
        for index in 0..count {
            let at = index * step + channel;
            let here = i32::from(line[at]);
            let after = line.get(at + step).filter(|_| index + 1 < count).map_or(here, |b| i32::from(*b));
            let sum = (before + after) * outer + here * inner;
            line[at] = ((sum + 32_768) >> 16).clamp(0, 255) as u8;
            before = here;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(width: u32, text: &str) -> Pixels {
        let height = text.len() as u32 / width;
        Pixels::new(width, height, text.bytes().flat_map(|b| [b, b, b, 255]).collect())
    }

    fn text(image: &Pixels) -> String {
        image.data.chunks(4).map(|pixel| char::from(pixel[0])).collect()
    }

    #[test]
    fn pictures_turn_against_the_clock() {
        let check = |turn, width, want: &str| {
            let turned = image(3, "abcdef").turned(turn);
            assert_eq!((turned.width, &*text(&turned)), (width, want), "{turn:?}");
        };
        check(Turn::None, 3, "abcdef");
        check(Turn::Left, 2, "cfbead");
        check(Turn::Half, 3, "fedcba");
        check(Turn::Right, 2, "daebfc");
    }

    #[test]
    fn the_middle_is_left() {
        assert_eq!(text(&image(3, "abcdefghi").cropped(1, 1)), "e");
        assert_eq!(text(&image(4, "abcdefgh").cropped(2, 2)), "bcfg");
    }

    #[test]
    fn even_planes_stay_and_edges_stand_out() {
        let mut even = image(4, "xxxxxxxxxxxxxxxx");
        even.sharpen(100);
        assert_eq!(text(&even), "xxxxxxxxxxxxxxxx");
        let mut edge = image(4, "ddxxddxxddxx");
        edge.sharpen(50);
        let row: Vec<u8> = edge.data.chunks(4).map(|pixel| pixel[0]).take(4).collect();
        assert!(row[0] == b'd' && row[1] < b'd' && row[2] > b'x' && row[3] == b'x', "{row:?}");
        let mut strong = image(3, "azazazaza");
        strong.sharpen(u32::MAX);
    }
}
