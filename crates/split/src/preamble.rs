//! What goes to a server in the same write as the first command of a session on a kept connection: the reset. Servers carry out what they
//! have been sent one after the other; the answers come in front of the command's and are taken here.
//!
//! The session was told a status before the reset was carried out, and its command is on the way with it. That is sound because the same
//! reset was answered on this very connection before; should it be answered otherwise now, the session ends without the command's answer.

use crate::wire::Broken;
use brisk_mysql::ProtocolError;
use brisk_mysql::client::{Answer, Query};
use brisk_mysql::reply::status;
use std::collections::VecDeque;

/// What of a status decides how statements are taken.
const DECISIVE: u16 = status::IN_TRANSACTION | status::AUTOCOMMIT | status::NO_BACKSLASH_ESCAPES;

/// See the module's head.
pub struct Preamble {
    /// The commands, until they are sent.
    commands: Option<Vec<u8>>,
    /// Each is to be answered by an OK packet.
    awaited: VecDeque<Query>,
    /// The last one's status.
    status: u16,
}

impl Preamble {
    /// These commands, the last of which is to be answered with this status.
    pub fn new(commands: Vec<u8>, answers: Vec<Query>, status: u16) -> Preamble {
        Preamble { commands: Some(commands), awaited: answers.into(), status }
    }

    /// Whether its answers are on the way.
    pub fn is_sent(&self) -> bool {
        self.commands.is_none()
    }

    /// The commands, the first time: now they are sent.
    pub fn send(&mut self) -> Option<Vec<u8>> {
        self.commands.take()
    }

    /// Takes what has come of the answers; true: all of them.
    pub fn answered(&mut self, input: &mut &[u8]) -> Result<bool, Broken> {
        while let Some(query) = self.awaited.front_mut() {
            match query.next(input)? {
                None => return Ok(false),
                Some(Answer::Ok(ok)) => {
                    self.awaited.pop_front();
                    if self.awaited.is_empty() && (ok.status ^ self.status) & DECISIVE != 0 {
                        return Err(
                            ProtocolError::Unexpected("another status than before after a reset").into()
                        );
                    }
                }
                Some(Answer::Err(_) | Answer::Rows(_)) => {
                    return Err(ProtocolError::Unexpected("another answer than OK to a reset").into());
                }
            }
        }
        Ok(true)
    }
}
