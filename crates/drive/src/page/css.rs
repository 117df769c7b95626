//! The references in a style sheet: imports and `url()` (CSS Syntax 3 §4.3.6, as far as URLs need it).

use super::html::Kind;
use crate::limits::REFERENCES_MAX;
use std::collections::HashSet;

/// A font that a style sheet offers: browsers fetch it once something is written in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Face {
    /// Its family, in lower case.
    pub family: String,
    /// The first file of a format that browsers take.
    pub url: String,
}

/// A rule that says in which fonts something is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// What the rule is for; empty for the attribute of one element.
    pub selector: String,
    /// The value of its `font-family`, or `font`, in lower case.
    pub families: String,
}

impl Named {
    /// Whether the rule may be for an element of a document with these classes. Of a selector only its classes are looked at.
    pub fn may_match(&self, classes: &HashSet<String>) -> bool {
        // What stands in parentheses may be what an element must not be.
        let outside: String = {
            let mut depth = 0_usize;
            let is_outside = |c: &char| {
                depth = if *c == '(' { depth + 1 } else { depth };
                let is_outside = depth == 0;
                depth = if *c == ')' { depth.saturating_sub(1) } else { depth };
                is_outside
            };
            self.selector.chars().filter(is_outside).collect()
        };
        outside.split(',').any(|one| {
            one.contains('\\') || one.split('.').skip(1).all(|rest| classes.contains(identifier(rest)))
        })
    }
}

/// The identifier that a text begins with (CSS Syntax 3 §4.3.12, without escapes).
fn identifier(text: &str) -> &str {
    let ends = |c: char| !(c.is_alphanumeric() || matches!(c, '-' | '_'));
    &text[..text.find(ends).unwrap_or(text.len())]
}

/// What a style sheet says of fonts: those that it offers, and those that its rules name.
pub fn fonts(css: &str) -> (Vec<Face>, Vec<Named>) {
    let css = without_comments(css);
    let (rules, blocks) = without_faces(&css);
    let faces = blocks.iter().filter_map(|block| face(block)).collect();
    let (mut named, mut selector, mut start) = (Vec::new(), "", 0);
    for (end, c) in rules.char_indices().filter(|(_, c)| "{};".contains(*c)).chain([(rules.len(), ';')]) {
        let piece = &rules[start..end];
        start = (end + 1).min(rules.len());
        if c == '{' {
            selector = piece.trim();
        } else if let Some((name, value)) = piece.split_once(':')
            && ["font-family", "font"].iter().any(|have| name.trim().eq_ignore_ascii_case(have))
        {
            named.push(Named { selector: selector.to_owned(), families: value.to_ascii_lowercase() });
        }
    }
    (faces, named)
}

/// A block of `@font-face`, unless it has no file for browsers, or none for Latin letters.
fn face(block: &str) -> Option<Face> {
    let value = |name: &str| {
        block
            .split(';')
            .filter_map(|declaration| declaration.split_once(':'))
            .find_map(|(have, value)| have.trim().eq_ignore_ascii_case(name).then(|| value.trim()))
    };
    if value("unicode-range").is_some_and(|ranges| !ranges.split(',').any(has_latin)) {
        return None;
    }
    let family = value("font-family")?.trim_matches(['"', '\'']).to_ascii_lowercase();
    // A data: URL holds semicolons and needs no request.
    let sources = block.find("src").map_or("", |at| &block[at..]);
    let mut urls = sources.split("url(").skip(1).map(|text| {
        let (url, used) = self::value(text);
        (url, text[used..].chars().take(40).collect::<String>())
    });
    let is_taken = |(url, after): &(String, String)| {
        let path = url.split(['?', '#']).next().unwrap_or_default().to_ascii_lowercase();
        let is_old = after.contains("embedded-opentype") || after.contains("\"svg\"");
        !is_old && path.rsplit('.').next() != Some("eot")
    };
    let (url, _) = urls.find(is_taken).filter(|(url, _)| !url.is_empty() && !url.starts_with("data:"))?;
    Some(Face { family, url })
}

/// Whether a range like `U+0000-00FF` holds the letter A.
fn has_latin(range: &str) -> bool {
    let range = range.trim().to_ascii_lowercase();
    let Some(range) = range.strip_prefix("u+") else { return true };
    let (low, high) = range.split_once('-').unwrap_or((range, range));
    let end = |text: &str, digit: &str| u32::from_str_radix(&text.replace('?', digit), 16);
    match (end(low, "0"), end(high, "f")) {
        (Ok(low), Ok(high)) => (low..=high).contains(&0x41),
        _ => true,
    }
}

/// A style sheet without `@font-face`, and the insides of these.
fn without_faces(css: &str) -> (String, Vec<String>) {
    let (mut rest, mut out, mut blocks) = (css, String::with_capacity(css.len()), Vec::new());
    while let Some(at) = find(rest, 0, "@font-face") {
        out.push_str(&rest[..at]);
        let Some(open) = rest[at..].find('{') else { break };
        let inner = &rest[at + open + 1..];
        let end = inner.find('}').unwrap_or(inner.len());
        blocks.push(inner[..end].to_owned());
        rest = inner.get(end + 1..).unwrap_or_default();
    }
    out.push_str(rest);
    (out, blocks)
}

/// What a style sheet refers to, in order, but for its fonts.
pub fn references(css: &str) -> Vec<(String, Kind)> {
    let (css, _) = without_faces(&without_comments(css));
    let mut found = Vec::new();
    let mut at = 0;
    // What has been found is kept: to look for it again from each reference would take the square of the time.
    let (mut import, mut url) = (find(&css, 0, "@import"), find(&css, 0, "url("));
    while found.len() < REFERENCES_MAX {
        if import.is_some_and(|import| import < at) {
            import = find(&css, at, "@import");
        }
        if url.is_some_and(|url| url < at) {
            url = find(&css, at, "url(");
        }
        match (import, url) {
            (Some(import), url) if url.is_none_or(|url| import < url) => {
                let rest = css[import + "@import".len()..].trim_start();
                let inner = rest
                    .get(..4)
                    .filter(|head| head.eq_ignore_ascii_case("url("))
                    .map_or(rest, |_| &rest[4..]);
                let (text, used) = value(inner);
                found.push((text, Kind::Style));
                at = css.len() - inner.len() + used;
            }
            (_, Some(url)) => {
                let (text, used) = value(&css[url + 4..]);
                let kind = kind_of(&text);
                found.push((text, kind));
                at = url + 4 + used;
            }
            _ => break,
        }
    }
    found.retain(|(text, _)| !text.is_empty() && !text.starts_with("data:"));
    found
}

fn find(text: &str, from: usize, word: &str) -> Option<usize> {
    let mut windows = text.as_bytes().get(from..)?.windows(word.len());
    Some(from + windows.position(|window| window.eq_ignore_ascii_case(word.as_bytes()))?)
}

/// A quoted string, or everything up to what ends a URL; and how many bytes that took.
fn value(text: &str) -> (String, usize) {
    let start = text.len() - text.trim_start().len();
    let inner = &text[start..];
    let quote = inner.chars().next().filter(|c| matches!(c, '"' | '\''));
    match quote {
        Some(quote) => {
            let end = inner[1..].find(quote).map_or(inner.len(), |at| at + 1);
            (inner[1..end.max(1)].to_owned(), start + (end + 1).min(inner.len()))
        }
        None => {
            let end = inner.find([')', ';', ' ', '\n', '\t', '{', '}']).unwrap_or(inner.len());
            (inner[..end].to_owned(), start + end)
        }
    }
}

fn kind_of(reference: &str) -> Kind {
    let path = reference.split(['?', '#']).next().unwrap_or_default().to_ascii_lowercase();
    match path.rsplit('.').next() {
        Some("woff" | "woff2" | "ttf" | "otf" | "eot") => Kind::Font,
        Some("css") => Kind::Style,
        _ => Kind::Image,
    }
}

fn without_comments(css: &str) -> String {
    let mut out = String::with_capacity(css.len());
    let mut rest = css;
    while let Some(at) = rest.find("/*") {
        out.push_str(&rest[..at]);
        out.push(' ');
        rest = rest[at..].find("*/").map_or("", |end| &rest[at + end + 2..]);
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_and_urls() {
        let css = "/* url(no.png) */ @import url(\"a.css\") screen; @IMPORT 'b.css';\n.x{background:URL( c.png )}\
                   @font-face{src:url(f.woff2?v=1) format('woff2'),url('f.ttf')} .y{background:url(data:image/png;base64,AA)}";
        let seen: Vec<String> =
            references(css).iter().map(|(text, kind)| format!("{} {text}", kind.name())).collect();
        assert_eq!(seen, ["style a.css", "style b.css", "image c.png"]);
    }

    #[test]
    fn broken_sheets_harm_nobody() {
        for broken in [
            "url(",
            "@import",
            "url('",
            "@import url(",
            "/*",
            "url(\u{e4})",
            "@import \u{e4}",
            "URL(a",
            "@import '",
        ] {
            references(broken);
        }
    }

    #[test]
    fn fonts_are_offered_and_named() {
        let css = "@font-face { font-family: 'My Font'; src: local(x), url(a.eot) format('embedded-opentype'), url(a.woff2) format('woff2') }
            @font-face{font-family:Far;src:url(f.woff);unicode-range:U+0400-04FF} @font-face{font-family:Near;src:url(n.woff);unicode-range:U+0-FF}
            @font-face{font-family:In;src:url(data:font/woff2;base64,AA)} p { font: bold 12px \"My Font\", serif } b{color:red;font-family:Near}";
        let (faces, families) = fonts(css);
        let faces: Vec<(&str, &str)> =
            faces.iter().map(|face| (face.family.as_str(), face.url.as_str())).collect();
        assert_eq!(faces, [("my font", "a.woff2"), ("near", "n.woff")]);
        let families: Vec<(&str, &str)> =
            families.iter().map(|named| (named.selector.as_str(), named.families.trim())).collect();
        assert_eq!(families, [("p", "bold 12px \"my font\", serif"), ("b", "near")]);
        let inline = fonts("color:red;font-family:Own").1;
        assert_eq!((inline[0].selector.as_str(), inline[0].families.as_str()), ("", "own"));
        assert_eq!(fonts("@font-face{"), (Vec::new(), Vec::new()));
    }

    #[test]
    fn rules_for_classes_that_no_element_has_name_no_font() {
        let classes = HashSet::from(["there".to_owned(), "Too".to_owned()]);
        for (selector, may) in [
            ("", true),
            ("body", true),
            (".there", true),
            ("p.there > b.Too:hover", true),
            (".there.missing", false),
            (".missing, h1", true),
            (".missing, .other", false),
            ("p:not(.missing)", true),
            (".there:is(.missing, .Too)", true),
            (".too", false),
            (".esc\\:aped", true),
            ("((", true),
        ] {
            let named = Named { selector: selector.to_owned(), families: String::new() };
            assert_eq!(named.may_match(&classes), may, "{selector}");
        }
        let css = "@media screen { .missing { color: red; font-family: A } b { font: 1px B } } .x{} i { font-family: C }";
        let named: Vec<String> =
            fonts(css).1.into_iter().filter(|one| one.may_match(&classes)).map(|one| one.families).collect();
        assert_eq!(named, [" 1px b ", " c "]);
    }
}
