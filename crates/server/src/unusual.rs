//! Request fields that prepared answers take no account of.

use brisk_http::{HeaderId, RequestHead};

/// Fields on which any answer may depend: a request with one of them takes the long way.
const UNUSUAL: u64 = HeaderId::Range.bit()
    | HeaderId::IfRange.bit()
    | HeaderId::IfModifiedSince.bit()
    | HeaderId::IfUnmodifiedSince.bit()
    | HeaderId::IfMatch.bit()
    | HeaderId::IfNoneMatch.bit()
    | HeaderId::ContentLength.bit()
    | HeaderId::TransferEncoding.bit()
    | HeaderId::Expect.bit()
    | HeaderId::Upgrade.bit()
    | HeaderId::Te.bit();

/// Those fields, and further ones on which answers of one configuration depend.
#[derive(Clone)]
pub struct Unusual {
    /// Of [`HeaderId::bit`].
    pub(crate) ids: u64,
    /// Those without an id.
    pub(crate) names: Vec<&'static str>,
    /// The least `max_headers` of all servers: a request with more fields may be one that its server refuses.
    pub(crate) fields_max: u64,
}

impl Default for Unusual {
    fn default() -> Unusual {
        Unusual { ids: UNUSUAL, names: Vec::new(), fields_max: 0 }
    }
}

impl Unusual {
    /// Whether requests with this field get no prepared answer.
    pub(crate) fn has(&self, id: HeaderId) -> bool {
        self.ids & id.bit() != 0
    }

    /// The same for a field by its name.
    pub(crate) fn has_named(&self, name: &[u8]) -> bool {
        match HeaderId::from_name(name) {
            HeaderId::Other => self.names.iter().any(|have| have.as_bytes().eq_ignore_ascii_case(name)),
            id => self.has(id),
        }
    }

    /// Whether a head that was parsed from these bytes has one of those without an id.
    #[inline]
    pub(crate) fn is_named_in(&self, head: &RequestHead, buf: &[u8]) -> bool {
        let is_there = |name: &&str| head.named(buf, name.as_bytes()).next().is_some();
        // Mostly there are none, and a call that finds that out is spared.
        !self.names.is_empty() && self.names.iter().any(is_there)
    }

    pub fn add(&mut self, field: &'static str) {
        match HeaderId::from_name(field.as_bytes()) {
            HeaderId::Other if self.names.contains(&field) => {}
            HeaderId::Other => self.names.push(field),
            id => self.ids |= id.bit(),
        }
    }
}
