//! `resolver` and `resolver_timeout`.

use crate::conf::cx::Cx;
use crate::core::http_conf::CoreConf;
use brisk_conf::{Diag, Directive, Token, value};
use brisk_resolver::{Config, Resolver};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The setter in `http`, `server` and `location`.
pub fn set(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let resolver = parse(cx, &d.args)?;
    cx.conf::<CoreConf>().resolver = Some(resolver);
    Ok(())
}

/// Reads name servers and parameters.
pub fn parse(cx: &mut Cx<'_, '_>, tokens: &[Token]) -> Result<Arc<Resolver>, Diag> {
    // Each `resolver` begins anew: parameters of an outer one are not inherited one by one, as in nginx.
    // Both families, as nginx asks by default since it knows IPv6.
    let mut config = Config { servers: Vec::new(), valid_secs: None, ipv4: true, ipv6: true };
    for token in tokens {
        let text = token.str();
        let invalid = || Diag::emerg(token.span, format!("invalid parameter: {text}"));
        if let Some(time) = text.strip_prefix("valid=") {
            config.valid_secs = Some(value::parse_time(time.as_bytes(), true).ok_or_else(invalid)?);
        } else if let Some(flag) = text.strip_prefix("ipv4=") {
            config.ipv4 = on_or_off(flag).ok_or_else(invalid)?;
        } else if let Some(flag) = text.strip_prefix("ipv6=") {
            config.ipv6 = on_or_off(flag).ok_or_else(invalid)?;
        } else {
            // Each address of a name is a server of its own and is asked in turn.
            config.servers.extend(servers(cx, token)?);
        }
    }
    let span = tokens.first().map_or_else(|| unreachable!("the row's arity was checked"), |token| token.span);
    // Every look-up would fail, at run time and one by one.
    if !config.ipv4 && !config.ipv6 {
        return Err(Diag::emerg(span, "\"ipv4\" and \"ipv6\" cannot both be \"off\""));
    }
    if config.servers.is_empty() {
        return Err(Diag::emerg(span, "no name servers defined").help("write: resolver ADDRESS[:PORT] …;"));
    }
    Ok(Arc::new(Resolver::new(config)))
}

fn on_or_off(text: &str) -> Option<bool> {
    match text {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

/// A name server's addresses.
fn servers(cx: &mut Cx<'_, '_>, token: &Token) -> Result<Vec<SocketAddr>, Diag> {
    let text = token.str();
    let fail = |why: &str| Diag::emerg(token.span, format!("{why} in resolver \"{text}\""));
    // First, as only this form can hold colons of both kinds: `[::1]:53`.
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(vec![address]);
    }
    // An IPv6 address may stand in brackets without a port.
    if let Ok(ip) = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, 53)]);
    }
    let (host, port) = match text.rsplit_once(':') {
        None => (text, 53),
        Some((host, port)) => {
            // Port 0 is no port: a query would be refused by the kernel, each time.
            (host, port.parse().ok().filter(|&port| port > 0).ok_or_else(|| fail("invalid port"))?)
        }
    };
    if host.is_empty() {
        return Err(fail("no host"));
    }
    // A name server by name is looked up once, by the system's resolver: asking itself for its own address would be a circle.
    let found = cx.global.loader.addresses(host).map_err(|_| fail("host not found"))?;
    Ok(found.into_iter().map(|ip| SocketAddr::new(ip, port)).collect())
}
