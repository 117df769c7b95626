//! What becomes of each directive and variable of nginx: it works, is accepted without effect, or is refused with which message.

use super::{directives, variables};
use brisk_conf::Context;
use brisk_conf::nginx::{self, Known};
use brisk_server::module::{Row, Set};
use std::fmt::Write as _;

/// Modules of nginx whose directives are for other systems than Linux.
const ELSEWHERE: &[&str] =
    &["ngx_devpoll_module", "ngx_eventport_module", "ngx_kqueue_module", "ngx_iocp_module"];

/// What Brisk does with a directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// As in nginx.
    Works,
    /// Works, but not in these contexts.
    WorksExceptIn(String),
    /// Why it has no effect.
    Accepted(&'static str),
    /// The message.
    Refused(String),
}

/// What Brisk does with a directive of nginx.
pub fn state(known: &Known) -> State {
    let contexts: Vec<_> = known.contexts.split(',').map(|name| (name, context(name))).collect();
    let rows: Vec<&Row> =
        directives::all().map(|(_, row)| row).filter(|row| row.name == known.name).collect();
    let has = |context: Option<Context>| context.is_some_and(|c| rows.iter().any(|row| row.contexts.has(c)));
    let missing: Vec<&str> =
        contexts.iter().filter(|(_, context)| !has(*context)).map(|(name, _)| *name).collect();
    if missing.len() == contexts.len() {
        return State::Refused(message(known, !rows.is_empty()));
    }
    match rows.iter().find_map(|row| if let Set::Ignored(why) = row.set { Some(why) } else { None }) {
        Some(why) => State::Accepted(why),
        None if missing.is_empty() => State::Works,
        None => State::WorksExceptIn(missing.join(", ")),
    }
}

/// What is told of a directive or variable.
#[derive(Clone, Debug)]
pub struct Entry {
    /// A variable's has its dollar sign.
    pub name: String,
    /// Its module in nginx.
    pub module: &'static str,
    /// Where it may stand.
    pub contexts: &'static str,
    /// Whether it works.
    pub state: &'static str,
    /// What is different, or why it does not.
    pub detail: String,
}

/// All directives and variables of nginx.
pub fn all() -> Vec<Entry> {
    let directives = nginx::directives().map(|known| {
        let (state, detail) = match state(&known) {
            State::Works => ("works", String::new()),
            State::WorksExceptIn(contexts) => ("works", format!("not in {contexts}")),
            State::Accepted(why) => ("accepted without effect", why.to_string()),
            State::Refused(message) if ELSEWHERE.contains(&known.module) => {
                ("refused", format!("{message} (as by nginx on Linux)"))
            }
            State::Refused(message) => ("refused", message),
        };
        Entry { name: known.name.into(), module: known.module, contexts: known.contexts, state, detail }
    });
    let variables = nginx::variables().map(|(name, module)| {
        let (state, detail) = if has_variable(name) {
            ("works", String::new())
        } else {
            ("refused", format!("unknown \"{name}\" variable"))
        };
        Entry { name: format!("${name}"), module, contexts: "", state, detail }
    });
    directives.chain(variables).collect()
}

/// `docs/nginx-coverage.tsv`.
pub fn tsv() -> String {
    let mut out = String::from("directive or variable\tnginx module\tcontexts\tin Brisk\tdetail\n");
    for Entry { name, module, contexts, state, detail } in all() {
        let _ = writeln!(out, "{name}\t{module}\t{contexts}\t{state}\t{detail}");
    }
    out
}

/// What becomes of the directives of Apache 2.4: in `.htaccess`, and of those that may not stand there in the server's own files.
pub fn apache() -> Vec<Entry> {
    use brisk_apache::overrides::support::Support;
    let entry = |(row, support): (brisk_apache::directives::Row, Support)| {
        let (state, detail) = match support {
            Support::Works => ("works", ""),
            Support::NoEffect => ("accepted without effect", ""),
            Support::Refused => ("refused", "its folder answers 500, with the line in the error log"),
            Support::NotThere => match crate::htaccess::coverage_of_site(&row) {
                Support::Works => ("works", "in the server's own files"),
                Support::NoEffect => ("accepted without effect", "in the server's own files"),
                Support::Refused | Support::NotThere => {
                    ("refused", "in the server's own files: brisk httpd names the line and does not start")
                }
            },
        };
        let name = if row.name.starts_with('<') { format!("{}>", row.name) } else { row.name.to_string() };
        Entry { name, module: row.module, contexts: "", state, detail: detail.into() }
    };
    crate::htaccess::coverage().into_iter().map(entry).collect()
}

/// `docs/apache-coverage.tsv`.
pub fn apache_tsv() -> String {
    let mut out = String::from("directive\tApache module\tin Brisk\tdetail\n");
    for Entry { name, module, state, detail, .. } in apache() {
        let _ = writeln!(out, "{name}\t{module}\t{state}\t{detail}");
    }
    out
}

fn has_variable(name: &str) -> bool {
    variables::all().any(|(_, row)| row.name == name)
}

/// Our context for nginx's name of it; `None` where Brisk has no such block.
fn context(name: &str) -> Option<Context> {
    Some(match name {
        "any" => Context(u32::MAX),
        "main" => Context::MAIN,
        "events" => Context::EVENTS,
        "http" => Context::HTTP,
        "http.server" => Context::SERVER,
        "http.location" => Context::LOCATION,
        "http.server.if" => Context::SERVER_IF,
        "http.location.if" => Context::LOCATION_IF,
        "http.limit_except" => Context::LIMIT_EXCEPT,
        "http.upstream" => Context::UPSTREAM,
        "stream" => Context::STREAM,
        "stream.server" => Context::STREAM_SERVER,
        "stream.upstream" => Context::STREAM_UPSTREAM,
        _ => return None,
    })
}

/// What the user reads: inside `stream` and `mail` it is that block which is refused.
fn message(known: &Known, name_is_known: bool) -> String {
    let outer = known.contexts.split(['.', ',']).next().unwrap_or_default();
    if matches!(outer, "stream" | "mail") {
        format!("unknown directive \"{outer}\"")
    } else if name_is_known {
        format!("\"{}\" directive is not allowed here", known.name)
    } else {
        format!("unknown directive \"{}\"", known.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::config;

    /// A statement of this name in each of its contexts of `http` and above.
    fn places(known: &Known) -> impl Iterator<Item = String> {
        let name = known.name;
        known.contexts.split(',').filter_map(move |context| {
            Some(match context {
                "main" => format!("{name} x; events {{}} http {{}}"),
                "events" => format!("events {{ {name} x; }} http {{}}"),
                "http" => format!("events {{}} http {{ {name} x; }}"),
                "http.server" => format!("events {{}} http {{ server {{ {name} x; }} }}"),
                "http.location" => format!("events {{}} http {{ server {{ location / {{ {name} x; }} }} }}"),
                _ => return None,
            })
        })
    }

    #[test]
    fn what_is_refused_is_refused_with_the_message_of_the_list() {
        for known in nginx::directives() {
            let State::Refused(message) = state(&known) else { continue };
            for text in places(&known) {
                let (snapshot, messages) = config(&text);
                assert!(snapshot.is_none(), "accepted: {text}");
                assert!(messages.iter().any(|m| m.contains(&message)), "{text}: {messages:?}, not {message}");
            }
        }
    }

    #[test]
    fn directives_of_the_core_modules_are_known() {
        const CORE: &[&str] = &[
            "ngx_conf_module",
            "ngx_core_module",
            "ngx_epoll_module",
            "ngx_errlog_module",
            "ngx_event_core_module",
            "ngx_events_module",
            "ngx_http_core_module",
            "ngx_http_module",
            "ngx_regex_module",
            "ngx_thread_pool_module",
        ];
        let refused: Vec<_> = nginx::directives()
            .filter(|known| CORE.contains(&known.module))
            .filter(|known| !matches!(state(known), State::Works | State::Accepted(_)))
            .map(|known| known.name)
            .collect();
        assert_eq!(refused, [""; 0]);
    }

    #[test]
    fn parameters_are_counted_as_nginx_counts_them() {
        for known in nginx::directives().filter(|known| !matches!(state(known), State::Refused(_))) {
            let rows: Vec<_> = directives::all().filter(|(_, row)| row.name == known.name).collect();
            assert!(
                rows.iter().any(|(_, row)| row.arity == known.arity()),
                "{}: {:?}, nginx {:?}",
                known.name,
                rows[0].1.arity,
                known.arity()
            );
        }
    }

    #[test]
    fn directives_are_repeated_as_in_nginx() {
        let mut wrong = Vec::new();
        for known in nginx::directives() {
            for context in known.contexts.split(',').filter_map(context) {
                let mut rows = directives::all().filter(|(_, row)| row.name == known.name);
                if let Some((_, row)) = rows.find(|(_, row)| row.contexts.has(context))
                    && row.many != known.many
                {
                    wrong.push(format!("{} ({}): {}", known.name, row.contexts.names(), row.many));
                }
            }
        }
        wrong.dedup();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    /// What stands twice adds up or takes the other's place, as nginx's setters have it.
    #[test]
    fn what_may_stand_twice_means_what_it_means_in_nginx() {
        use crate::check::{messages, messages_in_location, refused};
        messages_in_location(
            "gzip_proxied any; gzip_proxied expired Expired; keepalive_disable msie6; keepalive_disable SAFARI none;
             proxy_next_upstream error; proxy_next_upstream timeout; proxy_cache_methods GET; proxy_cache_methods POST;
             fastcgi_split_path_info ^(a)(b)$; fastcgi_split_path_info ^(.+)(/.+)$; stub_status; stub_status;",
            &["duplicate value \"Expired\""],
        );
        messages("ssl_protocols TLSv1.2; ssl_protocols tlsv1.3 TLSv1.2;", &["duplicate value \"TLSv1.2\""]);
        messages("ssl_session_cache off; ssl_session_cache shared:a:1m;", &[]);
        messages(
            "upstream u { zone a 1m; zone b 1m; ip_hash; ip_hash; least_conn; server 127.0.0.1; }",
            &["load balancing method redefined"; 2],
        );
        // What is the same again is refused all the same.
        let twice = |directive: &str| format!("{directive} {directive}");
        for (directive, name) in [
            ("proxy_redirect off;", "proxy_redirect"),
            ("proxy_cookie_domain off;", "proxy_cookie_domain"),
            ("proxy_cookie_path off;", "proxy_cookie_path"),
            ("proxy_cookie_flags off;", "proxy_cookie_flags"),
            ("mirror off;", "mirror"),
        ] {
            refused(&[(&*twice(directive), &*format!("\"{name}\" directive is duplicate"))]);
        }
        refused(&[
            (
                "limit_req_zone $uri zone=z:1m rate=1r/s; limit_req zone=z; limit_req zone=z;",
                "\"limit_req\" directive is duplicate",
            ),
            (
                "limit_conn_zone $uri zone=z:1m; limit_conn z 1; limit_conn z 2;",
                "\"limit_conn\" directive is duplicate",
            ),
            ("mirror /a; mirror off;", "\"mirror\" directive is duplicate"),
            ("mirror off; mirror /a;", "\"mirror\" directive is duplicate"),
            (
                "client_header_buffer_size 1k; client_header_buffer_size 1k;",
                "\"client_header_buffer_size\" directive is duplicate",
            ),
            (
                "connection_pool_size 1k; connection_pool_size 1k;",
                "\"connection_pool_size\" directive is duplicate",
            ),
        ]);
    }

    #[test]
    fn variables_of_the_core_are_known() {
        /// Those that wait for request bodies in files and the PROXY protocol.
        const LATER: &[&str] = &[
            "proxy_protocol_addr",
            "proxy_protocol_port",
            "proxy_protocol_server_addr",
            "proxy_protocol_server_port",
            "proxy_protocol_tlv_*",
            "request_body",
            "request_body_file",
        ];
        let unknown: Vec<_> = nginx::variables()
            .filter(|(name, module)| *module == "ngx_http_core_module" && !has_variable(name))
            .map(|(name, _)| name)
            .collect();
        assert!(unknown.iter().all(|name| LATER.contains(name)), "{unknown:?}");
    }
}
