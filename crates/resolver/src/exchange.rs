//! One question put to name servers until one of them answers it.

use crate::cache::{Fact, Wanted};
use crate::flight::{Flight, Told};
use crate::limits::UDP_BYTES_MAX;
use crate::message::{self, Answer, Kind, Malformed};
use crate::resolver::{Config, Log};
use brisk_net::{Io, Stream, clock, timeout};
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// A server that does not answer is given this long, then the next one is asked. nginx's `resend_timeout`.
const RESEND_TIME: Duration = Duration::from_secs(5);

/// A question and who asks it.
pub(crate) struct Exchange {
    pub config: Arc<Config>,
    pub wanted: Wanted,
    pub name: Arc<str>,
    pub flight: Arc<Flight>,
    pub log: Log,
    /// Index of the server that is asked first.
    pub server: usize,
}

/// One query of the exchange.
struct Part {
    kind: Kind,
    id: u16,
    bytes: Vec<u8>,
    /// A server had more to say than fits into a datagram.
    over_tcp: bool,
    answer: Option<Answer>,
}

/// What the answer said that came last.
#[derive(Default)]
struct Last {
    /// The last error, whichever query it was for.
    code: u8,
    alias: Option<Arc<str>>,
    is_empty: bool,
}

impl Exchange {
    /// Asks until there is an answer; `None`: nobody waits for it any more.
    pub async fn run(mut self) -> Option<Told> {
        let kinds: &[Kind] = match (self.wanted, self.config.ipv4, self.config.ipv6) {
            (Wanted::Services, ..) => &[Kind::Srv],
            (Wanted::Addresses, true, true) => &[Kind::A, Kind::Aaaa],
            (Wanted::Addresses, true, false) => &[Kind::A],
            (Wanted::Addresses, false, _) => &[Kind::Aaaa],
        };
        let mut parts = Vec::new();
        for &kind in kinds {
            let id = random_u16();
            let Some(bytes) = message::query(id, &self.name, kind) else { return Some(Err(3)) };
            parts.push(Part { kind, id, bytes, over_tcp: false, answer: None });
        }
        let mut last = Last::default();
        loop {
            let server = self.config.servers[self.server % self.config.servers.len()];
            let until = clock::mono_ms() + RESEND_TIME.as_millis() as u64;
            if let Err(error) = self.ask(server, &mut parts, &mut last, until).await {
                self.complain(server, format_args!("{error}"));
            }
            if parts.iter().all(|part| part.answer.is_some()) {
                if let Some(told) = self.conclude(server, &parts, &last) {
                    return Some(told);
                }
                parts.iter_mut().for_each(|part| part.answer = None);
            }
            // Whatever went wrong: no server is asked more often than that.
            brisk_net::sleep_until(until).await;
            if !self.flight.is_wanted() {
                return None;
            }
            self.server += 1;
        }
    }

    /// Puts the queries that are not answered to one server.
    async fn ask(
        &self,
        server: SocketAddr,
        parts: &mut [Part],
        last: &mut Last,
        until: u64,
    ) -> io::Result<()> {
        let open = |part: &&mut Part| part.answer.is_none();
        let io = if parts.iter().any(|part| part.answer.is_none() && !part.over_tcp) {
            Some(socket(server, SocketType::DGRAM)?)
        } else {
            None
        };
        if let Some(io) = &io {
            for part in parts.iter_mut().filter(open).filter(|part| !part.over_tcp) {
                io.try_write(&part.bytes)?;
            }
        }
        let mut buf = vec![0; UDP_BYTES_MAX];
        loop {
            for part in parts.iter_mut().filter(open).filter(|part| part.over_tcp) {
                let bytes = match timeout(left(until), over_tcp(server, &part.bytes)).await {
                    Ok(bytes) => bytes?,
                    Err(_) => return Ok(()),
                };
                self.take(server, &bytes, true, std::slice::from_mut(part), last);
            }
            let Some(io) = &io else { return Ok(()) };
            if parts.iter().all(|part| part.answer.is_some()) {
                return Ok(());
            }
            let Ok(read) = timeout(left(until), io.read(&mut buf)).await else { return Ok(()) };
            let count = read?;
            // A datagram is shorter than the buffer, and another may have come with it.
            io.mark_readable();
            self.take(server, &buf[..count], false, parts, last);
        }
    }

    /// Believes an answer if it is one to a question that was asked.
    fn take(&self, server: SocketAddr, bytes: &[u8], tcp: bool, parts: &mut [Part], last: &mut Last) {
        let answer = match message::parse(bytes, tcp) {
            Ok(answer) => answer,
            Err(why) => {
                let is_ours = |id: u16| parts.iter().any(|part| part.id == id);
                match why {
                    Malformed::Error { id, .. } if is_ours(id) => {
                        self.complain(server, format_args!("{why}, name:\"{}\"", self.name));
                    }
                    _ => self.complain(server, format_args!("{why}")),
                }
                return;
            }
        };
        let name = &self.name;
        let mine = parts.iter_mut().find(|part| Some(part.kind) == answer.kind && part.answer.is_none());
        let Some(part) = mine.filter(|_| answer.name == **name) else {
            self.complain(server, format_args!("unexpected DNS response for {}", answer.name));
            return;
        };
        if part.id != answer.id {
            let (got, want) = (answer.id, part.id);
            self.complain(
                server,
                format_args!("wrong ident {got} in DNS response for {name}, expect {want}"),
            );
            return;
        }
        if answer.truncated {
            part.over_tcp = true;
            return;
        }
        for kind in &answer.strange {
            self.complain(server, format_args!("unexpected RR type {kind} in DNS response"));
        }
        for owner in &answer.foreign {
            let owner = owner.escape_debug();
            self.complain(server, format_args!("unexpected record of {owner} in DNS response for {name}"));
        }
        last.code = if answer.code == 0 { last.code } else { answer.code };
        last.alias = answer.cname.as_deref().map(Into::into);
        last.is_empty = !answer.has_records;
        part.answer = Some(answer);
    }

    /// What the answers together say; `None` if they say nothing.
    fn conclude(&self, server: SocketAddr, parts: &[Part], last: &Last) -> Option<Told> {
        if last.code != 0 {
            return Some(Err(u32::from(last.code)));
        }
        let answers: Vec<&Answer> = parts.iter().filter_map(|part| part.answer.as_ref()).collect();
        let ttl = answers.iter().map(|answer| answer.ttl).min().unwrap_or(0);
        let valid = clock::mono_ms() / 1000 + self.config.valid_secs.unwrap_or(u64::from(ttl));
        let addresses: Vec<_> = answers.iter().flat_map(|a| a.addresses.iter().copied()).collect();
        if !addresses.is_empty() {
            return Some(Ok((Fact::Addresses(addresses.into()), valid)));
        }
        if let Some(services) = answers.iter().find(|a| !a.services.is_empty()).map(|a| a.services.clone()) {
            return Some(Ok((Fact::Services(services.into()), valid)));
        }
        // As in nginx: where families disagree about a name without addresses, who speaks last is right.
        if last.is_empty {
            return Some(Err(3));
        }
        if let Some(alias) = &last.alias {
            return Some(Ok((Fact::Alias(alias.clone()), valid)));
        }
        let what = if self.wanted == Wanted::Services { "SRV type" } else { "A or CNAME types" };
        self.complain(server, format_args!("no {what} in DNS response"));
        None
    }

    fn complain(&self, server: SocketAddr, what: std::fmt::Arguments<'_>) {
        (self.log)(format_args!("{what} while resolving, resolver: {server}"));
    }
}

fn left(until: u64) -> Duration {
    Duration::from_millis(until.saturating_sub(clock::mono_ms()))
}

/// A connected socket: answers of others do not arrive, and its port was chosen by the kernel at random.
fn socket(server: SocketAddr, kind: SocketType) -> io::Result<Stream> {
    let family = if server.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let fd = net::socket_with(family, kind, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)?;
    match net::connect(&fd, &server) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(Io::new(fd)?.into()),
        Err(error) => Err(error.into()),
    }
}

/// RFC 1035 §4.2.2: each message has its length before it.
async fn over_tcp(server: SocketAddr, query: &[u8]) -> io::Result<Vec<u8>> {
    let io = socket(server, SocketType::STREAM)?;
    io.writable().await;
    io.take_error()?;
    let length = u16::try_from(query.len()).map_err(io::Error::other)?;
    io.write_all(&[&length.to_be_bytes()[..], query].concat()).await?;
    let mut head = [0; 2];
    read_exact(&io, &mut head).await?;
    let mut answer = vec![0; usize::from(u16::from_be_bytes(head))];
    read_exact(&io, &mut answer).await?;
    Ok(answer)
}

async fn read_exact(io: &Stream, mut buf: &mut [u8]) -> io::Result<()> {
    while !buf.is_empty() {
        match io.read(buf).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => buf = &mut buf[count..],
        }
    }
    Ok(())
}

/// An id that nobody can guess (RFC 5452 §9.2).
fn random_u16() -> u16 {
    let mut bytes = [0; 2];
    // A call for two bytes is whole or fails; without randomness there are no queries.
    let count = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    assert_eq!(count, Ok(2), "the kernel gives random numbers");
    u16::from_ne_bytes(bytes)
}
