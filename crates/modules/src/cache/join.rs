//! A stored part and the rest of it, as one answer (RFC 9111 §3.4).
//!
//! Two parts are joined only if a strong validator says that they are of the same representation: anything less would
//! put two versions of a file together, and no client could tell.

use super::answer;
use brisk_cache::fill::{Combined, Merge, Merging};
use brisk_cache::{Meta, Object};
use brisk_cachepolicy::fields::{Field, Fields};
use brisk_cachepolicy::partial::{self, Part};
use brisk_cachepolicy::{head, tags};
use brisk_http::HeaderId;
use brisk_net::Failure;
use brisk_server::response::{Body, BodyStream, Chunk, Piece};
use brisk_upstream::head::BackendHead;
use brisk_upstream::origin::Fetched;
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The fields by which the rest is asked for. `None`: the stored part cannot be told to be of the same representation.
pub fn question(object: &Object) -> Option<Vec<(&'static str, Vec<u8>)>> {
    let part = object.meta.part.as_ref()?;
    let head = answer::head(object)?;
    // RFC 9110 §13.1.5: a weak entity tag cannot be used for ranges.
    let etag = head.get(HeaderId::ETag).filter(|etag| !etag.starts_with(b"W/"))?;
    // `If-Range` makes the whole of it if it has changed: one question in either case.
    Some(vec![("Range", partial::missing(part)?), ("If-Range", etag.to_vec())])
}

/// The answer to [`question`], joined with the stored part if it is the rest. The error says why it is neither that nor an
/// answer for itself.
pub fn rest(object: &Object, fetched: Fetched) -> Result<Fetched, &'static str> {
    match fetched.head.status {
        206 => join(object, fetched),
        // There is no rest: it has become shorter.
        416 => Err("upstream sent 416 when the rest was asked for"),
        // The representation has changed: `If-Range` has made a 200 of it, which is an answer for itself.
        _ => Ok(fetched),
    }
}

/// The whole, if the answer is exactly what was missing.
fn join(object: &Object, fetched: Fetched) -> Result<Fetched, &'static str> {
    let stored = object.meta.part.zip(answer::head(object));
    let (part, head) = stored.ok_or("the stored part is none")?;
    if !is_same(&head, &fetched.head) {
        return Err("upstream sent the rest of another representation");
    }
    let rest = answer::with_head(&fetched.head, Part::of).ok_or("upstream sent 206 without a valid range")?;
    // `combine` refuses parts that do not touch or whose totals differ.
    let whole = partial::combine(&part, &rest).filter(Part::is_whole);
    let whole = whole.ok_or("upstream sent another part than the rest")?;
    // Overlaps would have to be cut out: the range that was asked for has none.
    if rest.len() + part.len() != whole.len() {
        return Err("upstream sent more than the rest");
    }
    // A length that is told by the end of the connection could be cut short unnoticed.
    if fetched.length != Some(rest.len()) {
        return Err("upstream sent the rest without its length");
    }
    let stored = answer::body(object, 0..part.len()).map_err(|_| "the stored part cannot be read")?;
    // What is missing may stand before what is stored.
    let bodies = if part.start == 0 { [stored, fetched.body] } else { [fetched.body, stored] };
    let mut fields = updated(&head, &fetched.head);
    make_whole(&mut fields);
    let mut joined = BackendHead::new(200);
    for (name, value) in &fields {
        joined.push(name, value);
    }
    Ok(Fetched {
        head: Arc::new(joined),
        length: Some(whole.len()),
        body: Body::Stream(Box::new(Chain(bodies.into()))),
        // It is being stored, whatever the back end has said of the rest.
        unbuffered: false,
        tunnel: false,
    })
}

/// What becomes of a part if an entry is there when it is complete: with one of the same representation that it touches it
/// becomes one, to a whole it adds nothing (RFC 9111 §3.4). `None`: it is none, and takes the entry's place.
pub fn merging(meta: &Meta) -> Option<Merging> {
    let part = meta.part?;
    let (meta, head) = (meta.clone(), answer::parse_head(&meta.head)?);
    Some(Box::new(move |entry| merge(entry, &meta, &head, part).unwrap_or(Merge::Replace)))
}

fn merge(entry: &Object, meta: &Meta, head: &BackendHead, part: Part) -> Option<Merge> {
    let (old, stored) = (&entry.meta, answer::head(entry)?);
    // A variant of another family was purged with its key.
    // Another key under the same digest, or another variant, is another answer.
    let is_like = (&old.key, &old.vary, old.variant) == (&meta.key, &meta.vary, meta.variant)
        && (old.family == meta.family || meta.vary.is_empty());
    if !is_like || !is_same(&stored, head) {
        return None;
    }
    let Some(have) = old.part else {
        // (A whole of another length is of another representation, whatever its validators say.)
        return (old.status == 200 && part.total == Some(entry.body.len())).then_some(Merge::Keep);
    };
    let both = partial::combine(&have, &part)?;
    // The stored part must have all of its bytes, and add something to the new one.
    if have.len() != entry.body.len() || both.len() == part.len() {
        return None;
    }
    let mut fields = updated(&stored, head);
    make_whole(&mut fields);
    let is_whole = both.is_whole();
    let (status, text) = if is_whole { (200, &b""[..]) } else { (meta.status, head.status_text()) };
    let named: Vec<Field<'_>> = fields.iter().map(|(name, value)| (&**name, &**value)).collect();
    let meta = Meta {
        status,
        // A whole is a 200, whatever the parts have come as.
        part: (!is_whole).then_some(both),
        // A purge of the older one is one of both.
        began: old.began.min(meta.began),
        tags: tags::of(Fields(&named)).kept.join(&b"\n"[..]).into(),
        head: answer::write_head(status, text, &fields).into(),
        ..meta.clone()
    };
    // What of the stored bytes stands before the new part and behind it; where both have bytes, the newer ones count.
    let before = 0..part.start.saturating_sub(have.start);
    let after = (part.end - have.start).min(have.len())..have.len();
    Some(Merge::Combine(Box::new(Combined { meta, before, after })))
}

/// Whether both are surely of the same representation.
fn is_same(stored: &BackendHead, fresh: &BackendHead) -> bool {
    answer::with_head(stored, |stored| {
        answer::with_head(fresh, |fresh| partial::same_representation(stored, fresh))
    })
}

/// The stored fields with the newer ones in their places (RFC 9111 §3.4).
fn updated(stored: &BackendHead, fresh: &BackendHead) -> Vec<head::Owned> {
    let owned = |head: &BackendHead| -> Vec<head::Owned> {
        head.fields().map(|field| (field.name.to_vec(), field.value.to_vec())).collect()
    };
    let mut fields = owned(stored);
    head::update(&mut fields, owned(fresh));
    // The old Age was the old answer's.
    // (A rest without an Age comes from the origin itself.)
    if !fresh.has(HeaderId::Age) {
        fields.retain(|(name, _)| !name.eq_ignore_ascii_case(b"age"));
    }
    fields
}

/// Leaves out what is said of a part only.
pub fn make_whole(fields: &mut Vec<head::Owned>) {
    const OF_THE_PART: [&[u8]; 2] = [b"content-range", b"content-length"];
    fields.retain(|(name, _)| !OF_THE_PART.iter().any(|part| name.eq_ignore_ascii_case(part)));
}

/// Bodies one after the other.
struct Chain(VecDeque<Body>);

impl BodyStream for Chain {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, Failure>>> {
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
