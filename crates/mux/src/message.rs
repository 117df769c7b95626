//! Which fields a request's or response's head may have (RFC 9113 §8, RFC 9114 §4), whatever is made of them.

use crate::{Checks, Field};
use std::fmt;

/// A request's pseudo headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pseudo {
    /// `:method`
    Method,
    /// `:scheme`
    Scheme,
    /// `:authority`
    Authority,
    /// `:path`
    Path,
    /// RFC 8441 §4.
    Protocol,
    /// Of responses.
    Status,
}

impl Pseudo {
    fn from_name(name: &[u8]) -> Option<Pseudo> {
        Some(match name {
            b":method" => Pseudo::Method,
            b":scheme" => Pseudo::Scheme,
            b":authority" => Pseudo::Authority,
            b":path" => Pseudo::Path,
            b":protocol" => Pseudo::Protocol,
            b":status" => Pseudo::Status,
            _ => return None,
        })
    }

    /// As it is sent, with its colon.
    pub fn name(self) -> &'static str {
        match self {
            Pseudo::Method => ":method",
            Pseudo::Scheme => ":scheme",
            Pseudo::Authority => ":authority",
            Pseudo::Path => ":path",
            Pseudo::Protocol => ":protocol",
            Pseudo::Status => ":status",
        }
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// What a field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A pseudo header.
    Pseudo(Pseudo),
    /// A field of the message.
    Regular,
}

/// Why a head is malformed. `Display` is nginx's message where nginx has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// A name has upper case letters or bytes of no token (RFC 9113 §8.2.1).
    Name,
    /// A value has bytes that none may have.
    Value,
    /// A pseudo header stands behind a field (§8.3).
    OutOfOrder,
    /// A pseudo header that there is not, or not in this kind of message.
    UnknownPseudo,
    /// A pseudo header stands twice.
    Duplicate(Pseudo),
    /// A pseudo header is empty that must not be.
    Empty(Pseudo),
    /// A pseudo header is missing.
    Missing(Pseudo),
    /// `:protocol` without CONNECT, or where extended CONNECT was not offered.
    Protocol,
    /// A field that is of the connection's business (RFC 9113 §8.2.2). Holds its usual name.
    ConnectionSpecific(&'static str),
    /// `TE` with anything but `trailers`.
    Te,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::Name => f.write_str("client sent invalid header name"),
            Malformed::Value => f.write_str("client sent header with invalid value"),
            Malformed::OutOfOrder => f.write_str("client sent out of order pseudo-headers"),
            Malformed::UnknownPseudo => f.write_str("client sent unknown pseudo-header"),
            Malformed::Duplicate(pseudo) => write!(f, "client sent duplicate {} header", pseudo.name()),
            Malformed::Empty(pseudo) => write!(f, "client sent empty {} header", pseudo.name()),
            Malformed::Missing(pseudo) => write!(f, "client sent no {} header", pseudo.name()),
            Malformed::Protocol => f.write_str("client sent :protocol header out of place"),
            Malformed::ConnectionSpecific(name) => write!(f, "client sent \"{name}\" header"),
            Malformed::Te => f.write_str("client sent invalid \"TE\" header"),
        }
    }
}

impl std::error::Error for Malformed {}

/// Whether a field is of a connection's business, which no message of HTTP/2 or HTTP/3 may speak of (RFC 9113 §8.2.2,
/// RFC 9114 §4.2). The name is in lower case.
pub fn is_connection_specific(name: &[u8]) -> bool {
    connection_specific(name).is_some()
}

/// The usual spelling of such a name.
#[inline]
fn connection_specific(name: &[u8]) -> Option<&'static str> {
    Some(match name {
        b"connection" => "Connection",
        b"keep-alive" => "Keep-Alive",
        b"proxy-connection" => "Proxy-Connection",
        b"transfer-encoding" => "Transfer-Encoding",
        b"upgrade" => "Upgrade",
        _ => return None,
    })
}

/// Follows the fields of one head.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeadRules {
    seen: u8,
    regular: bool,
    te: bool,
}

/// Requests must have these (CONNECT: §8.5).
const REQUEST: u8 = 1 << Pseudo::Method as u8
    | 1 << Pseudo::Scheme as u8
    | 1 << Pseudo::Path as u8
    | 1 << Pseudo::Authority as u8
    | 1 << Pseudo::Protocol as u8;

impl HeadRules {
    /// Judges the next field of a request.
    #[inline]
    pub fn request(&mut self, field: &Field<'_>) -> Result<Kind, Malformed> {
        self.any(field, REQUEST)
    }

    /// Judges the next field of a response.
    pub fn response(&mut self, field: &Field<'_>) -> Result<Kind, Malformed> {
        self.any(field, Pseudo::Status.bit())
    }

    /// Judges a field of trailers: pseudo headers have no place there (§8.1).
    pub fn trailer(&mut self, field: &Field<'_>) -> Result<Kind, Malformed> {
        self.any(field, 0)
    }

    #[inline]
    fn any(&mut self, field: &Field<'_>, allowed: u8) -> Result<Kind, Malformed> {
        if field.checks.has(Checks(Checks::BAD_NAME.0 | Checks::BAD_VALUE.0)) {
            let is_name = field.checks.has(Checks::BAD_NAME);
            return Err(if is_name { Malformed::Name } else { Malformed::Value });
        }
        if field.checks.has(Checks::PSEUDO) {
            return self.pseudo(field, allowed);
        }
        self.regular = true;
        self.connection_specific(field)?;
        Ok(Kind::Regular)
    }

    #[inline]
    fn pseudo(&mut self, field: &Field<'_>, allowed: u8) -> Result<Kind, Malformed> {
        let pseudo = Pseudo::from_name(field.name).filter(|pseudo| pseudo.bit() & allowed != 0);
        // §8.3: all of them come before the regular fields.
        if self.regular || allowed == 0 {
            return Err(Malformed::OutOfOrder);
        }
        let pseudo = pseudo.ok_or(Malformed::UnknownPseudo)?;
        if self.seen & pseudo.bit() != 0 {
            return Err(Malformed::Duplicate(pseudo));
        }
        self.seen |= pseudo.bit();
        if field.value.is_empty() && pseudo != Pseudo::Authority {
            return Err(Malformed::Empty(pseudo));
        }
        Ok(Kind::Pseudo(pseudo))
    }

    /// §8.2.2.
    #[inline]
    fn connection_specific(&mut self, field: &Field<'_>) -> Result<(), Malformed> {
        if field.name == b"te" {
            let again = std::mem::replace(&mut self.te, true);
            let valid = !again && field.value.eq_ignore_ascii_case(b"trailers");
            return if valid { Ok(()) } else { Err(Malformed::Te) };
        }
        connection_specific(field.name).map_or(Ok(()), |name| Err(Malformed::ConnectionSpecific(name)))
    }

    /// Whether the pseudo header has come.
    pub fn has(&self, pseudo: Pseudo) -> bool {
        self.seen & pseudo.bit() != 0
    }

    /// What a request must have when all fields are there. `is_connect`: its method is CONNECT.
    pub fn end_request(&self, is_connect: bool, connect_protocol: bool) -> Result<(), Malformed> {
        let need = |pseudo: Pseudo| if self.has(pseudo) { Ok(()) } else { Err(Malformed::Missing(pseudo)) };
        need(Pseudo::Method)?;
        if self.has(Pseudo::Protocol) && !(is_connect && connect_protocol) {
            return Err(Malformed::Protocol);
        }
        // RFC 9113 §8.5: CONNECT has neither scheme nor path; RFC 8441 §4: extended CONNECT has both.
        if is_connect && !self.has(Pseudo::Protocol) {
            return need(Pseudo::Authority);
        }
        need(Pseudo::Scheme)?;
        need(Pseudo::Path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(fields: &[(&str, &str)]) -> Result<(), Malformed> {
        let mut rules = HeadRules::default();
        let mut method = "";
        for (name, value) in fields {
            let (name_bytes, value_bytes) = (name.as_bytes(), value.as_bytes());
            let checks = Checks(Checks::of_name(name_bytes).0 | Checks::of_value(value_bytes).0);
            let field = Field { name: name_bytes, value: value_bytes, tag: 0, checks, sensitive: false };
            if rules.request(&field)? == Kind::Pseudo(Pseudo::Method) {
                method = value;
            }
        }
        rules.end_request(method == "CONNECT", true)
    }

    /// RFC 9113 §8.2, §8.3, §8.5; RFC 8441 §4.
    #[test]
    fn heads_of_requests() {
        const GET: [(&str, &str); 3] = [(":method", "GET"), (":scheme", "http"), (":path", "/")];
        let with = |more: &[(&'static str, &'static str)]| judge(&[&GET[..], more].concat());
        assert_eq!(judge(&GET), Ok(()));
        assert_eq!(with(&[("a", "b"), ("te", "Trailers")]), Ok(()));
        assert_eq!(with(&[(":authority", "")]), Ok(()), "left to whoever looks at hosts");
        assert_eq!(with(&[("a", ""), (":authority", "x")]), Err(Malformed::OutOfOrder));
        assert_eq!(with(&[(":path", "/")]), Err(Malformed::Duplicate(Pseudo::Path)));
        assert_eq!(with(&[(":status", "200")]), Err(Malformed::UnknownPseudo));
        assert_eq!(with(&[(":x", "y")]), Err(Malformed::UnknownPseudo));
        for name in ["A", "a b", "a:", "", ":", "a\u{0}", "\u{7f}", "a[", "a/b", "\u{e9}"] {
            assert_eq!(with(&[(name, "x")]), Err(Malformed::Name), "{name:?}");
        }
        assert_eq!(with(&[("a.b!", "tab\tand \u{e9}")]), Ok(()));
        for value in ["a\rb", "a\nb", "\u{0}"] {
            assert_eq!(with(&[("a", value)]), Err(Malformed::Value), "{value:?}");
        }
        for (name, usual) in
            [("connection", "Connection"), ("upgrade", "Upgrade"), ("keep-alive", "Keep-Alive")]
        {
            assert_eq!(with(&[(name, "x")]), Err(Malformed::ConnectionSpecific(usual)));
        }
        assert_eq!(with(&[("te", "gzip")]), Err(Malformed::Te));
        assert_eq!(with(&[("te", "trailers"), ("te", "trailers")]), Err(Malformed::Te));
        assert_eq!(judge(&GET[..2]), Err(Malformed::Missing(Pseudo::Path)));
        assert_eq!(judge(&GET[1..]), Err(Malformed::Missing(Pseudo::Method)));
        assert_eq!(judge(&[(":method", "GET"), (":path", "/")]), Err(Malformed::Missing(Pseudo::Scheme)));
        assert_eq!(with(&[(":protocol", "websocket")]), Err(Malformed::Protocol));
        assert_eq!(judge(&[(":method", "CONNECT"), (":authority", "a:1")]), Ok(()));
        assert_eq!(judge(&[(":method", "CONNECT")]), Err(Malformed::Missing(Pseudo::Authority)));
        let extended =
            [(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "https"), (":path", "/")];
        assert_eq!(judge(&extended), Ok(()));
    }
}
