//! What a [`Failure`] means: the status that the request ends with, the level and the text of its message, in nginx's
//! words. Nothing else derives these.

pub mod body;

use crate::flow::Flow;
use crate::request::Request;
use brisk_conf::os_text;
use brisk_host::log::LogLevel;
use brisk_net::{Activity, Cause, Failure, Origin, Scope};
use std::fmt;
use std::io;

/// What an error of a file, a coder or the thread pool is to the body that is made of it.
/// Without an origin: who is to blame is known where the file or coder was used.
pub fn broken(error: &io::Error) -> Failure {
    Failure::broken(os_text(error))
}

const TIMED_OUT: &str = "timed out (110: Connection timed out)";

/// What ` while ` is followed by.
fn phrase(activity: Activity) -> &'static str {
    match activity {
        Activity::ReadingRequestBody => "reading client request body",
        Activity::Resolving | Activity::Connecting => "connecting to upstream",
        Activity::Handshaking => "SSL handshaking to upstream",
        Activity::SendingRequest => "sending request to upstream",
        Activity::ReadingHead => "reading response header from upstream",
        Activity::ReadingResponse => "reading upstream",
        Activity::SendingResponse => "sending response to client",
    }
}

/// The status of a request that ends with this failure.
pub fn status(failure: &Failure) -> u16 {
    // One table, so that the same fault cannot end in two statuses depending on who noticed it.
    match (failure.origin(), failure.activity(), failure.cause()) {
        (_, _, Cause::Decided(status)) => *status,
        (Origin::Client, Activity::ReadingRequestBody, Cause::TimedOut) => 408,
        (Origin::Client, Activity::ReadingRequestBody, Cause::TooLarge(_)) => 413,
        (Origin::Client, Activity::ReadingRequestBody, _) => 400,
        // nginx's own: the client closed the connection while a response was made.
        (Origin::Client, ..) => 499,
        (Origin::Upstream, _, Cause::TimedOut) => 504,
        // Also where the fault is here: to the client it is the same, no server could be asked.
        (Origin::Upstream, ..) | (_, Activity::Resolving | Activity::Connecting, _) => 502,
        (Origin::Local | Origin::Configuration, ..) => 500,
    }
}

/// What a handler returns for it. There is a response unless it is the client that can be told nothing more; that the
/// connection to an upstream server is lost, or was never there, says nothing of the client's.
pub fn flow(failure: &Failure, r: &mut Request) -> Flow {
    let status = status(failure);
    match (failure.scope(), failure.origin(), failure.cause()) {
        // A module has decided that nothing is sent.
        (Scope::Connection, _, Cause::Decided(_)) => Flow::Close,
        (Scope::Connection, Origin::Client, _) => {
            // For the log: nothing is sent.
            (r.resp.status, r.reply.err_status) = (status, status);
            Flow::Close
        }
        // In all other cases the client's connection is good, so it gets a page.
        _ => Flow::Status(status),
    }
}

/// Logs a failure, and says what a handler returns for it.
pub fn end(failure: &Failure, r: &mut Request) -> Flow {
    report(failure, r);
    flow(failure, r)
}

/// Logs a failure among the messages of a request.
pub fn report(failure: &Failure, r: &Request) {
    log(failure, |level, text| {
        if r.logs(level) {
            // Formatted only if some log takes it: most failures of clients are below the level of
            // `error_log`.
            r.log(level, text);
        }
    });
}

/// Gives the message of a failure, and its level, to `log`; there is none if the cause was logged where it was found.
pub fn log(failure: &Failure, log: impl FnOnce(LogLevel, fmt::Arguments<'_>)) {
    let text = if failure.origin() == Origin::Client { of_client(failure) } else { of_others(failure) };
    if let Some(text) = text {
        log(level(failure), format_args!("{text}"));
    }
}

fn of_client(failure: &Failure) -> Option<String> {
    let (activity, while_) = (failure.activity(), phrase(failure.activity()));
    let closed = "client prematurely closed connection";
    let too = "so upstream connection is closed too while";
    Some(match (failure.cause(), activity) {
        // Reported where it was found, with more than is known here.
        (Cause::Reported | Cause::Decided(_), _) => return None,
        (Cause::Closed, Activity::ReadingRequestBody) => closed.into(),
        (Cause::Closed, Activity::ReadingResponse | Activity::SendingResponse) => {
            format!("{closed}, {too} sending to client")
        }
        (Cause::Closed, _) => format!("epoll_wait() reported that {closed}, {too} {while_}"),
        (Cause::TimedOut, Activity::SendingResponse) => format!("client {TIMED_OUT} while sending to client"),
        (Cause::TimedOut, _) => format!("client {TIMED_OUT} while {while_}"),
        (Cause::Call { call, error }, _) => {
            format!("{call} failed ({}) while sending to client", os_text(error))
        }
        (Cause::Length, _) => "client sent a body of another length than declared".into(),
        _ => failure.text().into(),
    })
}

fn of_others(failure: &Failure) -> Option<String> {
    let while_ = phrase(failure.activity());
    Some(match (failure.cause(), failure.activity()) {
        (Cause::Reported | Cause::Decided(_), _) => return None,
        // The codec has told it by a message of its own.
        (Cause::Protocol(text), _) if text.is_empty() => return None,
        (Cause::Closed, _) => format!("upstream prematurely closed connection while {while_}"),
        (Cause::Call { call, error }, _) => format!("{call} failed ({}) while {while_}", os_text(error)),
        (Cause::TimedOut, _) => format!("upstream {TIMED_OUT} while {while_}"),
        (Cause::Tls(error), _) => format!("{error} while {while_}"),
        (Cause::UnaskedUpgrade, _) => format!("upstream sent unexpected 101 while {while_}"),
        // These say what was being done by themselves.
        (_, Activity::ReadingRequestBody | Activity::Resolving) => failure.text().into(),
        _ => format!("{} while {while_}", failure.text()),
    })
}

/// The level of a failure's message. What a client brings upon itself is its own business; what keeps the server from
/// its work concerns the administrator.
fn level(failure: &Failure) -> LogLevel {
    match (failure.origin(), failure.activity(), failure.cause()) {
        (Origin::Client, _, Cause::Protocol(_) | Cause::TooLarge(_)) => LogLevel::Error,
        (Origin::Client, ..) => LogLevel::Info,
        // The kernel did not even begin to connect: nginx finds that critical, unless the server has refused.
        (Origin::Local, Activity::Connecting, Cause::Call { .. }) => LogLevel::Crit,
        // A temporary file.
        (Origin::Local, Activity::ReadingRequestBody | Activity::ReadingResponse, _) => LogLevel::Crit,
        _ => LogLevel::Error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_net::Retry;
    use std::io;

    #[track_caller]
    fn check(failure: &Failure, want_status: u16, want: Option<(LogLevel, &str)>) {
        let mut logged = None;
        log(failure, |level, text| logged = Some((level, text.to_string())));
        assert_eq!(logged.as_ref().map(|(level, text)| (*level, &**text)), want);
        assert_eq!(status(failure), want_status);
    }

    fn is_closed(failure: &Failure) -> bool {
        let (mut r, _) = crate::vars::tests::request("GET / HTTP/1.1\nHost: a\n\n", &[]);
        matches!(flow(failure, &mut r), Flow::Close)
    }

    fn refused() -> Cause {
        Cause::Call { call: "connect()".into(), error: io::Error::from_raw_os_error(111) }
    }

    #[test]
    fn upstream_servers() {
        use Activity::{Connecting, Handshaking, ReadingHead, ReadingResponse, Resolving, SendingRequest};
        let error = |text| Some((LogLevel::Error, text));
        check(
            &Failure::upstream(ReadingHead, Cause::Closed),
            502,
            error("upstream prematurely closed connection while reading response header from upstream"),
        );
        check(
            &Failure::upstream(ReadingResponse, Cause::TimedOut),
            504,
            error("upstream timed out (110: Connection timed out) while reading upstream"),
        );
        check(
            &Failure::upstream(SendingRequest, Cause::TimedOut),
            504,
            error("upstream timed out (110: Connection timed out) while sending request to upstream"),
        );
        check(
            &Failure::upstream(Connecting, refused()),
            502,
            error("connect() failed (111: Connection refused) while connecting to upstream"),
        );
        let text = "connect() failed (111: Connection refused) while connecting to upstream";
        check(&Failure::new(Origin::Local, Connecting, refused()), 502, Some((LogLevel::Crit, text)));
        check(
            &Failure::upstream(Handshaking, Cause::Tls(brisk_net::TlsError::Closed)),
            502,
            error("peer closed connection in SSL handshake while SSL handshaking to upstream"),
        );
        let unreadable = Cause::Unavailable("cannot load certificate".into());
        check(
            &Failure::new(Origin::Configuration, Handshaking, unreadable),
            500,
            error("cannot load certificate while SSL handshaking to upstream"),
        );
        let nowhere = Cause::Unavailable("no resolver defined to resolve a.test".into());
        check(
            &Failure::new(Origin::Configuration, Resolving, nowhere),
            502,
            error("no resolver defined to resolve a.test"),
        );
        check(
            &Failure::upstream(Connecting, Cause::Unavailable("no live upstreams".into())),
            502,
            error("no live upstreams while connecting to upstream"),
        );
        check(&Failure::protocol(""), 502, None);
        check(
            &Failure::protocol("upstream sent no valid HTTP/1.0 header"),
            502,
            error("upstream sent no valid HTTP/1.0 header while reading response header from upstream"),
        );
    }

    #[test]
    fn bodies_of_requests() {
        let info = |text| Some((LogLevel::Info, text));
        check(&body::gone(), 400, info("client prematurely closed connection"));
        check(
            &body::timed_out(),
            408,
            info("client timed out (110: Connection timed out) while reading client request body"),
        );
        let text = "client intended to send too large chunked body: 10+5 bytes";
        check(&body::too_large(10, 5), 413, Some((LogLevel::Error, text)));
        check(&body::other_length(), 400, info("client sent a body of another length than declared"));
        assert!(is_closed(&body::gone()), "nobody could be told");
        assert!(!is_closed(&body::timed_out()));
    }

    #[test]
    fn who_has_gone_and_what_was_decided() {
        let gone = Failure::client(Activity::ReadingHead, Cause::Closed).scope_is(Scope::Stream);
        check(
            &gone,
            499,
            Some((
                LogLevel::Info,
                "epoll_wait() reported that client prematurely closed connection, so upstream connection is closed too while reading response header from upstream",
            )),
        );
        // It may have closed its own side only.
        assert!(!is_closed(&gone));
        check(&Failure::decided(403), 403, None);
        assert!(is_closed(&Failure::decided(499).scope_is(Scope::Connection)));
        check(&Failure::reported(), 500, None);
        // The kernel could not connect to an upstream server: the client still waits.
        assert!(!is_closed(&Failure::new(Origin::Local, Activity::Connecting, refused())));
        assert!(!is_closed(&Failure::upstream(Activity::ReadingHead, Cause::Closed)));
        let broken = Failure::broken("gzip data ended early");
        let text = "gzip data ended early while sending response to client";
        check(&broken, 500, Some((LogLevel::Error, text)));
        assert_eq!(broken.retry(), Retry::Never);
    }
}
