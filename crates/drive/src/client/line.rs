//! A slow line between one client and all servers: bytes wait for their turn at the line's rate, and for its delay.
//!
//! [`Direction`] decides when bytes have passed, without I/O and without a clock; [`through`] moves them. All connections of
//! a client share its line, as those of a browser share a visitor's access. Loss, TCP's slow start and the growth of queues
//! are not imitated.

use super::failure::{Failure, Fault};
use crate::limits::{LINE_BYTES_MAX, LINE_RATE_MIN, LINE_ROUND_TRIP_MAX, LINE_STEP_BYTES};
use brisk_load::cli::args::duration;
use brisk_net::{Io, clock, sleep_until, spawn};
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, shutdown, socketpair};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

/// What a visitor's access to the network is like.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Network {
    /// Bytes per second in each direction; None without a limit.
    pub bytes_per_second: Option<f64>,
    /// From a request's end to the first byte of an answer that takes no time.
    pub round_trip: Duration,
}

impl Network {
    /// `10mbit,40ms`, `10mbit` or `40ms`.
    ///
    /// # Errors
    ///
    /// What is neither a rate nor a time, is given twice, or is out of range, with what is expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (mut rate, mut delay) = (None, None);
        for part in text.split(',').map(str::trim) {
            let lower = part.to_ascii_lowercase();
            let unit = [("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)]
                .into_iter()
                .find_map(|(unit, bits)| Some((lower.strip_suffix(unit)?, bits)));
            let is_twice = match unit {
                Some((number, bits)) => {
                    let number: f64 = number.trim().parse().map_err(|_| expected(part))?;
                    rate.replace(number * bits / 8.0).is_some()
                }
                // A bare number could be meant as either.
                None if !lower.ends_with(|last: char| last.is_ascii_alphabetic()) => {
                    return Err(expected(part));
                }
                None => delay.replace(duration(part).map_err(|_| expected(part))?).is_some(),
            };
            if is_twice {
                return Err(format!("\"{text}\" says the same twice: {EXAMPLE}"));
            }
        }
        if rate.is_some_and(|rate| rate.is_nan() || rate < LINE_RATE_MIN) {
            return Err("a line of less than 1 kbit per second carries no page".to_owned());
        }
        if delay.is_some_and(|delay| delay > LINE_ROUND_TRIP_MAX) {
            return Err(format!("a round trip takes at most {} s", LINE_ROUND_TRIP_MAX.as_secs()));
        }
        Ok(Self { bytes_per_second: rate, round_trip: delay.unwrap_or_default() })
    }
}

const EXAMPLE: &str = "a rate, a round trip, or both are expected, e.g. 10mbit,40ms";

fn expected(part: &str) -> String {
    format!("\"{part}\" is neither a rate nor a time: {EXAMPLE}")
}

/// One direction of a line. Times count from the line's beginning.
#[derive(Debug, Default)]
struct Direction {
    /// When all that was given to it has left.
    free_at: Duration,
}

impl Direction {
    /// When `bytes` that are there at `now` have arrived at the other end: they wait for those before them.
    fn arrival(&mut self, network: &Network, now: Duration, bytes: usize) -> Duration {
        let took = network.bytes_per_second.map_or(0.0, |rate| bytes as f64 / rate);
        self.free_at = self.free_at.max(now) + Duration::from_secs_f64(took);
        self.free_at + network.round_trip / 2
    }
}

/// The access of one client.
pub(crate) struct Line {
    pub network: Network,
    began_ms: u64,
    up: RefCell<Direction>,
    down: RefCell<Direction>,
}

impl Line {
    pub fn new(network: Network) -> Rc<Self> {
        Rc::new(Self {
            network,
            began_ms: clock::mono_ms(),
            up: RefCell::default(),
            down: RefCell::default(),
        })
    }

    fn now(&self) -> Duration {
        Duration::from_millis(clock::mono_ms() - self.began_ms)
    }
}

/// Puts the line before a connection to a server: gives the client's end of it.
pub(crate) fn through(line: &Rc<Line>, server: Io) -> Result<Io, Failure> {
    let failed = |error: io::Error| Failure::new(Fault::Connect, format!("the slow line: {error}"));
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (near, far) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .map_err(|error| failed(error.into()))?;
    let near = Io::new(near).map_err(failed)?;
    let (far, server) = (Rc::new(Io::new(far).map_err(failed)?), Rc::new(server));
    carry(line, |line| &line.up, Rc::clone(&far), Rc::clone(&server), Shutdown::Both);
    carry(line, |line| &line.down, server, far, Shutdown::Write);
    Ok(near)
}

/// What is on its way in one direction of one connection.
#[derive(Default)]
struct Queue {
    pieces: RefCell<VecDeque<(Duration, Vec<u8>)>>,
    bytes: Cell<usize>,
    is_over: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Queue {
    fn wake(&self) {
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Waits until this holds; only one of the two tasks waits at a time, the other one changes it.
    async fn until(&self, holds: impl Fn(&Self) -> bool) {
        poll_fn(|cx| {
            if holds(self) {
                return Poll::Ready(());
            }
            *self.waker.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// Carries bytes from one end to the other, in two tasks: reading must not wait for what is delayed.
fn carry(line: &Rc<Line>, way: fn(&Line) -> &RefCell<Direction>, from: Rc<Io>, to: Rc<Io>, end: Shutdown) {
    let queue = Rc::new(Queue::default());
    let (line, shared) = (Rc::clone(line), Rc::clone(&queue));
    let took = Rc::clone(&line);
    spawn(async move {
        let mut room = vec![0; LINE_STEP_BYTES];
        // An error is the end, too: the client sees a connection that closes.
        while let Some(count) = read(&from, &mut room).await {
            let due = way(&line).borrow_mut().arrival(&line.network, line.now(), count);
            shared.pieces.borrow_mut().push_back((due, room[..count].to_vec()));
            shared.bytes.set(shared.bytes.get() + count);
            shared.wake();
            shared.until(|queue| queue.bytes.get() < LINE_BYTES_MAX || queue.is_over.get()).await;
        }
        shared.is_over.set(true);
        shared.wake();
    });
    spawn(async move {
        loop {
            queue.until(|queue| queue.is_over.get() || !queue.pieces.borrow().is_empty()).await;
            let Some((due, piece)) = queue.pieces.borrow_mut().pop_front() else { break };
            sleep_until(took.began_ms + due.as_micros().div_ceil(1000) as u64).await;
            if write(&to, &piece).await.is_err() {
                queue.is_over.set(true);
                queue.wake();
                break;
            }
            queue.bytes.set(queue.bytes.get() - piece.len());
            queue.wake();
        }
        // It fails where the other side has closed before.
        let _ = shutdown(to.fd(), end);
    });
}

/// The bytes that came; None at the end.
async fn read(from: &Io, room: &mut [u8]) -> Option<usize> {
    loop {
        match from.try_read(room) {
            Ok(0) => return None,
            Ok(count) => return Some(count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => from.readable().await,
            Err(_) => return None,
        }
    }
}

async fn write(to: &Io, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match to.try_write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => to.writable().await,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(value: u64) -> Duration {
        Duration::from_millis(value)
    }

    #[test]
    fn networks_are_read() {
        let network =
            |rate: Option<f64>, round_trip| Network { bytes_per_second: rate, round_trip: ms(round_trip) };
        for (text, wanted) in [
            ("10mbit,40ms", network(Some(1.25e6), 40)),
            ("40ms, 400kbit", network(Some(5e4), 40)),
            ("1.6Mbit", network(Some(2e5), 0)),
            ("150ms", network(None, 150)),
        ] {
            assert_eq!(Network::parse(text), Ok(wanted), "{text}");
        }
        for (text, why) in [
            ("", "is neither a rate nor a time"),
            ("10", "is neither a rate nor a time"),
            ("fast", "is neither a rate nor a time"),
            ("1mbit,2mbit", "says the same twice"),
            ("0mbit", "less than 1 kbit"),
            ("-1mbit", "less than 1 kbit"),
            ("nanmbit", "less than 1 kbit"),
            ("1m", "at most"),
        ] {
            let said = Network::parse(text).expect_err(text);
            assert!(said.contains(why), "{text}: {said}");
        }
    }

    #[test]
    fn bytes_wait_for_those_before_them_and_for_half_a_round_trip() {
        let network = Network { bytes_per_second: Some(1e6), round_trip: ms(40) };
        let mut direction = Direction::default();
        assert_eq!(direction.arrival(&network, ms(0), 10_000), ms(30));
        // Another connection's bytes, at the same time, stand behind them.
        assert_eq!(direction.arrival(&network, ms(0), 10_000), ms(40));
        // An idle line owes nothing.
        assert_eq!(direction.arrival(&network, ms(500), 1_000), ms(521));
    }

    #[test]
    fn a_line_without_a_rate_only_delays() {
        let mut direction = Direction::default();
        assert_eq!(
            direction.arrival(&Network { round_trip: ms(10), ..Network::default() }, ms(7), 1 << 30),
            ms(12)
        );
    }
}
