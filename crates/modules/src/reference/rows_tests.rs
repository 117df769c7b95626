//! What must hold for every row: its example can be built, its range is honest, its class is plausible.

use crate::check::errors;
use crate::reference::directives;
use brisk_conf::takes::Takes;
use brisk_conf::{Context, Risk};
use brisk_server::module::Row;

/// Prefixes of modules that share directives.
const FAMILIES: [&str; 6] = ["proxy", "fastcgi", "scgi", "uwsgi", "grpc", "memcached"];

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
        Context::STREAM => format!("events {{}} stream {{ {statement} }}"),
        Context::STREAM_UPSTREAM => {
            let group = format!("upstream group {{ zone group 64k; server 127.0.0.1:2; {statement} }}");
            format!("events {{}} stream {{ {group} server {{ listen 127.0.0.1:9; proxy_pass group; }} }}")
        }
        Context::STREAM_SERVER => {
            let listen = if statement.starts_with("listen ") { "" } else { "listen 127.0.0.1:9; " };
            let is_handler =
                ["proxy_pass ", "return ", "pass "].iter().any(|name| statement.starts_with(name));
            let handler = if is_handler {
                ""
            } else if statement.starts_with("health_check ") {
                // Of the servers of a group.
                "proxy_pass 127.0.0.1:8; "
            } else {
                "return x; "
            };
            format!("events {{}} stream {{ server {{ {listen}{handler}{statement} }} }}")
        }
        _ => return None,
    })
}

/// What only this machine lacks: files, and what stands beside them.
fn is_elsewhere(message: &str) -> bool {
    [
        "No such file",
        "is defined for certificate",
        "there is no php_pool",
        "\"otel_exporter\" block is missing",
    ]
    .iter()
    .any(|text| message.contains(text))
}

const CONTEXTS: [Context; 9] = [
    Context::MAIN,
    Context::EVENTS,
    Context::HTTP,
    Context::SERVER,
    Context::LOCATION,
    Context::UPSTREAM,
    Context::STREAM,
    Context::STREAM_SERVER,
    Context::STREAM_UPSTREAM,
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
        if row.example.is_empty() {
            wrong.push(format!("{} of {} has no example", row.name, module.name));
            continue;
        }
        let statements =
            std::iter::once(row.example.to_string()).chain(choices(row.name, &row.takes.arguments()));
        wrong.extend(statements.filter_map(|statement| faults(module.name, row, &statement)));
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// A configuration in which the row stands once, with this value.
fn refusals(module: &str, row: &Row, value: i64) -> Vec<String> {
    let statement = format!("{} {value};", row.name);
    let context = CONTEXTS.iter().find(|context| row.contexts.has(**context));
    context
        .and_then(|context| placed(module, &statement, *context))
        .map_or_else(Vec::new, |text| errors(&text))
}

#[test]
fn a_value_beyond_the_range_is_refused_by_its_row() {
    for (module, row) in directives::all() {
        let Some(range) = row.takes.range().filter(|range| !range.is_any()) else { continue };
        if matches!(row.set, brisk_server::module::Set::Ignored(_)) {
            continue;
        }
        let beyond = [range.min.checked_sub(1).filter(|min| *min >= 0), range.max.checked_add(1)];
        for value in beyond.into_iter().flatten() {
            // Times are written in seconds.
            let found = refusals(module.name, row, value);
            assert!(
                found.iter().any(|message| message.starts_with("value must be ")),
                "{} {value}: {found:?}",
                row.name
            );
        }
    }
}

#[test]
fn a_number_says_what_it_counts() {
    let silent: Vec<_> = directives::all()
        .filter(|(_, row)| row.takes.kind() == "number" && row.unit.is_empty())
        .map(|(_, row)| row.name)
        .collect();
    assert_eq!(silent, [""; 0]);
}

/// What a plain type would say better is not written as a grammar of its own.
#[test]
fn plain_parameters_have_a_type() {
    let wordy: Vec<_> = directives::all()
        .filter(|(_, row)| !matches!(row.set, brisk_server::module::Set::Ignored(_)) && row.unit.is_empty())
        .filter(|(_, row)| matches!(row.takes, Takes::Own("on | off" | "SIZE" | "TIME" | "NUMBER")))
        // Their setters only warn that they are obsolete.
        .filter(|(_, row)| !row.doc.starts_with("Obsolete"))
        .map(|(_, row)| row.name)
        .collect();
    assert_eq!(wordy, [""; 0]);
}

#[test]
fn what_opens_doors_is_a_matter_of_security() {
    for (_, row) in directives::all() {
        let of_security = ["allow", "deny", "satisfy", "user", "root", "alias"].contains(&row.name)
            || row.name.starts_with("auth_")
            || row.name.starts_with("secure_link")
            || (row.name.contains("ssl_verify") && !matches!(row.set, brisk_server::module::Set::Ignored(_)));
        assert!(!of_security || row.risk == Risk::Security, "{}: {:?}", row.name, row.risk);
    }
}
