//! How many datagrams of a connection may leave together.
//!
//! Datagrams that leave together meet the queues of the path together, and a policer lets few of them through at a time. While nothing is
//! lost, batches grow, and only the library's pacer bounds what leaves: 2 ms' worth, and at least ten datagrams. After a loss a batch
//! has five at most, and batches follow each other at the speed that window and round-trip time give. Each second without a loss allows one
//! datagram more, until a batch is as large as the pacer's least.

use crate::limits::{
    SEGMENTED_BYTES_MAX, SEGMENTS_AFTER_LOSS, SEGMENTS_MAX, SEGMENTS_SPREAD_MAX, SEGMENTS_SPREAD_MIN,
    SPREAD_GAP_MAX, SPREAD_GROWTH_TIME, SPREAD_LATE_MAX, SPREAD_STEP,
};
use quinn_proto::{Connection, Transmit};
use std::time::{Duration, Instant};

/// Makes a connection's next packets, as many as may leave now. The error is when to ask again.
pub(crate) fn poll_transmit(
    connection: &mut Connection,
    burst: &mut Burst,
    now: Instant,
    bytes: &mut Vec<u8>,
) -> Result<Option<Transmit>, Instant> {
    let path = Path::of(connection);
    // Who closes a connection may not come back.
    let count = if connection.is_closed() { 1 } else { burst.allows(now, path)? };
    // At least one: a datagram is smaller than a message may be.
    let most = SEGMENTED_BYTES_MAX / path.datagram;
    let transmit = connection.poll_transmit(now, count.min(most), bytes);
    if let Some(transmit) = &transmit {
        burst.note(now, path, transmit.size);
    }
    Ok(transmit)
}

/// What is known of a connection's path.
#[derive(Clone, Copy, Debug)]
struct Path {
    /// Packets that were lost so far.
    lost: u64,
    /// The congestion window in bytes.
    window: u64,
    /// Bytes of a datagram.
    datagram: usize,
    /// The smoothed round-trip time.
    rtt: Duration,
}

impl Path {
    fn of(connection: &Connection) -> Path {
        Path {
            lost: connection.stats().path.lost_packets,
            window: connection.congestion_state().window(),
            datagram: usize::from(connection.current_mtu()),
            rtt: connection.rtt(),
        }
    }

    /// Bytes per second: five quarters of a window per round trip, as the library's pacer has it (RFC 9002 §7.7).
    fn speed(&self) -> f64 {
        1.25 * self.window.max(1) as f64 / self.rtt.max(Duration::from_micros(1)).as_secs_f64()
    }
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Nothing was lost lately: batches follow each other as the pacer allows.
    Free,
    /// `next`: when the next batch is due; `changed`: since when batches have their size.
    Spread { next: Instant, changed: Instant },
}

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Burst {
    /// Datagrams of a batch.
    batch: usize,
    /// Losses that were taken into account.
    lost: u64,
    state: State,
}

impl Default for Burst {
    fn default() -> Burst {
        Burst { batch: 1, lost: 0, state: State::Free }
    }
}

impl Burst {
    /// How many datagrams may leave now, at least one. The error is when to ask again.
    fn allows(&mut self, now: Instant, path: Path) -> Result<usize, Instant> {
        if path.lost > self.lost {
            self.lost = path.lost;
            self.shrink(now, path.rtt);
        }
        if let State::Spread { changed, .. } = &mut self.state
            && now.saturating_duration_since(*changed) >= SPREAD_GROWTH_TIME
        {
            *changed = now;
            self.batch += 1;
            if self.batch >= SEGMENTS_SPREAD_MAX {
                self.state = State::Free;
            }
        }
        match self.state {
            State::Free => {
                self.batch = (self.batch + 1).min(SEGMENTS_MAX);
                Ok(self.batch)
            }
            State::Spread { next, .. } if next > now + SPREAD_STEP => Err(next),
            // Fast paths get more at a time: timers are not exact enough for less.
            State::Spread { .. } => {
                let step = path.speed() * SPREAD_STEP.as_secs_f64() / path.datagram as f64;
                Ok((step as usize).clamp(self.batch, SEGMENTS_MAX))
            }
        }
    }

    /// Something was lost. All losses of one round trip are one event, as for the congestion window.
    fn shrink(&mut self, now: Instant, rtt: Duration) {
        let next = match self.state {
            State::Free => now,
            State::Spread { changed, .. } if now.saturating_duration_since(changed) < rtt => return,
            State::Spread { next, .. } => next,
        };
        self.batch = (self.batch / 2).clamp(SEGMENTS_SPREAD_MIN, SEGMENTS_AFTER_LOSS);
        self.state = State::Spread { next, changed: now };
    }

    /// So many bytes leave.
    fn note(&mut self, now: Instant, path: Path, bytes: usize) {
        if let State::Spread { next, .. } = &mut self.state {
            // Who was called late may make up for it, and who had nothing to send for nothing more.
            let due = now.checked_sub(SPREAD_LATE_MAX).map_or(*next, |late| late.max(*next));
            let gap = (bytes as f64 / path.speed()).min(SPREAD_GAP_MAX.as_secs_f64());
            *next = due + Duration::from_secs_f64(gap);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATAGRAM: usize = 1400;

    /// 6 MB/s, so that five datagrams take 0.93 ms.
    fn path(lost: u64) -> Path {
        Path { lost, window: 60_000, datagram: DATAGRAM, rtt: Duration::from_millis(10) }
    }

    /// Sends what is allowed now; gives batches, and when the next one is due.
    fn send(burst: &mut Burst, now: Instant, path: Path) -> (Vec<usize>, Option<Instant>) {
        let mut batches = Vec::new();
        while batches.len() < 100 {
            match burst.allows(now, path) {
                Ok(count) => {
                    burst.note(now, path, count * DATAGRAM);
                    batches.push(count);
                }
                Err(at) => return (batches, Some(at)),
            }
        }
        (batches, None)
    }

    #[test]
    fn batches_grow_while_nothing_is_lost() {
        let (batches, next) = send(&mut Burst::default(), Instant::now(), path(0));
        assert_eq!((batches[0], batches[10], batches[99]), (2, 12, SEGMENTS_MAX));
        assert_eq!(next, None);
    }

    #[test]
    fn few_leave_together_after_a_loss() {
        let (mut burst, mut now) = (Burst::default(), Instant::now());
        send(&mut burst, now, path(0));
        for _ in 0..10 {
            let (batches, next) = send(&mut burst, now, path(1));
            assert_eq!(batches, [SEGMENTS_AFTER_LOSS]);
            let gap = next.unwrap() - now;
            assert!((900..=960).contains(&gap.as_micros()), "{gap:?}");
            now += gap;
        }
    }

    #[test]
    fn losses_of_a_round_trip_are_one() {
        let (mut burst, mut now) = (Burst::default(), Instant::now());
        send(&mut burst, now, path(0));
        let mut after = |now, lost| send(&mut burst, now, path(lost)).0[0];
        assert_eq!(after(now, 1), 5);
        now += Duration::from_millis(9);
        assert_eq!(after(now, 4), 5);
        now += Duration::from_millis(9);
        assert_eq!(after(now, 5), 2);
        now += Duration::from_millis(20);
        assert_eq!(after(now, 6), SEGMENTS_SPREAD_MIN);
    }

    #[test]
    fn batches_grow_again_without_losses() {
        let (mut burst, mut now) = (Burst::default(), Instant::now());
        send(&mut burst, now, path(0));
        for wanted in SEGMENTS_AFTER_LOSS..SEGMENTS_SPREAD_MAX {
            assert_eq!(send(&mut burst, now, path(1)).0[0], wanted);
            now += SPREAD_GROWTH_TIME;
        }
        let (batches, next) = send(&mut burst, now, path(1));
        assert!(batches[0] > SEGMENTS_SPREAD_MAX && next.is_none());
    }

    #[test]
    fn what_is_late_is_made_up_for_up_to_a_bound() {
        let (mut burst, now) = (Burst::default(), Instant::now());
        send(&mut burst, now, path(0));
        send(&mut burst, now, path(1));
        // Two batches instead of one, however long nothing was sent.
        let (batches, next) = send(&mut burst, now + SPREAD_GROWTH_TIME / 2, path(1));
        assert_eq!((batches.len(), next.is_some()), (2, true));
    }

    #[test]
    fn a_slow_path_does_not_hold_a_short_answer_up() {
        let (mut burst, now) = (Burst::default(), Instant::now());
        let slow = |lost| Path { window: 4000, rtt: Duration::from_millis(300), ..path(lost) };
        send(&mut burst, now, slow(0));
        let (_, next) = send(&mut burst, now, slow(1));
        assert_eq!(next.unwrap() - now, SPREAD_GAP_MAX);
    }

    #[test]
    fn a_fast_path_is_not_woken_for_each_batch() {
        let (mut burst, now) = (Burst::default(), Instant::now());
        let fast = |lost| Path { window: 4_000_000, ..path(lost) };
        send(&mut burst, now, fast(0));
        let (batches, next) = send(&mut burst, now, fast(1));
        assert!(batches.iter().all(|count| *count == SEGMENTS_MAX) && next.unwrap() > now + SPREAD_STEP);
    }
}
