//! HTTP/2 to a back end (RFC 9113): one exchange at a time on a connection, whose state waits with it for the next one.

mod head;
mod session;
#[cfg(test)]
mod tests;

pub use head::RequestHead;
pub use session::Session;

use crate::codec::{Codec, Event, Step};
use brisk_h2::ErrorCode;
use brisk_h2::frame::{FrameHead, HEAD_BYTES, flag, kind};
use brisk_http::framing::parse_length;
use brisk_http::{HeaderId, status};
use brisk_net::{Failure, Retry, Scope};
use head::Heads;
use session::Told;

/// For [`Protocol::dialect`](crate::protocol::Protocol::dialect).
pub const DIALECT: u8 = 2;

/// How far the answer is.
/// `Over` and `Ended` are two, since a read gives one event: the end that came with the last data is told by
/// the next read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Head,
    Body,
    /// All has come; [`Event::End`] is due.
    Over,
    /// [`Event::End`] was given.
    Ended,
}

/// What a codec is made of.
pub struct Question {
    /// The request's head.
    pub head: RequestHead,
    /// Nothing follows the head.
    pub is_bodiless: bool,
    /// The answer has no body, whatever its head says.
    pub is_head: bool,
    /// Bytes of all names and values of a head.
    pub head_bytes_max: usize,
}

/// See the module's head.
pub struct Http2 {
    question: Question,
    session: Option<Box<Session>>,
    /// 0: the connection takes no more streams.
    stream: u32,
    stage: Stage,
    heads: Heads,
    /// What `Content-Length` says.
    announced: Option<u64>,
    /// How much of it is still to come.
    /// `None`: no length was told, and the end of the stream is the end of the body.
    left: Option<u64>,
    /// The last frame that was appended is DATA, and begins here.
    last_data: Option<usize>,
    /// The back end has reset the stream behind its end.
    is_reset: bool,
    /// Nothing more is to be asked on this connection.
    is_leaving: bool,
}

impl Http2 {
    /// Before the request was sent.
    pub fn new(question: Question) -> Http2 {
        Http2 {
            question,
            session: None,
            stream: 0,
            stage: Stage::Head,
            heads: Heads::default(),
            announced: None,
            left: None,
            last_data: None,
            is_reset: false,
            is_leaving: false,
        }
    }

    /// The next frame: how much of the input it took, and what it says of this exchange.
    fn advance<'a>(&mut self, input: &'a [u8], out: &mut Vec<u8>) -> Result<(usize, Told<'a>), Failure> {
        let Some(session) = &mut self.session else { return Err(Failure::protocol(NO_STREAM)) };
        let before = out.len();
        let (used, told) = session.step(input, &mut self.heads, out)?;
        // Something else (an ACK, a WINDOW_UPDATE) stands behind the DATA frame now: it is not the last any
        // more.
        if out.len() != before {
            self.last_data = None;
        }
        if let Some(wrong) = self.heads.take_wrong() {
            return Err(Failure::protocol(wrong.into_string()));
        }
        match told {
            // A stream up to `last` is still answered: only the connection's further use ends.
            Told::GoAway { last, code } => {
                self.is_leaving = true;
                if last < self.stream && self.stage != Stage::Over {
                    // Streams above the last one were not looked at (RFC 9113 §6.8).
                    // With an error code the server is in trouble, and its count may be wrong: only what may
                    // be repeated is.
                    let retry = if code == ErrorCode::NO_ERROR { Retry::Safe } else { Retry::IfIdempotent };
                    let text = format!("upstream sent goaway with error {}", code.0);
                    return Err(Failure::protocol(text).retry_is(retry));
                }
                Ok((used, Told::Nothing))
            }
            Told::Reset { code, by_peer: true } if self.stage != Stage::Over => {
                // RFC 9113 §8.7: the server says that it did not look at the request.
                let is_refused = code == ErrorCode::REFUSED_STREAM && self.stage == Stage::Head;
                let retry = if is_refused { Retry::Safe } else { Retry::IfIdempotent };
                let text = format!("upstream rejected request with error {}", code.0);
                Err(Failure::protocol(text).scope_is(Scope::Stream).retry_is(retry))
            }
            // The session has found the stream broken; the connection is of no use any more.
            Told::Reset { by_peer: false, .. } => Err(Failure::protocol(match self.stage {
                Stage::Head => "upstream prematurely closed stream",
                _ => "upstream sent unexpected http2 frame",
            })),
            told => Ok((used, told)),
        }
    }

    /// A head has come: what it says of the body. `end`: there is none.
    fn begin_body(&mut self, end: bool) -> Result<(), Failure> {
        let head = self.heads.head();
        if head.status == 0 {
            return Err(Failure::protocol("upstream sent no :status header"));
        }
        let announced = head.get(HeaderId::ContentLength);
        self.announced = announced.and_then(parse_length);
        // A length in doubt is refused and not repaired: the client would be told another one than a cache behind it (RFC 9113 §8.1.1).
        if announced.is_some() && (self.announced.is_none() || head.all(HeaderId::ContentLength).count() > 1)
        {
            return Err(Failure::protocol("upstream sent invalid \"Content-Length\" header"));
        }
        // A HEAD's `Content-Length` is of the body that a GET would get: nothing of it comes.
        let has_none = self.question.is_head || status::is_bodiless(head.status);
        self.left = if has_none { Some(0) } else { self.announced };
        // The end says it as well: the client gets a length in place of chunks.
        if end && !has_none && self.announced.is_none() {
            self.announced = Some(0);
        }
        self.stage = Stage::Body;
        Ok(())
    }

    /// The end of the stream has come: the body must be complete.
    // Without a length END_STREAM is all there is to go by, and it has come.
    fn check_whole(&self) -> Result<(), Failure> {
        match self.left {
            // RFC 9113 §8.1.1: DATA adds up to `Content-Length`. Less is an answer that was cut off, however orderly the stream ended.
            Some(left) if left > 0 => Err(Failure::protocol("upstream prematurely closed stream")),
            _ => Ok(()),
        }
    }

    fn take(&mut self, count: usize) -> Result<(), Failure> {
        if let Some(left) = &mut self.left {
            // Refused with the first byte too many: the client was told the length.
            *left = left.checked_sub(count as u64).ok_or_else(|| {
                Failure::protocol("upstream sent response body larger than indicated content length")
            })?;
        }
        Ok(())
    }

    /// What came together with the end is looked at before the end is believed. Gives how much of the input was used.
    fn settle(&mut self, input: &[u8], mut at: usize, out: &mut Vec<u8>) -> Result<usize, Failure> {
        self.check_whole()?;
        self.stage = Stage::Over;
        loop {
            self.judge_late(&input[at..])?;
            let (used, _) = self.advance(&input[at..], out)?;
            if used == 0 {
                return Ok(at);
            }
            at += used;
        }
    }

    /// A frame behind the end of the answer: the stream may be reset once, and its window may grow.
    fn judge_late(&mut self, input: &[u8]) -> Result<(), Failure> {
        let Some(frame) = FrameHead::parse(input).filter(|frame| frame.stream == self.stream) else {
            return Ok(());
        };
        let code = match frame.kind {
            // Both may come for a stream that has ended (RFC 9113 §5.1).
            kind::WINDOW_UPDATE | kind::PRIORITY => return Ok(()),
            kind::RST_STREAM => input.get(HEAD_BYTES..HEAD_BYTES + 4),
            _ => None,
        };
        match code {
            // NO_ERROR behind a whole answer means that the rest of the request is not wanted (§8.1).
            Some([0, 0, 0, 0]) if !std::mem::replace(&mut self.is_reset, true) => Ok(()),
            Some(&[a, b, c, d]) if [a, b, c, d] != [0; 4] => {
                let code = u32::from_be_bytes([a, b, c, d]);
                Err(Failure::protocol(format!("upstream rejected request with error {code}")))
            }
            // The rest of it is still to come.
            None if frame.kind == kind::RST_STREAM => Ok(()),
            _ => {
                let text = format!("upstream sent frame for closed stream {}", self.stream);
                Err(Failure::protocol(text))
            }
        }
    }
}

const NO_STREAM: &str = "upstream allows no more streams";

impl Codec for Http2 {
    /// `None` on a new connection: [`Codec::begin`] makes the session, and its preface is part of the first
    /// output.
    fn adopt(&mut self, session: Option<Box<Session>>) {
        self.session = session;
    }

    fn release(&mut self) -> Option<Box<Session>> {
        self.session.take()
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        self.stage = Stage::Head;
        // The codec may be used for a second try at another back end.
        self.heads = Heads::default();
        (self.announced, self.left, self.last_data) = (None, None, None);
        (self.is_reset, self.is_leaving) = (false, false);
        // Not when the codec is made: a kept connection has a session, and a preface in the midst of it would be an error.
        let session = self.session.get_or_insert_with(|| Box::new(Session::new(out)));
        let question = &self.question;
        // The block was made for no connection in particular, so a retry sends the same bytes.
        self.stream = session.open(question.head.block(), question.is_bodiless, question.head_bytes_max, out);
    }

    fn body(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        let Some(session) = &mut self.session else { return };
        if piece.is_empty() {
            return;
        }
        self.last_data = session.send(self.stream, piece, out);
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        // Without a body the head has said END_STREAM already.
        let Some(session) = self.session.as_mut().filter(|_| !self.question.is_bodiless) else { return };
        // Made apart: it is appended only if the last piece cannot carry the end itself, which spares the peer a frame.
        let mut frame = Vec::new();
        session.end(self.stream, &mut frame);
        match self.last_data.filter(|_| !frame.is_empty()).and_then(|at| out.get_mut(at..)) {
            // The last piece has not left yet, and can say that it is the last.
            Some(last) if is_data(last) => last[4] |= flag::END_STREAM,
            _ => out.extend_from_slice(&frame),
        }
    }

    fn room(&self) -> usize {
        self.session.as_ref().map_or(0, |session| session.room(self.stream))
    }

    fn read(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<Step, Failure> {
        if self.stage == Stage::Over {
            self.stage = Stage::Ended;
            // The beginning of another frame.
            // It belongs to no exchange. The next codec would have to know that it begins in the midst of a
            // frame.
            self.is_leaving |= !input.is_empty();
            return Ok(Step { used: input.len(), event: Event::End });
        }
        if self.stage == Stage::Ended {
            return Ok(Step { used: 0, event: Event::NeedMore });
        }
        let mut at = 0;
        loop {
            let (used, told) = self.advance(&input[at..], out)?;
            at += used;
            let event = match told {
                Told::Nothing if used == 0 => Event::NeedMore,
                Told::Interim => Event::Interim(self.heads.take_head()),
                Told::Head { end } => {
                    self.begin_body(end)?;
                    if end {
                        at = self.settle(input, at, out)?;
                    }
                    Event::Head(self.heads.take_head())
                }
                Told::Trailers => {
                    at = self.settle(input, at, out)?;
                    Event::Trailers(self.heads.take_trailers())
                }
                Told::Data { data, end } => {
                    self.take(data.len())?;
                    // Data is a part of the input.
                    // Ranges instead of a borrow: the codec is a trait object, and its caller owns the input.
                    let start = data.as_ptr() as usize - input.as_ptr() as usize;
                    let range = start..start + data.len();
                    if end {
                        at = self.settle(input, at, out)?;
                    }
                    Event::Data(range)
                }
                _ => continue,
            };
            return Ok(Step { used: at, event });
        }
    }

    fn eof(&mut self) -> Result<Event, Failure> {
        // The end of the connection in the midst of an answer is a failure also where END_STREAM is missing
        // only.
        self.is_leaving = true;
        Ok(if matches!(self.stage, Stage::Over | Stage::Ended) { Event::End } else { Event::NeedMore })
    }

    fn persists(&self) -> bool {
        // Stream numbers are used up at some time, and a back end may have said GOAWAY.
        let has_more = |session: &Session| session.can_go_on();
        self.stage == Stage::Ended && !self.is_leaving && self.session.as_deref().is_some_and(has_more)
    }

    fn length(&self) -> Option<u64> {
        self.announced
    }
}

/// Whether these bytes are one whole DATA frame.
fn is_data(bytes: &[u8]) -> bool {
    let fits = |frame: FrameHead| frame.kind == kind::DATA && HEAD_BYTES + frame.len as usize == bytes.len();
    FrameHead::parse(bytes).is_some_and(fits)
}
