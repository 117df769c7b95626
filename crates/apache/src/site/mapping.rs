//! Where paths of URIs lead: `Alias`, `AliasMatch`, `ProxyPass`. Each becomes a location that does nothing but map.

use super::balancer;
use super::draft::{Done, Draft, From, Mapping, Target, Translator};
use super::handlers;
use super::host::{literal, path, word};
use super::users::ACCOUNTS;
use crate::escape;
use crate::syntax::{Mistake, Node};

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
        "proxypass" => proxy(this, node, draft),
        "location" | "locationmatch" => return location(this, node, draft),
        "proxypassmatch" => proxy_match(this, node, draft),
        "userdir" => {
            let words = node.words().map(|word| String::from_utf8_lossy(&word).into_owned());
            draft.users.read(&words.collect::<Vec<_>>(), node.line)
        }
        // What a back end calls its cookies' hosts and paths, and what clients are to see.
        "proxypassreversecookiedomain" => cookies(this, node, draft, "proxy_cookie_domain"),
        "proxypassreversecookiepath" => cookies(this, node, draft, "proxy_cookie_path"),
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
    if !has_groups_only(&to) {
        return Err(format!("'{to}' has a dollar sign without a number, which Brisk does not support here"));
    }
    if !to.starts_with('/') {
        return Err(format!("'{to}' is no absolute path"));
    }
    // Brisk holds it against the whole path from any place on, as Apache does.
    draft.mappings.push(Mapping { line: node.line, from: From::Pattern(pattern), target: Target::File(to) });
    Ok(())
}

/// `ProxyPass`, `ProxyPassMatch` and `Alias` in a `<Location>` are about its path or pattern. `None` where there is none.
fn location(this: &mut Translator<'_, '_>, node: &Node, draft: &mut Draft) -> Done {
    let is_mapping = |inner: &&Node| {
        LEADING.iter().chain(&["ProxyPassReverse", "ProxyPreserveHost"]).any(|name| inner.is(name))
    };
    let children = node.children.as_ref()?;
    let passes: Vec<&Node> = children.iter().filter(is_mapping).collect();
    if !passes.iter().any(|inner| LEADING.iter().any(|name| inner.is(name))) {
        return None;
    }
    let Ok(first) = word(node, 0) else { return None };
    let is_pattern = node.is("LocationMatch") || first == "~";
    let from = if first == "~" { word(node, 1).ok()? } else { first };
    for inner in passes.iter().filter(|inner| !inner.is("ProxyPassReverse")) {
        if inner.is("Alias") {
            if let Err(text) = alias_in_location(this, &from, is_pattern, inner, draft) {
                return Some(Err(format!("Alias: {text}")));
            }
            continue;
        }
        // Apache holds a pattern against paths also for ProxyPass if it has one of these, and takes it for a path if not.
        let is_matched = is_pattern && inner.is("ProxyPass") && from.contains(['*', '?', '[']);
        if is_pattern && inner.is("ProxyPass") && !is_matched && !is_plain_path(&from) {
            let why = "ProxyPass takes the section's pattern for a path, as in Apache, and so does nothing: write ProxyPassMatch";
            this.notice(inner.line, why);
            continue;
        }
        let is_pass = inner.is("ProxyPass") || inner.is("ProxyPassMatch");
        let args =
            if is_pass { [quoted(&from).as_bytes(), b" ", &inner.args].concat() } else { inner.args.clone() };
        let whole = Node { args, ..(*inner).clone() };
        let name = if is_matched { "proxypassmatch".into() } else { inner.name.to_ascii_lowercase() };
        if let Some(Err(text)) = line(this, &name, &whole, draft) {
            return Some(Err(format!("{}: {text}", inner.name)));
        }
    }
    let rest = children.iter().filter(|inner| !is_mapping(inner)).cloned().collect();
    draft.site.push(Node { children: Some(rest), ..node.clone() });
    Some(Ok(()))
}

/// What leads the path of a section elsewhere.
const LEADING: [&str; 4] = ["ProxyPass", "ProxyPassMatch", "Alias", "ScriptAlias"];

/// Whether a pattern is the path that it matches.
fn is_plain_path(pattern: &str) -> bool {
    let special = ['^', '$', '*', '+', '?', '(', ')', '[', ']', '{', '}', '|', '\\'];
    pattern.starts_with('/') && !pattern.contains(special)
}

/// One word of a line.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// `Alias TARGET` of a section: all that the section is for leads to the target, with nothing behind it. `%{env:MATCH_NAME}` is the
/// group of the section's pattern, which is a variable in Brisk's language.
fn alias_in_location(
    this: &mut Translator<'_, '_>,
    from: &str,
    is_pattern: bool,
    node: &Node,
    draft: &mut Draft,
) -> Result<(), String> {
    let text = word(node, 0)?;
    if node.words().count() != 1 {
        return Err("takes one argument in a section".into());
    }
    let mut to = String::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find("%{") {
        let (before, behind) = rest.split_at(at);
        to.push_str(&literal(before.to_string())?);
        let length = behind.find('}').ok_or("an expression is not closed")?;
        let name = behind[2..length].to_ascii_lowercase();
        let name =
            name.strip_prefix("env:match_").filter(|name| is_pattern && is_word(name)).ok_or_else(|| {
                format!(
                    "Brisk supports %{{env:MATCH_NAME}} of a <LocationMatch> here, and not '{}'",
                    &behind[..=length]
                )
            })?;
        to.extend(["${", name, "}"]);
        rest = &behind[length + 1..];
    }
    to.push_str(&literal(rest.to_string())?);
    let to = this.files.path(&to);
    let pattern = if is_pattern {
        from.to_string()
    } else {
        format!("^{}(?:/|$)", escape::pattern(from.trim_end_matches('/')))
    };
    draft.mappings.push(Mapping { line: node.line, from: From::Pattern(pattern), target: Target::File(to) });
    Ok(())
}

fn is_word(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn proxy(this: &mut Translator<'_, '_>, node: &Node, draft: &mut Draft) -> Result<(), String> {
    let from = prefix(node)?;
    let url = literal(word(node, 1)?)?;
    if url == "!" {
        draft.mappings.push(Mapping { line: node.line, from: From::Prefix(from), target: Target::Own });
        return Ok(());
    }
    let timeout_secs = timeout(node)?;
    if let Some((name, path)) = balancer::parts(this, &url, node.line)? {
        let target = Target::Group { name, path, timeout_secs };
        draft.mappings.push(Mapping { line: node.line, from: From::Prefix(from), target });
        return Ok(());
    }
    if let Some(script) = handlers::script(&url) {
        let (address, path) = script?;
        draft.mappings.push(script_below(node.line, &from, Target::Script { address, path, timeout_secs }));
        return Ok(());
    }
    let socket = balancer::of_socket(&url).map(|(socket, path)| {
        let path = if path.is_empty() { "/" } else { path };
        format!("http://unix:{socket}:{path}")
    });
    let url = socket.unwrap_or(url);
    if !url.starts_with("http://") && !url.starts_with("https://") {
        return Err(format!("Brisk does not support '{url}' (yet): http://, https:// and fcgi:// only"));
    }
    let target = Target::Proxy { url, timeout_secs };
    draft.mappings.push(Mapping { line: node.line, from: From::Prefix(from), target });
    Ok(())
}

/// All below a path leads to scripts below another one behind FastCGI, which takes a pattern.
fn script_below(line: u32, from: &str, mut target: Target) -> Mapping {
    let whole = escape::pattern(from);
    let pattern = if from.ends_with('/') { format!("^{whole}(.*)$") } else { format!("^{whole}(/.*)?$") };
    if let Target::Script { path, .. } = &mut target {
        path.push_str("$1");
    }
    Mapping { line, from: From::Pattern(pattern), target }
}

/// A line that names a group, when it is known what the group's members speak.
pub(super) fn resolved(this: &Translator<'_, '_>, mapping: &Mapping) -> Mapping {
    let Target::Group { name, path, timeout_secs } = &mapping.target else { return mapping.clone() };
    let target = balancer::target(this, name, path, *timeout_secs);
    match (&mapping.from, target) {
        (From::Prefix(from), target @ Target::Script { .. }) => script_below(mapping.line, from, target),
        (From::Pattern(_), Target::Script { address, path, timeout_secs }) => {
            let path = if path.is_empty() { "$uri".into() } else { path };
            let target = Target::Script { address, path, timeout_secs };
            Mapping { target, ..mapping.clone() }
        }
        (_, target) => Mapping { target, ..mapping.clone() },
    }
}

/// Whether dollar signs of a text stand for groups only.
fn has_groups_only(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_group = |at: usize| bytes.get(at + 1).is_some_and(u8::is_ascii_digit);
    (0..bytes.len()).all(|at| bytes[at] != b'$' || is_group(at))
}

/// `ProxyPassMatch REGEX URL`, whose `$1` are the same in Brisk's language. As in Apache, a URL without them has the whole path of the URI
/// behind it.
fn proxy_match(this: &mut Translator<'_, '_>, node: &Node, draft: &mut Draft) -> Result<(), String> {
    let (pattern, url) = (word(node, 0)?, word(node, 1)?);
    if url == "!" {
        draft.mappings.push(Mapping { line: node.line, from: From::Pattern(pattern), target: Target::Own });
        return Ok(());
    }
    if let Some(script) = handlers::script(&url) {
        let (address, path) = script?;
        let path = of_groups(&path, &url)?;
        let target = Target::Script { address, path, timeout_secs: timeout(node)? };
        draft.mappings.push(Mapping { line: node.line, from: From::Pattern(pattern), target });
        return Ok(());
    }
    let has_path = |rest: &str| rest.contains('/');
    let unknown = || format!("'{url}': Brisk supports URLs with $1 to $9 only, or without a path");
    if let Some((name, path)) = balancer::parts(this, &url, node.line)? {
        if !has_groups_only(&path) || (has_path(&path) && !path.contains('$')) {
            return Err(unknown());
        }
        let target = Target::Group { name, path, timeout_secs: timeout(node)? };
        draft.mappings.push(Mapping { line: node.line, from: From::Pattern(pattern), target });
        return Ok(());
    }
    let host = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let host = host
        .ok_or_else(|| format!("Brisk does not support '{url}' (yet): http://, https:// and fcgi:// only"))?;
    if host.starts_with(['$', '/']) || host.is_empty() {
        return Err(format!("'{url}': the host must stand in the line itself"));
    }
    if !has_groups_only(&url) || (has_path(host) && !url.contains('$')) {
        return Err(unknown());
    }
    let target = Target::Proxy { url, timeout_secs: timeout(node)? };
    draft.mappings.push(Mapping { line: node.line, from: From::Pattern(pattern), target });
    Ok(())
}

/// The path of a script with the groups of a pattern in it. As in Apache, one without groups has the whole path of the URI behind it.
fn of_groups(path: &str, url: &str) -> Result<String, String> {
    if !path.contains('$') {
        return Ok(format!("{}$uri", path.trim_end_matches('/')));
    }
    if !has_groups_only(path) {
        return Err(format!("'{url}': Brisk supports $1 to $9 only"));
    }
    Ok(path.to_string())
}

/// Where `/~NAME` leads in a host; `main` is what holds outside of hosts.
pub(super) fn of_users(
    this: &Translator<'_, '_>,
    draft: &Draft,
    main: &Draft,
) -> Result<Vec<Mapping>, Mistake> {
    let Some(line) = draft.users.line(&main.users) else { return Ok(Vec::new()) };
    let leads = draft.users.leads(&main.users, &|| this.files.text(ACCOUNTS));
    let leads = leads.map_err(|why| Mistake { line, text: format!("UserDir: {why}") })?;
    let mapping = |(pattern, to)| Mapping { line, from: From::Pattern(pattern), target: Target::File(to) };
    Ok(leads.into_iter().map(mapping).collect())
}

/// `ProxyPassReverseCookieDomain` and its relative.
fn cookies(
    this: &mut Translator<'_, '_>,
    node: &Node,
    draft: &mut Draft,
    name: &'static str,
) -> Result<(), String> {
    let (theirs, ours) = (literal(word(node, 0)?)?, literal(word(node, 1)?)?);
    let directive = this.make(node, name, &[theirs, ours]);
    draft.cookies.push(directive);
    Ok(())
}

/// The parameters of a line, of which `timeout=` counts, in seconds.
fn timeout(node: &Node) -> Result<Option<u64>, String> {
    let mut timeout_secs = None;
    for word in node.words().skip(2) {
        let word = String::from_utf8_lossy(&word).into_owned();
        let parameter = word.split_once('=').map(|(name, value)| (name.to_ascii_lowercase(), value));
        match parameter.as_ref().map(|(name, value)| (name.as_str(), *value)) {
            Some(("timeout", seconds)) => {
                timeout_secs = Some(seconds.parse().map_err(|_| "timeout takes seconds".to_string())?);
            }
            // How connections are kept is Brisk's own business.
            Some(("keepalive" | "disablereuse" | "enablereuse" | "retry" | "max" | "smax" | "ttl", _)) => {}
            _ => return Err(format!("Brisk does not support the parameter '{word}' (yet)")),
        }
    }
    Ok(timeout_secs)
}
