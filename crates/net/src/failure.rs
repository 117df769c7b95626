//! Why something on a request's way failed: the one error type of that way.
//!
//! The calls of a socket keep [`io::Result`]: there `WouldBlock` means that nothing can be done now, which is no failure.
//! The code that makes such a call for a request knows whose fault an error is, and says so by a [`Failure`]. Later code
//! decides by these facts and never by the kind or the text of an [`io::Error`].
//!
//! Status codes, log levels and messages follow from a failure in one place, which belongs to the server and not to this
//! crate.

use crate::tls::TlsError;
use std::borrow::Cow;
use std::fmt;
use std::io;

/// On whose side the cause lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The client, or the connection to it.
    Client,
    /// The upstream server that was asked, or the connection to it.
    Upstream,
    /// This process, its files or its kernel.
    Local,
    /// What the configuration says cannot be carried out for this request.
    Configuration,
}

/// What a failure takes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// This exchange. The peer still listens: it can be told of the failure.
    Stream,
    /// The connection, or this exchange's half of it: the peer can be told nothing more.
    Connection,
}

/// Whether the request may be sent again, to another upstream server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Any request may: no server has looked at it.
    Safe,
    /// A server may have acted on it, so only an idempotent one may (RFC 9110 §9.2.2).
    IfIdempotent,
    /// None may: the next server would not do better, or nobody wants the answer.
    Never,
}

/// What was being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// The request's body was read from the client.
    ReadingRequestBody,
    /// The name of an upstream server was looked up.
    Resolving,
    /// An upstream server was chosen, or a connection to it was made.
    Connecting,
    /// A TLS session with an upstream server was made.
    Handshaking,
    /// The request was sent to an upstream server.
    SendingRequest,
    /// The head of an upstream server's response was awaited.
    ReadingHead,
    /// The rest of an upstream server's response was awaited.
    ReadingResponse,
    /// The response was made or sent to the client.
    SendingResponse,
}

/// What happened.
#[derive(Debug)]
pub enum Cause {
    /// The peer closed its side, or reset its stream, before all had come.
    Closed,
    /// A system call failed. `call` is how nginx names it: `recv()`, `connect() to 127.0.0.1:80`.
    Call {
        /// The name of the call.
        call: Cow<'static, str>,
        /// What it returned.
        error: io::Error,
    },
    /// The peer, or the network, took longer than the configuration allows.
    TimedOut,
    /// There is no TLS session.
    Tls(TlsError),
    /// What the peer sent breaks its protocol. The text names the peer: `upstream sent …`. An empty text was logged where
    /// the fault was found.
    Protocol(Cow<'static, str>),
    /// The peer sent more, or less, than it had declared.
    Length,
    /// The peer sent more than a limit allows; the text is the message.
    TooLarge(Cow<'static, str>),
    /// A 101 response to a request that asked for no upgrade.
    UnaskedUpgrade,
    /// There is no server that could be asked, or no means to ask it; the text is the message.
    Unavailable(Cow<'static, str>),
    /// A file, a coder or another part of this process failed; the text is the message.
    Broken(Cow<'static, str>),
    /// It was logged where it was found, and ends the request with this status.
    Decided(u16),
    /// It was logged where it was found.
    Reported,
}

#[derive(Debug)]
struct Facts {
    origin: Origin,
    scope: Scope,
    retry: Retry,
    activity: Activity,
    cause: Cause,
}

/// An error with what others need to decide on it. It takes one pointer, so that a result with it is not larger than one
/// with an [`io::Error`].
#[derive(Debug)]
pub struct Failure(Box<Facts>);

impl Failure {
    /// A failure with what its kind mostly means: the connection is lost with a call, a time-out or an end; an upstream
    /// server may have acted on the request; and nothing else is worth a retry.
    pub fn new(origin: Origin, activity: Activity, cause: Cause) -> Failure {
        let retry = if origin == Origin::Upstream { Retry::IfIdempotent } else { Retry::Never };
        let scope = match cause {
            Cause::Closed | Cause::Call { .. } | Cause::Tls(_) => Scope::Connection,
            Cause::TimedOut | Cause::Protocol(_) if origin == Origin::Upstream => Scope::Connection,
            _ => Scope::Stream,
        };
        Failure(Box::new(Facts { origin, scope, retry, activity, cause }))
    }

    /// A failure of the client, or of the connection to it.
    pub fn client(activity: Activity, cause: Cause) -> Failure {
        Failure::new(Origin::Client, activity, cause)
    }

    /// A failure of an upstream server, or of the connection to it.
    pub fn upstream(activity: Activity, cause: Cause) -> Failure {
        Failure::new(Origin::Upstream, activity, cause)
    }

    /// A part of this process failed while it made or sent a response; `error` is the message.
    pub fn broken(error: impl fmt::Display) -> Failure {
        Failure::new(Origin::Local, Activity::SendingResponse, Cause::Broken(error.to_string().into()))
    }

    /// What an upstream server sent breaks its protocol, which was found while its head was awaited.
    pub fn protocol(text: impl Into<Cow<'static, str>>) -> Failure {
        Failure::upstream(Activity::ReadingHead, Cause::Protocol(text.into()))
    }

    /// The same, logged where it was found.
    pub fn silent() -> Failure {
        Failure::protocol("")
    }

    /// The end of something of which the cause has been logged.
    pub fn reported() -> Failure {
        Failure::new(Origin::Local, Activity::SendingResponse, Cause::Reported)
    }

    /// The request ends with this status; the reason has been logged.
    pub fn decided(status: u16) -> Failure {
        Failure::new(Origin::Local, Activity::SendingResponse, Cause::Decided(status))
    }

    /// The same with another scope.
    #[must_use]
    pub fn scope_is(mut self, scope: Scope) -> Failure {
        self.0.scope = scope;
        self
    }

    /// The same with another answer to the question of a retry.
    #[must_use]
    pub fn retry_is(mut self, retry: Retry) -> Failure {
        self.0.retry = retry;
        self
    }

    /// The same, found while something else was being done.
    #[must_use]
    pub fn during(mut self, activity: Activity) -> Failure {
        self.0.activity = activity;
        self
    }

    /// On whose side the cause lies.
    pub fn origin(&self) -> Origin {
        self.0.origin
    }

    /// What is lost with it.
    pub fn scope(&self) -> Scope {
        self.0.scope
    }

    /// Whether the request may be sent again.
    pub fn retry(&self) -> Retry {
        self.0.retry
    }

    /// What was being done.
    pub fn activity(&self) -> Activity {
        self.0.activity
    }

    /// What happened.
    pub fn cause(&self) -> &Cause {
        &self.0.cause
    }

    /// The message that the cause comes with; empty if its message follows from what it is.
    pub fn text(&self) -> &str {
        match self.cause() {
            Cause::Protocol(text)
            | Cause::TooLarge(text)
            | Cause::Unavailable(text)
            | Cause::Broken(text) => text,
            _ => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_no_larger_than_with_an_io_error() {
        assert_eq!(size_of::<Result<usize, Failure>>(), size_of::<io::Result<usize>>());
    }

    #[test]
    fn what_a_failure_means_unless_it_says_otherwise() {
        let facts = |failure: &Failure| (failure.origin(), failure.scope(), failure.retry());
        let gone = Failure::upstream(Activity::ReadingHead, Cause::Closed);
        assert_eq!(facts(&gone), (Origin::Upstream, Scope::Connection, Retry::IfIdempotent));
        let refused = Failure::protocol("upstream rejected request with error 7")
            .scope_is(Scope::Stream)
            .retry_is(Retry::Safe);
        assert_eq!(facts(&refused), (Origin::Upstream, Scope::Stream, Retry::Safe));
        let late = Failure::client(Activity::ReadingRequestBody, Cause::TimedOut);
        assert_eq!(facts(&late), (Origin::Client, Scope::Stream, Retry::Never));
        let left = Failure::client(Activity::ReadingRequestBody, Cause::Closed);
        assert_eq!(facts(&left), (Origin::Client, Scope::Connection, Retry::Never));
        assert_eq!(facts(&Failure::broken("x")), (Origin::Local, Scope::Stream, Retry::Never));
    }
}
