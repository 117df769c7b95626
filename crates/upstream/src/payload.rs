//! The body of a request, as a back end gets it.

use crate::engine::Engine;
use crate::protocol::{BodyShape, Protocol};
use crate::source::Source;
use brisk_http::{HeaderId, Method};
use brisk_net::Failure;
use brisk_server::body::{BodySource, Content};
use brisk_server::failure;
use brisk_server::request::Request;
use std::rc::Rc;

/// The request's body, as often as it is needed.
pub(crate) enum Payload {
    None,
    /// Made by the protocol (`proxy_set_body`), so it does not depend on the client's connection.
    Own(Rc<[u8]>),
    Content(Rc<Content>),
    /// Once only; with what has come of it.
    /// A later attempt would get the rest without its beginning, so there is none: `is_spent`.
    Client(Option<BodySource>, Vec<u8>),
}

impl Payload {
    /// The body for an attempt.
    pub fn source(&mut self) -> Source {
        match self {
            Payload::None => Source::None,
            Payload::Own(bytes) => Source::own(bytes),
            Payload::Content(content) => Source::of(content.clone()),
            Payload::Client(body, first) => {
                // Taken: from here on `is_spent` says so.
                body.take().map_or(Source::None, |body| Source::client(body, std::mem::take(first)))
            }
        }
    }

    /// How its length is told.
    pub fn shape(&self, r: &Request) -> BodyShape {
        match self {
            Payload::None => BodyShape::None,
            Payload::Own(bytes) => BodyShape::Length(bytes.len() as u64),
            Payload::Content(content) => match &**content {
                Content::None => BodyShape::None,
                content => BodyShape::Length(content.len()),
            },
            Payload::Client(..) => r.body_len().map_or(BodyShape::Unknown, BodyShape::Length),
        }
    }

    /// Whether it went to a peer as the client sent it: there is none for another one.
    pub fn is_spent(&self) -> bool {
        matches!(self, Payload::Client(None, _))
    }

    /// Whether the client's body may be passed on as it comes; otherwise it is read as a whole first.
    pub fn can_stream<P: Protocol>(engine: &Engine<P>, r: &Request) -> bool {
        let settings = engine.protocol.settings();
        // A protocol whose framing needs the length first (FastCGI's CONTENT_LENGTH) cannot begin without it.
        let is_known = r.body_len().is_some() || r.head.framing == brisk_http::framing::BodyFraming::None;
        // A body that the protocol makes replaces the client's, which is read and dropped.
        !engine.protocol.has_own_body()
            && settings.pass_request_body
            && !settings.request_buffering
            && (is_known || engine.protocol.streams_unknown_length())
    }

    /// Reads the body, or leaves it with the client.
    pub async fn of<P: Protocol>(engine: &Engine<P>, r: &mut Request) -> Result<Payload, Failure> {
        let settings = engine.protocol.settings();
        // A page is asked for without the body, and a location may pass on none or another one; everything else would be another request
        // without it.
        let needs_body = settings.pass_request_body && !engine.protocol.has_own_body();
        if needs_body && r.is_body_lent() && !matches!(r.route.method, Method::Get | Method::Head) {
            let text =
                "the request's body was passed on as the client sent it, and cannot be passed on once more";
            brisk_server::rlog!(r, Error, "{text}");
            return Err(Failure::decided(502));
        }
        // A body that an earlier handler has read is there to be sent as often as needed.
        if Self::can_stream(engine, r) && r.body.content().is_none() && !r.has_no_body() {
            let mut first = Vec::new();
            match r.read_body_now(&mut first) {
                // A body that has come already is like one that was read before: it can be sent to another peer, too.
                Ok(true) => {}
                // More is to come: what is here goes with the first attempt.
                Ok(false) => return Ok(Payload::Client(None, first)),
                Err(error) => return Err(reported(r, error)),
            }
        }
        if let Err(error) = r.read_body().await {
            return Err(reported(r, error));
        }
        Ok(match (engine.protocol.own_body(r), r.body.content()) {
            (Some(bytes), _) => Payload::Own(bytes.into()),
            (None, Some(content)) if settings.pass_request_body => Payload::Content(content.clone()),
            // Read and dropped: what is left on the connection would be taken for the next request.
            _ => Payload::None,
        })
    }

    /// The body, if nothing of it is to be read. Who expects `100 Continue` gets it from the reading, body or not, as with
    /// nginx.
    pub fn at_hand<P: Protocol>(engine: &Engine<P>, r: &Request) -> Option<Payload> {
        if !r.has_no_body() || r.body.content().is_some() || r.has_header(HeaderId::Expect) {
            return None;
        }
        Some(engine.protocol.own_body(r).map_or(Payload::None, |bytes| Payload::Own(bytes.into())))
    }
}

// Logged here, since there is no attempt yet that would log it.
fn reported(r: &Request, failure: Failure) -> Failure {
    failure::report(&failure, r);
    failure
}
