//! Where commands go, and why.

use crate::classify::Pin;
use crate::reply::ErrPacket;

/// Why a command goes to the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// It writes, or may.
    Writes,
    /// It asks for what the primary knows.
    Asks,
    /// A transaction is open, or each statement is in one.
    Transaction,
    /// Something of the session is in the connection.
    Pinned(Pin),
    /// It is not known whether a replica has what the session has written.
    OwnWrites,
    /// A hint says so.
    Hinted,
    /// It has something of the prepared statement that no other server has: rows, parts of parameters.
    Prepared,
}

/// Why a command goes nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its answer cannot be followed.
    Command,
    /// No prepared statement has the number that it names.
    Statement(u32),
    /// No rows of this statement wait.
    Cursor(u32),
    /// More statements are prepared than are kept.
    TooMany,
    /// It does not say what its parameters are.
    Arguments,
    /// Parts of its parameters could not be passed on.
    Data,
    /// It asks what the last statement came to, which the server that it goes to does not know.
    Forgotten,
}

impl Refusal {
    /// What the client is told, with the numbers that servers give such errors.
    pub fn error(self) -> ErrPacket {
        let (code, state, text) = match self {
            Refusal::Command => {
                (1047, b"08S01", "Unknown command: the proxy does not follow its answer".to_string())
            }
            Refusal::Statement(id) => (1243, b"HY000", format!("Unknown prepared statement handler ({id})")),
            Refusal::Cursor(id) => (1421, b"HY000", format!("The statement ({id}) has no open cursor.")),
            Refusal::TooMany => (1461, b"42000", "The session has too many prepared statements".to_string()),
            Refusal::Arguments => {
                (1210, b"HY000", "Incorrect arguments to the execution of a prepared statement".to_string())
            }
            Refusal::Data => {
                (1105, b"HY000", "Parts of a parameter could not be passed on: send them again".to_string())
            }
            Refusal::Forgotten => {
                let text = "What the last statement came to is not known any more, or only to another server";
                (1105, b"HY000", text.to_string())
            }
        };
        ErrPacket::new(code, state, &text)
    }
}

/// Where a command goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// To the primary.
    Primary(Why),
    /// To a replica that has [what the session has written](Session::written), if `after_own_writes`; to the primary where there is none.
    Replica {
        /// The session's writes must be there.
        after_own_writes: bool,
    },
    /// To the server that has answered the last command.
    Last,
    /// To the replica: rows wait there, and nowhere else.
    Cursor,
    /// To each server that has the prepared statement; it is answered here.
    Everywhere,
    /// It is answered with an error here, if it is answered.
    Refused(Refusal),
}
