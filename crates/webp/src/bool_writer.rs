//! The arithmetic coder of VP8 (RFC 6386 §7).

/// Writes bits of known probability.
pub struct BoolWriter {
    out: Vec<u8>,
    range: u32,
    bottom: u32,
    /// Bits until a byte is complete.
    left: u32,
}

impl BoolWriter {
    /// A writer without a bit.
    pub fn new() -> BoolWriter {
        BoolWriter { out: Vec::new(), range: 255, bottom: 0, left: 24 }
    }

    /// A bit that is 0 with a probability of `prob`/256.
    pub fn bit(&mut self, bit: bool, prob: u8) {
        let split = 1 + (((self.range - 1) * u32::from(prob)) >> 8);
        if bit {
            let (bottom, carry) = self.bottom.overflowing_add(split);
            self.bottom = bottom;
            if carry {
                self.carry();
            }
            self.range -= split;
        } else {
            self.range = split;
        }
        while self.range < 128 {
            self.range <<= 1;
            self.shift();
        }
    }

    fn shift(&mut self) {
        if self.bottom >> 31 == 1 {
            self.carry();
        }
        self.bottom <<= 1;
        self.left -= 1;
        if self.left == 0 {
            self.out.push((self.bottom >> 24) as u8);
            self.bottom &= 0x00ff_ffff;
            self.left = 8;
        }
    }

    fn carry(&mut self) {
        for byte in self.out.iter_mut().rev() {
            *byte = byte.wrapping_add(1);
            if *byte != 0 {
                break;
            }
        }
    }

    /// The lowest `count` bits of a number, the highest of them first.
    pub fn number(&mut self, value: u32, count: u32) {
        for at in (0..count).rev() {
            self.bit(value >> at & 1 == 1, 128);
        }
    }

    /// All bytes, the last bits filled up.
    pub fn finish(mut self) -> Vec<u8> {
        for _ in 0..32 {
            self.shift();
        }
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6386 §7.3.
    struct Reader<'a> {
        bytes: &'a [u8],
        at: usize,
        value: u32,
        range: u32,
        bits: u32,
    }

    impl Reader<'_> {
        fn new(bytes: &[u8]) -> Reader<'_> {
            let value = u32::from(bytes[0]) << 8 | u32::from(bytes[1]);
            Reader { bytes, at: 2, value, range: 255, bits: 0 }
        }

        fn bit(&mut self, prob: u8) -> bool {
            let split = 1 + (((self.range - 1) * u32::from(prob)) >> 8);
            let bit = self.value >= split << 8;
            if bit {
                self.range -= split;
                self.value -= split << 8;
            } else {
                self.range = split;
            }
            while self.range < 128 {
                self.value <<= 1;
                self.range <<= 1;
                self.bits += 1;
                if self.bits == 8 {
                    self.bits = 0;
                    self.value |= u32::from(self.bytes.get(self.at).copied().unwrap_or(0));
                    self.at += 1;
                }
            }
            bit
        }
    }

    #[test]
    fn bits_come_back() {
        let mut state = 1u32;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 16
        };
        let bits: Vec<(bool, u8)> = (0..20_000)
            .map(|_| {
                let prob = (random() % 255 + 1) as u8;
                ((random() & 255) as u8 >= prob, prob)
            })
            .collect();
        let mut writer = BoolWriter::new();
        bits.iter().for_each(|(bit, prob)| writer.bit(*bit, *prob));
        let bytes = writer.finish();
        let mut reader = Reader::new(&bytes);
        assert!(bits.iter().all(|(bit, prob)| reader.bit(*prob) == *bit));
    }
}
