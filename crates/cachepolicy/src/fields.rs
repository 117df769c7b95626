//! The fields of a head, as the policy reads them.

/// Name and value; the name in any case.
pub type Field<'a> = (&'a [u8], &'a [u8]);

/// All fields of a head in the order in which they were sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fields<'a>(pub &'a [Field<'a>]);

impl<'a> Fields<'a> {
    /// Every line of a field.
    pub fn all(self, name: &str) -> impl Iterator<Item = &'a [u8]> + use<'a, '_> {
        let is_it = move |have: &[u8]| have.eq_ignore_ascii_case(name.as_bytes());
        self.0.iter().filter(move |(have, _)| is_it(have)).map(|(_, value)| *value)
    }

    /// The first line of a field.
    pub fn first(self, name: &str) -> Option<&'a [u8]> {
        self.all(name).next()
    }

    /// Whether a field of this name is there.
    pub fn has(self, name: &str) -> bool {
        self.first(name).is_some()
    }

    /// All lines of a field as one list (RFC 9110 §5.3); `None` if there is none.
    pub fn joined(self, name: &str) -> Option<Vec<u8>> {
        let mut lines = self.all(name);
        let mut out = lines.next()?.to_vec();
        for line in lines {
            out.extend_from_slice(b", ");
            out.extend_from_slice(line);
        }
        Some(out)
    }
}

/// The members of a comma-separated list without the white space around them; commas in quoted strings do not count,
/// empty members are left out (RFC 9110 §5.6.1).
pub fn members(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = list;
    std::iter::from_fn(move || {
        loop {
            if rest.is_empty() {
                return None;
            }
            let end = member_end(rest);
            let member = rest[..end].trim_ascii();
            rest = rest.get(end + 1..).unwrap_or_default();
            if !member.is_empty() {
                return Some(member);
            }
        }
    })
}

/// Where the first member ends: at its comma, or at the end of the text.
fn member_end(list: &[u8]) -> usize {
    let (mut quoted, mut escaped) = (false, false);
    for (at, &byte) in list.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' if !quoted => return at,
            _ => {}
        }
    }
    list.len()
}

/// The text of a quoted string, or the text as it is.
pub fn unquoted(value: &[u8]) -> Option<Vec<u8>> {
    let Some(inner) = value.strip_prefix(b"\"") else { return Some(value.to_vec()) };
    let mut out = Vec::with_capacity(inner.len());
    let mut bytes = inner.iter();
    loop {
        match bytes.next()? {
            b'"' => return bytes.as_slice().is_empty().then_some(out),
            b'\\' => out.push(*bytes.next()?),
            byte => out.push(*byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_cut_outside_of_quotes() {
        let check = |list: &str, want: &[&str]| {
            let have: Vec<_> =
                members(list.as_bytes()).map(|m| String::from_utf8_lossy(m).into_owned()).collect();
            assert_eq!(have, want, "{list}");
        };
        check("", &[]);
        check(" , ,", &[]);
        check("a, b ,c", &["a", "b", "c"]);
        check("a=\"b, c\", d", &["a=\"b, c\"", "d"]);
        check("a=\"b\\\", c\", d", &["a=\"b\\\", c\"", "d"]);
        check("a=\"b, c", &["a=\"b, c"]);
    }

    #[test]
    fn quotes_are_taken_off() {
        assert_eq!(unquoted(b"a").unwrap(), b"a");
        assert_eq!(unquoted(b"\"a\\\"b\"").unwrap(), b"a\"b");
        assert_eq!(unquoted(b"\"a"), None);
        assert_eq!(unquoted(b"\"a\"b"), None);
    }

    #[test]
    fn lines_of_a_field_are_one_list() {
        let fields = [(&b"A"[..], &b"1"[..]), (b"b", b"2"), (b"a", b"3")];
        let fields = Fields(&fields);
        assert_eq!(fields.joined("a").unwrap(), b"1, 3");
        assert_eq!((fields.first("B"), fields.has("c")), (Some(&b"2"[..]), false));
    }
}
