//! Interim responses, sent before the final one (RFC 9110 §15.2): `103 Early Hints` (RFC 8297).
//!
//! A hint is worth something only while the client would otherwise wait. So what is configured or learned is sent just
//! before a request begins to wait, once access has been granted; an answer that is there at once needs no hint. What
//! back ends say by themselves comes through [`Request::send_early_hints`].

pub(crate) mod learned;

pub use learned::Learned;

use crate::connection::Connection;
use crate::limits::{HINT_LINKS_MAX, INTERIM_UNSENT_BYTES_MAX};
use crate::request::Request;
use crate::request::reply::Interim;
use crate::request::route::Phase;
use crate::text::Text;
use brisk_http::field::write_field;
use brisk_http::{Version, status};

/// HTTP/1.1. What the socket does not take is kept for whoever writes next: `100 Continue` or the final head.
impl Interim for Connection {
    fn send(&self, status: u16, fields: &[(Text, Text)]) {
        // Several may stand here: a 103 and a 100 for one request.
        let mut unsent = self.unsent_mut();
        // A hint that would wait long is none: the final response is worth more.
        if unsent.len() > INTERIM_UNSENT_BYTES_MAX {
            return;
        }
        unsent.extend_from_slice(b"HTTP/1.1 ");
        status::write_status(status, &mut unsent);
        unsent.extend_from_slice(b"\r\n");
        fields.iter().for_each(|(name, value)| write_field(name, value, &mut unsent));
        unsent.extend_from_slice(b"\r\n");
        // An error shows again when the final response is written.
        let count = self.io.try_write(&unsent).unwrap_or(0);
        // What is left must leave before anything else: it may end within a message.
        unsent.drain(..count);
    }
}

impl Request {
    /// `early_hints`: whether the client is to have any. Not for subrequests and clients of old.
    // RFC 8297 §3 warns of clients that take a 103 for the answer, so HTTP/1.0 gets none.
    fn wants_hints(&self) -> bool {
        self.route.depth == 0
            && self.reply.interim.is_some()
            && self.version() >= Version::Http11
            && self.core().early_hints.iter().any(|condition| condition.holds(self))
    }

    /// Passes a back end's `103` on, where `early_hints` lets it. The fields must not be about a single connection.
    pub fn send_early_hints(&self, fields: &[(Text, Text)]) {
        if let Some(interim) =
            self.reply.interim.as_ref().filter(|_| !fields.is_empty() && self.wants_hints())
        {
            interim.send(103, fields);
        }
    }

    /// Before waiting: sends what is configured and what was learned, once.
    pub(crate) fn hint_before_waiting(&mut self) {
        let core = self.core();
        let has_any = !core.early_hints_add.is_empty() || core.early_hints_learn;
        // Not before access was granted: a hint would tell which files a page needs to a client that may not see it.
        if self.reply.hinted || !has_any || self.route.cursor.phase < Phase::PreContent {
            return;
        }
        // Once, also if there was nothing to send: a request may wait several times.
        self.reply.hinted = true;
        if !self.wants_hints() {
            return;
        }
        let core = self.core();
        let link = |value: Vec<u8>| (Text::from("Link"), Text::Owned(value));
        let mut fields: Vec<_> = core.early_hints_add.iter().map(|value| link(value.eval(self))).collect();
        // A variable may come to nothing, and an empty `Link` says nothing.
        fields.retain(|(_, value)| !value.is_empty());
        if core.early_hints_learn {
            self.thread.learned.borrow_mut().get(self, |value| fields.push(link(value.to_vec())));
        }
        fields.truncate(HINT_LINKS_MAX);
        if let Some(interim) = self.reply.interim.as_ref().filter(|_| !fields.is_empty()) {
            interim.send(103, &fields);
        }
    }

    /// When a final response is ready to be sent: remembers its links.
    pub(crate) fn learn_hints(&self) {
        if self.core().early_hints_learn {
            self.thread.learned.borrow_mut().learn(self);
        }
    }
}
