//! What a worker does about the other workers of its server: it takes what they pass on, and tells them that it is there.

use super::passage::Message;
use super::turn;
use crate::conf::snapshot::Snapshot;
use crate::limits::PARCELS_PER_TURN_MAX;
use crate::shared::Shared;
use crate::table::Thread;
use brisk_net::Io;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

/// Makes what threads need before they listen on QUIC, if the configuration has them do so. True if it was not there before: then
/// [`open`] follows.
/// Keys must be there before the first packet: a token that is made without them could not be read by another
/// thread.
pub(crate) fn begin(shared: &Shared, snap: &Snapshot) -> bool {
    let listens = snap.listens.iter().any(|listen| listen.prefix.quic);
    listens && shared.quic.begin(snap.quic_host_key.as_ref().map(|key| &*key.0))
}

/// All threads serve: takes what other workers pass on, and tells them that this one is there.
/// Not before all threads serve: from the announcement on the other worker leaves new connections to this
/// one.
pub(crate) fn open(shared: &Arc<Shared>) {
    let Some(mailbox) = shared.mailboxes.first().and_then(OnceLock::get) else { return };
    mailbox.call(|| {
        if let Some(thread) = Thread::current() {
            brisk_net::spawn(take_parcels(thread));
        }
    });
}

/// One thread takes what comes for all of them.
/// One is enough: parcels come only while two workers have the same sockets.
async fn take_parcels(thread: Rc<Thread>) {
    let shared = thread.shared.clone();
    // The system lets workers find each other only where abstract sockets are allowed.
    let Some(passage) = shared.quic.passage() else { return };
    let Ok(fd) = passage.fd() else { return };
    let io = Io::local(fd);
    passage.announce();
    loop {
        io.readable().await;
        // Bounded, since the same thread serves connections.
        for _ in 0..PARCELS_PER_TURN_MAX {
            match passage.receive() {
                Some(Message::Packets(parcel)) => turn::take_parcel(&thread, &parcel),
                Some(Message::Successor) => hand_on(&shared),
                Some(Message::Nothing) => {}
                None => {
                    // The readiness is given back, and the next parcel wakes the task.
                    io.mark_drained();
                    break;
                }
            }
        }
        brisk_net::one_turn().await;
    }
}

/// Has each thread send to the successor what it has kept for one.
fn hand_on(shared: &Shared) {
    for mailbox in shared.mailboxes.iter().filter_map(OnceLock::get) {
        mailbox.call(|| {
            if let Some(thread) = Thread::current() {
                turn::hand_on(&thread);
            }
        });
    }
}
