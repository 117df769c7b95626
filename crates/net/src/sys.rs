//! The system calls that no safe wrapper offers. Every `unsafe` block of the workspace is here or in its one part, `udp`.

pub mod udp;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, Signal};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_keep_capabilities};
use std::ffi::{CStr, CString};
use std::io;
use std::mem::offset_of;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Waits for events for so many microseconds at most; what came is appended to `events`, as far as there is room. False if this
/// kernel cannot (before 5.11, or a filter refuses): then nothing has been waited for.
pub fn epoll_wait_us(
    set: BorrowedFd<'_>,
    events: &mut Vec<rustix::event::epoll::Event>,
    timeout_us: u64,
) -> rustix::io::Result<bool> {
    let timeout = libc::timespec {
        tv_sec: (timeout_us / 1_000_000) as _,
        tv_nsec: (timeout_us % 1_000_000 * 1000) as _,
    };
    let room = events.spare_capacity_mut();
    let (at, len) = (room.as_mut_ptr(), room.len() as libc::c_int);
    // SAFETY: the kernel writes at most `len` events into the room, which rustix declares as the kernel does, and reads the
    // timeout; it is given no signal mask. As many as it says are initialised then.
    let count = unsafe {
        let mask = std::ptr::null::<libc::sigset_t>();
        libc::syscall(libc::SYS_epoll_pwait2, set.as_raw_fd(), at, len, &raw const timeout, mask, 8usize)
    };
    match usize::try_from(count) {
        Ok(count) => {
            // SAFETY: see above.
            unsafe { events.set_len(events.len() + count) };
            Ok(true)
        }
        Err(_) => match Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO) {
            Errno::NOSYS | Errno::PERM => Ok(false),
            error => Err(error),
        },
    }
}

/// Sets an integer option of the TCP level.
pub fn set_tcp_option(fd: BorrowedFd<'_>, option: i32, value: i32) -> io::Result<()> {
    set_option(fd, libc::IPPROTO_TCP, option, value)
}

/// An integer option of this level.
pub fn option(fd: BorrowedFd<'_>, level: i32, option: i32) -> io::Result<i32> {
    let (mut value, mut len) = (0i32, size_of::<i32>() as libc::socklen_t);
    let into = (&raw mut value).cast();
    // SAFETY: the kernel writes at most `len` bytes into `value`.
    check(unsafe { libc::getsockopt(fd.as_raw_fd(), level, option, into, &raw mut len) }).map(|_| value)
}

fn set_option(fd: BorrowedFd<'_>, level: i32, option: i32, value: i32) -> io::Result<()> {
    set_bytes(fd, level, option, &value.to_ne_bytes())
}

fn set_bytes(fd: BorrowedFd<'_>, level: i32, option: i32, value: &[u8]) -> io::Result<()> {
    let len = value.len() as libc::socklen_t;
    // SAFETY: `value` outlives the call and its size is given.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, value.as_ptr().cast(), len) }).map(drop)
}

/// Options of `SOL_TLS` (`linux/tls.h`).
const TLS_TX: i32 = 1;
const TLS_SET_RECORD_TYPE: i32 = 1;

/// Has the kernel seal what is written to a connected TCP socket from now on. `info` is a `struct tls12_crypto_info_…`.
/// After an error the socket is as before: without keys the protocol layer hands everything through.
pub fn seal_in_kernel(socket: BorrowedFd<'_>, info: &[u8]) -> io::Result<()> {
    set_bytes(socket, libc::IPPROTO_TCP, libc::TCP_ULP, b"tls")?;
    set_bytes(socket, libc::SOL_TLS, TLS_TX, info)
}

/// Sends a TLS record of this type, other than data, where the kernel seals.
pub fn send_tls_record(socket: BorrowedFd<'_>, kind: u8, plain: &[u8]) -> rustix::io::Result<usize> {
    let mut piece = libc::iovec { iov_base: plain.as_ptr().cast_mut().cast(), iov_len: plain.len() };
    // Aligned as a header must be, with room for it and one byte.
    let mut control = [0u64; 4];
    // SAFETY: the message's zero pattern is valid, what it points to outlives the call, and sendmsg writes to none of it.
    // CMSG_SPACE of one byte is 24, so header and data lie in `control`.
    let sent = unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut piece;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(1) as _;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_TLS;
        (*header).cmsg_type = TLS_SET_RECORD_TYPE;
        (*header).cmsg_len = libc::CMSG_LEN(1) as _;
        *libc::CMSG_DATA(header) = kind;
        libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL)
    };
    let error = || Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO);
    usize::try_from(sent).map_err(|_| error())
}

/// Lets a socket be bound to an address that is not ours.
pub fn set_transparent(fd: BorrowedFd<'_>, is_v6: bool) -> io::Result<()> {
    let (level, option) = if is_v6 {
        (libc::IPPROTO_IPV6, libc::IPV6_TRANSPARENT)
    } else {
        (libc::IPPROTO_IP, libc::IP_TRANSPARENT)
    };
    set_option(fd, level, option, 1)
}

/// Leaves the choice of the local port to `connect`.
pub fn set_bind_no_port(fd: BorrowedFd<'_>) -> io::Result<()> {
    set_option(fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)
}

/// Which side of a fork one is on.
#[derive(Debug, PartialEq, Eq)]
pub enum Fork {
    /// The parent, with the child's process id.
    Parent(i32),
    /// The child.
    Child,
}

/// Forks. Only for a process with a single thread: the child inherits memory in the middle of nothing.
///
/// # Panics
/// If the process has more than one thread.
pub fn fork() -> io::Result<Fork> {
    let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    assert_eq!(threads, 1, "fork() in a process with several threads");
    // SAFETY: the process has one thread, so no lock can be held by another in the child.
    match check(unsafe { libc::fork() })? {
        0 => Ok(Fork::Child),
        pid => Ok(Fork::Parent(pid)),
    }
}

/// Starts a new session (`setsid`), for going into the background.
pub fn new_session() -> io::Result<()> {
    // SAFETY: no memory is passed.
    check(unsafe { libc::setsid() }).map(drop)
}

/// Blocks `signals` for the calling thread (and those it starts) and returns a non-blocking signalfd for them.
pub fn signal_fd(signals: &[i32]) -> io::Result<OwnedFd> {
    let set = signal_set(signals);
    // SAFETY: `set` is initialised; a fresh descriptor is owned by nobody else.
    unsafe {
        check(libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()))?;
        let fd = check(libc::signalfd(-1, &raw const set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Unblocks all signals: a child must not inherit the parent's mask across `exec`.
pub fn unblock_signals() {
    let set = signal_set(&[]);
    // SAFETY: `set` is initialised.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
    }
}

/// Has a command's process start with no signal blocked.
pub fn unblock_signals_in(command: &mut std::process::Command) {
    use std::os::unix::process::CommandExt as _;
    // SAFETY: between fork and exec only async-signal-safe functions run: sigprocmask is one.
    unsafe {
        command.pre_exec(|| {
            unblock_signals();
            Ok(())
        });
    }
}

/// An account that a process may become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

/// The groups that a user is in, `gid` among them. Not for use beside other threads that look up users.
pub fn groups(name: &str, gid: u32) -> Vec<u32> {
    let Ok(name) = CString::new(name) else { return vec![gid] };
    let mut groups = vec![0; 64];
    loop {
        let mut count = groups.len() as libc::c_int;
        // SAFETY: `groups` has room for `count` entries, and `name` is a C string.
        let found = unsafe { libc::getgrouplist(name.as_ptr(), gid, groups.as_mut_ptr(), &raw mut count) };
        let count = usize::try_from(count).unwrap_or(0);
        if found >= 0 {
            groups.truncate(count);
            return groups;
        }
        if count <= groups.len() {
            return vec![gid];
        }
        groups.resize(count, 0);
    }
}

/// What a child process may, and when it ends.
#[derive(Debug)]
pub struct Confinement {
    /// `None`: the user of this process.
    pub account: Option<Account>,
    /// Resource limits.
    pub limits: Vec<(Resource, Rlimit)>,
    /// Sent to it by the kernel when the thread ends that has started it; `None`: it goes on.
    pub death_signal: Option<Signal>,
    /// What it has open from the start besides: its numbers are 3, 4, …
    pub descriptors: Vec<OwnedFd>,
}

/// The first number that [`Confinement::descriptors`] do not get.
const ABOVE_DESCRIPTORS: RawFd = 64;

/// Has a command's process start so confined, with no signal blocked and no capability handed down. Its start fails if this cannot be done.
pub fn confine(command: &mut std::process::Command, confinement: Confinement) -> io::Result<()> {
    use std::os::unix::process::CommandExt as _;
    let parent = rustix::process::getpid();
    // Out of the way of the numbers that they get, so that none is closed for another one.
    let raise = |fd: &OwnedFd| rustix::io::fcntl_dupfd_cloexec(fd, ABOVE_DESCRIPTORS);
    let descriptors = confinement.descriptors.iter().map(raise).collect::<Result<Vec<OwnedFd>, _>>()?;
    let apply = move || -> io::Result<()> {
        unblock_signals();
        for (number, fd) in (3..).zip(&descriptors) {
            // SAFETY: both numbers are plain descriptors; the copy is not closed by the execution that follows.
            check(unsafe { libc::dup2(fd.as_raw_fd(), number) })?;
        }
        for (resource, limit) in &confinement.limits {
            rustix::process::setrlimit(*resource, *limit)?;
        }
        if let Some(Account { uid, gid, groups }) = &confinement.account {
            // SAFETY: `groups` is as long as is said. The user goes last: afterwards we may not any more.
            unsafe {
                check(libc::setgroups(groups.len(), groups.as_ptr()))?;
                check(libc::setgid(*gid))?;
                check(libc::setuid(*uid))?;
            }
        }
        // What this process was given to be no root, such as CAP_NET_BIND_SERVICE, is not for others. A kernel that knows of none has none.
        match rustix::thread::clear_ambient_capability_set() {
            Ok(()) | Err(rustix::io::Errno::INVAL) => {}
            Err(error) => return Err(error.into()),
        }
        // After the change of the user, which takes it back (prctl(2)).
        rustix::process::set_parent_process_death_signal(confinement.death_signal)?;
        if confinement.death_signal.is_some() && rustix::process::getppid() != Some(parent) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(())
    };
    // SAFETY: between fork and exec only async-signal-safe functions run: system calls without locks or memory of their own.
    unsafe {
        command.pre_exec(apply);
    }
    Ok(())
}

/// Ignores a signal from now on.
pub fn ignore_signal(signal: i32) {
    // SAFETY: SIG_IGN installs no handler.
    unsafe {
        libc::signal(signal, libc::SIG_IGN);
    }
}

/// A signal and the process that has sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signalled {
    /// The signal's number.
    pub number: i32,
    /// 0: the kernel, or a process that is not seen from here.
    pub pid: u32,
    /// The sender's user id.
    pub uid: u32,
}

/// Takes one signal from a signalfd.
pub fn read_signal(fd: BorrowedFd<'_>) -> Option<Signalled> {
    let mut buf = [0u8; size_of::<libc::signalfd_siginfo>()];
    let count = rustix::io::read(fd, &mut buf).ok()?;
    let field = |at: usize| u32::from_ne_bytes([buf[at], buf[at + 1], buf[at + 2], buf[at + 3]]);
    let (number, pid, uid) = (
        field(offset_of!(libc::signalfd_siginfo, ssi_signo)) as i32,
        field(offset_of!(libc::signalfd_siginfo, ssi_pid)),
        field(offset_of!(libc::signalfd_siginfo, ssi_uid)),
    );
    (count == buf.len()).then_some(Signalled { number, pid, uid })
}

/// Whether SIGHUP is ignored, as nohup(1) has it. A signalfd gives blocked signals that are ignored, too.
pub fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & (1 << (libc::SIGHUP - 1)) != 0
}

fn signal_set(signals: &[i32]) -> libc::sigset_t {
    // SAFETY: sigemptyset initialises the set that sigaddset then changes.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for &signal in signals {
            libc::sigaddset(&raw mut set, signal);
        }
        set
    }
}

/// A user of the password database.
pub struct User {
    /// User id.
    pub uid: u32,
    /// Id of the user's own group.
    pub gid: u32,
}

/// Looks a user up by name. Not for use beside other threads that do the same.
pub fn user(name: &str) -> Option<User> {
    let name = CString::new(name).ok()?;
    // SAFETY: the pointer is checked and read before any other call that could overwrite the record.
    unsafe {
        let entry = libc::getpwnam(name.as_ptr());
        (!entry.is_null()).then(|| User { uid: (*entry).pw_uid, gid: (*entry).pw_gid })
    }
}

/// The IP addresses of this machine's interfaces that are up, in the system's order.
pub fn interface_addresses() -> Vec<IpAddr> {
    let mut list = std::ptr::null_mut();
    // SAFETY: `list` is where the call puts its result.
    if check(unsafe { libc::getifaddrs(&raw mut list) }).is_err() {
        return Vec::new();
    }
    let mut out = Vec::new();
    let mut at: *const libc::ifaddrs = list;
    while !at.is_null() {
        // SAFETY: the list is ours until it is freed below; an address is as large as its family says.
        unsafe {
            let entry = &*at;
            let is_up = entry.ifa_flags & libc::IFF_UP as libc::c_uint != 0;
            if is_up && !entry.ifa_addr.is_null() {
                match i32::from((*entry.ifa_addr).sa_family) {
                    libc::AF_INET => {
                        let address = entry.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned();
                        out.push(IpAddr::V4(u32::from_be(address.sin_addr.s_addr).into()));
                    }
                    libc::AF_INET6 => {
                        let address = entry.ifa_addr.cast::<libc::sockaddr_in6>().read_unaligned();
                        out.push(IpAddr::V6(address.sin6_addr.s6_addr.into()));
                    }
                    _ => {}
                }
            }
            at = entry.ifa_next;
        }
    }
    // SAFETY: the list came from `getifaddrs` and is not used any more.
    unsafe { libc::freeifaddrs(list) };
    out
}

/// Looks a group up by name.
pub fn group(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    // SAFETY: as in `user`.
    unsafe {
        let entry = libc::getgrnam(name.as_ptr());
        (!entry.is_null()).then(|| (*entry).gr_gid)
    }
}

/// Becomes `user`/`group` for good, supplementary groups included. Of root's rights those in `keep` are kept, as far as this
/// process has them. To be called before there are threads.
pub fn drop_privileges(name: &str, uid: u32, gid: u32, keep: CapabilitySet) -> io::Result<()> {
    let name = CString::new(name).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let keeps = !keep.is_empty() && uid != 0 && rustix::process::geteuid().is_root();
    if keeps {
        set_keep_capabilities(true)?;
    }
    // SAFETY: `name` is a C string that outlives the calls. The group goes first: afterwards we may not any more.
    unsafe {
        check(libc::setgid(gid))?;
        check(libc::initgroups(name.as_ptr(), gid))?;
        check(libc::setuid(uid))?;
    }
    if keeps {
        let only = keep & capabilities(None)?.permitted;
        let inheritable = CapabilitySet::empty();
        set_capabilities(None, CapabilitySets { effective: only, permitted: only, inheritable })?;
    }
    Ok(())
}

/// Sets the nice value of the process.
pub fn set_priority(value: i32) -> io::Result<()> {
    // SAFETY: no memory is passed.
    check(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, value) }).map(drop)
}

/// Allows core dumps of a process that has changed its user.
pub fn set_dumpable() {
    // SAFETY: no memory is passed.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0);
    }
}

/// Has memory given out in small pages only, here and in children: a huge page that holds a few small objects is
/// resident as a whole, which is most of what a small server would occupy.
pub fn disable_huge_pages() {
    // SAFETY: no memory is passed.
    unsafe {
        libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0);
    }
}

/// Takes the program's code and constants out of this process's memory: what is needed again comes back from the page cache, one cheap
/// fault for each few pages; what only the start needed (most of it) is not resident any more.
pub fn forget_code() {
    /// What the program's file says of its segments. Nothing is read from `/proc`, whose `smaps` takes milliseconds.
    unsafe extern "C" fn forget(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        _data: *mut libc::c_void,
    ) -> libc::c_int {
        // SAFETY: the loader passes a structure that is valid during the call, with so many headers.
        let (base, headers) = unsafe {
            let info = &*info;
            (
                info.dlpi_addr as usize,
                std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)),
            )
        };
        let page = rustix::param::page_size();
        for header in headers {
            if header.p_type != libc::PT_LOAD || header.p_flags & libc::PF_W != 0 {
                continue;
            }
            let start = base + header.p_vaddr as usize;
            let from = start / page * page;
            let to = (start + header.p_memsz as usize).next_multiple_of(page);
            // SAFETY: a segment that is not writable was never written, not by the loader either, which relocates writable ones only. So its pages
            // read the same whenever they come back.
            unsafe {
                libc::madvise(from as *mut libc::c_void, to - from, libc::MADV_DONTNEED);
            }
        }
        // The program is the first one. Libraries are shared with others.
        1
    }
    // SAFETY: the function keeps nothing of what it is given.
    unsafe {
        libc::dl_iterate_phdr(Some(forget), std::ptr::null_mut());
    }
}

/// Bytes that the allocator has from the system: for processes that cannot ask the system.
pub fn committed_memory() -> u64 {
    let [mut elapsed, mut user, mut system, mut rss, mut peak, mut commit, mut most, mut faults] =
        [0usize; 8];
    // SAFETY: each pointer is to a number of its own, which lives through the call; mimalloc only writes to them.
    unsafe {
        libmimalloc_sys::mi_process_info(
            &raw mut elapsed,
            &raw mut user,
            &raw mut system,
            &raw mut rss,
            &raw mut peak,
            &raw mut commit,
            &raw mut most,
            &raw mut faults,
        );
    }
    commit as u64
}

/// Gives freed memory back to the system now: for a process that has just dropped most of what it had.
pub fn release_free_memory() {
    // SAFETY: mimalloc is the program's allocator or unused; collecting is always allowed.
    unsafe {
        libmimalloc_sys::mi_collect(true);
    }
}

/// Broken-down local time.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalTime {
    /// The year, such as 2026.
    pub year: i32,
    /// 1–12.
    pub month: u32,
    /// Of the month, from 1.
    pub day: u32,
    /// 0–23.
    pub hour: u32,
    /// 0–59.
    pub minute: u32,
    /// 0–60: a leap second counts.
    pub second: u32,
    /// Offset from UTC in minutes.
    pub offset_minutes: i32,
}

/// Local time by the `TZ` variable or the system's zone, summer time included.
pub fn local_time(unix_secs: i64) -> LocalTime {
    // SAFETY: localtime_r fills `tm`, whose zero pattern is valid; a failure leaves it zero.
    let tm = unsafe {
        let mut tm: libc::tm = std::mem::zeroed();
        libc::localtime_r(&raw const unix_secs, &raw mut tm);
        tm
    };
    LocalTime {
        year: tm.tm_year + 1900,
        month: tm.tm_mon as u32 + 1,
        day: tm.tm_mday as u32,
        hour: tm.tm_hour as u32,
        minute: tm.tm_min as u32,
        second: tm.tm_sec as u32,
        offset_minutes: (tm.tm_gmtoff / 60) as i32,
    }
}

/// What the kernel knows of a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpInfo {
    /// The smoothed round-trip time, in microseconds.
    pub rtt_us: u32,
    /// Its variation, in microseconds.
    pub rtt_variation_us: u32,
    /// The congestion window, in segments (`tcpi_snd_cwnd`).
    pub send_window_segments: u32,
    /// What the kernel makes room for on the receiving side, in bytes (`tcpi_rcv_space`).
    pub receive_space_bytes: u32,
}

/// `TCP_INFO`; an error for sockets of other kinds.
pub fn tcp_info(socket: BorrowedFd<'_>) -> io::Result<TcpInfo> {
    // SAFETY: the kernel writes at most `len` bytes into `info`, whose zero pattern is valid.
    let info = unsafe {
        let mut info: libc::tcp_info = std::mem::zeroed();
        let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
        let into = (&raw mut info).cast();
        check(libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, into, &raw mut len))?;
        info
    };
    Ok(TcpInfo {
        rtt_us: info.tcpi_rtt,
        rtt_variation_us: info.tcpi_rttvar,
        send_window_segments: info.tcpi_snd_cwnd,
        receive_space_bytes: info.tcpi_rcv_space,
    })
}

/// The abbreviation of the local zone at this time: `CET`, `CEST`, `UTC`, …
pub fn time_zone(unix_secs: i64) -> String {
    let mut name = [0u8; 32];
    // SAFETY: as in `local_time`; strftime writes at most the buffer's length and reads `tm`, whose zone points to a
    // string that lives as long as the C library's table of zones.
    let len = unsafe {
        let mut tm: libc::tm = std::mem::zeroed();
        libc::localtime_r(&raw const unix_secs, &raw mut tm);
        libc::strftime(name.as_mut_ptr().cast(), name.len(), c"%Z".as_ptr(), &raw const tm)
    };
    String::from_utf8_lossy(&name[..len]).into_owned()
}

/// Makes the environment exactly this. Only for a process with a single thread.
///
/// # Panics
/// If the process has more than one thread.
pub fn set_environment(wanted: &[(String, String)]) {
    let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    assert_eq!(threads, 1, "changing the environment beside other threads");
    let old: Vec<_> = std::env::vars_os().map(|(name, _)| name).collect();
    // SAFETY: no other thread can be reading the environment, as just checked.
    unsafe {
        old.iter().for_each(|name| std::env::remove_var(name));
        wanted.iter().for_each(|(name, value)| std::env::set_var(name, value));
    }
}

/// Where `ps` reads a process's command line: the memory of its first arguments and environment.
pub struct ProcessTitle {
    start: usize,
    len: usize,
}

impl ProcessTitle {
    /// Frees that memory for titles: the environment moves elsewhere. The arguments are lost, so they must have been read.
    /// `None` where `/proc` does not say where it is. Only for a process with a single thread.
    pub fn take() -> Option<ProcessTitle> {
        if std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count) != 1 {
            return None;
        }
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        // proc(5): arg_start, arg_end, env_start and env_end are fields 48 to 51; what follows the name begins with field 3.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<usize>().ok();
        let (start, arg_end, env_start, env_end) = (field(48)?, field(49)?, field(50)?, field(51)?);
        // The kernel lays them out so; a process that was restored from a checkpoint may differ.
        let end = if env_start == arg_end { env_end } else { arg_end };
        if start == 0 || end <= start {
            return None;
        }
        for (name, value) in std::env::vars_os() {
            // SAFETY: no other thread can be reading the environment, as just checked.
            unsafe { std::env::set_var(name, value) };
        }
        Some(ProcessTitle { start, len: end - start })
    }

    /// From now on `ps` shows `text`, as far as there is room.
    pub fn set(&self, text: &str) {
        let text = &text.as_bytes()[..text.len().min(self.len - 1)];
        // SAFETY: these bytes are this process's own stack, where the kernel has put arguments and environment. They stay
        // mapped and writable as long as it lives. `take` has moved the environment, the arguments are not read any more,
        // and whoever owns the title owns the only way to write here.
        unsafe {
            let at = std::ptr::with_exposed_provenance_mut::<u8>(self.start);
            std::ptr::copy_nonoverlapping(text.as_ptr(), at, text.len());
            std::ptr::write_bytes(at.add(text.len()), 0, self.len - text.len());
        }
    }
}

/// The host's name.
pub fn hostname() -> String {
    let mut buf = [0u8; 256];
    // SAFETY: the buffer and its size are given, less one byte so that it ends with NUL.
    if unsafe { libc::gethostname(buf.as_mut_ptr().cast(), buf.len() - 1) } != 0 {
        return "localhost".into();
    }
    CStr::from_bytes_until_nul(&buf).map_or_else(|_| String::new(), |s| s.to_string_lossy().into_owned())
}

/// Takes ownership of a descriptor that was inherited by number (`LISTEN_FDS`, `NGINX`).
///
/// The caller vouches that the number names an open descriptor which nothing else in the process owns; a closed
/// number is an error.
pub fn inherited(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: F_GETFD only asks whether the number is open.
    check(unsafe { libc::fcntl(fd, libc::F_GETFD) })?;
    // SAFETY: open, as just checked, and unowned by the caller's promise.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets or clears close-on-exec.
pub fn set_cloexec(fd: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    let flags = if on { rustix::io::FdFlags::CLOEXEC } else { rustix::io::FdFlags::empty() };
    Ok(rustix::io::fcntl_setfd(fd, flags)?)
}

/// Makes `target`'s number refer to what `source` refers to, atomically for all threads.
pub fn replace_fd(source: BorrowedFd<'_>, target: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: both numbers are open; ownership of numbers does not change.
    check(unsafe { libc::dup3(source.as_raw_fd(), target.as_raw_fd(), libc::O_CLOEXEC) }).map(drop)
}

/// Ends the process at once, without running anything that belongs to a parent's memory image.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: does not return.
    unsafe { libc::_exit(code) }
}

/// Re-reads `TZ` and the zone files.
pub fn load_time_zone() {
    unsafe extern "C" {
        fn tzset();
    }
    // SAFETY: called before other threads run.
    unsafe { tzset() }
}

#[cfg(test)]
mod tests {
    #[test]
    fn forgotten_code_comes_back() {
        super::forget_code();
        assert_eq!(std::hint::black_box(|| "there")(), "there");
    }
}
