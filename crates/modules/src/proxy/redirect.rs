//! `proxy_redirect`, and the rules that `proxy_cookie_domain` and `proxy_cookie_path` have in common with it.

use super::pass::Fixed;
use brisk_conf::{Diag, Token};
use brisk_server::conf::Cx;
use brisk_server::regex::Regex;
use brisk_server::request::Request;
use brisk_server::vars::Template;
use std::sync::Arc;

/// `proxy_redirect`.
#[derive(Clone)]
pub(super) enum Redirects {
    Off,
    /// What follows from `proxy_pass` and the location.
    Default,
    Rules(Arc<Vec<Rewrite>>),
}

#[derive(Clone)]
enum Pattern {
    Text(Template),
    Regex(Arc<Regex>),
}

/// One rule.
#[derive(Clone)]
pub(super) struct Rewrite {
    pattern: Pattern,
    replacement: Template,
}

impl Rewrite {
    /// What `proxy_redirect default` means.
    pub fn default_of(fixed: &Fixed, location: &[u8]) -> Rewrite {
        // Without a URI requests keep theirs, so only scheme and host are replaced; with one the location's prefix stands for it.
        let (from, to) = if fixed.url.uri.is_empty() {
            ([&fixed.text, &b"/"[..]].concat(), b"/".to_vec())
        } else {
            (fixed.text.to_vec(), location.to_vec())
        };
        Rewrite { pattern: Pattern::Text(Template::literal(&from)), replacement: Template::literal(&to) }
    }

    /// `PATTERN REPLACEMENT`; `~` and `~*` begin regular expressions.
    pub fn parse(cx: &mut Cx<'_, '_>, pattern: &Token, replacement: &Token) -> Result<Rewrite, Diag> {
        let pattern = match pattern.bytes() {
            [b'~', b'*', text @ ..] => Pattern::Regex(Arc::new(cx.regex(pattern, text, true)?)),
            [b'~', text @ ..] => Pattern::Regex(Arc::new(cx.regex(pattern, text, false)?)),
            _ => Pattern::Text(cx.template(pattern)?),
        };
        Ok(Rewrite { pattern, replacement: cx.template(replacement)? })
    }

    /// The value with its beginning replaced (all of it, by a regular expression).
    fn prefix(&self, r: &Request, value: &[u8]) -> Option<Vec<u8>> {
        match &self.pattern {
            Pattern::Text(pattern) => {
                let pattern = pattern.eval(r);
                // Compared as bytes, as in nginx: a back end writes its own name as the configuration does.
                let rest = value.strip_prefix(&*pattern)?;
                Some([&self.replacement.eval(r), rest].concat())
            }
            Pattern::Regex(regex) => self.matched(regex, r, value),
        }
    }

    /// What a value becomes that the expression matches. After an error there is no answer to put it in.
    fn matched(&self, regex: &Regex, r: &Request, value: &[u8]) -> Option<Vec<u8>> {
        regex.exec(r, value).ok()?.then(|| self.replacement.eval(r))
    }

    /// A domain: compared as a whole and in any case, without a leading dot, which stays.
    fn domain(&self, r: &Request, value: &[u8]) -> Option<Vec<u8>> {
        match &self.pattern {
            Pattern::Text(pattern) => {
                let (dot, name) =
                    value.strip_prefix(b".").map_or((&b""[..], value), |name| (&b"."[..], name));
                // As a whole: `example.com` must not change `evil-example.com`.
                let same = pattern.eval(r).eq_ignore_ascii_case(name);
                same.then(|| [dot, &self.replacement.eval(r)].concat())
            }
            Pattern::Regex(regex) => self.matched(regex, r, value),
        }
    }

    /// For domains: both may be written with a dot before them; regular expressions ignore case.
    pub fn for_domain(cx: &mut Cx<'_, '_>, pattern: &Token, replacement: &Token) -> Result<Rewrite, Diag> {
        if let [b'~', text @ ..] = pattern.bytes() {
            let pattern = Pattern::Regex(Arc::new(cx.regex(pattern, text, true)?));
            return Ok(Rewrite { pattern, replacement: cx.template(replacement)? });
        }
        let bare = |token: &Token| match token.bytes() {
            [b'.', rest @ ..] => Token { value: rest.into(), ..token.clone() },
            _ => token.clone(),
        };
        let pattern = Pattern::Text(cx.template(&bare(pattern))?);
        Ok(Rewrite { pattern, replacement: cx.template(&bare(replacement))? })
    }
}

/// What the first rule that fits makes of a value.
pub(super) fn rewrite(rules: &[Rewrite], r: &Request, value: &[u8]) -> Option<Vec<u8>> {
    // The first that fits; a rewritten value is not rewritten again.
    rules.iter().find_map(|rule| rule.prefix(r, value))
}

/// The same for a domain.
pub(super) fn rewrite_domain(rules: &[Rewrite], r: &Request, value: &[u8]) -> Option<Vec<u8>> {
    rules.iter().find_map(|rule| rule.domain(r, value))
}
