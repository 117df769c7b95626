//! A session with a database as PHP has one: connect, log in, ask, leave. It waits for each answer.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use brisk_mysql::Capabilities;
use brisk_mysql::client::{Account, Answer, Connecting, Query, Rows, Step};
use brisk_mysql::packet::put_message;

/// Only a server that is stuck takes so long.
const ANSWER_MAX: Duration = Duration::from_mins(2);
const BUFFER_BYTES: usize = 16 * 1024;
/// COM_QUIT.
const QUIT: u8 = 1;

/// A connection that has logged in.
#[derive(Debug)]
pub struct Session {
    stream: TcpStream,
    capabilities: Capabilities,
    buffer: Vec<u8>,
}

impl Session {
    /// Connects to a port of 127.0.0.1, and logs in.
    pub fn open(port: u16, account: &Account) -> io::Result<Session> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        let mut connecting = Connecting::new(account.clone());
        let (mut buffer, mut out) = (vec![0; BUFFER_BYTES], Vec::new());
        loop {
            let mut input = receive(&mut stream, &mut buffer)?;
            while !input.is_empty() {
                let step = connecting.next(&mut input, &mut out).map_err(io::Error::other)?;
                if let Step::Open(opened) = step {
                    return Ok(Session { stream, capabilities: opened.capabilities, buffer });
                }
            }
            stream.write_all(&out)?;
            out.clear();
        }
    }

    /// The rows of a statement; none if it has none.
    pub fn ask(&mut self, statement: &str) -> io::Result<Rows> {
        let mut out = Vec::new();
        let mut query = Query::new(statement.as_bytes(), self.capabilities, &mut out);
        self.stream.write_all(&out)?;
        loop {
            let mut input = receive(&mut self.stream, &mut self.buffer)?;
            match query.next(&mut input).map_err(io::Error::other)? {
                Some(Answer::Ok(_)) => return Ok(Rows::default()),
                Some(Answer::Rows(rows)) => return Ok(rows),
                Some(Answer::Err(error)) => return Err(io::Error::other(format!("{statement}: {error}"))),
                None => {}
            }
        }
    }

    /// The only value of a statement's answer.
    pub fn value(&mut self, statement: &str) -> io::Result<String> {
        let rows = self.ask(statement)?.rows;
        let value = rows.into_iter().next().and_then(|row| row.into_iter().next()).flatten();
        let value = value.ok_or_else(|| io::Error::other(format!("{statement}: no value")))?;
        Ok(String::from_utf8_lossy(&value).into_owned())
    }

    /// The connection as it is.
    pub fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// Says that it is over, and waits for nothing.
    pub fn leave(mut self) -> io::Result<()> {
        let (mut out, mut sequence) = (Vec::new(), 0);
        put_message(&mut out, &mut sequence, &[QUIT]);
        self.stream.write_all(&out)
    }
}

/// What has come; the end of the connection is an error.
fn receive<'b>(stream: &mut TcpStream, buffer: &'b mut [u8]) -> io::Result<&'b [u8]> {
    match stream.read(buffer)? {
        0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the database has closed the connection")),
        count => Ok(&buffer[..count]),
    }
}
