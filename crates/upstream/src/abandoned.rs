//! Processes of a pool that go on with a request which has ended here: its client has gone, an answer took too long, or the script goes on
//! behind its answer. Such a process takes no other request, so its place stays taken until it closes the connection.
//!
//! The connection's sending side is closed, so a process that looks hears that nothing more is wanted; what it sends is dropped. One that
//! has finished meanwhile, and waits for its next request, hears the end and closes.

use crate::link::Stream;
use crate::occupancy::Connected;
use crate::scratch::scratch;
use brisk_balance::Seat;
use brisk_net::{Io, Loop, clock};
use std::future::poll_fn;
use std::task::{Context, Poll, ready};

/// Output that comes later than this is of a process that does not look, so the connection is closed, which its next write tells it.
/// A second is far more than a process needs to hear of the end while it prints.
const LOOK_MS: u64 = 1000;

/// Waits for the end of a connection that occupies a process.
pub(crate) fn watch(seat: &Seat, stream: &Stream, occupancy: Option<Connected>) {
    // The thread may be over: then the process hears of the end of everything.
    if Loop::try_current().is_none() {
        return;
    }
    // A copy of the descriptor, since the link is dropped by its caller and takes its registration with it.
    let Ok(fd) = stream.hand_over() else { return };
    let place = seat.occupy();
    let stream = Stream::from(Io::local(fd));
    // The task holds the place and the connection's count. The pool gives the process no request until both
    // are dropped, which is when the process has closed the connection or writes to a closed one.
    brisk_net::spawn(async move {
        let until_ms = clock::mono_ms() + LOOK_MS;
        let _ = poll_fn(|cx| stream.poll_shutdown_write(cx)).await;
        poll_fn(|cx| poll_end(&stream, until_ms, cx)).await;
        drop((stream, occupancy, place));
    });
}

/// Drops what comes; ready at the end of the connection.
fn poll_end(stream: &Stream, until_ms: u64, cx: &mut Context<'_>) -> Poll<()> {
    loop {
        // Nothing is written here, so the end of the process is found by reading only.
        ready!(stream.poll_readable(cx));
        let has_ended = scratch(|buf| match stream.try_read(buf) {
            Ok(0) => true,
            // Until then what comes is what had been on its way when the request ended.
            Ok(_) => clock::mono_ms() > until_ms,
            Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
        });
        if has_ended {
            return Poll::Ready(());
        }
    }
}
