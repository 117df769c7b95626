//! Every limit of this crate that is not a directive, with its unit in its name.

use std::time::Duration;

// burst.rs

/// Datagrams of one connection that leave in one message (GSO), at most, while nothing is lost; the library's pacer bounds what leaves
/// one after the other.
pub const SEGMENTS_MAX: usize = 32;
/// Datagrams that leave together after a loss, at most: as many as policers with small buckets let through.
pub const SEGMENTS_AFTER_LOSS: usize = 5;
/// Datagrams that leave together however often some are lost.
pub const SEGMENTS_SPREAD_MIN: usize = 2;
/// From so many on batches are not spread any more: the library's pacer lets as many leave at any time.
pub const SEGMENTS_SPREAD_MAX: usize = 10;
/// How long nothing may be lost for a batch to have one datagram more.
pub const SPREAD_GROWTH_TIME: Duration = Duration::from_secs(1);
/// Pauses between batches at most, so that a short answer on a slow path is not late; the pacer still has its bound.
pub const SPREAD_GAP_MAX: Duration = Duration::from_millis(4);
/// A batch that is due within this time leaves at once: timers are not much more exact.
pub const SPREAD_STEP: Duration = Duration::from_micros(250);
/// So much lateness is made up for.
pub const SPREAD_LATE_MAX: Duration = Duration::from_millis(1);

// cid.rs

/// Threads that can have connections: the first byte of a connection ID tells them apart.
pub const THREADS_MAX: usize = 256;

// endpoint.rs

/// Handshakes under way in one thread; from there on packets that would begin one are ignored, and clients send them again.
pub const HALF_OPEN_MAX: usize = 1024;
/// Handshakes under way in one thread from which on `quic_retry auto` has addresses validated first.
pub const HALF_OPEN_RETRY: usize = 100;
/// How long a handshake may take; a shorter `client_header_timeout` holds instead.
pub const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(30);
/// Datagrams of one thread that may begin connections and wait until those that are there have been served.
pub const FIRST_MAX: usize = 256;
/// Bytes that they hold, at most: as many of the largest that are usual.
pub const FIRST_BYTES_MAX: usize = FIRST_MAX * PAYLOAD_BYTES_MAX as usize;
/// Bytes of one message with several datagrams: what UDP has room for, less a little.
pub const SEGMENTED_BYTES_MAX: usize = 64_000;
/// Messages of one connection before the others have their turn.
pub const SENDS_PER_TURN_MAX: usize = 4;
/// Buffers for datagrams that are kept for the next ones.
pub const SPARE_BUFFERS_MAX: usize = 32;
/// Packets of connections that are not accepted yet: none waits here, since connections are accepted at once.
pub const INCOMING_MAX: usize = 64;
/// Bytes that such packets hold, at most.
pub const INCOMING_BYTES_MAX: u64 = 8 * 1024;

// resets.rs

/// Stateless resets of one thread that may leave together: the clients of a process that has crashed.
pub const RESETS_AT_ONCE_MAX: u32 = 1024;
/// From there on, one in this time.
pub const RESET_INTERVAL: Duration = Duration::from_millis(1);

// settings.rs

/// Streams of requests that a client may have open at first; more are allowed while it uses them.
pub const STREAMS_AT_FIRST: u64 = 16;
/// Streams of one direction that a client may have open: HTTP/3's control stream, QPACK's two (RFC 9114 §6.2).
pub const UNI_STREAMS_MAX: u32 = 3;
/// Bytes that a client may send on all streams together before they are read.
pub const RECEIVE_WINDOW_BYTES_MAX: u32 = 1 << 20;
/// Bytes that are sent and not acknowledged, or wait to be sent, on all streams of a connection. It grows with the congestion window,
/// so that a path of which that is large does not run dry.
pub const SEND_WINDOW_BYTES_MAX: u64 = 2 << 20;
/// The same for a connection that has not shown yet that it needs more.
pub const SEND_WINDOW_BYTES_MIN: u64 = 256 * 1024;
/// UDP payloads that are tried with clients on the same machine, where packets may be large; clients say how much they take.
pub const LOCAL_PAYLOAD_BYTES: u16 = 8 * 1024;
/// The first congestion window there: beside such a packet, which counts as data under way, answers are to leave.
pub const LOCAL_WINDOW_BYTES: u64 = 32 * 1024;
/// How exactly the largest payload is found there: with two packets where all of them pass. Most connections are short.
pub const LOCAL_PAYLOAD_STEP_BYTES: u16 = 2048;
/// Connection IDs of a client that are kept (`active_connection_id_limit`, RFC 9000 §5.1.1); the library's number.
pub const PEER_CIDS_MAX: u64 = 5;
/// Bytes of a handshake that have come out of order.
pub const CRYPTO_BYTES_MAX: usize = 16 * 1024;
/// UDP payloads that are taken: what goes through Ethernet.
pub const PAYLOAD_BYTES_MAX: u16 = 1472;

// client.rs

/// Streams of one direction that a server may open with a client of ours: HTTP/3's three, and some of kinds that nobody knows.
pub const CLIENT_STREAMS_MAX: u32 = 16;
/// Bytes that a server may send on one stream before they are read.
pub const CLIENT_STREAM_BYTES_MAX: u32 = 4 << 20;
/// Bytes that a server may send on all streams of a connection before they are read.
pub const CLIENT_WINDOW_BYTES_MAX: u32 = 16 << 20;
/// UDP payloads that a client takes: any.
pub const CLIENT_PAYLOAD_BYTES_MAX: u16 = 65_527;
/// Buffers for datagrams that a client keeps for the next ones.
pub const CLIENT_SPARE_BUFFERS_MAX: usize = 4;

// connection.rs

/// Bytes that are sent to an address that is not validated, for each that came from there (RFC 9000 §8.1).
pub const AMPLIFICATION_MAX: usize = 3;
/// Such addresses of one connection that are counted apart; nothing is sent to others.
pub const UNVALIDATED_ADDRESSES_MAX: usize = 4;
/// What a connection holds beside buffers, measured with the streams it may have at first.
pub const CONNECTION_BYTES: u64 = 28 * 1024;
/// What an open stream holds beside buffers.
pub const STREAM_BYTES: u64 = 512;
