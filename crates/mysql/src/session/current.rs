//! A command that is under way.

use crate::classify::{Asks, Class, Hint, Pin};
use crate::command::Kind;

/// See the module's head.
#[derive(Clone, Debug)]
pub(super) struct Current {
    pub kind: Kind,
    pub class: Class,
    pub hint: Option<Hint>,
    pub asks: Asks,
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
