//! `listen` in `stream`.

use super::part::part;
use super::sockets::Spec;
use brisk_conf::{Diag, Directive};
use brisk_net::listen::{Address, Options};
use brisk_server::conf::{Cx, invalid_parameter};
use brisk_server::core::listen::{addresses, socket_parameter};

/// The setter.
pub fn listen(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let token = d.arg(0);
    // `listen` of `http` would take port 80.
    if !has_port(token.str()) {
        return Err(Diag::emerg(
            token.span,
            format!("no port in \"{}\" of the \"listen\" directive", token.text()),
        )
        .help("there is no usual port in stream: write ADDRESS:PORT, PORT or unix:/PATH"));
    }
    let found = addresses(cx, token)?;
    let mut options = Options::default();
    let (mut is_udp, mut bind, mut proxy_protocol, mut tls, mut is_default) =
        (false, false, false, false, false);
    for token in &d.args[1..] {
        match token.str() {
            "udp" => is_udp = true,
            "default_server" => is_default = true,
            "proxy_protocol" => proxy_protocol = true,
            "ssl" => tls = true,
            _ if socket_parameter(&found[0], &mut options, token)? => bind = true,
            _ => return Err(invalid_parameter(token)),
        }
    }
    if is_udp && proxy_protocol {
        return Err(Diag::emerg(d.span, "\"proxy_protocol\" parameter is incompatible with \"udp\"")
            .help("remove it: datagrams have no PROXY header"));
    }
    if is_udp && tls {
        return Err(Diag::emerg(d.span, "\"ssl\" parameter is incompatible with \"udp\"")
            .help("remove it: TLS needs TCP"));
    }
    let server = part(cx).servers.len();
    for address in found {
        let address = match (address, is_udp) {
            // Another socket than TCP's at the same address and port: both may be listened on.
            (Address::Ip(ip), true) => Address::Udp(ip),
            (Address::Unix(_), true) => {
                return Err(Diag::emerg(token.span, "a unix socket takes no \"udp\" parameter")
                    .help("remove udp, or listen on ADDRESS:PORT"));
            }
            (address, _) => address,
        };
        let is_twice = part(cx).listens.iter().any(|spec| spec.server == server && spec.address == address);
        if is_twice {
            let text = format!("a duplicate listen {}", token.text());
            return Err(Diag::emerg(d.span, text).help("remove one of them"));
        }
        // Collected: sockets are made when all servers are known, as in `http`.
        let options = options.clone();
        let span = d.span;
        part(cx).listens.push(Spec { server, address, options, bind, proxy_protocol, tls, is_default, span });
    }
    Ok(())
}

fn has_port(text: &str) -> bool {
    // Colons inside of brackets belong to the IPv6 address.
    let rest = text.rsplit_once(']').map_or(text, |(_, rest)| rest);
    text.starts_with("unix:")
        || rest.contains(':')
        || !text.starts_with('[') && text.bytes().all(|b| b.is_ascii_digit() || b == b'-')
}
