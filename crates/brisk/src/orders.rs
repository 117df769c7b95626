//! What master and worker say to each other. Every order has a number, and every reply names the order that it answers: a late
//! reply is never taken for the answer to the next order.

use crate::channel::Parcel;
use rustix::fd::OwnedFd;
use std::io;
use std::time::Duration;

/// The number under which a worker says that it serves, or why it does not: its start is the order.
pub const START: u64 = 0;

/// To the worker.
#[derive(Debug)]
pub enum Order {
    /// Serve this configuration. `bundle` is its text; then come as many descriptors as the configuration has new sockets and
    /// logs, in its order.
    Configure { generation: u64, bundle: Vec<u8>, fds: Vec<OwnedFd> },
    /// These files have changed (a bundle), with certificates and keys in them.
    Certificates { files: Vec<u8> },
    /// Write to these from now on; `which` are their places in the worker's list of logs.
    Reopen { which: Vec<u32>, fds: Vec<OwnedFd> },
    /// An operator's order to the caches.
    Purge { order: String },
    /// The control socket is another one from now on.
    Control { listener: OwnedFd },
    /// Accept nothing more (it answers when that is so), finish what runs, then end. `server_ends`: no other server takes over, so the
    /// death of the master ends what still runs.
    Quit { server_ends: bool },
    /// End now. It has no answer but the end.
    Stop,
}

/// From the worker.
#[derive(Debug)]
pub enum Reply {
    /// The order is carried out.
    Done,
    /// The caches have let go of so many entries of which nothing was on disk.
    Purged { count: u64 },
    /// The order could not be carried out. Everything is as it was.
    Failed { reason: String },
    /// From a worker that has lost its master, to the one that takes it over: its generation, and its control socket, token
    /// and listening sockets.
    Heritage { generation: u64, fds: Vec<OwnedFd> },
}

impl Order {
    /// As it travels. After `until` a worker refuses it: the master has decided otherwise by then.
    pub fn into_parcel(self, id: u64, until: Duration) -> Parcel {
        let until = u64::try_from(until.as_nanos()).unwrap_or(u64::MAX);
        let empty = Parcel { id, until, ..Parcel::default() };
        match self {
            Order::Configure { generation, bundle, fds } => {
                Parcel { kind: b'c', number: generation, payload: bundle, fds, ..empty }
            }
            Order::Certificates { files } => Parcel { kind: b't', payload: files, ..empty },
            Order::Reopen { which, fds } => {
                let payload = which.iter().flat_map(|place| place.to_le_bytes()).collect();
                Parcel { kind: b'r', payload, fds, ..empty }
            }
            Order::Purge { order } => Parcel { kind: b'p', payload: order.into_bytes(), ..empty },
            Order::Control { listener } => Parcel { kind: b'l', fds: vec![listener], ..empty },
            Order::Quit { server_ends } => Parcel { kind: b'q', number: server_ends.into(), ..empty },
            Order::Stop => Parcel { kind: b's', ..empty },
        }
    }

    /// The reverse.
    pub fn from_parcel(parcel: Parcel) -> io::Result<Order> {
        let Parcel { kind, number, payload, mut fds, .. } = parcel;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(match kind {
            b'c' => Order::Configure { generation: number, bundle: payload, fds },
            b't' => Order::Certificates { files: payload },
            b'r' => {
                let (places, _) = payload.as_chunks::<4>();
                let which = places.iter().map(|place| u32::from_le_bytes(*place)).collect();
                Order::Reopen { which, fds }
            }
            b'p' => Order::Purge { order: text(payload) },
            b'l' => Order::Control { listener: fds.pop().ok_or_else(unknown)? },
            b'q' => Order::Quit { server_ends: number != 0 },
            b's' => Order::Stop,
            _ => return Err(unknown()),
        })
    }
}

impl Reply {
    /// As it travels.
    pub fn into_parcel(self, id: u64) -> Parcel {
        let empty = Parcel { id, ..Parcel::default() };
        match self {
            Reply::Done => Parcel { kind: b'd', ..empty },
            Reply::Purged { count } => Parcel { kind: b'g', number: count, ..empty },
            Reply::Failed { reason } => Parcel { kind: b'f', payload: reason.into_bytes(), ..empty },
            Reply::Heritage { generation, fds } => Parcel { kind: b'h', number: generation, fds, ..empty },
        }
    }

    /// The reverse.
    pub fn from_parcel(parcel: Parcel) -> io::Result<Reply> {
        let Parcel { kind, number, payload, fds, .. } = parcel;
        Ok(match kind {
            b'd' => Reply::Done,
            b'g' => Reply::Purged { count: number },
            b'f' => Reply::Failed { reason: String::from_utf8_lossy(&payload).into_owned() },
            b'h' => Reply::Heritage { generation: number, fds },
            _ => return Err(unknown()),
        })
    }
}

fn unknown() -> io::Error {
    io::Error::other("unknown message between master and worker")
}

/// The monotonic clock, which all processes of a machine share.
pub fn now() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_and_replies_survive_their_way() {
        let check = |order: Order| {
            let wanted = format!("{order:?}");
            let parcel = order.into_parcel(7, Duration::from_nanos(5));
            assert_eq!((parcel.id, parcel.until), (7, 5));
            assert_eq!(format!("{:?}", Order::from_parcel(parcel).unwrap()), wanted);
        };
        check(Order::Configure { generation: 3, bundle: b"text".to_vec(), fds: Vec::new() });
        check(Order::Certificates { files: b"files".to_vec() });
        check(Order::Reopen { which: vec![0, 7, 70_000], fds: Vec::new() });
        check(Order::Purge { order: "a b".into() });
        check(Order::Quit { server_ends: true });
        check(Order::Quit { server_ends: false });
        check(Order::Stop);
        let check = |reply: Reply| {
            let wanted = format!("{reply:?}");
            let parcel = reply.into_parcel(9);
            assert_eq!(parcel.id, 9);
            assert_eq!(format!("{:?}", Reply::from_parcel(parcel).unwrap()), wanted);
        };
        check(Reply::Done);
        check(Reply::Purged { count: 4 });
        check(Reply::Failed { reason: "why".into() });
        check(Reply::Heritage { generation: 2, fds: Vec::new() });
        assert!(Order::from_parcel(Parcel::default()).is_err());
        assert!(Reply::from_parcel(Parcel::default()).is_err());
        assert!(Order::from_parcel(Parcel { kind: b'l', ..Parcel::default() }).is_err(), "no socket");
    }
}
