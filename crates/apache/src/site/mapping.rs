//! Where paths of URIs lead: `Alias`, `AliasMatch`, `ProxyPass`. Each becomes a location that does nothing but map.

use super::build::{block, statement};
use super::draft::{Done, Draft, From, Mapping, Target, Translator};
use super::host::{literal, path, word};
use crate::syntax::Node;
use brisk_conf::{Directive, Span};

pub(super) fn line(this: &mut Translator<'_, '_>, name: &str, node: &Node, draft: &mut Draft) -> Done {
    Some(match name {
        "alias" => prefix(node).and_then(|from| {
            let to = path(this, node, 1)?;
            draft.mappings.push(Mapping {
                line: node.line,
                from: From::Prefix(from),
                target: Target::File(to),
            });
            Ok(())
        }),
        "aliasmatch" => alias_match(node, draft),
        "scriptalias" | "scriptaliasmatch" => {
            Err("Brisk runs no CGI programs: remove it, or run them by FastCGI (fcgiwrap) with ProxyPass"
                .into())
        }
        "proxypass" => proxy(node, draft),
        "proxypassmatch" => Err("Brisk does not support ProxyPassMatch (yet): use ProxyPass".into()),
        // A redirect of the back end is led back to where requests for it come from, whatever the lines say.
        "proxypassreverse" => word(node, 1).map(|_| ()),
        "proxypreservehost" => {
            let is_on = node.words().next().is_some_and(|word| word.eq_ignore_ascii_case(b"on"));
            let host = if is_on { "$http_host" } else { "$proxy_host" };
            draft.proxy_host = Some(host);
            Ok(())
        }
        "proxyrequests" => match node.words().next() {
            Some(word) if word.eq_ignore_ascii_case(b"off") => Ok(()),
            _ => Err("Brisk is no proxy for clients: write Off".into()),
        },
        "proxytimeout" => word(node, 0).and_then(|seconds| {
            let seconds: u64 = seconds.parse().map_err(|_| "takes seconds".to_string())?;
            let directive = this.make(node, "proxy_read_timeout", &[format!("{seconds}s")]);
            draft.single.insert("proxy_read_timeout", directive);
            Ok(())
        }),
        "proxyvia" => match node.words().next() {
            Some(word) if word.eq_ignore_ascii_case(b"off") => Ok(()),
            _ => Err("Brisk adds no field Via: write Off".into()),
        },
        _ => return None,
    })
}

fn prefix(node: &Node) -> Result<String, String> {
    let from = literal(word(node, 0)?)?;
    if node.words().count() < 2 {
        return Err("Brisk supports it outside of sections only, with a path and a target".into());
    }
    if from.starts_with('/') { Ok(from) } else { Err(format!("'{from}' is no path: it begins with a slash")) }
}

/// `AliasMatch REGEX TARGET`, whose `$1` are the same in Brisk's language.
fn alias_match(node: &Node, draft: &mut Draft) -> Result<(), String> {
    let (pattern, to) = (word(node, 0)?, word(node, 1)?);
    let bytes = to.as_bytes();
    let is_group = |at: usize| bytes.get(at + 1).is_some_and(u8::is_ascii_digit);
    if (0..bytes.len()).any(|at| bytes[at] == b'$' && !is_group(at)) {
        return Err(format!("'{to}' has a dollar sign without a number, which Brisk does not support here"));
    }
    if !to.starts_with('/') {
        return Err(format!("'{to}' is no absolute path"));
    }
    // Brisk holds it against the whole path from any place on, as Apache does.
    draft.mappings.push(Mapping { line: node.line, from: From::Pattern(pattern), target: Target::File(to) });
    Ok(())
}

fn proxy(node: &Node, draft: &mut Draft) -> Result<(), String> {
    let from = prefix(node)?;
    let url = literal(word(node, 1)?)?;
    if url == "!" {
        draft.mappings.push(Mapping { line: node.line, from: From::Prefix(from), target: Target::Own });
        return Ok(());
    }
    if !url.starts_with("http://") && !url.starts_with("https://") {
        return Err(format!("Brisk does not support '{url}' (yet): http:// and https:// only"));
    }
    let mut timeout_secs = None;
    for word in node.words().skip(2) {
        let word = String::from_utf8_lossy(&word).into_owned();
        match word.split_once('=') {
            Some(("timeout", seconds)) => {
                timeout_secs = Some(seconds.parse().map_err(|_| "timeout takes seconds".to_string())?);
            }
            // How connections are kept is Brisk's own business.
            Some(("keepalive" | "disablereuse" | "enablereuse" | "retry" | "max" | "smax" | "ttl", _)) => {}
            _ => return Err(format!("Brisk does not support the parameter '{word}' (yet)")),
        }
    }
    let target = Target::Proxy { url, timeout_secs };
    draft.mappings.push(Mapping { line: node.line, from: From::Prefix(from), target });
    Ok(())
}

/// Adds the locations of a host. Gives the lines that no request can meet: Apache uses the first that fits, however short it is.
pub(super) fn locations(
    this: &Translator<'_, '_>,
    mappings: &[&Mapping],
    at: Span,
    host: Option<&'static str>,
    out: &mut Vec<Directive>,
) -> Vec<u32> {
    let mut shadowed = Vec::new();
    let mut prefixes: Vec<&str> = Vec::new();
    // Back ends are asked before aliases are looked at.
    let is_proxy = |mapping: &Mapping| !matches!(mapping.target, Target::File(_));
    let ordered = mappings.iter().filter(|m| is_proxy(m)).chain(mappings.iter().filter(|m| !is_proxy(m)));
    for mapping in ordered {
        let span = this.span(mapping.line);
        match &mapping.from {
            From::Pattern(pattern) => {
                let inner = content(span, &mapping.target, "", host);
                out.push(block(span, "location", ["~", pattern], inner));
            }
            From::Prefix(from) => {
                let covers = |known: &&str| {
                    from.strip_prefix(known.trim_end_matches('/'))
                        .is_some_and(|r| r.is_empty() || r.starts_with('/'))
                };
                if prefixes.iter().any(covers) {
                    shadowed.push(mapping.line);
                    continue;
                }
                prefixes.push(from);
                if from.ends_with('/') {
                    let inner = content(span, &mapping.target, "", host);
                    out.push(block(span, "location", ["^~", from], inner));
                } else {
                    let exact = content(span, &mapping.target, "", host);
                    out.push(block(span, "location", ["=", from], exact));
                    let below = content(span, &mapping.target, "/", host);
                    out.push(block(span, "location", ["^~", &format!("{from}/")], below));
                }
            }
        }
    }
    if !prefixes.contains(&"/") {
        out.push(block(at, "location", ["/"], Vec::new()));
    }
    shadowed
}

/// What stands in the location; `end` is what the mapped path ends with.
fn content(span: Span, target: &Target, end: &str, host: Option<&'static str>) -> Vec<Directive> {
    match target {
        Target::Own => Vec::new(),
        Target::File(to) => {
            let to = if end.is_empty() { to.clone() } else { format!("{}{end}", to.trim_end_matches('/')) };
            vec![statement(span, "alias", [to])]
        }
        Target::Proxy { url, timeout_secs } => {
            let has_path = url.split_once("://").is_some_and(|(_, rest)| rest.contains('/'));
            let url = match end {
                "" if has_path => url.clone(),
                "" => format!("{url}/"),
                end => format!("{}{end}", url.trim_end_matches('/')),
            };
            let mut inner = vec![
                statement(span, "proxy_pass", [url.as_str()]),
                statement(span, "proxy_http_version", ["1.1"]),
                statement(span, "proxy_set_header", ["Host", host.unwrap_or("$proxy_host")]),
                statement(span, "proxy_set_header", ["X-Forwarded-For", "$proxy_add_x_forwarded_for"]),
                statement(span, "proxy_set_header", ["X-Forwarded-Host", "$http_host"]),
                statement(span, "proxy_set_header", ["X-Forwarded-Server", "$server_name"]),
            ];
            if let Some(seconds) = timeout_secs {
                inner.push(statement(span, "proxy_read_timeout", [format!("{seconds}s")]));
            }
            inner
        }
    }
}
