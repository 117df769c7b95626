//! One command to a server, and its answer to the client.

use crate::backend::Backend;
use crate::wire::{Broken, Wire};
use brisk_host::memory::Charge;
use brisk_mysql::ProtocolError;
use brisk_mysql::command::Kind;
use brisk_mysql::follow::{Follower, Next, Outcome};
use brisk_mysql::limits::{ANSWER_PREFIX_BYTES_MAX, LONG_COMMAND_PREFIX_BYTES, STATEMENT_BYTES_MAX};
use brisk_mysql::packet::{Frames, HEADER_BYTES};
use brisk_mysql::reply::Unfit;
use brisk_mysql::session::{Role, Session as Course};
use std::borrow::Cow;
use std::cell::Cell;

/// A command's byte, and the number of a prepared statement.
const NAME_BYTES: usize = 5;

/// A command's beginning.
pub struct Command {
    /// Its message without the frame's header, as far as it is there. Never empty.
    pub message: Vec<u8>,
    /// All of it is there, and nothing of it is on the wire. Otherwise all of it still is.
    pub is_whole: bool,
    _charge: Charge,
}

/// Of a command there may be so many: this one, what the session keeps of it, and the one that is sent.
const COPIES: usize = 3;

/// Why an answer was not passed on.
pub enum Failed {
    /// The client is gone.
    Client(Broken),
    /// The server is.
    Server(Broken),
}

impl Command {
    /// What it is.
    pub fn kind(&self) -> Kind {
        self.message.first().map_or(Kind::Refused, |byte| Kind::of(*byte))
    }

    /// Waits for a command: for all of it, if it is short enough to be looked at.
    pub async fn next(client: &mut Wire) -> Result<Command, Broken> {
        client.rest().await?;
        loop {
            client.renumber(&Frames::new(0));
            if let [a, b, c, sequence, body @ ..] = client.unread() {
                if *sequence != 0 {
                    return Err(ProtocolError::Sequence { expected: 0, got: *sequence }.into());
                }
                let length = u32::from_le_bytes([*a, *b, *c, 0]) as usize;
                if length == 0 {
                    return Err(ProtocolError::Malformed("command").into());
                }
                let is_whole = length <= STATEMENT_BYTES_MAX;
                if is_whole && body.len() >= length {
                    let charge = client.hold(COPIES * length);
                    let message = body[..length].to_vec();
                    client.take(HEADER_BYTES + length);
                    return Ok(Command { message, is_whole, _charge: charge });
                }
                if !is_whole && body.len() >= LONG_COMMAND_PREFIX_BYTES {
                    let charge = client.hold(COPIES * LONG_COMMAND_PREFIX_BYTES);
                    let message = body[..LONG_COMMAND_PREFIX_BYTES].to_vec();
                    return Ok(Command { message, is_whole, _charge: charge });
                }
            }
            client.fill().await?;
        }
    }

    /// Takes it off the wire; it goes nowhere. Gives the number of the next frame.
    pub async fn pass_by(&self, client: &mut Wire) -> Result<u8, Broken> {
        let mut frames = Frames::new(0);
        if self.is_whole {
            return Ok(1);
        }
        match pass(client, &mut frames, None).await {
            Ok(()) => Ok(frames.sequence()),
            Err(Failed::Client(broken) | Failed::Server(broken)) => Err(broken),
        }
    }

    /// Sends it as this server is to get it.
    async fn send(&self, course: &Course, client: &mut Wire, server: &mut Backend) -> Result<u8, Failed> {
        let Some(message) = course.message_for(&self.message, &server.places) else {
            // Whoever has it sent here has the statement prepared here before.
            return Err(Failed::Server(ProtocolError::Unexpected("a statement").into()));
        };
        if self.is_whole {
            return server.wire.send_message(0, &message).await.map_err(Failed::Server);
        }
        if let Cow::Owned(message) = &message {
            client.write_over(HEADER_BYTES, message.get(..NAME_BYTES).unwrap_or_default());
        }
        let mut frames = Frames::new(0);
        pass(client, &mut frames, Some(&mut server.wire)).await?;
        Ok(frames.sequence())
    }

    /// Gives the command to a server and its answer to the client. `has_begun`: the client has got something of the answer. It gets nothing
    /// of it if a replica refuses to prepare a statement, or is [unfit](Unfit) to carry it out, since the primary may do that.
    pub async fn exchange(
        &self,
        course: &Course,
        client: &mut Wire,
        (role, server): (Role, &mut Backend),
        has_begun: &Cell<bool>,
    ) -> Result<Outcome, Failed> {
        let sequence = self.send(course, client, server).await?;
        let mut follower = Follower::new(self.kind(), server.capabilities, sequence);
        let is_prepared = self.kind() == Kind::Prepare;
        // The client knows the statement by a number of ours.
        let mut number = course.statement().filter(|_| is_prepared);
        loop {
            if number.is_some() && !has_first(server.wire.unread()).map_err(Failed::Server)? {
                server.wire.fill().await.map_err(Failed::Server)?;
                continue;
            }
            let mut rest = server.wire.unread();
            let before = rest.len();
            let next = follower.next(&mut rest).map_err(|error| Failed::Server(error.into()))?;
            let taken = before - rest.len();
            if next == Next::File && role == Role::Replica {
                return Err(Failed::Server(ProtocolError::Unexpected("a request for a file").into()));
            }
            let so_far = follower.so_far();
            if let (Some(number), Some(_)) = (number.take(), so_far.prepared) {
                server.wire.write_over(HEADER_BYTES + 1, &number.to_le_bytes());
            }
            let is_left = |code| is_prepared || Unfit::of(code).is_some();
            if role == Role::Replica && so_far.error.is_some_and(is_left) && !has_begun.get() {
                server.wire.take(taken);
            } else if taken > 0 {
                has_begun.set(true);
                client.send(&server.wire.unread()[..taken]).await.map_err(Failed::Client)?;
                server.wire.take(taken);
            }
            match next {
                // What a server sends behind it (that it ends the connection) is found before the next command.
                Next::Done => return Ok(follower.outcome()),
                Next::File => {
                    let sequence = pass_file(client, server, follower.sequence()).await?;
                    follower.file_passed(sequence);
                }
                Next::More => server.wire.fill().await.map_err(Failed::Server)?,
            }
        }
    }
}

/// Whether the first message of an answer to COM_STMT_PREPARE is there: the statement's number, or an error.
fn has_first(bytes: &[u8]) -> Result<bool, Broken> {
    let Some((&[a, b, c, _], body)) = bytes.split_first_chunk::<HEADER_BYTES>() else { return Ok(false) };
    let length = u32::from_le_bytes([a, b, c, 0]) as usize;
    if length > ANSWER_PREFIX_BYTES_MAX {
        return Err(ProtocolError::TooLarge { limit_bytes: ANSWER_PREFIX_BYTES_MAX }.into());
    }
    Ok(body.len() >= length)
}

/// LOAD DATA LOCAL: messages of the client, to an empty one. Gives the number of the next frame.
async fn pass_file(client: &mut Wire, server: &mut Backend, sequence: u8) -> Result<u8, Failed> {
    let mut frames = Frames::new(sequence);
    loop {
        // A message's first header says whether it is the empty one.
        while client.unread().len() < HEADER_BYTES {
            client.fill().await.map_err(Failed::Client)?;
        }
        let is_empty = client.unread()[..3] == [0, 0, 0];
        pass(client, &mut frames, Some(&mut server.wire)).await?;
        if is_empty {
            return Ok(frames.sequence());
        }
    }
}

/// Passes a message that is on the wire on, to its end; `None`: to nobody.
async fn pass(client: &mut Wire, frames: &mut Frames, mut server: Option<&mut Wire>) -> Result<(), Failed> {
    loop {
        client.renumber(frames);
        let mut rest = client.unread();
        let mut is_last = false;
        while !is_last {
            match frames.next(&mut rest) {
                Ok(Some(chunk)) => is_last = chunk.is_last,
                Ok(None) => break,
                Err(error) => return Err(Failed::Client(error.into())),
            }
        }
        let taken = client.unread().len() - rest.len();
        if let Some(server) = &mut server {
            server.send(&client.unread()[..taken]).await.map_err(Failed::Server)?;
        }
        client.take(taken);
        if is_last {
            return Ok(());
        }
        client.fill().await.map_err(Failed::Client)?;
    }
}
