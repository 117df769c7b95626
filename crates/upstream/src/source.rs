//! A request's body on its way to a back end.
//!
//! What is read of the client as it comes can be given once; everything else as often as there are attempts. It knows
//! no protocol: pieces are framed by the codec.

use brisk_net::Failure;
use brisk_server::body::{BodySource, Content};
use brisk_server::failure;
use brisk_server::limits::BODY_PIECE_BYTES;
use brisk_server::temp_file::TempError;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

type Reading = Pin<Box<dyn Future<Output = io::Result<Vec<u8>>>>>;

/// Where the body comes from.
pub enum Source {
    /// There is no body, or it was sent.
    None,
    /// Read from the client before, into memory.
    Memory {
        /// The whole body.
        content: Rc<Content>,
        /// Bytes that were sent.
        at: usize,
    },
    /// Made here.
    Own {
        /// The whole body.
        bytes: Rc<[u8]>,
        /// Bytes that were sent.
        at: usize,
    },
    /// Read from the client before, into a file.
    File {
        /// The whole body.
        content: Rc<Content>,
        /// Bytes that were read.
        read: u64,
        /// A read that is under way.
        reading: Option<Reading>,
        /// What was read and not sent.
        piece: Piece,
    },
    /// Still with the client.
    Client {
        /// The client's body. It goes back to the request as soon as nothing more comes: the answer's head says by it whether the
        /// connection can be used again.
        body: Option<BodySource>,
        /// What has come and was not sent.
        piece: Piece,
    },
}

/// Bytes that are being given out.
#[derive(Default)]
pub struct Piece {
    bytes: Vec<u8>,
    at: usize,
}

impl Piece {
    fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    fn take(&mut self, room: usize) -> &[u8] {
        let from = self.at;
        self.at += room.min(self.bytes.len() - from);
        &self.bytes[from..self.at]
    }
}

impl Source {
    /// What was read of a body.
    pub fn of(content: Rc<Content>) -> Source {
        match &*content {
            // Whatever it is kept in: a codec must not be given a piece of no length.
            _ if content.is_empty() => Source::None,
            Content::None => Source::None,
            Content::Memory(_) => Source::Memory { content, at: 0 },
            Content::File(_) => Source::File { content, read: 0, reading: None, piece: Piece::default() },
        }
    }

    /// Bytes of ours.
    pub fn own(bytes: &Rc<[u8]>) -> Source {
        if bytes.is_empty() { Source::None } else { Source::Own { bytes: bytes.clone(), at: 0 } }
    }

    /// `first` has come already.
    pub fn client(body: BodySource, first: Vec<u8>) -> Source {
        Source::Client { body: Some(body), piece: Piece { bytes: first, at: 0 } }
    }

    /// Whether the client has not sent all of it.
    pub fn reads_client(&self) -> bool {
        matches!(self, Source::Client { body: Some(_), .. })
    }

    /// Whether nothing is left.
    pub fn is_done(&self) -> bool {
        match self {
            Source::None => true,
            Source::Memory { content, at } => *at as u64 == content.len(),
            Source::Own { bytes, at } => *at == bytes.len(),
            Source::File { content, read, piece, .. } => *read == content.len() && piece.is_empty(),
            Source::Client { body, piece } => body.is_none() && piece.is_empty(),
        }
    }

    /// The next bytes, at most `room`, if they are in memory.
    /// No copy and no wait: bodies in memory are written from where they lie.
    fn at_hand(&mut self, room: usize) -> Option<&[u8]> {
        let (bytes, at): (&[u8], _) = match self {
            Source::Memory { content, at } => match &**content {
                Content::Memory(bytes) => (bytes, at),
                _ => return None,
            },
            Source::Own { bytes, at } => (bytes, at),
            _ => return None,
        };
        let from = *at;
        *at += room.min(bytes.len() - from);
        // Empty at the end, which is `None`: an empty piece would be framed as one.
        (*at > from).then(|| &bytes[from..*at])
    }

    /// Whether it is at its end: an empty piece if not.
    pub fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<&[u8]>, Failure>> {
        match self {
            Source::Client { body, piece } => {
                // One byte at hand tells that the end has not come.
                ready!(fill(body, piece, 1, cx))?;
            }
            _ if self.is_done() => return Poll::Ready(Ok(None)),
            _ => {}
        }
        Poll::Ready(Ok((!self.is_done()).then_some(&[])))
    }

    /// The next bytes, at most `room` (which is not 0); `None` at the end.
    pub fn poll(&mut self, cx: &mut Context<'_>, room: usize) -> Poll<Result<Option<&[u8]>, Failure>> {
        // At most one piece at a time, whatever room the protocol gives.
        let room = room.min(BODY_PIECE_BYTES);
        let piece = match self {
            Source::None => return Poll::Ready(Ok(None)),
            // Always ready: such a body never holds a request up.
            Source::Memory { .. } | Source::Own { .. } => return Poll::Ready(Ok(self.at_hand(room))),
            Source::File { content, read, reading, piece } => {
                if piece.is_empty() {
                    if *read == content.len() {
                        return Poll::Ready(Ok(None));
                    }
                    *piece = Piece { bytes: ready!(read_file(content, *read, reading, cx))?, at: 0 };
                    *read += piece.bytes.len() as u64;
                }
                piece
            }
            Source::Client { body, piece } => {
                // As much as there is room for: each piece becomes a chunk or a frame of its own.
                ready!(fill(body, piece, room, cx))?;
                if piece.is_empty() {
                    return Poll::Ready(Ok(None));
                }
                piece
            }
        };
        Poll::Ready(Ok(Some(piece.take(room))))
    }
}

/// Takes what the client has sent, up to `wanted` bytes at hand; waits for it only if there are none.
fn fill(
    body: &mut Option<BodySource>,
    piece: &mut Piece,
    wanted: usize,
    cx: &mut Context<'_>,
) -> Poll<Result<(), Failure>> {
    while let Some(reader) = body
        && piece.bytes.len() - piece.at < wanted
    {
        // Only what was not sent stays, so the buffer does not grow with the body.
        piece.bytes.drain(..piece.at);
        piece.at = 0;
        match reader.poll_piece(cx, &mut piece.bytes) {
            Poll::Ready(Ok(true)) => {}
            Poll::Ready(Ok(false)) => *body = None,
            Poll::Ready(Err(failure)) => return Poll::Ready(Err(failure)),
            // What is there goes on its way instead of waiting for a full piece.
            Poll::Pending if piece.is_empty() => return Poll::Pending,
            Poll::Pending => break,
        }
    }
    Poll::Ready(Ok(()))
}

fn read_file(
    content: &Rc<Content>,
    at: u64,
    reading: &mut Option<Reading>,
    cx: &mut Context<'_>,
) -> Poll<Result<Vec<u8>, Failure>> {
    let Content::File(file) = &**content else { return Poll::Ready(Ok(Vec::new())) };
    // Kept between polls: dropping it would lose what the pool has read.
    let job = reading.get_or_insert_with(|| {
        let content = content.clone();
        Box::pin(async move {
            match &*content {
                Content::File(file) => file.read(at, BODY_PIECE_BYTES).await,
                _ => Ok(Vec::new()),
            }
        })
    });
    let read = ready!(job.as_mut().poll(cx));
    *reading = None;
    // The length was promised in the head: a file that has become shorter must not look like the end of the body.
    let read =
        read.and_then(
            |bytes| {
                if bytes.is_empty() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(bytes) }
            },
        );
    Poll::Ready(read.map_err(|error| failure::body::file(TempError::reading(file)(error))))
}
