//! A stored part and the rest of it, as one answer (RFC 9111 §3.4).

use super::answer;
use brisk_cache::Object;
use brisk_cachepolicy::Fields;
use brisk_cachepolicy::partial::{self, Part};
use brisk_http::HeaderId;
use brisk_server::response::{Body, BodyStream, Chunk, Piece};
use brisk_upstream::head::BackendHead;
use brisk_upstream::origin::Fetched;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The fields by which the rest is asked for. `None`: the stored part cannot be told to be of the same representation.
pub fn question(object: &Object) -> Option<Vec<(&'static str, Vec<u8>)>> {
    let part = object.meta.part.as_ref()?;
    let head = answer::head(object)?;
    let etag = head.get(HeaderId::ETag).filter(|etag| !etag.starts_with(b"W/"))?;
    Some(vec![("Range", partial::missing(part)?), ("If-Range", etag.to_vec())])
}

/// The whole, if the answer is exactly what was missing.
pub fn join(object: &Object, fetched: Fetched) -> Result<Fetched, Fetched> {
    let Some((part, head)) = object.meta.part.zip(answer::head(object)) else { return Err(fetched) };
    let fields = |head: &BackendHead, work: &dyn Fn(Fields<'_>) -> bool| answer::with_head(head, work);
    let same =
        fields(&head, &|stored| fields(&fetched.head, &|fresh| partial::same_representation(stored, fresh)));
    let rest = answer::with_head(&fetched.head, Part::of);
    let whole = rest.and_then(|rest| partial::combine(&part, &rest)).filter(Part::is_whole);
    let (Some(rest), Some(whole)) = (rest.filter(|_| same), whole) else { return Err(fetched) };
    // Overlaps would have to be cut out: the range that was asked for has none.
    if rest.len() + part.len() != whole.len() || fetched.length != Some(rest.len()) {
        return Err(fetched);
    }
    let Ok(stored) = answer::body(object, 0..part.len()) else { return Err(fetched) };
    let bodies = if part.start == 0 { [stored, fetched.body] } else { [fetched.body, stored] };
    let mut joined = BackendHead::new(200);
    // RFC 9111 §3.4: what came last counts.
    for field in fetched.head.fields().filter(|field| field.id != HeaderId::ContentRange) {
        if field.id != HeaderId::ContentLength {
            joined.push(field.name, field.value);
        }
    }
    Ok(Fetched {
        head: Arc::new(joined),
        length: Some(whole.len()),
        body: Body::Stream(Box::new(Chain(bodies.into()))),
        unbuffered: false,
        tunnel: false,
    })
}

/// Bodies one after the other.
struct Chain(VecDeque<Body>);

impl BodyStream for Chain {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Chunk>>> {
        let give = |piece: Piece| Poll::Ready(Some(Ok(Chunk::Piece(piece))));
        loop {
            match self.0.pop_front() {
                None => return Poll::Ready(None),
                Some(Body::Empty) => {}
                Some(Body::One(piece)) => return give(piece),
                Some(Body::Many(mut pieces)) => {
                    if pieces.is_empty() {
                        continue;
                    }
                    let piece = pieces.remove(0);
                    self.0.push_front(Body::Many(pieces));
                    return give(piece);
                }
                Some(Body::Stream(mut stream)) => match stream.poll_chunk(cx) {
                    Poll::Ready(None) => {}
                    next => {
                        self.0.push_front(Body::Stream(stream));
                        return next;
                    }
                },
            }
        }
    }
}
