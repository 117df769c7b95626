//! Where a session's next command goes. The owner passes in each command ([`Session::route`]) and the outcome of each answer
//! ([`Session::answered`]).

use crate::classify::{Backslashes, Class, Hint, Pin, Verdict, classify, using};
use crate::command::{self, Execution, Kind, Types};
use crate::follow::Outcome;
use crate::limits::{SETTINGS_BYTES_MAX, SETTINGS_MAX, STATEMENT_BYTES_MAX};
use crate::reply::{ErrPacket, Tracked, status};
use crate::statements::{Places, Prepared, Statements};
use crate::written::Written;
use std::borrow::Cow;

/// One of a session's two connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// To the primary.
    Primary,
    /// To a replica.
    Replica,
}

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

/// A command that is under way.
#[derive(Clone, Debug)]
struct Current {
    kind: Kind,
    class: Class,
    hint: Option<Hint>,
    /// What replicas are told of if the answer is no error.
    setting: Option<Vec<u8>>,
    /// The prepared statement that it names, or that it makes.
    statement: Option<u32>,
    /// What that is made from, if it is kept.
    text: Option<Vec<u8>>,
    /// What an execution tells of its parameters' types.
    types: Option<Vec<u8>>,
}

impl Current {
    /// Whether what the statement before has left (warnings, numbers of rows) is asked of the same server as before it.
    fn keeps_last(&self) -> bool {
        use Kind::{CloseStatement, Prepare, ResetStatement, SendLongData};
        matches!(self.kind, Prepare | SendLongData | ResetStatement | CloseStatement)
    }

    /// Whether servers may read statements otherwise after it.
    fn changes_settings(&self) -> bool {
        let is_carried_out =
            matches!(self.kind, Kind::Query | Kind::Execute | Kind::InitDb | Kind::SetOption);
        is_carried_out && matches!(self.class, Class::Setting | Class::Pin(_))
    }
}

/// See the module's head.
#[derive(Debug)]
pub struct Session {
    pin: Option<Pin>,
    status: u16,
    /// How the primary reads statements.
    backslashes: Backslashes,
    /// What the primary reports of that is not trusted.
    is_mode_lost: bool,
    /// How the replica does.
    replica: Backslashes,
    written: Written,
    /// The primary has not told of a write with its answer, but can be asked.
    is_untold: bool,
    can_ask: bool,
    /// Counts the changes of `written`.
    writes: u64,
    last: Role,
    statements: Statements,
    /// Commands that replicas are told of.
    settings: Vec<Vec<u8>>,
    settings_bytes: usize,
    current: Option<Current>,
}

impl Session {
    /// A session whose login was answered with this status. A client whose character set is none of the plain ones stays with the
    /// primary.
    pub fn new(status: u16, is_plain_charset: bool) -> Session {
        Session {
            pin: (!is_plain_charset).then_some(Pin::Charset),
            status,
            // `init_connect` may change it after the login was answered.
            backslashes: Backslashes::Unknown,
            is_mode_lost: false,
            replica: Backslashes::Unknown,
            written: Written::default(),
            is_untold: false,
            can_ask: false,
            writes: 0,
            last: Role::Primary,
            statements: Statements::default(),
            settings: Vec::new(),
            settings_bytes: 0,
            current: None,
        }
    }

    /// Why it stays with the primary, if it does.
    pub fn pin(&self) -> Option<Pin> {
        self.pin
    }

    /// What it has written.
    pub fn written(&self) -> &Written {
        &self.written
    }

    /// The primary knows a session's last write and can be [asked](Session::told) for it, where answers do not tell of it.
    pub fn may_ask_for_writes(&mut self) {
        self.can_ask = true;
    }

    /// Whether the primary must be asked before a replica may answer after own writes.
    pub fn is_untold(&self) -> bool {
        self.is_untold
    }

    /// What the primary was asked for, and has answered.
    pub fn told(&mut self, tracked: &Tracked) {
        self.is_untold = false;
        let before = self.written.clone();
        self.written.add(tracked);
        if self.written != before {
            self.writes += 1;
        }
    }

    /// How often that has changed: what a replica has is asked once for each.
    pub fn writes(&self) -> u64 {
        self.writes
    }

    /// What a replica's connection is told of before it answers, in order.
    pub fn settings(&self) -> &[Vec<u8>] {
        &self.settings
    }

    /// Whether a transaction is open or may be: a lost primary takes it along.
    pub fn is_in_transaction(&self) -> bool {
        self.status & status::IN_TRANSACTION != 0 || self.status & status::AUTOCOMMIT == 0
    }

    /// Whether nothing of it would be missed on another connection to another primary, except its settings and what it can prepare again.
    pub fn may_move(&self) -> bool {
        self.pin.is_none() && !self.is_in_transaction() && self.statements.may_move(self.settings.len())
    }

    /// Takes a command. `is_whole`: it is all there; otherwise it is too long to be looked at.
    pub fn route(&mut self, message: &[u8], is_whole: bool) -> Route {
        let kind = message.first().map_or(Kind::Refused, |byte| Kind::of(*byte));
        let current = self.judged(kind, message, !is_whole || message.len() > STATEMENT_BYTES_MAX);
        let refusal = self.refusal(&current, message);
        let (class, keeps_last) = (current.class, current.keeps_last());
        if let (None, Class::Pin(pin)) = (refusal, class) {
            self.pin.get_or_insert(pin);
        }
        let route = refusal.map_or_else(|| self.place(&current), Route::Refused);
        self.current = Some(current);
        match route {
            _ if keeps_last => {}
            Route::Replica { .. } | Route::Cursor => self.last = Role::Replica,
            Route::Primary(_) => self.last = Role::Primary,
            Route::Last | Route::Everywhere | Route::Refused(_) => {}
        }
        route
    }

    /// What the command does.
    fn judged(&self, kind: Kind, message: &[u8], is_long: bool) -> Current {
        let text = message.get(1..).unwrap_or_default();
        let statement = match kind {
            Kind::Prepare => self.statements.next(),
            _ if kind.names_statement() => self.statements.named(message),
            _ => None,
        };
        let (mut class, hint) = match kind {
            Kind::Query | Kind::Prepare | Kind::InitDb if is_long => (Class::Pin(Pin::Unclear), None),
            Kind::Query | Kind::Prepare => {
                let verdict = self.judge(text);
                (verdict.class, verdict.hint)
            }
            Kind::InitDb => (using(text), None),
            Kind::Execute => {
                let (class, hint) = self.executed(statement);
                // It could not be sent a second time if the replica fails.
                (if is_long { class.max(Class::PrimaryRead) } else { class }, hint)
            }
            Kind::Fetch
            | Kind::ResetStatement
            | Kind::SendLongData
            | Kind::CloseStatement
            | Kind::Ping
            | Kind::Statistics
            | Kind::FieldList
            | Kind::Quit => (Class::PrimaryRead, None),
            Kind::SetOption => (Class::Setting, None),
            Kind::Short | Kind::ChangeUser | Kind::ResetConnection | Kind::Refused => (Class::Write, None),
        };
        let mut kept = None;
        if kind == Kind::Prepare {
            // What a backslash means to another server is not known when it is prepared there.
            let is_kept = !is_long && !text.contains(&b'\\') && self.statements.has_room(text);
            kept = is_kept.then(|| text.to_vec());
            class = if is_kept { class } else { class.max(Class::PrimaryRead) };
        }
        let setting = (class == Class::Setting && kind != Kind::Prepare).then(|| message.to_vec());
        let execution = statement
            .filter(|_| kind == Kind::Execute)
            .and_then(|id| Execution::parse(message, self.statements.parameters(id)));
        let types = match execution {
            Some(Execution { types: Types::Told(types), .. }) => Some(types.to_vec()),
            _ => None,
        };
        Current { kind, class, hint, setting, statement, text: kept, types }
    }

    /// Why it goes nowhere, if it does.
    fn refusal(&self, current: &Current, message: &[u8]) -> Option<Refusal> {
        let Some(id) = current.statement else {
            return match current.kind {
                Kind::Refused => Some(Refusal::Command),
                Kind::Prepare => Some(Refusal::TooMany),
                kind if kind.names_statement() => {
                    Some(Refusal::Statement(command::statement_id(message).unwrap_or(0)))
                }
                _ => None,
            };
        };
        match current.kind {
            Kind::Execute if self.statements.has_lost_data(id) => Some(Refusal::Data),
            Kind::Execute => match Execution::parse(message, self.statements.parameters(id)) {
                None => Some(Refusal::Arguments),
                Some(Execution { types: Types::AsBefore, .. }) if !self.statements.has_types(id) => {
                    Some(Refusal::Arguments)
                }
                Some(_) => None,
            },
            Kind::Fetch if self.statements.cursor(id).is_none() => Some(Refusal::Cursor(id)),
            _ => None,
        }
    }

    /// What is the same for both servers, however they read it, may go to both.
    fn judge(&self, text: &[u8]) -> Verdict {
        let verdict = classify(text, self.backslashes);
        if self.replica == self.backslashes {
            return verdict;
        }
        let everywhere = classify(text, Backslashes::Unknown);
        match verdict.class {
            class if class == everywhere.class => verdict,
            Class::Read | Class::AfterLast => Verdict { class: Class::PrimaryRead, ..verdict },
            // Replicas would be told of it.
            Class::Setting => everywhere,
            _ => verdict,
        }
    }

    fn place(&self, current: &Current) -> Route {
        match (current.kind, current.statement) {
            (Kind::CloseStatement | Kind::ResetStatement, _) => return Route::Everywhere,
            (Kind::Fetch, Some(id)) if self.statements.cursor(id) == Some(Role::Replica) => {
                return Route::Cursor;
            }
            (Kind::Fetch | Kind::SendLongData, _) => return Route::Primary(Why::Prepared),
            (Kind::Execute, Some(id)) if self.statements.has_data_at_primary(id) => {
                return Route::Primary(Why::Prepared);
            }
            _ => {}
        }
        if let Some(pin) = self.pin {
            return Route::Primary(Why::Pinned(pin));
        }
        if self.is_in_transaction() {
            return Route::Primary(Why::Transaction);
        }
        match current.class {
            _ if current.hint == Some(Hint::Primary) => Route::Primary(Why::Hinted),
            Class::Read if current.hint == Some(Hint::Replica) => Route::Replica { after_own_writes: false },
            Class::Read if self.written == Written::Unknown => Route::Primary(Why::OwnWrites),
            Class::Read => Route::Replica { after_own_writes: true },
            Class::AfterLast => Route::Last,
            Class::PrimaryRead => Route::Primary(Why::Asks),
            Class::Setting | Class::Write | Class::Pin(_) => Route::Primary(Why::Writes),
        }
    }

    fn executed(&self, statement: Option<u32>) -> (Class, Option<Hint>) {
        match statement.and_then(|id| self.statements.class(id)) {
            // What it sets is not in the command.
            Some((Class::Setting, _)) => (Class::Pin(Pin::Set), None),
            Some(known) => known,
            None => (Class::Write, None),
        }
    }

    /// The prepared statement that the command names, or that it makes.
    pub fn statement(&self) -> Option<u32> {
        self.current.as_ref()?.statement
    }

    /// The prepared statement that a server must have before it can carry the command out.
    pub fn needed(&self) -> Option<u32> {
        let current = self.current.as_ref()?;
        current.statement.filter(|_| matches!(current.kind, Kind::Execute | Kind::SendLongData))
    }

    /// Statements that must be prepared on the connection to the primary before the command is carried out there, since their texts may
    /// mean something else afterwards.
    pub fn to_prepare_before(&self, places: &Places) -> Vec<u32> {
        let changes = self.current.as_ref().is_some_and(Current::changes_settings);
        if changes { self.statements.missing(places) } else { Vec::new() }
    }

    /// What a statement is prepared from where it is not prepared yet, and how many parameters it has. `None`: it would not be the same there.
    pub fn source(&self, statement: u32) -> Option<(&[u8], u16)> {
        Some((self.statements.text(statement)?, self.statements.parameters(statement)))
    }

    /// Statements that must be prepared on a connection that was told of so many [settings](Session::settings) before it is told of the next.
    pub fn to_prepare_at(&self, position: usize, role: Role, places: &Places) -> Vec<u32> {
        self.statements.missing_at(position, role, places)
    }

    /// What such a statement is prepared from there, and how many parameters it has.
    pub fn source_at(&self, statement: u32, position: usize) -> Option<(&[u8], u16)> {
        Some((self.statements.text_at(statement, position)?, self.statements.parameters(statement)))
    }

    /// The command as the connection with these places is to get it. `None`: it has not got the statement.
    pub fn message_for<'m>(&self, message: &'m [u8], places: &Places) -> Option<Cow<'m, [u8]>> {
        match &self.current {
            Some(Current { kind, statement: Some(id), .. }) if kind.names_statement() => {
                self.statements.rewritten(*id, message, places).map(Cow::Owned)
            }
            _ => Some(Cow::Borrowed(message)),
        }
    }

    /// Whether rows of a prepared statement wait at this server.
    pub fn has_cursor_at(&self, role: Role) -> bool {
        self.statements.has_cursor_at(role)
    }

    /// Whether this server has rows or parts of parameters of the statement that is to be reset.
    pub fn is_reset_at(&self, role: Role) -> bool {
        self.statement().is_some_and(|id| {
            self.statements.cursor(id) == Some(role)
                || role == Role::Primary && self.statements.has_data_at_primary(id)
        })
    }

    /// The statement that the command names was closed or reset at all servers.
    pub fn answered_everywhere(&mut self) {
        let Some(Current { kind, statement: Some(id), .. }) = self.current.take() else { return };
        if kind == Kind::CloseStatement {
            self.statements.remove(id);
        } else {
            self.statements.set_cursor(id, None);
            self.statements.data_used(id);
        }
    }

    /// The command was answered with an error before any server got it.
    pub fn refused(&mut self) {
        match self.current.take() {
            Some(Current { kind: Kind::Prepare, .. }) => self.statements.refused(),
            Some(Current { kind: Kind::SendLongData, statement: Some(id), .. }) => {
                self.statements.data_sent(id, true);
            }
            Some(Current { kind: Kind::Execute, statement: Some(id), .. })
                if self.statements.has_lost_data(id) =>
            {
                self.statements.data_used(id);
            }
            _ => {}
        }
    }

    /// The primary's last status.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The command went to the primary although a replica might have had it.
    pub fn went_to_primary(&mut self) {
        if !self.current.as_ref().is_some_and(Current::keeps_last) {
            self.last = Role::Primary;
        }
    }

    /// The server that has answered the last command.
    pub fn last(&self) -> Role {
        self.last
    }

    /// The connection to the replica was just asked something and has answered with this status. Until that is told, statements that
    /// depend on the meaning of a backslash go to the primary.
    pub fn replica_told(&mut self, status: u16) {
        self.replica = Backslashes::of(status);
    }

    /// The connection to the primary is a new one, or another one has come into its place, and it was just asked something and has
    /// answered with this status.
    pub fn primary_told(&mut self, status: u16) {
        self.status = status;
        self.is_mode_lost = false;
        self.backslashes = Backslashes::of(status);
        self.statements.cursors_lost(Role::Primary);
        if std::mem::take(&mut self.is_untold) {
            // Nobody is left who knows.
            self.written = Written::Unknown;
            self.writes += 1;
        }
    }

    /// COM_CHANGE_USER was carried out on new connections, of which the primary's has answered with this status: a session as after a
    /// login, but what was written stays.
    pub fn changed_user(&mut self, status: u16, is_plain_charset: bool) {
        // Before the old connection's last write is forgotten.
        self.primary_told(status);
        let (written, writes, can_ask) = (std::mem::take(&mut self.written), self.writes, self.can_ask);
        *self = Session { written, can_ask, writes, ..Session::new(status, is_plain_charset) };
        self.primary_told(status);
    }

    /// Whether the command that is under way is known to read only.
    pub fn is_reading(&self) -> bool {
        self.current.as_ref().is_some_and(|current| current.class < Class::Setting)
    }

    /// The connection to the replica is gone or given to others, and what it knew of its last statement.
    pub fn replica_lost(&mut self) {
        self.replica = Backslashes::Unknown;
        self.last = Role::Primary;
        self.statements.cursors_lost(Role::Replica);
    }

    /// The answer to the command is complete. `places`: what is prepared on the connection that it came on.
    pub fn answered(&mut self, by: Role, outcome: &Outcome, places: &mut Places) {
        let Some(mut current) = self.current.take() else { return };
        // Wherever it was to go: a replica's connection may have been made for it.
        if !current.keeps_last() || outcome.error.is_some() {
            self.last = by;
        }
        self.note_statement(&mut current, by, outcome, places);
        if by == Role::Replica {
            return;
        }
        if let Some(status) = outcome.status {
            self.note_backslashes(&current, status);
            self.status = status;
        }
        // Some of its settings may hold.
        if outcome.error.is_some() && current.kind == Kind::Query && current.class == Class::Setting {
            self.backslashes = Backslashes::Unknown;
        }
        self.note_writes(&current, outcome);
        if current.changes_settings() {
            self.statements.settings_changed();
        }
        if outcome.error.is_some() {
            return;
        }
        if current.kind == Kind::ResetConnection {
            self.reset();
            // The server has closed them.
            places.remove_all();
        }
        if let Some(setting) = current.setting {
            self.settings_bytes += setting.len();
            if self.settings.len() == SETTINGS_MAX || self.settings_bytes > SETTINGS_BYTES_MAX {
                self.pin.get_or_insert(Pin::ManySettings);
            } else {
                self.settings.push(setting);
                // It is told of it later.
                self.replica = Backslashes::Unknown;
            }
        }
    }

    fn note_statement(&mut self, current: &mut Current, by: Role, outcome: &Outcome, places: &mut Places) {
        let Some(id) = current.statement else { return };
        let is_error = outcome.error.is_some();
        let has = |bit: u16| outcome.status.is_some_and(|status| status & bit != 0);
        match current.kind {
            Kind::Prepare => match outcome.prepared.filter(|_| !is_error) {
                Some(prepared) => {
                    places.put(id, prepared.id);
                    let (class, hint, text) = (current.class, current.hint, current.text.take());
                    let (parameters, position) = (prepared.parameters, self.settings.len());
                    self.statements.put(id, Prepared { class, hint, text, parameters, position });
                }
                None => self.statements.refused(),
            },
            Kind::Execute => {
                let has_cursor = !is_error && has(status::CURSOR_EXISTS);
                self.statements.set_cursor(id, has_cursor.then_some(by));
                self.statements.data_used(id);
                self.statements.executed(id, current.types.as_deref(), is_error, places);
            }
            Kind::Fetch if is_error || has(status::LAST_ROW_SENT) => self.statements.set_cursor(id, None),
            Kind::SendLongData => self.statements.data_sent(id, false),
            _ => {}
        }
    }

    /// A trigger that sets `sql_mode` changes what the server tells of it, but not how the server reads: what else than a setting
    /// changed it is not believed until the connection is reset.
    fn note_backslashes(&mut self, current: &Current, status: u16) {
        let told = Backslashes::of(status);
        let is_reset = matches!(current.kind, Kind::ResetConnection | Kind::ChangeUser);
        let may_set = is_reset || current.kind == Kind::Query && current.class == Class::Setting;
        self.is_mode_lost =
            !is_reset && (self.is_mode_lost || told != Backslashes::of(self.status) && !may_set);
        self.backslashes = if self.is_mode_lost { Backslashes::Unknown } else { told };
    }

    fn note_writes(&mut self, current: &Current, outcome: &Outcome) {
        let before = self.written.clone();
        outcome.written.iter().for_each(|tracked| self.written.add(tracked));
        // Preparing alone changes nothing, nor does a setting, nor a reset, which rolls back.
        let may_write = matches!(current.class, Class::Write | Class::Pin(_))
            && !matches!(current.kind, Kind::Prepare | Kind::ResetConnection);
        if may_write && !outcome.is_tracked {
            if self.can_ask {
                self.is_untold = true;
            } else {
                self.written.add(&Tracked::Unknown);
            }
        }
        if self.written != before {
            self.writes += 1;
        }
    }

    /// COM_RESET_CONNECTION: what was in the connection is gone; what was written stays.
    fn reset(&mut self) {
        self.pin = self.pin.filter(|pin| *pin == Pin::Charset);
        self.statements.clear();
        self.settings.clear();
        self.settings_bytes = 0;
    }
}

#[cfg(test)]
mod tests;
