//! `server ADDRESS …;` in an `upstream` block.

use crate::limits::{SERVER_ROUTE_BYTES_MAX, UNIX_PATH_BYTES_MAX};
use brisk_balance::{Endpoint, Method, ServerSpec};
use brisk_conf::{Context, Diag, Directive, Token, value};
use brisk_server::conf::{Cx, invalid_parameter};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// A server and what is still to be found out about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Server {
    pub spec: ServerSpec,
    /// A name that had no address at the start: it is asked for again.
    pub unknown: Option<String>,
    pub port: u16,
    /// `role=primary`: of databases that are equal, the one that takes the writes first.
    pub is_primary: bool,
}

/// An address as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Unix(PathBuf),
    Ip(IpAddr, Option<u16>),
    Name(String, Option<u16>),
}

/// Reads `HOST[:PORT]`, `[IPV6]:PORT` or `unix:PATH`; the error is nginx's reason.
pub(super) fn place(text: &str) -> Result<Place, &'static str> {
    // `get`, since a name may have a character of several bytes there.
    if text.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("unix:")) {
        let path = &text[5..];
        return match path.len() {
            0 => Err("no path in the unix domain socket"),
            // More does not fit into sockaddr_un, which connect(2) would find out for each request.
            1..=UNIX_PATH_BYTES_MAX => Ok(Place::Unix(path.into())),
            _ => Err("too long path in the unix domain socket"),
        };
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or("invalid host")?;
            match after.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if after.is_empty() => (host, None),
                None => return Err("invalid host"),
            }
        }
        // An IPv6 address must stand in brackets: where its port begins could not be told.
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.is_empty() {
        return Err("no host");
    }
    let port = match port {
        None => None,
        Some(port) => Some(port.parse::<u16>().ok().filter(|&port| port > 0).ok_or("invalid port")?),
    };
    match host.parse::<IpAddr>() {
        Ok(ip) => Ok(Place::Ip(ip, port)),
        // In brackets nothing but an IPv6 address is allowed (RFC 3986 §3.2.2).
        Err(_) if text.starts_with('[') => Err("invalid IPv6 address"),
        Err(_) if host.bytes().any(|b| b == b'/' || b.is_ascii_whitespace()) => Err("invalid host"),
        Err(_) => Ok(Place::Name(host.to_string(), port)),
    }
}

/// Endpoints of a name that is looked up now; `None` if it has none, which is worth a warning.
pub(super) fn look_up(cx: &mut Cx<'_, '_>, token: &Token, host: &str, port: u16) -> Option<Vec<Endpoint>> {
    match cx.global.loader.addresses(host) {
        Ok(found) if !found.is_empty() => {
            Some(found.into_iter().map(|ip| Endpoint::Ip(SocketAddr::new(ip, port))).collect())
        }
        _ => {
            let text = token.text();
            // A warning, where nginx does not start: a name server that is away for a moment must not keep a
            // server from coming up. The name is asked for again.
            cx.warn(
                Diag::warn(token.span, format!("host not found in upstream \"{text}\"")).help(format!(
                    "neither DNS nor an upstream block knows \"{host}\"; requests for it are answered with 502 until one does"
                )),
            );
            None
        }
    }
}

/// Reads the directive; `method` is the block's, which not every parameter goes with.
pub(super) fn read(cx: &mut Cx<'_, '_>, d: &Directive, method: Method) -> Result<Server, Diag> {
    let token = d.arg(0);
    let mut spec = ServerSpec::new(token.str(), Vec::new());
    let (mut resolve, mut is_primary) = (false, false);
    for parameter in &d.args[1..] {
        if parameter.str() == "role=primary" && cx.block == Context::STREAM_UPSTREAM {
            is_primary = true;
        } else {
            self::parameter(&mut spec, &mut resolve, parameter, method)?;
        }
    }
    let server = locate(cx, token, spec, resolve)?;
    Ok(Server { is_primary, ..server })
}

fn parameter(spec: &mut ServerSpec, resolve: &mut bool, token: &Token, method: Method) -> Result<(), Diag> {
    let text = token.str();
    let invalid = || invalid_parameter(token);
    let unsupported = |known: bool| {
        let text = format!("balancing method does not support parameter \"{text}\"");
        let help = "remove it, or choose another method, such as least_conn";
        if known { Ok(()) } else { Err(Diag::emerg(token.span, text).help(help)) }
    };
    // The parser of the standard library takes a sign, nginx does not.
    let number = |text: &str| text.parse::<u32>().ok().filter(|_| !text.starts_with('+')).ok_or_else(invalid);
    match text.split_once('=') {
        Some(("weight", count)) => spec.weight = number(count)?.clamp(1, 65_535),
        Some(("max_conns", count)) => spec.max_conns = number(count)?,
        Some(("max_fails", count)) => spec.max_fails = number(count)?,
        Some(("fail_timeout", time)) => {
            spec.fail_timeout_secs = value::parse_time(time.as_bytes(), true).ok_or_else(invalid)?;
        }
        Some(("slow_start", time)) => {
            // With hashes the choice follows from the key alone: a smaller share cannot be given.
            unsupported(method.knows_slow_start())?;
            spec.slow_start_ms = value::parse_time(time.as_bytes(), false).ok_or_else(invalid)?;
        }
        Some(("route", "")) => {
            return Err(Diag::emerg(token.span, "route is empty").help("write route=NAME, or leave it out"));
        }
        Some(("route", route)) if route.len() > SERVER_ROUTE_BYTES_MAX => {
            return Err(Diag::emerg(token.span, format!("route is longer than {SERVER_ROUTE_BYTES_MAX}"))
                .help("choose a shorter name"));
        }
        Some(("route", route)) => spec.route = Some(route.into()),
        Some(("service", "")) => {
            return Err(
                Diag::emerg(token.span, "service is empty").help("write the SRV record's: service=http")
            );
        }
        Some(("service", service)) => spec.service = Some(service.into()),
        None if text == "backup" => {
            unsupported(method.knows_backup())?;
            spec.backup = true;
        }
        None if text == "down" => spec.down = true,
        None if text == "drain" => spec.drain = true,
        None if text == "resolve" => *resolve = true,
        _ => return Err(invalid()),
    }
    if text == "weight=0" {
        return Err(invalid());
    }
    Ok(())
}

/// Finds out where a server is, as far as that can be known now.
pub(super) fn locate(
    cx: &mut Cx<'_, '_>,
    token: &Token,
    mut spec: ServerSpec,
    resolve: bool,
) -> Result<Server, Diag> {
    let text = token.text();
    let fail = |message: String| Err(Diag::emerg(token.span, message));
    if spec.service.is_some() && !resolve {
        return fail(format!("service upstream \"{text}\" requires \"resolve\" parameter"));
    }
    // Addresses that the configuration spells out are those that variables may lead to.
    cx.names().spelled().note(token.bytes());
    let place = match place(token.str()) {
        Ok(place) => place,
        Err(why) => {
            return fail(format!("{why} in upstream \"{text}\"")).map_err(|diag| {
                match text.split_once("://") {
                    Some((_, rest)) => {
                        diag.help(format!("a server of an upstream stands without a scheme: {rest}"))
                    }
                    None => diag.help("write HOST, HOST:PORT or unix:/PATH"),
                }
            });
        }
    };
    let is_service = spec.service.is_some();
    // HTTP's port, also for gateways, as in nginx; sessions of `stream` have none that would be usual.
    let (mut unknown, mut port) = (None, 80);
    if let Place::Ip(_, None) | Place::Name(_, None) = place
        && crate::stream::part::is_in_stream(cx.block)
        && !is_service
    {
        return fail(format!("no port in upstream \"{text}\"")).map_err(|diag| diag.help("write HOST:PORT"));
    }
    match place {
        Place::Ip(_, Some(_)) | Place::Name(_, Some(_)) if is_service => {
            return fail(format!("service upstream \"{text}\" may not have port"));
        }
        Place::Ip(..) | Place::Unix(_) if is_service => {
            return fail(format!("service upstream \"{text}\" requires domain name"));
        }
        Place::Unix(path) => spec.endpoints = vec![Endpoint::Unix(path)],
        Place::Ip(ip, own) => spec.endpoints = vec![Endpoint::Ip(SocketAddr::new(ip, own.unwrap_or(port)))],
        Place::Name(host, own) => {
            port = own.unwrap_or(port);
            if resolve {
                // Not looked up now: the first answer comes from the resolver, with its TTL, when the server
                // runs.
                spec.host = Some(host.into());
            } else {
                match look_up(cx, token, &host, port) {
                    Some(endpoints) => spec.endpoints = endpoints,
                    None => unknown = Some(host),
                }
            }
        }
    }
    Ok(Server { spec, unknown, port, is_primary: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let check = |text: &str, want: Result<Place, &'static str>| assert_eq!(place(text), want, "{text}");
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        check("127.0.0.1", Ok(Place::Ip(ip("127.0.0.1"), None)));
        check("127.0.0.1:81", Ok(Place::Ip(ip("127.0.0.1"), Some(81))));
        check("[::1]:81", Ok(Place::Ip(ip("::1"), Some(81))));
        check("a.example:81", Ok(Place::Name("a.example".into(), Some(81))));
        check("unix:/tmp/s", Ok(Place::Unix("/tmp/s".into())));
        check("unix:", Err("no path in the unix domain socket"));
        check(&format!("unix:/{}", "x".repeat(200)), Err("too long path in the unix domain socket"));
        check(":80", Err("no host"));
        check("a:x", Err("invalid port"));
        check("a:0", Err("invalid port"));
        check("[::1", Err("invalid host"));
        check("[a]:80", Err("invalid IPv6 address"));
        check("a/b", Err("invalid host"));
    }
}
