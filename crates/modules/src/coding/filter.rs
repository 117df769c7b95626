//! The filter that compresses responses.
//!
//! Which coding a client gets is decided by [`rules`](super::rules); here it is decided whether the answer is worth
//! one, and where it is compressed: at once if it is small and in memory, else while it is sent. What was made of small files is
//! [kept](super::kept).

use super::encoder::{Encoder, Op};
use super::kept;
use super::offer::Offer;
use super::rules::{Rules, weaken_etag};
use super::stream::{Coded, Sizes};
use super::{brotli, gzip, zstd};
use brisk_http::negotiate::Coding;
use brisk_server::conf::Cx;
use brisk_server::plan::{Declared, Filter, Plan, Stage};
use brisk_server::request::Request;
use brisk_server::response::{Body, Piece};
use brisk_server::text::Text;
use std::io;
use std::sync::Arc;

/// The codings that are on, in the order of preference, and which requests may have them.
pub fn offers(cx: &Cx<'_, '_>) -> (Vec<Offer>, Rules) {
    let (gzip, brotli, zstd) =
        (cx.conf_of::<gzip::Conf>(), cx.conf_of::<brotli::Conf>(), cx.conf_of::<zstd::Conf>());
    // The fastest first: this order decides where the client has no preference.
    let offers = [zstd.offer(), brotli.offer(), gzip.offer()].into_iter().flatten().collect();
    (offers, gzip.rules.clone())
}

/// Puts the filter into the plan, if any coding is on.
pub fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    let (offers, rules) = offers(cx);
    if !offers.is_empty() {
        // What an answer depends on is noted when it is known that it could be compressed.
        let filter = Compress { offers: offers.into(), rules };
        plan.add_filter(Stage::Coding, Arc::new(filter));
    }
}

struct Compress {
    offers: Box<[Offer]>,
    rules: Rules,
}

impl Filter for Compress {
    fn declares(&self) -> Declared {
        Declared::RECORDED
    }

    fn filter(&self, r: &mut Request) {
        let resp = &r.resp;
        let is_coded = resp.is_coded();
        // nginx's list: other statuses have short pages, or, as 206, a part of something that must stay byte for byte.
        if !matches!(resp.status, 200 | 403 | 404) || is_coded {
            return;
        }
        let media = resp.content_type.as_deref().unwrap_or_default();
        let length = resp.content_length;
        // `min_length` is of what is announced: a body without a length may be long.
        let applies =
            |offer: &Offer| length.is_none_or(|length| length >= offer.min_length) && offer.types.has(media);
        let applying = self
            // A set as bits: no list is made for each of all the answers that are not compressed.
            .offers
            .iter()
            .fold(0u8, |set, offer| set | u8::from(applies(offer)) << offer.params.coding as u8);
        // Before anything of the request is read: an answer that no coding is for does not depend on `Accept-Encoding`.
        if applying == 0 {
            return;
        }
        // Also for clients that get it plain: a cache must keep the two apart (RFC 9110 §12.5.5).
        self.rules.set_vary(&mut r.resp);
        let preference = self.rules.preference(r);
        let codings = self.offers.iter().map(|offer| offer.params.coding);
        let Some(coding) = preference.choose(codings.filter(|coding| applying & 1 << *coding as u8 != 0))
        else {
            return;
        };
        if let Some(offer) = self.offers.iter().find(|offer| offer.params.coding == coding)
            // An encoder that fails leaves the answer plain, which every client can read.
            && let Err(error) = apply(r, offer)
        {
            brisk_server::rlog!(r, Alert, "{} encoder failed: {error}", coding.name());
        }
    }
}

/// Compresses answers where a request's own rules name the codings, whatever their type and length.
/// (`.htaccess`: `SetOutputFilter` and its kin.)
pub struct Named {
    offers: [Offer; 2],
}

impl Named {
    /// With the levels of a location.
    pub fn of(cx: &Cx<'_, '_>) -> Named {
        Named { offers: [cx.conf_of::<brotli::Conf>().usual(), cx.conf_of::<gzip::Conf>().usual()] }
    }

    /// Compresses the response in that of `codings` which the client likes best.
    pub fn compress(&self, r: &mut Request, codings: &[Coding]) {
        let is_coded = r.resp.is_coded();
        // Errors and redirects of scripts have bodies, too; the server's own are short. A part of something must stay byte for byte.
        let has_body =
            !matches!(r.resp.status, 0..200 | 204 | 206 | 304) && !matches!(r.resp.body, Body::Empty);
        if is_coded
            || r.reply.is_own()
            || !(has_body || r.is_head())
            || r.route.depth > 0
            || codings.is_empty()
        {
            return;
        }
        // Also where the location says nothing of `gzip_vary`, as Apache does it.
        r.resp.vary = Some(Text::from("Accept-Encoding"));
        let Some(coding) = r.accepted_codings().choose(codings.iter().copied()) else { return };
        if let Some(offer) = self.offers.iter().find(|offer| offer.params.coding == coding)
            && let Err(error) = apply(r, offer)
        {
            brisk_server::rlog!(r, Alert, "{} encoder failed: {error}", coding.name());
        }
    }
}

/// Compresses the response. If that fails it stays as it is.
fn apply(r: &mut Request, offer: &Offer) -> io::Result<()> {
    // By the length the window may be smaller: a page of 2 KB needs no megabytes of encoder.
    let params = offer.params.for_length(r.resp.content_length.or_else(|| r.resp.body.len()));
    let is_small = r.resp.body.len().is_some_and(|length| length <= offer.inline_max());
    // RFC 9110 §9.3.2: the head is that of a GET, whose length is not known.
    let (body, length) = if r.is_head() {
        (Body::Empty, None)
    } else if let Some(pieces) = in_memory(&r.resp.body).filter(|_| is_small) {
        let sizes = r.state.own.get_or(Sizes::default);
        // From the thread's stock: making one costs more than compressing a small page.
        let mut encoder = Encoder::take(params)?;
        let mut out = Vec::new();
        let mut plain = 0;
        // (In a row, without a copy that joins them.)
        for (at, piece) in pieces.iter().enumerate() {
            plain += piece.len();
            let op = if at + 1 == pieces.len() { Op::Finish } else { Op::Run };
            encoder.encode(piece, op, &mut out)?;
        }
        // Only after it has finished: one that failed is dropped, since its state is unknown.
        encoder.put();
        sizes.add(plain, out.len());
        let length = out.len() as u64;
        (Body::bytes(out), Some(length))
    } else if let Some(file) = kept::whole_file(&r.resp.body)
        && let Some(coded) = kept::find(file, params)
    {
        // The file's size, since the body itself was never looked at.
        let (plain, length) = (file.info.size, coded.len());
        r.state.own.get_or(Sizes::default).add(plain as usize, length);
        (Body::bytes(coded), Some(length as u64))
    } else {
        // The sizes are shared with the stream, which counts while it is sent.
        let sizes = r.state.own.get_or(Sizes::default);
        let body = std::mem::take(&mut r.resp.body);
        (Body::Stream(Box::new(Coded::new(body, params, sizes)?)), None)
    };
    let resp = &mut r.resp;
    resp.body = body;
    resp.content_length = length;
    resp.content_encoding = Some(params.coding.name().into());
    // RFC 9110 §14.2: ranges would be of the coded bytes, which need not be the same the next time.
    resp.clear_ranges();
    weaken_etag(resp);
    Ok(())
}

/// The body's bytes, if all of them are in memory; at least one piece.
fn in_memory(body: &Body) -> Option<Vec<&[u8]>> {
    match body {
        // An empty body has an encoded form as well, of some bytes.
        Body::Empty => Some(vec![b""]),
        Body::One(piece) => Some(vec![piece.in_memory()?]),
        Body::Many(pieces) if pieces.is_empty() => Some(vec![b""]),
        Body::Many(pieces) => pieces.iter().map(Piece::in_memory).collect(),
        Body::Stream(_) => None,
    }
}
