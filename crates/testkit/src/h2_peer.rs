//! An HTTP/2 back end over cleartext: one connection of a server to it, driven by a test's script.

use crate::backend::Peer;
use brisk_h2::conn::{HeadKind, HeadSink};
use brisk_h2::hpack::{Field, FieldSink, write_literal};
use brisk_h2::{Config, Connection, Event, Role, Settings};

/// A request's fields, pseudo headers too.
#[derive(Clone, Debug, Default)]
pub struct H2Request {
    /// The stream.
    pub stream: u32,
    /// Fields of the head, in their order.
    pub fields: Vec<(String, String)>,
    /// Nothing follows the head.
    pub ended: bool,
}

impl H2Request {
    /// The first field of this name.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(have, _)| have == name).map(|(_, value)| &**value)
    }
}

#[derive(Default)]
struct Heads(Vec<(String, String)>);

impl FieldSink for Heads {
    fn tag(&mut self, _: &[u8]) -> u8 {
        0
    }

    fn field(&mut self, field: Field<'_>) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.0.push((text(field.name), text(field.value)));
    }
}

impl HeadSink for Heads {
    fn begin(&mut self, _: u64, _: HeadKind) {
        self.0.clear();
    }
}

/// See the module's head.
pub struct H2Peer {
    /// Its side of the protocol.
    pub peer: Peer,
    conn: Connection<()>,
    heads: Heads,
    input: Vec<u8>,
    requests: Vec<H2Request>,
    body: Vec<u8>,
    /// The request's body is complete.
    pub ended: bool,
    /// The server has closed, or reset the stream.
    pub gone: bool,
    pongs: usize,
}

impl H2Peer {
    /// Begins; what the server has to say first is read with its first request.
    pub fn new(peer: Peer, settings: Settings) -> H2Peer {
        let mut out = Vec::new();
        let conn = Connection::new(Role::Server, Config { settings, ..Config::default() }, 0, &mut out);
        let mut this = H2Peer {
            peer,
            conn,
            heads: Heads::default(),
            input: Vec::new(),
            requests: Vec::new(),
            body: Vec::new(),
            ended: false,
            gone: false,
            pongs: 0,
        };
        this.gone = !this.peer.send(&out);
        this
    }

    /// Reads once.
    ///
    /// # Panics
    /// If the server breaks the protocol.
    fn read(&mut self) {
        let some = self.peer.some();
        self.gone |= some.is_empty();
        self.input.extend_from_slice(&some);
        let (mut at, mut out) = (0, Vec::new());
        loop {
            let received = self.conn.receive(&self.input[at..], &mut self.heads, &mut out);
            let received = received.expect("the server keeps to the protocol");
            let is_done = received.used == 0 && received.event.is_none();
            at += received.used;
            match received.event {
                Some(Event::Head { stream, end, .. }) => {
                    self.ended = end;
                    self.body.clear();
                    let fields = std::mem::take(&mut self.heads.0);
                    self.requests.push(H2Request { stream, fields, ended: end });
                }
                Some(Event::Data { stream, data, end, .. }) => {
                    self.body.extend_from_slice(data);
                    self.ended |= end;
                    let count = data.len() as u32;
                    self.conn.consume(stream, count, &mut out);
                }
                Some(Event::Reset { .. }) => self.gone = true,
                Some(Event::Pong(_)) => self.pongs += 1,
                _ => {}
            }
            if is_done {
                break;
            }
        }
        self.input.drain(..at);
        self.peer.send(&out);
    }

    /// Asks whether the server is there; false if it does not answer.
    pub fn ping(&mut self) -> bool {
        let (mut out, before) = (Vec::new(), self.pongs);
        self.conn.ping([7; 8], &mut out);
        self.peer.send(&out);
        while self.pongs == before && !self.gone {
            self.read();
        }
        self.pongs > before
    }

    /// The next request's head; `None` when the server has gone.
    pub fn request(&mut self) -> Option<H2Request> {
        while self.requests.is_empty() {
            if self.gone {
                return None;
            }
            self.read();
        }
        Some(self.requests.remove(0))
    }

    /// The body so far, once there are `count` bytes or it is at its end.
    pub fn body(&mut self, count: usize) -> Vec<u8> {
        while self.body.len() < count && !self.ended && !self.gone {
            self.read();
        }
        std::mem::take(&mut self.body)
    }

    /// All that is left of the body.
    pub fn rest(&mut self) -> Vec<u8> {
        self.body(usize::MAX)
    }

    /// Sends fields: a head, or trailers.
    pub fn fields(&mut self, stream: u32, fields: &[(&str, &str)], end: bool) {
        let (mut block, mut out) = (Vec::new(), Vec::new());
        fields.iter().for_each(|(name, value)| write_literal(name.as_bytes(), value.as_bytes(), &mut block));
        let _ = self.conn.send_head(stream, &block, end, &mut out);
        self.peer.send(&out);
    }

    /// Sends a piece of a body.
    pub fn data(&mut self, stream: u32, data: &[u8], end: bool) {
        let mut out = Vec::new();
        let _ = self.conn.send_body(stream, data, end, &mut out);
        self.peer.send(&out);
    }
}
