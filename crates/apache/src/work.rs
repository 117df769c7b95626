//! What rules may cost for one request.

use crate::Stop;
use crate::limits::WORK_BYTES_MAX;
use std::cell::Cell;

/// Bytes that were made of templates and looked at by patterns for one request: all directives, rounds and evaluations together. A file of
/// a folder can make each text twice as long as the one before, so neither a line nor a round is a bound.
#[derive(Debug, Default)]
pub struct Work(Cell<usize>);

impl Work {
    /// Counts bytes.
    ///
    /// # Errors
    /// There were more than [`WORK_BYTES_MAX`]: the request is answered with 500.
    pub fn spend(&self, bytes: usize) -> Result<(), Stop> {
        self.0.set(self.0.get().saturating_add(bytes));
        if self.0.get() > WORK_BYTES_MAX {
            return Err(Stop::Failed(format!(
                "rules make and look at more than {WORK_BYTES_MAX} bytes for one request"
            )));
        }
        Ok(())
    }

    /// Begins anew: the head of a response is made after the rules for the request, even if those have failed.
    pub fn renew(&self) {
        self.0.set(0);
    }
}
