//! A client's header fields as parameters: `HTTP_` and the name in capitals (RFC 3875 §4.1.18).

use crate::Params;
use brisk_http::{Header, HeaderId, RequestHead};

/// Names of fields that are not passed on, without `HTTP_`, in capitals: those that the configuration sets itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken(Box<[Box<[u8]>]>);

impl Taken {
    /// From the names of all parameters.
    pub fn new<'a>(names: impl Iterator<Item = &'a [u8]>) -> Taken {
        let fields = names.filter_map(|name| name.strip_prefix(b"HTTP_")).filter(|name| !name.is_empty());
        let mut list: Vec<Box<[u8]>> =
            fields.map(|name| name.iter().map(|&b| capital(b)).collect()).collect();
        list.sort();
        list.dedup();
        Taken(list.into())
    }

    fn has(&self, name: &[u8]) -> bool {
        self.0.binary_search_by(|have| (**have).cmp(name)).is_ok()
    }
}

fn capital(byte: u8) -> u8 {
    if byte == b'-' { b'_' } else { byte.to_ascii_uppercase() }
}

/// Gives all fields of a request to `out`, except those in `taken`. A field that was sent several times is one
/// parameter, at the place of the first: values are joined by `, `, those of `Cookie` by `; `.
///
/// `Proxy` is never passed on: as `HTTP_PROXY` programs take it for their own proxy (httpoxy, CVE-2016-5385).
pub fn write_headers(buf: &[u8], head: &RequestHead, taken: &Taken, out: &mut impl Params) {
    let mut name = Vec::with_capacity(64);
    let mut joined = Vec::new();
    // Whether any unknown name may occur twice is not noted while a head is parsed.
    let others = head.headers.iter().filter(|field| field.id == HeaderId::Other).count();
    for (at, field) in head.headers.iter().enumerate() {
        let is_repeated =
            if field.id == HeaderId::Other { others > 1 } else { head.repeated & field.id.bit() != 0 };
        let same = |other: &&Header| is_same(buf, field, other);
        if is_repeated && head.headers[..at].iter().any(|other| same(&other)) {
            continue;
        }
        name.clear();
        name.extend_from_slice(b"HTTP_");
        name.extend(field.name.of(buf).iter().map(|&b| capital(b)));
        if taken.has(&name[5..]) || &name[5..] == b"PROXY" {
            continue;
        }
        let value = field.value.of(buf);
        let mut more = head.headers[at + 1..].iter().filter(same).filter(|_| is_repeated).peekable();
        if more.peek().is_none() {
            out.pair(&name, &[value]);
            continue;
        }
        let separator: &[u8] = if field.id == HeaderId::Cookie { b"; " } else { b", " };
        joined.clear();
        joined.extend_from_slice(value);
        for other in more {
            joined.extend_from_slice(separator);
            joined.extend_from_slice(other.value.of(buf));
        }
        out.pair(&name, &[&joined]);
    }
}

fn is_same(buf: &[u8], one: &Header, other: &Header) -> bool {
    one.id == other.id
        && (one.id != HeaderId::Other || one.name.of(buf).eq_ignore_ascii_case(other.name.of(buf)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_http::{HeadOptions, Parsed, parse_request};

    #[derive(Default)]
    struct Lines(Vec<String>);

    impl Params for Lines {
        fn pair(&mut self, name: &[u8], pieces: &[&[u8]]) {
            let value = pieces.concat();
            self.0.push(format!("{}={}", String::from_utf8_lossy(name), String::from_utf8_lossy(&value)));
        }
    }

    #[track_caller]
    fn check(fields: &str, taken: &[&str], want: &[&str]) {
        let text = format!("GET / HTTP/1.1\n{fields}\n");
        let mut head = RequestHead::default();
        let options = HeadOptions { ignore_invalid_headers: false, ..HeadOptions::default() };
        assert_eq!(parse_request(text.as_bytes(), &options, &mut head).unwrap(), Parsed::Complete);
        let mut lines = Lines::default();
        let taken = Taken::new(taken.iter().map(|name| name.as_bytes()));
        write_headers(text.as_bytes(), &head, &taken, &mut lines);
        assert_eq!(lines.0, want, "{fields}");
    }

    #[test]
    fn names_are_capitals() {
        check("Host: a\nx-Foo_bar: b\n", &[], &["HTTP_HOST=a", "HTTP_X_FOO_BAR=b"]);
        check("Empty:\n", &[], &["HTTP_EMPTY="]);
    }

    #[test]
    fn repeated_fields_are_joined_where_the_first_stands() {
        check(
            "X-A: 1\nCookie: a\nX-B: 2\nx-a: 3\ncookie: b\nX-Forwarded-For: c\nX-Forwarded-For: d\n",
            &[],
            &["HTTP_X_A=1, 3", "HTTP_COOKIE=a; b", "HTTP_X_B=2", "HTTP_X_FORWARDED_FOR=c, d"],
        );
    }

    #[test]
    fn what_the_configuration_sets_is_not_passed_on() {
        check(
            "Host: a\nX-Blah: b\nx_blah: c\nX-Bla: d\nX-Blah: e\n",
            &["HTTP_HOST", "HTTP_x_blah", "HTTP_", "REQUEST_URI", "http_x_bla"],
            &["HTTP_X_BLA=d"],
        );
    }

    #[test]
    fn proxy_is_not_passed_on() {
        check("Proxy: http://evil\nProxy-Connection: x\n", &[], &["HTTP_PROXY_CONNECTION=x"]);
    }
}
