//! Content negotiation: which of several files stands for a name (`MultiViews`, type maps), by mod_negotiation's algorithm.

use std::cmp::Ordering;

/// What can be sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Variant {
    /// Its name, relative to the folder.
    pub name: Vec<u8>,
    /// Its media type.
    pub media: Vec<u8>,
    /// Its languages.
    pub languages: Vec<Vec<u8>>,
    /// Its coding.
    pub encoding: Option<Vec<u8>>,
    /// How good it is by its type map, from 0 to 1; `None`: 1.
    pub source_quality: Option<f32>,
    /// Its length in bytes.
    pub bytes: u64,
    /// What it is, where it stands in the type map itself.
    pub body: Option<Vec<u8>>,
}

/// What the client likes; `None`: it has sent no such field.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wishes<'a> {
    /// `Accept`.
    pub media: Option<&'a [u8]>,
    /// `Accept-Language`.
    pub languages: Option<&'a [u8]>,
    /// `Accept-Encoding`.
    pub encodings: Option<&'a [u8]>,
}

/// What comes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The variant with this index.
    One(usize),
    /// The client likes none: 406.
    NotAcceptable,
}

/// One element of a field.
struct Wish {
    name: Vec<u8>,
    quality: f32,
}

fn wishes(field: &[u8]) -> (Vec<Wish>, bool) {
    let mut has_quality = false;
    let mut list = Vec::new();
    for element in field.split(|&byte| byte == b',') {
        let mut parts = element.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
        let name = parts.next().unwrap_or_default().to_ascii_lowercase();
        if name.is_empty() {
            continue;
        }
        let mut quality = 1.0;
        for part in parts {
            let Some(value) = part.strip_prefix(b"q").or_else(|| part.strip_prefix(b"Q")) else { continue };
            let Some(value) = value.trim_ascii_start().strip_prefix(b"=") else { continue };
            let value =
                std::str::from_utf8(value.trim_ascii()).ok().and_then(|text| text.parse::<f32>().ok());
            quality = value.filter(|value| (0.0..=1.0).contains(value)).unwrap_or(1.0);
            has_quality = true;
        }
        list.push(Wish { name, quality });
    }
    (list, has_quality)
}

/// How well a media type is liked: the most exact element counts.
fn media_quality(media: &[u8], field: Option<&[u8]>) -> f32 {
    let Some(field) = field else { return 1.0 };
    let (list, has_quality) = wishes(field);
    let media =
        media.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii().to_ascii_lowercase();
    let (mut exactness, mut quality) = (0, 0.0);
    for wish in &list {
        let (level, usual) = match wish.name.as_slice() {
            b"*" | b"*/*" => (1, 0.01),
            [kind @ .., b'/', b'*']
                if !kind.is_empty()
                    && media.strip_prefix(kind).is_some_and(|rest| rest.starts_with(b"/")) =>
            {
                (2, 0.02)
            }
            name if *name == *media => (3, 1.0),
            _ => continue,
        };
        if level > exactness {
            // Where nothing has a quality, what is exact is liked better.
            (exactness, quality) = (level, if has_quality || level == 3 { wish.quality } else { usual });
        }
    }
    quality
}

/// How well the languages of a variant are liked.
fn language_quality(languages: &[Vec<u8>], field: Option<&[u8]>) -> f32 {
    let Some(field) = field else { return 1.0 };
    let (list, _) = wishes(field);
    if list.is_empty() || languages.is_empty() {
        // A variant in no language is worth little where one is asked for.
        return if list.is_empty() { 1.0 } else { 0.001 };
    }
    let mut best = 0.0f32;
    for language in languages.iter().map(|language| language.to_ascii_lowercase()) {
        let (mut exactness, mut quality) = (0, 0.0);
        for wish in &list {
            let is_part = |whole: &[u8], part: &[u8]| {
                whole.strip_prefix(part).is_some_and(|rest| rest.starts_with(b"-"))
            };
            let (level, value) = if wish.name == language {
                (usize::MAX, wish.quality)
            } else if is_part(&language, &wish.name) {
                (wish.name.len() + 1, wish.quality)
            } else if is_part(&wish.name, &language) {
                (2, wish.quality.min(0.001))
            } else if wish.name == b"*" {
                (1, wish.quality)
            } else {
                continue;
            };
            if level > exactness {
                (exactness, quality) = (level, value);
            }
        }
        best = best.max(quality);
    }
    best
}

fn encoding_quality(encoding: Option<&[u8]>, field: Option<&[u8]>) -> f32 {
    let Some(encoding) = encoding else { return 1.0 };
    let Some(field) = field else { return 0.0 };
    let bare = |name: &[u8]| name.strip_prefix(b"x-").unwrap_or(name).to_ascii_lowercase();
    let wanted = bare(encoding);
    let (list, _) = wishes(field);
    let named = list.iter().find(|wish| bare(&wish.name) == wanted);
    named.or_else(|| list.iter().find(|wish| wish.name == b"*")).map_or(0.0, |wish| wish.quality)
}

/// The place of a variant's first language in `LanguagePriority`; the last where it is not named.
fn rank(variant: &Variant, priority: &[Vec<u8>]) -> usize {
    let of = |language: &Vec<u8>| priority.iter().position(|known| known.eq_ignore_ascii_case(language));
    variant.languages.iter().filter_map(of).min().unwrap_or(usize::MAX)
}

/// Chooses a variant. `priority` is `LanguagePriority`, which also decides where the client's languages are not there, if
/// `falls_back` (`ForceLanguagePriority Fallback`).
pub fn choose(variants: &[Variant], wishes: Wishes<'_>, priority: &[Vec<u8>], falls_back: bool) -> Choice {
    let of = |wishes: Wishes<'_>| {
        let mut best: Option<(usize, [f32; 2])> = None;
        for (index, variant) in variants.iter().enumerate() {
            let encoding = encoding_quality(variant.encoding.as_deref(), wishes.encodings);
            let quality = media_quality(&variant.media, wishes.media) * variant.source_quality.unwrap_or(1.0);
            let language = language_quality(&variant.languages, wishes.languages);
            if quality <= 0.0 || language <= 0.0 || encoding <= 0.0 {
                continue;
            }
            let is_better = best.is_none_or(|(known, [best_quality, best_language])| {
                let known = &variants[known];
                let plain = |variant: &Variant| variant.encoding.is_none();
                quality
                    .total_cmp(&best_quality)
                    .then(language.total_cmp(&best_language))
                    .then(rank(known, priority).cmp(&rank(variant, priority)))
                    .then(plain(variant).cmp(&plain(known)))
                    .then(known.bytes.cmp(&variant.bytes))
                    == Ordering::Greater
            });
            if is_better {
                best = Some((index, [quality, language]));
            }
        }
        best.map(|(index, _)| Choice::One(index))
    };
    let again = || falls_back.then(|| of(Wishes { languages: None, ..wishes })).flatten();
    of(wishes).or_else(again).unwrap_or(Choice::NotAcceptable)
}

/// Reads a type map. What is no line of one is passed over.
pub fn type_map(text: &[u8]) -> Vec<Variant> {
    let mut variants = Vec::new();
    let mut now = Variant::default();
    let mut has_content = false;
    let mut rest = text;
    while !rest.is_empty() {
        let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let line = rest[..end].trim_ascii_end();
        rest = rest.get(end + 1..).unwrap_or_default();
        if line.starts_with(b"#") {
            continue;
        }
        if line.is_empty() {
            finish(&mut variants, &mut now, &mut has_content);
            continue;
        }
        let Some(colon) = memchr::memchr(b':', line) else { continue };
        let (name, value) = (line[..colon].to_ascii_lowercase(), line[colon + 1..].trim_ascii());
        let words = || value.split(|&byte| byte == b',').map(|word| word.trim_ascii().to_vec());
        match name.as_slice() {
            b"uri" => now.name = value.to_vec(),
            b"content-type" => {
                let mut parts = value.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
                now.media = parts.next().unwrap_or_default().to_ascii_lowercase();
                let quality = parts.find_map(|part| part.strip_prefix(b"qs="));
                now.source_quality = quality
                    .and_then(|text| std::str::from_utf8(text).ok())
                    .and_then(|text| text.parse().ok());
                has_content = true;
            }
            b"content-language" => (now.languages, has_content) = (words().collect(), true),
            b"content-encoding" => (now.encoding, has_content) = (words().next(), true),
            b"content-length" => {
                now.bytes = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
                has_content = true;
            }
            b"body" if !value.is_empty() => {
                let end = memchr::memmem::find(rest, value).unwrap_or(rest.len());
                now.body = Some(rest[..end].to_vec());
                now.bytes = end as u64;
                rest = rest.get(end + value.len()..).unwrap_or_default();
                let line = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
                rest = &rest[line..];
                finish(&mut variants, &mut now, &mut has_content);
            }
            _ => {}
        }
    }
    finish(&mut variants, &mut now, &mut has_content);
    variants
}

fn finish(variants: &mut Vec<Variant>, now: &mut Variant, has_content: &mut bool) {
    let done = std::mem::take(now);
    if std::mem::take(has_content) && !(done.name.is_empty() && done.body.is_none()) {
        variants.push(done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn languages() -> Vec<Variant> {
        ["de", "en", "fr", "zh-tw"]
            .iter()
            .map(|language| Variant {
                name: format!("index.html.{language}").into(),
                media: b"text/html".to_vec(),
                languages: vec![language.as_bytes().to_vec()],
                bytes: 14,
                ..Variant::default()
            })
            .collect()
    }

    #[test]
    fn languages_are_chosen() {
        let variants = languages();
        let check = |field: Option<&str>, falls_back: bool, wanted: Option<&str>| {
            let priority = [b"fr".to_vec(), b"en".to_vec()];
            let wishes = Wishes { languages: field.map(str::as_bytes), ..Wishes::default() };
            let got = match choose(&variants, wishes, &priority, falls_back) {
                Choice::One(index) => {
                    Some(String::from_utf8_lossy(&variants[index].languages[0]).into_owned())
                }
                Choice::NotAcceptable => None,
            };
            assert_eq!(got.as_deref(), wanted, "{field:?}");
        };
        check(None, false, Some("fr"));
        check(Some("de"), false, Some("de"));
        check(Some("en; q=0.1, fr; q=0.4, de; q=0.9"), false, Some("de"));
        check(Some("en; q=0.1, fr; q=0.4, bu; q=1.0"), false, Some("fr"));
        check(Some("zh-TW"), false, Some("zh-tw"));
        check(Some("zh"), false, Some("zh-tw"));
        check(Some("en-GB"), false, Some("en"));
        check(Some("bu"), false, None);
        check(Some("bu"), true, Some("fr"));
    }

    #[test]
    fn types_of_a_map_are_chosen() {
        let text = b"URI: test\n\n# a note\nURI: test.txt\nContent-Type: text/plain\nBody:---\ntext/plain---\n\nURI: test.html\nContent-Type: text/html; qs=0.9\nBody:---\ntext/html ---\n\nURI: test.gif\nContent-Type: image/gif\nContent-Length: 10\n";
        let variants = type_map(text);
        assert_eq!(variants.len(), 3);
        assert_eq!(variants[0].body.as_deref(), Some(&b"text/plain"[..]));
        assert_eq!((variants[1].source_quality, variants[2].bytes), (Some(0.9), 10));
        for (accept, wanted) in [
            ("*/*", Some(0)),
            ("text/*", Some(0)),
            ("text/html", Some(1)),
            ("image/*", Some(2)),
            ("*", Some(0)),
            ("text/plain;q=0.1, text/html;q=0.5", Some(1)),
            ("", None),
            ("*bad", None),
            ("/*", None),
            ("*/", None),
            ("te/*", None),
        ] {
            let wishes = Wishes { media: Some(accept.as_bytes()), ..Wishes::default() };
            let got = choose(&variants, wishes, &[], false);
            assert_eq!(got, wanted.map_or(Choice::NotAcceptable, Choice::One), "{accept}");
        }
    }

    #[test]
    fn codings_need_to_be_asked_for() {
        let variant = |encoding: Option<&str>| Variant {
            media: b"text/css".to_vec(),
            encoding: encoding.map(|name| name.as_bytes().to_vec()),
            bytes: 5,
            ..Variant::default()
        };
        let both = [variant(Some("x-gzip")), variant(None)];
        let of = |encodings| choose(&both, Wishes { encodings, ..Wishes::default() }, &[], false);
        assert_eq!((of(None), of(Some(b"gzip"))), (Choice::One(1), Choice::One(1)));
        let one = [variant(Some("gzip"))];
        let of = |encodings| choose(&one, Wishes { encodings, ..Wishes::default() }, &[], false);
        assert_eq!((of(None), of(Some(b"gzip, br"))), (Choice::NotAcceptable, Choice::One(0)));
    }
}
