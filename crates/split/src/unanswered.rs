//! Servers that wait for a login that does not come, since its client is gone or may not have it.
//!
//! A handshake that is broken off counts against the address that it came from, which is ours for all clients: after `max_connect_errors` of them
//! a server lets nobody in from there. A login that is refused does not count, so each handshake that was begun is ended by one.

use crate::limits::{HANDSHAKE_END_MS, HANDSHAKE_STEPS_MAX};
use crate::wire::{self, Broken, Wire};
use brisk_balance::Lease;
use brisk_mysql::greeting::Greeting;
use brisk_mysql::limits::HANDSHAKE_BYTES_MAX;
use brisk_mysql::login::{Login, Switch};
use brisk_mysql::password::{NATIVE, wrong_answer};
use brisk_mysql::reply::{EOF, OK};
use brisk_net::{Loop, timeout};
use std::time::Duration;

/// What a server waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Owed {
    /// A login.
    Login(Box<Login>),
    /// An answer of the plugin.
    Answer,
    /// Nothing: it is to say how the login has ended, or what else it wants.
    Nothing,
    /// Nothing more: it has said that.
    Over,
}

/// The part of a handshake that is known of a server.
struct Course {
    server: Wire,
    /// The number of the next frame.
    sequence: u8,
    /// The plugin that was asked for last.
    plugin: Vec<u8>,
    owed: Owed,
}

/// A handshake with a server, which is ended by a refusal if it is dropped.
pub struct Handshake(Option<(Course, Option<Lease>)>);

impl Course {
    async fn send(&mut self, message: &[u8]) -> Result<(), Broken> {
        self.sequence = self.server.send_message(self.sequence, message).await?;
        self.owed = Owed::Nothing;
        Ok(())
    }

    async fn next(&mut self) -> Result<Vec<u8>, Broken> {
        let message = self.server.message(self.sequence, HANDSHAKE_BYTES_MAX).await?;
        self.sequence = self.sequence.wrapping_add(1);
        self.owed = match message.first() {
            Some(&EOF) => {
                self.plugin = Switch::parse(&message)?.plugin;
                Owed::Answer
            }
            // The short way of caching_sha2_password has worked.
            Some(1) if message == [1, 3] => Owed::Nothing,
            Some(1) => Owed::Answer,
            _ => Owed::Over,
        };
        Ok(message)
    }

    async fn be_refused(mut self) -> Result<(), Broken> {
        for _ in 0..HANDSHAKE_STEPS_MAX {
            match std::mem::replace(&mut self.owed, Owed::Nothing) {
                // An account without a name may be there, but hardly one that lets anybody in.
                Owed::Login(login) => self.send(&login.write().unwrap_or_default()).await?,
                Owed::Answer => self.send(&wrong_answer(&self.plugin)).await?,
                Owed::Nothing => {}
                Owed::Over => return Ok(()),
            }
            if self.next().await?.first() == Some(&OK) {
                self.server.send_at_once(&wire::framed(0, &[1]));
            }
        }
        Ok(())
    }
}

impl Handshake {
    /// With a server that has greeted.
    pub fn greeted(server: Wire, lease: Option<Lease>, greeting: &Greeting) -> Handshake {
        let (sequence, plugin, owed) = (1, NATIVE.to_vec(), Owed::Login(Box::new(Login::nobody(greeting))));
        Handshake(Some((Course { server, sequence, plugin, owed }, lease)))
    }

    fn course(&mut self) -> Result<&mut Course, Broken> {
        self.0.as_mut().map(|(course, _)| course).ok_or(Broken::Closed)
    }

    /// Sends a message.
    pub async fn send(&mut self, message: &[u8]) -> Result<(), Broken> {
        self.course()?.send(message).await
    }

    /// Waits for what the server says.
    pub async fn next(&mut self) -> Result<Vec<u8>, Broken> {
        self.course()?.next().await
    }

    /// The plugin that the server has asked for last.
    pub fn plugin(&self) -> &[u8] {
        self.0.as_ref().map_or(NATIVE, |(course, _)| &course.plugin)
    }

    /// The connection and its place: the login is over.
    pub fn into_parts(mut self) -> Option<(Wire, Option<Lease>)> {
        self.0.take().map(|(course, lease)| (course.server, lease))
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        let Some((course, lease)) = self.0.take().filter(|(course, _)| course.owed != Owed::Over) else {
            return;
        };
        // At the end of a thread there is nothing that could carry it out.
        if std::thread::panicking() || Loop::try_current().is_none() {
            return;
        }
        brisk_net::spawn(async move {
            let _lease = lease;
            let _ = timeout(Duration::from_millis(HANDSHAKE_END_MS), course.be_refused()).await;
        });
    }
}
