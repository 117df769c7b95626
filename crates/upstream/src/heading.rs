//! What is kept while a back end's response head is awaited.

use crate::exchange::Exchange;
use crate::link::Link;
use crate::occupancy::{Occupancy, PATIENCE_MS};
use brisk_net::{Sleep, clock, sleep_until};
use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;

/// What is kept while a response head is awaited.
pub(crate) struct Heading {
    /// Nothing has been awaited since the last word of the back end.
    pub sends_first: bool,
    pub hints_bytes: u64,
    pub patience: Option<Patience>,
}

/// How long a new connection waits before idle ones are closed for it.
pub(crate) struct Patience {
    occupancy: Arc<Occupancy>,
    sleep: Sleep,
}

impl Heading {
    pub fn of(exchange: &Exchange) -> Heading {
        Heading { sends_first: true, hints_bytes: 0, patience: Patience::of(&exchange.link) }
    }
}

impl Patience {
    /// `None` if there is nothing to be closed.
    fn of(link: &Link) -> Option<Patience> {
        let occupancy = link.occupancy.as_ref().filter(|have| link.wait.is_some() && have.has_idle())?;
        let sleep = sleep_until(clock::mono_ms() + PATIENCE_MS);
        Some(Patience { occupancy: occupancy.clone(), sleep })
    }

    /// True once the time is over, and idle connections have been told to go.
    pub fn poll_over(&mut self, cx: &mut Context<'_>) -> bool {
        let is_over = Pin::new(&mut self.sleep).poll(cx).is_ready();
        if is_over {
            self.occupancy.vacate();
        }
        is_over
    }
}
