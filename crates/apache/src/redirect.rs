//! `Redirect`, `RedirectMatch` and their relatives.

use crate::expr::{Evaluation, Place, Text};
use crate::{Captures, Facts, Origin, Pattern, Patterns, Stop, escape};

/// One line.
#[derive(Debug)]
pub struct Redirect<P> {
    status: u16,
    source: Source<P>,
    target: Option<Target>,
    origin: Origin,
}

#[derive(Debug)]
enum Source<P> {
    /// All of a `<Location>`, which the line stands in.
    Whole,
    Prefix(Vec<u8>),
    Pattern(P),
}

#[derive(Debug)]
enum Target {
    Url(Vec<u8>),
    Expression(Text),
}

/// Which directive it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `Redirect`, with 302 unless it says something else.
    Redirect,
    /// `RedirectPermanent`: 301.
    Permanent,
    /// `RedirectTemp`: 302.
    Temporary,
    /// `RedirectMatch`.
    Match,
}

/// What comes of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A status of its own.
    Status(u16),
    /// A redirect.
    Redirect {
        /// 301, 302, 303, 307, 308.
        status: u16,
        /// The URL, or a path of this server, escaped; the request's query is added unless it has one.
        location: Vec<u8>,
    },
}

fn is_redirect(status: u16) -> bool {
    matches!(status, 300..=303 | 305 | 307 | 308)
}

impl<P> Redirect<P> {
    /// The words of a line. In `<Location>` and `<If>` it may be without a path.
    ///
    /// # Errors
    /// What is wrong with them, in Apache's words.
    pub fn parse(
        kind: Kind,
        words: &[Vec<u8>],
        place: Place,
        may_be_whole: bool,
        patterns: &impl Patterns<Pattern = P>,
    ) -> Result<Redirect<P>, String> {
        let origin = Origin::default();
        let (first, rest) = words.split_first().ok_or("takes one, two or three arguments")?;
        let has_status = matches!(kind, Kind::Redirect | Kind::Match);
        let (status, rest) = match status_of(first).filter(|_| has_status) {
            Some(status) => (status, rest),
            None if words.len() == 3 => return Err("Redirect: invalid first argument (of three)".into()),
            None => (if kind == Kind::Permanent { 301 } else { 302 }, words),
        };
        let expression = |text: &[u8]| {
            let read = Text::parse(text, place).map(Target::Expression);
            read.map_err(|why| {
                format!("Cannot parse redirect expression '{}': {why}", String::from_utf8_lossy(text))
            })
        };
        match rest {
            [url] if may_be_whole && is_redirect(status) => {
                return Ok(Redirect {
                    status,
                    source: Source::Whole,
                    target: Some(expression(url)?),
                    origin,
                });
            }
            [] if may_be_whole && !is_redirect(status) => {
                return Ok(Redirect { status, source: Source::Whole, target: None, origin });
            }
            _ => {}
        }
        let (path, url) = match rest {
            [path, url] => (path, Some(url)),
            [path] => (path, None),
            _ => return Err("takes one, two or three arguments".into()),
        };
        let target = match (url, is_redirect(status)) {
            (None, true) => return Err("URL to redirect to is missing".into()),
            (Some(_), false) => return Err("Redirect URL not valid for this status".into()),
            (Some(url), true) if kind != Kind::Match && !is_url(url) && !url.starts_with(b"/") => {
                return Err("Redirect to non-URL".into());
            }
            (url, _) => url.map(|url| Target::Url(url.clone())),
        };
        let source = match kind {
            Kind::Match => {
                let compiled = patterns.compile(path, false);
                Source::Pattern(
                    compiled.map_err(|why| format!("Regular expression could not be compiled: {why}"))?,
                )
            }
            _ => Source::Prefix(path.clone()),
        };
        Ok(Redirect { status, source, target, origin })
    }
}

impl<P> Redirect<P> {
    /// The same, of this line.
    #[must_use]
    pub fn from(self, origin: Origin) -> Redirect<P> {
        Redirect { origin, ..self }
    }

    /// Where the line stands.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }
}

fn status_of(word: &[u8]) -> Option<u16> {
    match word.to_ascii_lowercase().as_slice() {
        b"permanent" => Some(301),
        b"temp" => Some(302),
        b"seeother" => Some(303),
        b"gone" => Some(410),
        [b'1'..=b'5', rest @ ..] if rest.len() == 2 => std::str::from_utf8(word).ok()?.parse().ok(),
        _ => None,
    }
}

fn is_url(text: &[u8]) -> bool {
    let scheme = text.iter().position(|byte| !(byte.is_ascii_alphanumeric() || b"+-.".contains(byte)));
    scheme.is_some_and(|end| end > 0 && text[end..].starts_with(b"://") && text.len() > end + 3)
}

impl<P: Pattern> Redirect<P> {
    /// What the line makes of a request for the path `uri`, which is decoded; `None` if it is not for it.
    ///
    /// # Errors
    /// A fact is to come, or a pattern cannot be tried.
    pub fn answer(&self, uri: &[u8], facts: &dyn Facts) -> Result<Option<Answer>, Stop> {
        facts.spend(uri.len() + crate::limits::LINE_WORK_BYTES)?;
        let location = match (&self.source, &self.target) {
            (Source::Whole, Some(Target::Expression(text))) => {
                Some(escaped_outside_query(&Evaluation::new(facts).text(text)?))
            }
            (Source::Whole, _) => None,
            (Source::Prefix(prefix), target) => {
                let Some(matched) = prefix_length(uri, prefix) else { return Ok(None) };
                target.as_ref().map(|target| [target.url(), &escape::uri(&uri[matched..])].concat())
            }
            (Source::Pattern(pattern), target) => {
                let Some(spans) = pattern.find(uri)? else { return Ok(None) };
                let mut captures = Captures::default();
                captures.set(uri, spans);
                let url =
                    target.as_ref().map(|target| captures.substituted(target.url(), facts)).transpose()?;
                url.map(|url| escaped_outside_query(&url))
            }
        };
        Ok(Some(match location {
            Some(location) => Answer::Redirect { status: self.status, location },
            None => Answer::Status(self.status),
        }))
    }
}

impl Target {
    fn url(&self) -> &[u8] {
        match self {
            Target::Url(url) => url,
            Target::Expression(_) => &[],
        }
    }
}

/// Escapes a URL's path; its query and its fragment stay as they are.
fn escaped_outside_query(url: &[u8]) -> Vec<u8> {
    let start =
        if is_url(url) { url.iter().position(|&byte| byte == b':').map_or(0, |colon| colon + 3) } else { 0 };
    let end =
        url[start..].iter().position(|byte| matches!(byte, b'?' | b'#')).map_or(url.len(), |at| start + at);
    [&url[..start], &escape::uri(&url[start..end]), &url[end..]].concat()
}

/// How much of a path an alias covers: whole segments, any number of slashes for any number.
pub fn prefix_length(uri: &[u8], prefix: &[u8]) -> Option<usize> {
    let slashes = |text: &[u8]| text.iter().take_while(|&&byte| byte == b'/').count();
    let (mut u, mut p) = (0, 0);
    while let Some(&byte) = prefix.get(p) {
        if byte == b'/' {
            let count = slashes(&uri[u..]);
            if count == 0 {
                return None;
            }
            u += count;
            p += slashes(&prefix[p..]);
        } else {
            if uri.get(u) != Some(&byte) {
                return None;
            }
            u += 1;
            p += 1;
        }
    }
    let is_whole = prefix.ends_with(b"/") || matches!(uri.get(u), None | Some(b'/'));
    (is_whole && !prefix.is_empty()).then_some(u)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Variable;
    use crate::syntax::Words;
    use crate::testing::{Request, Rust};

    fn answer(kind: Kind, line: &str, uri: &str) -> Result<String, String> {
        let words: Vec<_> = Words(line.as_bytes()).collect();
        let redirect = Redirect::parse(kind, &words, Place::Override, true, &Rust)?;
        let mut request = Request::default();
        request.variables.push((Variable::RequestUri, uri.into()));
        Ok(match redirect.answer(uri.as_bytes(), &request).unwrap() {
            None => "-".into(),
            Some(Answer::Status(status)) => status.to_string(),
            Some(Answer::Redirect { status, location }) => {
                format!("{status} {}", String::from_utf8_lossy(&location))
            }
        })
    }

    #[test]
    fn lines() {
        use Kind::{Match, Permanent, Redirect, Temporary};
        for (kind, line, uri, wanted) in [
            (Redirect, "/a http://b.org/c", "/a/d e", "302 http://b.org/c/d%20e"),
            (Redirect, "/a http://b.org/c", "/ab", "-"),
            (Redirect, "301 /a /c", "/a", "301 /c"),
            (Redirect, "permanent /a /c", "//a/x", "301 /c/x"),
            (Redirect, "seeother /a/ /c/", "/a/x", "303 /c/x"),
            (Redirect, "gone /a", "/a/b", "410"),
            (Redirect, "404 /a", "/a", "404"),
            (Redirect, "http://b.org%{REQUEST_URI}", "/x y", "302 http://b.org/x%20y"),
            (Redirect, "403", "/x", "403"),
            (Permanent, "/a http://b.org/", "/a", "301 http://b.org/"),
            (Temporary, "/a http://b.org/", "/a", "302 http://b.org/"),
            (
                Match,
                "^/(.*)\\.gif$ http://b.org/$1.png?x=\\$1",
                "/a b.gif",
                "302 http://b.org/a%20b.png?x=$1",
            ),
            (Match, "404 /\\.git", "/x/.git/config", "404"),
            (Match, "301 ^/a$ /b", "/a", "301 /b"),
        ] {
            assert_eq!(answer(kind, line, uri).as_deref(), Ok(wanted), "{line} for {uri}");
        }
        for (kind, line, wanted) in [
            (Redirect, "often /a /b", "Redirect: invalid first argument (of three)"),
            (Redirect, "/a b", "Redirect to non-URL"),
            (Redirect, "gone /a /b", "Redirect URL not valid for this status"),
            (Permanent, "/a", "Cannot parse redirect"),
            (Match, "301 ( /b", "Regular expression could not be compiled"),
        ] {
            if kind == Permanent {
                // One argument is the target of a whole location.
                assert_eq!(answer(kind, line, "/x").as_deref(), Ok("301 /a"));
                continue;
            }
            let error = answer(kind, line, "/").expect_err(line);
            assert!(error.starts_with(wanted), "{line}: {error}");
        }
    }
}
