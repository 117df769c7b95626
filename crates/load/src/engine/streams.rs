//! The requests of a connection with many streams, and what is needed of their answers' heads: HTTP/2's and HTTP/3's.

use std::collections::VecDeque;

use brisk_h2::conn::{HeadKind, HeadSink};
use brisk_h2::hpack::table::STATIC;
use brisk_h2::{Field, FieldSink};

use super::context::{Context, InFlight, Made, Ns};
use crate::stats::ErrorKind;

/// How fields are coded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    /// Of HTTP/2: names of its static table are known by their index.
    Hpack,
    /// Of HTTP/3.
    Qpack,
}

/// Of a response's head: what is needed.
#[derive(Debug)]
pub struct Head {
    coding: Coding,
    status: u16,
    length: Option<u64>,
    /// The values of `Set-Cookie`, if they are looked at.
    cookies: Vec<String>,
    wants_cookies: bool,
}

const TAG_STATUS: u8 = 1;
const TAG_LENGTH: u8 = 2;
const TAG_COOKIE: u8 = 3;

fn number(text: &[u8]) -> Option<u64> {
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| u64::from(byte - b'0'));
    let add = |sum: u64, byte: &u8| sum.checked_mul(10)?.checked_add(digit(byte)?);
    if text.is_empty() { None } else { text.iter().try_fold(0, add) }
}

impl Head {
    /// Nothing has come.
    pub fn new(coding: Coding, wants_cookies: bool) -> Self {
        debug_assert_eq!((STATIC[7].0, STATIC[27].0), (&b":status"[..], &b"content-length"[..]));
        debug_assert_eq!(STATIC[54].0, &b"set-cookie"[..]);
        Self { coding, status: 0, length: None, cookies: Vec::new(), wants_cookies }
    }
}

impl FieldSink for Head {
    #[inline]
    fn tag(&mut self, name: &[u8]) -> u8 {
        match name {
            b":status" => TAG_STATUS,
            b"content-length" => TAG_LENGTH,
            b"set-cookie" => TAG_COOKIE,
            _ => 0,
        }
    }

    #[inline]
    fn static_tag(&mut self, index: usize, name: &[u8]) -> u8 {
        match (self.coding, index) {
            (Coding::Qpack, _) => self.tag(name),
            (Coding::Hpack, 8..=14) => TAG_STATUS,
            (Coding::Hpack, 28) => TAG_LENGTH,
            (Coding::Hpack, 55) => TAG_COOKIE,
            (Coding::Hpack, _) => 0,
        }
    }

    #[inline]
    fn field(&mut self, field: Field<'_>) {
        match field.tag {
            TAG_STATUS => self.status = number(field.value).and_then(|s| u16::try_from(s).ok()).unwrap_or(0),
            TAG_LENGTH => self.length = number(field.value),
            TAG_COOKIE if self.wants_cookies => {
                self.cookies.push(String::from_utf8_lossy(field.value).into_owned());
            }
            _ => {}
        }
    }
}

impl HeadSink for Head {
    fn begin(&mut self, _: u64, kind: HeadKind) {
        if kind == HeadKind::Response {
            (self.status, self.length) = (0, None);
            self.cookies.clear();
        }
    }

    fn is_interim(&self) -> bool {
        self.status / 100 == 1
    }
}

/// See the module's head. `S` is how streams are numbered.
#[derive(Debug)]
pub struct Streams<S> {
    /// In the order in which they were begun.
    in_flight: VecDeque<(S, InFlight)>,
    /// Those that the server has not looked at before it went away.
    turned_away: Vec<InFlight>,
}

impl<S> Default for Streams<S> {
    fn default() -> Self {
        Self { in_flight: VecDeque::new(), turned_away: Vec::new() }
    }
}

impl<S: Copy + Ord + 'static> Streams<S> {
    /// Requests that wait for a response.
    pub fn len(&self) -> usize {
        self.in_flight.len()
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// The requests that wait for a response.
    pub fn waiting(&self) -> impl Iterator<Item = &InFlight> {
        self.in_flight.iter().map(|(_, request)| request)
    }

    /// The request that has waited longest.
    pub fn oldest(&self) -> Option<&InFlight> {
        self.in_flight.front().map(|(_, request)| request)
    }

    /// Takes the requests in flight away.
    pub fn take(&mut self) -> impl Iterator<Item = InFlight> + use<S> {
        let all = std::mem::take(&mut self.in_flight).into_iter().map(|(_, request)| request);
        all.chain(std::mem::take(&mut self.turned_away))
    }

    /// A request has been begun, on a stream of a higher number than those before.
    pub fn push(&mut self, stream: S, request: InFlight) {
        self.in_flight.push_back((stream, request));
    }

    fn place(&self, stream: S) -> Option<usize> {
        if self.in_flight.front()?.0 == stream {
            return Some(0);
        }
        self.in_flight.binary_search_by_key(&stream, |entry| entry.0).ok()
    }

    /// Whether a request waits on this stream.
    pub fn has(&self, stream: S) -> bool {
        self.place(stream).is_some()
    }

    /// The request on a stream.
    pub fn find(&mut self, stream: S) -> Option<&mut InFlight> {
        let at = self.place(stream)?;
        self.in_flight.get_mut(at).map(|(_, request)| request)
    }

    fn remove(&mut self, stream: S) -> Option<InFlight> {
        let at = self.place(stream)?;
        self.in_flight.remove(at).map(|(_, request)| request)
    }

    /// A response's head has come, of so many bytes; gives the length that it announces. `user`: whose cookies it sets.
    pub fn head(
        &mut self,
        stream: S,
        head: &mut Head,
        (user, bytes): (u32, usize),
        now: Ns,
        ctx: &mut Context<'_>,
    ) -> Option<u64> {
        let cookies = std::mem::take(&mut head.cookies);
        if let Some(request) = self.find(stream) {
            cookies.iter().for_each(|text| ctx.set_cookie(user, request.target, text));
            request.status = head.status;
            request.first_byte = now;
            request.bytes += bytes as u64;
            request.head_bytes = bytes as u32;
        }
        head.length
    }

    /// A response is whole; false if nobody waits for it.
    pub fn answered(&mut self, stream: S, now: Ns, made: &mut Made, ctx: &mut Context<'_>) -> bool {
        let Some(request) = self.remove(stream) else { return false };
        if request.status < 100 {
            ctx.failed(&request, ErrorKind::Protocol, now, made);
        } else {
            ctx.answered(&request, request.status, now, made);
        }
        true
    }

    /// There is no response on a stream.
    pub fn failed(&mut self, stream: S, kind: ErrorKind, now: Ns, made: &mut Made, ctx: &mut Context<'_>) {
        if let Some(request) = self.remove(stream) {
            ctx.failed(&request, kind, now, made);
        }
    }

    /// The server has not looked at streams from this one on: they are asked again elsewhere.
    pub fn turn_away_from(&mut self, first: S) {
        let kept = self.in_flight.partition_point(|&(stream, _)| stream < first);
        self.turned_away.extend(self.in_flight.drain(kept..).map(|(_, request)| request));
    }
}
