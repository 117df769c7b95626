//! Heads over HTTP/2 (RFC 9113 §8): a request's block, and what becomes of a response's fields.
//!
//! Both directions in one file: what is a pseudo header, and what belongs to a connection alone, is the same
//! question in each.

use crate::head::BackendHead;
use brisk_h2::conn::{HeadKind, HeadSink};
use brisk_h2::hpack::{Checks, Field, FieldSink, write_clean, write_foreign};
use brisk_h2::message::is_connection_specific;
use brisk_http::chunked::ChunkLimits;

/// A request's head as a block that hangs on no connection's tables.
#[derive(Clone, Debug, Default)]
pub struct RequestHead {
    block: Vec<u8>,
}

impl RequestHead {
    /// The pseudo headers (§8.3.1).
    pub fn new(method: &[u8], is_tls: bool, path: &[u8], authority: &[u8]) -> RequestHead {
        let mut block = Vec::with_capacity(256);
        match method {
            // Entries of the static table (RFC 7541, appendix A), in one byte.
            // 2 and 3 are GET and POST, 4 the path `/`, 6 and 7 http and https; 0x80 marks an indexed field
            // (RFC 7541 §6.1).
            b"GET" => block.push(0x80 | 2),
            b"POST" => block.push(0x80 | 3),
            _ => write_clean(b":method", method, &mut block),
        }
        block.push(0x80 | if is_tls { 7 } else { 6 });
        match path {
            b"/" => block.push(0x80 | 4),
            // Without an index: the block hangs on no table, so it may be made before its connection is chosen.
            _ => write_clean(b":path", path, &mut block),
        }
        write_clean(b":authority", authority, &mut block);
        RequestHead { block }
    }

    /// Adds a field; those of a connection's business are left out (§8.2.2).
    pub fn field(&mut self, name: &[u8], value: &[u8]) {
        // `trailers` is the one value that HTTP/2 allows (§8.2.2).
        if name.eq_ignore_ascii_case(b"te") && !value.eq_ignore_ascii_case(b"trailers") {
            return;
        }
        write_foreign(name, value, &mut self.block);
    }

    /// The header block.
    pub fn block(&self) -> &[u8] {
        &self.block
    }
}

/// Takes a response's fields, and those of its trailers.
/// It judges as HTTP/1.1's parser does, since the client may be spoken to in HTTP/1.1: what would be a line
/// break there is refused here.
#[derive(Default)]
pub(super) struct Heads {
    kind: Option<HeadKind>,
    head: BackendHead,
    trailers: Vec<(Vec<u8>, Vec<u8>)>,
    /// The first fault. Fields behind it are decoded all the same, since tables and windows must stay in step,
    /// and dropped.
    wrong: Option<Box<str>>,
}

impl Heads {
    /// What has come so far.
    pub fn head(&self) -> &BackendHead {
        &self.head
    }

    /// The head, to be handed on.
    pub fn take_head(&mut self) -> BackendHead {
        std::mem::take(&mut self.head)
    }

    /// The fields behind the body.
    pub fn take_trailers(&mut self) -> Vec<(Vec<u8>, Vec<u8>)> {
        std::mem::take(&mut self.trailers)
    }

    /// What is wrong with the fields that have come.
    pub fn take_wrong(&mut self) -> Option<Box<str>> {
        self.wrong.take()
    }

    #[cold]
    fn refuse(&mut self, text: impl Into<Box<str>>) {
        self.wrong.get_or_insert_with(|| text.into());
    }

    fn response(&mut self, field: Field<'_>) {
        if field.checks.has(Checks::PSEUDO) {
            return self.status(field);
        }
        // §8.3: pseudo headers come before all others.
        if self.head.status == 0 {
            return self.refuse("upstream sent no :status header");
        }
        self.head.push(field.name, field.value);
    }

    fn status(&mut self, field: Field<'_>) {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        if field.name != b":status" {
            let (name, value) = (text(field.name), text(field.value));
            return self.refuse(format!("upstream sent invalid header \"{name}: {value}\""));
        }
        if self.head.status != 0 {
            return self.refuse("upstream sent duplicate :status header");
        }
        let digits =
            <[u8; 3]>::try_from(field.value).ok().filter(|digits| digits.iter().all(u8::is_ascii_digit));
        let status =
            digits.map(|digits| digits.iter().fold(0, |status, &b| status * 10 + u16::from(b & 0xf)));
        match status {
            // §8.6: there is no 101.
            Some(status @ 100..) if status != 101 => self.head.status = status,
            Some(_) => self.refuse(format!("upstream sent unexpected :status \"{}\"", text(field.value))),
            None => self.refuse(format!("upstream sent invalid :status \"{}\"", text(field.value))),
        }
    }
}

impl FieldSink for Heads {
    /// Tags are for requests: a response's fields are found by name.
    fn tag(&mut self, _: &[u8]) -> u8 {
        0
    }

    fn static_tag(&mut self, _: usize, _: &[u8]) -> u8 {
        0
    }

    fn field(&mut self, field: Field<'_>) {
        if self.wrong.is_some() {
            return;
        }
        let is_trailer = self.kind == Some(HeadKind::Trailers);
        // As of a back end that speaks HTTP/1.1 (RFC 9110 §5.5).
        // A CR or LF would end the line in a response of HTTP/1.1.
        let has_control = field.value.iter().any(|&b| b.is_ascii_control() && b != b'\t');
        if field.checks.has(Checks::BAD_NAME) || has_control {
            let text =
                if is_trailer { "upstream sent invalid trailer" } else { "upstream sent invalid header" };
            return self.refuse(text);
        }
        // RFC 9113 §8.2.2: a message with a field of a connection's business is malformed.
        if is_connection_specific(field.name) {
            let (kind, name) = (if is_trailer { "trailer" } else { "header" }, field.name);
            let (name, value) = (String::from_utf8_lossy(name), String::from_utf8_lossy(field.value));
            return self.refuse(format!("upstream sent invalid {kind} \"{name}: {value}\""));
        }
        if !is_trailer {
            return self.response(field);
        }
        if field.checks.has(Checks::PSEUDO) {
            let name = String::from_utf8_lossy(field.name).into_owned();
            return self.refuse(format!("upstream sent invalid trailer \"{name}\""));
        }
        if self.trailers.len() == ChunkLimits::default().trailers_max {
            // As many as over HTTP/1.1: a field may come as one byte.
            return self.refuse("upstream sent too many trailers");
        }
        self.trailers.push((field.name.to_vec(), field.value.to_vec()));
    }
}

impl HeadSink for Heads {
    fn begin(&mut self, _: u64, kind: HeadKind) {
        self.kind = Some(kind);
        match kind {
            HeadKind::Trailers => self.trailers.clear(),
            // An interim head may have come before: the final one begins anew.
            _ => self.head = BackendHead::default(),
        }
    }

    /// Asked by the engine when the block is complete: a final head may come behind an interim one only.
    fn is_interim(&self) -> bool {
        (100..200).contains(&self.head.status)
    }
}
