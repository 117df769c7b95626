//! Prepared statements of a split session. Each is prepared where it is to run, when it is to run there: what the client has prepared at one
//! server is prepared at the other one before that executes it.

use crate::backend::{Unready, unless_lost};
use crate::exchange::Command;
use crate::opening::lost;
use crate::placing::{close, place, prepare, prepare_again};
use crate::serve::{End, Running};
use crate::wire::Broken;
use brisk_host::log::LogLevel;
use brisk_mysql::client::Answer;
use brisk_mysql::command::Kind;
use brisk_mysql::reply::{ErrPacket, OkPacket};
use brisk_mysql::session::{Refusal, Role};

/// What is left of a name when the rest of a command is of no use.
const NAME_BYTES: usize = 5;

impl Running<'_> {
    /// Whether the replica has the statement that the command needs, or has just prepared it.
    pub(crate) async fn is_placed_at_replica(&mut self) -> bool {
        let cluster = self.cluster().clone();
        let tally = &cluster.tally;
        let Some(replica) = &mut self.replica else { return false };
        let id = replica.id;
        let placed = unless_lost(&mut self.news, id, place(&self.course, replica, tally)).await;
        match placed.unwrap_or(Err(Broken::Lost)) {
            Ok(refused) => refused.is_none(),
            Err(broken) => {
                self.log(LogLevel::Error, format_args!("the replica {broken} while it prepared a statement"));
                self.replica_has_failed();
                false
            }
        }
    }

    /// Has the primary prepare what the command needs, and what could not be prepared after it. Gives what the client is told instead of
    /// an answer, if that did not work.
    pub(crate) async fn place_at_primary(&mut self, command: &Command) -> Result<Option<ErrPacket>, Unready> {
        let cluster = self.cluster().clone();
        let tally = &cluster.tally;
        let Some(primary) = &mut self.primary else { return Err(Unready::Gone) };
        let (id, course) = (primary.id, &self.course);
        let work = async {
            for statement in course.to_prepare_before(&primary.places) {
                // Whoever executes it later is told.
                let _ = prepare(primary, statement, course.source(statement), tally).await?;
            }
            place(course, primary, tally).await
        };
        let placed = unless_lost(&mut self.news, id, work).await;
        match placed.unwrap_or(Err(Broken::Lost)) {
            Ok(None) => Ok(self.too_long(command)),
            Ok(refused) => Ok(refused),
            Err(broken) => {
                self.log(LogLevel::Error, format_args!("the primary {broken} while it prepared a statement"));
                self.primary = None;
                self.cluster().doubt();
                Err(if self.course.may_move() { Unready::from(broken) } else { Unready::Gone })
            }
        }
    }

    /// Types of parameters cannot be put into a command that is not all there.
    fn too_long(&self, command: &Command) -> Option<ErrPacket> {
        if command.is_whole {
            return None;
        }
        let places = &self.primary.as_ref()?.places;
        let message = self.course.message_for(&command.message, places)?;
        (message.len() != command.message.len()).then(prepare_again)
    }

    /// COM_STMT_FETCH from the replica, which alone has the rows.
    pub(crate) async fn fetch(&mut self, command: &Command) -> Result<(), End> {
        let statement = self.course.statement().unwrap_or(0);
        if self.read(command).await? {
            return Ok(());
        }
        self.answer(command, &Refusal::Cursor(statement).error()).await
    }

    /// COM_STMT_CLOSE and COM_STMT_RESET: each server that has something of the statement forgets it.
    pub(crate) async fn everywhere(&mut self, command: &Command) -> Result<(), End> {
        let session = self.session;
        let over = |broken: Broken| End(lost(session, &broken));
        let sequence = command.pass_by(&mut self.client).await.map_err(over)?;
        if command.kind() == Kind::CloseStatement {
            self.close().await;
            self.course.answered_everywhere();
            return Ok(());
        }
        let error = self.reset_at_servers(command).await?;
        let ok = OkPacket { status: self.course.status(), ..OkPacket::default() };
        self.course.answered_everywhere();
        let message = error.map_or_else(|| ok.write(), |error| error.write());
        self.client.send_message(sequence, &message).await.map(drop).map_err(over)
    }

    async fn close(&mut self) {
        let Some(statement) = self.course.statement() else { return };
        if let Some(replica) = &mut self.replica
            && let Err(broken) = close(&mut self.news, replica, statement).await
        {
            self.log(LogLevel::Error, format_args!("the replica {broken} while it closed a statement"));
            self.replica_has_failed();
        }
        if let Some(primary) = &mut self.primary
            && let Err(broken) = close(&mut self.news, primary, statement).await
        {
            // The next command finds out whether anything is lost with it.
            self.log(LogLevel::Error, format_args!("the primary {broken} while it closed a statement"));
            self.primary = None;
            self.cluster().doubt();
        }
    }

    /// Gives the error of the primary, if it has one. What a replica had is gone with it, if it fails.
    async fn reset_at_servers(&mut self, command: &Command) -> Result<Option<ErrPacket>, End> {
        let name = command.message.get(..NAME_BYTES).unwrap_or_default();
        if self.course.is_reset_at(Role::Replica)
            && let Some(replica) = &mut self.replica
            && let Some(message) = self.course.message_for(name, &replica.places)
        {
            let id = replica.id;
            let answer = unless_lost(&mut self.news, id, replica.command(&message)).await;
            if let Err(broken) = answer.unwrap_or(Err(Broken::Lost)) {
                self.log(LogLevel::Error, format_args!("the replica {broken} while it reset a statement"));
                self.replica_has_failed();
            }
        }
        if self.course.is_reset_at(Role::Primary)
            && let Some(primary) = &mut self.primary
            && let Some(message) = self.course.message_for(name, &primary.places)
        {
            let id = primary.id;
            let answer = unless_lost(&mut self.news, id, primary.command(&message)).await;
            return match answer.unwrap_or(Err(Broken::Lost)) {
                Ok(Answer::Err(error)) => Ok(Some(error)),
                Ok(Answer::Ok(_) | Answer::Rows(_)) => Ok(None),
                Err(broken) => self.primary_failed(command, &broken, false).await.map(|()| None),
            };
        }
        Ok(None)
    }
}
