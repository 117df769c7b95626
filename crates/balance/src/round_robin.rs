//! Smooth weighted round robin: each choice adds every peer's weight to its current weight, picks the peer with the highest,
//! and subtracts the sum of all weights from it. A peer of weight 5 beside one of weight 1 gets 5 of 6 requests, spread evenly.

use crate::peer::{Clock, SCALE};
use crate::set::{Set, Tried};

/// The peer whose turn it is. `own` is the peer that the request belongs to (`sticky`): it has its turn now and is owed
/// less later.
pub(crate) fn choose(set: &mut Set, tried: &Tried, own: Option<usize>, now: Clock) -> Option<usize> {
    if let Some(own) = own {
        let others = set.total_weight as i64 * SCALE - set.peers[own].weight;
        if set.peers[own].current <= -others {
            return Some(own);
        }
    }
    let mut best: Option<usize> = None;
    let mut total = 0;
    for at in 0..set.peers.len() {
        if tried.has(set.peers[at].info.id) || !set.peers[at].is_available(now) {
            continue;
        }
        total += set.peers[at].step(now);
        if best.is_none_or(|best| set.peers[at].current > set.peers[best].current) {
            best = Some(at);
        }
    }
    let best = own.or(best)?;
    set.peers[best].current -= total;
    Some(best)
}
