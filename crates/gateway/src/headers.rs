//! A client's header fields as parameters: `HTTP_` and the name in capitals (RFC 3875 §4.1.18).

use crate::Params;
use crate::limits::COMPARED_MAX;
use brisk_http::{Header, HeaderId, RequestHead};
use std::cmp::Ordering;

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
    let unknown = Unknown::of(buf, head);
    for (at, field) in head.headers.iter().enumerate() {
        let (before, behind) = (&head.headers[..at], &head.headers[at + 1..]);
        let same = |other: &&Header| is_same(buf, field, other);
        let namesakes = match &unknown {
            _ if field.id != HeaderId::Other && head.repeated & field.id.bit() == 0 => Namesakes::None,
            Unknown::One if field.id == HeaderId::Other => Namesakes::None,
            Unknown::Many(sorted) if field.id == HeaderId::Other => {
                Namesakes::Listed(named_as(buf, head, sorted, field))
            }
            _ => Namesakes::Compared,
        };
        let is_first = match namesakes {
            Namesakes::None => true,
            Namesakes::Compared => !before.iter().any(|other| same(&other)),
            Namesakes::Listed(places) => places.first() == Some(&at),
        };
        if !is_first {
            continue;
        }
        name.clear();
        name.extend_from_slice(b"HTTP_");
        name.extend(field.name.of(buf).iter().map(|&b| capital(b)));
        if taken.has(&name[5..]) || &name[5..] == b"PROXY" {
            continue;
        }
        let value = field.value.of(buf);
        let separator: &[u8] = if field.id == HeaderId::Cookie { b"; " } else { b", " };
        joined.clear();
        let mut join = |other: &Header| {
            if joined.is_empty() {
                joined.extend_from_slice(value);
            }
            joined.extend_from_slice(separator);
            joined.extend_from_slice(other.value.of(buf));
        };
        match namesakes {
            Namesakes::None => {}
            Namesakes::Compared => behind.iter().filter(same).for_each(join),
            Namesakes::Listed(places) => places[1..].iter().for_each(|&other| join(&head.headers[other])),
        }
        out.pair(&name, &[if joined.is_empty() { value } else { &joined }]);
    }
}

/// The fields of a head whose names are not known. Whether such a name occurs twice is not noted while a head is parsed.
enum Unknown {
    /// At most one.
    One,
    /// So few that they are compared.
    Few,
    /// Where they are in the head, by name and then by place: a client that sends as many as it may must not make this a
    /// matter of their number squared.
    Many(Vec<usize>),
}

/// How the fields with the name of one of them are found.
enum Namesakes<'a> {
    /// There are none.
    None,
    /// By comparing it with the others.
    Compared,
    /// They are in these places, itself among them.
    Listed(&'a [usize]),
}

impl Unknown {
    fn of(buf: &[u8], head: &RequestHead) -> Unknown {
        let is_unknown = |field: &Header| field.id == HeaderId::Other;
        match head.headers.iter().filter(|field| is_unknown(field)).count() {
            0 | 1 => Unknown::One,
            2..=COMPARED_MAX => Unknown::Few,
            _ => {
                let all = 0..head.headers.len();
                let mut sorted: Vec<usize> = all.filter(|&at| is_unknown(&head.headers[at])).collect();
                // A stable sort: fields of one name stay in their order.
                sorted.sort_by(|&one, &other| compare(buf, &head.headers[one], &head.headers[other]));
                Unknown::Many(sorted)
            }
        }
    }
}

/// The part of `sorted` that has the name of `field`.
fn named_as<'a>(buf: &[u8], head: &RequestHead, sorted: &'a [usize], field: &Header) -> &'a [usize] {
    let start = sorted.partition_point(|&at| compare(buf, &head.headers[at], field).is_lt());
    let rest = &sorted[start..];
    &rest[..rest.partition_point(|&at| compare(buf, &head.headers[at], field).is_eq())]
}

/// The order of two fields by their names in lower case.
fn compare(buf: &[u8], one: &Header, other: &Header) -> Ordering {
    let lower = |field: &Header| field.name.of(buf).iter().map(u8::to_ascii_lowercase);
    lower(one).cmp(lower(other))
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
    fn many_fields_are_joined_as_few_are() {
        for count in [COMPARED_MAX - 2, COMPARED_MAX - 1, COMPARED_MAX, 500] {
            let mut fields = vec!["X-Twice: a\nHost: h\n".to_string()];
            let mut want = vec!["HTTP_X_TWICE=a, b, c".to_string(), "HTTP_HOST=h".to_string()];
            for number in 0..count {
                fields.push(format!("X-{number}: {number}\n"));
                want.push(format!("HTTP_X_{number}={number}"));
                if number == 7 {
                    fields.push("x-twice: b\n".into());
                }
            }
            fields.push("X-TWICE: c\n".into());
            check(&fields.concat(), &[], &want.iter().map(String::as_str).collect::<Vec<_>>());
        }
    }

    /// Each field is found among the others by its name, and joined once.
    #[test]
    fn a_name_sent_a_thousand_times_is_one_parameter() {
        let values: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
        let fields: Vec<String> = values.iter().map(|value| format!("X-Same: {value}\n")).collect();
        check(&fields.concat(), &[], &[&format!("HTTP_X_SAME={}", values.join(", "))]);
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
