//! What is said about `stream` blocks.

use crate::check::{config, errors};

fn refused(text: &str, want: &str) {
    let errors = errors(&format!("events {{}} stream {{ {text} }}"));
    assert_eq!(errors.first().map(String::as_str), Some(want), "{text}");
}

fn accepted(text: &str) {
    let (snap, messages) = config(&format!("events {{}} stream {{ {text} }}"));
    assert!(snap.is_some(), "{messages:?}: {text}");
}

#[test]
fn servers_are_checked() {
    refused("server { proxy_pass 127.0.0.1:1; }", "no \"listen\" is defined for server in stream");
    refused("server { listen 127.0.0.1; return x; }", "no port in \"127.0.0.1\" of the \"listen\" directive");
    refused(
        "server { listen 127.0.0.1:2 ssl; return a; }",
        "no \"ssl_certificate\" is defined for the \"listen ... ssl\" directive",
    );
    refused(
        "server { listen 127.0.0.1:2 ssl udp; return a; }",
        "\"ssl\" parameter is incompatible with \"udp\"",
    );
    refused("upstream u { least_time header; server 127.0.0.1:1; }", "invalid value \"header\"");
    refused(
        "upstream u { random two least_time=header; server 127.0.0.1:1; }",
        "invalid parameter \"least_time=header\"",
    );
    refused("server { listen 2; ssl_alpn \"\"; return a; }", "invalid ALPN protocol \"\"");
    refused(
        "server { listen 2; ssl_early_data on; return a; }",
        "\"ssl_early_data\" directive is not allowed here",
    );
    refused(
        "server { listen 2; proxy_ssl on; proxy_ssl_verify on; proxy_pass 127.0.0.1:1; }",
        "no proxy_ssl_trusted_certificate for proxy_ssl_verify",
    );
    refused(
        "server { listen 127.0.0.1:2 udp proxy_protocol; }",
        "\"proxy_protocol\" parameter is incompatible with \"udp\"",
    );
    refused(
        "server { listen 2 default_server; server_name a; return a; } server { listen 2 default_server; server_name b; return b; }",
        "a duplicate default server for 0.0.0.0:2",
    );
    refused("server { listen 2; listen 2; return a; }", "a duplicate listen 2");
    refused("server { listen 2; set $remote_addr a; return a; }", "the duplicate \"remote_addr\" variable");
    refused("server { listen 2; limit_conn a 1; return a; }", "zero size shared memory zone \"a\"");
    refused("server { listen 2; proxy_bind a; return a; }", "invalid address \"a\"");
    refused("server { listen 2; allow a; return a; }", "invalid parameter \"a\"");
    refused("server { listen 127.0.0.1:2 http2; }", "invalid parameter \"http2\"");
    refused(
        "server { listen 127.0.0.1:2 ; return a; proxy_pass b:1; }",
        "\"proxy_pass\" directive is duplicate",
    );
    refused(
        "server { listen 2; return a; } server { listen *:2; return b; }",
        "duplicate \"0.0.0.0:2\" address and port pair",
    );
    refused("server { listen 127.0.0.1:2; proxy_pass 127.0.0.1; }", "no port in upstream \"127.0.0.1\"");
    refused("upstream u { server 127.0.0.1; }", "no port in upstream \"127.0.0.1\"");
    refused("server { listen 127.0.0.1:2; proxy_pass $nobody; }", "unknown \"nobody\" variable");
    refused("server { listen 127.0.0.1:2; proxy_pass $uri; }", "unknown \"uri\" variable");
    refused("server { listen 127.0.0.1:2; return a; access_log a.log; }", "log format is not specified");
    refused(
        "server { listen 127.0.0.1:2; return a; access_log a.log combined; }",
        "unknown log format \"combined\"",
    );
    refused(
        "server { listen 127.0.0.1:2; proxy_upload_rate x; }",
        "\"proxy_upload_rate\" directive invalid value",
    );
    refused("server { location / { } }", "\"location\" directive is not allowed here");
    refused(
        "geo $a { proxy 127.0.0.1; }",
        "\"proxy\" in \"geo\" is for http: a session has no X-Forwarded-For",
    );
}

#[test]
fn all_directives_are_accepted() {
    accepted(
        "limit_conn_zone $binary_remote_addr zone=conns:1m; set_real_ip_from 127.0.0.0/8; allow 127.0.0.1; deny all; proxy_protocol_timeout 1s;
         server { listen 127.0.0.1:20 proxy_protocol default_server; server_name a.example *.b.example ~^c; set $a $remote_addr; limit_conn conns 1;
             limit_conn_dry_run on; limit_conn_log_level info; ssl_preread on; preread_timeout 1s; preread_buffer_size 4k;
             proxy_protocol on; proxy_bind 127.0.0.1; proxy_socket_rcvbuf 64k; proxy_socket_sndbuf 64k; proxy_pass $a:1; }
         server { listen 127.0.0.1:20; server_name d.example; proxy_downstream_buffer 4k; proxy_upstream_buffer 4k; pass 127.0.0.1:2; }
         log_format a '$remote_addr $status'; access_log a.log a; error_log b.log info; tcp_nodelay off;
         upstream u { zone z 64k; least_conn; server 127.0.0.1:1 weight=2; server 127.0.0.1:3 backup; }
         upstream h { hash $remote_addr consistent; server 127.0.0.1:1; server unix:/s; }
         upstream r { random two; server 127.0.0.1:1; server 127.0.0.1:2; }
         map $server_port $m { 5 u; default h; } geo $g { default 1; 127.0.0.0/8 2; }
         split_clients $remote_addr $s { 50% u; * h; }
         proxy_connect_timeout 1s; proxy_timeout 2s; proxy_next_upstream off; proxy_next_upstream_tries 2;
         proxy_next_upstream_timeout 3s; proxy_buffer_size 4k; proxy_half_close on; proxy_socket_keepalive on;
         proxy_upload_rate 1k; proxy_download_rate $m; proxy_responses 1; proxy_requests 2;
         server { listen 127.0.0.1:5 so_keepalive=on backlog=9; listen [::1]:6; listen unix:/t; proxy_pass u; }
         server { listen 127.0.0.1:5 udp reuseport; proxy_pass h; access_log off; }
         server { listen 7-8; proxy_pass $m; access_log l-$bytes_sent.log a if=$g; }
         server { listen 127.0.0.1:7; return $s$g; }",
    );
}

/// The same address cannot speak HTTP and be passed on.
#[test]
fn an_address_belongs_to_http_or_to_stream() {
    let text = "events {} http { server { listen 127.0.0.1:9000; } }
                stream { server { listen 127.0.0.1:9000; return a; } }";
    assert_eq!(errors(text), ["127.0.0.1:9000 is listened on for another protocol already"]);
    let (snap, messages) = config(&text.replace("9000; return", "9000 udp; return"));
    assert!(snap.is_some(), "{messages:?}");
}

/// What is said in `stream` counts there alone.
#[test]
fn http_inherits_nothing_from_stream() {
    let text =
        "events {} stream { upstream u { server 127.0.0.1:1; } server { listen 127.0.0.1:2; proxy_pass u; } }
                http { server { listen 127.0.0.1:3; location / { proxy_pass http://u; } } }";
    let (snap, messages) = config(text);
    assert!(snap.is_some() && messages[0].contains("host not found in upstream"), "{messages:?}");
}
