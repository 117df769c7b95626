//! What master and worker say to each other, and what the process says that reads a configuration for the master. Every order has a
//! number, and every reply names the order that it answers: a late reply is never taken for the answer to the next order.

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
    /// Write to these from now on; `paths` are their names. Not their places in a list of logs: a worker that is given a configuration
    /// meanwhile has another list.
    Reopen { paths: Vec<String>, fds: Vec<OwnedFd> },
    /// An operator's order to the caches.
    Purge { order: String },
    /// What the master knows has changed ([`News`](brisk_server::news::News), encoded).
    News { text: String },
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
    /// and listening sockets; `secret`: what keys of QUIC are made of.
    Heritage { generation: u64, secret: Vec<u8>, fds: Vec<OwnedFd> },
    /// From the process that reads a configuration: something that is to be logged.
    Warning { text: String },
    /// From the same: all that the configuration was read from, as a [`Bundle`](crate::bundle::Bundle) travels. It was found to be good.
    Read { bundle: Vec<u8> },
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
            Order::Reopen { paths, fds } => {
                Parcel { kind: b'r', payload: paths.join("\0").into_bytes(), fds, ..empty }
            }
            Order::Purge { order } => Parcel { kind: b'p', payload: order.into_bytes(), ..empty },
            Order::News { text } => Parcel { kind: b'n', payload: text.into_bytes(), ..empty },
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
                let paths =
                    text(payload).split('\0').filter(|path| !path.is_empty()).map(str::to_string).collect();
                Order::Reopen { paths, fds }
            }
            b'p' => Order::Purge { order: text(payload) },
            b'n' => Order::News { text: text(payload) },
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
            Reply::Heritage { generation, secret, fds } => {
                Parcel { kind: b'h', number: generation, payload: secret, fds, ..empty }
            }
            Reply::Warning { text } => Parcel { kind: b'w', payload: text.into_bytes(), ..empty },
            Reply::Read { bundle } => Parcel { kind: b'b', payload: bundle, ..empty },
        }
    }

    /// The reverse.
    pub fn from_parcel(parcel: Parcel) -> io::Result<Reply> {
        let Parcel { kind, number, payload, fds, .. } = parcel;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(match kind {
            b'd' => Reply::Done,
            b'g' => Reply::Purged { count: number },
            b'f' => Reply::Failed { reason: text(payload) },
            b'h' => Reply::Heritage { generation: number, secret: payload, fds },
            b'w' => Reply::Warning { text: text(payload) },
            b'b' => Reply::Read { bundle: payload },
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
        check(Order::Reopen { paths: vec!["/var/log/a".into(), "/b c".into()], fds: Vec::new() });
        check(Order::Reopen { paths: Vec::new(), fds: Vec::new() });
        check(Order::Purge { order: "a b".into() });
        check(Order::News { text: "refused 1\n".into() });
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
        check(Reply::Heritage { generation: 2, secret: vec![7; 32], fds: Vec::new() });
        check(Reply::Warning { text: "what".into() });
        check(Reply::Read { bundle: b"files".to_vec() });
        assert!(Order::from_parcel(Parcel::default()).is_err());
        assert!(Reply::from_parcel(Parcel::default()).is_err());
        assert!(Order::from_parcel(Parcel { kind: b'l', ..Parcel::default() }).is_err(), "no socket");
    }
}
