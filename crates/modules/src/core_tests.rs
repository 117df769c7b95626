//! Directives of the core: values they take, values that do nothing here, values they refuse in nginx's words.

use crate::check::{config, messages};

/// A statement with its block around it.
fn whole(block: &str, statement: &str) -> String {
    match block {
        "main" => format!("{statement} events {{}} http {{}}"),
        "events" => format!("events {{ {statement} }} http {{}}"),
        "http" => format!("events {{}} http {{ {statement} }}"),
        _ => format!("events {{}} http {{ server {{ location /x/ {{ {statement} }} }} }}"),
    }
}

#[test]
fn values_are_taken() {
    for (block, statements) in TAKEN {
        for statement in *statements {
            let (snapshot, messages) = config(&whole(block, statement));
            assert!(snapshot.is_some() && messages.is_empty(), "{statement}: {messages:?}");
        }
    }
}

#[test]
fn what_has_no_effect_is_noticed() {
    for (block, statements) in WITHOUT_EFFECT {
        for statement in *statements {
            let (snapshot, messages) = config(&whole(block, statement));
            assert!(snapshot.is_some(), "{statement}: {messages:?}");
            assert!(
                messages.iter().all(|m| m.contains(" directive has no effect here: ")),
                "{statement}: {messages:?}"
            );
            assert_eq!(messages.len(), 1, "{statement}: {messages:?}");
        }
    }
}

#[test]
fn modules_compiled_for_nginx_are_warned_of() {
    let (snap, warned) = config("load_module modules/ngx_http_nope_module.so; events {} http {}");
    assert!(snap.is_some());
    assert_eq!(warned, ["module \"modules/ngx_http_nope_module.so\" cannot be loaded"]);
}

#[test]
fn a_line_that_became_parameters_of_the_one_before_is_warned_of() {
    let warned = "\"index\" is read as a parameter of \"server_name\"";
    messages("server {\nserver_name example.org\nindex a.html;\n}", &[warned]);
    messages("server {\nserver_name example.org index;\nindex a.html; }", &[]);
}

/// The warning about the old spelling comes with the error.
#[test]
fn http2_is_not_spoken_over_quic() {
    let (snapshot, messages) = config("events {} http { server { listen 8001 quic http2; } }");
    assert!(snapshot.is_none());
    let warning = "the \"listen ... http2\" directive is deprecated, use the \"http2\" directive instead";
    assert_eq!(messages, [warning, "\"http2\" parameter is incompatible with \"quic\""]);
}

#[test]
fn values_are_refused() {
    for (block, cases) in REFUSED {
        for (statement, message) in *cases {
            let (snapshot, messages) = config(&whole(block, statement));
            assert!(snapshot.is_none(), "accepted: {statement}");
            assert_eq!(messages, [*message], "{statement}");
        }
    }
}

const TAKEN: &[(&str, &[&str])] = &[
    (
        "main",
        &[
            "daemon off;",
            "master_process off;",
            "worker_processes 4;",
            "worker_processes auto;",
            "worker_cpu_affinity 01 10;",
            "worker_cpu_affinity auto 11;",
            "worker_priority -5;",
            "worker_rlimit_nofile 1024;",
            "worker_rlimit_core 10m;",
            "worker_shutdown_timeout 10s;",
            "working_directory /tmp;",
            "env PATH;",
            "env A=b;",
            "pcre_jit on;",
            "thread_pool images threads=4 max_queue=8;",
            "thread_pool a threads=4;",
        ],
    ),
    ("events", &["worker_connections 64;", "worker_connections 65536;", "multi_accept on;"]),
    (
        "http",
        &[
            "client_body_buffer_size 8k;",
            "client_body_timeout 5s;",
            "client_header_buffer_size 2k;",
            "client_header_timeout 5s;",
            "client_max_body_size 1g;",
            "etag off;",
            "log_subrequest on;",
            "subrequest_output_buffer_size 8k;",
            "max_headers 50;",
            "merge_slashes off;",
            "recursive_error_pages on;",
            "server { listen 8001 multipath; listen 8002 backlog=9 multipath; } server { listen 8003; }",
            "error_log a.log warn rate=10m/s filter=message:open filter=client:=10.0.0.1; error_log b.log rate=0 debug_http debug_event;",
            "reset_timedout_connection on;",
            "send_timeout 5s;",
            "tcp_nodelay off;",
            "underscores_in_headers on;",
            "sendfile_max_chunk 1m;",
            "keepalive_requests 5;",
            "keepalive_time 5m;",
            "keepalive_min_timeout 5s;",
            "auth_delay 1s;",
            "lingering_time 5s;",
            "lingering_timeout 1s;",
            "lingering_close always;",
            "client_body_in_single_buffer on;",
            "client_body_in_file_only clean;",
            "client_body_temp_path /tmp/b 1 2;",
            "client_body_early_read $http_x;",
            "early_hints $http_x;",
            "keepalive_disable safari;",
            "keepalive_disable none;",
            "keepalive_timeout 5 10;",
            "large_client_header_buffers 2 1k;",
            "max_ranges 1;",
            "if_modified_since before;",
            "server_tokens build;",
            "satisfy any;",
            "limit_rate 10k;",
            "limit_rate_after 10k;",
            "aio threads;",
            "aio threads=default;",
            "directio 4m;",
            "disable_symlinks if_not_owner from=/srv;",
            "open_file_cache max=10 inactive=5s;",
            "open_file_cache_valid 5s;",
            "open_file_cache_min_uses 2;",
            "open_file_cache_errors on;",
            "post_action /done;",
            "absolute_redirect off;",
            "port_in_redirect off;",
            "server_name_in_redirect on;",
            "chunked_transfer_encoding off;",
            "ignore_invalid_headers off;",
            "log_not_found off;",
            "default_type text/html;",
            "types { text/x x; }",
            "types { text/x; }",
            "error_page 404 =200 /x;",
            "error_page 404 @x;",
            "error_page 500 502 /x;",
            "index a.html b.html;",
            "log_format f '$uri';",
        ],
    ),
    ("location", &["alias /srv/x;", "internal;"]),
];

const WITHOUT_EFFECT: &[(&str, &[&str])] = &[
    (
        "main",
        &[
            "timer_resolution 100ms;",
            "lock_file logs/lock;",
            "debug_points abort;",
            "ssl_engine rdrand;",
            "load_module modules/ngx_http_geo_module.so;",
            "load_module modules/ngx_http_image_filter_module.so;",
            "load_module modules/ngx_http_brotli_filter_module.so;",
        ],
    ),
    (
        "events",
        &["accept_mutex on;", "accept_mutex_delay 100ms;", "worker_aio_requests 32;", "epoll_events 512;"],
    ),
    (
        "http",
        &[
            "open_file_cache_events on;",
            "aio_write on;",
            "output_buffers 4 64k;",
            "directio_alignment 512;",
            "read_ahead 32k;",
            "postpone_output 1460;",
            "send_lowat 12000;",
            "connection_pool_size 512;",
            "request_pool_size 4k;",
            "output_buffers 2 32k;",
            "server_names_hash_bucket_size 64;",
            "server_names_hash_max_size 512;",
            "types_hash_bucket_size 64;",
            "types_hash_max_size 1024;",
            "variables_hash_bucket_size 64;",
            "variables_hash_max_size 1024;",
            "ssi_ignore_recycled_buffers on;",
            "msie_padding off;",
        ],
    ),
    ("location", &["referer_hash_bucket_size 64;"]),
];

const REFUSED: &[(&str, &[(&str, &str)])] = &[
    (
        "main",
        &[
            ("daemon yes;", r#"invalid value "yes" in "daemon" directive, it must be "on" or "off""#),
            (
                "master_process 0;",
                r#"invalid value "0" in "master_process" directive, it must be "on" or "off""#,
            ),
            ("worker_processes many;", r#""worker_processes" directive invalid value"#),
            ("worker_processes 0;", r#"invalid value "0""#),
            ("worker_cpu_affinity 12;", r#"invalid character "2" in "worker_cpu_affinity""#),
            ("worker_priority 21;", "value must be between -20 and 20"),
            ("worker_priority high;", r#""worker_priority" directive invalid number"#),
            ("worker_rlimit_nofile many;", r#""worker_rlimit_nofile" directive invalid number"#),
            ("worker_rlimit_core big;", r#""worker_rlimit_core" directive invalid value"#),
            ("worker_shutdown_timeout soon;", r#""worker_shutdown_timeout" directive invalid value"#),
            ("pcre_jit yes;", r#"invalid value "yes" in "pcre_jit" directive, it must be "on" or "off""#),
            ("thread_pool a threads=0;", r#"missing "threads" parameter"#),
            ("thread_pool a threads=1025;", r#""threads=1025" is too many"#),
        ],
    ),
    (
        "events",
        &[
            ("worker_connections 0;", "value must be equal to or greater than 1"),
            ("worker_connections x;", r#""worker_connections" directive invalid number"#),
            (
                "multi_accept maybe;",
                r#"invalid value "maybe" in "multi_accept" directive, it must be "on" or "off""#,
            ),
        ],
    ),
    (
        "http",
        &[
            ("client_body_buffer_size 8x;", r#""client_body_buffer_size" directive invalid value"#),
            ("client_body_timeout never;", r#""client_body_timeout" directive invalid value"#),
            ("client_header_timeout 5q;", r#""client_header_timeout" directive invalid value"#),
            ("client_max_body_size lots;", r#""client_max_body_size" directive invalid value"#),
            ("etag no;", r#"invalid value "no" in "etag" directive, it must be "on" or "off""#),
            (
                "log_subrequest x;",
                r#"invalid value "x" in "log_subrequest" directive, it must be "on" or "off""#,
            ),
            ("max_headers x;", r#""max_headers" directive invalid number"#),
            (
                "merge_slashes x;",
                r#"invalid value "x" in "merge_slashes" directive, it must be "on" or "off""#,
            ),
            (
                "recursive_error_pages x;",
                r#"invalid value "x" in "recursive_error_pages" directive, it must be "on" or "off""#,
            ),
            ("error_log f error warn;", "duplicate log level \"warn\""),
            ("error_log f error debug_http;", "duplicate log level \"debug_http\""),
            ("error_log f rate=x;", "invalid rate \"rate=x\""),
            ("error_log f filter=x;", "missing filter type in \"x\""),
            ("error_log f filter=tag:x;", "unknown filter type \"tag\""),
            (
                "error_log f filter=message:~(;",
                "pcre2_compile() failed: missing closing parenthesis in \"(\"",
            ),
            ("server { listen 8001 spdy; }", "invalid parameter \"spdy\""),
            (
                "server { listen 8001 quic; }",
                "no \"ssl_certificate\" is defined for the \"listen ... quic\" directive",
            ),
            ("server { listen 8001 quic ssl; }", "\"ssl\" parameter is incompatible with \"quic\""),
            (
                "server { listen 8001 quic proxy_protocol; }",
                "\"proxy_protocol\" parameter is incompatible with \"quic\"",
            ),
            ("server { listen 8001 quic deferred; }", "a parameter of TCP is incompatible with \"quic\""),
            ("server { listen unix:/tmp/x quic; }", "\"quic\" parameter is incompatible with a unix socket"),
            (
                "reset_timedout_connection x;",
                r#"invalid value "x" in "reset_timedout_connection" directive, it must be "on" or "off""#,
            ),
            ("send_timeout x;", r#""send_timeout" directive invalid value"#),
            ("tcp_nodelay x;", r#"invalid value "x" in "tcp_nodelay" directive, it must be "on" or "off""#),
            (
                "underscores_in_headers x;",
                r#"invalid value "x" in "underscores_in_headers" directive, it must be "on" or "off""#,
            ),
            ("sendfile_max_chunk x;", r#""sendfile_max_chunk" directive invalid value"#),
            ("keepalive_requests x;", r#""keepalive_requests" directive invalid number"#),
            ("keepalive_time x;", r#""keepalive_time" directive invalid value"#),
            ("keepalive_min_timeout x;", r#""keepalive_min_timeout" directive invalid value"#),
            ("auth_delay x;", r#""auth_delay" directive invalid value"#),
            ("lingering_time x;", r#""lingering_time" directive invalid value"#),
            ("lingering_timeout x;", r#""lingering_timeout" directive invalid value"#),
            ("lingering_close maybe;", r#"invalid value "maybe""#),
            (
                "client_body_in_single_buffer x;",
                r#"invalid value "x" in "client_body_in_single_buffer" directive, it must be "on" or "off""#,
            ),
            ("client_body_in_file_only x;", r#"invalid value "x""#),
            ("client_body_temp_path /tmp/b 9;", r#"invalid value "9""#),
            ("keepalive_disable opera;", r#"invalid value "opera""#),
            ("keepalive_timeout x;", r#""keepalive_timeout" directive invalid value"#),
            ("large_client_header_buffers 0 1k;", r#""large_client_header_buffers" directive invalid value"#),
            ("max_ranges x;", r#""max_ranges" directive invalid number"#),
            ("if_modified_since after;", r#"invalid value "after""#),
            ("server_tokens x;", r#"invalid value "x""#),
            ("satisfy some;", r#"invalid value "some""#),
            ("limit_rate x;", r#""limit_rate" directive invalid value"#),
            ("limit_rate_after x;", r#""limit_rate_after" directive invalid value"#),
            ("aio x;", r#""aio" directive invalid value"#),
            ("directio x;", r#""directio" directive invalid value"#),
            ("disable_symlinks x;", r#"invalid parameter "x""#),
            ("open_file_cache_valid x;", r#""open_file_cache_valid" directive invalid value"#),
            ("open_file_cache_min_uses x;", r#""open_file_cache_min_uses" directive invalid number"#),
            (
                "open_file_cache_errors x;",
                r#"invalid value "x" in "open_file_cache_errors" directive, it must be "on" or "off""#,
            ),
            (
                "absolute_redirect x;",
                r#"invalid value "x" in "absolute_redirect" directive, it must be "on" or "off""#,
            ),
            (
                "port_in_redirect x;",
                r#"invalid value "x" in "port_in_redirect" directive, it must be "on" or "off""#,
            ),
            (
                "server_name_in_redirect x;",
                r#"invalid value "x" in "server_name_in_redirect" directive, it must be "on" or "off""#,
            ),
            (
                "chunked_transfer_encoding x;",
                r#"invalid value "x" in "chunked_transfer_encoding" directive, it must be "on" or "off""#,
            ),
            (
                "ignore_invalid_headers x;",
                r#"invalid value "x" in "ignore_invalid_headers" directive, it must be "on" or "off""#,
            ),
            (
                "log_not_found x;",
                r#"invalid value "x" in "log_not_found" directive, it must be "on" or "off""#,
            ),
            ("error_page 200 /x;", r#"value "200" must be between 300 and 599"#),
            ("error_page 499 /x;", r#"invalid value "499""#),
            ("error_page 404 =x /y;", r#"invalid value "=x""#),
        ],
    ),
];
