//! What the records of a request's beginning and end say.

/// The id of the one request of a connection.
pub const REQUEST_ID: u16 = 1;

/// The role that web servers ask for: answer a request.
pub const RESPONDER: u16 = 1;

/// In `BEGIN_REQUEST`: the application keeps the connection open when the request is done.
pub const KEEP_CONN: u8 = 1;

/// What `END_REQUEST` says of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndRequest {
    /// What the application would have exited with.
    pub app_status: u32,
    /// Whether the application has answered.
    pub protocol_status: ProtocolStatus,
    /// The answer is complete, but the process goes on until it closes the connection. It is the first reserved byte of the record,
    /// which the specification leaves at 0: pool masters of Brisk's say so after `fastcgi_finish_request()`.
    pub goes_on: bool,
}

/// The last word about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolStatus {
    /// The application has answered.
    Complete,
    /// It cannot answer several requests of one connection at once.
    CannotMultiplex,
    /// It is out of some resource.
    Overloaded,
    /// It does not know the role.
    UnknownRole,
    /// A number that the specification does not have.
    Other(u8),
}

impl ProtocolStatus {
    /// From the record's byte.
    pub(super) fn from_number(number: u8) -> ProtocolStatus {
        match number {
            0 => ProtocolStatus::Complete,
            1 => ProtocolStatus::CannotMultiplex,
            2 => ProtocolStatus::Overloaded,
            3 => ProtocolStatus::UnknownRole,
            other => ProtocolStatus::Other(other),
        }
    }

    /// The record's byte.
    pub(super) fn number(self) -> u8 {
        match self {
            ProtocolStatus::Complete => 0,
            ProtocolStatus::CannotMultiplex => 1,
            ProtocolStatus::Overloaded => 2,
            ProtocolStatus::UnknownRole => 3,
            ProtocolStatus::Other(other) => other,
        }
    }
}
