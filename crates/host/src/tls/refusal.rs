//! A handshake that comes to nothing.

use crate::log::LogLevel;
use brisk_tls::NoHello;
use std::fmt;

/// RFC 8446 §6.2.
const UNRECOGNIZED_NAME: u8 = 112;
const INTERNAL_ERROR: u8 = 80;
const DECODE_ERROR: u8 = 50;

/// The alert that the client is told, and why. Shown, it is the line of the log.
pub struct Refusal {
    /// RFC 8446 §6.
    pub alert: u8,
    why: String,
    is_ours: bool,
}

impl Refusal {
    fn theirs(alert: u8, why: &str) -> Refusal {
        Refusal { alert, why: why.to_string(), is_ours: false }
    }

    /// It is the server's fault. The alert is all that the client is told: paths of files are for the log.
    pub fn ours(why: String) -> Refusal {
        Refusal { alert: INTERNAL_ERROR, why, is_ours: true }
    }

    /// No session can be made.
    pub fn internal(why: &str) -> Refusal {
        Refusal::theirs(INTERNAL_ERROR, why)
    }

    /// `ssl_reject_handshake`, or a server that has no certificate.
    pub fn of_name() -> Refusal {
        Refusal::theirs(UNRECOGNIZED_NAME, "callback failed")
    }

    /// What has come cannot be read.
    pub fn unreadable(why: &str) -> Refusal {
        Refusal::theirs(DECODE_ERROR, why)
    }

    /// At which level it is logged: what clients do wrong is told at info, since scanners make such lines all day.
    pub fn level(&self) -> LogLevel {
        if self.is_ours { LogLevel::Error } else { LogLevel::Info }
    }

    /// The alert as a record of its own, for where there is no session yet that could write it.
    pub fn record(&self) -> [u8; 7] {
        NoHello { alert: self.alert, reason: "" }.record()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_ours {
            f.write_str(&self.why)
        } else {
            write!(f, "SSL_do_handshake() failed (SSL: error:{})", self.why)
        }
    }
}

impl From<NoHello> for Refusal {
    fn from(wrong: NoHello) -> Refusal {
        Refusal::theirs(wrong.alert, wrong.reason)
    }
}
