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
const FAMILIES: [&str; 5] = ["proxy", "fastcgi", "scgi", "uwsgi", "grpc"];

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

    /// What examples refer to.
    const BEFORE: &str = "log_format timed x; limit_req_zone $binary_remote_addr zone=requests:1m rate=1r/s; \
        limit_conn_zone $binary_remote_addr zone=connections:1m; upstream app { server 127.0.0.1:1; } \
        map $uri $purge { default 0; } map $uri $backend { default a; } match ready { status 200; } ";

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
        Some(match context {
            Context::MAIN if statement.starts_with("events") => format!("{statement} http {{}}"),
            Context::MAIN if statement.starts_with("http ") => format!("events {{}} {statement}"),
            Context::MAIN => format!("{statement} events {{}} http {{}}"),
            Context::EVENTS => format!("events {{ {statement} }} http {{}}"),
            Context::HTTP => http(statement),
            Context::SERVER => server(statement),
            Context::LOCATION => server(&format!("location / {{ {statement} }}")),
            Context::UPSTREAM => http(&format!("upstream group {{ server 127.0.0.1:2; {statement} }}")),
            _ => return None,
        })
    }

    /// What only this machine lacks: files, and what stands beside them.
    fn is_elsewhere(message: &str) -> bool {
        message.contains("No such file") || message.contains("is defined for certificate")
    }

    #[test]
    fn every_directive_has_an_example_that_can_be_built() {
        let contexts = [
            Context::MAIN,
            Context::EVENTS,
            Context::HTTP,
            Context::SERVER,
            Context::LOCATION,
            Context::UPSTREAM,
        ];
        let mut wrong = Vec::new();
        for (module, row) in directives::all() {
            let Some(usage) = of(module.name, row.name) else {
                wrong.push(format!("{} of {} has no line", row.name, module.name));
                continue;
            };
            if row.name == "ntlm" || row.name == "ssl_ech_file" {
                // They are refused on purpose.
                continue;
            }
            let mut faults = Vec::new();
            let is_built = contexts.iter().filter(|context| row.contexts.has(**context)).any(|context| {
                let Some(text) = placed(module.name, &usage.example, *context) else { return false };
                faults = errors(&text);
                faults.iter().all(|message| is_elsewhere(message))
            });
            if !is_built {
                wrong.push(format!("{}: {faults:?}", usage.example));
            }
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
