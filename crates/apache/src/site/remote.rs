//! mod_remoteip: who the client is behind proxies, by `realip` and the PROXY protocol.

use super::build::statement;
use super::draft::{Done, Draft, Translator};
use super::host::word;
use crate::network;
use crate::syntax::{Mistake, Node};
use brisk_conf::{Directive, Span};

/// What lines say of it.
#[derive(Default)]
pub(super) struct Remote {
    /// `RemoteIPProxyProtocol`, with its line.
    pub protocol: Option<u32>,
    /// `RemoteIPHeader`, with its line.
    header: Option<(u32, String)>,
    /// Proxies that are believed, in their order.
    proxies: Vec<Proxy>,
}

struct Proxy {
    line: u32,
    address: String,
    /// `RemoteIPInternalProxy`: it is believed that a client has a private address. `RemoteIPTrustedProxy` is not.
    is_internal: bool,
}

pub(super) fn line(this: &mut Translator<'_, '_>, name: &str, node: &Node, draft: &mut Draft) -> Done {
    let remote = &mut draft.remote;
    Some(match name {
        "remoteipproxyprotocol" => {
            let is_on = node.words().next().is_some_and(|word| word.eq_ignore_ascii_case(b"on"));
            remote.protocol = is_on.then_some(node.line);
            Ok(())
        }
        "remoteipheader" => word(node, 0).map(|header| remote.header = Some((node.line, header))),
        "remoteipinternalproxy" | "remoteiptrustedproxy" => {
            let is_internal = name == "remoteipinternalproxy";
            node.words().try_for_each(|word| {
                let address = String::from_utf8_lossy(&word).into_owned();
                add(remote, Proxy { line: node.line, address, is_internal })
            })
        }
        "remoteipinternalproxylist" | "remoteiptrustedproxylist" => {
            word(node, 0).and_then(|path| this.files.text(&path)).and_then(|text| {
                String::from_utf8_lossy(&text)
                    .lines()
                    .map(|line| line.split('#').next().unwrap_or_default().trim())
                    .filter(|line| !line.is_empty())
                    .try_for_each(|address| {
                        let address = address.to_string();
                        let is_internal = name == "remoteipinternalproxylist";
                        add(&mut draft.remote, Proxy { line: node.line, address, is_internal })
                    })
            })
        }
        _ => return None,
    })
}

fn add(remote: &mut Remote, proxy: Proxy) -> Result<(), String> {
    if network::parse(&proxy.address).is_none() {
        return Err(format!("'{}' is no address: Brisk looks up no names here", proxy.address));
    }
    remote.proxies.push(proxy);
    Ok(())
}

impl Remote {
    /// Whether nothing was said.
    fn is_silent(&self) -> bool {
        self.protocol.is_none() && self.header.is_none() && self.proxies.is_empty()
    }

    /// Directives of a host; `above` is what the lines outside of hosts say, which holds where a host says nothing.
    pub fn directives<'r>(&'r self, above: &'r Remote, span: &dyn Fn(u32) -> Span) -> Vec<Directive> {
        let remote = if self.is_silent() { above } else { self };
        let from = |line: u32, network: &str| statement(span(line), "set_real_ip_from", [network]);
        let from_proxy = |proxy: &Proxy| {
            let kind = if proxy.is_internal { "" } else { "public:" };
            from(proxy.line, &format!("{kind}{}", proxy.address))
        };
        match (&remote.protocol, &remote.header) {
            (Some(line), _) => vec![
                from(*line, "0.0.0.0/0"),
                from(*line, "::/0"),
                statement(span(*line), "real_ip_header", ["proxy_protocol"]),
            ],
            (None, Some((line, header))) => {
                let mut out: Vec<Directive> = remote.proxies.iter().map(from_proxy).collect();
                out.push(statement(span(*line), "real_ip_header", [header]));
                out.push(statement(span(*line), "real_ip_recursive", ["on"]));
                out
            }
            (None, None) => Vec::new(),
        }
    }

    /// A header that anybody could send.
    pub fn mistake(&self, above: &Remote) -> Option<Mistake> {
        let (line, _) = self.header.as_ref()?;
        let is_open = self.proxies.is_empty() && above.proxies.is_empty();
        let text = "RemoteIPHeader: without RemoteIPInternalProxy every client could say who it is: name the proxies";
        is_open.then(|| Mistake { line: *line, text: text.into() })
    }
}
