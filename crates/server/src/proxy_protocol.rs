//! `listen … proxy_protocol`: every connection begins with a PROXY header.
//!
//! Mostly it comes in one packet with the first request and is taken on the hot path. If it comes in parts, or alone,
//! the connection's task takes it. Either way it must be there within `client_header_timeout`.

use crate::connection::Connection;
use crate::core::LogLevel;
use crate::thread::{Live, Thread};
use brisk_http::proxy_protocol::{Progress, ProxyError, V2_BYTES_MAX, parse};
use brisk_net::{clock, timeout};
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

/// A new connection: does its socket want a header?
pub fn adopted(live: &Live, conn: &Connection) {
    let Some(listen) = conn.listener.id.get().map(|id| live.snap.listen(id)) else { return };
    let prefix = listen.local(|| conn.local()).map_or(listen.prefix, |local| local.prefix);
    conn.awaits_proxy_header.set(prefix.proxy_protocol);
}

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
            conn.awaits_proxy_header.set(false);
            if let Some(header) = header {
                let _ = conn.proxy.set(Box::new(header));
            }
            Taken::Whole(len)
        }
        Err(error) => {
            log(live, conn, LogLevel::Error, format_args!("{error}"));
            Taken::Nothing
        }
    }
}

/// Waits for the header whose beginning may be in the connection's input; false if there is none.
pub async fn wait(thread: &Rc<Thread>, conn: &Rc<Connection>) -> bool {
    let live = thread.live();
    let deadline_ms = conn.started.mono_ms + live.header_timeout(&conn.listener).as_millis() as u64;
    let mut buf = vec![0; V2_BYTES_MAX];
    loop {
        let taken = take(&live, conn, &conn.input.borrow());
        match taken {
            Taken::Whole(len) => {
                conn.input.borrow_mut().drain(..len);
                return true;
            }
            Taken::Nothing => return false,
            Taken::Part => {}
        }
        let left = Duration::from_millis(deadline_ms.saturating_sub(clock::mono_ms()));
        match timeout(left, conn.io.read(&mut buf)).await {
            Ok(Ok(count)) if count > 0 => {
                conn.input.borrow_mut().extend_from_slice(&buf[..count]);
                thread.files.must_confirm();
            }
            Ok(_) => {
                closed(&live, conn);
                return false;
            }
            Err(_) => {
                timed_out(&live, conn);
                return false;
            }
        }
    }
}

/// The client has closed the connection: logged if the header is still missing.
pub fn closed(live: &Live, conn: &Connection) {
    let input = conn.input.borrow();
    if conn.awaits_proxy_header.get() && input.is_empty() {
        log(live, conn, LogLevel::Info, format_args!("client closed connection"));
    } else if conn.awaits_proxy_header.get() {
        log(live, conn, LogLevel::Error, format_args!("{}", ProxyError::broken(&input)));
    }
}

/// `client_header_timeout` is over: logged if the header is still missing.
pub fn timed_out(live: &Live, conn: &Connection) {
    if conn.awaits_proxy_header.get() {
        log(live, conn, LogLevel::Info, format_args!("client timed out (110: Connection timed out)"));
    }
}

fn log(live: &Live, conn: &Connection, level: LogLevel, what: fmt::Arguments<'_>) {
    crate::log::connection(live, conn, level, format_args!("{what} while reading PROXY protocol"));
}
