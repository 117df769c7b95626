//! Each row of the audit against a site that has what it looks for, and all of them against one that has nothing of it.

use super::*;
use crate::ini::{Comments, Ini};
use crate::site::{Block, Machine, apache_settings};
use brisk_conf::{NoFiles, SourceMap};
use std::collections::BTreeSet;

fn server(text: &str) -> Option<Block> {
    let mut sources = SourceMap::default();
    let file = sources.add("nginx.conf", text.as_bytes().to_vec());
    let mut diags = Vec::new();
    let tree = brisk_conf::parse(&mut sources, file, &NoFiles, &mut diags);
    assert!(diags.is_empty(), "{text}");
    Some(Block::of(&tree, &sources))
}

fn ini(text: &str) -> Ini {
    let mut ini = Ini::default();
    ini.read("x.ini", text, Comments::Semicolons);
    ini
}

/// A site in which nothing is to be found.
fn good() -> Site {
    Site {
        server: server(
            r#"worker_processes auto; worker_rlimit_nofile 65536;
            events { worker_connections 4096; }
            http {
                sendfile on; gzip on; gzip_vary on; gzip_types text/css; gzip_min_length 256; gzip_comp_level 5;
                open_file_cache max=1000; access_log /l combined buffer=64k; keepalive_timeout 65s;
                ssl_session_cache shared:a:10m; ssl_session_tickets off; ssl_protocols TLSv1.2 TLSv1.3;
                upstream app { server 127.0.0.1:1; keepalive 8; }
                upstream php { server unix:/s; keepalive 8; }
                server {
                    listen 443 ssl; http2 on; root /srv; expires 1d; server_name a.test;
                    location /app { proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection ""; }
                    location ~ \.php$ {
                        fastcgi_pass php; fastcgi_keep_conn on; fastcgi_cache z; fastcgi_cache_lock on;
                        fastcgi_cache_key $scheme$host$request_uri; fastcgi_no_cache $c; fastcgi_cache_bypass $c;
                    }
                }
                server { listen 80; server_name b.test; return 301 https://a.test$request_uri; }
            }"#,
        ),
        apache: Vec::new(),
        is_brisk: false,
        php: ini("opcache.enable=1\nopcache.memory_consumption=256\nopcache.interned_strings_buffer=32\n\
             opcache.max_accelerated_files=20000\noutput_buffering=4096\nzend.assertions=-1\nmax_execution_time=30"),
        pools: ini("[www]\npm.max_children=20\nrequest_terminate_timeout=60s\npm.status_path=/s\n\
             request_slowlog_timeout=2s\nlisten=/run/php.sock"),
        database: ini(
            "[mysqld]\ninnodb_buffer_pool_size=2G\ninnodb_log_file_size=512M\nslow_query_log=1\nmax_connections=100",
        ),
        machine: Machine {
            cpus: 4,
            memory: 8 << 30,
            swap_used: 0,
            sysctls: vec![("net.core.somaxconn".into(), "4096".into())],
        },
    }
}

fn slugs(site: &Site) -> BTreeSet<&'static str> {
    audit(site).iter().map(|finding| finding.check.slug).collect()
}

#[test]
fn nothing_is_found_where_nothing_is_wrong() {
    assert_eq!(slugs(&good()), BTreeSet::new());
    // Nor where nothing is known.
    assert_eq!(slugs(&Site::default()), BTreeSet::new());
}

#[test]
fn apache_s_files_are_looked_at() {
    let of = |text: &str| {
        let apache = apache_settings("/a", text.as_bytes());
        slugs(&Site { apache, ..Site::default() }).contains("keepalive-off")
    };
    assert!(
        of("KeepAlive On\n<IfModule mpm_event_module>\nkeepalive off\n</IfModule>\n")
            && of("KeepAliveTimeout 0\n")
    );
    assert!(
        !of("KeepAlive Off\nKeepAlive On\n") && !of("<VirtualHost *:80>\nKeepAlive Off\n</VirtualHost>\n")
    );
}

/// What stands in a `server` of its own, and what is to be found.
#[rustfmt::skip]
const SERVERS: &[(&str, &str)] = &[
    ("gzip off; root /x;", "compression-off"),
    ("root /x; gzip on; gzip_vary on;", "compression-html-only"),
    ("gzip_types text/css image/png;", "compression-of-compressed"),
    ("gzip_comp_level 9;", "compression-level"),
    ("gzip_min_length 20;", "compression-of-little"),
    ("root /x; gzip on;", "compression-vary"),
    ("root /x; gzip on;", "lifetimes-none"),
    ("keepalive_timeout 0;", "keepalive-off"),
    ("keepalive_requests 10;", "keepalive-few-requests"),
    ("root /x; sendfile off;", "sendfile-off"),
    ("access_log /x combined;", "access-log-unbuffered"),
    ("error_log /x debug;", "error-log-debug"),
    ("root /x;", "files-opened-anew"),
    ("listen 443 ssl; ssl_session_tickets off;", "tls-no-resumption"),
    ("listen 443 ssl;", "http2-off"),
    ("http2_max_concurrent_streams 8;", "http2-few-streams"),
    ("ssl_protocols TLSv1 TLSv1.2;", "tls-old"),
    ("location / { fastcgi_pass unix:/s; }", "fastcgi-connections"),
    ("location / { fastcgi_pass unix:/s; fastcgi_cache z; }", "cache-stampede"),
    ("location / { fastcgi_pass unix:/s; fastcgi_cache z; fastcgi_ignore_headers Set-Cookie; }", "cache-leaks"),
    ("location / { proxy_pass http://x; proxy_cache z; proxy_cache_key $host$uri; }", "cache-key-short"),
    ("proxy_buffering off;", "buffering-off"),
    ("listen 80 backlog=16;", "backlog-small"),
    ("etag off;", "validators-off"),
    ("tcp_nodelay off;", "nodelay-off"),
];

/// Whole files.
#[rustfmt::skip]
const FILES: &[(&str, &str)] = &[
    ("http { server { return 200; } }", "workers-one"),
    ("worker_processes 64; http { }", "workers-many"),
    ("events { worker_connections 256; } http { }", "connections-few"),
    ("events { worker_connections 8192; } http { }", "descriptors-few"),
    ("http { upstream a { server 127.0.0.1:1; } server { location / { proxy_pass http://a/x; } } }", "back-end-connections"),
    ("http { upstream a { server 127.0.0.1:1; keepalive 4; } server { location / { proxy_pass http://a; } } }", "back-end-keepalive-in-vain"),
];

#[rustfmt::skip]
const PHP: &[(&str, &str)] = &[
    ("opcache.enable=0", "opcache-off"),
    ("zend_extension=xdebug.so", "xdebug-loaded"),
    ("opcache.memory_consumption=64", "opcache-memory"),
    ("opcache.enable=1", "opcache-strings"),
    ("opcache.max_accelerated_files=2000", "opcache-files"),
    ("opcache.revalidate_freq=0", "opcache-looks-always"),
    ("opcache.save_comments=0", "opcache-comments"),
    ("realpath_cache_size=16K", "realpath-cache"),
    ("open_basedir=/srv", "open-basedir"),
    ("zend.assertions=1", "assertions"),
    ("output_buffering=Off", "output-unbuffered"),
    ("max_execution_time=0", "scripts-endless"),
];

#[rustfmt::skip]
const POOLS: &[(&str, &str)] = &[
    ("pm.max_children=5", "pool-as-delivered"),
    ("pm.max_children=2000", "pool-beyond-memory"),
    ("pm.max_children=200", "pool-beyond-cpus"),
    ("pm.max_requests=50", "pool-restarted-often"),
    ("pm=static", "pool-without-time-limit"),
    ("listen=127.0.0.1:9000", "pool-over-tcp"),
    ("listen.backlog=64", "pool-backlog"),
    ("pm=static", "pool-status-hidden"),
    ("pm=static", "pool-slow-log-off"),
];

#[rustfmt::skip]
const DATABASE: &[(&str, &str)] = &[
    ("innodb_flush_log_at_trx_commit=2", "database-loses-commits"),
    ("innodb_doublewrite=0", "database-no-doublewrite"),
    ("user=mysql", "database-pool-small"),
    ("innodb_buffer_pool_size=8000M", "database-pool-large"),
    ("innodb_log_file_size=48M", "database-log-small"),
    ("max_connections=10", "database-connections-few"),
    ("query_cache_type=1", "database-query-cache"),
    ("tmp_table_size=1M", "database-temporary-tables"),
    ("bind-address=0.0.0.0", "database-names-resolved"),
    ("thread_cache_size=0", "database-threads-few"),
    ("table_open_cache=64", "database-tables-few"),
    ("innodb_flush_method=fsync", "database-buffered-twice"),
    ("general_log=1", "database-general-log"),
    ("user=mysql", "database-slow-log-off"),
];

#[rustfmt::skip]
const KERNEL: &[(&str, &str, &str)] = &[
    ("net.core.somaxconn", "128", "kernel-backlog"),
    ("net.ipv4.tcp_max_syn_backlog", "128", "kernel-syn-backlog"),
    ("fs.file-max", "1024", "kernel-files"),
    ("fs.inotify.max_user_watches", "8192", "kernel-watches"),
    ("net.ipv4.ip_local_port_range", "32768 40000", "kernel-ports"),
    ("net.ipv4.tcp_slow_start_after_idle", "1", "kernel-slow-start-after-idle"),
];

#[test]
fn each_row_finds_what_it_looks_for() {
    let mut found = BTreeSet::new();
    let mut check = |site: &Site, slug: &'static str, text: &str| {
        let all = slugs(site);
        assert!(all.contains(slug), "{slug} is not found in {text}: {all:?}");
        found.insert(slug);
    };
    for (text, slug) in SERVERS {
        let site = Site { server: server(&format!("http {{ server {{ {text} }} }}")), ..good() };
        check(&site, slug, text);
    }
    for (text, slug) in FILES {
        check(&Site { server: server(text), ..good() }, slug, text);
    }
    for (text, slug) in PHP {
        check(&Site { php: ini(text), ..good() }, slug, text);
    }
    for (text, slug) in POOLS {
        check(&Site { pools: ini(&format!("[www]\n{text}")), ..good() }, slug, text);
    }
    for (text, slug) in DATABASE {
        check(&Site { database: ini(&format!("[mysqld]\n{text}")), ..good() }, slug, text);
    }
    for (name, value, slug) in KERNEL {
        let sysctls = vec![(name.to_string(), value.to_string())];
        check(&Site { machine: Machine { sysctls, ..good().machine }, ..good() }, slug, value);
    }
    let full = vec![
        ("net.netfilter.nf_conntrack_count".to_string(), "900".to_string()),
        ("net.netfilter.nf_conntrack_max".to_string(), "1000".to_string()),
    ];
    let machine = Machine { sysctls: full, swap_used: 1 << 30, ..good().machine };
    check(&Site { machine: machine.clone(), ..good() }, "kernel-conntrack", "");
    check(&Site { machine, ..good() }, "memory-swapped", "");
    let all: BTreeSet<_> = checks().map(|check| check.slug).collect();
    assert_eq!(found, all, "each row has its case");
    assert_eq!(checks().count(), all.len(), "each row has a name of its own");
}

#[test]
fn findings_say_where_and_come_by_weight() {
    let site = Site {
        server: server("http {\n keepalive_timeout 0;\n server {\n  ssl_protocols SSLv3;\n }\n}"),
        ..Site::default()
    };
    let findings = audit(&site);
    let first = &findings[0];
    assert_eq!((first.check.slug, first.check.weight), ("tls-old", Weight::Danger));
    assert_eq!(first.seen[0].place.as_ref().map(ToString::to_string).as_deref(), Some("nginx.conf:4"));
    assert!(findings.is_sorted_by_key(|finding| finding.check.weight));
    for check in checks() {
        assert!(check.why.ends_with('.') && !check.line.is_empty(), "{}", check.slug);
    }
}

/// Advice for nginx that Brisk does by itself is not given for Brisk.
#[test]
fn brisk_needs_less() {
    let text = "events { } http { access_log /l combined; server { listen 80; root /x; expires 1d; gzip on; gzip_vary on; gzip_types text/css; } }";
    let nginx = Site { server: server(text), machine: good().machine, ..Site::default() };
    let brisk = Site { is_brisk: true, ..nginx.clone() };
    assert_eq!(slugs(&brisk), BTreeSet::new());
    let wanted =
        ["access-log-unbuffered", "connections-few", "files-opened-anew", "sendfile-off", "workers-one"];
    assert_eq!(slugs(&nginx), BTreeSet::from(wanted));
}

/// Programs that read the doctor's JSON look slugs up there.
#[test]
fn slugs_and_causes_are_documented() {
    let page = include_str!("../../../../docs/tuning.md");
    let slugs = checks().map(|check| check.slug).chain(crate::diagnosis::CAUSES.iter().copied());
    let missing: Vec<&str> = slugs.filter(|slug| !page.contains(&format!("`{slug}`"))).collect();
    assert!(missing.is_empty(), "docs/tuning.md: {missing:?}");
}
