//! Reading a request's body.

use crate::connection::Connection;
use crate::request::Request;
use brisk_http::HeaderId;
use brisk_http::chunked::{ChunkError, ChunkEvent, ChunkLimits, ChunkedDecoder};
use brisk_http::framing::BodyFraming;
use brisk_net::timeout;
use std::io;
use std::rc::Rc;
use std::time::Duration;

/// Why a body could not be read.
#[derive(Debug)]
pub enum BodyError {
    /// The client has gone or stopped sending.
    Io(io::Error),
    /// `client_body_timeout`.
    TimedOut,
    /// Bad chunked framing.
    Malformed(ChunkError),
    /// Larger than `client_max_body_size`.
    TooLarge,
}

impl BodyError {
    /// The status to answer with; 0: there is nobody to answer.
    pub fn status(&self) -> u16 {
        match self {
            BodyError::Io(_) => 400,
            BodyError::TimedOut => 408,
            BodyError::Malformed(_) => 400,
            BodyError::TooLarge => 413,
        }
    }
}

enum State {
    Length(u64),
    Chunked(Box<ChunkedDecoder>),
    Done,
    /// An error: what follows on the connection cannot be understood.
    Broken,
}

/// The body of the request that a connection is at. Kept in the request from the first read on.
pub struct RequestBody {
    conn: Rc<Connection>,
    state: State,
    limit: u64,
    received: u64,
    /// The client waits for leave to send (`Expect: 100-continue`).
    expects: bool,
}

impl RequestBody {
    /// The body of `r`, from its start.
    pub fn new(r: &Request) -> RequestBody {
        let conn = r.conn.clone().expect("a request has a connection");
        let state = match r.framing {
            BodyFraming::None | BodyFraming::Length(0) => State::Done,
            BodyFraming::Length(length) => State::Length(length),
            BodyFraming::Chunked => State::Chunked(Box::new(ChunkedDecoder::new(ChunkLimits::default()))),
        };
        let expects = r.head.version >= brisk_http::Version::Http11
            && r.header(HeaderId::Expect).is_some_and(|v| v.eq_ignore_ascii_case(b"100-continue"));
        RequestBody { conn, state, limit: r.core().client_max_body_size, received: 0, expects }
    }

    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    pub fn received(&self) -> u64 {
        self.received
    }

    /// True if the connection cannot be used for another request.
    pub fn is_broken(&self) -> bool {
        matches!(self.state, State::Broken)
    }

    /// Appends the next bytes to `out`; false at the end. Waits at most `pause` for the client.
    pub async fn read(&mut self, out: &mut Vec<u8>, pause: Duration) -> Result<bool, BodyError> {
        loop {
            let before = out.len();
            match self.take(out) {
                Ok(()) => {}
                Err(error) => {
                    self.state = State::Broken;
                    return Err(error);
                }
            }
            if out.len() > before {
                self.received += (out.len() - before) as u64;
                if self.limit > 0 && self.received > self.limit {
                    self.state = State::Broken;
                    return Err(BodyError::TooLarge);
                }
                return Ok(true);
            }
            if self.is_done() {
                return Ok(false);
            }
            self.fill(pause).await?;
        }
    }

    /// Moves what has arrived from the connection's input to `out`.
    fn take(&mut self, out: &mut Vec<u8>) -> Result<(), BodyError> {
        let mut input = self.conn.input.borrow_mut();
        let used = match &mut self.state {
            State::Done | State::Broken => 0,
            State::Length(left) => {
                let count = input.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                out.extend_from_slice(&input[..count]);
                *left -= count as u64;
                if *left == 0 {
                    self.state = State::Done;
                }
                count
            }
            State::Chunked(decoder) => {
                let mut at = 0;
                let mut done = false;
                while !done && at < input.len() {
                    let (event, used) = decoder.next(&input[at..]).map_err(BodyError::Malformed)?;
                    match event {
                        ChunkEvent::Data(range) => out.extend_from_slice(&input[at..][range]),
                        ChunkEvent::End => done = true,
                        ChunkEvent::NeedMore => {}
                    }
                    at += used;
                }
                if done {
                    self.state = State::Done;
                }
                at
            }
        };
        input.drain(..used);
        Ok(())
    }

    async fn fill(&mut self, pause: Duration) -> Result<(), BodyError> {
        if std::mem::take(&mut self.expects) {
            let line = b"HTTP/1.1 100 Continue\r\n\r\n";
            self.conn.io.write_all(line).await.map_err(BodyError::Io)?;
        }
        let mut buf = vec![0; 16 << 10];
        let read = timeout(pause, self.conn.io.read(&mut buf)).await;
        let result = match read {
            Err(_) => Err(BodyError::TimedOut),
            Ok(Err(error)) => Err(BodyError::Io(error)),
            Ok(Ok(0)) => Err(BodyError::Io(io::ErrorKind::UnexpectedEof.into())),
            Ok(Ok(count)) => {
                self.conn.input.borrow_mut().extend_from_slice(&buf[..count]);
                Ok(())
            }
        };
        if result.is_err() {
            self.state = State::Broken;
        }
        result
    }

    /// Drops what has arrived of it already, so that bad framing is known before the response (nginx:
    /// `ngx_http_discard_request_body`).
    pub fn discard_received(&mut self) -> Result<(), BodyError> {
        // Who has begun to send does not wait for leave.
        self.expects &= self.conn.input.borrow().is_empty();
        let result = self.take(&mut Vec::new());
        if result.is_err() {
            self.state = State::Broken;
        }
        result
    }

    /// True if the client waits for a `100 Continue` that it will not get: it may never send the body.
    pub fn is_awaited(&self) -> bool {
        self.expects && !self.is_done()
    }

    /// Reads and drops the rest, for at most `time`; true if the connection may be used again.
    pub async fn discard(&mut self, pause: Duration, time: Duration) -> bool {
        // Who was never told to go on will not send.
        if self.is_awaited() {
            return false;
        }
        self.limit = 0;
        let work = async {
            let mut sink = Vec::new();
            loop {
                sink.clear();
                match self.read(&mut sink, pause).await {
                    Ok(true) => {}
                    Ok(false) => return true,
                    Err(_) => return false,
                }
            }
        };
        timeout(time, work).await.unwrap_or(false)
    }
}

/// True if a body was begun and will not be finished.
pub fn is_broken(r: &Request) -> bool {
    r.body.as_ref().is_some_and(|body| body.is_broken() || body.is_awaited())
}
