//! What connections know of the statements that were carried out on them, and no other one does: what the last one came to, and the last number
//! of an AUTO_INCREMENT column.

use super::{Role, Route};
use crate::classify::Asks;

/// Who knows what the last statement came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Last {
    /// There was none.
    #[default]
    None,
    /// The connection to this server.
    At(Role),
    /// The one that there was before it.
    Lost(Role),
}

/// Who knows the last number of an AUTO_INCREMENT column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum InsertId {
    /// There was none.
    #[default]
    None,
    /// The connection to the primary.
    Here,
    /// One that there was before.
    Lost,
}

/// See the module's head.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Remembered {
    last: Last,
    insert_id: InsertId,
}

impl Remembered {
    /// This server has carried a statement out.
    pub fn answered(&mut self, by: Role) {
        self.last = Last::At(by);
    }

    /// The primary has told of a number of an AUTO_INCREMENT column.
    pub fn inserted(&mut self) {
        self.insert_id = InsertId::Here;
    }

    /// The connection to this server is gone, or another one has come into its place.
    pub fn lost(&mut self, role: Role) {
        if self.last == Last::At(role) {
            self.last = Last::Lost(role);
        }
        if role == Role::Primary && self.insert_id == InsertId::Here {
            self.insert_id = InsertId::Lost;
        }
    }

    /// The server that is asked what the last statement came to.
    pub fn asked(&self) -> Role {
        match self.last {
            Last::At(role) => role,
            Last::None | Last::Lost(_) => Role::Primary,
        }
    }

    /// Whether it is a replica that knows, or knew, what the last statement came to, and this way leads to no such.
    pub fn is_elsewhere(&self, route: Route) -> bool {
        match self.last {
            Last::At(Role::Replica) => matches!(route, Route::Primary(_)),
            Last::Lost(Role::Replica) => matches!(route, Route::Primary(_) | Route::Last),
            Last::None | Last::At(Role::Primary) | Last::Lost(Role::Primary) => false,
        }
    }

    /// Whether something of this is asked that only an earlier connection to the primary knew. `is_new`: so will the present one have been.
    pub fn is_lost(&self, asks: Asks, is_new: bool) -> bool {
        let is_last_lost = match self.last {
            Last::Lost(Role::Primary) => true,
            Last::At(Role::Primary) => is_new,
            Last::None | Last::At(Role::Replica) | Last::Lost(Role::Replica) => false,
        };
        let is_id_lost = match self.insert_id {
            InsertId::None => false,
            InsertId::Here => is_new,
            InsertId::Lost => true,
        };
        asks.last && is_last_lost || asks.insert_id && is_id_lost
    }
}
