//! What `upstream` blocks may say, in nginx's words where they may not.

use crate::check::{accepted, http, messages, refused};

fn block(text: &str) -> String {
    format!("upstream u {{ {text} }}")
}

#[test]
fn blocks_are_checked_in_nginxs_words() {
    let one = "server 127.0.0.1:81;";
    for (text, want) in [
        ("", "no servers are inside upstream"),
        ("server 127.0.0.1 weight=0;", "invalid parameter \"weight=0\""),
        ("server 127.0.0.1 weight=x;", "invalid parameter \"weight=x\""),
        ("server 127.0.0.1 slow_start=x;", "invalid parameter \"slow_start=x\""),
        ("server 127.0.0.1 route=;", "route is empty"),
        ("server 127.0.0.1 route=123456789012345678901234567890123;", "route is longer than 32"),
        ("server 127.0.0.1 fail_timeout=1x;", "invalid parameter \"fail_timeout=1x\""),
        ("server 127.0.0.1:x;", "invalid port in upstream \"127.0.0.1:x\""),
        ("ip_hash; server 127.0.0.1 backup;", "balancing method does not support parameter \"backup\""),
        (
            "random; server 127.0.0.1 slow_start=1s;",
            "balancing method does not support parameter \"slow_start=1s\"",
        ),
        ("server 127.0.0.1 backup;", "no servers in upstream \"u\""),
        ("server a.b service=http;", "service upstream \"a.b\" requires \"resolve\" parameter"),
        ("server a.b service= resolve;", "service is empty"),
        ("server a.b:80 service=http resolve;", "service upstream \"a.b:80\" may not have port"),
        ("server 127.0.0.1 service=http resolve;", "service upstream \"127.0.0.1\" requires domain name"),
        ("server a.b resolve;", "resolving names at run time requires upstream \"u\" to be in shared memory"),
        (
            "zone z 64k; server a.b resolve;",
            "no resolver defined to resolve names at run time in upstream \"u\"",
        ),
        ("zone z; server 127.0.0.1;", "zero size shared memory zone \"z\""),
        ("zone z 1x; server 127.0.0.1;", "invalid zone size \"1x\""),
        ("zone z 8k; server 127.0.0.1;", "zone \"z\" is too small"),
        ("state /tmp/x; server 127.0.0.1;", "\"state\" requires \"zone\" in upstream \"u\""),
        ("hash $uri x;", "invalid parameter \"x\""),
        ("least_time x;", "invalid value \"x\""),
        ("least_time header x;", "invalid parameter \"x\""),
        ("random one;", "invalid parameter \"one\""),
        ("random two x;", "invalid parameter \"x\""),
        ("keepalive x;", "invalid value \"x\" in \"keepalive\" directive"),
        ("keepalive 1 x;", "invalid parameter \"x\""),
        ("queue 1 x;", "invalid parameter \"x\""),
        ("resolver;", "invalid number of arguments in \"resolver\" directive"),
        ("resolver valid=1s;", "no name servers defined"),
        ("resolver 127.0.0.1 ipv4=off ipv6=off;", "\"ipv4\" and \"ipv6\" cannot both be \"off\""),
        ("resolver 127.0.0.1 valid=x;", "invalid parameter: valid=x"),
        ("ntlm;", "the \"ntlm\" directive is not supported"),
    ] {
        refused(&[(&block(text), want)]);
    }
    refused(&[
        (&format!("{} upstream U {{ {one} }}", block(one)), "duplicate upstream \"U\""),
        (
            "upstream a { zone z 64k; server 127.0.0.1; } upstream b { zone z 128k; server 127.0.0.1; }",
            "the size 131072 of shared memory zone \"z\" conflicts with already declared size 65536",
        ),
        (
            "upstream a { server 127.0.0.1; sticky learn lookup=$uri create=$uri zone=z:64k; }
             upstream b { server 127.0.0.1; sticky learn lookup=$uri create=$uri zone=z:64k; }",
            "sticky zone \"z\" is already used in upstream \"a\"",
        ),
    ]);
}

#[test]
fn matches_are_checked() {
    for (text, want) in [
        ("require;", "invalid number of arguments in \"require\" directive"),
        ("require uri;", "no variable in \"uri\""),
        ("require $uri x;", "no variable in \"x\""),
        ("require $brisk_no_such;", "unknown \"brisk_no_such\" variable"),
        ("status x;", "invalid status \"x\""),
        ("other x;", "unknown directive \"other\""),
    ] {
        refused(&[(&format!("match m {{ {text} }}"), want)]);
    }
    accepted(&["match m { status 200; require $upstream_http_x \"$uri-\"; }"]);
}

#[test]
fn sticky_is_checked_in_nginxs_words() {
    for (text, want) in [
        ("sticky x y;", "unknown parameter \"x\""),
        ("sticky cookie '';", "\"sticky\" directive empty cookie name"),
        ("sticky cookie a domain=;", "\"sticky\" directive no value for \"domain\""),
        ("sticky cookie a path=/ path=/;", "\"sticky\" directive parameter \"path\" is duplicate"),
        ("sticky cookie a expires=x;", "\"sticky\" directive invalid \"expires\" parameter value"),
        ("sticky cookie a samesite=x;", "\"sticky\" directive invalid \"samesite\" parameter value"),
        ("sticky cookie a x;", "unknown parameter \"x\""),
        ("sticky route x;", "invalid variable name \"x\""),
        ("sticky learn create=$uri;", "\"sticky\" directive \"lookup\" parameter is not specified"),
        ("sticky learn lookup=$uri;", "\"sticky\" directive \"create\" parameter is not specified"),
        ("sticky learn lookup=$uri create=$uri;", "\"sticky\" directive \"zone\" parameter is not specified"),
        (
            "sticky learn lookup=uri create=$uri;",
            "\"sticky\" directive missing variable in the \"lookup\" parameter",
        ),
        ("sticky learn zone=a;", "\"sticky\" directive zone size is not specified"),
        ("sticky learn zone=a:1k;", "\"sticky\" directive zone is too small"),
        ("sticky learn timeout=0;", "\"sticky\" directive invalid timeout"),
    ] {
        refused(&[(&block(text), want)]);
    }
}

#[test]
fn all_that_nginx_knows_is_known() {
    accepted(&[
        "upstream u { server 127.0.0.1 weight=5 max_conns=3 max_fails=0 fail_timeout=1m slow_start=30s route=a;
          server unix:/tmp/s down; server [::1]:81 drain; server 127.0.0.1:82 backup;
          zone z 64k; least_conn; keepalive 16 local; keepalive_requests 10; keepalive_time 1m;
          keepalive_timeout 10s; queue 10 timeout=5s; resolver 127.0.0.1:53 [::1] valid=10s ipv6=off;
          resolver_timeout 2s; }",
        "upstream a { zone z 64k; hash $uri consistent; server 127.0.0.1; }
         upstream b { zone z; ip_hash; server 127.0.0.1; }
         upstream c { least_time last_byte inflight; server 127.0.0.1; }
         upstream d { random two least_time=header; server 127.0.0.1; }
         upstream e { random; server 127.0.0.1; sticky route $arg_r $cookie_r; }
         upstream f { server 127.0.0.1; sticky cookie n expires=1h domain=.$host path=/ httponly secure samesite=lax; }
         upstream g { zone y 1m; server a.b resolve; server c.d resolve service=http; }
         upstream h { zone y; state /tmp/brisk-no-such/state; }
         resolver 127.0.0.1; resolver_timeout 5s;
         server { resolver 127.0.0.2 valid=5s; location / { resolver 127.0.0.3; } }",
    ]);
    messages("upstream u { server 127.0.0.1; ip_hash; least_conn; }", &["load balancing method redefined"]);
}

#[test]
fn groups_are_found_by_their_names() {
    let pass = |url: &str| {
        format!("upstream u {{ server 127.0.0.1; }} server {{ location / {{ proxy_pass {url}; }} }}")
    };
    for (url, want) in [
        ("http://u:80", "upstream \"u\" may not have port 80"),
        ("http://:80", "no host in upstream \":80\""),
        ("http://127.0.0.1:x", "invalid port in upstream \"127.0.0.1:x\""),
    ] {
        refused(&[(&pass(url), want)]);
    }
    accepted(&[
        &pass("http://U"),
        &pass("http://127.0.0.1:81"),
        &pass("http://[::1]/x"),
        &pass("http://unix:/s:/x"),
    ]);
}

#[test]
fn a_name_without_address_is_a_warning() {
    messages(
        "upstream u { server no-such-host.invalid; }",
        &["host not found in upstream \"no-such-host.invalid\""],
    );
    assert_eq!(http("upstream u { server no-such-host.invalid; }").unwrap().services.len(), 1);
}

#[test]
fn a_mistake_is_told_once() {
    let text = "upstream u { hash $uri; server 127.0.0.1:1 slow_start=5s; } server { location / { proxy_pass http://u; } }";
    messages(text, &["balancing method does not support parameter \"slow_start=5s\""]);
}
