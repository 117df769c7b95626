//! Takes the sums for the [history](super::history) once a second, while a configuration that wants one is live.

use super::requests;
use crate::conf::Cx;
use crate::service::{Service, Work};
use crate::table::Thread;
use brisk_net::{blocking, clock, sleep};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Without state: it is the mark by which a configuration has one, and the service that does the work.
const PERIOD: Duration = Duration::from_secs(1);

struct Sampler;

/// Has the configuration keep a history; one, however often it is asked for.
pub fn keep(cx: &mut Cx<'_, '_>) {
    // In `data`, too, which modules may look through; services cannot be told apart.
    if !cx.global.data.iter().any(|data| data.is::<Sampler>()) {
        let sampler = Arc::new(Sampler);
        cx.global.data.push(sampler.clone());
        cx.global.services.push(sampler);
    }
}

impl Service for Sampler {
    fn start(self: Arc<Self>, work: &Work) {
        work.spawn(async {
            // It ends with the configuration, as all services do; the next one goes on with the same history.
            loop {
                let Some(shared) = Thread::current().map(|thread| thread.shared.clone()) else { return };
                // The loop keeps the time; threads of the pool have none of their own.
                let now = clock::now();
                // Thousands of locations have thousands of cells: not in the event loop.
                let job = blocking::run(move || {
                    let sums = requests::sums(&shared);
                    let mut history = shared.history.lock().unwrap_or_else(PoisonError::into_inner);
                    history.take(now.unix_secs, now.mono_ms, sums);
                });
                // Without a thread for it this second becomes part of the next one.
                if let Ok(job) = job {
                    job.await;
                }
                sleep(PERIOD).await;
            }
        });
    }
}
