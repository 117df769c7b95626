//! A session with two servers as a model, for fuzzing and tests: what a server is given must be what its own client would have given it.

use super::Places;
use crate::command::{
    self, CLOSE_STATEMENT, EXECUTE, Execution, FETCH, INIT_DB, LAST_STATEMENT, PREPARE, QUERY,
    RESET_CONNECTION, RESET_STATEMENT, SEND_LONG_DATA, TYPE_BYTES, Types, naming,
};
use crate::follow::{Outcome, Prepared};
use crate::reply::status;
use crate::session::{Role, Route, Session};
use std::collections::HashMap;

/// What a connection has set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Set {
    database: Vec<u8>,
    names: Vec<u8>,
    others: Vec<u8>,
}

impl Set {
    fn take(&mut self, command: &[u8]) {
        match command {
            [INIT_DB, name @ ..] => self.database = name.to_vec(),
            [QUERY, text @ ..] if text.starts_with(b"USE ") => self.database = text[4..].to_vec(),
            [QUERY, text @ ..] if text.starts_with(b"SET NAMES") => self.names = text.to_vec(),
            [QUERY, text @ ..] => self.others = text.to_vec(),
            _ => panic!("{command:?} is no setting"),
        }
    }

    fn reset(&mut self) {
        *self = Set { database: std::mem::take(&mut self.database), ..Set::default() };
    }
}

/// What a server knows of a statement.
#[derive(Debug)]
struct Known {
    text: Vec<u8>,
    /// The settings that it was read with.
    settings: Set,
    types: Option<Vec<u8>>,
    has_data: bool,
    has_cursor: bool,
}

/// One connection to a server.
#[derive(Debug)]
struct Server {
    places: Places,
    known: HashMap<u32, Known>,
    /// No two connections give the same numbers.
    next: u32,
    settings: Set,
    /// The number of the last setting that it was told of.
    told: u64,
}

/// What the client knows of a statement of its own.
#[derive(Clone, Debug)]
struct Own {
    text: Vec<u8>,
    settings: Set,
    types: Option<Vec<u8>>,
    has_data: bool,
}

struct Model {
    session: Session,
    primary: Server,
    replica: Server,
    /// By numbers that the client was given.
    own: HashMap<u32, Own>,
    last: Option<u32>,
    settings: Set,
    status: u16,
    connections: u32,
    fails_next: bool,
}

/// Each two bytes are a step.
pub(crate) fn run(steps: &[u8]) {
    let mut model = Model {
        session: Session::new(status::AUTOCOMMIT, 45, b""),
        primary: Server::new(0),
        replica: Server::new(1),
        own: HashMap::new(),
        last: None,
        settings: Set::default(),
        status: status::AUTOCOMMIT,
        connections: 2,
        fails_next: false,
    };
    for step in steps.chunks_exact(2) {
        if model.step(step[0], step[1]).is_none() {
            return;
        }
    }
}

fn parameters(text: &[u8]) -> u16 {
    text.iter().filter(|&&byte| byte == b'?').count() as u16
}

impl Server {
    fn new(connection: u32) -> Server {
        let (places, settings) = (Places::default(), Set::default());
        Server { places, known: HashMap::new(), next: connection << 16 | 1, settings, told: 0 }
    }

    fn prepare(&mut self, text: &[u8]) -> Prepared {
        let (id, settings) = (self.next, self.settings.clone());
        self.next += 1;
        let text = text.to_vec();
        let prepared = Prepared { id, parameters: parameters(&text) };
        self.known.insert(id, Known { text, settings, types: None, has_data: false, has_cursor: false });
        prepared
    }

    /// The statement that a message from the session names.
    fn named(&mut self, message: &[u8]) -> &mut Known {
        let id = command::statement_id(message).expect("a number");
        self.known.get_mut(&id).expect("a number of this connection")
    }
}

impl Model {
    /// `None`: the session is over.
    fn step(&mut self, what: u8, which: u8) -> Option<()> {
        let id = self.own.keys().min().copied().unwrap_or(0).wrapping_add(u32::from(which >> 4));
        match what % 13 {
            0 => self.prepare(which),
            1 => self.execute(id, Some(which), 0),
            2 => self.execute(id, None, 0),
            3 => self.execute(id, Some(which), 1),
            4 => self.execute(LAST_STATEMENT, Some(which), 0),
            5 => self.long_data(id),
            6 => self.everywhere(&naming(RESET_STATEMENT, id)),
            7 => self.everywhere(&naming(CLOSE_STATEMENT, id)),
            8 => self.statement(
                [
                    &b"SET NAMES utf8"[..],
                    b"SET NAMES latin1",
                    b"USE a",
                    b"USE b",
                    b"SET sql_mode = ''",
                    b"SET sql_mode = 'ANSI_QUOTES'",
                ][usize::from(which % 6)],
            ),
            9 if self.status & status::IN_TRANSACTION == 0 => self.statement(b"BEGIN"),
            9 => self.statement(b"COMMIT"),
            10 => self.fetch(id),
            11 => self.lose(which),
            _ => {
                self.fails_next = true;
                Some(())
            }
        }
    }

    fn prepare(&mut self, which: u8) -> Option<()> {
        let marks = ["?", ", ?", ", ?"][..usize::from(which % 4).min(3)].concat();
        let text = match which >> 2 & 3 {
            0 | 1 => format!("SELECT {which} FROM t WHERE a IN (0{})", marks.replacen('?', ", ?", 1)),
            2 => format!("INSERT INTO t VALUES ({which}{})", marks.replacen('?', ", ?", 1)),
            _ => format!("SELECT '\\\\', {which}{}", marks.replacen('?', ", ?", 1)),
        };
        let message = [&[PREPARE], text.as_bytes()].concat();
        let (role, _) = self.route(&message)?;
        let id = self.session.statement().expect("a new number");
        assert!(!self.own.contains_key(&id), "two statements with one number");
        if std::mem::take(&mut self.fails_next) {
            self.last = None;
            return self.answered(role, Outcome { error: Some(1064), ..Outcome::default() });
        }
        let prepared = self.server(role).prepare(text.as_bytes());
        self.own.insert(
            id,
            Own { text: text.into_bytes(), settings: self.settings.clone(), types: None, has_data: false },
        );
        self.last = Some(id);
        self.answered(role, Outcome { prepared: Some(prepared), ..Outcome::default() })
    }

    fn execute(&mut self, named: u32, types: Option<u8>, flags: u8) -> Option<()> {
        let id = if named == LAST_STATEMENT { self.last.unwrap_or(named) } else { named };
        let own = self.own.get(&id).cloned();
        let count = own.as_ref().map_or(0, |own| parameters(&own.text));
        let mut message = naming(EXECUTE, named);
        message.extend([flags, 1, 0, 0, 0]);
        if count > 0 {
            message.resize(message.len() + usize::from(count).div_ceil(8), 0);
            message.push(u8::from(types.is_some()));
            message.resize(
                message.len() + types.map_or(0, |_| TYPE_BYTES * usize::from(count)),
                types.unwrap_or(0),
            );
        }
        message.extend(b"values");
        let route = self.route(&message);
        let Some(own) = own else {
            assert!(route.is_none(), "a number that nobody has");
            return Some(());
        };
        let Some((role, sent)) = route else {
            assert!(count > 0 && types.is_none() && own.types.is_none(), "{own:?}");
            return Some(());
        };
        assert!(sent.ends_with(b"values"));
        let types = if count == 0 {
            Some(Vec::new())
        } else {
            types.map(|byte| vec![byte; TYPE_BYTES * usize::from(count)])
        };
        let expected = types.or(own.types.clone());
        let fails = std::mem::take(&mut self.fails_next);
        let known = self.server(role).named(&sent);
        assert_eq!((&known.text, &known.settings, known.has_data), (&own.text, &own.settings, own.has_data));
        match Execution::parse(&sent, count).expect("an execution").types {
            Types::Told(types) => known.types = Some(types.to_vec()),
            Types::None => known.types = Some(Vec::new()),
            Types::AsBefore => {}
        }
        assert_eq!(known.types, expected);
        known.has_data = false;
        known.has_cursor = flags != 0 && !fails;
        let own = self.own.get_mut(&id)?;
        (own.types, own.has_data) = (expected, false);
        let cursor = if flags == 0 { 0 } else { status::CURSOR_EXISTS };
        let (status, error) = (Some(self.status | cursor), fails.then_some(1213));
        self.answered(
            role,
            Outcome { status: status.filter(|_| !fails), error, is_tracked: true, ..Outcome::default() },
        )
    }

    fn long_data(&mut self, id: u32) -> Option<()> {
        let Some((role, sent)) = self.route(&[&naming(SEND_LONG_DATA, id)[..], b"\0\0data"].concat()) else {
            return Some(());
        };
        assert_eq!(role, Role::Primary);
        self.primary.named(&sent).has_data = true;
        self.own.get_mut(&id)?.has_data = true;
        self.answered(role, Outcome::default())
    }

    fn fetch(&mut self, id: u32) -> Option<()> {
        if let Some((role, sent)) = self.route(&[&naming(FETCH, id)[..], &[1, 0, 0, 0]].concat()) {
            assert!(self.server(role).named(&sent).has_cursor);
            let status = Some(self.status);
            self.answered(role, Outcome { status, ..Outcome::default() });
        }
        Some(())
    }

    fn everywhere(&mut self, message: &[u8]) -> Option<()> {
        let route = self.session.route(message, true);
        let Some(id) = self.session.statement() else {
            assert!(matches!(route, Route::Refused(_)));
            return Some(());
        };
        assert_eq!(route, Route::Everywhere);
        for role in [Role::Primary, Role::Replica] {
            let is_reset = self.session.is_reset_at(role);
            let server = if role == Role::Primary { &mut self.primary } else { &mut self.replica };
            if message[0] == RESET_STATEMENT {
                if is_reset {
                    let sent = self.session.message_for(message, &server.places).expect("it is there");
                    let known = server.named(&sent);
                    (known.has_data, known.has_cursor) = (false, false);
                }
            } else if let Some(close) = server.places.remove(id) {
                let gone = server.known.remove(&command::statement_id(&close)?);
                assert_eq!(gone.expect("a number of this connection").text, self.own[&id].text);
            }
        }
        self.session.answered_everywhere();
        if message[0] == RESET_STATEMENT {
            self.own.get_mut(&id)?.has_data = false;
        } else {
            self.own.remove(&id);
            self.last = self.last.filter(|last| *last != id);
        }
        Some(())
    }

    fn statement(&mut self, text: &[u8]) -> Option<()> {
        let (role, _) = self.route(&[&[QUERY], text].concat())?;
        assert_eq!(role, Role::Primary);
        match text[0] {
            b'S' | b'U' => {
                self.settings.take(&[&[QUERY], text].concat());
                self.primary.settings = self.settings.clone();
            }
            b'B' => self.status |= status::IN_TRANSACTION,
            _ => self.status &= !status::IN_TRANSACTION,
        }
        let status = Some(self.status);
        self.answered(role, Outcome { status, is_tracked: true, ..Outcome::default() })
    }

    fn lose(&mut self, which: u8) -> Option<()> {
        self.connections += 1;
        let connection = self.connections;
        match which % 4 {
            0 | 1 => {
                self.replica = Server::new(connection);
                self.session.replica_lost();
            }
            2 if !self.session.may_move() => return None,
            2 => {
                self.primary = Server::new(connection);
                self.tell(Role::Primary);
                self.session.primary_told(self.status);
            }
            _ => {
                let (role, _) = self.route(&[RESET_CONNECTION])?;
                self.own.clear();
                self.primary.known.clear();
                self.last = None;
                self.status = status::AUTOCOMMIT;
                self.settings.reset();
                self.primary.settings.reset();
                let status = Some(self.status);
                self.answered(role, Outcome { status, ..Outcome::default() });
                self.replica = Server::new(connection);
                self.session.replica_lost();
            }
        }
        Some(())
    }

    fn server(&mut self, role: Role) -> &mut Server {
        if role == Role::Primary { &mut self.primary } else { &mut self.replica }
    }

    fn answered(&mut self, role: Role, outcome: Outcome) -> Option<()> {
        let server = if role == Role::Primary { &mut self.primary } else { &mut self.replica };
        self.session.answered(role, &outcome, &mut server.places);
        if role == Role::Primary {
            server.told = self.session.settings().position();
        }
        Some(())
    }

    /// Where a command goes, and as what. `None`: it is refused.
    fn route(&mut self, message: &[u8]) -> Option<(Role, Vec<u8>)> {
        let mut role = match self.session.route(message, true) {
            Route::Primary(_) => Role::Primary,
            Route::Replica { .. } | Route::Cursor => Role::Replica,
            Route::Last => self.session.last(),
            Route::Everywhere => panic!("{message:?} goes to one server"),
            Route::Refused(_) => {
                self.session.refused();
                return None;
            }
        };
        if role == Role::Replica {
            self.tell(role);
            if !self.place(role) {
                role = Role::Primary;
            }
        }
        if role == Role::Primary {
            for id in self.session.to_prepare_before(&self.primary.places) {
                self.prepare_at(role, id);
            }
            assert!(self.place(role), "the primary has it, or may have it");
        }
        let server = if role == Role::Primary { &mut self.primary } else { &mut self.replica };
        let sent = self.session.message_for(message, &server.places).expect("it is there");
        Some((role, sent.into_owned()))
    }

    /// Brings a connection up to the session's settings.
    fn tell(&mut self, role: Role) {
        let server = if role == Role::Primary { &mut self.primary } else { &mut self.replica };
        for setting in self.session.settings().after(server.told) {
            let between = server.told..setting.number;
            for id in self.session.to_prepare_between(&between, role, &server.places) {
                let (text, _) = self.session.source_between(id, &between).expect("a text");
                let prepared = server.prepare(text);
                server.places.put(id, prepared.id);
            }
            server.settings.take(&setting.message);
            server.told = setting.number;
        }
        assert_eq!(server.settings, self.settings);
    }

    fn place(&mut self, role: Role) -> bool {
        let Some(id) = self.session.needed() else { return true };
        self.server(role).places.has(id) || self.prepare_at(role, id)
    }

    fn prepare_at(&mut self, role: Role, id: u32) -> bool {
        let Some((text, count)) = self.session.source(id) else { return false };
        let text = text.to_vec();
        let server = self.server(role);
        let prepared = server.prepare(&text);
        assert_eq!(prepared.parameters, count);
        server.places.put(id, prepared.id);
        true
    }
}
