//! `auth_jwt`, as nginx Plus has it: signed tokens (RFC 7519) decide who may come in.
//!
//! Encrypted and nested tokens are refused when the configuration is read. What a stranger sends as a token costs at
//! most its bytes in memory and a few public-key operations, and is told nothing but that it was not good.

mod json;
mod keys;
mod rows;
mod source;
mod token;
mod variables;

pub use token::fuzz;

use brisk_http::HeaderId;
use brisk_net::clock;
use brisk_server::flow::Flow;
use brisk_server::metrics::{Counter, Scrape};
use brisk_server::module::{Module, ModuleConf};
use brisk_server::plan::Handler;
use brisk_server::request::Request;
use brisk_server::vars::Template;
use keys::KeySet;
use source::{Asked, KeyFile, Missing};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use variables::Accepted;

/// `auth_jwt`.
pub static MODULE: Module = Module {
    name: "auth_jwt",
    rows: rows::ROWS,
    variables: variables::VARIABLES,
    conf: || Arc::new(Conf::default()),
    install: Some(rows::install),
    metrics: Some(metrics),
    idle_by_default: true,
    ..Module::EMPTY
};

/// Process-wide: it is the ratio of the two that is watched.
static ACCEPTED: Counter = Counter::new();
static REFUSED: Counter = Counter::new();

fn metrics(to: &mut Scrape) {
    let help = "Tokens that auth_jwt has looked at, by outcome.";
    to.counter("brisk_auth_jwt_tokens_total", help, &[("outcome", "accepted")], ACCEPTED.get());
    to.counter("brisk_auth_jwt_tokens_total", help, &[("outcome", "refused")], REFUSED.get());
}

/// One block's configuration.
#[derive(Clone, Default)]
struct Conf {
    realm: Option<Arc<Template>>,
    /// `None`: from `Authorization`.
    token: Option<Arc<Template>>,
    files: Vec<Arc<KeyFile>>,
    requests: Vec<Arc<Template>>,
    requires: Vec<Arc<Require>>,
    leeway_secs: u64,
    cache: Duration,
}

/// `auth_jwt_require`.
struct Require {
    values: Vec<Template>,
    status: u16,
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }
}

/// What a location asks of tokens.
struct AuthJwt {
    realm: Arc<Template>,
    conf: Conf,
}

struct Check(Arc<AuthJwt>);

impl Handler for Check {
    fn identifies(&self) -> bool {
        // A realm with variables may be "off" for some requests.
        self.0.realm.as_literal().is_some()
    }

    fn decides(&self, r: &Request) -> bool {
        self.0.realm.eval(r) != b"off"
    }

    fn handle(&self, r: &mut Request) -> Flow {
        let this = &self.0;
        let realm = this.realm.eval(r);
        if realm == b"off" {
            return Flow::Next;
        }
        // An error of the configuration, and no way in: a token that nothing can be checked against is not
        // good.
        // Going on would let everybody in who sends anything that looks like a token.
        if this.conf.files.is_empty() && this.conf.requests.is_empty() {
            brisk_server::rlog!(r, Error, "no key is configured for auth_jwt");
            return Flow::Status(500);
        }
        let Some(token) = this.token(r) else {
            brisk_server::rlog!(r, Info, "no JWT was provided");
            return challenge(r, &realm, false);
        };
        // Without a future where all keys are at hand, which is nearly always.
        match this.keys(r) {
            Ok(keys) => this.decide(r, &realm, &token, &keys),
            Err(Missing::Flow(flow)) => flow,
            Err(Missing::Wait) => {
                let this = this.clone();
                Flow::Wait(Box::new(move |r| {
                    Box::pin(async move {
                        match this.fetch_keys(r).await {
                            Ok(keys) => this.decide(r, &realm, &token, &keys),
                            Err(flow) => flow,
                        }
                    })
                }))
            }
        }
    }
}

impl AuthJwt {
    fn token(&self, r: &Request) -> Option<Vec<u8>> {
        let token = match &self.conf.token {
            // A variable names the place: a cookie, an argument.
            Some(template) => template.eval(r),
            None => bearer(r.header(HeaderId::Authorization)?)?.to_vec(),
        };
        // An empty value is no token.
        (!token.is_empty()).then_some(token)
    }

    /// The keys, if all are at hand.
    fn keys(&self, r: &mut Request) -> Result<Vec<Arc<KeySet>>, Missing> {
        let mut keys = Vec::new();
        for file in &self.conf.files {
            keys.push(file.keys(r)?);
        }
        for uri in &self.conf.requests {
            // An answer that is kept; asking for one waits.
            let asked = Asked::by(r, uri.eval(r));
            keys.push(source::answered(&asked).ok_or(Missing::Wait)?);
        }
        Ok(keys)
    }

    async fn fetch_keys(&self, r: &mut Request) -> Result<Vec<Arc<KeySet>>, Flow> {
        let mut keys = Vec::new();
        for file in &self.conf.files {
            keys.push(file.fetch(r).await?);
        }
        for uri in &self.conf.requests {
            let asked = Asked::by(r, uri.eval(r));
            keys.push(match source::answered(&asked) {
                Some(keys) => keys,
                None => source::ask(r, asked, self.conf.cache).await?,
            });
        }
        Ok(keys)
    }

    fn decide(&self, r: &mut Request, realm: &[u8], token: &[u8], keys: &[Arc<KeySet>]) -> Flow {
        let now = clock::now().unix_secs;
        match token::verify(token, keys, now, self.conf.leeway_secs) {
            Ok(token) => {
                count(r, &ACCEPTED);
                // Variables of the token's claims read it from there, in subrequests too.
                *r.state.shared.values.get_or(Accepted::default).0.borrow_mut() = Some(Rc::new(token));
            }
            Err(refusal) => {
                count(r, &REFUSED);
                // What an earlier location accepted is not this one's.
                r.state.shared.values.get_or(Accepted::default).0.take();
                brisk_server::rlog!(r, Error, "JWT was refused: {refusal}");
                return challenge(r, realm, true);
            }
        }
        // After the signature: claims of a token that is not good must not be looked at.
        for require in &self.conf.requires {
            if !require.values.iter().all(|value| value.holds(r)) {
                brisk_server::rlog!(
                    r,
                    Error,
                    "JWT was refused: a requirement of auth_jwt_require is not met"
                );
                // 403 says that the token is good and not enough; another one would not be asked for.
                return if require.status == 401 {
                    challenge(r, realm, true)
                } else {
                    Flow::Status(require.status)
                };
            }
        }
        Flow::Allowed
    }
}

/// Counts a verdict, unless it is only asked what it would be.
fn count(r: &Request, counter: &Counter) {
    if !r.route.is_look_up() {
        counter.add(1);
    }
}

/// The token of `Authorization: Bearer` (RFC 6750 §2.1).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(6)?;
    // RFC 9110 §11.1: names of schemes have no case.
    let is_bearer = scheme.eq_ignore_ascii_case(b"bearer") && token.starts_with(b" ");
    is_bearer.then(|| token.trim_ascii())
}

/// The 401 (RFC 6750 §3).
fn challenge(r: &mut Request, realm: &[u8], had_token: bool) -> Flow {
    let why: &[u8] = if had_token { b", error=\"invalid_token\"" } else { b"" };
    r.resp.add("WWW-Authenticate", [b"Bearer realm=\"", realm, b"\"", why].concat());
    Flow::Status(401)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_in_headers() {
        let check = |value: &str, want: Option<&str>| {
            assert_eq!(bearer(value.as_bytes()), want.map(str::as_bytes), "{value}");
        };
        check("Bearer a.b.c", Some("a.b.c"));
        check("bearer   a ", Some("a"));
        check("Bearer ", Some(""));
        check("Bearer", None);
        check("Bearera", None);
        check("Basic YTpi", None);
        check("", None);
    }
}
