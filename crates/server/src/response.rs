//! A response: head and body, before any protocol serialises it.

use crate::files::OpenFile;
use crate::limits::APART_BODY_BYTES_MIN;
use crate::serving::{Http, Served};
use crate::text::Text;
use brisk_net::{Failure, Slice};
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::task::{Context, Poll};

/// A piece of a body.
#[derive(Clone)]
pub enum Piece {
    /// Bytes in memory.
    Bytes(Text),
    /// A part of a file.
    File {
        /// Where the bytes are.
        file: Rc<OpenFile>,
        /// Which of them.
        range: Range<u64>,
    },
}

impl Piece {
    /// Its length in bytes.
    // The length is promised by the head, so a piece never knows less than its own.
    pub fn len(&self) -> u64 {
        match self {
            Piece::Bytes(text) => text.len() as u64,
            Piece::File { range, .. } => range.end - range.start,
        }
    }

    /// A part of it, which lies within it.
    #[must_use]
    pub fn part(&self, part: Range<u64>) -> Piece {
        match self {
            Piece::Bytes(text) => Piece::Bytes(text.part(part.start as usize..part.end as usize)),
            // No byte is read here: the sender takes the range from the same descriptor.
            Piece::File { file, range } => {
                Piece::File { file: file.clone(), range: range.start + part.start..range.start + part.end }
            }
        }
    }

    /// It has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes, unless they are in a file that is not held in memory (or shorter than the piece says).
    pub fn in_memory(&self) -> Option<&[u8]> {
        match self {
            Piece::Bytes(text) => Some(text),
            // The file may have been read shorter than the piece says; then it is none.
            Piece::File { file, range } => file
                .content
                .as_ref()?
                .get(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?),
        }
    }
}

/// What a stream gives when it is pulled.
pub enum Chunk {
    /// The next part of the body.
    Piece(Piece),
    /// Nothing more is ready: send what there is, then pull again.
    Flush,
}

/// A body that is made while it is sent. It is pulled when what it gave before has left.
pub trait BodyStream {
    /// The next chunk; `None` is the end. A failure ends the connection, because the head has been sent.
    /// A failure must not look like an end: it is passed on to the connection, whose client sees that the
    /// answer is cut off.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, Failure>>>;

    /// Called while the client takes nothing: a stream with room of its own may fill it. What wakes the task then leads
    /// to another call.
    fn poll_ahead(&mut self, cx: &mut Context<'_>) {
        let _ = cx;
    }
}

/// A response's body.
#[derive(Default)]
pub enum Body {
    /// No body, or one without bytes.
    #[default]
    Empty,
    /// One piece; by far the most common.
    One(Piece),
    /// Several pieces, sent one behind the other.
    Many(Vec<Piece>),
    /// Pulled while it is sent; its length is not known to it.
    Stream(Box<dyn BodyStream>),
}

impl Body {
    /// The length, if it is known.
    pub fn len(&self) -> Option<u64> {
        match self {
            Body::Empty => Some(0),
            Body::One(piece) => Some(piece.len()),
            Body::Many(pieces) => Some(pieces.iter().map(Piece::len).sum()),
            Body::Stream(_) => None,
        }
    }

    /// The bytes of all pieces, if all of them are in memory.
    pub fn in_memory(&self) -> Option<Vec<&[u8]>> {
        match self {
            // One piece on the disk makes the whole unknown.
            Body::Empty => Some(Vec::new()),
            Body::One(piece) => Some(vec![piece.in_memory()?]),
            Body::Many(pieces) => pieces.iter().map(Piece::in_memory).collect(),
            Body::Stream(_) => None,
        }
    }

    /// Takes out a body that is one piece in memory, if it is so large that sending it from where it is costs less than copying it.
    pub fn take_apart(&mut self) -> Option<Text> {
        let apart = match self {
            Body::One(Piece::Bytes(text)) if text.len() >= APART_BODY_BYTES_MIN => std::mem::take(text),
            Body::One(Piece::File { file, range })
                if range.end - range.start >= APART_BODY_BYTES_MIN as u64 =>
            {
                let content = file.content.as_ref().filter(|content| range.end <= content.len() as u64)?;
                Slice::new(content.clone(), range.start as usize..range.end as usize).into()
            }
            _ => return None,
        };
        *self = Body::Empty;
        Some(apart)
    }

    /// Whether there is surely nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }

    /// A body in memory.
    pub fn bytes(text: impl Into<Text>) -> Body {
        Body::One(Piece::Bytes(text.into()))
    }
}

/// The head and body that handlers fill and filters change.
#[derive(Default)]
pub struct Response {
    /// 0: not decided yet.
    pub status: u16,
    /// Reason phrase, where a back end's is to be kept.
    pub reason: Option<Text>,
    /// `Content-Type` without its charset; nothing sends none.
    pub content_type: Option<Text>,
    /// Added to the content type.
    pub charset: Option<Text>,
    /// The two as a back end has written them: sent like this as long as neither has been changed.
    pub said_type: Option<Text>,
    /// The charset that a back end wants the client to get, whatever its content is in (`X-Accel-Charset`).
    /// Judging again could make a 304 of what the back end has answered in full.
    pub wanted_charset: Option<Text>,
    /// Conditions of the request were the back end's to judge.
    pub is_judged: bool,
    /// `Some` also for HEAD. `None`: chunked or until close.
    pub content_length: Option<u64>,
    /// `Content-Encoding`.
    pub content_encoding: Option<Text>,
    /// Seconds since 1970.
    pub last_modified: Option<i64>,
    /// `ETag` with its quotes and, if it is weak, the `W/` (RFC 9110 §8.8.3).
    pub etag: Option<Text>,
    /// `Location`. One that begins with `/` is made absolute, as `absolute_redirect` says.
    pub location: Option<Text>,
    /// `Server` from a back end that is passed on, and likewise its date. An empty one is not sent.
    pub server: Option<Text>,
    /// `Date` from a back end.
    pub date: Option<Text>,
    /// Everything else, in the order of sending. Back ends send empty values too, and they are passed on.
    pub headers: Vec<(Text, Text)>,
    /// What makes the fields behind the body.
    /// A lower-case or odd name is passed on as it was sent.
    pub trailers: Vec<Rc<<Http as Served>::Trailers>>,
    /// What the trailers came to, for the client and for variables.
    pub sent_trailers: RefCell<Vec<(Text, Text)>>,
    /// What is sent behind the head; HEAD and some statuses send none of it.
    pub body: Body,
    /// The body is a whole representation of which ranges may be cut.
    pub allow_ranges: bool,
    /// `Vary`.
    pub vary: Option<Text>,
    /// Behind the head both directions are raw bytes (RFC 9110 §7.8): the body goes to the client as it is, and takes
    /// what the client sends by itself.
    pub tunnel: bool,
}

/// Whether an answer with this status tells when the file that it was made of has changed (nginx's header filter): an error
/// page's time says nothing about what was asked for.
pub fn tells_last_modified(status: u16) -> bool {
    matches!(status, 200 | 206 | 304)
}

/// Type and charset of a content type, as nginx reads them: `charset=` is the last parameter.
fn split_charset(value: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr_iter(b';', value).find_map(|at| {
        let rest = &value[at + 1..];
        let spaces = rest.iter().take_while(|&&b| b == b' ').count();
        let is_charset = rest[spaces..].get(..8).is_some_and(|word| word.eq_ignore_ascii_case(b"charset="));
        is_charset.then_some((at, at + 1 + spaces + 8))
    });
    let (media_end, charset_at) = at?;
    let charset = &value[charset_at..];
    let charset = charset.strip_prefix(b"\"").unwrap_or(charset);
    let charset = charset.strip_suffix(b"\"").unwrap_or(charset);
    (!charset.is_empty()).then_some((&value[..media_end], charset))
}

/// The ranges that a request asks for, half open, where they were read by the rules of another server than nginx:
/// kept for the request, since few have it.
// Apache reads a few malformed ranges in another way.
#[derive(Default)]
pub struct AskedRanges(pub Option<Vec<(u64, u64)>>);

/// Drops what an option holds. The look before spares most of them the call that drops.
#[inline(always)]
pub(crate) fn drop_held<T>(field: &mut Option<T>) {
    if field.is_some() {
        *field = None;
    }
}

/// Gives a list's memory back.
#[inline(always)]
fn release<T>(list: &mut Vec<T>) {
    if list.capacity() > 0 {
        *list = Vec::new();
    }
}

impl Response {
    /// All but the body and what makes trailers.
    #[must_use]
    pub fn head(&self) -> Response {
        Response {
            status: self.status,
            reason: self.reason.clone(),
            content_type: self.content_type.clone(),
            charset: self.charset.clone(),
            said_type: self.said_type.clone(),
            content_length: self.content_length,
            content_encoding: self.content_encoding.clone(),
            last_modified: self.last_modified,
            etag: self.etag.clone(),
            location: self.location.clone(),
            server: self.server.clone(),
            date: self.date.clone(),
            headers: self.headers.clone(),
            vary: self.vary.clone(),
            ..Response::default()
        }
    }

    /// Forgets everything but memory. All fields are named, so one that is added and not cleared does not compile. Each is looked at in
    /// its place: to make a new one and drop the old one cost 220 instructions per request, this costs 70.
    pub fn clear(&mut self) {
        let Response {
            status,
            reason,
            content_type,
            charset,
            said_type,
            wanted_charset,
            is_judged,
            content_length,
            content_encoding,
            last_modified,
            etag,
            location,
            server,
            date,
            headers,
            trailers,
            sent_trailers,
            body,
            allow_ranges,
            vary,
            tunnel,
        } = self;
        *status = 0;
        for text in [
            reason,
            content_type,
            charset,
            said_type,
            wanted_charset,
            content_encoding,
            etag,
            location,
            server,
            date,
            vary,
        ] {
            drop_held(text);
        }
        *is_judged = false;
        *content_length = None;
        *last_modified = None;
        // The one list that most responses use keeps its memory.
        headers.clear();
        release(trailers);
        release(sent_trailers.get_mut());
        if !matches!(body, Body::Empty) {
            *body = Body::Empty;
        }
        *allow_ranges = false;
        *tunnel = false;
    }

    /// The first header with this name, of those that have no field of their own.
    pub fn header(&self, name: &[u8]) -> Option<&Text> {
        self.headers.iter().find(|(have, _)| have.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Adds a header behind all others, also where there is one of this name.
    pub fn add(&mut self, name: impl Into<Text>, value: impl Into<Text>) {
        self.headers.push((name.into(), value.into()));
    }

    /// Takes a back end's content type. Its charset is kept apart, so that a filter that recodes finds it.
    pub fn say_content_type(&mut self, value: Text) {
        self.said_type = None;
        // Nothing of a type that was said before may be mixed with this one.
        match split_charset(&value) {
            None => self.content_type = Some(value),
            Some((media, charset)) => {
                self.content_type = Some(media.to_vec().into());
                self.charset = Some(charset.to_vec().into());
                self.said_type = Some(value);
            }
        }
    }

    /// Appends the content type with its charset; false if there is none.
    pub fn write_content_type(&self, out: &mut Vec<u8>) -> bool {
        let Some(media) = self.content_type.as_deref().filter(|media| !media.is_empty()) else {
            return false;
        };
        let charset = self.charset.as_deref().filter(|charset| !charset.is_empty());
        // As the back end has written it, spaces and quotes included, as long as no filter has changed it.
        if let Some(said) = &self.said_type
            && let Some((said_media, said_charset)) = split_charset(said)
            && (said_media, Some(said_charset)) == (media, charset)
        {
            out.extend_from_slice(said);
            return true;
        }
        out.extend_from_slice(media);
        if let Some(charset) = charset {
            out.extend_from_slice(b"; charset=");
            out.extend_from_slice(charset);
        }
        true
    }

    /// Sets a header that may occur once.
    pub fn set(&mut self, name: &'static str, value: impl Into<Text>) {
        let value = value.into();
        // In its place, so that the order of fields does not depend on who has set it last.
        match self.headers.iter_mut().find(|(have, _)| have.eq_ignore_ascii_case(name.as_bytes())) {
            Some(slot) => slot.1 = value,
            None => self.headers.push((name.into(), value)),
        }
    }

    /// A time that a back end or `add_header` has said. What does not tell the time of this server's own page is sent with
    /// any status, as in nginx; `status` is the one that the response will have.
    pub fn say_last_modified(&mut self, name: Text, value: Text, status: u16) {
        self.last_modified = brisk_http::date::parse_imf(&value).filter(|_| tells_last_modified(status));
        if self.last_modified.is_none() {
            self.headers.push((name, value));
        }
    }

    /// Says nothing of when the content was last changed.
    pub fn clear_last_modified(&mut self) {
        self.last_modified = None;
        self.remove("Last-Modified");
    }

    /// Removes all headers of this name, of those that have no field of their own.
    pub fn remove(&mut self, name: &str) {
        self.headers.retain(|(have, _)| !have.eq_ignore_ascii_case(name.as_bytes()));
    }

    /// Whether the body is coded, compressed for instance: it can be neither read nor changed as text.
    pub fn is_coded(&self) -> bool {
        self.content_encoding.as_ref().is_some_and(|coding| !coding.is_empty())
    }

    /// The body is not any more what others have said of its ranges.
    pub fn clear_ranges(&mut self) {
        self.allow_ranges = false;
        self.remove("Accept-Ranges");
    }

    /// A complete small response.
    pub fn text(&mut self, status: u16, content_type: impl Into<Text>, body: impl Into<Text>) {
        let body = body.into();
        self.status = status;
        self.content_type = Some(content_type.into());
        self.content_length = Some(body.len() as u64);
        self.body = if body.is_empty() { Body::Empty } else { Body::bytes(body) };
    }
}
