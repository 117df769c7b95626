//! Simulated applications behind FastCGI, SCGI and uwsgi: a fixed number of processes, as PHP-FPM has them, each of which
//! serves one connection until that is closed.

use crate::ports::{self, Port};
use brisk_gateway::fastcgi::{
    EndRequest, Kind, Pairs, Peer, PeerEvent, ProtocolStatus, write_end, write_stream,
};
use brisk_gateway::{scgi, uwsgi};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A request's parameters, at most; more than a test sends.
const PARAMS_BYTES_MAX: usize = 1 << 20;

/// How it is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    /// FastCGI.
    FastCgi,
    /// SCGI.
    Scgi,
    /// uwsgi.
    Uwsgi,
}

/// What an application was asked.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// Names and values of the parameters, in their order.
    pub params: Vec<(String, String)>,
    /// The request's body.
    pub body: Vec<u8>,
    /// FastCGI: the connection is to stay open.
    pub keep_conn: bool,
    /// uWSGI's.
    pub modifiers: (u8, u8),
    /// Counted from 1, over all connections.
    pub request: usize,
    /// Counted from 1.
    pub connection: usize,
}

impl Asked {
    /// The value of a parameter; empty if there is none.
    pub fn param(&self, name: &str) -> &str {
        self.params.iter().find(|(have, _)| have == name).map_or("", |(_, value)| value)
    }
}

/// A request that waits for its answer.
pub struct Exchange<'a> {
    /// What was asked.
    pub asked: Asked,
    speaks: Speaks,
    stream: &'a mut dyn Write,
    has_hung_up: bool,
}

impl Exchange<'_> {
    /// A part of the answer.
    pub fn stdout(&mut self, text: impl AsRef<[u8]>) {
        match self.speaks {
            Speaks::FastCgi => self.stream(Kind::Stdout, text.as_ref()),
            _ => self.raw(text),
        }
    }

    /// A message for the log: FastCGI only.
    pub fn stderr(&mut self, text: impl AsRef<[u8]>) {
        self.stream(Kind::Stderr, text.as_ref());
    }

    fn stream(&mut self, kind: Kind, text: &[u8]) {
        let mut out = Vec::new();
        write_stream(kind, text, &mut out);
        self.raw(out);
    }

    /// The end of the request: FastCGI only.
    pub fn end(&mut self) {
        let mut out = Vec::new();
        let end = EndRequest { app_status: 0, protocol_status: ProtocolStatus::Complete, goes_on: false };
        write_end(end, &mut out);
        self.raw(out);
    }

    /// The connection is closed as it is, as by a process that dies.
    pub fn hang_up(&mut self) {
        self.has_hung_up = true;
    }

    /// Bytes as they are. The server may have gone.
    pub fn raw(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref());
    }
}

/// A running application; its processes are threads that end with the test.
pub struct Application {
    port: Option<Port>,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    connections: AtomicUsize,
    requests: AtomicUsize,
}

type Answer = dyn Fn(&mut Exchange<'_>) + Send + Sync;

impl Application {
    /// Listens on a port of its own. FastCGI requests are ended after `answer`, unless it did so itself.
    ///
    /// # Panics
    /// If it cannot listen.
    pub fn start(
        speaks: Speaks,
        processes: usize,
        answer: impl Fn(&mut Exchange<'_>) + Send + Sync + 'static,
    ) -> Application {
        let port = ports::claim();
        let listener = TcpListener::bind(("127.0.0.1", port.number)).expect("a port of our own");
        let application = Application { port: Some(port), counts: Arc::default() };
        let answer: Arc<Answer> = Arc::new(answer);
        for _ in 0..processes {
            let listener = listener.try_clone().expect("a copy");
            let process = Process { speaks, answer: answer.clone(), counts: application.counts.clone() };
            std::thread::spawn(move || {
                loop {
                    let Ok((stream, _)) = listener.accept() else { return };
                    let _ = stream.set_nodelay(true);
                    process.serve(stream);
                }
            });
        }
        application
    }

    /// As [`Application::start`], on a unix socket.
    ///
    /// # Panics
    /// If it cannot listen.
    pub fn start_unix(
        speaks: Speaks,
        path: &Path,
        answer: impl Fn(&mut Exchange<'_>) + Send + Sync + 'static,
    ) -> Application {
        let listener = UnixListener::bind(path).expect("a path of our own");
        // Servers that are started by root connect as somebody else.
        let everybody = std::fs::Permissions::from_mode(0o666);
        std::fs::set_permissions(path, everybody).expect("a socket of our own");
        let application = Application { port: None, counts: Arc::default() };
        let process = Process { speaks, answer: Arc::new(answer), counts: application.counts.clone() };
        std::thread::spawn(move || {
            loop {
                let Ok((stream, _)) = listener.accept() else { return };
                process.serve(stream);
            }
        });
        application
    }

    /// `127.0.0.1:PORT`.
    ///
    /// # Panics
    /// If it listens on a unix socket.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port.as_ref().expect("it listens on a port").number)
    }

    /// Connections that were accepted.
    pub fn connections(&self) -> usize {
        self.counts.connections.load(Ordering::SeqCst)
    }

    /// Requests that were answered or are being answered.
    pub fn requests(&self) -> usize {
        self.counts.requests.load(Ordering::SeqCst)
    }
}

trait Duplex: Read + Write {}
impl Duplex for TcpStream {}
impl Duplex for UnixStream {}

struct Process {
    speaks: Speaks,
    answer: Arc<Answer>,
    counts: Arc<Counts>,
}

impl Process {
    /// One connection until its end.
    fn serve(&self, mut stream: impl Duplex) {
        let connection = self.counts.connections.fetch_add(1, Ordering::SeqCst) + 1;
        let mut reader = Reader::default();
        loop {
            let asked = match self.speaks {
                Speaks::FastCgi => reader.fastcgi(&mut stream),
                Speaks::Scgi => reader.scgi(&mut stream),
                Speaks::Uwsgi => reader.uwsgi(&mut stream),
            };
            let Ok(mut asked) = asked else { return };
            asked.connection = connection;
            asked.request = self.counts.requests.fetch_add(1, Ordering::SeqCst) + 1;
            let keep_conn = asked.keep_conn;
            let mut exchange =
                Exchange { asked, speaks: self.speaks, stream: &mut stream, has_hung_up: false };
            (self.answer)(&mut exchange);
            if exchange.has_hung_up {
                return;
            }
            if self.speaks == Speaks::FastCgi {
                exchange.end();
            }
            if !keep_conn {
                return;
            }
        }
    }
}

/// What has come of a connection and was not used yet.
#[derive(Default)]
struct Reader {
    input: Vec<u8>,
}

impl Reader {
    fn more(&mut self, stream: &mut impl Read) -> io::Result<()> {
        let mut buf = [0; 16 << 10];
        let count = stream.read(&mut buf)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.input.extend_from_slice(&buf[..count]);
        Ok(())
    }

    fn fastcgi(&mut self, stream: &mut impl Read) -> io::Result<Asked> {
        let mut peer = Peer::new(PARAMS_BYTES_MAX);
        let mut asked = Asked::default();
        loop {
            if self.input.is_empty() {
                self.more(stream)?;
            }
            let (event, used) = peer.next(&self.input).map_err(io::Error::other)?;
            let is_complete = event == PeerEvent::StdinEnd;
            match event {
                PeerEvent::Begin { keep_conn, .. } => asked.keep_conn = keep_conn,
                PeerEvent::Params(params) => {
                    let pairs: Result<Vec<_>, _> = Pairs(&params).collect();
                    asked.params = texts(&pairs.map_err(io::Error::other)?);
                }
                PeerEvent::Stdin(range) => asked.body.extend_from_slice(&self.input[range]),
                PeerEvent::NeedMore | PeerEvent::StdinEnd => {}
                PeerEvent::Abort => return Err(io::ErrorKind::ConnectionAborted.into()),
            }
            self.input.drain(..used);
            if is_complete {
                return Ok(asked);
            }
        }
    }

    fn scgi(&mut self, stream: &mut impl Read) -> io::Result<Asked> {
        loop {
            let parsed =
                scgi::parse(&self.input, PARAMS_BYTES_MAX).map_err(|_| io::Error::other("malformed SCGI"))?;
            if let Some(request) = parsed {
                let asked = Asked { params: texts(&request.params), ..Asked::default() };
                let (len, body) = (request.len, request.body_bytes);
                return self.with_body(stream, asked, len, body as usize);
            }
            self.more(stream)?;
        }
    }

    fn uwsgi(&mut self, stream: &mut impl Read) -> io::Result<Asked> {
        loop {
            let parsed = uwsgi::parse(&self.input).map_err(|_| io::Error::other("malformed uwsgi"))?;
            if let Some(request) = parsed {
                let modifiers = (request.modifier1, request.modifier2);
                let asked = Asked { params: texts(&request.params), modifiers, ..Asked::default() };
                let (len, body) = (request.len, asked.param("CONTENT_LENGTH").parse().unwrap_or(0));
                return self.with_body(stream, asked, len, body);
            }
            self.more(stream)?;
        }
    }

    fn with_body(
        &mut self,
        stream: &mut impl Read,
        mut asked: Asked,
        head: usize,
        body: usize,
    ) -> io::Result<Asked> {
        while self.input.len() < head + body {
            self.more(stream)?;
        }
        asked.body = self.input[head..head + body].to_vec();
        self.input.drain(..head + body);
        Ok(asked)
    }
}

fn texts(pairs: &[(&[u8], &[u8])]) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    pairs.iter().map(|(name, value)| (text(name), text(value))).collect()
}
