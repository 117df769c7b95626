//! The few things asked of the operating system outside the loop: limits, CPU pinning, CPU time.

use std::io;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use brisk_net::sys;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};

/// Raises the limit of open files to at least `files`, beyond the hard limit where allowed.
pub fn raise_open_files(files: u64) -> io::Result<()> {
    let now = getrlimit(Resource::Nofile);
    if now.current.is_none_or(|current| current >= files) {
        return Ok(());
    }
    let maximum = now.maximum.map(|maximum| maximum.max(files));
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(files), maximum });
    raised.map_err(|error| {
        let allowed = now.maximum.unwrap_or(u64::MAX);
        io::Error::other(format!(
            "cannot raise the limit of open files to {files}: {error}; {allowed} are allowed here: raise the hard limit (ulimit -Hn, \
             limits.conf, LimitNOFILE=), or take fewer connections"
        ))
    })
}

/// Raises it as far as anybody may.
pub fn raise_open_files_to_the_limit() -> io::Result<()> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    Ok(setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?)
}

/// Pins the calling thread, and whatever it starts later, to one CPU.
pub fn pin_to_cpu(cpu: usize) -> io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("no CPU {cpu}")));
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set)
        .map_err(|error| io::Error::other(format!("cannot pin to CPU {cpu}: {error}")))
}

/// Threads that a generator has unless it is told: the other half is for the server.
pub fn half_of_the_cpus() -> usize {
    (std::thread::available_parallelism().map_or(1, std::num::NonZero::get) / 2).max(1)
}

/// CPU time of the calling thread in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// How long the calling thread was ready and waited for a CPU, in nanoseconds, and how often it was given one; 0 where the
/// kernel does not count that.
pub fn thread_waited() -> (u64, u64) {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let mut fields = text.split_whitespace().skip(1).map(|field| field.parse().unwrap_or(0));
    (fields.next().unwrap_or(0), fields.next().unwrap_or(0))
}

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From here on SIGINT and SIGTERM set what [`interrupted`] says; a second one ends the process as usual. To be called
/// before threads are started: they inherit what is blocked.
pub fn catch_interrupts() -> io::Result<()> {
    let signals = sys::signal_fd(&[libc::SIGINT, libc::SIGTERM])?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        loop {
            let mut fds = [PollFd::new(&signals, PollFlags::IN)];
            if poll(&mut fds, None).is_ok() && sys::read_signal(signals.as_fd()).is_some() {
                INTERRUPTED.store(true, Ordering::Relaxed);
                break sys::unblock_signals();
            }
        }
        // Whoever sends another one does not want to wait: this thread is there to be hit by it.
        loop {
            std::thread::park();
        }
    })?;
    Ok(())
}

/// Waits until there is something to read from the standard input, or its end, until the user wants the end, or for
/// `limit`.
pub fn wait_for_input(limit: Duration) -> io::Result<()> {
    let (begun, look) = (Instant::now(), Timespec { tv_sec: 0, tv_nsec: 50_000_000 });
    let input = io::stdin();
    while !interrupted() && begun.elapsed() < limit {
        let mut fds = [PollFd::new(&input, PollFlags::IN)];
        match poll(&mut fds, Some(&look)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Whether the user wants the end.
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}
