//! `sticky`: sessions stay with their back end — by a cookie that we set, by a route in the request, or by what back ends
//! set themselves.
//!
//! It only names the server that a request should go to; whether that one can take it is the balancer's to say.
//! What is in cookies are identifiers of servers (`sid`), never addresses.

use crate::limits::EXPIRES_SECS_MAX;
use brisk_balance::{Lease, Sessions};
use brisk_conf::{Diag, Directive, Token, value};
use brisk_net::clock;
use brisk_server::conf::Cx;
use brisk_server::request::Request;
use brisk_server::text::Text;
use brisk_server::vars::{Template, VarId};
use brisk_server::zone::Zone;
use std::sync::Arc;

/// nginx: `; expires=Thu, 31-Dec-37 23:55:55 GMT; max-age=315360000`.
const FOREVER: &str = "; expires=Thu, 31-Dec-37 23:55:55 GMT; max-age=315360000";
/// A learned session's time, unless said otherwise.
// nginx's default.
const TIMEOUT_MS: u64 = 600_000;

#[derive(Clone)]
pub(super) struct Sticky {
    /// Where a request may tell its session, the first that is there counts.
    lookup: Vec<VarId>,
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    Cookie(Arc<Cookie>),
    Route,
    Learn(Learn),
}

#[derive(Default)]
struct Cookie {
    name: String,
    domain: Option<Template>,
    path: Option<String>,
    expires_secs: Option<u64>,
    http_only: bool,
    secure: bool,
    same_site: Option<Template>,
}

#[derive(Clone)]
struct Learn {
    create: Vec<VarId>,
    timeout_ms: u64,
    /// Declared when the block is complete: which upstream it belongs to is part of its meaning.
    zone: (Token, u64),
    /// Learn as soon as the header is there.
    after_header: bool,
}

/// The `Set-Cookie` of the back end that was chosen last.
struct OwnCookie(Vec<u8>);

fn reason<T>(token: &Token, why: &str) -> Result<T, Diag> {
    Err(Diag::reason(token.span, why))
}

impl Sticky {
    /// Reads the directive.
    pub fn read(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<Sticky, Diag> {
        match d.arg(0).str() {
            "cookie" => cookie(cx, d),
            "route" => {
                let mut lookup = Vec::new();
                for token in &d.args[1..] {
                    let Some(name) = token.str().strip_prefix('$') else {
                        let text = format!("invalid variable name \"{}\"", token.text());
                        return Err(Diag::emerg(token.span, text));
                    };
                    // Variables may be defined further down in the file: a reference is resolved at the end.
                    lookup.push(cx.global.vars.refer(name, Some(token.span)));
                }
                Ok(Sticky { lookup, kind: Kind::Route })
            }
            "learn" => learn(cx, d),
            _ => Err(unknown(d.arg(0))),
        }
    }
}

fn unknown(token: &Token) -> Diag {
    Diag::emerg(token.span, format!("unknown parameter \"{}\"", token.text()))
}

fn cookie(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<Sticky, Diag> {
    let mut cookie = Cookie { name: d.arg(1).str().to_string(), ..Cookie::default() };
    if cookie.name.is_empty() {
        return reason(d.arg(1), "empty cookie name");
    }
    for token in &d.args[2..] {
        let (name, text) = match token.str().split_once('=') {
            Some((name, text)) => (name, Some(text)),
            None => (token.str(), None),
        };
        let is_twice = match name {
            "domain" => cookie.domain.is_some(),
            "path" => cookie.path.is_some(),
            "expires" => cookie.expires_secs.is_some(),
            "httponly" => cookie.http_only,
            "secure" => cookie.secure,
            "samesite" => cookie.same_site.is_some(),
            _ => return Err(unknown(token)),
        };
        // Twice is a mistake, not a correction: nginx refuses it, too.
        if is_twice {
            return reason(token, &format!("parameter \"{name}\" is duplicate"));
        }
        match (name, text) {
            ("domain" | "path", Some("")) => return reason(token, &format!("no value for \"{name}\"")),
            ("domain", Some(text)) => {
                cookie.domain = Some(Template::parse_bytes(&mut cx.global.vars, text.as_bytes(), token)?);
            }
            ("path", Some(text)) => cookie.path = Some(text.to_string()),
            ("expires", Some("max")) => cookie.expires_secs = Some(EXPIRES_SECS_MAX),
            ("expires", Some(text)) => match value::parse_time(text.as_bytes(), true) {
                Some(secs) => cookie.expires_secs = Some(secs),
                None => return reason(token, "invalid \"expires\" parameter value"),
            },
            ("httponly", None) => cookie.http_only = true,
            ("secure", None) => cookie.secure = true,
            ("samesite", Some(text)) => {
                let template = Template::parse_bytes(&mut cx.global.vars, text.as_bytes(), token)?;
                // What a variable comes to is looked at for each request instead.
                if template.as_literal().is_some_and(|text| !is_same_site(text)) {
                    return reason(token, "invalid \"samesite\" parameter value");
                }
                cookie.same_site = Some(template);
            }
            _ => return Err(unknown(token)),
        }
    }
    // The cookie is read as any other: `$cookie_NAME`.
    let variable = format!("cookie_{}", cookie.name);
    let lookup = vec![cx.global.vars.refer(&variable, Some(d.arg(1).span))];
    Ok(Sticky { lookup, kind: Kind::Cookie(Arc::new(cookie)) })
}

fn is_same_site(text: &[u8]) -> bool {
    [&b"strict"[..], b"lax", b"none"].iter().any(|word| text.eq_ignore_ascii_case(word))
}

fn learn(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<Sticky, Diag> {
    let (mut create, mut lookup) = (Vec::new(), Vec::new());
    let (mut zone, mut timeout, mut after_header) = (None, None, false);
    for token in &d.args[1..] {
        match token.str().split_once('=') {
            Some(("zone", _)) if zone.is_some() => return reason(token, "duplicate zone"),
            Some(("zone", text)) => zone = Some(learn_zone(token, text)?),
            Some(("timeout", _)) if timeout.is_some() => return reason(token, "duplicate timeout"),
            Some(("timeout", text)) => {
                timeout = value::parse_time(text.as_bytes(), false).filter(|ms| *ms > 0);
                if timeout.is_none() {
                    return reason(token, "invalid timeout");
                }
            }
            Some((which @ ("create" | "lookup"), text)) => {
                let Some(name) = text.strip_prefix('$') else {
                    return reason(token, &format!("missing variable in the \"{which}\" parameter"));
                };
                let id = cx.global.vars.refer(name, Some(token.span));
                if which == "create" { create.push(id) } else { lookup.push(id) }
            }
            None if token.str() == "header" => after_header = true,
            _ => return Err(unknown(token)),
        }
    }
    let missing = |name: &str| Diag::reason(d.name.span, &format!("\"{name}\" parameter is not specified"));
    if lookup.is_empty() {
        return Err(missing("lookup"));
    }
    if create.is_empty() {
        return Err(missing("create"));
    }
    let zone = zone.ok_or_else(|| missing("zone"))?;
    let timeout_ms = timeout.unwrap_or(TIMEOUT_MS);
    Ok(Sticky { lookup, kind: Kind::Learn(Learn { create, timeout_ms, zone, after_header }) })
}

fn learn_zone(token: &Token, text: &str) -> Result<(Token, u64), Diag> {
    let Some((name, size)) = text.split_once(':') else {
        return reason(token, "zone size is not specified");
    };
    if name.is_empty() {
        return reason(token, "zone name is not specified");
    }
    let part = |text: &str| Token { value: text.as_bytes().into(), span: token.span, quoted: false };
    let Ok(bytes) = value::size(&part(size)) else { return reason(token, "invalid zone size") };
    // nginx's least size of a zone, so that the same configurations are refused.
    if bytes < 8 * 4096 {
        return reason(token, "zone is too small");
    }
    Ok((part(name), bytes))
}

impl Sticky {
    /// Declares the zone of learned sessions.
    pub fn zone(&self, cx: &mut Cx<'_, '_>, upstream: &str) -> Result<Option<Arc<Zone>>, Diag> {
        match &self.kind {
            Kind::Learn(learn) => {
                let (name, bytes) = &learn.zone;
                sessions_zone(cx, name, *bytes, upstream).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// The back end that a request belongs to.
    pub fn own(&self, zone: Option<&Arc<Zone>>, r: &Request) -> Option<Arc<str>> {
        // A client chooses this text. It is only compared with names of servers, or looked up in a table of bounded size.
        let session = first(&self.lookup, r)?;
        match (&self.kind, zone) {
            (Kind::Learn(learn), Some(zone)) => {
                zone.state::<Sessions>().find(&session, learn.timeout_ms, clock::mono_ms())
            }
            // Identifiers of servers are text; anything else belongs to none.
            _ => std::str::from_utf8(&session).ok().map(Into::into),
        }
    }

    /// A back end was chosen: the client is told by a cookie.
    pub fn chosen(&self, r: &mut Request, lease: &Lease) {
        let Kind::Cookie(cookie) = &self.kind else { return };
        let text = cookie.text(r, &lease.peer.sid);
        // After a failed attempt the cookie names another back end.
        let before = r.state.visit.get_mut::<Option<OwnCookie>>().replace(OwnCookie(text.clone()));
        if let Some(OwnCookie(before)) = before {
            r.resp
                .headers
                // By its value: other cookies of the answer stay.
                .retain(|(name, value)| !(name.eq_ignore_ascii_case(b"Set-Cookie") && **value == *before));
        }
        r.resp.add("Set-Cookie", Text::Owned(text));
    }

    /// A back end has answered: what it calls the session is remembered, when its answer is over or at once.
    pub fn answered(&self, zone: Option<&Arc<Zone>>, r: &Request, lease: &Lease) {
        let (Kind::Learn(learn), Some(zone)) = (&self.kind, zone) else { return };
        // A new session is remembered; one that the client has named is only kept alive, so that clients cannot
        // fill the zone with inventions.
        let (session, create) = match first(&learn.create, r) {
            Some(session) => (session, true),
            None => match first(&self.lookup, r) {
                Some(session) => (session, false),
                None => return,
            },
        };
        let learned = Learned {
            zone: zone.clone(),
            session,
            sid: lease.peer.sid.clone(),
            create,
            timeout_ms: learn.timeout_ms,
        };
        if !learn.after_header {
            // Dropped with the lease, when the attempt is over: a back end that dies in its answer has not made
            // a session. With `header` it is dropped, and thereby stored, right here.
            lease.carry(Box::new(learned));
        }
    }
}

/// What is remembered of a session when this is dropped: with the attempt, or at once.
struct Learned {
    zone: Arc<Zone>,
    session: Vec<u8>,
    sid: Arc<str>,
    create: bool,
    timeout_ms: u64,
}

impl Drop for Learned {
    fn drop(&mut self) {
        let sessions = self.zone.state::<Sessions>();
        sessions.learn(&self.session, &self.sid, self.create, self.timeout_ms, clock::mono_ms());
    }
}

/// The first of these variables that has a value.
fn first(variables: &[VarId], r: &Request) -> Option<Vec<u8>> {
    variables.iter().find_map(|id| {
        let mut value = Vec::new();
        (r.var(*id, &mut value) && !value.is_empty()).then_some(value)
    })
}

impl Cookie {
    fn text(&self, r: &Request, sid: &str) -> Vec<u8> {
        let mut out = format!("{}={sid}", self.name).into_bytes();
        match self.expires_secs {
            // A date beyond 2038 is not understood by old clients: `max` is the last one before it, as in
            // nginx.
            Some(EXPIRES_SECS_MAX) => out.extend_from_slice(FOREVER.as_bytes()),
            Some(secs) => {
                let at = clock::now().unix_secs.saturating_add(i64::try_from(secs).unwrap_or(i64::MAX));
                out.extend_from_slice(b"; expires=");
                brisk_http::date::append_cookie(at, &mut out);
                out.extend_from_slice(format!("; max-age={secs}").as_bytes());
            }
            None => {}
        }
        let domain = self.domain.as_ref().map(|domain| domain.eval(r)).unwrap_or_default();
        if !domain.is_empty() {
            out.extend_from_slice(b"; domain=");
            out.extend_from_slice(&domain);
        }
        if self.http_only {
            out.extend_from_slice(b"; httponly");
        }
        if self.secure {
            out.extend_from_slice(b"; secure");
        }
        let same_site = self.same_site.as_ref().map(|template| template.eval(r)).unwrap_or_default();
        if !same_site.is_empty() {
            out.extend_from_slice(b"; samesite=");
            // A word that is none would make browsers ignore the attribute: the strictest is meant to be on the
            // safe side.
            out.extend_from_slice(if is_same_site(&same_site) { &same_site } else { b"strict" });
        }
        if let Some(path) = &self.path {
            out.extend_from_slice(b"; path=");
            out.extend_from_slice(path.as_bytes());
        }
        out
    }
}

/// Which upstream uses a zone of sessions, so that none has two.
fn sessions_zone(cx: &mut Cx<'_, '_>, name: &Token, bytes: u64, upstream: &str) -> Result<Arc<Zone>, Diag> {
    let text = name.str();
    // Sessions of two upstreams in one zone would name servers that the other does not have.
    if let Some(other) = cx.global.named.get(&("sticky", text.to_string())) {
        let other = other.downcast_ref::<String>().map_or("", String::as_str);
        return Err(Diag::emerg(
            name.span,
            format!("sticky zone \"{text}\" is already used in upstream \"{other}\""),
        ));
    }
    cx.global.named.insert(("sticky", text.to_string()), Arc::new(upstream.to_string()));
    let meaning = Token { value: upstream.as_bytes().into(), span: name.span, quoted: false };
    cx.global
        .add_zone("sticky", (text.to_string(), bytes), name, &meaning, |bytes| Arc::new(Sessions::new(bytes)))
}
