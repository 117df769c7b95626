//! What a client and a server have agreed on: bits of the greeting and of the client's answer to it.

use std::ops::{BitAnd, BitOr};

/// The lower 32 bits are everybody's, the upper ones MariaDB's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(pub u64);

impl Capabilities {
    /// A server that is not MariaDB, or a client that speaks to it as to one. MariaDB's own bits stand where it is not set.
    pub const MYSQL: Capabilities = Capabilities(1);
    /// Counts rows that were found, not those that were changed.
    pub const FOUND_ROWS: Capabilities = Capabilities(1 << 1);
    /// Longer flags of columns.
    pub const LONG_FLAG: Capabilities = Capabilities(1 << 2);
    /// The client's answer names a database.
    pub const CONNECT_WITH_DB: Capabilities = Capabilities(1 << 3);
    /// Names of tables have no database in them.
    pub const NO_SCHEMA: Capabilities = Capabilities(1 << 4);
    /// Compression by zlib.
    pub const COMPRESS: Capabilities = Capabilities(1 << 5);
    /// ODBC.
    pub const ODBC: Capabilities = Capabilities(1 << 6);
    /// `LOAD DATA LOCAL`.
    pub const LOCAL_FILES: Capabilities = Capabilities(1 << 7);
    /// A blank may stand between a function and its parenthesis.
    pub const IGNORE_SPACE: Capabilities = Capabilities(1 << 8);
    /// The protocol since 4.1.
    pub const PROTOCOL_41: Capabilities = Capabilities(1 << 9);
    /// `interactive_timeout` holds.
    pub const INTERACTIVE: Capabilities = Capabilities(1 << 10);
    /// TLS after an SSLRequest.
    pub const TLS: Capabilities = Capabilities(1 << 11);
    /// The status says whether a transaction is open.
    pub const TRANSACTIONS: Capabilities = Capabilities(1 << 13);
    /// Answers of plugins have a length.
    pub const SECURE_CONNECTION: Capabilities = Capabilities(1 << 15);
    /// Several statements in one command.
    pub const MULTI_STATEMENTS: Capabilities = Capabilities(1 << 16);
    /// Several result sets in one answer.
    pub const MULTI_RESULTS: Capabilities = Capabilities(1 << 17);
    /// The same of prepared statements.
    pub const PS_MULTI_RESULTS: Capabilities = Capabilities(1 << 18);
    /// Plugins have names.
    pub const PLUGIN_AUTH: Capabilities = Capabilities(1 << 19);
    /// The client tells of itself.
    pub const CONNECT_ATTRS: Capabilities = Capabilities(1 << 20);
    /// Answers of plugins may be longer than 255 bytes.
    pub const PLUGIN_AUTH_LENENC: Capabilities = Capabilities(1 << 21);
    /// OK packets tell what has changed in the session.
    pub const SESSION_TRACK: Capabilities = Capabilities(1 << 23);
    /// Result sets end with an OK packet, and there is no EOF packet behind columns.
    pub const DEPRECATE_EOF: Capabilities = Capabilities(1 << 24);

    /// All that a session may have that is followed here. What is not in it is not offered: it would change the form of messages.
    pub const FOLLOWED: Capabilities = Capabilities(
        Self::FOUND_ROWS.0
            | Self::LONG_FLAG.0
            | Self::CONNECT_WITH_DB.0
            | Self::NO_SCHEMA.0
            | Self::ODBC.0
            | Self::LOCAL_FILES.0
            | Self::IGNORE_SPACE.0
            | Self::PROTOCOL_41.0
            | Self::INTERACTIVE.0
            | Self::TRANSACTIONS.0
            | Self::SECURE_CONNECTION.0
            | Self::MULTI_STATEMENTS.0
            | Self::MULTI_RESULTS.0
            | Self::PS_MULTI_RESULTS.0
            | Self::PLUGIN_AUTH.0
            | Self::CONNECT_ATTRS.0
            | Self::PLUGIN_AUTH_LENENC.0
            | Self::SESSION_TRACK.0
            | Self::DEPRECATE_EOF.0,
    );

    /// What a client of our own asks for: as little as does.
    pub const OWN: Capabilities = Capabilities(
        Self::MYSQL.0
            | Self::LONG_FLAG.0
            | Self::PROTOCOL_41.0
            | Self::TRANSACTIONS.0
            | Self::SECURE_CONNECTION.0
            | Self::MULTI_RESULTS.0
            | Self::PLUGIN_AUTH.0,
    );

    /// Whether all of these are set.
    pub fn has(self, wanted: Capabilities) -> bool {
        self.0 & wanted.0 == wanted.0
    }

    /// Without these.
    #[must_use]
    pub fn without(self, unwanted: Capabilities) -> Capabilities {
        Capabilities(self.0 & !unwanted.0)
    }
}

impl BitOr for Capabilities {
    type Output = Capabilities;

    fn bitor(self, other: Capabilities) -> Capabilities {
        Capabilities(self.0 | other.0)
    }
}

impl BitAnd for Capabilities {
    type Output = Capabilities;

    fn bitand(self, other: Capabilities) -> Capabilities {
        Capabilities(self.0 & other.0)
    }
}
