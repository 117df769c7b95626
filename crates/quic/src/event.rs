//! What an endpoint tells its owner.

use quinn_proto::ConnectionError;
use std::fmt;

/// Names a connection of one endpoint. Of a connection that is gone it names nothing, also when another one has its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Its place.
    pub index: u32,
    /// How many connections had the place before.
    pub serial: u32,
}

/// What has happened to a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Its handshake waits for `Choice`: what was kept tells what for. Answer with
    /// `Endpoint::decide`.
    Undecided,
    /// It may be used: protocol and name are known, and streams may be opened. The handshake need not be complete
    /// (`Connection::is_early`).
    Ready,
    /// The handshake is complete.
    Established,
    /// The client has opened streams of this direction: `Connection::accept` until there is none.
    /// Nothing is told of streams before the client's address is validated.
    Opened(Dir),
    /// There is something to be read on this stream, its end or a reset included.
    Readable(u64),
    /// A stream that took no more takes something again.
    Writable(u64),
    /// The client wants nothing more on this stream (STOP_SENDING); it has been reset with this code.
    Stopped(u64, u64),
    /// All of this stream was acknowledged, the end included.
    Finished(u64),
    /// The client has another address, which is validated.
    Moved,
    /// It is over. The last event; the key names nothing from now on.
    Closed(Closed),
}

/// Why a connection is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Closed {
    /// The application at the other end has closed it with this code.
    ByApplication(u64, String),
    /// The other end's transport has closed it with this code.
    ByTransport(u64, String),
    /// The client has broken a rule of the protocol, or the handshake came to nothing: the code that it is told, and why.
    Violation(u64, String),
    /// A stateless reset has come.
    Reset,
    /// Nothing came for too long.
    TimedOut,
    /// A fault of ours, which cost this connection.
    Fault,
}

impl From<ConnectionError> for Closed {
    fn from(why: ConnectionError) -> Closed {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match why {
            ConnectionError::ApplicationClosed(close) => {
                Closed::ByApplication(close.error_code.into_inner(), text(&close.reason))
            }
            ConnectionError::ConnectionClosed(close) => {
                Closed::ByTransport(close.error_code.into(), text(&close.reason))
            }
            ConnectionError::TransportError(error) => Closed::Violation(error.code.into(), error.to_string()),
            ConnectionError::Reset => Closed::Reset,
            ConnectionError::TimedOut => Closed::TimedOut,
            other @ (ConnectionError::VersionMismatch
            | ConnectionError::CidsExhausted
            | ConnectionError::LocallyClosed) => Closed::Violation(0, other.to_string()),
        }
    }
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Closed::ByApplication(code, why) => {
                write!(f, "closed by the client's application, code {code:#x} {why}")
            }
            Closed::ByTransport(code, why) => write!(f, "closed by the client, code {code:#x} {why}"),
            Closed::Violation(code, why) => write!(f, "closed for an error, code {code:#x} {why}"),
            Closed::Reset => f.write_str("reset by the client"),
            Closed::TimedOut => f.write_str("timed out"),
            Closed::Fault => f.write_str("closed for a fault of the server"),
        }
    }
}

/// Whether both sides send on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dir {
    /// Both.
    Bi,
    /// Only the one that has opened it.
    Uni,
}
