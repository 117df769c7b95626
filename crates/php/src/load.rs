//! What a pool master tells of its workers in numbers, by the order `load`.

use crate::Sample;

/// Sums since the pool master began, and how things stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Requests that PHP has begun.
    pub requests: u64,
    /// Those that it has answered.
    pub answered: u64,
    /// How long workers were busy with requests, in microseconds.
    pub busy_us: u64,
    /// How long they ran for requests.
    pub cpu_us: u64,
    /// How long they waited for a processor.
    pub runnable_us: u64,
    /// The most requests at once since it was asked before.
    pub most_running: u64,
    /// Workers.
    pub workers: u64,
    /// Those of them without a request.
    pub idle: u64,
    /// Memory that the largest of them has for itself.
    pub worker_bytes: u64,
    /// Workers that ended by a signal.
    pub crashes: u64,
    /// Workers that have ended.
    pub restarts: u64,
    /// Requests that were ended for their time.
    pub timeouts: u64,
    /// Requests that came into the slow log.
    pub slow_requests: u64,
    /// How often there were as many workers as there may be, and more were needed.
    pub max_children_reached: u64,
    /// Requests whose client had gone.
    pub gone_clients: u64,
    /// The number of workers that it was told; 0: none.
    pub wanted: u64,
}

impl Load {
    /// Reads lines of a name and a number; names that are not known are left out.
    pub fn parse(text: &str) -> Load {
        let mut load = Load::default();
        for (name, number) in text.lines().filter_map(|line| line.split_once(' ')) {
            let Ok(number) = number.parse() else { continue };
            let field = match name {
                "requests" => &mut load.requests,
                "answered" => &mut load.answered,
                "busy_us" => &mut load.busy_us,
                "cpu_us" => &mut load.cpu_us,
                "runnable_us" => &mut load.runnable_us,
                "most_running" => &mut load.most_running,
                "workers" => &mut load.workers,
                "idle" => &mut load.idle,
                "worker_bytes" => &mut load.worker_bytes,
                "crashes" => &mut load.crashes,
                "restarts" => &mut load.restarts,
                "timeouts" => &mut load.timeouts,
                "slow_requests" => &mut load.slow_requests,
                "max_children_reached" => &mut load.max_children_reached,
                "gone_clients" => &mut load.gone_clients,
                "wanted" => &mut load.wanted,
                _ => continue,
            };
            *field = number;
        }
        load
    }

    /// What has happened since `before`; all of it if another pool master has begun in between.
    pub fn since(&self, before: &Load) -> Sample {
        let zero = Load::default();
        let before = if self.requests < before.requests { &zero } else { before };
        Sample {
            completed: self.answered.saturating_sub(before.answered),
            wall_us: self.busy_us.saturating_sub(before.busy_us),
            cpu_us: self.cpu_us.saturating_sub(before.cpu_us),
            runnable_us: self.runnable_us.saturating_sub(before.runnable_us),
            busy_peak: self.most_running as u32,
            ..Sample::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_pool_master_tells() {
        let before = Load::parse("requests 11\nanswered 10\nbusy_us 500\ncpu_us 100\nunknown 7\nbroken x\n");
        assert_eq!((before.answered, before.busy_us), (10, 500));
        let now = Load::parse("requests 15\nanswered 14\nbusy_us 900\ncpu_us 150\nmost_running 3\n");
        let sample = now.since(&before);
        assert_eq!((sample.completed, sample.wall_us, sample.cpu_us, sample.busy_peak), (4, 400, 50, 3));
        // Another pool master begins with nothing.
        let fresh = Load::parse("requests 2\nanswered 2\nbusy_us 30\n");
        assert_eq!((fresh.since(&now).completed, fresh.since(&now).wall_us), (2, 30));
    }
}
