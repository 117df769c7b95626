//! A command that is under way.

use crate::classify::{Asks, Class, Hint, Pin};
use crate::command::Kind;

/// Whether something has chosen a role, or another account for the rights: servers keep that over a reset of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rights {
    /// The login's.
    OfLogin,
    /// What was carried out was not read, or not all of it.
    Unclear,
    /// It says so, or may.
    Chosen,
}

impl Rights {
    /// After a command of this class. `text`: its statement, as far as it was looked at.
    pub fn after(class: Class, text: Option<&[u8]>) -> Rights {
        let Class::Pin(pin) = class else { return Rights::OfLogin };
        let has = |word: &[u8]| {
            text.is_some_and(|text| text.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word)))
        };
        match pin {
            // The text of a prepared statement was looked at when it was prepared.
            _ if has(b"ROLE") || has(b"AUTHORIZATION") => Rights::Chosen,
            // Of several statements the pin is the last one of the list; a procedure may be among them.
            pin if pin >= Pin::Open => Rights::Unclear,
            _ => Rights::OfLogin,
        }
    }
}

/// See the module's head.
#[derive(Clone, Debug)]
pub(super) struct Current {
    pub kind: Kind,
    pub class: Class,
    pub hint: Option<Hint>,
    pub asks: Asks,
    pub tables: bool,
    pub rights: Rights,
    /// What replicas are told of if the answer is no error.
    pub setting: Option<Vec<u8>>,
    /// The prepared statement that it names, or that it makes.
    pub statement: Option<u32>,
    /// What that is made from, if it is kept.
    pub text: Option<Vec<u8>>,
    /// What an execution tells of its parameters' types.
    pub types: Option<Vec<u8>>,
}

impl Current {
    /// Whether the primary may have written something when it carried it out. `is_exact`: what it is asked for then is what the session has
    /// written, and no more: else a read that has come to it since replicas are late would keep the next ones there, too.
    pub fn may_write(&self, is_exact: bool) -> bool {
        let may_write = match self.class {
            Class::Write | Class::Pin(_) => true,
            Class::PrimaryRead => self.tables,
            Class::Read | Class::AfterLast => self.tables && is_exact,
            Class::Setting => false,
        };
        // Preparing alone changes nothing, nor does a setting, nor a reset, which rolls back.
        may_write && !matches!(self.kind, Kind::Prepare | Kind::ResetConnection)
    }

    /// Whether what the statement before has left (warnings, numbers of rows) is asked of the same server as before it.
    pub fn keeps_last(&self) -> bool {
        use Kind::{CloseStatement, Ping, Prepare, ResetStatement, SendLongData, SetOption, Statistics};
        matches!(
            self.kind,
            Prepare | SendLongData | ResetStatement | CloseStatement | Ping | SetOption | Statistics
        )
    }

    /// What it asks of the statements before it when it is carried out.
    pub fn asks(&self) -> Asks {
        if matches!(self.kind, Kind::Query | Kind::Execute) { self.asks } else { Asks::default() }
    }

    /// Whether it may have chosen a default database without our knowing which.
    pub fn may_hide_use(&self) -> bool {
        let may_hide = matches!(
            self.class,
            Class::Pin(Pin::Set | Pin::Open | Pin::OwnDatabase | Pin::ExecutableComment | Pin::Unclear)
        );
        may_hide && self.kind != Kind::Prepare
    }

    /// Whether servers may read statements otherwise after it.
    pub fn changes_settings(&self) -> bool {
        let is_carried_out =
            matches!(self.kind, Kind::Query | Kind::Execute | Kind::InitDb | Kind::SetOption);
        is_carried_out && matches!(self.class, Class::Setting | Class::Pin(_))
    }
}

#[cfg(test)]
mod tests {
    use crate::command::{PREPARE, QUERY};
    use crate::follow::Outcome;
    use crate::reply::status::AUTOCOMMIT;
    use crate::session::{Role, Session};
    use crate::statements::Places;

    /// A view may call a function that writes.
    #[test]
    fn what_reads_tables_at_the_primary_may_have_written() {
        let is_untold = |is_exact: bool, is_tracked: bool, command: u8, text: &str| {
            let mut session = Session::new(AUTOCOMMIT, 45, b"shop");
            session.may_ask_for_writes();
            session.are_writes_told_apart(is_exact);
            session.route(&[&[command], text.as_bytes()].concat(), true);
            let outcome = Outcome { status: Some(AUTOCOMMIT), is_tracked, ..Outcome::default() };
            session.answered(Role::Primary, &outcome, &mut Places::default());
            session.is_untold()
        };
        for (text, exact, other) in [
            ("SELECT a, @@server_id FROM v", true, true),
            ("SELECT a FROM v FOR UPDATE", true, true),
            ("(SELECT a FROM v)", true, false),
            ("/* brisk:primary */ SELECT a FROM v", true, false),
            ("SELECT a FROM v", true, false),
            ("SELECT @@version_comment LIMIT 1", false, false),
            ("SHOW TABLES FROM shop", false, false),
            ("SET NAMES utf8mb4", false, false),
            ("INSERT INTO t VALUES (1)", true, true),
        ] {
            let found = [true, false].map(|is_exact| is_untold(is_exact, false, QUERY, text));
            assert_eq!(found, [exact, other], "{text}");
            assert!(!is_untold(true, true, QUERY, text) && !is_untold(true, false, PREPARE, text), "{text}");
        }
    }
}
