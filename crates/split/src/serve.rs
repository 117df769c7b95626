//! A split session: takes a command, finds its server, passes the answer on.

use crate::backend::{Backend, Purpose, Tracking, Unready, greet, unless_lost};
use crate::exchange::{Command, Failed};
use crate::known::Claimed;
use crate::opening::{Claim, Opened, denied, lost, not_of_clients, open_primary};
use crate::reading::prepare;
use crate::split::Split;
use crate::wire::{Broken, Wire};
use brisk_balance::{Ask, Lease, PeerId, Selection};
use brisk_db::{Cluster, News, Pin, Tally};
use brisk_host::log::LogLevel;
use brisk_host::memory::Charge;
use brisk_host::vars::Context as _;
use brisk_mysql::ProtocolError;
use brisk_mysql::classify::{self, is_of_clients};
use brisk_mysql::client::{Account, Answer};
use brisk_mysql::command::Kind;
use brisk_mysql::follow::Outcome;
use brisk_mysql::greeting::NONCE_BYTES;
use brisk_mysql::login::ChangeUser;
use brisk_mysql::reply::{ErrPacket, OkPacket, Tracked, Unfit};
use brisk_mysql::session::{Role, Route, Session as Course, Why};
use brisk_net::clock;
use brisk_stream::conf::Proxy;
use brisk_stream::{BAD_GATEWAY, BAD_REQUEST, OK, Session, Status};
use std::cell::Cell;
use std::sync::Arc;

/// A session under way.
pub struct Running<'s> {
    split: &'s Split,
    pub(crate) session: &'s Session,
    proxy: &'s Proxy,
    pub(crate) news: News,
    pub(crate) client: Wire,
    pub(crate) course: Course,
    account: Account,
    nonce: [u8; NONCE_BYTES],
    pub(crate) primary: Option<Backend>,
    pub(crate) replica: Option<Backend>,
    /// Until then (monotonic, ms) no replica is tried.
    no_replica_until_ms: u64,
    /// The last command was refused for want of a primary: that is told once.
    is_refusing: bool,
    /// What `course` and `account` hold.
    charge: Charge,
}

/// A session ends with this.
pub(crate) struct End(pub(crate) Status);

impl<'s> Running<'s> {
    /// A session whose client has logged in.
    pub fn new(
        split: &'s Split,
        session: &'s Session,
        proxy: &'s Proxy,
        news: News,
        opened: Opened,
    ) -> Running<'s> {
        let mut course = Course::new(opened.status, opened.account.charset, &opened.account.database);
        course.primary_told(opened.status);
        course.may_ask_for_writes();
        let running = Running {
            split,
            session,
            proxy,
            news,
            client: opened.client,
            course,
            account: opened.account,
            nonce: opened.nonce,
            primary: Some(opened.primary),
            replica: None,
            no_replica_until_ms: 0,
            is_refusing: false,
            charge: session.account.hold(0),
        };
        running.count_held();
        running.count_pin(None);
        running
    }

    /// Serves it to its end.
    pub async fn run(mut self) -> Status {
        loop {
            let command = Command::next(&mut self.client).await;
            let done = match command {
                Ok(command) => self.carry_out(command).await,
                Err(Broken::Closed) => Err(self.leave().await),
                Err(broken) => self.refuse_client(&broken).await,
            };
            self.count();
            self.count_held();
            if let Err(End(status)) = done {
                return status;
            }
        }
    }

    pub(crate) fn cluster(&self) -> &Arc<Cluster> {
        self.news.cluster()
    }

    pub(crate) fn log(&self, level: LogLevel, text: std::fmt::Arguments<'_>) {
        self.session.log(level, text);
    }

    fn count(&mut self) {
        let (received, sent) = self.client.moved();
        self.session.moved(received, sent);
        self.primary.iter_mut().chain(&mut self.replica).for_each(Backend::count);
    }

    /// Counts what it keeps of the client. While a command is carried out that is counted itself, and what is kept of it is no more.
    fn count_held(&self) {
        let account = &self.account;
        let of_account = account.user.len() + account.database.len() + account.attributes.len();
        self.charge.set(size_of::<Running<'_>>() + of_account + self.course.bytes());
    }

    /// The client has gone, and nothing of a command of its is on the way.
    async fn leave(&mut self) -> End {
        let is_kept = self.split.pool_max > 0 && self.course.may_be_followed();
        let is_home = self.course.has_database_of_login();
        for mut backend in self.primary.take().into_iter().chain(self.replica.take()) {
            if !is_kept {
                backend.quit();
                continue;
            }
            let id = backend.id;
            if let Some(Ok(())) = unless_lost(&mut self.news, id, backend.close_statements()).await {
                self.split.keep(&self.news, backend, &self.account, is_home);
            }
        }
        End(OK)
    }

    /// A client that does not keep to the protocol is told so, where it can be.
    async fn refuse_client(&mut self, broken: &Broken) -> Result<(), End> {
        let error = match broken {
            Broken::Protocol(ProtocolError::Sequence { .. } | ProtocolError::PackedSequence { .. }) => {
                Some(ErrPacket::new(1156, b"08S01", "Got packets out of order"))
            }
            Broken::Protocol(ProtocolError::Inflated { .. } | ProtocolError::Deflated) => {
                Some(ErrPacket::new(1157, b"08S01", "Couldn't uncompress communication packet"))
            }
            Broken::Protocol(_) => Some(ErrPacket::new(1835, b"HY000", "Malformed communication packet")),
            _ => None,
        };
        if let Some(error) = error {
            let _ = self.client.send_message(1, &error.write()).await;
        }
        Err(End(lost(self.session, broken)))
    }

    async fn carry_out(&mut self, command: Command) -> Result<(), End> {
        let kind = command.kind();
        match kind {
            Kind::Quit => return Err(self.leave().await),
            Kind::ChangeUser | Kind::ResetConnection if self.course.is_untold() => {
                // Afterwards it could not be asked any more.
                self.ask_for_writes().await;
            }
            _ => {}
        }
        if kind == Kind::ChangeUser {
            return self.change_user(&command).await;
        }
        if kind == Kind::Prepare {
            Tally::add(&self.cluster().tally.prepared);
        }
        let route = self.course.route(&command.message, command.is_whole);
        let on_replica = match route {
            Route::Refused(refusal) => return self.answer(&command, &refusal.error()).await,
            Route::Everywhere => return self.everywhere(&command).await,
            Route::Cursor => return self.fetch(&command).await,
            Route::Replica { after_own_writes } => self.replica_is_ready(after_own_writes, &command).await,
            Route::Last if self.course.last() == Role::Replica => self.replica_is_there(),
            Route::Last | Route::Primary(_) => false,
        };
        if on_replica && self.is_placed_at_replica().await && self.read(&command).await? {
            if matches!(kind, Kind::Query | Kind::Execute) {
                Tally::add(&self.cluster().tally.replica_reads);
            }
            return Ok(());
        }
        if let Some(refusal) = self.course.is_forgotten() {
            return self.answer(&command, &refusal.error()).await;
        }
        self.count_at_primary(kind, route);
        self.at_primary(command).await
    }

    /// Whether the replica that has answered the last statement can be asked what that came to.
    fn replica_is_there(&mut self) -> bool {
        let is_there = self.replica.as_ref().is_some_and(|replica| !replica.wire.is_stale());
        if !is_there {
            self.drop_replica();
        }
        is_there
    }

    /// Counts what binds the session now, if nothing did `before`.
    fn count_pin(&self, before: Option<classify::Pin>) {
        if let (None, Some(pin)) = (before, self.course.pin()) {
            self.cluster().tally.pinned(shown(pin));
        }
    }

    fn count_at_primary(&self, kind: Kind, route: Route) {
        let tally = &self.cluster().tally;
        if !matches!(kind, Kind::Query | Kind::Execute) {
            return;
        }
        if !self.course.is_reading() {
            return Tally::add(&tally.writes);
        }
        Tally::add(&tally.primary_reads);
        if matches!(route, Route::Replica { .. } | Route::Primary(Why::OwnWrites)) {
            Tally::add(&tally.late_reads);
        }
    }

    /// Has the replica answer. False: it has failed before the client got anything of an answer, and another server may.
    pub(crate) async fn read(&mut self, command: &Command) -> Result<bool, End> {
        let Some(replica) = &mut self.replica else { return Ok(false) };
        let (id, has_begun) = (replica.id, Cell::new(false));
        let at = (Role::Replica, &mut *replica);
        let work = command.exchange(&self.course, &mut self.client, at, &has_begun);
        let failed = match unless_lost(&mut self.news, id, work).await {
            // It has refused to prepare a statement, or is not fit to carry it out: the primary is asked.
            Some(Ok(Outcome { error: Some(code), .. })) if !has_begun.get() => {
                self.refused_by_replica(code);
                return Ok(false);
            }
            Some(Ok(outcome)) => {
                self.course.answered(Role::Replica, &outcome, &mut replica.places);
                return Ok(true);
            }
            Some(Err(Failed::Client(broken))) => return Err(End(lost(self.session, &broken))),
            Some(Err(Failed::Server(broken))) => broken,
            None => Broken::Lost,
        };
        self.log(LogLevel::Error, format_args!("the replica {failed} while it answered a read"));
        self.replica_has_failed();
        if has_begun.get() {
            // Half of an answer has left, and there is no way to take it back.
            self.client.abort();
            return Err(End(BAD_GATEWAY));
        }
        Ok(false)
    }

    /// It has answered with this error, of which the client has got nothing: another server may answer.
    fn refused_by_replica(&mut self, code: u16) {
        match Unfit::of(code) {
            Some(Unfit::Leaving) => {
                self.log(LogLevel::Error, format_args!("the replica refused a read with error {code}"));
                self.replica_has_failed();
            }
            Some(Unfit::ReadOnly) => self.course.writes_after_all(),
            None => {}
        }
    }

    fn drop_replica(&mut self) {
        self.replica = None;
        self.course.replica_lost();
    }

    pub(crate) fn replica_has_failed(&mut self) {
        self.drop_replica();
        self.no_replica_until_ms = clock::mono_ms() + crate::limits::REPLICA_PAUSE_MS;
        self.cluster().doubt();
    }

    async fn at_primary(&mut self, command: Command) -> Result<(), End> {
        match self.primary_is_ready().await {
            Ok(false) => {}
            // Another server may read statements otherwise.
            Ok(true) => self.course.route_again(&command.message, command.is_whole),
            Err(unready) => return self.without_primary(&command, &unready).await,
        }
        match self.place_at_primary(&command).await {
            Ok(None) => {}
            Ok(Some(error)) => return self.answer(&command, &error).await,
            Err(unready) => return self.without_primary(&command, &unready).await,
        }
        let Some(primary) = &mut self.primary else { return Err(End(BAD_GATEWAY)) };
        let (id, has_begun) = (primary.id, Cell::new(false));
        let at = (Role::Primary, primary);
        let work = command.exchange(&self.course, &mut self.client, at, &has_begun);
        match unless_lost(&mut self.news, id, work).await {
            Some(Ok(outcome)) => self.answered(command.kind(), outcome).await,
            Some(Err(Failed::Client(broken))) => Err(End(lost(self.session, &broken))),
            Some(Err(Failed::Server(broken))) => {
                self.primary_failed(&command, &broken, has_begun.get()).await
            }
            None => self.primary_failed(&command, &Broken::Lost, has_begun.get()).await,
        }
    }

    async fn answered(&mut self, kind: Kind, mut outcome: Outcome) -> Result<(), End> {
        let Some(primary) = &self.primary else { return Ok(()) };
        let (id, tracks, tracking) = (primary.id, primary.tracks, primary.tracking);
        let has_numbers = self.numbers_writes(id);
        outcome.is_tracked &= tracks && (!outcome.written.is_empty() || has_numbers);
        self.course.are_writes_told_apart(tracking == Tracking::LastGtid && has_numbers);
        let Some(primary) = &mut self.primary else { return Ok(()) };
        self.is_refusing = false;
        let (was_open, before) = (self.course.is_in_transaction(), self.course.pin());
        self.course.answered(Role::Primary, &outcome, &mut primary.places);
        primary.knows(self.course.settings());
        self.count_pin(before);
        if !was_open && self.course.is_in_transaction() {
            self.cluster().tally.pinned(Pin::Transaction);
        }
        if kind == Kind::ResetConnection && outcome.error.is_none() {
            self.reset().await;
        }
        Ok(())
    }

    /// It may have carried the command out: nobody repeats it, and the client is told as libraries tell it of a server that is gone.
    pub(crate) async fn primary_failed(
        &mut self,
        command: &Command,
        broken: &Broken,
        has_begun: bool,
    ) -> Result<(), End> {
        self.log(LogLevel::Error, format_args!("the primary {broken} while it answered a command"));
        self.primary = None;
        self.cluster().doubt();
        Tally::add(&self.cluster().tally.failed_sessions);
        if has_begun || !command.is_whole || !command.kind().has_answer() {
            self.client.abort();
        } else {
            let error = ErrPacket::new(2013, b"HY000", "Lost connection to MySQL server during query");
            let _ = self.client.send_message(1, &error.write()).await;
        }
        Err(End(BAD_GATEWAY))
    }

    /// There is no primary for the command, or not the one that has the session's state: nothing was sent to anybody.
    async fn without_primary(&mut self, command: &Command, unready: &Unready) -> Result<(), End> {
        if !std::mem::replace(&mut self.is_refusing, true) {
            self.log(LogLevel::Error, format_args!("a command is refused: {unready}"));
        }
        let (error, is_over) = match unready {
            Unready::Gone => (ErrPacket::new(2006, b"HY000", "MySQL server has gone away"), true),
            Unready::Refused(error) => (error.clone(), false),
            Unready::Lost(why) => {
                // As a server says it that takes no writes: clients know that they may come again.
                let text =
                    format!("No server takes writes at present ({why}), so it cannot execute this statement");
                (ErrPacket::new(1290, b"HY000", &text), false)
            }
        };
        if is_over {
            Tally::add(&self.cluster().tally.failed_sessions);
        }
        self.answer(command, &error).await?;
        if is_over { Err(End(BAD_GATEWAY)) } else { Ok(()) }
    }

    /// Answers a command that goes nowhere.
    pub(crate) async fn answer(&mut self, command: &Command, error: &ErrPacket) -> Result<(), End> {
        self.course.refused();
        let told = async {
            let sequence = command.pass_by(&mut self.client).await?;
            if command.kind().has_answer() {
                self.client.send_message(sequence, &error.write()).await?;
            }
            Ok::<(), Broken>(())
        };
        told.await.map_err(|broken| End(lost(self.session, &broken)))
    }

    /// The connection to the present primary is there: true if it is another one than before, which it is only if nothing was lost with that.
    async fn primary_is_ready(&mut self) -> Result<bool, Unready> {
        let present = Split::primary(&mut self.news);
        if let (Some(have), Ok(id)) = (&self.primary, &present)
            && have.id == *id
            && !have.wire.is_stale()
        {
            return if self.course.asks_what_is_lost(false) { Err(Unready::Gone) } else { Ok(false) };
        }
        self.primary = None;
        if !self.course.may_move() || self.course.asks_what_is_lost(true) {
            return Err(Unready::Gone);
        }
        present?;
        Tally::add(&self.cluster().tally.moved_sessions);
        let status = self.connect_primary(None).await?;
        self.course.primary_told(status);
        self.log(LogLevel::Info, format_args!("the session goes on at another connection to the primary"));
        Ok(true)
    }

    /// Opens a connection to the primary for the present account, in the state that the session's settings give it. Gives its status.
    async fn connect_primary(&mut self, account: Option<&Account>) -> Result<u16, Unready> {
        let account = account.unwrap_or(&self.account);
        let made = open_primary(
            self.split,
            self.session,
            self.proxy,
            &mut self.news,
            None,
            account,
            Some(&self.course),
        )
        .await;
        let (primary, status) = made?;
        self.primary = Some(primary);
        Ok(status)
    }

    /// Whether a replica may answer: one that may be read from, has the session's settings, and its writes where they are asked for.
    async fn replica_is_ready(&mut self, after_own_writes: bool, command: &Command) -> bool {
        if command.kind() == Kind::Prepare && after_own_writes && self.would_forget() {
            return false;
        }
        let have = self.replica.as_ref().filter(|replica| !replica.wire.is_stale()).map(|replica| replica.id);
        let view = self.news.view();
        let is_reader = have.is_some_and(|id| view.readers(None).any(|server| server.id == id));
        if !is_reader {
            // Rows that wait there are fetched from it, however late it is.
            if have.is_some() && self.course.has_cursor_at(Role::Replica) {
                return false;
            }
            self.drop_replica();
            // How it reads a backslash was not known when the statement was judged.
            let is_unclear = command.kind() == Kind::Query && command.message.contains(&b'\\');
            if !self.connect_replica().await || is_unclear {
                return false;
            }
        }
        if after_own_writes && self.course.is_untold() && !self.ask_for_writes().await {
            return false;
        }
        let cluster = self.cluster().clone();
        let Some(replica) = &mut self.replica else { return false };
        let id = replica.id;
        // One that cannot say what it has does not answer after own writes.
        let has_position = self.news.view().server(id).is_some_and(|server| server.position.is_some());
        let work = prepare(replica, &self.course, after_own_writes, has_position, &cluster.tally);
        let prepared = unless_lost(&mut self.news, id, work).await;
        match prepared.unwrap_or(Err(Unready::from(Broken::Lost))) {
            Ok((is_there, status)) => {
                status.into_iter().for_each(|status| self.course.replica_told(status));
                is_there
            }
            Err(unready) => {
                self.log(LogLevel::Error, format_args!("a replica is passed over: {unready}"));
                self.replica_has_failed();
                false
            }
        }
    }

    /// Whether a server would have to be asked for the session's writes that knows what the last statement came to: that would be gone. To prepare
    /// a statement leaves it as it is.
    fn would_forget(&self) -> bool {
        let confirmed = self.replica.as_ref().map(|replica| replica.confirmed);
        let is_unsure = self.course.written().question().is_some() && confirmed != Some(self.course.writes());
        self.course.is_untold() || self.course.last() == Role::Replica && is_unsure
    }

    /// Asks the primary what the session has written last, where its answers have not told. False: it cannot be asked.
    async fn ask_for_writes(&mut self) -> bool {
        let Some(primary) = &mut self.primary else { return false };
        let (id, tracking) = (primary.id, primary.tracking);
        let answer = unless_lost(&mut self.news, id, primary.ask(tracking.question())).await;
        match answer.unwrap_or(Err(Broken::Lost)) {
            Ok(Answer::Rows(rows)) => {
                let value = rows.rows.first().and_then(|row| row.first()).and_then(Option::as_deref);
                let written = match value.map_or(Tracked::Unknown, |value| tracking.read(value)) {
                    Tracked::Nothing if !self.numbers_writes(id) => Tracked::Unknown,
                    written => written,
                };
                self.course.told(&written);
            }
            Ok(Answer::Ok(_) | Answer::Err(_)) => self.course.told(&Tracked::Unknown),
            Err(broken) => {
                self.log(LogLevel::Error, format_args!("the primary {broken} when it was asked for a GTID"));
                self.primary = None;
                self.cluster().doubt();
                return false;
            }
        }
        true
    }

    /// Whether this server gives its transactions numbers that mean something to others: only then has nothing been written if it tells of none.
    fn numbers_writes(&mut self, id: PeerId) -> bool {
        self.news
            .view()
            .server(id)
            .and_then(|server| server.position.as_ref())
            .is_some_and(|position| !position.is_empty())
    }

    /// Connects to one of the replicas that may be read from, as the upstream's method chooses it.
    async fn connect_replica(&mut self) -> bool {
        let now_ms = clock::mono_ms();
        if now_ms < self.no_replica_until_ms {
            return false;
        }
        let readers: Vec<PeerId> = self.news.view().readers(None).map(|server| server.id).collect();
        if readers.is_empty() {
            return false;
        }
        let group = &self.split.group;
        let ask = Ask {
            key: group.key().map(|key| key.eval(self.session)).unwrap_or_default(),
            client: self.session.client.get().ip(),
            own: None,
            seed: group.seed(),
        };
        let cluster = self.cluster().clone();
        let mut selection = Selection::new(group.group().clone(), ask, now_ms);
        selection.restrict(&readers);
        while let Some(lease) = selection.next(clock::mono_ms()) {
            let id = lease.peer.id;
            let work = open_replica(self.split, self.session, self.proxy, &cluster, lease, &self.account);
            let made = unless_lost(&mut self.news, id, work).await;
            let made = made.unwrap_or(Err(Unready::from(Broken::Lost)));
            match made {
                Ok((replica, status)) => {
                    self.replica = Some(replica);
                    self.course.replica_told(status);
                    return true;
                }
                Err(unready) => {
                    self.log(LogLevel::Error, format_args!("a replica is passed over: {unready}"));
                    self.cluster().doubt();
                }
            }
        }
        self.no_replica_until_ms = clock::mono_ms() + crate::limits::REPLICA_PAUSE_MS;
        false
    }

    /// COM_RESET_CONNECTION was carried out.
    async fn reset(&mut self) {
        self.drop_replica();
        let Some(primary) = &mut self.primary else { return };
        // Its answer is out already: a failure is found by the next command.
        let (id, asks) = (primary.id, self.course.must_ask_database());
        let purpose = Split::writes(&mut self.news);
        let work = async {
            let status = primary.begin(purpose).await?;
            let database = if asks { Some(primary.ask(b"SELECT DATABASE()").await?) } else { None };
            Ok::<_, Broken>((status, database))
        };
        let begun = unless_lost(&mut self.news, id, work).await;
        let Some(Ok((status, database))) = begun else {
            self.primary = None;
            return;
        };
        self.course.primary_told(status);
        if let Some(Answer::Rows(rows)) = database {
            let name = rows.rows.first().and_then(|row| row.first()).and_then(Option::as_deref);
            self.course.told_database(name.unwrap_or_default(), &self.account.database);
        }
        primary.knows(self.course.settings());
    }

    /// COM_CHANGE_USER: the new account's own connections take the place of the present ones.
    async fn change_user(&mut self, command: &Command) -> Result<(), End> {
        let session = self.session;
        let over = |broken: Broken| End(lost(session, &broken));
        let change = ChangeUser::parse(&command.message, self.account.capabilities);
        let change = match change {
            Ok(change) if command.is_whole => change,
            _ => return self.refuse_client(&ProtocolError::Malformed("change of the user").into()).await,
        };
        let mut sequence = 1;
        let claim = Claim {
            plugin: &change.plugin,
            answer: &change.answer,
            capabilities: self.account.capabilities,
            nonce: &self.nonce,
        };
        let charset = change.charset.unwrap_or(self.account.charset);
        let secret = match self.split.known(session, self.cluster(), &change.user, charset) {
            Claimed::Known(known) => {
                claim.prove(&known, &mut self.client, &mut sequence).await.map_err(over)?
            }
            Claimed::Elsewhere | Claimed::Barred => None,
        };
        let Some(secret) = secret else {
            let error = denied(session, &change.user, !change.answer.is_empty());
            self.client.send_message(sequence, &error.write()).await.map_err(over)?;
            return Err(End(BAD_REQUEST));
        };
        if !is_of_clients(charset) {
            self.client.send_message(sequence, &not_of_clients().write()).await.map_err(over)?;
            return Err(End(BAD_REQUEST));
        }
        let account = Account {
            user: change.user,
            database: change.database,
            secret,
            charset,
            attributes: change.attributes,
            ..self.account.clone()
        };
        self.begin_again(account, sequence).await
    }

    /// Goes on as a session of another account.
    async fn begin_again(&mut self, account: Account, sequence: u8) -> Result<(), End> {
        let session = self.session;
        let over = |broken: Broken| End(lost(session, &broken));
        self.drop_replica();
        self.primary = None;
        // Nothing was set by it yet.
        self.course.changed_user(0, account.charset, &account.database);
        match self.connect_primary(Some(&account)).await {
            Ok(status) => {
                self.course.primary_told(status);
                self.account = account;
                let ok = OkPacket { status, ..OkPacket::default() };
                self.client.send_message(sequence, &ok.write()).await.map_err(over)?;
                Ok(())
            }
            Err(unready) => {
                let error = crate::opening::no_primary(session, &self.news, &unready);
                self.client.send_message(sequence, &error.write()).await.map_err(over)?;
                Err(End(BAD_GATEWAY))
            }
        }
    }
}

/// A reason as reports have it.
fn shown(pin: classify::Pin) -> Pin {
    match pin {
        classify::Pin::UserVariable => Pin::UserVariable,
        classify::Pin::Set | classify::Pin::Charset | classify::Pin::ManySettings => Pin::Setting,
        classify::Pin::TemporaryTable => Pin::TemporaryTable,
        classify::Pin::Lock => Pin::Lock,
        classify::Pin::Open => Pin::OpenStatement,
        classify::Pin::Routine => Pin::Routine,
        classify::Pin::Xa => Pin::Xa,
        classify::Pin::OwnDatabase => Pin::OwnDatabase,
        classify::Pin::ExecutableComment | classify::Pin::Unclear => Pin::Unknown,
    }
}

/// A connection to a replica that has said how it reads statements.
async fn open_replica(
    split: &Split,
    session: &Session,
    proxy: &Proxy,
    cluster: &Arc<Cluster>,
    lease: Lease,
    account: &Account,
) -> Result<(Backend, u16), Unready> {
    match split.again(session, proxy, cluster, lease, account, Purpose::Reads).await {
        Ok(begun) => Ok(begun),
        Err(lease) => {
            let greeted = greet(session, proxy, lease).await?;
            let mut replica = split.log_in(session, proxy, cluster, greeted, account).await?;
            let status = replica.begin(Purpose::Reads).await?;
            Ok((replica, status))
        }
    }
}
