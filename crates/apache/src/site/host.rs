//! Names, the root, and what is accepted without an effect.

use super::draft::{Done, Draft, Translator};
use crate::rewrite::map::Map;
use crate::syntax::Node;

/// A word of a line as text.
pub(super) fn word(node: &Node, index: usize) -> Result<String, String> {
    let word = node.words().nth(index).ok_or("an argument is missing")?;
    String::from_utf8(word).map_err(|_| "the argument is no UTF-8".to_string())
}

/// A text that means itself in Brisk's language, where `$` begins a variable.
pub(super) fn literal(text: String) -> Result<String, String> {
    if text.contains("${") {
        return Err(format!("'{text}': nothing defines the variable (Define, or the environment: envvars)"));
    }
    if text.contains('$') {
        return Err(format!("'{text}' has a dollar sign, which Brisk does not support here"));
    }
    Ok(text)
}

/// A path of the file system.
pub(super) fn path(this: &Translator<'_, '_>, node: &Node, index: usize) -> Result<String, String> {
    literal(word(node, index)?).map(|path| this.files.path(&path))
}

/// `ServerName` and `ServerAlias` as `server_name` has them: wildcards within become a regular expression.
pub(super) fn pattern(name: &str) -> String {
    let is_plain = !name.contains(['*', '?']);
    let is_prefix = name.strip_prefix("*.").is_some_and(|rest| !rest.contains(['*', '?']));
    if is_plain || is_prefix {
        return name.to_string();
    }
    let mut out = String::from("~^");
    for c in name.chars() {
        match c {
            '*' => out.push_str(".*"),
            '?' => out.push('.'),
            c if c.is_ascii_alphanumeric() => out.push(c),
            c => out.extend(['\\', c]),
        }
    }
    out.push('$');
    out
}

/// `ServerName http://www.example.com:80`: the name alone.
fn bare(name: &str) -> String {
    let name = name.split_once("://").map_or(name, |(_, rest)| rest);
    match name.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host.to_ascii_lowercase(),
        _ => name.to_ascii_lowercase(),
    }
}

/// Directives that change nothing here, and why where that is worth a notice.
const WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("acceptfilter", ""),
    ("cachenegotiateddocs", ""),
    ("defaultruntimedir", ""),
    ("extendedstatus", ""),
    ("gracefulshutdowntimeout", "requests under way are finished"),
    ("h2direct", ""),
    ("h2maxsessionstreams", "http2_max_concurrent_streams bounds streams"),
    ("h2push", ""),
    ("h2upgrade", "Protocols h2c says it"),
    ("httpprotocoloptions", "requests are always read strictly"),
    ("listenbacklog", ""),
    ("mutex", ""),
    ("namevirtualhost", ""),
    ("protocolshonororder", ""),
    ("receivebuffersize", ""),
    ("scoreboardfile", ""),
    ("seerequesttail", ""),
    ("sendbuffersize", ""),
    ("serveradmin", ""),
    ("threadstacksize", ""),
    ("usecanonicalname", "names in redirects are those that clients ask for"),
    ("usecanonicalphysicalport", ""),
];

/// Settings of Apache's processes.
const PROCESSES: &[&str] = &[
    "asyncrequestworkerfactor",
    "maxclients",
    "maxconnectionsperchild",
    "maxmemfree",
    "maxrequestsperchild",
    "maxrequestworkers",
    "maxspareservers",
    "maxsparethreads",
    "minspareservers",
    "minsparethreads",
    "serverlimit",
    "startservers",
    "threadlimit",
    "threadsperchild",
];

/// Whether a directive changes nothing.
pub(super) fn is_without_effect(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    WITHOUT_EFFECT.iter().any(|(known, _)| *known == name)
        || PROCESSES.contains(&name.as_str())
        || super::tls::WITHOUT_EFFECT.contains(&name.as_str())
}

pub(super) fn line(this: &mut Translator<'_, '_>, name: &str, node: &Node, draft: &mut Draft) -> Done {
    if let Some((_, why)) = WITHOUT_EFFECT.iter().find(|(known, _)| *known == name) {
        if !why.is_empty() {
            this.notice(node.line, format!("{} has no effect: {why}", node.name));
        }
        return Some(Ok(()));
    }
    if PROCESSES.contains(&name) {
        let text = format!(
            "{} has no effect: one thread per processor serves all connections (worker_processes, worker_connections)",
            node.name
        );
        this.notice(node.line, text);
        return Some(Ok(()));
    }
    Some(match name {
        "servername" => word(node, 0).and_then(literal).map(|name| draft.name = Some(bare(&name))),
        "serveralias" => (0..node.words().count()).try_for_each(|index| {
            let name = literal(word(node, index)?)?;
            draft.aliases.push(bare(&name));
            Ok(())
        }),
        "documentroot" => path(this, node, 0).map(|root| {
            let root = if root.len() > 1 { root.trim_end_matches('/') } else { &root };
            draft.single.insert("root", this.make(node, "root", &[root]));
        }),
        "user" => word(node, 0).and_then(account).map(|user| this.user = Some((node.line, user))),
        "group" => word(node, 0).and_then(account).map(|group| this.group = Some(group)),
        "pidfile" => path(this, node, 0).map(|path| {
            let directive = this.make(node, "pid", &[path]);
            this.main.insert("pid", directive);
        }),
        "hostnamelookups" => match word(node, 0).map(|word| word.to_ascii_lowercase()) {
            Ok(word) if word == "off" => Ok(()),
            _ => Err("Brisk does not look up names of clients: write Off".into()),
        },
        "traceenable" => match word(node, 0).map(|word| word.to_ascii_lowercase()) {
            Ok(word) if word == "off" => Ok(()),
            _ => Err("Brisk does not answer TRACE: write Off".into()),
        },
        "accessfilename" => match node.words().next() {
            Some(word) if word == b".htaccess" && node.words().count() == 1 => Ok(()),
            _ => Err("Brisk reads .htaccess only".into()),
        },
        "limitinternalrecursion" => {
            this.notice(node.line, "LimitInternalRecursion has no effect: it is 10");
            Ok(())
        }
        _ => return paths(this, name, node, draft),
    })
}

/// How paths of URIs are read, and what rules look up.
fn paths(this: &mut Translator<'_, '_>, name: &str, node: &Node, draft: &mut Draft) -> Done {
    Some(match name {
        "allowencodedslashes" => word(node, 0).and_then(|word| {
            match word.to_ascii_lowercase().as_str() {
                "on" | "off" => {}
                "nodecode" => this.notice(
                    node.line,
                    "AllowEncodedSlashes NoDecode: Brisk cannot keep a slash encoded, and answers 404 as with Off",
                ),
                _ => return Err("must be On, Off or NoDecode".into()),
            }
            draft.site.push(node.clone());
            Ok(())
        }),
        "mergeslashes" => {
            let is_off = node.words().next().is_some_and(|word| word.eq_ignore_ascii_case(b"off"));
            let directive = this.make(node, "merge_slashes", &[if is_off { "off" } else { "on" }]);
            draft.single.insert("merge_slashes", directive);
            Ok(())
        }
        "rewritemap" => word(node, 1).and_then(|source| {
            let map = Map::parse(absolute(this, &source).as_bytes())?;
            if map == Map::Program {
                this.notice(
                    node.line,
                    "RewriteMap: Brisk starts no programs: a rule that asks this map is answered with 500",
                );
            }
            let (name, source) = (word(node, 0)?, absolute(this, &source));
            draft.site.push(Node { args: format!("{name} {source}").into_bytes(), ..node.clone() });
            Ok(())
        }),
        _ => return None,
    })
}

/// The source of a `RewriteMap` with its file's whole path.
fn absolute(this: &Translator<'_, '_>, source: &str) -> String {
    match source.split_once(':') {
        Some((kind, path)) if ["txt", "rnd"].iter().any(|known| kind.eq_ignore_ascii_case(known)) => {
            format!("{kind}:{}", this.files.path(path))
        }
        _ => source.to_string(),
    }
}

/// A name of a user or group; numbers are not carried over.
fn account(name: String) -> Result<String, String> {
    let name = literal(name)?;
    if name.starts_with('#') {
        return Err("Brisk needs the name, not the number".into());
    }
    Ok(name)
}
