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
/// COM_CHANGE_USER.
pub const CHANGE_USER: u8 = 0x11;
/// COM_STMT_PREPARE.
pub const PREPARE: u8 = 0x16;
/// COM_STMT_CLOSE.
pub const CLOSE_STATEMENT: u8 = 0x19;

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
            0x17 => Kind::Execute,
            0x18 => Kind::SendLongData,
            CLOSE_STATEMENT => Kind::CloseStatement,
            0x1a => Kind::ResetStatement,
            0x1b => Kind::SetOption,
            0x1c => Kind::Fetch,
            0x1f => Kind::ResetConnection,
            _ => Kind::Refused,
        }
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

/// What an execution of a prepared statement says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Execution {
    /// Rows are fetched later.
    pub has_cursor: bool,
    /// The types of parameters are told anew; otherwise those of the last execution hold.
    pub tells_types: bool,
}

impl Execution {
    /// Reads it for a statement with so many parameters.
    pub fn parse(message: &[u8], parameters: u16) -> Option<Execution> {
        let mut from = Reader::new(message.get(5..)?);
        let flags = from.u8()?;
        from.u32()?;
        let mut tells_types = true;
        if parameters > 0 {
            from.take(usize::from(parameters).div_ceil(8))?;
            tells_types = from.u8()? == 1;
        }
        Some(Execution { has_cursor: flags != 0, tells_types })
    }
}
