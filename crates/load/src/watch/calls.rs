//! What a system call that a task waits in means: `/proc/PID/task/TID/syscall` as data.

use libc::c_long;

/// What a task is at, as far as its call tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    /// On a CPU, or ready for one.
    Running,
    /// Stopped outside of any call: a page of its memory is not there.
    Fault,
    /// It waits for new connections, events, children or signals.
    Idle,
    /// A file's name or data.
    File,
    /// A lock on this file.
    Lock(u32),
    /// It pauses.
    Sleep,
    /// Data from this file.
    Read(u32),
    /// Room for data to it.
    Write(u32),
    /// Any of so many files, listed at this address.
    Poll(u64, u64),
    /// Any of the files below this number, in the set at this address.
    Select(u64, u64),
    /// Something else.
    Other,
}

/// Calls that wait for what comes next.
const IDLE: &[c_long] = &[
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_io_getevents,
    libc::SYS_io_uring_enter,
    // Threads that wait for work, and servers whose processes take turns.
    libc::SYS_futex,
    libc::SYS_semtimedop,
    libc::SYS_semop,
];

/// Calls that wait for a disk, or for what stands in for one.
const FILE: &[c_long] = &[
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_newfstatat,
    libc::SYS_fstat,
    libc::SYS_statx,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_sync_file_range,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
    libc::SYS_mkdirat,
    libc::SYS_linkat,
    libc::SYS_msync,
    libc::SYS_copy_file_range,
    libc::SYS_close,
];

/// Those that only older machines have.
#[cfg(target_arch = "x86_64")]
const OLD: (&[c_long], &[c_long]) = (
    &[libc::SYS_epoll_wait, libc::SYS_pause],
    &[
        libc::SYS_open,
        libc::SYS_stat,
        libc::SYS_lstat,
        libc::SYS_access,
        libc::SYS_readlink,
        libc::SYS_rename,
        libc::SYS_unlink,
        libc::SYS_mkdir,
        libc::SYS_rmdir,
        libc::SYS_link,
        libc::SYS_symlink,
        libc::SYS_creat,
    ],
);
#[cfg(not(target_arch = "x86_64"))]
const OLD: (&[c_long], &[c_long]) = (&[], &[]);

/// The numbers of `poll` and `select` of older machines.
#[cfg(target_arch = "x86_64")]
const OLD_WAITS: (c_long, c_long) = (libc::SYS_poll, libc::SYS_select);
#[cfg(not(target_arch = "x86_64"))]
const OLD_WAITS: (c_long, c_long) = (libc::SYS_ppoll, libc::SYS_pselect6);

/// `fcntl` with one of these waits for a lock (F_SETLKW, F_OFD_SETLKW).
const LOCKS: [u64; 2] = [7, 38];

/// Reads the line: `running`, or a call with its arguments, or -1 where a task waits outside of any.
pub(super) fn call(text: &str) -> Option<Call> {
    let text = text.trim();
    if text == "running" {
        return Some(Call::Running);
    }
    let mut words = text.split_whitespace();
    let number: c_long = words.next()?.parse().ok()?;
    if number < 0 {
        return Some(Call::Fault);
    }
    let args: Vec<u64> =
        words.filter_map(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()).collect();
    let arg = |index: usize| args.get(index).copied().unwrap_or(0);
    let file = || arg(0) as u32;
    Some(match number {
        libc::SYS_flock => Call::Lock(file()),
        libc::SYS_fcntl if LOCKS.contains(&arg(1)) => Call::Lock(file()),
        libc::SYS_nanosleep | libc::SYS_clock_nanosleep => Call::Sleep,
        libc::SYS_read | libc::SYS_readv | libc::SYS_recvfrom | libc::SYS_recvmsg => Call::Read(file()),
        libc::SYS_write | libc::SYS_writev | libc::SYS_sendto | libc::SYS_sendmsg | libc::SYS_sendfile => {
            Call::Write(file())
        }
        // It is the peer that is waited for, whatever happens to its data.
        libc::SYS_connect => Call::Read(file()),
        _ if number == libc::SYS_ppoll || number == OLD_WAITS.0 => Call::Poll(arg(0), arg(1)),
        _ if number == libc::SYS_pselect6 || number == OLD_WAITS.1 => {
            if arg(0) == 0 {
                Call::Sleep
            } else {
                Call::Select(arg(1), arg(0))
            }
        }
        _ if IDLE.contains(&number) || OLD.0.contains(&number) => Call::Idle,
        _ if FILE.contains(&number) || OLD.1.contains(&number) => Call::File,
        _ => Call::Other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel() {
        let line = |number: c_long, args: &str| call(&format!("{number} {args} 0x7ffe 0x7f42\n")).unwrap();
        assert_eq!(call("running\n"), Some(Call::Running));
        assert_eq!(call("-1 0x7ffe 0x7f42\n"), Some(Call::Fault));
        assert_eq!(line(libc::SYS_flock, "0x9 0x2"), Call::Lock(9));
        assert_eq!(line(libc::SYS_fcntl, "0x9 0x7"), Call::Lock(9));
        assert_eq!(line(libc::SYS_fcntl, "0x9 0x3"), Call::Other);
        assert_eq!(line(libc::SYS_recvfrom, "0x5 0x1 0x2"), Call::Read(5));
        assert_eq!(line(libc::SYS_ppoll, "0x7ff0 0x1"), Call::Poll(0x7ff0, 1));
        assert_eq!(line(libc::SYS_pselect6, "0x0 0x0"), Call::Sleep);
        assert_eq!(line(libc::SYS_accept4, "0x0"), Call::Idle);
        assert_eq!(line(libc::SYS_openat, "0x0"), Call::File);
        assert_eq!((call(""), call("x")), (None, None));
    }
}
