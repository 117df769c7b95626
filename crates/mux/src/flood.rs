//! Counting what costs us work and is of no use to anyone.
//!
//! Each kind has a bucket of tokens that fills with time and with useful work. A peer that empties one is told
//! ENHANCE_YOUR_CALM (RFC 9113 §10.5) or H3_EXCESSIVE_LOAD (RFC 9114 §10.5). Limits are far above what any client does: they are there for floods.

use std::fmt;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Nuisance {
    /// Streams that end before they are answered: the peer cancels them, or makes us do it by breaking rules.
    Reset,
    /// PING and SETTINGS, which must be answered.
    Echo,
    /// PRIORITY and PRIORITY_UPDATE.
    Priority,
    /// DATA and CONTINUATION without anything in them.
    Empty,
    /// WINDOW_UPDATE.
    Window,
    /// Streams that were refused, frames of unknown types, and frames for streams that are closed.
    Stray,
}

const KINDS: usize = 6;

/// One bucket: how many at once, and how many per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// So many at once.
    pub burst: u32,
    /// So many are allowed again each second.
    pub per_second: u32,
}

/// Buckets by [`Nuisance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FloodLimits {
    /// Of [`Nuisance::Reset`].
    pub reset: Bucket,
    /// Of [`Nuisance::Echo`].
    pub echo: Bucket,
    /// Of [`Nuisance::Priority`].
    pub priority: Bucket,
    /// Of [`Nuisance::Empty`].
    pub empty: Bucket,
    /// Of [`Nuisance::Window`].
    pub window: Bucket,
    /// Of [`Nuisance::Stray`].
    pub stray: Bucket,
}

impl Default for FloodLimits {
    fn default() -> FloodLimits {
        FloodLimits {
            reset: Bucket { burst: 500, per_second: 33 },
            echo: Bucket { burst: 500, per_second: 100 },
            priority: Bucket { burst: 1000, per_second: 200 },
            empty: Bucket { burst: 200, per_second: 50 },
            window: Bucket { burst: 5000, per_second: 5000 },
            stray: Bucket { burst: 500, per_second: 100 },
        }
    }
}

impl FloodLimits {
    /// Nothing is counted as too much: for peers that were chosen by the configuration.
    pub const NONE: FloodLimits = {
        let any = Bucket { burst: u32::MAX, per_second: u32::MAX };
        FloodLimits { reset: any, echo: any, priority: any, empty: any, window: any, stray: any }
    };

    fn get(&self, kind: Nuisance) -> Bucket {
        match kind {
            Nuisance::Reset => self.reset,
            Nuisance::Echo => self.echo,
            Nuisance::Priority => self.priority,
            Nuisance::Empty => self.empty,
            Nuisance::Window => self.window,
            Nuisance::Stray => self.stray,
        }
    }
}

const ALL: [Nuisance; KINDS] =
    [Nuisance::Reset, Nuisance::Echo, Nuisance::Priority, Nuisance::Empty, Nuisance::Window, Nuisance::Stray];

/// A connection's counters.
#[derive(Clone, Debug)]
pub struct Flood {
    /// Tokens that were taken.
    taken: [u32; KINDS],
    second: u64,
}

impl Flood {
    /// Nothing was counted yet; it is this late, in seconds.
    pub fn new(second: u64) -> Flood {
        Flood { taken: [0; KINDS], second }
    }

    /// It is this late; any clock that counts seconds will do.
    #[inline]
    pub fn tick(&mut self, second: u64, limits: &FloodLimits) {
        let passed = second.saturating_sub(self.second);
        if passed > 0 {
            self.second = second;
            self.refill(u32::try_from(passed).unwrap_or(u32::MAX), limits);
        }
    }

    fn refill(&mut self, seconds: u32, limits: &FloodLimits) {
        for kind in ALL {
            let back = limits.get(kind).per_second.saturating_mul(seconds);
            let taken = &mut self.taken[kind as usize];
            *taken = taken.saturating_sub(back);
        }
    }

    /// Counts one.
    #[inline]
    pub fn count(&mut self, kind: Nuisance, limits: &FloodLimits) -> Result<(), Flooded> {
        let taken = &mut self.taken[kind as usize];
        *taken = taken.saturating_add(1);
        if *taken > limits.get(kind).burst { Err(Flooded(kind)) } else { Ok(()) }
    }

    /// A stream was served to its end: it may have taken as much as this of each.
    #[inline]
    pub fn served(&mut self) {
        const WORTH: [u32; KINDS] = [1, 1, 4, 4, 8, 1];
        for (taken, worth) in self.taken.iter_mut().zip(WORTH) {
            *taken = taken.saturating_sub(worth);
        }
    }

    /// Bytes of bodies went to the peer, who says so with WINDOW_UPDATE.
    #[inline]
    pub fn sent(&mut self, bytes: usize) {
        let taken = &mut self.taken[Nuisance::Window as usize];
        *taken = taken.saturating_sub((bytes / 512) as u32);
    }
}

/// There was too much of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flooded(pub Nuisance);

impl fmt::Display for Flooded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.0 {
            Nuisance::Reset => "streams that end before they are answered",
            Nuisance::Echo => "PING and SETTINGS frames",
            Nuisance::Priority => "PRIORITY frames",
            Nuisance::Empty => "empty frames",
            Nuisance::Window => "WINDOW_UPDATE frames",
            Nuisance::Stray => "frames that mean nothing",
        };
        write!(f, "too many {what}")
    }
}

impl std::error::Error for Flooded {}
