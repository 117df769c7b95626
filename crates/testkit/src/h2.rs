//! An HTTP/2 client over cleartext, with prior knowledge. It speaks through `brisk-h2`'s client side, and can say
//! anything besides.

use crate::wait::DEADLINE;
use brisk_h2::conn::{Config, HeadKind, HeadSink, Role};
use brisk_h2::frame::{FrameHead, HEAD_BYTES, kind};
use brisk_h2::hpack::{Encoder, Field, FieldSink, Indexing};
use brisk_h2::{Connection, ErrorCode, Event, Settings};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// What came back on a stream.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// 0: no head has come.
    pub status: u16,
    /// Fields of the head, in their order.
    pub fields: Vec<(String, String)>,
    /// The body so far.
    pub body: Vec<u8>,
    /// Fields behind the body.
    pub trailers: Vec<(String, String)>,
    /// Interim responses: status and fields.
    pub interim: Vec<(u16, Vec<(String, String)>)>,
    /// All of it is here.
    pub ended: bool,
    /// Why the stream was reset, if it was.
    pub reset: Option<ErrorCode>,
}

impl Answer {
    /// The value of the first field with this name.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(have, _)| have == name).map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    fn is_over(&self) -> bool {
        self.ended || self.reset.is_some()
    }
}

/// The fields of the last head.
#[derive(Default)]
pub(crate) struct Heads {
    pub fields: Vec<(String, String)>,
}

impl Heads {
    pub fn status(&self) -> u16 {
        let status = self.fields.iter().find(|(name, _)| name == ":status");
        status.and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
    }
}

impl FieldSink for Heads {
    fn tag(&mut self, _: &[u8]) -> u8 {
        0
    }

    fn field(&mut self, field: Field<'_>) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.fields.push((text(field.name), text(field.value)));
    }
}

impl HeadSink for Heads {
    fn begin(&mut self, _: u64, _: HeadKind) {
        *self = Heads { fields: Vec::new() };
    }

    fn is_interim(&self) -> bool {
        (100..200).contains(&self.status())
    }
}

/// One connection.
pub struct H2Client {
    stream: TcpStream,
    conn: Connection<()>,
    encoder: Encoder,
    heads: Heads,
    input: Vec<u8>,
    /// Answers, by stream.
    pub answers: BTreeMap<u32, Answer>,
    /// DATA as it came: stream and bytes.
    pub order: Vec<(u32, usize)>,
    /// The last stream that the server has looked at, and why it goes.
    pub goaway: Option<(u32, ErrorCode)>,
    /// The server has closed.
    pub closed: bool,
    /// Whether bodies are consumed, so that the server may send on.
    pub reads: bool,
    /// What comes is only looked through for GOAWAY: for who has said things that no client says.
    pub careless: bool,
}

impl H2Client {
    /// Connects to a port on 127.0.0.1.
    ///
    /// # Panics
    /// If that fails.
    pub fn connect(port: u16) -> H2Client {
        H2Client::with(port, Settings { enable_push: false, ..Settings::default() })
    }

    /// The same with settings of its own.
    pub fn with(port: u16, settings: Settings) -> H2Client {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let stream = TcpStream::connect_timeout(&address, DEADLINE)
            .unwrap_or_else(|error| panic!("connecting to port {port}: {error}"));
        H2Client::over(stream, settings)
    }

    /// Speaks over a connection that is there already.
    pub fn over(stream: TcpStream, settings: Settings) -> H2Client {
        stream.set_nodelay(true).expect("a TCP option");
        stream.set_write_timeout(Some(DEADLINE)).expect("a socket option");
        let config = Config { settings, connection_window: 1 << 24, ..Config::default() };
        let mut out = Vec::new();
        let conn = Connection::new(Role::Client, config, 0, &mut out);
        let mut client = H2Client {
            stream,
            conn,
            encoder: Encoder::new(4096),
            heads: Heads::default(),
            input: Vec::new(),
            answers: BTreeMap::new(),
            order: Vec::new(),
            goaway: None,
            closed: false,
            reads: true,
            careless: false,
        };
        client.raw(&out);
        client
    }

    /// Sends bytes as they are; a server that has closed does not hear them.
    pub fn raw(&mut self, bytes: &[u8]) {
        if self.stream.write_all(bytes).is_err() {
            self.closed = true;
        }
    }

    /// The four pseudo headers of a GET.
    pub fn get_fields(path: &str) -> Vec<(&str, &str)> {
        vec![(":method", "GET"), (":scheme", "http"), (":authority", "localhost"), (":path", path)]
    }

    /// A block of these fields.
    pub fn block(&mut self, fields: &[(&str, &str)]) -> Vec<u8> {
        let mut block = Vec::new();
        self.encoder.begin(&mut block);
        for (name, value) in fields {
            self.encoder.field(name.as_bytes(), value.as_bytes(), Indexing::Add, &mut block);
        }
        block
    }

    /// Begins a request; gives its stream.
    ///
    /// # Panics
    /// If the server allows no more streams.
    pub fn begin(&mut self, fields: &[(&str, &str)], end: bool) -> u32 {
        let (stream, bytes) = self.prepare(fields, end);
        self.raw(&bytes);
        stream
    }

    /// The stream of a request, and its head, which is for the caller to send.
    ///
    /// # Panics
    /// If the server allows no more streams.
    pub fn prepare(&mut self, fields: &[(&str, &str)], end: bool) -> (u32, Vec<u8>) {
        let block = self.block(fields);
        let stream = self.conn.open(()).expect("the server allows another stream");
        self.answers.insert(stream, Answer::default());
        let mut out = Vec::new();
        self.conn.send_head(stream, &block, end, &mut out).expect("a new stream is open");
        (stream, out)
    }

    /// Sends a body as fast as the server lets us; gives up when the stream ends.
    pub fn send(&mut self, stream: u32, mut body: &[u8], end: bool) {
        loop {
            let room = self.conn.room(stream).min(body.len());
            let (part, rest) = body.split_at(room);
            body = rest;
            if room > 0 || body.is_empty() {
                let mut out = Vec::new();
                if self.conn.send_body(stream, part, end && body.is_empty(), &mut out).is_err() {
                    return;
                }
                self.raw(&out);
            }
            if body.is_empty() {
                return;
            }
            let until = Instant::now() + DEADLINE;
            while self.conn.room(stream) == 0 && !self.closed && self.conn.has(stream) {
                assert!(Instant::now() < until, "no window in time");
                self.hear(DEADLINE);
            }
            if self.closed || !self.conn.has(stream) {
                return;
            }
        }
    }

    /// Trailers of a request.
    pub fn trailers(&mut self, stream: u32, fields: &[(&str, &str)]) {
        let block = self.block(fields);
        let mut out = Vec::new();
        let _ = self.conn.send_head(stream, &block, true, &mut out);
        self.raw(&out);
    }

    /// Lets the server send so much on each of these streams, from one moment on.
    pub fn open_windows(&mut self, streams: &[u32], size: u32) {
        let mut out = Vec::new();
        for &stream in streams {
            self.conn.set_window(stream, size, &mut out);
        }
        self.raw(&out);
    }

    /// Cancels a stream.
    pub fn cancel(&mut self, stream: u32) {
        let mut out = Vec::new();
        self.conn.reset(stream, ErrorCode::CANCEL, &mut out);
        self.raw(&out);
    }

    /// A whole request without a body.
    pub fn get(&mut self, path: &str) -> Answer {
        let stream = self.begin(&H2Client::get_fields(path), true);
        self.wait(stream)
    }

    /// A whole request.
    pub fn request(&mut self, fields: &[(&str, &str)], body: &[u8]) -> Answer {
        let stream = self.begin(fields, false);
        self.send(stream, body, true);
        self.wait(stream)
    }

    /// Waits for the end of a stream.
    ///
    /// # Panics
    /// If it does not come in time.
    pub fn wait(&mut self, stream: u32) -> Answer {
        self.until(|client| client.answers[&stream].is_over());
        self.answers[&stream].clone()
    }

    /// Hears the server until something is so, or it closes.
    ///
    /// # Panics
    /// If that does not come in time.
    pub fn until(&mut self, done: impl Fn(&H2Client) -> bool) {
        let until = Instant::now() + DEADLINE;
        while !done(self) && !self.closed {
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "nothing came in time; {}", self.state());
            self.hear(left);
        }
    }

    /// What has come so far, without the bodies.
    fn state(&self) -> String {
        let one = |(id, answer): (&u32, &Answer)| {
            let Answer { status, body, ended, reset, .. } = answer;
            format!("{id}: {status}, {} bytes, ended {ended}, reset {reset:?}", body.len())
        };
        let all: Vec<String> = self.answers.iter().map(one).collect();
        format!("{}; goaway {:?}", all.join("; "), self.goaway)
    }

    /// Waits until the server has closed; gives the code of its GOAWAY.
    pub fn ending(&mut self) -> Option<ErrorCode> {
        self.until(|_| false);
        self.goaway.map(|(_, code)| code)
    }

    /// Takes what comes in one read.
    pub fn hear(&mut self, patience: Duration) {
        let mut buf = vec![0; 64 << 10];
        self.stream.set_read_timeout(Some(patience.max(Duration::from_millis(1)))).expect("a socket option");
        match self.stream.read(&mut buf) {
            Ok(0) => self.closed = true,
            Ok(count) => {
                self.input.extend_from_slice(&buf[..count]);
                self.take();
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Err(_) => self.closed = true,
        }
    }

    /// Says that nothing more will be sent.
    pub fn finish(&self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Looks for GOAWAY.
    fn take_frames(&mut self) {
        let mut at = 0;
        while let Some(head) = FrameHead::parse(&self.input[at..]) {
            let end = at + HEAD_BYTES + head.len as usize;
            let Some(payload) = self.input.get(at + HEAD_BYTES..end) else { break };
            if let (kind::GOAWAY, Some((last, rest))) = (head.kind, payload.split_first_chunk::<4>()) {
                let code = rest.first_chunk::<4>().map_or(0, |code| u32::from_be_bytes(*code));
                self.goaway = Some((u32::from_be_bytes(*last), ErrorCode(code)));
            }
            at = end;
        }
        self.input.drain(..at);
    }

    fn take(&mut self) {
        if self.careless {
            return self.take_frames();
        }
        let input = std::mem::take(&mut self.input);
        let (mut at, mut out) = (0, Vec::new());
        loop {
            let received = self
                .conn
                .receive(&input[at..], &mut self.heads, &mut out)
                .unwrap_or_else(|error| panic!("the server broke the rules: {error}"));
            at += received.used;
            let Some(event) = received.event else {
                if received.used == 0 {
                    break;
                }
                continue;
            };
            match event {
                Event::Head { stream, end, .. } => {
                    let (status, fields) = (self.heads.status(), std::mem::take(&mut self.heads.fields));
                    let answer = self.answers.entry(stream).or_default();
                    (answer.status, answer.fields, answer.ended) = (status, fields, end);
                }
                Event::Interim { stream } => {
                    let head = (self.heads.status(), std::mem::take(&mut self.heads.fields));
                    self.answers.entry(stream).or_default().interim.push(head);
                }
                Event::Trailers { stream, .. } => {
                    let answer = self.answers.entry(stream).or_default();
                    answer.trailers = std::mem::take(&mut self.heads.fields);
                    answer.ended = true;
                }
                Event::Data { stream, data, end, .. } => {
                    self.order.push((stream, data.len()));
                    let answer = self.answers.entry(stream).or_default();
                    answer.body.extend_from_slice(data);
                    answer.ended |= end;
                    if self.reads {
                        self.conn.consume(stream, data.len() as u32, &mut out);
                    }
                }
                Event::Reset { stream, code, .. } => {
                    self.answers.entry(stream).or_default().reset = Some(code);
                }
                Event::GoAway { last, code } => self.goaway = Some((last, code)),
                Event::Mismatch { stream } => panic!("the body on {stream} is not as long as it should be"),
                Event::Window | Event::Settings | Event::SettingsAck | Event::Pong(_) => {}
            }
        }
        self.input = input[at..].to_vec();
        if !out.is_empty() {
            self.raw(&out);
        }
    }
}
