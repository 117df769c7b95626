//! `least_conn` and `least_time`: the peer with the least to do, by round robin among equals.

use crate::limits::TIME_MS_MAX;
use crate::method::{LeastTime, Until};
use crate::peer::{Clock, Peer};
use crate::set::{Set, Tried};

/// Times within one such step are the same.
const TIME_STEP_MS: u64 = 20;

/// The least loaded of the peers that can be asked. `load` is compared per weight.
pub(crate) fn choose(
    set: &mut Set,
    tried: &Tried,
    now: Clock,
    mut load: impl FnMut(&mut Peer) -> u64,
) -> Option<usize> {
    let mut best: Option<(usize, u64, u64)> = None;
    let mut loads = vec![None; set.peers.len()];
    let mut many = false;
    for (at, peer) in set.peers.iter_mut().enumerate() {
        if tried.has(peer.info.id) || !peer.is_available(now) {
            continue;
        }
        let (its_load, weight) = (load(peer), peer.present_weight(now) as u64);
        loads[at] = Some((its_load, weight));
        match best {
            Some((_, least, best_weight)) if its_load * best_weight == least * weight => many = true,
            Some((_, least, best_weight)) if its_load * best_weight > least * weight => {}
            _ => (best, many) = (Some((at, its_load, weight)), false),
        }
    }
    let (first, least, best_weight) = best?;
    if !many {
        return Some(first);
    }
    let (mut chosen, mut total) = (first, 0);
    for (at, load) in loads.iter().enumerate().skip(first) {
        if load.is_none_or(|(its_load, weight)| its_load * best_weight != least * weight) {
            continue;
        }
        total += set.peers[at].step(now);
        if set.peers[at].current > set.peers[chosen].current {
            chosen = at;
        }
    }
    set.peers[chosen].current -= total;
    Some(chosen)
}

/// How long a peer would need for one more request, by its averages.
pub(crate) fn expected_ms(peer: &mut Peer, which: LeastTime, now: Clock) -> u64 {
    if let Some(each) = peer.inflight_last.checked_div(peer.inflight) {
        let waiting = each + now.ms.saturating_sub(peer.inflight_changed);
        average(&mut peer.inflight_time, waiting);
    }
    estimate(peer, which, now)
}

/// As [`expected_ms`], without a look at what is in progress.
pub(crate) fn estimate(peer: &Peer, which: LeastTime, now: Clock) -> u64 {
    let mut time = if which.until == Until::LastByte { peer.response_time } else { peer.header_time };
    let idle = now.secs.saturating_sub(peer.checked);
    if idle > peer.fail_timeout {
        // Who was slow is given another chance as time goes by.
        time = time.checked_shr((idle / (peer.fail_timeout + 1)).min(63) as u32).unwrap_or(0);
    }
    if peer.inflight > 0 {
        time = time.max(peer.inflight_time);
    }
    time = if time > TIME_MS_MAX { TIME_MS_MAX } else { time + TIME_STEP_MS - time % TIME_STEP_MS };
    time * (1 + u64::from(peer.conns))
}

/// Counts a request that waits for the peer's answer from now on.
pub(crate) fn inflight_begins(peer: &mut Peer, now: Clock) {
    if peer.inflight > 0 {
        peer.inflight_last += now.ms.saturating_sub(peer.inflight_changed) * peer.inflight;
    }
    peer.inflight_changed = now.ms;
    peer.inflight += 1;
}

/// That request has its answer, after `took_ms`.
pub(crate) fn inflight_done(peer: &mut Peer, took_ms: u64, now: Clock) {
    if peer.inflight <= 1 {
        peer.inflight_last = 0;
    } else {
        let passed = now.ms.saturating_sub(peer.inflight_changed) * peer.inflight;
        peer.inflight_last = (peer.inflight_last + passed).saturating_sub(took_ms);
        peer.inflight_changed = now.ms;
    }
    peer.inflight = peer.inflight.saturating_sub(1);
}

/// An exponential moving average; the first value is taken as it is.
pub(crate) fn average(of: &mut u64, value: u64) {
    *of = if *of == 0 { value } else { (0.5 + value as f64 * 0.05 + *of as f64 * 0.95) as u64 };
}
