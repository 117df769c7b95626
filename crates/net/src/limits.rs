//! Every limit of this crate that is not a directive, with its unit in its name.

// background.rs

/// Jobs that wait at most.
pub const QUEUE_JOBS_MAX: usize = 1024;

// content.rs

/// Bytes in memory from this size on are sent from their file, if they stand in one: over loopback 20 kB cost 7.1 µs so and 7.8 by
/// writev(2), 60 kB 9.4 and 15.4.
pub const PLACED_BYTES_MIN: usize = 16 * 1024;
/// From the next time on in one second that they are asked for, the file is compared with them, and used.
pub const PLACE_USES_MIN: u32 = 4;
/// Descriptors that are kept open for this.
pub const PLACES_MAX: usize = 512;

// event_loop.rs

/// Events taken per wake-up: bounds the work before timers and other threads are heard again.
pub const EVENTS_MAX: usize = 512;
/// Turns without sleep after which deferred work is done: bounds how late lines of a log are.
pub const DEFERRED_TURNS_MAX: u32 = 8;
/// Looks for more events that are left out after one in vain: a call in sixteen turns for a loop that is idle between events.
pub const LOOKS_LEFT_OUT_MAX: u32 = 15;

// pipe.rs

/// Bytes that are passed on at once. Per MiB the relay's CPU over loopback was 550 µs with copies, 430 with a pipe of 64 KiB, 290 with
/// one of 256 KiB and 210 with one of 1 MiB; a user without rights has 64 MiB of pipes.
pub const PIPE_BYTES: usize = 256 * 1024;
/// Pipes of a thread that bytes are in: what receivers that do not read hold of the kernel's memory.
pub const PIPES_MAX: usize = 32;
/// Empty pipes that a thread keeps.
pub const PIPES_SPARE_MAX: usize = 8;

// tls.rs

/// Who sends less than this at a time does not have the kernel set up for it.
pub const KERNEL_BYTES_MIN: u64 = 64 * 1024;

// watch.rs

/// Symbolic links followed in one path, as the kernel's own limit.
pub const LINKS_MAX: usize = 40;
/// Names of one watched directory that are kept as a list; more are a tree.
pub const NAMES_LISTED_MAX: usize = 8;
/// Watches given back at once: fewer than the kernel has room for events by default (16,384).
pub const WATCHES_SWEPT_MAX: usize = 12_288;
/// Events taken in one [`Watcher::sync`]: four times what the kernel queues by default.
pub const EVENTS_PER_SYNC_MAX: usize = 65_536;

// udp.rs

/// Bytes of one message: the kernel puts datagrams of one sender together up to this (UDP_GRO).
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// Bytes that may wait in a socket to be read, where the system allows it.
pub const RECEIVE_ROOM_BYTES: i32 = 4 << 20;
/// Messages that wait because the socket takes none; what comes beyond is dropped, as a network does.
pub const OUTBOX_MESSAGES_MAX: usize = 1024;
/// Bytes of messages after which a socket's outbox is full: who fills it sends them before it makes more.
pub const OUTBOX_BYTES_MAX: usize = 4 << 20;
/// Messages of one call, at most.
pub const MESSAGES_MAX: usize = 16;
/// Datagrams of one message that the kernel splits (UDP_MAX_SEGMENTS of its older releases).
pub const SEGMENTS_MAX: usize = 64;
/// Bytes of such a message: what UDP over IPv4 has room for, less a little.
pub const SEGMENTED_BYTES_MAX: usize = 64_000;
/// Bytes of a datagram that is sent so on behalf of others: what is larger may have to be cut into fragments, which the kernel does only
/// to datagrams that are sent alone.
pub const SEGMENT_BYTES_MAX: usize = 1472;
/// Bytes that a batch takes before it is sent; one datagram is always taken.
pub const BATCH_BYTES_MAX: usize = 256 * 1024;
/// So long messages of many datagrams are split here after the kernel could not: one path may have room for less than others.
pub const SPLITTING_MS: u64 = 1000;
