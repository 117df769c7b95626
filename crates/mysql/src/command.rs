//! What a client sends once it is logged in: one byte for the command, then its arguments.

use crate::wire::Reader;

/// The commands, by what follows of them here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The session ends; there is no answer.
    Quit,
    /// Another default database.
    InitDb,
    /// A statement.
    Query,
    /// The columns of a table.
    FieldList,
    /// A line of text.
    Statistics,
    /// Whether the server lives.
    Ping,
    /// One that an OK, ERR or EOF packet answers.
    Short,
    /// Another account.
    ChangeUser,
    /// A statement for later.
    Prepare,
    /// Runs it.
    Execute,
    /// A part of a parameter; there is no answer.
    SendLongData,
    /// Forgets the statement; there is no answer.
    CloseStatement,
    /// Forgets its parameters.
    ResetStatement,
    /// Whether a command may hold several statements.
    SetOption,
    /// Rows of a cursor.
    Fetch,
    /// The session as it was after the login.
    ResetConnection,
    /// One of replication, or one that is not known: it is refused, since its answer cannot be followed.
    Refused,
}

/// COM_INIT_DB.
pub const INIT_DB: u8 = 2;
/// COM_QUERY.
pub const QUERY: u8 = 3;
/// COM_DROP_DB.
pub const DROP_DB: u8 = 6;
/// COM_CHANGE_USER.
pub const CHANGE_USER: u8 = 0x11;
/// COM_STMT_PREPARE.
pub const PREPARE: u8 = 0x16;
/// COM_STMT_EXECUTE.
pub const EXECUTE: u8 = 0x17;
/// COM_STMT_SEND_LONG_DATA.
pub const SEND_LONG_DATA: u8 = 0x18;
/// COM_STMT_CLOSE.
pub const CLOSE_STATEMENT: u8 = 0x19;
/// COM_STMT_RESET.
pub const RESET_STATEMENT: u8 = 0x1a;
/// COM_STMT_FETCH.
pub const FETCH: u8 = 0x1c;
/// COM_RESET_CONNECTION.
pub const RESET_CONNECTION: u8 = 0x1f;

impl Kind {
    /// By the first byte.
    pub fn of(byte: u8) -> Kind {
        match byte {
            0x01 => Kind::Quit,
            INIT_DB => Kind::InitDb,
            QUERY => Kind::Query,
            0x04 => Kind::FieldList,
            // Create and drop a database, refresh, shut down, kill, debug.
            0x05..=0x08 | 0x0c | 0x0d => Kind::Short,
            0x09 => Kind::Statistics,
            0x0e => Kind::Ping,
            CHANGE_USER => Kind::ChangeUser,
            PREPARE => Kind::Prepare,
            EXECUTE => Kind::Execute,
            SEND_LONG_DATA => Kind::SendLongData,
            CLOSE_STATEMENT => Kind::CloseStatement,
            RESET_STATEMENT => Kind::ResetStatement,
            0x1b => Kind::SetOption,
            FETCH => Kind::Fetch,
            RESET_CONNECTION => Kind::ResetConnection,
            _ => Kind::Refused,
        }
    }

    /// Whether it names a prepared statement.
    pub fn names_statement(self) -> bool {
        use Kind::{CloseStatement, Execute, Fetch, ResetStatement, SendLongData};
        matches!(self, Execute | SendLongData | CloseStatement | ResetStatement | Fetch)
    }

    /// Whether the server answers.
    pub fn has_answer(self) -> bool {
        !matches!(self, Kind::Quit | Kind::SendLongData | Kind::CloseStatement)
    }
}

/// The number of the statement that a command of prepared statements names.
pub fn statement_id(message: &[u8]) -> Option<u32> {
    let mut from = Reader::new(message.get(1..)?);
    from.u32()
}

/// In place of a statement's number: the one that was prepared last (MariaDB's clients, which execute before they have the answer).
pub const LAST_STATEMENT: u32 = u32::MAX;

/// A command that names a statement and nothing else.
pub fn naming(command: u8, id: u32) -> Vec<u8> {
    [&[command][..], &id.to_le_bytes()].concat()
}

/// Where in an execution the bits for NULL begin: behind the command, the number, flags, a count.
pub(crate) const BITMAP_AT: usize = 10;
/// A parameter's type, and whether it has a sign.
pub(crate) const TYPE_BYTES: usize = 2;

/// What an execution says of its parameters' types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Types<'m> {
    /// There are no parameters.
    None,
    /// Two bytes for each.
    Told(&'m [u8]),
    /// Those of the execution before hold.
    AsBefore,
}

/// What an execution of a prepared statement says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Execution<'m> {
    /// Rows are fetched later.
    pub has_cursor: bool,
    /// What its parameters are.
    pub types: Types<'m>,
}

impl<'m> Execution<'m> {
    /// Reads it for a statement with so many parameters. What follows the types need not be there.
    pub fn parse(message: &'m [u8], parameters: u16) -> Option<Execution<'m>> {
        let mut from = Reader::new(message.get(5..)?);
        let flags = from.u8()?;
        from.u32()?;
        let mut types = Types::None;
        if parameters > 0 {
            let count = usize::from(parameters);
            from.take(count.div_ceil(8))?;
            types = match from.u8()? {
                0 => Types::AsBefore,
                _ => Types::Told(from.take(TYPE_BYTES * count)?),
            };
        }
        Some(Execution { has_cursor: flags != 0, types })
    }
}
