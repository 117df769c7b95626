//! Escaping as nginx does it (`ngx_escape_uri` and its kin): byte for byte, since keys and logs depend on it.

use super::normal::hex;
use std::borrow::Cow;

/// What the escaped text is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Escape {
    /// A path.
    Uri,
    /// Arguments: also `&`, `+` and `;`.
    Args,
    /// One component: everything but RFC 3986 unreserved characters.
    UriComponent,
    /// A URI inside an HTML attribute.
    Html,
    /// A URI in a `Refresh` header or an HTML refresh.
    Refresh,
    /// A memcached key: controls, space and `%`.
    MemcachedKey,
    /// A field of the mail authentication protocol, the same as a memcached key.
    MailAuth,
}

type Set = [bool; 256];

/// The set of controls, the bytes of `more` and, if `upper`, DEL and all bytes outside ASCII.
const fn set(more: &[u8], upper: bool) -> Set {
    let mut table = [false; 256];
    let mut b = 0;
    while b < 256 {
        table[b] = b < 0x20 || (upper && b >= 0x7f);
        b += 1;
    }
    let mut i = 0;
    while i < more.len() {
        table[more[i] as usize] = true;
        i += 1;
    }
    table
}

static URI: Set = set(b" \"#%<>?\\^`{|}", true);
static ARGS: Set = set(b" \"#%&+;<>?\\^`{|}", true);
static COMPONENT: Set = set(b" !\"#$%&'()*+,/:;<=>?@[\\]^`{|}", true);
static HTML: Set = set(b" \"#%'<>\\^`{|}", true);
/// `~` and not `}`: so it is in nginx.
static REFRESH: Set = set(b" \"'<>\\^`{|~", true);
static MEMCACHED: Set = set(b" %", false);
/// What would end a request line, or part of it (RFC 9112 §3).
static LINE: Set = set(b" \x7f", false);
static LOG: Set = set(b"\"\\", true);

const UPPER_HEX: &[u8; 16] = b"0123456789ABCDEF";

/// Appends `src` to `out` with `%HH` for the bytes that `kind` does not allow.
pub fn escape(kind: Escape, src: &[u8], out: &mut Vec<u8>) {
    let set = match kind {
        Escape::Uri => &URI,
        Escape::Args => &ARGS,
        Escape::UriComponent => &COMPONENT,
        Escape::Html => &HTML,
        Escape::Refresh => &REFRESH,
        Escape::MemcachedKey | Escape::MailAuth => &MEMCACHED,
    };
    escape_bytes(set, b"%", src, out);
}

/// A target as it may stand in a request line: with `%HH` for controls, spaces and DEL. What comes from decoded text may hold
/// them.
pub fn escape_target(target: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    if !target.iter().any(|&b| LINE[b as usize]) {
        return target;
    }
    let mut out = Vec::with_capacity(target.len() + 16);
    escape_bytes(&LINE, b"%", &target, &mut out);
    out.into()
}

/// Appends `src` to `out` as the access log has it by default: `\xHH` for controls, `"`, `\` and bytes from DEL on.
pub fn escape_log(src: &[u8], out: &mut Vec<u8>) {
    escape_bytes(&LOG, b"\\x", src, out);
}

/// Copies runs of allowed bytes and writes `prefix HH` for the others.
fn escape_bytes(set: &Set, prefix: &[u8], src: &[u8], out: &mut Vec<u8>) {
    let mut rest = src;
    while let Some(at) = rest.iter().position(|&b| set[b as usize]) {
        let byte = rest[at];
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(prefix);
        out.push(UPPER_HEX[usize::from(byte >> 4)]);
        out.push(UPPER_HEX[usize::from(byte & 0xf)]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

/// Appends `src` to `out` with entities for `<`, `>`, `&` and `"`.
pub fn escape_html(src: &[u8], out: &mut Vec<u8>) {
    for &b in src {
        match b {
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'&' => out.extend_from_slice(b"&amp;"),
            b'"' => out.extend_from_slice(b"&quot;"),
            _ => out.push(b),
        }
    }
}

/// Where [`unescape`] stops and what it leaves encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unescape {
    /// Decode everything.
    All,
    /// Stop after a `?`, encoded or not.
    Uri,
    /// As `Uri`, and leave encoded what a `Location` needs encoded: controls, space to `%`, DEL and bytes outside ASCII.
    Redirect,
}

/// Appends `src` to `out` with `%HH` decoded. Gives the number of bytes read, less than all only if a `?` ended it.
///
/// Malformed sequences lose their `%` (and first digit), as in nginx: call this only for text from the configuration
/// or text that was checked before.
pub fn unescape(mode: Unescape, src: &[u8], out: &mut Vec<u8>) -> usize {
    let mut at = 0;
    while let Some(&b) = src.get(at) {
        at += 1;
        if b == b'?' && mode != Unescape::All {
            out.push(b);
            return at;
        }
        if b != b'%' {
            out.push(b);
            continue;
        }
        let Some(&first) = src.get(at) else { break };
        at += 1;
        let Some(high) = hex(first) else {
            out.push(first);
            continue;
        };
        let Some(&second) = src.get(at) else { break };
        at += 1;
        let Some(low) = hex(second) else { continue };
        let byte = high << 4 | low;
        match mode {
            Unescape::Uri | Unescape::Redirect if byte == b'?' => {
                out.push(byte);
                return at;
            }
            Unescape::Redirect if byte <= b'%' || byte >= 0x7f => {
                out.extend_from_slice(&[b'%', first, second]);
            }
            _ => out.push(byte),
        }
    }
    at
}
