//! `proxy_cookie_domain`, `proxy_cookie_path`, `proxy_cookie_flags`.
//!
//! The cookie itself, its first part, is never changed: rules are about attributes.

use super::redirect::{Rewrite, rewrite as rewrite_prefix, rewrite_domain};
use brisk_conf::{Diag, Token};
use brisk_server::conf::Cx;
use brisk_server::regex::Regex;
use brisk_server::request::Request;
use brisk_server::vars::Template;
use std::sync::Arc;

#[derive(Clone)]
enum Name {
    Text(Template),
    Regex(Arc<Regex>),
}

/// `proxy_cookie_flags NAME FLAG …`.
#[derive(Clone)]
pub(super) struct CookieFlags {
    name: Name,
    flags: Vec<Template>,
}

impl CookieFlags {
    /// Reads a rule: `name` is a text, or a regular expression after `~`.
    pub fn parse(cx: &mut Cx<'_, '_>, name: &Token, flags: &[Token]) -> Result<CookieFlags, Diag> {
        let name = match name.bytes() {
            [b'~', pattern @ ..] => Name::Regex(Arc::new(cx.regex(name, pattern, true)?)),
            _ => Name::Text(cx.template(name)?),
        };
        let mut list = Vec::new();
        for token in flags {
            let template = cx.template(token)?;
            // A variable may come to an unknown word, which is ignored then: nginx's rule.
            let is_known = |text: &[u8]| FLAGS.iter().any(|flag| flag.as_bytes().eq_ignore_ascii_case(text));
            if template.as_literal().is_some_and(|text| !is_known(text)) {
                return Err(Diag::emerg(token.span, format!("invalid parameter \"{}\"", token.text())));
            }
            list.push(template);
        }
        Ok(CookieFlags { name, flags: list })
    }
}

/// The rules of a block, for cookies in answers.
#[derive(Clone, Default)]
pub(super) struct CookieRules {
    /// `proxy_cookie_domain`.
    pub domains: Arc<Vec<Rewrite>>,
    /// `proxy_cookie_path`.
    pub paths: Arc<Vec<Rewrite>>,
    /// `proxy_cookie_flags`.
    pub flags: Arc<Vec<CookieFlags>>,
}

/// What flags say of one attribute: set it to this, or remove it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Edit {
    secure: Option<bool>,
    http_only: Option<bool>,
    /// Empty: removed.
    same_site: Option<&'static str>,
}

const FLAGS: &[&str] = &[
    "secure",
    "nosecure",
    "httponly",
    "nohttponly",
    "samesite=strict",
    "samesite=lax",
    "samesite=none",
    "nosamesite",
];

impl Edit {
    fn apply(&mut self, flag: &[u8]) {
        let Some(at) = FLAGS.iter().position(|have| have.as_bytes().eq_ignore_ascii_case(flag)) else {
            return;
        };
        match FLAGS[at] {
            "secure" => self.secure = Some(true),
            "nosecure" => self.secure = Some(false),
            "httponly" => self.http_only = Some(true),
            "nohttponly" => self.http_only = Some(false),
            "samesite=strict" => self.same_site = Some("Strict"),
            "samesite=lax" => self.same_site = Some("Lax"),
            "samesite=none" => self.same_site = Some("None"),
            _ => self.same_site = Some(""),
        }
    }
}

/// An attribute of a cookie; the first is its name and value.
struct Attribute {
    key: Vec<u8>,
    value: Option<Vec<u8>>,
}

fn parse(cookie: &[u8]) -> Vec<Attribute> {
    let part = |text: &[u8]| match memchr::memchr(b'=', text) {
        Some(at) => Attribute {
            key: text[..at].trim_ascii().to_vec(),
            value: Some(text[at + 1..].trim_ascii().to_vec()),
        },
        None => Attribute { key: text.trim_ascii().to_vec(), value: None },
    };
    // RFC 6265 §5.2 takes a `Set-Cookie` apart in this way, also where a value has quotes.
    cookie.split(|&b| b == b';').map(part).collect()
}

/// The cookie as the rules change it; `None`: they do not.
pub(super) fn rewrite(rules: &CookieRules, r: &Request, cookie: &[u8]) -> Option<Vec<u8>> {
    // The usual case: the field goes on as it came, without being taken apart.
    if rules.domains.is_empty() && rules.paths.is_empty() && rules.flags.is_empty() {
        return None;
    }
    let mut attributes = parse(cookie);
    // What is not `NAME=VALUE` is passed on as it is.
    attributes.first()?.value.as_ref()?;
    let mut changed = false;
    // The first part is the cookie itself, even if it is called `path`.
    for attribute in &mut attributes[1..] {
        // Flags have none, and no rule here is about them.
        let Some(value) = &attribute.value else { continue };
        let new = if attribute.key.eq_ignore_ascii_case(b"domain") {
            rewrite_domain(&rules.domains, r, value)
        } else if attribute.key.eq_ignore_ascii_case(b"path") {
            rewrite_prefix(&rules.paths, r, value)
        } else {
            None
        };
        if new.is_some() {
            attribute.value = new;
            changed = true;
        }
    }
    let edit = edit_for(rules, r, &attributes[0].key);
    if edit != Edit::default() {
        apply(edit, &mut attributes);
        changed = true;
    }
    // Put together anew only if something has changed: otherwise the back end's own spelling stays.
    changed.then(|| join(&attributes))
}

/// What the first rule for this cookie says.
fn edit_for(rules: &CookieRules, r: &Request, name: &[u8]) -> Edit {
    let fits = |rule: &&CookieFlags| match &rule.name {
        Name::Text(text) => text.eval(r).eq_ignore_ascii_case(name),
        // After an error there is no answer to put the cookie in.
        Name::Regex(regex) => regex.exec(r, name).unwrap_or(false),
    };
    let mut edit = Edit::default();
    if let Some(rule) = rules.flags.iter().find(fits) {
        rule.flags.iter().for_each(|flag| edit.apply(&flag.eval(r)));
    }
    edit
}

fn apply(edit: Edit, attributes: &mut Vec<Attribute>) {
    let drops = |key: &[u8]| {
        edit.secure.is_some() && key.eq_ignore_ascii_case(b"secure")
            || edit.http_only.is_some() && key.eq_ignore_ascii_case(b"httponly")
            || edit.same_site.is_some() && key.eq_ignore_ascii_case(b"samesite")
    };
    let mut at = 0;
    attributes.retain(|attribute| {
        at += 1;
        // The cookie itself stays, even if it is called `secure`.
        at == 1 || !drops(&attribute.key)
    });
    let mut add = |key: &str, value: Option<&str>| {
        attributes.push(Attribute { key: key.into(), value: value.map(|value| value.as_bytes().to_vec()) });
    };
    if edit.secure == Some(true) {
        add("Secure", None);
    }
    if edit.http_only == Some(true) {
        add("HttpOnly", None);
    }
    // Browsers refuse `SameSite=None` without `Secure`; that is for the rule to say.
    if let Some(value) = edit.same_site.filter(|value| !value.is_empty()) {
        add("SameSite", Some(value));
    }
}

fn join(attributes: &[Attribute]) -> Vec<u8> {
    let mut out = Vec::new();
    for (at, attribute) in attributes.iter().enumerate() {
        if at > 0 {
            out.extend_from_slice(b"; ");
        }
        out.extend_from_slice(&attribute.key);
        if let Some(value) = &attribute.value {
            out.push(b'=');
            out.extend_from_slice(value);
        }
    }
    out
}
