//! When requests are purges: nginx Plus's conditions, and the two forms that the module ngx_cache_purge has made common.

use brisk_conf::cidr::Cidr;
use brisk_conf::{Diag, Directive, Span, Token};
use brisk_server::conf::{Cx, invalid_parameter};
use brisk_server::request::Request;
use brisk_server::vars::{Template, is_set};
use std::sync::Arc;

/// Everything that the `*_cache_purge` of a block come to.
#[derive(Clone, Default)]
pub struct Purging {
    /// Strings of which one that is neither empty nor "0" makes a request a purge.
    pub conditions: Vec<Arc<Template>>,
    method: Option<Method>,
    /// Every request of this very location is one.
    pub key: Option<Key>,
    /// Where it is written, if it is in this very block.
    pub span: Option<Span>,
}

/// A method, and the networks from which it may be used; none: all.
#[derive(Clone)]
struct Method {
    name: Box<[u8]>,
    from: Arc<[Cidr]>,
}

/// A zone, and the key that is removed from it.
#[derive(Clone)]
pub struct Key {
    /// The name of the cache.
    pub zone: Token,
    /// What is removed.
    pub key: Arc<Template>,
}

/// What a request that is a purge gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// 204, as from nginx Plus.
    Quietly,
    /// A page, as from ngx_cache_purge.
    Page,
    /// The method is not for this client.
    Refused,
}

impl Purging {
    /// Reads one directive.
    pub fn read(&mut self, cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
        if cx.first {
            *self = Purging { span: Some(d.arg(0).span), ..Purging::default() };
        }
        let first = d.arg(0);
        // A constant word is a method, a zone or a switch; everything else is a condition, as in nginx Plus.
        let is_word = cx.template(first)?.is_literal() && !matches!(first.bytes(), b"" | b"0" | b"1");
        match &d.args[1..] {
            [from, networks @ ..] if is_word && from.bytes() == b"from" => {
                self.method = Some(Method { name: method(first), from: read_networks(from, networks)? });
            }
            [] if first.bytes() == b"off" => *self = Purging { span: self.span, ..Purging::default() },
            // Upper case alone: a zone's name in capitals without a key would not be one either.
            [] if first.bytes() == b"on" || (is_word && first.bytes().iter().all(u8::is_ascii_uppercase)) => {
                self.method = Some(Method { name: method(first), from: Arc::default() });
            }
            [key] if is_word => {
                self.key = Some(Key { zone: first.clone(), key: Arc::new(cx.template(key)?) });
            }
            _ => {
                for token in &d.args {
                    self.conditions.push(Arc::new(cx.template(token)?));
                }
            }
        }
        Ok(())
    }

    /// Whether a request is a purge.
    pub fn of(&self, r: &Request) -> Option<Asked> {
        if !self.conditions.is_empty() && self.conditions.iter().any(|condition| condition.holds(r)) {
            return Some(Asked::Quietly);
        }
        // The method as the client has sent it: `PURGE` is none that the server knows by number.
        let method = self.method.as_ref().filter(|method| *method.name == *r.method_name())?;
        let is_welcome = method.from.is_empty() || {
            // Of a Unix socket there is no address that a network could contain: it is refused.
            let client = r.client_addr().ip();
            client.is_some_and(|client| method.from.iter().any(|network| network.contains_unmapped(client)))
        };
        Some(if is_welcome { Asked::Page } else { Asked::Refused })
    }

    /// Warns of what cannot be meant. `is_used`: the block has a cache, and passes its requests on.
    pub fn check(&self, cx: &mut Cx<'_, '_>, prefix: &str, is_used: bool) {
        let Some(span) = self.span.filter(|_| self.key.is_none()) else { return };
        let name = format!("{prefix}_cache_purge");
        if self.conditions.iter().any(|text| text.as_literal().is_some_and(is_set)) {
            let text = format!("\"{name}\" with a constant makes every request a purge");
            cx.warn(Diag::warn(span, text).help(format!(
                "write a condition ({name} $purge_method;), a method (PURGE from 127.0.0.1), or a zone and a key"
            )));
        }
        if !is_used {
            cx.warn(
                Diag::notice(span, format!("\"{name}\" has no effect without \"{prefix}_cache\" and a pass"))
                    .help(format!("here a zone and a key are needed: {name} ZONE \"KEY\";")),
            );
        }
    }
}

fn method(token: &Token) -> Box<[u8]> {
    if token.bytes() == b"on" { b"PURGE"[..].into() } else { token.bytes().into() }
}

/// What stands behind `from`.
fn read_networks(from: &Token, tokens: &[Token]) -> Result<Arc<[Cidr]>, Diag> {
    if tokens.is_empty() {
        return Err(Diag::emerg(from.span, "nobody may use it").help("write all, or addresses, behind from"));
    }
    if let [all] = tokens
        && all.bytes() == b"all"
    {
        // Empty stands for all: what names no network says so with a word.
        return Ok(Arc::default());
    }
    let network = |token: &Token| Cidr::parse(token.bytes()).map(|parsed| parsed.cidr);
    tokens.iter().map(|token| network(token).ok_or_else(|| invalid_parameter(token))).collect()
}
