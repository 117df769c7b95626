//! An HTTP/3 client that speaks through `brisk-h3`'s client side, over a QUIC connection that a test holds in its hands.

use crate::h2::Heads;
use crate::quic::{QuicClient, Visitor};
use crate::wait::DEADLINE;
use brisk_h3::qpack::{begin, write_literal};
use brisk_h3::{Config, Connection, Event, Own, Role, frame};
use quinn_proto::{Dir, ReadError, Side, StreamId, VarInt, WriteError};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

type Fields = Vec<(String, String)>;

/// What came back on a stream.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// 0: no head has come.
    pub status: u16,
    /// Fields of the head, in their order.
    pub fields: Fields,
    /// The body so far.
    pub body: Vec<u8>,
    /// Fields behind the body.
    pub trailers: Fields,
    /// Interim responses: status and fields.
    pub interim: Vec<(u16, Fields)>,
    /// All of it is here.
    pub ended: bool,
    /// The code with which the stream was reset, if it was.
    pub reset: Option<u64>,
}

impl Answer {
    /// The value of the first field with this name; empty without one.
    pub fn field(&self, name: &str) -> &str {
        self.fields.iter().find(|(have, _)| have == name).map_or("", |(_, value)| value)
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// One connection.
pub struct H3Client {
    /// What is beneath.
    pub quic: QuicClient,
    /// Answers by stream.
    pub answers: BTreeMap<u64, Answer>,
    /// The first request that the server does not look at, once it has said so.
    pub goaway: Option<u64>,
    /// The name that requests are for.
    pub host: String,
    engine: Connection<()>,
    heads: Heads,
    /// Our unidirectional streams.
    own: [Option<StreamId>; 2],
    /// The server's, and requests, that may have something.
    open: Vec<StreamId>,
}

fn id_of(stream: u64) -> StreamId {
    let side = if stream & 1 == 0 { Side::Client } else { Side::Server };
    let dir = if stream & 2 == 0 { Dir::Bi } else { Dir::Uni };
    StreamId::new(side, dir, stream >> 2)
}

impl H3Client {
    /// A connection whose handshake is complete.
    pub fn connect(visitor: &Visitor, to: SocketAddr, host: &str) -> H3Client {
        H3Client::over(visitor.connect(to, host), host)
    }

    /// Speaks on a connection, whose handshake need not be complete if requests may leave early.
    pub fn over(quic: QuicClient, host: &str) -> H3Client {
        let mut client = H3Client {
            quic,
            answers: BTreeMap::new(),
            goaway: None,
            host: host.to_string(),
            engine: Connection::new(Role::Client, Config::default(), 0),
            heads: Heads::default(),
            own: [None, None],
            open: Vec::new(),
        };
        client.send_own();
        client
    }

    fn send_own(&mut self) {
        for (at, own) in [Own::Control, Own::Decoder].into_iter().enumerate() {
            let out = std::mem::take(self.engine.own_output(own));
            if out.is_empty() {
                continue;
            }
            let id = match self.own[at] {
                Some(id) => id,
                None => self.quic.conn.streams().open(Dir::Uni).expect("the server allows our streams"),
            };
            self.own[at] = Some(id);
            self.quic.write(id, &out);
        }
    }

    /// A field section.
    pub fn section(fields: &[(&str, &str)]) -> Vec<u8> {
        let mut section = Vec::new();
        begin(&mut section);
        for (name, value) in fields {
            write_literal(name.as_bytes(), value.as_bytes(), &mut section);
        }
        section
    }

    fn open_stream(&mut self) -> StreamId {
        let id = loop {
            match self.quic.conn.streams().open(Dir::Bi) {
                Some(id) => break id,
                // All that are allowed are open: the server allows others as these end.
                None => self.turn(Duration::from_millis(20)),
            }
        };
        self.engine.open(u64::from(id), ());
        self.answers.insert(u64::from(id), Answer::default());
        self.open.push(id);
        id
    }

    /// Begins a request's stream with any bytes, such as a part of a head; gives the stream.
    pub fn begin_with(&mut self, bytes: &[u8]) -> u64 {
        let id = self.open_stream();
        self.quic.write(id, bytes);
        self.quic.flush();
        u64::from(id)
    }

    /// Begins a request; gives its stream. `end`: it has no body.
    pub fn begin(&mut self, fields: &[(&str, &str)], end: bool) -> u64 {
        let id = self.open_stream();
        let stream = u64::from(id);
        let mut out = Vec::new();
        self.engine.send_head(stream, &H3Client::section(fields), &mut out).expect("the stream is open");
        if end {
            let _ = self.engine.end_send(stream);
        }
        self.quic.write(id, &out);
        if end {
            let _ = self.quic.conn.send_stream(id).finish();
        }
        self.quic.flush();
        stream
    }

    /// Sends a piece of a body.
    pub fn send(&mut self, stream: u64, body: &[u8], end: bool) {
        let mut out = Vec::new();
        if !body.is_empty() && self.engine.begin_data(stream, body.len() as u64, &mut out).is_ok() {
            out.extend_from_slice(body);
        }
        if end {
            let _ = self.engine.end_send(stream);
        }
        self.raw(stream, &out, end);
    }

    /// Sends fields behind a body, and ends the stream.
    pub fn trailers(&mut self, stream: u64, fields: &[(&str, &str)]) {
        let mut out = Vec::new();
        frame::write(frame::kind::HEADERS, &H3Client::section(fields), &mut out);
        let _ = self.engine.end_send(stream);
        self.raw(stream, &out, true);
    }

    /// Sends any bytes on a request's stream. While windows are full what comes is taken.
    pub fn raw(&mut self, stream: u64, mut bytes: &[u8], end: bool) {
        let id = id_of(stream);
        while !bytes.is_empty() {
            match self.quic.conn.send_stream(id).write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(WriteError::Blocked) => self.turn(Duration::from_millis(5)),
                Err(WriteError::Stopped(_) | WriteError::ClosedStream) => return,
            }
        }
        if end {
            let _ = self.quic.conn.send_stream(id).finish();
        }
        self.quic.flush();
    }

    /// Gives a request up, with H3_REQUEST_CANCELLED.
    pub fn cancel(&mut self, stream: u64) {
        let code = VarInt::from_u32(0x10c);
        let _ = self.quic.conn.send_stream(id_of(stream)).reset(code);
        let _ = self.quic.conn.recv_stream(id_of(stream)).stop(code);
        self.engine.reset(stream);
        self.quic.flush();
    }

    /// Sends what is to be sent, and takes what comes within `wait`.
    pub fn turn(&mut self, wait: Duration) {
        self.quic.turn(wait);
        while let Some(id) = self.quic.conn.streams().accept(Dir::Uni) {
            self.engine.begin(u64::from(id)).expect("a stream that a server may begin");
            self.open.push(id);
        }
        for id in self.open.clone() {
            self.read(id);
        }
        self.send_own();
        self.quic.flush();
    }

    fn read(&mut self, id: StreamId) {
        let mut bytes = Vec::new();
        let mut receiving = self.quic.conn.recv_stream(id);
        let Ok(mut chunks) = receiving.read(true) else {
            self.open.retain(|other| *other != id);
            return;
        };
        let (mut is_over, mut reset) = (false, None);
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => bytes.extend_from_slice(&chunk.bytes),
                Ok(None) => {
                    is_over = true;
                    break;
                }
                Err(ReadError::Reset(code)) => {
                    reset = Some(code.into_inner());
                    break;
                }
                Err(ReadError::Blocked) => break,
            }
        }
        let _ = chunks.finalize();
        if is_over || reset.is_some() {
            self.open.retain(|other| *other != id);
        }
        let stream = u64::from(id);
        if let (Some(code), Some(answer)) = (reset, self.answers.get_mut(&stream)) {
            answer.reset = Some(code);
            self.engine.reset(stream);
            return;
        }
        if !bytes.is_empty() || is_over {
            self.take(stream, &bytes, is_over);
        }
    }

    fn take(&mut self, stream: u64, mut input: &[u8], fin: bool) {
        while let Some(event) =
            self.engine.receive(stream, &mut input, fin, &mut self.heads).expect("valid frames")
        {
            let answer = self.answers.entry(stream).or_default();
            match event {
                Event::Head { end, .. } => {
                    (answer.status, answer.fields) =
                        (self.heads.status(), std::mem::take(&mut self.heads.fields));
                    answer.ended |= end;
                }
                Event::Interim { .. } => {
                    let status = self.heads.status();
                    answer.interim.push((status, std::mem::take(&mut self.heads.fields)));
                }
                Event::Trailers { .. } => {
                    answer.trailers = std::mem::take(&mut self.heads.fields);
                    answer.ended = true;
                }
                Event::Data { data, end, .. } => {
                    answer.body.extend_from_slice(data);
                    answer.ended |= end;
                }
                Event::GoAway { id } => self.goaway = Some(id),
                Event::Settings | Event::Unknown { .. } | Event::Priority { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// Goes on until `is_there`.
    pub fn until(&mut self, what: &str, is_there: impl Fn(&H3Client) -> bool) {
        let begun = Instant::now();
        while !is_there(self) {
            assert!(begun.elapsed() < DEADLINE, "no {what}: {:?}, {:?}", self.quic.end(), self.answers);
            self.turn(Duration::from_millis(20));
        }
    }

    /// Waits for all of an answer.
    pub fn wait(&mut self, stream: u64) -> Answer {
        self.until("answer", |client| {
            client.quic.end().is_some()
                || client.answers.get(&stream).is_some_and(|answer| answer.ended || answer.reset.is_some())
        });
        self.answers.remove(&stream).unwrap_or_default()
    }

    /// The fields of a request without a body.
    pub fn fields<'a>(&self, method: &'a str, host: &'a str, path: &'a str) -> Vec<(&'a str, &'a str)> {
        vec![(":method", method), (":scheme", "https"), (":authority", host), (":path", path)]
    }

    /// Asks for a path of [`H3Client::host`].
    pub fn get(&mut self, path: &str) -> Answer {
        let host = self.host.clone();
        let stream = self.begin(&self.fields("GET", &host, path), true);
        self.wait(stream)
    }

    /// Sends a request with a body.
    pub fn post(&mut self, path: &str, body: &[u8]) -> Answer {
        let host = self.host.clone();
        let stream = self.begin(&self.fields("POST", &host, path), false);
        self.send(stream, body, true);
        self.wait(stream)
    }
}
