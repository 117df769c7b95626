//! Names of header fields that some code asks for, as small numbers.
//!
//! A request's names are looked up once, while it is parsed; from then on a header is found by its number. At most
//! 64, so that a `u64` says which are present.

macro_rules! header_ids {
    ($($id:ident = $name:literal,)*) => {
        /// A header field name that the server knows.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
        #[repr(u8)]
        pub enum HeaderId {
            /// Any other name.
            #[default]
            Other,
            $(#[doc = concat!("`", $name, "`")] $id,)*
        }

        /// Names by number, in their usual spelling.
        const NAMES: &[&str] = &["", $($name,)*];

        /// Ids by number.
        const IDS: &[HeaderId] = &[HeaderId::Other, $(HeaderId::$id,)*];
    };
}

header_ids! {
    Host = "Host",
    Connection = "Connection",
    ContentLength = "Content-Length",
    ContentType = "Content-Type",
    ContentRange = "Content-Range",
    ContentEncoding = "Content-Encoding",
    TransferEncoding = "Transfer-Encoding",
    Range = "Range",
    IfRange = "If-Range",
    IfModifiedSince = "If-Modified-Since",
    IfUnmodifiedSince = "If-Unmodified-Since",
    IfMatch = "If-Match",
    IfNoneMatch = "If-None-Match",
    UserAgent = "User-Agent",
    Referer = "Referer",
    Accept = "Accept",
    AcceptEncoding = "Accept-Encoding",
    AcceptLanguage = "Accept-Language",
    Authorization = "Authorization",
    ProxyAuthorization = "Proxy-Authorization",
    Cookie = "Cookie",
    Expect = "Expect",
    Upgrade = "Upgrade",
    KeepAlive = "Keep-Alive",
    Te = "TE",
    Trailer = "Trailer",
    Date = "Date",
    Via = "Via",
    Forwarded = "Forwarded",
    XForwardedFor = "X-Forwarded-For",
    XForwardedProto = "X-Forwarded-Proto",
    XRealIp = "X-Real-IP",
    EarlyData = "Early-Data",
    Origin = "Origin",
    Priority = "Priority",
    Http2Settings = "HTTP2-Settings",
    ProxyConnection = "Proxy-Connection",
    CacheControl = "Cache-Control",
    Pragma = "Pragma",
    Depth = "Depth",
    Destination = "Destination",
    Overwrite = "Overwrite",
    Server = "Server",
    Location = "Location",
    ETag = "ETag",
    LastModified = "Last-Modified",
    Expires = "Expires",
    SetCookie = "Set-Cookie",
    AcceptRanges = "Accept-Ranges",
    Vary = "Vary",
    WwwAuthenticate = "WWW-Authenticate",
    ProxyAuthenticate = "Proxy-Authenticate",
    Age = "Age",
    Link = "Link",
    Refresh = "Refresh",
    RetryAfter = "Retry-After",
    Status = "Status",
    XAccelRedirect = "X-Accel-Redirect",
    XAccelExpires = "X-Accel-Expires",
    XAccelLimitRate = "X-Accel-Limit-Rate",
    XAccelBuffering = "X-Accel-Buffering",
    XAccelCharset = "X-Accel-Charset",
    SecWebSocketKey = "Sec-WebSocket-Key",
}

const _: () = assert!(NAMES.len() <= 64, "ids must fit into a u64 bit set");

/// Slots of the hash table: a power of two, sparse enough for short probes.
const SLOTS: usize = 256;

/// Ids by hash of their name, open addressing; 0 is a free slot.
static TABLE: [u8; SLOTS] = build_table();

/// The slot to try first. The letters' case does not count.
#[inline]
const fn slot_of(name: &[u8]) -> usize {
    let len = name.len();
    let first = (name[0] | 0x20) as usize;
    let middle = (name[len / 2] | 0x20) as usize;
    let last = (name[len - 1] | 0x20) as usize;
    (first * 5 + middle * 23 + last * 3 + len * 7) % SLOTS
}

const fn build_table() -> [u8; SLOTS] {
    let mut table = [0; SLOTS];
    let mut id = 1;
    while id < NAMES.len() {
        let mut slot = slot_of(NAMES[id].as_bytes());
        while table[slot] != 0 {
            slot = (slot + 1) % SLOTS;
        }
        table[slot] = id as u8;
        id += 1;
    }
    table
}

impl HeaderId {
    /// The id of a field name, in any case.
    pub fn from_name(name: &[u8]) -> Self {
        let valid = name.iter().all(|&b| b.is_ascii_alphanumeric() || b == b'-');
        if valid && !name.is_empty() { HeaderId::from_valid_name(name) } else { HeaderId::Other }
    }

    /// The same for a name that is known to be not empty and to consist of letters, digits and hyphens.
    #[inline]
    pub(crate) fn from_valid_name(name: &[u8]) -> Self {
        let mut slot = slot_of(name);
        loop {
            let id = TABLE[slot] as usize;
            if id == 0 {
                return HeaderId::Other;
            }
            if NAMES[id].len() == name.len() && eq_folded(NAMES[id].as_bytes(), name) {
                return IDS[id];
            }
            slot = (slot + 1) % SLOTS;
        }
    }

    /// The id with this number, as [`HeaderId::bit`] counts them.
    #[inline]
    pub fn from_number(number: u8) -> Self {
        IDS.get(usize::from(number)).copied().unwrap_or_default()
    }

    /// The usual spelling; nothing for [`HeaderId::Other`].
    pub fn name(self) -> &'static str {
        NAMES[self as usize]
    }

    /// The bit of this id in a set of ids.
    #[inline]
    pub const fn bit(self) -> u64 {
        1 << self as u8
    }

    /// Every known id, without [`HeaderId::Other`].
    pub fn known() -> &'static [HeaderId] {
        &IDS[1..]
    }
}

/// Whether two names of one length are the same but for the case of letters. Among letters, digits and hyphens only
/// upper and lower case of one letter differ in the bit 0x20 alone, so eight bytes can be compared at once.
#[inline]
fn eq_folded(a: &[u8], b: &[u8]) -> bool {
    const FOLD: u64 = 0x2020_2020_2020_2020;
    let (a_words, a_rest) = a.as_chunks::<8>();
    let (b_words, b_rest) = b.as_chunks::<8>();
    a_words.iter().zip(b_words).all(|(a, b)| u64::from_le_bytes(*a) | FOLD == u64::from_le_bytes(*b) | FOLD)
        && a_rest.iter().zip(b_rest).all(|(a, b)| a | 0x20 == b | 0x20)
}
