//! How directives are written: their arguments and an example of each. Beside the rows, because the code does not use it.

use std::borrow::Cow;

/// How a directive is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Behind the name, without the end.
    pub arguments: &'static str,
    /// A whole statement.
    pub example: Cow<'static, str>,
}

/// A line per directive, see its head.
const TABLE: &str = include_str!("usage.tsv");
/// What a line whose name begins with `*_` is about.
const FAMILIES: [&str; 6] = ["proxy", "fastcgi", "scgi", "uwsgi", "grpc", "memcached"];

/// The lines of the table: name, arguments, example.
fn lines() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let (name, rest) = line.split_once('\t')?;
        let (arguments, example) = rest.split_once('\t')?;
        Some((name, arguments, example))
    })
}

/// How this module's directive is written.
pub fn of(module: &str, name: &str) -> Option<Usage> {
    let is_it = |wanted: &str| match wanted.split_once('/') {
        Some((of, wanted)) => of == module && wanted == name,
        None => wanted == name,
    };
    if let Some((_, arguments, example)) = lines().find(|(wanted, ..)| is_it(wanted)) {
        return Some(Usage { arguments, example: example.into() });
    }
    let (family, rest) = name.split_once('_').filter(|(family, _)| FAMILIES.contains(family))?;
    let (_, arguments, example) = lines().find(|(wanted, ..)| wanted.strip_prefix("*_") == Some(rest))?;
    Some(Usage { arguments, example: format!("{family}{}", &example[1..]).into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::errors;
    use crate::reference::directives;
    use brisk_conf::Context;
    use brisk_server::module::Row;

    /// What examples refer to.
    const BEFORE: &str = "limit_req_zone $binary_remote_addr zone=requests:1m rate=1r/s; \
        limit_conn_zone $binary_remote_addr zone=connections:1m; \
        map $uri $purge { default 0; } map $uri $memcached_key { default $uri; } map $uri $backend { default a; } ";

    /// A configuration with a statement in a context.
    fn placed(module: &str, statement: &str, context: Context) -> Option<String> {
        let family = module.strip_suffix("_cache").filter(|family| FAMILIES.contains(family));
        // A zone belongs to one module.
        let zone = match family {
            Some(family) if !statement.contains("keys_zone") => {
                format!("{family}_cache_path /tmp/brisk-usage keys_zone=pages:1m; ")
            }
            _ => String::new(),
        };
        let before = format!("{BEFORE}{zone}");
        let before = if statement.contains("_zone ") { zone } else { before };
        let http = |inner: &str| format!("events {{}} http {{ {before} {inner} }}");
        let server = |inner: &str| http(&format!("server {{ {inner} }}"));
        // A file of servers belongs to a zone.
        let zone = if statement.starts_with("state ") { "zone group 64k; " } else { "server 127.0.0.1:2; " };
        Some(match context {
            Context::MAIN if statement.starts_with("events") => format!("{statement} http {{}}"),
            Context::MAIN if statement.starts_with("http ") => format!("events {{}} {statement}"),
            Context::MAIN => format!("{statement} events {{}} http {{}}"),
            Context::EVENTS => format!("events {{ {statement} }} http {{}}"),
            Context::HTTP => http(statement),
            Context::SERVER => server(statement),
            Context::LOCATION => server(&format!("location / {{ {statement} }}")),
            Context::UPSTREAM => http(&format!("upstream group {{ {zone} {statement} }}")),
            _ => return None,
        })
    }

    /// What only this machine lacks: files, and what stands beside them.
    fn is_elsewhere(message: &str) -> bool {
        message.contains("No such file") || message.contains("is defined for certificate")
    }

    const CONTEXTS: [Context; 6] = [
        Context::MAIN,
        Context::EVENTS,
        Context::HTTP,
        Context::SERVER,
        Context::LOCATION,
        Context::UPSTREAM,
    ];

    /// Why a statement cannot be built in any of a directive's contexts; nothing if it can.
    fn faults(module: &str, row: &Row, statement: &str) -> Option<String> {
        let mut faults = Vec::new();
        let is_built = CONTEXTS.iter().filter(|context| row.contexts.has(**context)).any(|context| {
            let Some(text) = placed(module, statement, *context) else { return false };
            faults = errors(&text);
            faults.iter().all(|message| is_elsewhere(message))
        });
        (!is_built).then(|| format!("{statement} {faults:?}"))
    }

    /// The statements with each of the words that `on | off | auto` offers.
    fn choices(name: &str, arguments: &str) -> Vec<String> {
        /// Their words need others beside them, or before them in the block.
        const NEEDY: [&str; 2] = ["valid_referers", "proxy_redirect"];
        if arguments.contains('[') || NEEDY.contains(&name) {
            return Vec::new();
        }
        let words: Vec<&str> = arguments.split(" | ").collect();
        let is_word = |word: &&str| {
            word.len() > 1
                && word.bytes().all(|byte| byte.is_ascii_lowercase() || b"_0123456789.-".contains(&byte))
        };
        words.into_iter().filter(is_word).map(|word| format!("{name} {word};")).collect()
    }

    #[test]
    fn every_directive_has_an_example_and_choices_that_can_be_built() {
        /// They are refused on purpose.
        const REFUSED: [&str; 2] = ["ntlm", "ssl_ech_file"];
        let mut wrong = Vec::new();
        for (module, row) in directives::all().filter(|(_, row)| !REFUSED.contains(&row.name)) {
            let Some(usage) = of(module.name, row.name) else {
                wrong.push(format!("{} of {} has no line", row.name, module.name));
                continue;
            };
            let statements =
                std::iter::once(usage.example.into_owned()).chain(choices(row.name, usage.arguments));
            wrong.extend(statements.filter_map(|statement| faults(module.name, row, &statement)));
        }
        assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    }

    #[test]
    fn every_line_is_about_a_directive() {
        for (name, ..) in lines() {
            let (module, name) = name.split_once('/').unwrap_or(("", name));
            let is_known = directives::all().any(|(of, row)| {
                let family = row.name.split_once('_').filter(|(family, _)| FAMILIES.contains(family));
                (module.is_empty() || module == of.name)
                    && (row.name == name
                        || family.is_some_and(|(_, rest)| name.strip_prefix("*_") == Some(rest)))
            });
            assert!(is_known, "{module}/{name}");
        }
    }
}
