//! Values by address: intervals that cover every address, found by binary search.
//!
//! Nested networks are laid out flat when the table is built, so that a look-up is one search without steps
//! back: nginx walks a tree of bits, up to 32 or 128 nodes.

/// An address as a number.
pub trait Number: Copy + Ord + Default {
    /// The following number; `None` after the last.
    fn next(self) -> Option<Self>;
}

impl Number for u32 {
    fn next(self) -> Option<u32> {
        self.checked_add(1)
    }
}

impl Number for u128 {
    fn next(self) -> Option<u128> {
        self.checked_add(1)
    }
}

/// Sorted starts of intervals, each with its value; the first starts at zero.
pub struct Intervals<A, V> {
    starts: Box<[(A, V)]>,
}

impl<A: Number, V: Copy + PartialEq> Intervals<A, V> {
    /// Lays networks (first address, last address, value) out over `default`. They are sorted by first address, larger
    /// ones before smaller ones, and any two are disjoint or one is inside the other: the innermost wins.
    pub fn lay_out(nets: impl Iterator<Item = (A, A, V)>, default: V) -> Intervals<A, V> {
        // An interval at zero always: every search finds one, and `after` below is never 0.
        let mut out = Vec::from([(A::default(), default)]);
        // Networks that are open at the present address, innermost last.
        let mut open: Vec<(A, V)> = Vec::new();
        for (first, last, value) in nets {
            while let Some(&(end, _)) = open.last()
                && end < first
            {
                close(&mut open, &mut out, default);
            }
            start(&mut out, first, value);
            open.push((last, value));
        }
        while !open.is_empty() {
            close(&mut open, &mut out, default);
        }
        Intervals { starts: out.into() }
    }

    #[inline]
    // (In the path of a request: a search of some twenty steps for a million networks.)
    pub fn find(&self, address: A) -> V {
        let after = self.starts.partition_point(|(start, _)| *start <= address);
        self.starts[after - 1].1
    }
}

/// Ends the innermost network: behind it the one around it goes on.
fn close<A: Number, V: Copy + PartialEq>(open: &mut Vec<(A, V)>, out: &mut Vec<(A, V)>, default: V) {
    let Some((last, _)) = open.pop() else { return };
    // Behind the last address there is nothing to go on with.
    if let Some(next) = last.next() {
        start(out, next, open.last().map_or(default, |&(_, value)| value));
    }
}

fn start<A: Number, V: Copy + PartialEq>(out: &mut Vec<(A, V)>, at: A, value: V) {
    // What began at the same address has no room left.
    if out.last().is_some_and(|&(have, _)| have == at) {
        out.pop();
    }
    // Equal neighbours are one: tables shrink, and a search has fewer steps.
    if out.last().is_none_or(|&(_, have)| have != value) {
        out.push((at, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_network_wins() {
        let nets = [(0u32, 255, 'a'), (16, 31, 'b'), (16, 17, 'c'), (31, 31, 'd'), (u32::MAX, u32::MAX, 'z')];
        let found = Intervals::lay_out(nets.into_iter(), '-');
        let check = |address, want| assert_eq!(found.find(address), want, "{address}");
        check(0, 'a');
        check(15, 'a');
        check(16, 'c');
        check(17, 'c');
        check(18, 'b');
        check(30, 'b');
        check(31, 'd');
        check(32, 'a');
        check(255, 'a');
        check(256, '-');
        check(u32::MAX - 1, '-');
        check(u32::MAX, 'z');
    }

    #[test]
    fn all_prefixes_agree_with_a_plain_search() {
        // Networks of a space of 64 addresses, chosen by a small generator.
        let mut seed = 1u32;
        let mut random = |below: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 16) % below
        };
        for _ in 0..500 {
            let mut nets = std::collections::BTreeMap::new();
            for _ in 0..random(12) {
                let size = 1 << random(7);
                let first = random(64) / size * size;
                nets.insert((first, std::cmp::Reverse(first + size - 1)), random(4));
            }
            let list: Vec<_> = nets.iter().map(|(&(a, b), &v)| (a, b.0, v)).collect();
            let found = Intervals::lay_out(list.iter().copied(), 9);
            for address in 0..70u32 {
                let inside = list.iter().filter(|(a, b, _)| (*a..=*b).contains(&address));
                let want = inside.min_by_key(|(a, b, _)| b - a).map_or(9, |&(_, _, value)| value);
                assert_eq!(found.find(address), want, "{address} in {list:?}");
            }
        }
    }

    #[test]
    fn equal_neighbours_are_one() {
        let nets = [(0u32, 7, 'a'), (8, 15, 'a')];
        assert_eq!(Intervals::lay_out(nets.into_iter(), '-').starts.len(), 2);
        let none: [(u128, u128, char); 0] = [];
        assert_eq!(Intervals::lay_out(none.into_iter(), '-').find(u128::MAX), '-');
    }
}
