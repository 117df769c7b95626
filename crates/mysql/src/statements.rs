//! Prepared statements of a session. A client knows each by a number of ours. Each connection to a server has numbers of its own for those that
//! were prepared on it ([`Places`]), and no number of one connection is ever sent on another one. The text is kept, so that a statement
//! can be prepared where it is to run.

pub(crate) mod model;
#[cfg(test)]
mod tests;

use crate::classify::{Class, Verdict};
use crate::command::{self, BITMAP_AT, CLOSE_STATEMENT, Execution, Kind, TYPE_BYTES, Types};
use crate::limits::{STATEMENTS_BYTES_MAX, STATEMENTS_KEPT_MAX, STATEMENTS_MAX};
use crate::session::Role;
use std::collections::HashMap;
use std::ops::Range;

/// Parts of parameters that were sent ahead (COM_STMT_SEND_LONG_DATA).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LongData {
    None,
    /// The primary has them.
    AtPrimary,
    /// They could not be passed on: the next execution is refused, as nobody may execute it without them.
    Lost,
}

/// A statement that a server has prepared.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    /// What it does.
    pub verdict: Verdict,
    /// What it is prepared from; `None`: it is not kept, and the statement stays where it was prepared.
    pub text: Option<Vec<u8>>,
    /// How many parameters it has.
    pub parameters: u16,
    /// The number of the last setting that other connections were to be told of when it was prepared.
    pub position: u64,
}

#[derive(Debug)]
struct Statement {
    verdict: Verdict,
    text: Option<Vec<u8>>,
    parameters: u16,
    /// The settings that its text was read with.
    settings: u64,
    /// The number of the last one before it of those that connections are told of.
    position: u64,
    /// The types of its parameters, as the client has told them last, if the text is kept: no other server is to be told of them otherwise.
    types: Vec<u8>,
    /// How often they have changed; 0: they were never told.
    types_version: u64,
    /// Rows wait there.
    cursor: Option<Role>,
    long_data: LongData,
}

/// One statement on one connection.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Its number there.
    id: u32,
    /// The types that the server knows.
    types_version: u64,
}

/// The statements of one connection to a server: it belongs to that connection and ends with it.
#[derive(Debug, Default)]
pub struct Places(HashMap<u32, Place>);

impl Places {
    /// Whether nothing is prepared there.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this statement is.
    pub fn has(&self, statement: u32) -> bool {
        self.0.contains_key(&statement)
    }

    /// The server has prepared it, and gives it this number.
    pub fn put(&mut self, statement: u32, id: u32) {
        self.0.insert(statement, Place { id, types_version: 0 });
    }

    /// Forgets a statement; gives the message that has the server forget it, too.
    pub fn remove(&mut self, statement: u32) -> Option<Vec<u8>> {
        self.0.remove(&statement).map(|place| command::naming(CLOSE_STATEMENT, place.id))
    }

    /// Forgets all; gives the messages that have the server forget them.
    pub fn remove_all(&mut self) -> Vec<Vec<u8>> {
        self.0.drain().map(|(_, place)| command::naming(CLOSE_STATEMENT, place.id)).collect()
    }
}

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Statements {
    known: HashMap<u32, Statement>,
    /// The number that the next one gets, if it is free.
    next: u32,
    /// The one that was prepared last: [`command::LAST_STATEMENT`] names it.
    last: Option<u32>,
    /// Of how many the text is kept.
    kept: usize,
    /// Bytes of these texts, and of the types of their parameters.
    bytes: usize,
    /// Counts changes of what texts are read with.
    settings: u64,
}

impl Default for Statements {
    fn default() -> Statements {
        Statements { known: HashMap::new(), next: 1, last: None, kept: 0, bytes: 0, settings: 0 }
    }
}

impl Statements {
    /// The statement that a command names, if there is one.
    pub fn named(&self, message: &[u8]) -> Option<u32> {
        let id = match command::statement_id(message)? {
            command::LAST_STATEMENT => self.last?,
            id => id,
        };
        self.known.contains_key(&id).then_some(id)
    }

    /// The number of the next one; `None`: there are too many.
    pub fn next(&self) -> Option<u32> {
        if self.known.len() >= STATEMENTS_MAX {
            return None;
        }
        // One of these is free.
        let mut id = self.next;
        while matches!(id, 0 | command::LAST_STATEMENT) || self.known.contains_key(&id) {
            id = id.wrapping_add(1);
        }
        Some(id)
    }

    /// Whether this text, too, may be kept.
    pub fn has_room(&self, text: &[u8]) -> bool {
        // It may have fewer parameters, never more.
        let parameters = text.iter().filter(|&&byte| byte == b'?').count();
        let bytes = self.bytes.saturating_add(text.len() + TYPE_BYTES * parameters);
        self.kept < STATEMENTS_KEPT_MAX && bytes <= STATEMENTS_BYTES_MAX
    }

    /// What all of them occupy, with their places at two servers.
    pub fn held_bytes(&self) -> usize {
        self.bytes + self.known.len() * (size_of::<(u32, Statement)>() + 2 * size_of::<(u32, Place)>())
    }

    /// It was prepared.
    pub fn put(&mut self, id: u32, prepared: Prepared) {
        let Prepared { verdict, text, parameters, position } = prepared;
        let statement = Statement {
            verdict,
            text,
            parameters,
            settings: self.settings,
            position,
            types: Vec::new(),
            types_version: 0,
            cursor: None,
            long_data: LongData::None,
        };
        self.remove(id);
        self.kept += usize::from(statement.text.is_some());
        self.bytes += statement.bytes();
        self.known.insert(id, statement);
        self.next = id.wrapping_add(1);
        self.last = Some(id);
    }

    /// What was to be prepared was refused: it cannot be named.
    pub fn refused(&mut self) {
        self.last = None;
    }

    /// The client has closed it.
    pub fn remove(&mut self, id: u32) {
        let Some(statement) = self.known.remove(&id) else { return };
        self.kept -= usize::from(statement.text.is_some());
        self.bytes -= statement.bytes();
        if self.last == Some(id) {
            self.last = None;
        }
    }

    /// The session begins anew: its numbers go on, so that none means two statements.
    pub fn clear(&mut self) {
        let next = self.next;
        *self = Statements { next, ..Statements::default() };
    }

    /// What texts are read with may be another one now: those that were prepared before are prepared nowhere else, unless a connection is told
    /// of settings later than of them.
    pub fn settings_changed(&mut self) {
        self.settings += 1;
    }

    /// What a statement does, and which server its text asks for.
    pub fn verdict(&self, id: u32) -> Option<Verdict> {
        self.known.get(&id).map(|statement| statement.verdict)
    }

    /// How many parameters it has.
    pub fn parameters(&self, id: u32) -> u16 {
        self.known.get(&id).map_or(0, |statement| statement.parameters)
    }

    /// What it can be prepared from on another connection, where it means the same.
    pub fn text(&self, id: u32) -> Option<&[u8]> {
        let statement = self.known.get(&id)?;
        statement.text.as_deref().filter(|_| statement.settings == self.settings)
    }

    /// The same for a connection that was told of all settings up to the first of these numbers and is about to be told of that with the last.
    pub fn text_between(&self, id: u32, between: &Range<u64>) -> Option<&[u8]> {
        let statement = self.known.get(&id)?;
        statement.text.as_deref().filter(|_| between.contains(&statement.position))
    }

    /// Those that such a connection lacks: of a replica only what it may be asked for. The oldest first.
    pub fn missing_between(&self, between: &Range<u64>, role: Role, places: &Places) -> Vec<u32> {
        let is_wanted = |id: u32, statement: &Statement| {
            let may_run =
                role == Role::Primary || matches!(statement.verdict.class, Class::Read | Class::AfterLast);
            may_run && self.text_between(id, between).is_some() && !places.has(id)
        };
        let wanted = self.known.iter().filter(|(id, statement)| is_wanted(**id, statement));
        let mut missing: Vec<u32> = wanted.map(|(id, _)| *id).collect();
        missing.sort_unstable();
        missing
    }

    /// Those that can be prepared on a connection and are not, the oldest first.
    pub fn missing(&self, places: &Places) -> Vec<u32> {
        let mut missing: Vec<u32> =
            self.known.keys().copied().filter(|&id| self.text(id).is_some() && !places.has(id)).collect();
        missing.sort_unstable();
        missing
    }

    /// The largest position of those that can be prepared elsewhere: what was set before is not replaced.
    pub fn last_position(&self) -> u64 {
        let kept = self.known.values().filter(|statement| statement.text.is_some());
        kept.map(|statement| statement.position).max().unwrap_or(0)
    }

    /// Whether all of them can be prepared on a connection that knows none and is told of all settings up to this number, and nothing of them
    /// would be missed there.
    pub fn may_move(&self, settings: u64) -> bool {
        self.known.iter().all(|(id, statement)| {
            let is_past = statement.text.is_some() && statement.position < settings;
            (is_past || self.text(*id).is_some())
                && statement.cursor != Some(Role::Primary)
                && statement.long_data == LongData::None
        })
    }

    /// Whether rows wait at this server.
    pub fn has_cursor_at(&self, role: Role) -> bool {
        self.known.values().any(|statement| statement.cursor == Some(role))
    }

    /// Where rows of this one wait.
    pub fn cursor(&self, id: u32) -> Option<Role> {
        self.known.get(&id)?.cursor
    }

    /// Its execution has ended so, or its rows are read or lost.
    pub fn set_cursor(&mut self, id: u32, cursor: Option<Role>) {
        if let Some(statement) = self.known.get_mut(&id) {
            statement.cursor = cursor;
        }
    }

    /// The connection to this server is gone.
    pub fn cursors_lost(&mut self, role: Role) {
        for statement in self.known.values_mut().filter(|statement| statement.cursor == Some(role)) {
            statement.cursor = None;
        }
    }

    /// Whether an execution must go to the primary, which has parts of its parameters.
    pub fn has_data_at_primary(&self, id: u32) -> bool {
        self.known.get(&id).is_some_and(|statement| statement.long_data == LongData::AtPrimary)
    }

    /// Whether parts of its parameters are nowhere.
    pub fn has_lost_data(&self, id: u32) -> bool {
        self.known.get(&id).is_some_and(|statement| statement.long_data == LongData::Lost)
    }

    /// The primary has got a part of a parameter, or (`is_lost`) will never have it.
    pub fn data_sent(&mut self, id: u32, is_lost: bool) {
        if let Some(statement) = self.known.get_mut(&id)
            && statement.long_data != LongData::Lost
        {
            statement.long_data = if is_lost { LongData::Lost } else { LongData::AtPrimary };
        }
    }

    /// It was executed or reset: servers have forgotten parts of parameters.
    pub fn data_used(&mut self, id: u32) {
        if let Some(statement) = self.known.get_mut(&id) {
            statement.long_data = LongData::None;
        }
    }

    /// Whether the client has told the types of its parameters, or it has none.
    pub fn has_types(&self, id: u32) -> bool {
        let known = self.known.get(&id);
        known.is_some_and(|statement| statement.parameters == 0 || statement.types_version > 0)
    }

    /// An execution was answered at the server that has these places.
    pub fn executed(&mut self, id: u32, types: Option<&[u8]>, is_error: bool, places: &mut Places) {
        let Some(statement) = self.known.get_mut(&id) else { return };
        if statement.text.is_none() {
            statement.types_version |= u64::from(types.is_some());
            return;
        }
        if let Some(types) = types
            && (statement.types != types || statement.types_version == 0)
        {
            statement.types = types.to_vec();
            statement.types_version += 1;
        }
        // After an error nobody can say whether the server has taken them: it is told again.
        if !is_error && let Some(place) = places.0.get_mut(&id) {
            place.types_version = statement.types_version;
        }
    }

    /// A command with the number of the statement on the connection that has these places, and with the types of its parameters if that
    /// server has not got them. `None`: it is not prepared there.
    pub fn rewritten(&self, id: u32, message: &[u8], places: &Places) -> Option<Vec<u8>> {
        let (statement, place) = (self.known.get(&id)?, places.0.get(&id)?);
        let mut out = message.to_vec();
        out.get_mut(1..5)?.copy_from_slice(&place.id.to_le_bytes());
        let is_told = statement.text.is_none() || place.types_version == statement.types_version;
        if is_told || Kind::of(*message.first()?) != Kind::Execute {
            return Some(out);
        }
        if let Some(Execution { types: Types::AsBefore, .. }) =
            Execution::parse(message, statement.parameters)
        {
            let flag = BITMAP_AT + usize::from(statement.parameters).div_ceil(8);
            *out.get_mut(flag)? = 1;
            let values = out.split_off(flag + 1);
            out.extend_from_slice(&statement.types);
            out.extend(values);
        }
        Some(out)
    }
}

impl Statement {
    /// What is counted for it, whether its types are known yet or not.
    fn bytes(&self) -> usize {
        self.text.as_ref().map_or(0, |text| text.len() + TYPE_BYTES * usize::from(self.parameters))
    }
}
