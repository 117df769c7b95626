//! `listen … proxy_protocol`: every connection begins with a PROXY header.
//!
//! It must be there within `client_header_timeout`, mostly in one packet with the first request.
//!
//! What a header means is not known here: `realip` and variables look at it with the connection.

use crate::connection::{Connection, Stage};
use crate::live::Live;
use brisk_host::log::LogLevel;
use brisk_proxy_protocol::{Progress, ProxyError, parse};
use std::fmt;

/// What came of an attempt to [`take`] a header.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    /// The header was this long.
    Whole(usize),
    Part,
    /// There is none; that has been logged.
    Nothing,
}

/// Takes the header that a connection's first bytes are.
pub fn take(live: &Live, conn: &Connection, input: &[u8]) -> Taken {
    match parse(input) {
        Ok(Progress::Partial) => Taken::Part,
        Ok(Progress::Complete { len, header }) => {
            // LOCAL, or an unknown family: the connection is the proxy's own, and its address stands.
            if let Some(header) = header {
                conn.set_proxy(header);
            }
            Taken::Whole(len)
        }
        // Closed without an answer: who is not the proxy must not learn what is spoken here.
        Err(error) => {
            log(live, conn, LogLevel::Error, format_args!("{error}"));
            Taken::Nothing
        }
    }
}

// Asked again where a connection ends, since only then its silence is worth a line.
fn is_awaited(conn: &Connection) -> bool {
    matches!(*conn.stage.borrow(), Stage::ProxyHeader { .. })
}

/// The client has closed the connection: logged if the header is still missing.
pub fn closed(live: &Live, conn: &Connection) {
    let input = conn.input.borrow();
    if is_awaited(conn) && input.is_empty() {
        log(live, conn, LogLevel::Info, format_args!("client closed connection"));
    } else if is_awaited(conn) {
        log(live, conn, LogLevel::Error, format_args!("{}", ProxyError::broken(&input)));
    }
}

/// `client_header_timeout` is over: logged if the header is still missing.
pub fn timed_out(live: &Live, conn: &Connection) {
    if is_awaited(conn) {
        log(live, conn, LogLevel::Info, format_args!("client timed out (110: Connection timed out)"));
    }
}

fn log(live: &Live, conn: &Connection, level: LogLevel, what: fmt::Arguments<'_>) {
    crate::log::connection(live, conn, level, format_args!("{what} while reading PROXY protocol"));
}
