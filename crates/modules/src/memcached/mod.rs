//! `ngx_http_memcached_module`: a value of a memcached server is the answer, `$memcached_key` its key.

mod codec;
mod rows;

use crate::limits::MEMCACHED_KEY_BYTES_MAX;
pub use codec::fuzz;

use crate::address::{Address, Schemes};
use brisk_conf::{Diag, Directive, Token};
use brisk_http::Method;
use brisk_http::uri::{Escape, escape};
use brisk_server::conf::Cx;
use brisk_server::core::CoreConf;
use brisk_server::flow::Flow;
use brisk_server::module::{Module, ModuleConf};
use brisk_server::plan::Plan;
use brisk_server::request::Request;
use brisk_server::rlog;
use brisk_server::vars::Template;
use brisk_upstream::codec::Codec;
use brisk_upstream::conf::{PassConf, Settings};
use brisk_upstream::engine::Engine;
use brisk_upstream::origin::Ask;
use brisk_upstream::protocol::{BodyShape, Protocol, Target};
use codec::{Get, Memcached};
use std::rc::Rc;
use std::sync::Arc;

pub static MODULE: Module = Module {
    name: "memcached",
    rows: rows::ROWS,
    conf: initial,
    install: Some(install),
    idle_by_default: true,
    ..Module::EMPTY
};

const SCHEMES: Schemes = Schemes { plain: "memcached://", tls: None };

/// Connections that speak this serve no other protocol.
const DIALECT: u8 = 3;

type Conf = PassConf<Pass, Own>;

/// The module's own directives.
#[derive(Clone)]
struct Own {
    /// Bits of a value's flags that mean gzip.
    gzip_flag: u64,
}

/// `memcached_pass`.
#[derive(Clone)]
struct Pass {
    address: Address,
    /// `$memcached_key`, which the configuration sets.
    key: Arc<Template>,
}

/// Before any directive.
fn initial() -> Arc<dyn ModuleConf> {
    // Nothing of the request is passed on, and values are as large as the client takes them.
    let mut settings = Settings::new(&[], "memcached_temp");
    settings.buffering = false;
    settings.pass_request_body = false;
    settings.pass_request_headers = false;
    settings.intercept_404 = true;
    settings.force_ranges = true;
    Arc::new(Conf::new(settings, Own { gzip_flag: 0 }))
}

/// The setter of `memcached_pass`.
fn pass(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let address = Address::parse(cx, d, &SCHEMES)?;
    let key = Token { value: b"$memcached_key"[..].into(), span: d.arg(0).span, quoted: false };
    let key = Arc::new(cx.template(&key)?);
    cx.conf::<Conf>().pass = Some(Pass { address, key });
    Ok(())
}

fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    let conf = cx.conf_of::<Conf>();
    let Some(pass) = conf.pass.clone() else { return };
    let core = cx.conf_of::<CoreConf>();
    plan.auto_redirect |= core.location_text.ends_with(b"/") && !core.location_is_regex;
    let location = Location { settings: conf.settings.clone(), pass, gzip_flag: conf.module.gzip_flag };
    let engine = Arc::new(Engine::new(location));
    plan.content = Some(Arc::new(move |r: &mut Request| {
        if !matches!(r.route.method, Method::Get | Method::Head) {
            return Flow::Status(405);
        }
        r.set_content_type_by_extension();
        engine.handle(r)
    }));
}

/// One location.
struct Location {
    settings: Settings,
    pass: Pass,
    gzip_flag: u64,
}

impl Location {
    /// The key with everything escaped that would end it or the question. The error is what the request ends with.
    fn key(&self, r: &Request) -> Result<Rc<[u8]>, Flow> {
        let plain = self.pass.key.eval(r);
        if plain.is_empty() {
            rlog!(r, Error, "the \"$memcached_key\" variable is not set");
            return Err(Flow::Status(500));
        }
        let mut key = Vec::with_capacity(plain.len());
        escape(Escape::MemcachedKey, &plain, &mut key);
        if key.len() > MEMCACHED_KEY_BYTES_MAX {
            // The server would call it an error, and clients could put it out of service with long URIs.
            rlog!(r, Info, "the key of {} bytes is longer than memcached allows", key.len());
            return Err(Flow::Status(404));
        }
        Ok(key.into())
    }
}

impl Protocol for Location {
    /// The key.
    type Way = Rc<[u8]>;

    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn target(&self, r: &mut Request, _: &Ask) -> Result<Target<Rc<[u8]>>, Flow> {
        let key = self.key(r)?;
        let found = self.pass.address.find(r, &SCHEMES)?;
        Ok(Target { peers: found.peers, tls: None, scheme: found.scheme, uri: Rc::default(), way: key })
    }

    fn codec(&self, r: &Request, key: &Rc<[u8]>, _: &Ask, _: BodyShape) -> Result<Box<dyn Codec>, Flow> {
        Ok(Box::new(Memcached::new(Get {
            key: key.clone(),
            is_head: r.route.method == Method::Head,
            gzip_flag: self.gzip_flag,
        })))
    }

    fn dialect(&self) -> u8 {
        DIALECT
    }
}

#[cfg(test)]
mod tests {
    use crate::check::{http, refused};

    #[test]
    fn addresses_that_cannot_be_and_keys_that_are_not_set_are_refused() {
        refused(&[
            (
                "server { set $memcached_key $uri; location / { memcached_pass 127.0.0.1; } }",
                "no port in upstream \"127.0.0.1\"",
            ),
            ("server { location / { memcached_pass 127.0.0.1:1; } }", "unknown \"memcached_key\" variable"),
            ("memcached_next_upstream http_404;", "invalid value \"http_404\""),
            ("memcached_gzip_flag x;", "\"memcached_gzip_flag\" directive invalid number"),
        ]);
    }

    #[test]
    fn every_directive_is_taken() {
        let text = "memcached_bind 127.0.0.2; memcached_buffer_size 8k; memcached_connect_timeout 1s;
            memcached_gzip_flag 2; memcached_next_upstream not_found invalid_response timeout error;
            memcached_next_upstream_timeout 1s; memcached_next_upstream_tries 2; memcached_read_timeout 1s;
            memcached_send_timeout 1s; memcached_socket_keepalive on;
            upstream u { server 127.0.0.1:1; keepalive 2; }
            server { set $memcached_key $uri; set $a b; location / { memcached_pass u; location /b { }
                if ($args) { set $a 1; } } location /c { memcached_pass memcached://unix:/s; memcached_next_upstream off; } }";
        let locations = http(text).unwrap().locations;
        let handlers: Vec<_> = locations.iter().map(|l| l.plan.content.is_some()).collect();
        assert_eq!(handlers, [false, true, false, true, true]);
    }
}
