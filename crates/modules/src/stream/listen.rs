//! `listen` in `stream`.

use super::part::part;
use super::sockets::Spec;
use brisk_conf::{Diag, Directive, Token};
use brisk_net::listen::{Address, Options};
use brisk_server::conf::{Cx, invalid_parameter};
use brisk_server::core::listen::{addresses, socket_parameter};

/// The setter.
pub fn listen(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let token = d.arg(0);
    if !has_port(token.str()) {
        return Err(Diag::emerg(
            token.span,
            format!("no port in \"{}\" of the \"listen\" directive", token.text()),
        )
        .help("there is no usual port in stream: write ADDRESS:PORT, PORT or unix:/PATH"));
    }
    let found = addresses(cx, token)?;
    let mut options = Options::default();
    let (mut is_udp, mut bind) = (false, false);
    for token in &d.args[1..] {
        match token.str() {
            "udp" => is_udp = true,
            "ssl" | "proxy_protocol" => return Err(unsupported(token)),
            _ if socket_parameter(&found[0], &mut options, token)? => bind = true,
            _ => return Err(invalid_parameter(token)),
        }
    }
    let server = part(cx).servers.len();
    for address in found {
        let address = match (address, is_udp) {
            (Address::Ip(ip), true) => Address::Udp(ip),
            (Address::Unix(_), true) => {
                return Err(Diag::emerg(token.span, "a unix socket takes no \"udp\" parameter"));
            }
            (address, _) => address,
        };
        if part(cx).listens.iter().any(|spec| spec.address == address) {
            let text = format!("duplicate \"{}\" address and port pair", token.text());
            return Err(Diag::emerg(d.span, text).help("each server of stream has its own addresses"));
        }
        part(cx).listens.push(Spec { server, address, options: options.clone(), bind, span: d.span });
    }
    Ok(())
}

fn unsupported(token: &Token) -> Diag {
    let text = token.text();
    let help = match &*text {
        "ssl" => "pass TLS on as it is, or end it in http",
        _ => "remove it: the client's address is that of its connection",
    };
    Diag::emerg(token.span, format!("the \"{text}\" parameter is not supported in stream yet")).help(help)
}

fn has_port(text: &str) -> bool {
    let rest = text.rsplit_once(']').map_or(text, |(_, rest)| rest);
    text.starts_with("unix:")
        || rest.contains(':')
        || !text.starts_with('[') && text.bytes().all(|b| b.is_ascii_digit() || b == b'-')
}
