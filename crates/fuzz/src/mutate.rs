//! Random inputs, made from a corpus and a dictionary.

/// Xorshift: enough for choosing bytes, and repeatable.
pub struct Random(u64);

impl Random {
    /// The same seed gives the same numbers.
    pub fn new(seed: u64) -> Random {
        Random(seed.max(1))
    }

    /// A number below `limit`; 0 if that is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit.max(1) as u64) as usize
    }

    fn pick<'a>(&mut self, list: &'a [Vec<u8>]) -> &'a [u8] {
        &list[self.below(list.len())]
    }
}

/// A few random edits of a random seed.
pub fn mutate(seeds: &[Vec<u8>], tokens: &[Vec<u8>], bytes_max: usize, random: &mut Random) -> Vec<u8> {
    let mut input = random.pick(seeds).to_vec();
    // A part of a long seed, so that the edits meet what is left.
    if input.len() > bytes_max {
        let start = random.below(input.len());
        input.drain(..start);
        input.truncate(bytes_max);
    }
    for _ in 0..=random.below(6) {
        let at = random.below(input.len() + 1);
        let end = (at + random.below(12)).min(input.len());
        match random.below(7) {
            0 if at < input.len() => input[at] = random.below(256) as u8,
            1 if at < input.len() => input[at] ^= 1 << random.below(8),
            2 => drop(input.drain(at..end)),
            3 => {
                let copy = input[at..end].to_vec();
                let to = random.below(input.len() + 1);
                input.splice(to..to, copy);
            }
            4 => {
                let other = random.pick(seeds);
                let from = random.below(other.len() + 1);
                input.splice(at..end, other[from..].iter().copied());
            }
            _ => {
                let token = random.pick(tokens);
                input.splice(at..at, token.iter().copied());
            }
        }
    }
    input.truncate(bytes_max);
    input
}
