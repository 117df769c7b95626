//! Which stored answers fit which requests (RFC 9111 §4.1).

use crate::fields::{Fields, members};
use crate::nginx;
use crate::reuse::Mode;

/// The fields that an answer varies on, in lower case, each once. `None`: on more than fields (`*`).
pub fn names(response: Fields<'_>) -> Option<Vec<Box<[u8]>>> {
    let mut out: Vec<Box<[u8]>> = Vec::new();
    for name in response.all("Vary").flat_map(members).flat_map(|m| m.split(|&b| b == b' ')) {
        let name = name.to_ascii_lowercase();
        if name == b"*" {
            return None;
        }
        if !name.is_empty() && !out.iter().any(|have| **have == *name) {
            out.push(name.into());
        }
    }
    Some(out)
}

/// What tells the request's variant from others: two requests with the same text get the same stored answer. `names`
/// are in lower case.
pub fn variant<N: AsRef<[u8]>>(names: &[N], request: Fields<'_>, mode: Mode) -> Vec<u8> {
    let mut out = Vec::new();
    for name in names {
        let name = name.as_ref();
        let text = String::from_utf8_lossy(name);
        let lines: Vec<&[u8]> = request.all(&text).collect();
        out.extend_from_slice(name);
        out.push(b':');
        out.extend_from_slice(&match mode {
            Mode::Nginx => nginx::vary_value(&text, &lines),
            Mode::Rfc9111 => normal(&text, &lines),
        });
        out.extend_from_slice(b"\r\n");
    }
    out
}

/// A field's value without what means nothing: white space around commas, empty members, and in `Accept-…` fields the
/// letters' case and the order of equal preferences.
fn normal(name: &str, lines: &[&[u8]]) -> Vec<u8> {
    let listed = lines.iter().flat_map(|line| members(line));
    if !matches!(name, "accept" | "accept-charset" | "accept-encoding" | "accept-language") {
        return listed.collect::<Vec<_>>().join(&b","[..]);
    }
    let mut ranked: Vec<(u16, Vec<u8>)> = listed.filter_map(preference).collect();
    ranked.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    ranked.dedup();
    let text = |(weight, name): (u16, Vec<u8>)| {
        if weight == 1000 { name } else { [&name[..], format!(";q={weight}").as_bytes()].concat() }
    };
    ranked.into_iter().map(text).collect::<Vec<_>>().join(&b","[..])
}

/// A member and its weight in thousandths.
fn preference(member: &[u8]) -> Option<(u16, Vec<u8>)> {
    let mut weight = 1000;
    let mut name = Vec::new();
    for part in member.split(|&b| b == b';') {
        let part: Vec<u8> =
            part.iter().filter(|b| !b.is_ascii_whitespace()).map(u8::to_ascii_lowercase).collect();
        match part.strip_prefix(b"q=") {
            Some(q) => weight = thousandths(q)?,
            None if name.is_empty() => name = part,
            None => name.extend([&b";"[..], &part].concat()),
        }
    }
    (!name.is_empty()).then_some((weight, name))
}

fn thousandths(text: &[u8]) -> Option<u16> {
    let text = std::str::from_utf8(text).ok()?;
    let weight: f32 = text.parse().ok()?;
    (0.0..=1.0).contains(&weight).then(|| (weight * 1000.0).round() as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields<'a>(list: &'a [(&'a str, &'a str)]) -> Vec<(&'a [u8], &'a [u8])> {
        list.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes())).collect()
    }

    #[test]
    fn names_are_listed_once() {
        let check = |lines: &[&str], want: Option<&[&str]>| {
            let list: Vec<_> = lines.iter().map(|l| ("Vary", *l)).collect();
            let want = want.map(|w| w.iter().map(|n| n.as_bytes().into()).collect::<Vec<Box<[u8]>>>());
            assert_eq!(names(Fields(&fields(&list))), want, "{lines:?}");
        };
        check(&[], Some(&[]));
        check(&[",, Accept-encoding , ,"], Some(&["accept-encoding"]));
        check(&["A, b", "a"], Some(&["a", "b"]));
        check(&["", "*"], None);
    }

    #[test]
    fn requests_that_mean_the_same_are_the_same() {
        let check = |name: &str, one: &[&str], other: &[&str], same: bool| {
            let of = |lines: &[&str]| {
                let list: Vec<_> = lines.iter().map(|l| (name, *l)).collect();
                variant(&[name.to_ascii_lowercase()], Fields(&fields(&list)), Mode::Rfc9111)
            };
            assert_eq!(of(one) == of(other), same, "{name}: {one:?} {other:?}");
        };
        check("Foo", &["1,2"], &[" 1, 2 "], true);
        check("Foo", &["1", "2"], &["1, 2"], true);
        check("Foo", &["1, 2"], &["2, 1"], false);
        check("Foo", &["a"], &["A"], false);
        check("Foo", &[], &["a"], false);
        check("Accept-Language", &["en, de"], &["eN ,  De"], true);
        check("Accept-Language", &["en, de"], &["de, en"], true);
        check("Accept-Language", &["en, de;q=0.5"], &["de;q=0.5,en;q=1.0"], true);
        check("Accept-Language", &["en;q=0.5, de"], &["de;q=0.5,en"], false);
        check("Accept-Encoding", &["gzip"], &["br"], false);
    }
}
