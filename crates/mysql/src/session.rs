//! Where a session's next command goes. The owner passes in each command ([`Session::route`]) and the outcome of each answer
//! ([`Session::answered`]).

mod current;
mod remembered;
mod route;
#[cfg(test)]
mod tests;

use crate::classify::{
    Asks, Backslashes, Chooses, Class, Hint, Pin, Verdict, chosen_by, classify, is_plain_charset, using,
};
use crate::command::{self, DROP_DB, Execution, INIT_DB, Kind, Types};
use crate::follow::Outcome;
use crate::limits::STATEMENT_BYTES_MAX;
use crate::reply::{Tracked, status};
use crate::settings::{Kind as SettingKind, Settings};
use crate::statements::{Places, Prepared, Statements};
use crate::written::Written;
use current::{Current, Rights};
use remembered::Remembered;
pub use route::{Refusal, Route, Why};
use std::borrow::Cow;
use std::ops::Range;

/// One of a session's two connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// To the primary.
    Primary,
    /// To a replica.
    Replica,
}

/// The default database of the connection to the primary, which a reset leaves as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Database {
    /// That of the login.
    OfLogin,
    /// Other connections are told of it by this command.
    Chosen(Vec<u8>),
    /// One that each server has for itself.
    Own,
    /// Only the server knows.
    Unclear,
}

/// See the module's head.
#[derive(Debug)]
pub struct Session {
    /// Why it stays with the primary: set by what was carried out there.
    pin: Option<Pin>,
    /// What the connection to the primary has.
    rights: Rights,
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
    /// What it says then is the session's own.
    is_exact: bool,
    /// Counts the changes of `written`.
    writes: u64,
    remembered: Remembered,
    statements: Statements,
    /// Commands that other connections are told of.
    settings: Settings,
    database: Database,
    /// The last COM_SET_OPTION: no reset and no other account undo it.
    option: Option<Vec<u8>>,
    current: Option<Current>,
}

impl Session {
    /// A session whose login was answered with this status, and named this collation and this default database; empty: none. If either is
    /// none of the plain ones, it stays with the primary.
    pub fn new(status: u16, collation: u16, database: &[u8]) -> Session {
        let is_own = matches!(using(database), Class::Pin(_));
        let pin = if is_plain_charset(collation) { None } else { Some(Pin::Charset) };
        Session {
            pin: pin.or(is_own.then_some(Pin::OwnDatabase)),
            rights: Rights::OfLogin,
            status,
            // `init_connect` may change it after the login was answered.
            backslashes: Backslashes::Unknown,
            is_mode_lost: false,
            replica: Backslashes::Unknown,
            written: Written::default(),
            is_untold: false,
            can_ask: false,
            is_exact: false,
            writes: 0,
            remembered: Remembered::default(),
            statements: Statements::default(),
            settings: Settings::default(),
            database: if is_own { Database::Own } else { Database::OfLogin },
            option: None,
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

    /// Whether what it says then is the session's last write, and not one of others.
    pub fn are_writes_told_apart(&mut self, are_told_apart: bool) {
        self.is_exact = are_told_apart;
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

    /// What another connection is told of before it answers.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What it occupies beside itself, about.
    pub fn bytes(&self) -> usize {
        self.statements.held_bytes() + self.settings.bytes()
    }

    /// Whether a transaction is open or may be: a lost primary takes it along.
    pub fn is_in_transaction(&self) -> bool {
        self.status & status::IN_TRANSACTION != 0 || self.status & status::AUTOCOMMIT == 0
    }

    /// Whether nothing of it would be missed on another connection to another primary, except its settings and what it can prepare again.
    pub fn may_move(&self) -> bool {
        let position = self.settings.position();
        self.pin.is_none() && !self.is_in_transaction() && self.statements.may_move(position)
    }

    /// Whether another session may have its connections: nothing of it is in them, and nothing that a login of another session would leave.
    pub fn may_be_followed(&self) -> bool {
        self.may_move() && self.option.is_none() && self.rights == Rights::OfLogin
    }

    /// Whether the command that is under way asks what only an earlier connection to the primary knew. `is_new`: the present one is given up
    /// for another one.
    pub fn asks_what_is_lost(&self, is_new: bool) -> bool {
        self.remembered.is_lost(self.asks(), is_new)
    }

    /// What the command that is under way asks of those before it.
    fn asks(&self) -> Asks {
        self.current.as_ref().map(Current::asks).unwrap_or_default()
    }

    /// Takes a command. `is_whole`: it is all there; otherwise it is too long to be looked at. Nothing is changed by a command before it is
    /// [answered](Session::answered): it may be taken again.
    pub fn route(&mut self, message: &[u8], is_whole: bool) -> Route {
        let kind = message.first().map_or(Kind::Refused, |byte| Kind::of(*byte));
        let current = self.judged(kind, message, !is_whole || message.len() > STATEMENT_BYTES_MAX);
        let refusal = self.refusal(&current, message);
        let mut route = refusal.map_or_else(|| self.place(&current), Route::Refused);
        // Another server would tell of a statement of its own.
        if current.asks().last && self.remembered.is_elsewhere(route) {
            route = Route::Refused(Refusal::Forgotten);
        }
        self.current = Some(current);
        route
    }

    /// Takes the command that is under way again, for another connection to the primary, which may read statements otherwise.
    pub fn route_again(&mut self, message: &[u8], is_whole: bool) {
        let writes = self.current.as_ref().is_some_and(|current| current.class >= Class::Write);
        self.route(message, is_whole);
        if writes {
            // A replica may have found that.
            self.writes_after_all();
        }
    }

    /// What the command does.
    fn judged(&self, kind: Kind, message: &[u8], is_long: bool) -> Current {
        let text = message.get(1..).unwrap_or_default();
        let statement = match kind {
            Kind::Prepare => self.statements.next(),
            _ if kind.names_statement() => self.statements.named(message),
            _ => None,
        };
        let Verdict { mut class, hint, asks, tables } = match kind {
            Kind::Query | Kind::Prepare | Kind::InitDb if is_long => Verdict::of(Class::Pin(Pin::Unclear)),
            Kind::Query | Kind::Prepare => self.judge(text),
            Kind::InitDb => Verdict::of(using(text)),
            Kind::Execute => {
                let verdict = self.executed(statement);
                // It could not be sent a second time if the replica fails.
                let floor = if is_long { Class::PrimaryRead } else { Class::Read };
                Verdict { class: verdict.class.max(floor), ..verdict }
            }
            Kind::Fetch
            | Kind::ResetStatement
            | Kind::SendLongData
            | Kind::CloseStatement
            | Kind::Ping
            | Kind::Statistics
            | Kind::FieldList
            | Kind::Quit => Verdict::of(Class::PrimaryRead),
            Kind::SetOption => Verdict::of(Class::Setting),
            // As the statement: it may be the default database.
            Kind::Short if message.first() == Some(&DROP_DB) => Verdict::of(Class::Pin(Pin::OwnDatabase)),
            Kind::Short | Kind::ChangeUser | Kind::ResetConnection | Kind::Refused => {
                Verdict::of(Class::Write)
            }
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
        let is_read = matches!(kind, Kind::Query | Kind::Prepare) && !is_long;
        let rights = Rights::after(class, is_read.then_some(text));
        Current { kind, class, hint, asks, tables, rights, setting, statement, text: kept, types }
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
        let pin = match current.class {
            Class::Pin(pin) => self.pin.or(Some(pin)),
            _ => self.pin,
        };
        if let Some(pin) = pin {
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

    fn executed(&self, statement: Option<u32>) -> Verdict {
        match statement.and_then(|id| self.statements.verdict(id)) {
            // What it sets is not in the command.
            Some(Verdict { class: Class::Setting, .. }) => Verdict::of(Class::Pin(Pin::Set)),
            Some(known) => known,
            None => Verdict::of(Class::Write),
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

    /// Statements that must be prepared on a connection that was told of all [settings](Session::settings) up to the first of these numbers,
    /// before it is told of that with the last.
    pub fn to_prepare_between(&self, between: &Range<u64>, role: Role, places: &Places) -> Vec<u32> {
        self.statements.missing_between(between, role, places)
    }

    /// What such a statement is prepared from there, and how many parameters it has.
    pub fn source_between(&self, statement: u32, between: &Range<u64>) -> Option<(&[u8], u16)> {
        Some((self.statements.text_between(statement, between)?, self.statements.parameters(statement)))
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

    /// The server that is asked what the last statement came to.
    pub fn last(&self) -> Role {
        self.remembered.asked()
    }

    /// Why no other server may carry out the command that is under way, if the replica that was to do that did not.
    pub fn is_forgotten(&self) -> Option<Refusal> {
        let is_elsewhere = self.remembered.is_elsewhere(Route::Primary(Why::Asks));
        (self.asks().last && is_elsewhere).then_some(Refusal::Forgotten)
    }

    /// A replica has refused the command that is under way, since it writes: what it calls is not in its text.
    pub fn writes_after_all(&mut self) {
        if let Some(current) = &mut self.current {
            current.class = current.class.max(Class::Write);
        }
    }

    /// Whether its connections have the default database of the login.
    pub fn has_database_of_login(&self) -> bool {
        self.database == Database::OfLogin
    }

    /// Whether the primary must be asked for its default database, which the session has kept over a reset.
    pub fn must_ask_database(&self) -> bool {
        self.database == Database::Unclear
    }

    /// What the primary was asked for: the default database of its connection, empty if there is none. `of_login`: that of the login.
    pub fn told_database(&mut self, name: &[u8], of_login: &[u8]) {
        self.database = match using(name) {
            Class::Pin(_) => Database::Own,
            _ if name == of_login => Database::OfLogin,
            // Nobody can be told to have none.
            _ if name.is_empty() => Database::Own,
            _ => Database::Chosen([&[INIT_DB], name].concat()),
        };
        if let Database::Chosen(command) = &self.database {
            self.settings.add(command.clone(), SettingKind::Database, 0);
        }
        self.pin = self.lasting_pin();
    }

    /// What of it a reset leaves.
    fn lasting_pin(&self) -> Option<Pin> {
        let of_rights = (self.rights == Rights::Chosen).then_some(Pin::Set);
        self.pin.filter(|pin| *pin == Pin::Charset).or(of_rights).or(self.database_pin())
    }

    /// Why the default database keeps the session, if it does.
    fn database_pin(&self) -> Option<Pin> {
        match self.database {
            Database::OfLogin | Database::Chosen(_) => None,
            Database::Own | Database::Unclear => Some(Pin::OwnDatabase),
        }
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
        self.remembered.lost(Role::Primary);
        if std::mem::take(&mut self.is_untold) {
            // Nobody is left who knows.
            self.written = Written::Unknown;
            self.writes += 1;
        }
    }

    /// COM_CHANGE_USER was carried out on new connections, of which the primary's has answered with this status: a session as after a
    /// login with this collation and database, but what was written stays, and so does COM_SET_OPTION.
    pub fn changed_user(&mut self, status: u16, collation: u16, database: &[u8]) {
        // Before the old connection's last write is forgotten.
        self.primary_told(status);
        let (written, writes, can_ask) = (std::mem::take(&mut self.written), self.writes, self.can_ask);
        let option = self.option.take();
        *self = Session { written, can_ask, writes, option, ..Session::new(status, collation, database) };
        self.keep_option();
        self.primary_told(status);
    }

    fn keep_option(&mut self) {
        if let Some(option) = &self.option {
            self.settings.add(option.clone(), SettingKind::Option, 0);
        }
    }

    /// Whether the command that is under way is known to read only.
    pub fn is_reading(&self) -> bool {
        self.current.as_ref().is_some_and(|current| current.class < Class::Setting)
    }

    /// The connection to the replica is gone or given to others, and what it knew of its last statement.
    pub fn replica_lost(&mut self) {
        self.replica = Backslashes::Unknown;
        self.remembered.lost(Role::Replica);
        self.statements.cursors_lost(Role::Replica);
    }

    /// The answer to the command is complete. `places`: what is prepared on the connection that it came on.
    pub fn answered(&mut self, by: Role, outcome: &Outcome, places: &mut Places) {
        let Some(mut current) = self.current.take() else { return };
        // Wherever it was to go: a replica's connection may have been made for it.
        if !current.keeps_last() || outcome.error.is_some() {
            self.remembered.answered(by);
        }
        self.note_statement(&mut current, by, outcome, places);
        if by == Role::Replica {
            return;
        }
        if let Some(status) = outcome.status {
            self.note_backslashes(&current, status);
            self.status = status;
        }
        if let Class::Pin(pin) = current.class {
            self.pin.get_or_insert(pin);
        }
        self.rights = self.rights.max(current.rights);
        if current.may_hide_use() {
            self.database = Database::Unclear;
        }
        if outcome.has_insert_id {
            self.remembered.inserted();
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
            self.keep_setting(current.kind, setting);
        }
    }

    /// It was carried out at the primary, and others are to be told of it.
    fn keep_setting(&mut self, kind: Kind, message: Vec<u8>) {
        let chooses = match kind {
            Kind::InitDb => Chooses::Database(message.get(1..).unwrap_or_default()),
            Kind::Query => chosen_by(message.get(1..).unwrap_or_default()),
            _ => Chooses::Other,
        };
        let (what, message) = match chooses {
            // In other character sets it is another name.
            Chooses::Database(name) if name.is_ascii() => {
                let command = [&[INIT_DB], name].concat();
                self.database = Database::Chosen(command.clone());
                (SettingKind::Database, command)
            }
            Chooses::Database(_) | Chooses::OtherDatabase => {
                self.database = Database::Unclear;
                (SettingKind::Other, message)
            }
            Chooses::Names => (SettingKind::Names, message),
            Chooses::Other if kind == Kind::SetOption => {
                self.option = Some(message.clone());
                (SettingKind::Option, message)
            }
            Chooses::Other => (SettingKind::Other, message),
        };
        if self.settings.add(message, what, self.statements.last_position()) {
            // It is told of it later.
            self.replica = Backslashes::Unknown;
        } else {
            self.pin.get_or_insert(Pin::ManySettings);
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
                    let Current { class, hint, asks, tables, .. } = *current;
                    let verdict = Verdict { class, hint, asks, tables };
                    let (text, parameters) = (current.text.take(), prepared.parameters);
                    let position = self.settings.position();
                    self.statements.put(id, Prepared { verdict, text, parameters, position });
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
        if current.may_write(self.is_exact) && !outcome.is_tracked {
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

    /// COM_RESET_CONNECTION: what was in the connection is gone, but for its default database and COM_SET_OPTION; what was written stays.
    fn reset(&mut self) {
        self.pin = self.lasting_pin();
        self.remembered = Remembered::default();
        self.statements.clear();
        self.settings.clear();
        self.keep_option();
        if let Database::Chosen(command) = &self.database {
            self.settings.add(command.clone(), SettingKind::Database, 0);
        }
    }
}
