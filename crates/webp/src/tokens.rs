//! Coefficients as tokens (RFC 6386 §13), with probabilities that are fitted to a frame before it is written.

use crate::bool_writer::BoolWriter;
use crate::tables::{DEFAULT_PROBS, PROBS, UPDATE_PROBS};

/// The order of coefficients in a block.
pub const ZIGZAG: [usize; 16] = [0, 1, 4, 8, 5, 2, 3, 6, 9, 12, 13, 10, 7, 11, 14, 15];
const BANDS: [usize; 17] = [0, 1, 2, 3, 6, 4, 5, 6, 6, 6, 6, 6, 6, 6, 6, 7, 0];

/// Probabilities of the bits that follow a token for a range of values: where the range begins, and its bits.
const EXTRA: [(i16, &[u8]); 4] = [
    (11, &[173, 148, 140]),
    (19, &[176, 155, 140, 135]),
    (35, &[180, 157, 141, 134, 130]),
    (67, &[254, 254, 243, 230, 196, 177, 153, 140, 133, 130, 129]),
];

/// Where the probabilities of a kind of block, a band and a context begin.
pub fn slot(kind: usize, band: usize, context: usize) -> usize {
    ((kind * 8 + band) * 3 + context) * 11
}

/// One decision: below [`PROBS`] a node of the tree, above it a fixed probability.
#[derive(Clone, Copy)]
struct Decision {
    slot: u16,
    bit: bool,
}

/// All tokens of a frame.
#[derive(Default)]
pub struct Tokens(Vec<Decision>);

impl Tokens {
    fn put(&mut self, bit: bool, slot: usize) -> bool {
        self.0.push(Decision { slot: slot as u16, bit });
        bit
    }

    fn put_fixed(&mut self, bit: bool, prob: u8) -> bool {
        self.put(bit, PROBS + usize::from(prob))
    }

    /// A block's coefficients, in zigzag order from `first` on; true if one of them is not zero.
    pub fn block(&mut self, kind: usize, first: usize, context: usize, block: &[i16; 16]) -> bool {
        let Some(last) = (first..16).rev().find(|&n| block[ZIGZAG[n]] != 0) else {
            self.put(false, slot(kind, BANDS[first], context));
            return false;
        };
        let mut base = slot(kind, BANDS[first], context);
        let mut n = first;
        self.put(true, base);
        loop {
            let coefficient = block[ZIGZAG[n]];
            n += 1;
            if !self.put(coefficient != 0, base + 1) {
                // After a zero there is something more.
                base = slot(kind, BANDS[n], 0);
                continue;
            }
            let size = self.value(coefficient.abs(), base);
            self.put_fixed(coefficient < 0, 128);
            base = slot(kind, BANDS[n], size);
            if n == 16 || !self.put(n <= last, base) {
                return true;
            }
        }
    }

    /// A value that is not zero; gives the context for the next.
    fn value(&mut self, value: i16, base: usize) -> usize {
        if !self.put(value > 1, base + 2) {
            return 1;
        }
        if !self.put(value > 4, base + 3) {
            if self.put(value != 2, base + 4) {
                self.put(value == 4, base + 5);
            }
        } else if !self.put(value > 10, base + 6) {
            if self.put(value > 6, base + 7) {
                self.put_fixed(value >= 9, 165);
                self.put_fixed(value & 1 == 0, 145);
            } else {
                self.put_fixed(value == 6, 159);
            }
        } else {
            let range = EXTRA.iter().rposition(|(begin, _)| value >= *begin).unwrap_or(0);
            self.put(range >= 2, base + 8);
            self.put(range & 1 == 1, base + 9 + range / 2);
            let (begin, probs) = EXTRA[range];
            for (at, prob) in probs.iter().enumerate() {
                let bit = (value - begin) >> (probs.len() - 1 - at) & 1;
                self.put_fixed(bit == 1, *prob);
            }
        }
        2
    }

    /// What the tokens cost, in bits, with the usual probabilities.
    pub fn bits(&self) -> f32 {
        self.0.iter().map(|decision| cost(decision.bit, probability(&DEFAULT_PROBS, decision.slot))).sum()
    }

    /// Forgets all tokens, and keeps the memory for the next.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The probabilities that suit these tokens best, what it costs to give them counted in.
    pub fn fit(&self) -> [u8; PROBS] {
        let mut counts = vec![[0u32; 2]; PROBS];
        for decision in &self.0 {
            if let Some(count) = counts.get_mut(usize::from(decision.slot)) {
                count[usize::from(decision.bit)] += 1;
            }
        }
        let mut probs = DEFAULT_PROBS;
        for (at, [zeros, ones]) in counts.into_iter().enumerate() {
            if zeros == 0 && ones == 0 {
                continue;
            }
            let share = u64::from(zeros) * 255 / (u64::from(zeros) + u64::from(ones));
            let fitted = share.clamp(1, 255) as u8;
            let price = |prob| zeros as f32 * cost(false, prob) + ones as f32 * cost(true, prob);
            let kept = price(probs[at]) + cost(false, UPDATE_PROBS[at]);
            let given = price(fitted) + cost(true, UPDATE_PROBS[at]) + 8.0;
            if given < kept {
                probs[at] = fitted;
            }
        }
        probs
    }

    /// Writes all tokens with the probabilities of each slot.
    pub fn write(&self, probs: &[u8; PROBS], out: &mut BoolWriter) {
        for decision in &self.0 {
            out.bit(decision.bit, probability(probs, decision.slot));
        }
    }
}

fn probability(probs: &[u8; PROBS], slot: u16) -> u8 {
    let slot = usize::from(slot);
    probs.get(slot).copied().unwrap_or_else(|| (slot - PROBS) as u8)
}

/// Writes which probabilities are not the usual ones (§13.4).
pub fn write_probs(probs: &[u8; PROBS], out: &mut BoolWriter) {
    for at in 0..PROBS {
        let is_new = probs[at] != DEFAULT_PROBS[at];
        out.bit(is_new, UPDATE_PROBS[at]);
        if is_new {
            out.number(probs[at].into(), 8);
        }
    }
}

/// What a bit costs, in bits.
pub fn cost(bit: bool, prob: u8) -> f32 {
    let share = if bit { 256 - u32::from(prob) } else { u32::from(prob) };
    8.0 - (share as f32).log2()
}
