//! The references in a style sheet: imports and `url()` (CSS Syntax 3 §4.3.6, as far as URLs need it).

use super::html::Kind;
use crate::limits::REFERENCES_MAX;

/// What a style sheet refers to, in order.
pub fn references(css: &str) -> Vec<(String, Kind)> {
    let css = without_comments(css);
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
        assert_eq!(seen, ["style a.css", "style b.css", "image c.png", "font f.woff2?v=1", "font f.ttf"]);
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
}
