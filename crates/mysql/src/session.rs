//! Where a session's next command goes. The owner passes in each command ([`Session::route`]) and the outcome of each answer
//! ([`Session::answered`]).

use crate::classify::{Backslashes, Class, Hint, Pin, Verdict, classify, using};
use crate::command::{self, Kind};
use crate::follow::Outcome;
use crate::limits::{SETTINGS_BYTES_MAX, SETTINGS_MAX, STATEMENT_BYTES_MAX, STATEMENTS_MAX};
use crate::reply::{Tracked, status};
use crate::written::Written;
use std::collections::HashMap;

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
    /// It is answered with an error here.
    Refused,
}

/// A command that is under way.
#[derive(Clone, Debug)]
struct Current {
    kind: Kind,
    class: Class,
    /// What replicas are told of if the answer is no error.
    setting: Option<Vec<u8>>,
    statement: Option<u32>,
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
    /// What prepared statements do.
    statements: HashMap<u32, Class>,
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
            statements: HashMap::new(),
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

    /// Whether nothing of it would be missed on another connection to another primary, except its settings.
    pub fn may_move(&self) -> bool {
        self.pin.is_none() && !self.is_in_transaction() && self.statements.is_empty()
    }

    /// Takes a command. `is_whole`: it is all there; otherwise it is too long to be looked at.
    pub fn route(&mut self, message: &[u8], is_whole: bool) -> Route {
        let kind = message.first().map_or(Kind::Refused, |byte| Kind::of(*byte));
        let is_long = !is_whole || message.len() > STATEMENT_BYTES_MAX;
        let judged = match message {
            [_, text @ ..] if !is_long => self.judge(text),
            _ => Verdict { class: Class::Pin(Pin::Unclear), hint: None },
        };
        let (class, hint) = match kind {
            Kind::Query | Kind::Prepare => (judged.class, judged.hint),
            Kind::InitDb if is_long => (Class::Pin(Pin::Unclear), None),
            Kind::InitDb => (using(&message[1..]), None),
            Kind::Execute => (self.executed(message), None),
            // Rows and buffers of a statement that is at the primary.
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
        let setting = (class == Class::Setting && kind != Kind::Prepare).then(|| message.to_vec());
        let statement = match kind {
            Kind::CloseStatement => command::statement_id(message),
            _ => None,
        };
        if let Some(id) = statement {
            self.statements.remove(&id);
        }
        self.current = Some(Current { kind, class, setting, statement });
        if kind == Kind::Refused {
            return Route::Refused;
        }
        if let Class::Pin(pin) = class {
            self.pin.get_or_insert(pin);
        }
        let route = self.place(kind, class, hint);
        self.last = match route {
            Route::Replica { .. } => Role::Replica,
            Route::Last => self.last,
            _ => Role::Primary,
        };
        route
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

    fn place(&self, kind: Kind, class: Class, hint: Option<Hint>) -> Route {
        if let Some(pin) = self.pin {
            return Route::Primary(Why::Pinned(pin));
        }
        if self.is_in_transaction() {
            return Route::Primary(Why::Transaction);
        }
        // Statements are prepared at the primary, whatever they do.
        match class {
            _ if kind != Kind::Query && class >= Class::Setting => Route::Primary(Why::Writes),
            _ if kind != Kind::Query => Route::Primary(Why::Asks),
            _ if hint == Some(Hint::Primary) => Route::Primary(Why::Hinted),
            Class::Read if hint == Some(Hint::Replica) => Route::Replica { after_own_writes: false },
            Class::Read if self.written == Written::Unknown => Route::Primary(Why::OwnWrites),
            Class::Read => Route::Replica { after_own_writes: true },
            Class::AfterLast => Route::Last,
            Class::PrimaryRead => Route::Primary(Why::Asks),
            Class::Setting | Class::Write | Class::Pin(_) => Route::Primary(Why::Writes),
        }
    }

    fn executed(&self, message: &[u8]) -> Class {
        let class = command::statement_id(message).and_then(|id| self.statements.get(&id).copied());
        match class.unwrap_or(Class::Pin(Pin::Unclear)) {
            // What it sets is not in the command.
            Class::Setting => Class::Pin(Pin::Set),
            // What a replica is to be asked of is in the statement.
            class => class,
        }
    }

    /// The command went to the primary although a replica might have had it.
    pub fn went_to_primary(&mut self) {
        self.last = Role::Primary;
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
    }

    /// The answer to the command is complete.
    pub fn answered(&mut self, by: Role, outcome: &Outcome) {
        let Some(current) = self.current.take() else { return };
        // Wherever it was to go: a replica's connection may have been made for it.
        self.last = by;
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
        if outcome.error.is_some() {
            return;
        }
        match current.kind {
            Kind::ResetConnection => self.reset(),
            Kind::Prepare => {
                if let Some(prepared) = outcome.prepared
                    && self.statements.len() < STATEMENTS_MAX
                {
                    self.statements.insert(prepared.id, current.class);
                }
            }
            _ => {}
        }
        debug_assert!(current.statement.is_none() || current.kind == Kind::CloseStatement);
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
